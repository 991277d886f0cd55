// Licensed to the Apache Software Foundation (ASF) under one
// or more contributor license agreements.  See the NOTICE file
// distributed with this work for additional information
// regarding copyright ownership.  The ASF licenses this file
// to you under the Apache License, Version 2.0 (the
// "License"); you may not use this file except in compliance
// with the License.  You may obtain a copy of the License at
//
//   http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing,
// software distributed under the License is distributed on an
// "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY
// KIND, either express or implied.  See the License for the
// specific language governing permissions and limitations
// under the License.

//! The entries of each group: read from a data directory, built in, or generated.
//!
//! The data directory is laid out like upstream's repository. Without one the
//! three benchmarks are represented by a few queries of our own over the same
//! tables, which exercise the same features but are not the benchmarks.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use crate::schemas::{self, DEEP_TABLES, WIDTHS};

/// A group of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Group {
    /// TPC-H
    Tpch,
    /// ClickBench
    Clickbench,
    /// The join-order queries
    Imdb,
    /// Many columns
    Wide,
    /// Many nested or chained relations
    Deep,
    /// `Expr::to_field` alone
    #[value(name = "to_field")]
    ToField,
}

impl Group {
    /// All groups, in the order in which they run.
    pub const ALL: [Group; 6] = [
        Group::Tpch,
        Group::Clickbench,
        Group::Imdb,
        Group::Wide,
        Group::Deep,
        Group::ToField,
    ];

    /// Name in entries, options and results.
    pub fn name(self) -> &'static str {
        match self {
            Group::Tpch => "tpch",
            Group::Clickbench => "clickbench",
            Group::Imdb => "imdb",
            Group::Wide => "wide",
            Group::Deep => "deep",
            Group::ToField => "to_field",
        }
    }

    /// Whether the entries are single calls rather than plans. They explain
    /// results and are not judged.
    pub fn is_micro(self) -> bool {
        self == Group::ToField
    }

    /// Where the entries come from, given a data directory or none.
    pub fn source(self, data: Option<&Path>) -> Source {
        match (self, data) {
            (Group::Wide | Group::Deep | Group::ToField, _) => Source::Generated,
            (_, Some(_)) => Source::Files,
            (_, None) => Source::BuiltIn,
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a group's entries come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Query files of the data directory
    Files,
    /// Queries in this file
    BuiltIn,
    /// Made by a rule
    Generated,
}

/// What an entry measures.
#[derive(Clone, Debug)]
pub enum Work {
    /// Planning of this query
    Plan(String),
    /// `Expr::to_field` on as many columns
    ToField(usize),
}

/// One thing to measure.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its group
    pub group: Group,
    /// Name within the group
    pub name: String,
    /// `CREATE VIEW` statements that must have run before
    pub views: Vec<String>,
    /// What to measure
    pub work: Work,
}

impl Entry {
    /// `group/name`
    pub fn id(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }

    /// An entry from SQL text: views, one query, and statements that drop views.
    fn from_text(group: Group, name: &str, text: &str) -> Result<Self> {
        let mut views = vec![];
        let mut query = None;
        for statement in statements(text) {
            let start: Vec<String> = statement
                .split_whitespace()
                .take(2)
                .map(str::to_lowercase)
                .collect();
            match start.join(" ").as_str() {
                "create view" => views.push(statement),
                "drop view" => {}
                _ => {
                    ensure!(query.is_none(), "{group}/{name}: more than one query");
                    query = Some(statement);
                }
            }
        }
        Ok(Self {
            group,
            name: name.to_string(),
            views,
            work: Work::Plan(query.with_context(|| format!("{group}/{name}: no query"))?),
        })
    }

    /// An entry for a query without views.
    fn query(group: Group, name: String, sql: String) -> Self {
        Self {
            group,
            name,
            views: vec![],
            work: Work::Plan(sql),
        }
    }
}

/// The entries of `group`; those of the benchmarks from `data` if it is given.
pub fn load(group: Group, data: Option<&Path>) -> Result<Vec<Entry>> {
    let (directory, built_in) = match group {
        Group::Tpch => ("benchmarks/queries", TPCH),
        Group::Clickbench => ("benchmarks/queries/clickbench/queries", CLICKBENCH),
        Group::Imdb => ("benchmarks/queries/imdb", IMDB),
        Group::Wide => return Ok(wide()),
        Group::Deep => return Ok(deep()),
        Group::ToField => return Ok(to_field()),
    };
    match data {
        Some(data) => read(group, &data.join(directory)),
        None => built_in
            .iter()
            .map(|(name, text)| Entry::from_text(group, name, text))
            .collect(),
    }
}

/// Reads the query files of a directory, in the order of their numbers.
fn read(group: Group, directory: &Path) -> Result<Vec<Entry>> {
    let mut files = vec![];
    let listing = fs::read_dir(directory)
        .with_context(|| format!("queries of {group}: {}", directory.display()))?;
    for file in listing {
        let path = file?.path();
        let name = path.file_stem().and_then(|stem| stem.to_str());
        if let Some(name) = name
            && path.is_file()
            && path.extension().is_some_and(|extension| extension == "sql")
            // TPC-H shares its directory with a few files of other names.
            && (group != Group::Tpch || name.starts_with('q'))
        {
            files.push((number_order(name), name.to_string(), path.clone()));
        }
    }
    if files.is_empty() {
        bail!("no queries of {group} in {}", directory.display());
    }
    files.sort();
    files
        .into_iter()
        .map(|(_, name, path)| {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            Entry::from_text(group, &name, &text)
        })
        .collect()
}

/// Splits `q10` into `("q", 10, "")` and `10a` into `("", 10, "a")`, so that 2
/// comes before 10.
fn number_order(name: &str) -> (String, u64, String) {
    let digits = name
        .find(|c: char| c.is_ascii_digit())
        .unwrap_or(name.len());
    let (prefix, rest) = name.split_at(digits);
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    (
        prefix.to_string(),
        number.parse().unwrap_or(0),
        suffix.to_string(),
    )
}

/// The statements of SQL text, without comments and empty ones.
fn statements(text: &str) -> Vec<String> {
    let mut statements = vec![];
    let mut current = String::new();
    let mut quote: Option<char> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if let Some(end) = quote {
            current.push(c);
            // A doubled quote closes and opens again, which comes to the same.
            if c == end {
                quote = None;
            }
            continue;
        }
        match c {
            '\'' | '"' => {
                quote = Some(c);
                current.push(c);
            }
            '-' if chars.peek() == Some(&'-') => {
                for skipped in chars.by_ref() {
                    if skipped == '\n' {
                        break;
                    }
                }
                current.push('\n');
            }
            '/' if chars.peek() == Some(&'*') => {
                chars.next();
                let mut last = ' ';
                for skipped in chars.by_ref() {
                    if last == '*' && skipped == '/' {
                        break;
                    }
                    last = skipped;
                }
                current.push(' ');
            }
            ';' => statements.push(std::mem::take(&mut current)),
            _ => current.push(c),
        }
    }
    statements.push(current);
    statements
        .iter()
        .map(|statement| statement.trim().to_string())
        .filter(|statement| !statement.is_empty())
        .collect()
}

/// Plans over tables with many columns.
fn wide() -> Vec<Entry> {
    let mut entries = vec![];
    for width in [10, 100, 300, 1000] {
        let table = schemas::wide_table(width);
        let list = |item: &dyn Fn(usize) -> String, separator: &str| {
            (0..width).map(item).collect::<Vec<_>>().join(separator)
        };
        let columns = list(&|i| format!("c{i}"), ", ");
        let computed = list(&|i| format!("c{i} + 1 AS a{i}"), ", ");
        let conjuncts = list(&|i| format!("c{i} > {i}"), " AND ");
        let sums = list(&|i| format!("sum(c{i}) AS s{i}"), ", ");
        for (name, sql) in [
            ("project", format!("SELECT {columns} FROM {table}")),
            ("compute", format!("SELECT {computed} FROM {table}")),
            (
                "filter",
                format!("SELECT c0 FROM {table} WHERE {conjuncts}"),
            ),
            (
                "aggregate",
                format!("SELECT c0, {sums} FROM {table} GROUP BY c0"),
            ),
        ] {
            entries.push(Entry::query(Group::Wide, format!("{name}_{width}"), sql));
        }
    }
    entries
}

/// Plans with many relations, side by side or inside each other.
fn deep() -> Vec<Entry> {
    let mut entries = vec![];
    let mut add = |name: String, sql: String| {
        entries.push(Entry::query(Group::Deep, name, sql));
    };
    for branches in [10, 50] {
        let sql = (0..branches)
            .map(|i| {
                let table = i % DEEP_TABLES;
                format!("SELECT id, a, s FROM d{table} WHERE b > {i}")
            })
            .collect::<Vec<_>>()
            .join(" UNION ALL ");
        add(format!("union_{branches}"), sql);
    }
    for depth in [3, 5, 10] {
        // From the innermost subquery outwards.
        let mut sql = format!("SELECT a FROM d{depth} WHERE b > 0");
        for level in (0..depth).rev() {
            sql = format!("SELECT a FROM d{level} WHERE b > {level} AND parent IN ({sql})");
        }
        add(format!("in_{depth}"), sql);
    }
    for depth in [3, 5, 10] {
        let mut sql = String::new();
        for level in (1..=depth).rev() {
            let parent = level - 1;
            let inner = if sql.is_empty() {
                String::new()
            } else {
                format!(" AND EXISTS ({sql})")
            };
            sql = format!("SELECT 1 FROM d{level} WHERE d{level}.id = d{parent}.parent{inner}");
        }
        add(
            format!("exists_{depth}"),
            format!("SELECT a, b FROM d0 WHERE b > 0 AND EXISTS ({sql})"),
        );
    }
    for depth in [10, 30] {
        let mut sql = "SELECT id, a, b, s FROM d0".to_string();
        for level in 0..depth {
            sql = format!(
                "SELECT id, a + {level} AS a, b, s FROM ({sql}) AS q{level} WHERE b > {level}"
            );
        }
        add(format!("derived_{depth}"), sql);
    }
    for tables in [8, 16] {
        let mut sql = format!("SELECT d0.a, d{}.b, d0.s FROM d0", tables - 1);
        for i in 1..tables {
            sql.push_str(&format!(" JOIN d{i} ON d{}.parent = d{i}.id", i - 1));
        }
        sql.push_str(" WHERE d0.b > 5 AND d1.a < 100");
        add(format!("join_{tables}"), sql);
    }
    entries
}

/// The micro entries.
fn to_field() -> Vec<Entry> {
    WIDTHS
        .iter()
        .map(|width| Entry {
            group: Group::ToField,
            name: width.to_string(),
            views: vec![],
            work: Work::ToField(*width),
        })
        .collect()
}

/// Queries over the tables of TPC-H.
const TPCH: &[(&str, &str)] = &[
    (
        "grouping",
        "SELECT l_shipmode, l_returnflag, count(*) AS n, sum(l_quantity) AS quantity,
             avg(l_extendedprice) AS mean_price,
             sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charged
         FROM lineitem
         WHERE l_receiptdate <= DATE '1997-06-30'
         GROUP BY l_shipmode, l_returnflag
         ORDER BY l_shipmode, l_returnflag",
    ),
    (
        "cheapest_supplier",
        "SELECT p_partkey, s_name, ps_supplycost
         FROM part
         JOIN partsupp ON p_partkey = ps_partkey
         JOIN supplier ON s_suppkey = ps_suppkey
         WHERE p_size BETWEEN 10 AND 20
           AND ps_supplycost = (
               SELECT min(other.ps_supplycost) FROM partsupp AS other
               WHERE other.ps_partkey = p_partkey)
         ORDER BY p_partkey
         LIMIT 50",
    ),
    (
        "late_orders",
        "SELECT o_orderpriority, count(*) AS orders_late
         FROM orders
         WHERE EXISTS (
               SELECT 1 FROM lineitem
               WHERE l_orderkey = o_orderkey AND l_receiptdate > l_commitdate)
           AND NOT EXISTS (
               SELECT 1 FROM lineitem AS r
               WHERE r.l_orderkey = o_orderkey AND r.l_returnflag = 'R')
         GROUP BY o_orderpriority
         ORDER BY orders_late DESC",
    ),
    (
        "segment_share",
        "SELECT n_name, extract(year FROM o_orderdate) AS order_year,
             sum(CASE WHEN c_mktsegment = 'MACHINERY' THEN l_extendedprice ELSE 0 END)
                 / sum(l_extendedprice) AS segment_share
         FROM customer, orders, lineitem, nation, region
         WHERE c_custkey = o_custkey
           AND l_orderkey = o_orderkey
           AND c_nationkey = n_nationkey
           AND n_regionkey = r_regionkey
           AND r_name IN ('ASIA', 'AFRICA')
           AND o_orderdate >= DATE '1994-01-01'
           AND o_orderdate < DATE '1994-01-01' + INTERVAL '2' YEAR
         GROUP BY n_name, order_year
         ORDER BY n_name, order_year",
    ),
    (
        "income_view",
        "CREATE VIEW supplier_income (supplier_id, income) AS
         SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount))
         FROM lineitem
         WHERE l_shipdate >= DATE '1995-03-01'
         GROUP BY l_suppkey;

         SELECT s_name, s_phone, income
         FROM supplier JOIN supplier_income ON s_suppkey = supplier_id
         WHERE income > (SELECT avg(income) FROM supplier_income)
         ORDER BY income DESC;

         DROP VIEW supplier_income;",
    ),
    (
        "running_total",
        "SELECT c_name, o_orderdate,
             sum(o_totalprice) OVER (PARTITION BY c_custkey ORDER BY o_orderdate) AS running,
             rank() OVER (PARTITION BY c_custkey ORDER BY o_totalprice DESC) AS place
         FROM customer JOIN orders ON c_custkey = o_custkey
         WHERE c_acctbal > 0",
    ),
    (
        "suppliers_of_parts",
        "SELECT offers, count(*) AS parts
         FROM (
             SELECT p_partkey, count(ps_suppkey) AS offers
             FROM part LEFT JOIN partsupp
                 ON p_partkey = ps_partkey AND ps_comment NOT LIKE '%slow%'
             WHERE p_brand <> 'Brand#33'
             GROUP BY p_partkey
         ) AS per_part
         GROUP BY offers
         HAVING count(*) > 1
         ORDER BY parts DESC, offers",
    ),
    (
        "quiet_customers",
        "SELECT substr(c_phone, 1, 2) AS country, count(*) AS n, sum(c_acctbal) AS balance
         FROM customer
         WHERE substr(c_phone, 1, 2) IN ('11', '21', '31')
           AND c_acctbal > (SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0)
           AND c_custkey NOT IN (
               SELECT o_custkey FROM orders WHERE o_orderdate > DATE '1998-01-01')
         GROUP BY country
         ORDER BY country",
    ),
];

/// Queries over ClickBench's table.
const CLICKBENCH: &[(&str, &str)] = &[
    (
        "count",
        r#"SELECT count(*) FROM hits WHERE "IsMobile" = 1 AND "URL" <> ''"#,
    ),
    (
        "extremes",
        r#"SELECT min("EventDate"), max("EventDate"), count(DISTINCT "UserID") FROM hits"#,
    ),
    (
        "regions",
        r#"SELECT "RegionID", count(DISTINCT "UserID") AS visitors, avg("ResolutionWidth")
           FROM hits
           GROUP BY "RegionID"
           ORDER BY visitors DESC
           LIMIT 20"#,
    ),
    (
        "phrases",
        r#"SELECT "SearchPhrase", "OS", count(*) AS c
           FROM hits
           WHERE "SearchPhrase" <> '' AND "Age" BETWEEN 20 AND 40
           GROUP BY "SearchPhrase", "OS"
           ORDER BY c DESC
           LIMIT 15"#,
    ),
    (
        "all_columns",
        r#"SELECT * FROM hits WHERE "Title" LIKE '%news%' ORDER BY "EventTime" DESC LIMIT 5"#,
    ),
    (
        "sums",
        r#"SELECT sum("WindowClientWidth"), sum("WindowClientWidth" + 1),
               sum("WindowClientWidth" + 2), sum("WindowClientWidth" + 3),
               sum("WindowClientWidth" + 4), sum("WindowClientWidth" + 5),
               sum("WindowClientHeight"), sum("WindowClientHeight" * 2),
               sum("WindowClientHeight" * 3), sum("WindowClientHeight" * 4),
               avg("WindowClientWidth" * "WindowClientHeight"), max("SendTiming")
           FROM hits"#,
    ),
    (
        "hours",
        r#"SELECT date_trunc('hour', to_timestamp_seconds("EventTime")) AS slot, count(*) AS views
           FROM hits
           WHERE "EventDate" BETWEEN '2013-07-05' AND '2013-07-09' AND "DontCountHits" = 0
           GROUP BY slot
           ORDER BY slot
           LIMIT 48"#,
    ),
    (
        "sites",
        r#"SELECT CASE WHEN "AdvEngineID" = 0 THEN 'organic' ELSE "Referer" END AS origin,
               regexp_replace("URL", '^https?://([^/]+)/.*$', '\1') AS site,
               avg(length("URL")) AS l, count(*) AS c
           FROM hits
           WHERE "URL" <> ''
           GROUP BY origin, site
           HAVING count(*) > 100
           ORDER BY c DESC
           LIMIT 25"#,
    ),
];

/// Queries over the tables of the join-order benchmark.
const IMDB: &[(&str, &str)] = &[
    (
        "keyword_3",
        "SELECT min(t.title) AS first_title
         FROM title AS t, movie_keyword AS mk, keyword AS k
         WHERE t.id = mk.movie_id AND k.id = mk.keyword_id
           AND k.keyword LIKE '%space%' AND t.production_year > 1990",
    ),
    (
        "company_4",
        "SELECT min(cn.name) AS company, min(t.title) AS first_title
         FROM company_name AS cn, company_type AS ct, movie_companies AS mc, title AS t
         WHERE cn.id = mc.company_id AND ct.id = mc.company_type_id AND t.id = mc.movie_id
           AND ct.kind = 'distributors' AND cn.country_code <> '[us]'
           AND (mc.note LIKE '%(VHS)%' OR mc.note LIKE '%(DVD)%')
           AND t.production_year BETWEEN 1980 AND 1995",
    ),
    (
        "role_4",
        "SELECT min(n.name) AS person, min(t.title) AS first_title
         FROM cast_info AS ci, name AS n, role_type AS rt, title AS t
         WHERE n.id = ci.person_id AND rt.id = ci.role_id AND t.id = ci.movie_id
           AND rt.role = 'director' AND n.gender = 'f' AND n.name LIKE 'A%'",
    ),
    (
        "rating_5",
        "SELECT min(mi.info) AS released, min(mx.info) AS rating, min(t.title) AS first_title
         FROM movie_info AS mi, movie_info_idx AS mx, info_type AS i1, info_type AS i2,
             title AS t
         WHERE mi.movie_id = t.id AND mx.movie_id = t.id AND mi.movie_id = mx.movie_id
           AND mi.info_type_id = i1.id AND mx.info_type_id = i2.id
           AND i1.info = 'release dates' AND i2.info = 'rating'
           AND mx.info > '7.5' AND mi.note IS NOT NULL",
    ),
    (
        "links_6",
        "SELECT min(a.title) AS original, min(b.title) AS follower
         FROM movie_link AS ml, link_type AS lt, title AS a, title AS b, kind_type AS ka,
             kind_type AS kb
         WHERE ml.movie_id = a.id AND ml.linked_movie_id = b.id AND ml.link_type_id = lt.id
           AND a.kind_id = ka.id AND b.kind_id = kb.id AND ka.kind = kb.kind
           AND lt.link IN ('followed by', 'remade as')
           AND a.production_year < b.production_year",
    ),
    (
        "languages_8",
        "SELECT min(t.title) AS first_title, min(cn.name) AS company
         FROM title AS t, kind_type AS kt, movie_info AS mi, info_type AS i1,
             movie_companies AS mc, company_name AS cn, keyword AS k, movie_keyword AS mk
         WHERE t.kind_id = kt.id AND t.id = mi.movie_id AND t.id = mc.movie_id
           AND t.id = mk.movie_id AND mi.movie_id = mc.movie_id AND mc.movie_id = mk.movie_id
           AND mi.info_type_id = i1.id AND mc.company_id = cn.id AND mk.keyword_id = k.id
           AND kt.kind = 'movie' AND i1.info = 'languages'
           AND mi.info IN ('Danish', 'Finnish', 'Norwegian')
           AND k.keyword IN ('forest', 'lake', 'winter') AND t.production_year >= 2000",
    ),
    (
        "complete_8",
        "SELECT min(ch.name) AS played, min(n.name) AS person, min(t.title) AS first_title
         FROM complete_cast AS cc, comp_cast_type AS c1, comp_cast_type AS c2,
             cast_info AS ci, char_name AS ch, name AS n, title AS t, role_type AS rt
         WHERE cc.subject_id = c1.id AND cc.status_id = c2.id AND cc.movie_id = t.id
           AND ci.movie_id = t.id AND ci.movie_id = cc.movie_id
           AND ci.person_role_id = ch.id AND ci.person_id = n.id AND ci.role_id = rt.id
           AND c1.kind = 'cast' AND c2.kind LIKE 'complete%'
           AND rt.role IN ('actor', 'actress') AND ch.name LIKE '%captain%'",
    ),
    (
        "biographies_12",
        "SELECT min(aka.name) AS alias_name, min(pi.info) AS biography, min(t.title) AS first_title
         FROM aka_name AS aka, name AS n, person_info AS pi, info_type AS i1,
             cast_info AS ci, title AS t, movie_companies AS mc, company_name AS cn,
             company_type AS ct, movie_keyword AS mk, keyword AS k, role_type AS rt
         WHERE aka.person_id = n.id AND pi.person_id = n.id AND ci.person_id = n.id
           AND aka.person_id = ci.person_id AND pi.person_id = ci.person_id
           AND pi.info_type_id = i1.id AND ci.movie_id = t.id AND mc.movie_id = t.id
           AND mk.movie_id = t.id AND mc.movie_id = mk.movie_id
           AND mc.company_id = cn.id AND mc.company_type_id = ct.id
           AND mk.keyword_id = k.id AND ci.role_id = rt.id
           AND i1.info = 'mini biography' AND ct.kind <> 'distributors'
           AND cn.country_code = '[gb]' AND rt.role = 'writer'
           AND k.keyword LIKE 'based-on%' AND pi.note IS NOT NULL
           AND (n.gender = 'f' OR n.name LIKE 'B%')
           AND t.production_year BETWEEN 1960 AND 2010",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_statements() {
        let text = "-- it's; a comment\nselect 'a;b--c', \"x\"\"y;\" /* ; ' */ from t;\n\n;\nselect 2 -- end";
        assert_eq!(
            statements(text),
            ["select 'a;b--c', \"x\"\"y;\"   from t", "select 2"]
        );
    }

    #[test]
    fn takes_views_apart() {
        let text = "CREATE  VIEW v AS SELECT 1;\nSELECT * FROM v;\ndrop view v;";
        let entry = Entry::from_text(Group::Tpch, "q", text).unwrap();
        assert_eq!(entry.views, ["CREATE  VIEW v AS SELECT 1"]);
        assert!(matches!(&entry.work, Work::Plan(sql) if sql == "SELECT * FROM v"));
        assert!(Entry::from_text(Group::Tpch, "q", "select 1; select 2").is_err());
        assert!(Entry::from_text(Group::Tpch, "q", "-- nothing").is_err());
    }

    #[test]
    fn orders_by_number() {
        let mut names = ["10a", "2b", "q10", "2a", "q2"];
        names.sort_by_key(|name| number_order(name));
        assert_eq!(names, ["2a", "2b", "10a", "q2", "q10"]);
    }

    #[test]
    fn groups_have_entries_with_unique_names() {
        for group in Group::ALL {
            let entries = load(group, None).unwrap();
            let mut names: Vec<_> = entries.iter().map(Entry::id).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), entries.len());
            assert!(names.len() >= 6, "{group}");
        }
    }
}
