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

//! `ballista` with its scheduler and executor in this process: the client
//! serializes the logical plan (`datafusion-proto`), the scheduler plans it and
//! cuts it into stages at its shuffles, the executor gets each stage as a
//! serialized physical plan, and the result comes back over Arrow Flight. The
//! queries have the shapes of TPC-H over TPC-H data at a tiny scale, in several
//! files per large table. Every one runs distributed and in a plain session over
//! the same files; prices are decimals, so both must agree to the last digit.

use ballista::prelude::{SessionConfigExt, SessionContextExt};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{CsvReadOptions, SessionConfig, SessionContext};
use drop_in::{query, rows};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tpchgen::csv::{CustomerCsv, LineItemCsv, NationCsv, OrderCsv, RegionCsv, SupplierCsv};
use tpchgen::distribution::Distributions;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, RegionGenerator,
    SupplierGenerator,
};
use tpchgen::text::TextPool;

const SCALE: f64 = 0.001;
const DELIMITER: char = '|';
const LINEITEM_FILES: i32 = 3;
const ORDERS_FILES: i32 = 2;
/// A distributed query that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(240);

/// Comments are cut from a pool of text. No query here reads them, so a small
/// pool does, where the default one of the generator has 300 MB.
fn text_pool() -> TextPool {
    TextPool::new(1024 * 1024, Distributions::static_default())
}

fn write_file<R: Display>(
    dir: &Path,
    table: &str,
    part: i32,
    header: String,
    lines: impl Iterator<Item = R>,
) {
    let dir = dir.join(table);
    std::fs::create_dir_all(&dir).expect("a directory for the table");
    let file = File::create(dir.join(format!("part-{part}.csv"))).expect("a file");
    let mut out = BufWriter::new(file);
    writeln!(out, "{header}").expect("the header");
    for line in lines {
        writeln!(out, "{line}").expect("a line");
    }
    out.flush().expect("the whole file");
}

/// Writes the tables, one directory each.
fn write_tables(dir: &Path) {
    let words = Distributions::static_default();
    let pool = text_pool();
    let d = DELIMITER;
    write_file(
        dir,
        "region",
        1,
        RegionCsv::header_with_delimiter(d),
        RegionGenerator::new_with_distributions_and_text_pool(words, &pool)
            .iter()
            .map(|row| RegionCsv::with_delimiter(row, d)),
    );
    write_file(
        dir,
        "nation",
        1,
        NationCsv::header_with_delimiter(d),
        NationGenerator::new_with_distributions_and_text_pool(words, &pool)
            .iter()
            .map(|row| NationCsv::with_delimiter(row, d)),
    );
    write_file(
        dir,
        "supplier",
        1,
        SupplierCsv::header_with_delimiter(d),
        SupplierGenerator::new_with_distributions_and_text_pool(SCALE, 1, 1, words, &pool)
            .iter()
            .map(|row| SupplierCsv::with_delimiter(row, d)),
    );
    write_file(
        dir,
        "customer",
        1,
        CustomerCsv::header_with_delimiter(d),
        CustomerGenerator::new_with_distributions_and_text_pool(SCALE, 1, 1, words, &pool)
            .iter()
            .map(|row| CustomerCsv::with_delimiter(row, d)),
    );
    for part in 1..=ORDERS_FILES {
        write_file(
            dir,
            "orders",
            part,
            OrderCsv::header_with_delimiter(d),
            OrderGenerator::new_with_distributions_and_text_pool(
                SCALE,
                part,
                ORDERS_FILES,
                words,
                &pool,
            )
            .iter()
            .map(|row| OrderCsv::with_delimiter(row, d)),
        );
    }
    for part in 1..=LINEITEM_FILES {
        write_file(
            dir,
            "lineitem",
            part,
            LineItemCsv::header_with_delimiter(d),
            LineItemGenerator::new_with_distributions_and_text_pool(
                SCALE,
                part,
                LINEITEM_FILES,
                words,
                &pool,
            )
            .iter()
            .map(|row| LineItemCsv::with_delimiter(row, d)),
        );
    }
}

fn schema(columns: &[(&str, DataType)]) -> Schema {
    let fields = columns
        .iter()
        .map(|(name, data_type)| Field::new(*name, data_type.clone(), false))
        .collect::<Vec<_>>();
    Schema::new(fields)
}

fn tables() -> Vec<(&'static str, Schema)> {
    let int = DataType::Int64;
    let text = DataType::Utf8;
    let date = DataType::Date32;
    let money = DataType::Decimal128(15, 2);
    vec![
        (
            "region",
            schema(&[
                ("r_regionkey", int.clone()),
                ("r_name", text.clone()),
                ("r_comment", text.clone()),
            ]),
        ),
        (
            "nation",
            schema(&[
                ("n_nationkey", int.clone()),
                ("n_name", text.clone()),
                ("n_regionkey", int.clone()),
                ("n_comment", text.clone()),
            ]),
        ),
        (
            "supplier",
            schema(&[
                ("s_suppkey", int.clone()),
                ("s_name", text.clone()),
                ("s_address", text.clone()),
                ("s_nationkey", int.clone()),
                ("s_phone", text.clone()),
                ("s_acctbal", money.clone()),
                ("s_comment", text.clone()),
            ]),
        ),
        (
            "customer",
            schema(&[
                ("c_custkey", int.clone()),
                ("c_name", text.clone()),
                ("c_address", text.clone()),
                ("c_nationkey", int.clone()),
                ("c_phone", text.clone()),
                ("c_acctbal", money.clone()),
                ("c_mktsegment", text.clone()),
                ("c_comment", text.clone()),
            ]),
        ),
        (
            "orders",
            schema(&[
                ("o_orderkey", int.clone()),
                ("o_custkey", int.clone()),
                ("o_orderstatus", text.clone()),
                ("o_totalprice", money.clone()),
                ("o_orderdate", date.clone()),
                ("o_orderpriority", text.clone()),
                ("o_clerk", text.clone()),
                ("o_shippriority", int.clone()),
                ("o_comment", text.clone()),
            ]),
        ),
        (
            "lineitem",
            schema(&[
                ("l_orderkey", int.clone()),
                ("l_partkey", int.clone()),
                ("l_suppkey", int.clone()),
                ("l_linenumber", int.clone()),
                ("l_quantity", money.clone()),
                ("l_extendedprice", money.clone()),
                ("l_discount", money.clone()),
                ("l_tax", money.clone()),
                ("l_returnflag", text.clone()),
                ("l_linestatus", text.clone()),
                ("l_shipdate", date.clone()),
                ("l_commitdate", date.clone()),
                ("l_receiptdate", date.clone()),
                ("l_shipinstruct", text.clone()),
                ("l_shipmode", text.clone()),
                ("l_comment", text.clone()),
            ]),
        ),
    ]
}

async fn register_tables(ctx: &SessionContext, dir: &Path) {
    for (name, schema) in tables() {
        let path = format!("{}/", dir.join(name).display());
        let options = CsvReadOptions::new()
            .has_header(true)
            .delimiter(DELIMITER as u8)
            .schema(&schema);
        ctx.register_csv(name, path, options)
            .await
            .unwrap_or_else(|e| panic!("registering {name}: {e}"));
    }
}

/// The same files in a distributed and in a plain session.
struct Tpch {
    distributed: SessionContext,
    local: SessionContext,
    _dir: TempDir,
}

impl Tpch {
    async fn new(distributed: SessionContext) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        write_tables(dir.path());
        let local = SessionContext::new();
        register_tables(&local, dir.path()).await;
        register_tables(&distributed, dir.path()).await;
        Self {
            distributed,
            local,
            _dir: dir,
        }
    }

    /// A cluster with the session state of a caller.
    async fn with_state() -> Self {
        let config = SessionConfig::new_with_ballista()
            .with_target_partitions(4)
            .with_ballista_standalone_parallelism(4);
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_default_features()
            .build();
        let ctx = SessionContext::standalone_with_state(state)
            .await
            .expect("a cluster");
        Self::new(ctx).await
    }

    /// The rows of `sql` from the cluster.
    async fn rows(&self, sql: &str) -> Vec<String> {
        let frame = self
            .distributed
            .sql(sql)
            .await
            .unwrap_or_else(|e| panic!("planning {sql}: {e}"));
        let plan = frame
            .clone()
            .create_physical_plan()
            .await
            .unwrap_or_else(|e| panic!("physical plan of {sql}: {e}"));
        assert_eq!(
            plan.name(),
            "DistributedQueryExec",
            "a plan for the cluster"
        );
        let batches = tokio::time::timeout(PATIENCE, frame.collect())
            .await
            .unwrap_or_else(|_| panic!("the cluster does not answer {sql}"))
            .unwrap_or_else(|e| panic!("running {sql}: {e}"));
        rows(&batches)
    }

    /// Runs `sql`, which orders its rows, in both sessions.
    async fn same_rows(&self, sql: &str) -> Vec<String> {
        let local = query(&self.local, sql).await;
        assert!(!local.is_empty(), "no row proves nothing: {sql}");
        let distributed = self.rows(sql).await;
        assert_eq!(distributed, local, "distributed and local rows of {sql}");
        distributed
    }
}

/// Plans of six tables recurse deeper than a test thread allows in a debug
/// build; the scheduler of ballista runs with a large stack as well.
fn run(test: impl Future<Output = ()> + Send + 'static) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .thread_stack_size(32 * 1024 * 1024)
        .enable_all()
        .build()
        .expect("a runtime");
    let ended = runtime.block_on(async { tokio::spawn(test).await });
    runtime.shutdown_background();
    if let Err(error) = ended {
        std::panic::resume_unwind(error.into_panic());
    }
}

/// TPC-H fixes region and nation: five regions of five nations each.
#[test]
fn known_rows() {
    run(async {
        let ctx = SessionContext::standalone().await.expect("a cluster");
        let tpch = Tpch::new(ctx).await;
        assert_eq!(tpch.rows("select count(*) from region").await, ["5"]);
        assert_eq!(
            tpch.rows(
                "select r.r_name, count(*) as nations from region as r \
                 join nation as n on n.n_regionkey = r.r_regionkey \
                 group by r.r_name order by r.r_name"
            )
            .await,
            [
                "AFRICA|5",
                "AMERICA|5",
                "ASIA|5",
                "EUROPE|5",
                "MIDDLE EAST|5"
            ]
        );
        assert_eq!(
            tpch.rows(
                "select n_name from nation where n_regionkey in \
                 (select r_regionkey from region where r_name = 'EUROPE') \
                 order by n_name"
            )
            .await,
            ["FRANCE", "GERMANY", "ROMANIA", "RUSSIA", "UNITED KINGDOM"]
        );
    });
}

/// Sums over a table of several files, against sums over the generator's rows.
#[test]
fn sums_of_the_generated_rows() {
    run(async {
        let pool = text_pool();
        let mut sums = BTreeMap::<(String, String), (i64, i64, i64)>::new();
        for line in LineItemGenerator::new_with_distributions_and_text_pool(
            SCALE,
            1,
            1,
            Distributions::static_default(),
            &pool,
        )
        .iter()
        {
            let key = (line.l_returnflag.to_string(), line.l_linestatus.to_string());
            let (lines, quantity, cents) = sums.entry(key).or_default();
            *lines += 1;
            *quantity += line.l_quantity;
            *cents += line.l_extendedprice.into_inner();
        }
        let expected = sums
            .into_iter()
            .map(|((flag, status), (lines, quantity, cents))| {
                format!(
                    "{flag}|{status}|{lines}|{quantity}.00|{}.{:02}",
                    cents / 100,
                    cents % 100
                )
            })
            .collect::<Vec<_>>();
        assert!(expected.len() > 1, "several groups in {expected:?}");

        let tpch = Tpch::with_state().await;
        assert_eq!(
            tpch.rows(
                "select l_returnflag, l_linestatus, count(*) as seen, \
                 sum(l_quantity) as quantity, sum(l_extendedprice) as price \
                 from lineitem group by l_returnflag, l_linestatus \
                 order by l_returnflag, l_linestatus"
            )
            .await,
            expected
        );
    });
}

/// The shape of Q1: one pass over the largest table, many aggregates.
#[test]
fn one_table_summary() {
    run(async {
        let tpch = Tpch::with_state().await;
        tpch.same_rows(
            "select l_shipmode, l_linestatus, count(*) as seen, \
             sum(l_quantity) as quantity, \
             sum(l_extendedprice * (1 - l_discount)) as net, \
             sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as paid, \
             avg(l_discount) as discount, min(l_shipdate), max(l_receiptdate) \
             from lineitem where l_shipdate < date '1998-06-01' \
             group by l_shipmode, l_linestatus \
             having count(*) > 1 \
             order by l_shipmode, l_linestatus",
        )
        .await;
    });
}

/// The shape of Q3: three tables, a group per order, the best few of them.
#[test]
fn orders_still_to_ship() {
    run(async {
        let tpch = Tpch::with_state().await;
        let found = tpch
            .same_rows(
                "select l.l_orderkey, o.o_orderdate, \
                 sum(l.l_extendedprice * (1 - l.l_discount)) as outstanding \
                 from customer as c \
                 join orders as o on o.o_custkey = c.c_custkey \
                 join lineitem as l on l.l_orderkey = o.o_orderkey \
                 where c.c_mktsegment in ('MACHINERY', 'BUILDING') \
                 and o.o_orderdate < date '1995-06-30' \
                 and l.l_shipdate > date '1995-06-30' \
                 group by l.l_orderkey, o.o_orderdate \
                 order by outstanding desc, l.l_orderkey limit 8",
            )
            .await;
        assert!(found.len() <= 8, "the limit holds: {found:?}");
    });
}

/// The shape of Q5: six tables, two conditions on the last join.
#[test]
fn trade_within_a_nation() {
    run(async {
        let tpch = Tpch::with_state().await;
        tpch.same_rows(
            "select r.r_name, n.n_name, count(*) as seen, \
             sum(l.l_extendedprice * (1 - l.l_discount)) as revenue \
             from region as r \
             join nation as n on n.n_regionkey = r.r_regionkey \
             join supplier as s on s.s_nationkey = n.n_nationkey \
             join lineitem as l on l.l_suppkey = s.s_suppkey \
             join orders as o on o.o_orderkey = l.l_orderkey \
             join customer as c on c.c_custkey = o.o_custkey \
             and c.c_nationkey = s.s_nationkey \
             group by r.r_name, n.n_name \
             order by revenue desc, n.n_name",
        )
        .await;
    });
}

/// Subqueries, which become joins before they are distributed.
#[test]
fn subqueries() {
    run(async {
        let tpch = Tpch::with_state().await;
        tpch.same_rows(
            "select o_orderpriority, count(*) as seen from orders \
             where o_totalprice > (select avg(o_totalprice) from orders) \
             group by o_orderpriority order by o_orderpriority",
        )
        .await;
        // TPC-H gives no order to every third customer
        let quiet = tpch
            .same_rows(
                "select count(*) as quiet from customer as c where not exists \
                 (select 1 from orders as o where o.o_custkey = c.c_custkey)",
            )
            .await;
        let quiet = quiet[0].parse::<i64>().expect("a count");
        assert!(quiet >= 50, "{quiet} of 150 customers without an order");
    });
}
