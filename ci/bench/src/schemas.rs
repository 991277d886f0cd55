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

//! The tables that the queries read, as names and types only.
//!
//! Types and nullability are those of DataFusion's own tests for the three
//! benchmarks: strings are `Utf8View` (what SQL's `VARCHAR` becomes), TPC-H has
//! its primary keys, and ClickBench's `hits` is a view that makes a date of the
//! day number in `EventDate`.

/// Column counts of the `wide_N` tables (columns `c0`, `c1`, ... of type `i64`).
pub const WIDTHS: [usize; 6] = [10, 18, 40, 100, 300, 1000];

/// Number of tables `d0`, `d1`, ... for the deep plans.
pub const DEEP_TABLES: usize = 16;

/// Views that exist beside the tables, as SQL.
pub const VIEWS: &[&str] = &[r#"
    CREATE VIEW hits AS
    SELECT * EXCEPT ("EventDate"), CAST(CAST("EventDate" AS INT) AS DATE) AS "EventDate"
    FROM hits_raw
"#];

/// Type of a column, to be turned into an Arrow type by each engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// 16-bit integer
    I16,
    /// 32-bit integer
    I32,
    /// 64-bit integer
    I64,
    /// Unsigned 16-bit integer
    U16,
    /// String view
    Str,
    /// Days since the epoch
    Date,
    /// Decimal with 15 digits, 2 of them after the point
    Decimal,
}

/// A column of a [`Table`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDef {
    /// Name, case sensitive
    pub name: String,
    /// Type
    pub column_type: ColumnType,
    /// False for `NOT NULL`
    pub nullable: bool,
}

/// A table without data.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name, lower case
    pub name: String,
    /// All columns
    pub columns: Vec<ColumnDef>,
    /// Indices of the primary key's columns, empty if there is none
    pub key: Vec<usize>,
}

impl Table {
    /// Reads `columns` (`name: type` pairs between commas, where `!` after a
    /// type means `NOT NULL`) and `key` (column names between commas).
    ///
    /// # Panics
    ///
    /// On text that isn't of this form: all text is in this file.
    fn parse(name: &str, key: &str, columns: &str) -> Self {
        let columns: Vec<ColumnDef> = columns
            .split(',')
            .map(|column| {
                let (name, type_name) = column
                    .split_once(':')
                    .unwrap_or_else(|| panic!("column without a type: {column}"));
                let type_name = type_name.trim();
                let base = type_name.trim_end_matches('!');
                ColumnDef {
                    name: name.trim().to_string(),
                    column_type: match base {
                        "i16" => ColumnType::I16,
                        "i32" => ColumnType::I32,
                        "i64" => ColumnType::I64,
                        "u16" => ColumnType::U16,
                        "str" => ColumnType::Str,
                        "date" => ColumnType::Date,
                        "dec" => ColumnType::Decimal,
                        other => panic!("unknown type {other} of column {name}"),
                    },
                    nullable: base == type_name,
                }
            })
            .collect();
        let key = key
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| {
                columns
                    .iter()
                    .position(|column| column.name == part)
                    .unwrap_or_else(|| panic!("no key column {part} in {name}"))
            })
            .collect();
        Self {
            name: name.to_string(),
            columns,
            key,
        }
    }
}

/// All tables: those of the three benchmarks, `wide_N` and `d0`, `d1`, ...
pub fn tables() -> Vec<Table> {
    let mut tables: Vec<Table> = TPCH
        .iter()
        .chain(CLICKBENCH)
        .chain(IMDB)
        .map(|(name, key, columns)| Table::parse(name, key, columns))
        .collect();
    for width in WIDTHS {
        tables.push(Table {
            name: wide_table(width),
            columns: (0..width)
                .map(|i| ColumnDef {
                    name: format!("c{i}"),
                    column_type: ColumnType::I64,
                    nullable: true,
                })
                .collect(),
            key: vec![],
        });
    }
    for i in 0..DEEP_TABLES {
        tables.push(Table::parse(
            &format!("d{i}"),
            "id",
            "id: i64!, parent: i64, a: i32, b: i32, s: str",
        ));
    }
    tables
}

/// Name of the table with `width` columns.
pub fn wide_table(width: usize) -> String {
    format!("wide_{width}")
}

/// Table name, primary key, columns: see [`Table::parse`].
type TableText = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const TPCH: &[TableText] = &[
    ("supplier", "s_suppkey",
        "s_suppkey: i64, s_name: str, s_address: str, s_nationkey: i64, s_phone: str, \
            s_acctbal: dec, s_comment: str"),
    ("part", "p_partkey",
        "p_partkey: i64, p_name: str, p_mfgr: str, p_brand: str, p_type: str, p_size: i32, \
            p_container: str, p_retailprice: dec, p_comment: str"),
    ("partsupp", "ps_partkey, ps_suppkey",
        "ps_partkey: i64, ps_suppkey: i64, ps_availqty: i32, ps_supplycost: dec, \
            ps_comment: str"),
    ("customer", "c_custkey",
        "c_custkey: i64, c_name: str, c_address: str, c_nationkey: i64, c_phone: str, \
            c_acctbal: dec, c_mktsegment: str, c_comment: str"),
    ("orders", "o_orderkey",
        "o_orderkey: i64, o_custkey: i64, o_orderstatus: str, o_totalprice: dec, \
            o_orderdate: date, o_orderpriority: str, o_clerk: str, o_shippriority: i32, \
            o_comment: str"),
    ("lineitem", "l_orderkey, l_linenumber",
        "l_orderkey: i64, l_partkey: i64, l_suppkey: i64, l_linenumber: i32, l_quantity: dec, \
            l_extendedprice: dec, l_discount: dec, l_tax: dec, l_returnflag: str, \
            l_linestatus: str, l_shipdate: date, l_commitdate: date, l_receiptdate: date, \
            l_shipinstruct: str, l_shipmode: str, l_comment: str"),
    ("nation", "n_nationkey",
        "n_nationkey: i64, n_name: str, n_regionkey: i64, n_comment: str"),
    ("region", "r_regionkey",
        "r_regionkey: i64, r_name: str, r_comment: str"),
];

#[rustfmt::skip]
const CLICKBENCH: &[TableText] = &[
    ("hits_raw", "",
        "WatchID: i64, JavaEnable: i16, Title: str, GoodEvent: i16, EventTime: i64, \
            EventDate: u16, CounterID: i32, ClientIP: i32, RegionID: i32, UserID: i64, \
            CounterClass: i16, OS: i16, UserAgent: i16, URL: str, Referer: str, IsRefresh: i16, \
            RefererCategoryID: i16, RefererRegionID: i32, URLCategoryID: i16, URLRegionID: i32, \
            ResolutionWidth: i16, ResolutionHeight: i16, ResolutionDepth: i16, FlashMajor: i16, \
            FlashMinor: i16, FlashMinor2: str, NetMajor: i16, NetMinor: i16, \
            UserAgentMajor: i16, UserAgentMinor: str, CookieEnable: i16, JavascriptEnable: i16, \
            IsMobile: i16, MobilePhone: i16, MobilePhoneModel: str, Params: str, \
            IPNetworkID: i32, TraficSourceID: i16, SearchEngineID: i16, SearchPhrase: str, \
            AdvEngineID: i16, IsArtifical: i16, WindowClientWidth: i16, \
            WindowClientHeight: i16, ClientTimeZone: i16, ClientEventTime: i64, \
            SilverlightVersion1: i16, SilverlightVersion2: i16, SilverlightVersion3: i32, \
            SilverlightVersion4: i16, PageCharset: str, CodeVersion: i32, IsLink: i16, \
            IsDownload: i16, IsNotBounce: i16, FUniqID: i64, OriginalURL: str, HID: i32, \
            IsOldCounter: i16, IsEvent: i16, IsParameter: i16, DontCountHits: i16, \
            WithHash: i16, HitColor: str, LocalEventTime: i64, Age: i16, Sex: i16, Income: i16, \
            Interests: i16, Robotness: i16, RemoteIP: i32, WindowName: i32, OpenerName: i32, \
            HistoryLength: i16, BrowserLanguage: str, BrowserCountry: str, SocialNetwork: str, \
            SocialAction: str, HTTPError: i16, SendTiming: i32, DNSTiming: i32, \
            ConnectTiming: i32, ResponseStartTiming: i32, ResponseEndTiming: i32, \
            FetchTiming: i32, SocialSourceNetworkID: i16, SocialSourcePage: str, \
            ParamPrice: i64, ParamOrderID: str, ParamCurrency: str, ParamCurrencyID: i16, \
            OpenstatServiceName: str, OpenstatCampaignID: str, OpenstatAdID: str, \
            OpenstatSourceID: str, UTMSource: str, UTMMedium: str, UTMCampaign: str, \
            UTMContent: str, UTMTerm: str, FromTag: str, HasGCLID: i16, RefererHash: i64, \
            URLHash: i64, CLID: i32"),
];

#[rustfmt::skip]
const IMDB: &[TableText] = &[
    ("aka_name", "",
        "id: i32!, person_id: i32!, name: str!, imdb_index: str, name_pcode_cf: str, \
            name_pcode_nf: str, surname_pcode: str, md5sum: str"),
    ("aka_title", "",
        "id: i32!, movie_id: i32!, title: str, imdb_index: str, kind_id: i32!, \
            production_year: i32, phonetic_code: str, episode_of_id: i32, season_nr: i32, \
            episode_nr: i32, note: str, md5sum: str"),
    ("cast_info", "",
        "id: i32!, person_id: i32!, movie_id: i32!, person_role_id: i32, note: str, \
            nr_order: i32, role_id: i32!"),
    ("char_name", "",
        "id: i32!, name: str!, imdb_index: str, imdb_id: i32, name_pcode_nf: str, \
            surname_pcode: str, md5sum: str"),
    ("comp_cast_type", "", "id: i32!, kind: str!"),
    ("company_name", "",
        "id: i32!, name: str!, country_code: str, imdb_id: i32, name_pcode_nf: str, \
            name_pcode_sf: str, md5sum: str"),
    ("company_type", "", "id: i32!, kind: str!"),
    ("complete_cast", "", "id: i32!, movie_id: i32!, subject_id: i32!, status_id: i32!"),
    ("info_type", "", "id: i32!, info: str!"),
    ("keyword", "", "id: i32!, keyword: str!, phonetic_code: str"),
    ("kind_type", "", "id: i32!, kind: str!"),
    ("link_type", "", "id: i32!, link: str!"),
    ("movie_companies", "",
        "id: i32!, movie_id: i32!, company_id: i32!, company_type_id: i32!, note: str"),
    ("movie_info", "",
        "id: i32!, movie_id: i32!, info_type_id: i32!, info: str!, note: str"),
    ("movie_info_idx", "",
        "id: i32!, movie_id: i32!, info_type_id: i32!, info: str!, note: str"),
    ("movie_keyword", "", "id: i32!, movie_id: i32!, keyword_id: i32!"),
    ("movie_link", "", "id: i32!, movie_id: i32!, linked_movie_id: i32!, link_type_id: i32!"),
    ("name", "",
        "id: i32!, name: str!, imdb_index: str, imdb_id: i32, gender: str, \
            name_pcode_cf: str, name_pcode_nf: str, surname_pcode: str, md5sum: str"),
    ("person_info", "",
        "id: i32!, person_id: i32!, info_type_id: i32!, info: str!, note: str"),
    ("role_type", "", "id: i32!, role: str!"),
    ("title", "",
        "id: i32!, title: str!, imdb_index: str, kind_id: i32!, production_year: i32, \
            imdb_id: i32, phonetic_code: str, episode_of_id: i32, season_nr: i32, \
            episode_nr: i32, series_years: str, md5sum: str"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn table_texts_are_well_formed() {
        assert_eq!(TPCH.len(), 8);
        assert_eq!(IMDB.len(), 21);
        let tables = tables();
        let names: HashSet<&str> = tables.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names.len(), tables.len(), "table names are unique");
        for table in &tables {
            let columns: HashSet<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
            assert_eq!(columns.len(), table.columns.len(), "{}", table.name);
        }
        let hits = tables.iter().find(|t| t.name == "hits_raw").unwrap();
        assert_eq!(hits.columns.len(), 105);
    }

    #[test]
    fn parses_nullability_and_key() {
        let table = Table::parse("t", "b, a", "a: i32!, b: str");
        assert!(!table.columns[0].nullable);
        assert!(table.columns[1].nullable);
        assert_eq!(table.columns[1].column_type, ColumnType::Str);
        assert_eq!(table.key, vec![1, 0]);
    }
}
