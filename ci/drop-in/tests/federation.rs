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

//! `datafusion-federation`: an optimizer rule finds the largest part of a plan
//! that reads tables of one remote database only, puts it behind an extension
//! node, renames its tables to their remote names (in `Expr`s and, for unaliased
//! aggregates, inside column names) and turns it into SQL with DataFusion's
//! unparser. The remote database of these tests is another, plain session that
//! writes down the SQL it is sent. Tables have one name here and another there.

use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{PhysicalExpr, SendableRecordBatchStream};
use datafusion::prelude::SessionContext;
use datafusion::sql::unparser::dialect::{DefaultDialect, Dialect};
use datafusion_federation::sql::{
    RemoteTableRef, SQLExecutor, SQLFederationProvider, SQLTableSource,
};
use datafusion_federation::{FederatedTableProviderAdaptor, default_session_state};
use drop_in::{check, collect, ints, register, rows, texts};
use futures::TryStreamExt;
use std::sync::{Arc, Mutex};

/// A database that answers SQL and keeps a list of what it was asked.
struct Remote {
    name: &'static str,
    session: SessionContext,
    received: Mutex<Vec<String>>,
}

impl Remote {
    fn new(name: &'static str) -> Arc<Self> {
        Arc::new(Self {
            name,
            session: SessionContext::new(),
            received: Mutex::new(Vec::new()),
        })
    }

    /// Takes the list of statements since the last call.
    fn received(&self) -> Vec<String> {
        std::mem::take(&mut *self.received.lock().expect("the received SQL"))
    }
}

#[async_trait]
impl SQLExecutor for Remote {
    fn name(&self) -> &str {
        self.name
    }

    fn compute_context(&self) -> Option<String> {
        Some(self.name.to_string())
    }

    fn dialect(&self) -> Arc<dyn Dialect> {
        Arc::new(DefaultDialect {})
    }

    fn execute(
        &self,
        query: &str,
        schema: SchemaRef,
        _filters: &[Arc<dyn PhysicalExpr>],
    ) -> Result<SendableRecordBatchStream> {
        let query = query.to_string();
        self.received
            .lock()
            .expect("the received SQL")
            .push(query.clone());
        let session = self.session.clone();
        let answer = async move { session.sql(&query).await?.execute_stream().await };
        let stream = futures::stream::once(answer).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }

    async fn table_names(&self) -> Result<Vec<String>> {
        Ok(vec![])
    }

    async fn get_table_schema(&self, table_name: &str) -> Result<SchemaRef> {
        let table = self.session.table(table_name).await?;
        Ok(Arc::new(table.schema().as_arrow().clone()))
    }
}

const FACTS: &str = "remote_facts";
const PLACES: &str = "remote_places";

fn facts() -> Vec<(&'static str, ArrayRef)> {
    vec![
        ("id", ints(&[1, 2, 3, 4, 5])),
        ("item", texts(&["apple", "bread", "cider", "dates", "eggs"])),
        ("shop_id", ints(&[1, 1, 2, 2, 3])),
        ("amount", ints(&[10, 25, 40, 5, 20])),
    ]
}

fn places() -> Vec<(&'static str, ArrayRef)> {
    vec![
        ("id", ints(&[1, 2, 3])),
        ("city", texts(&["Oslo", "Rome", "Kyiv"])),
    ]
}

/// Makes the table `there` of `remote` known to `ctx` as `here`.
async fn federate(ctx: &SessionContext, here: &str, remote: &Arc<Remote>, there: &str) {
    let executor: Arc<dyn SQLExecutor> = remote.clone();
    let provider = Arc::new(SQLFederationProvider::new(executor));
    let table = RemoteTableRef::try_from(there).expect("a table name");
    let source = SQLTableSource::new(provider, table)
        .await
        .expect("the schema of the remote table");
    let adaptor = FederatedTableProviderAdaptor::new(Arc::new(source));
    ctx.register_table(here, Arc::new(adaptor))
        .expect("a free table name");
}

/// `sales` and `stores` of one remote database, which calls them otherwise.
async fn federated() -> (SessionContext, Arc<Remote>) {
    let remote = Remote::new("warehouse");
    register(&remote.session, FACTS, facts());
    register(&remote.session, PLACES, places());
    let ctx = SessionContext::new_with_state(default_session_state());
    federate(&ctx, "sales", &remote, FACTS).await;
    federate(&ctx, "stores", &remote, PLACES).await;
    (ctx, remote)
}

/// The one statement `remote` was sent, in lower case. It must come from the
/// unparser after the renaming: all of `there` in it, no local name.
fn statement(remote: &Remote, there: &[&str]) -> String {
    let received = remote.received();
    assert_eq!(received.len(), 1, "one statement in {received:#?}");
    let sql = received[0].to_lowercase();
    for name in there {
        assert!(sql.contains(name), "no {name} in {sql}");
    }
    for name in ["sales", "stores"] {
        assert!(!sql.contains(name), "the local name {name} in {sql}");
    }
    sql
}

#[tokio::test]
async fn filter_and_projection_with_alias() {
    let (ctx, remote) = federated().await;
    check(
        &ctx,
        "select item as thing, amount * 2 as doubled from sales \
         where amount > 15 order by thing",
        &["bread|50", "cider|80", "eggs|40"],
    )
    .await;
    let sql = statement(&remote, &[FACTS, "doubled"]);
    assert!(sql.contains(" where "), "the remote filters: {sql}");
    assert!(sql.contains(" order by "), "the remote sorts: {sql}");

    check(
        &ctx,
        "select item, amount from sales order by amount desc limit 2",
        &["cider|40", "bread|25"],
    )
    .await;
    let sql = statement(&remote, &[FACTS]);
    assert!(sql.contains(" limit 2"), "the remote limits: {sql}");
}

#[tokio::test]
async fn join_of_two_federated_tables() {
    let (ctx, remote) = federated().await;
    check(
        &ctx,
        "select s.item, p.city from sales as s join stores as p on s.shop_id = p.id \
         where p.city <> 'Rome' order by s.item",
        &["apple|Oslo", "bread|Oslo", "eggs|Kyiv"],
    )
    .await;
    let sql = statement(&remote, &[FACTS, PLACES]);
    assert!(sql.contains(" join "), "the remote joins: {sql}");

    // columns qualified by the local table names
    check(
        &ctx,
        "select sales.item, stores.city from sales \
         join stores on sales.shop_id = stores.id order by sales.item",
        &[
            "apple|Oslo",
            "bread|Oslo",
            "cider|Rome",
            "dates|Rome",
            "eggs|Kyiv",
        ],
    )
    .await;
    let sql = statement(&remote, &[FACTS, PLACES]);
    assert!(sql.contains(" join "), "the remote joins: {sql}");
}

#[tokio::test]
async fn unaliased_aggregates() {
    let (ctx, remote) = federated().await;
    let batches = collect(&ctx, "select count(*), sum(amount) from sales").await;
    assert_eq!(rows(&batches), ["5|100"]);
    let sql = statement(&remote, &[FACTS]);
    assert!(
        sql.contains("count(") && sql.contains("sum("),
        "the remote aggregates: {sql}"
    );

    // here the columns keep the name the query gives them
    let schema = batches[0].schema();
    let names = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect::<Vec<_>>();
    assert_eq!(names, ["count(*)", "sum(sales.amount)"]);
}

#[tokio::test]
async fn group_by_with_having() {
    let (ctx, remote) = federated().await;
    // 35 in shop 1, 45 in shop 2, 20 in shop 3
    check(
        &ctx,
        "select shop_id, sum(amount) from sales group by shop_id \
         having sum(amount) > 30 order by shop_id",
        &["1|35", "2|45"],
    )
    .await;
    let sql = statement(&remote, &[FACTS]);
    assert!(sql.contains(" group by "), "the remote groups: {sql}");
    assert!(sql.contains(" having "), "the remote filters groups: {sql}");

    check(
        &ctx,
        "select p.city, sum(s.amount) as total, count(*) as seen \
         from sales as s join stores as p on s.shop_id = p.id \
         group by p.city having count(*) > 1 order by total desc",
        &["Rome|45|2", "Oslo|35|2"],
    )
    .await;
    statement(&remote, &[FACTS, PLACES]);
}

#[tokio::test]
async fn subqueries() {
    let (ctx, remote) = federated().await;
    check(
        &ctx,
        "select item from sales where amount = (select max(amount) from sales)",
        &["cider"],
    )
    .await;
    let sql = statement(&remote, &[FACTS]);
    assert!(sql.contains("max("), "the remote runs the subquery: {sql}");

    check(
        &ctx,
        "select t.city, t.total from \
         (select p.city as city, sum(s.amount) as total \
          from sales as s join stores as p on s.shop_id = p.id group by p.city) as t \
         where t.total > 25 order by t.city",
        &["Oslo|35", "Rome|45"],
    )
    .await;
    statement(&remote, &[FACTS, PLACES]);
}

/// IN is a semi join by the time the plan is federated, and EXISTS in its SQL.
#[tokio::test]
async fn in_subquery() {
    let (ctx, remote) = federated().await;
    check(
        &ctx,
        "select item from sales where shop_id in \
         (select id from stores where city = 'Rome') order by item",
        &["cider", "dates"],
    )
    .await;
    statement(&remote, &[FACTS, PLACES]);
}

#[tokio::test]
async fn join_with_a_local_table() {
    let (ctx, remote) = federated().await;
    register(
        &ctx,
        "notes",
        vec![
            ("item", texts(&["apple", "eggs", "plum"])),
            ("note", texts(&["ripe", "fresh", "missing"])),
        ],
    );
    check(
        &ctx,
        "select s.item, n.note, s.amount from sales as s \
         join notes as n on s.item = n.item order by s.item",
        &["apple|ripe|10", "eggs|fresh|20"],
    )
    .await;
    let sql = statement(&remote, &[FACTS]);
    assert!(!sql.contains("notes"), "a local table in {sql}");
}

#[tokio::test]
async fn join_across_two_remotes() {
    let east = Remote::new("east");
    register(&east.session, FACTS, facts());
    let west = Remote::new("west");
    register(&west.session, PLACES, places());
    let ctx = SessionContext::new_with_state(default_session_state());
    federate(&ctx, "sales", &east, FACTS).await;
    federate(&ctx, "stores", &west, PLACES).await;

    check(
        &ctx,
        "select p.city, sum(s.amount) as total from sales as s \
         join stores as p on s.shop_id = p.id group by p.city order by p.city",
        &["Kyiv|20", "Oslo|35", "Rome|45"],
    )
    .await;
    let sql = statement(&east, &[FACTS]);
    assert!(
        !sql.contains(PLACES),
        "a table of the other remote in {sql}"
    );
    let sql = statement(&west, &[PLACES]);
    assert!(!sql.contains(FACTS), "a table of the other remote in {sql}");
}

/// Without the rule of the crate the table cannot be read, so every row above
/// went through it.
#[tokio::test]
async fn without_the_rule_nothing_is_sent() {
    let remote = Remote::new("warehouse");
    register(&remote.session, FACTS, facts());
    let ctx = SessionContext::new();
    federate(&ctx, "sales", &remote, FACTS).await;
    let error = ctx
        .sql("select item from sales")
        .await
        .expect("a logical plan")
        .collect()
        .await
        .expect_err("a federated table without federation");
    assert!(error.to_string().contains("cannot scan"), "{error}");
    assert!(remote.received().is_empty(), "nothing is sent");
}
