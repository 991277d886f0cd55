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

//! `datafusion-functions-json`: scalar functions over JSON text, the Postgres
//! operators `->`, `->>` and `?` that an `ExprPlanner` of the crate plans into
//! them, and its `FunctionRewrite`, which flattens nested lookups and replaces
//! `json_get` under a cast by the getter of that type. The rewrite looks through
//! `Expr::Alias` and the operator names its result after `Expr::Column` and
//! `Expr::Alias`, so both forms are here nested, cast, grouped, joined and read
//! through subqueries.

use datafusion::arrow::array::StringArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_functions_json::register_all;
use drop_in::{check, collect, ints, register, rows, texts};

/// `docs` with its JSON column in the given string type, and `tags` to join it to.
fn context(doc_type: &DataType) -> SessionContext {
    let config =
        SessionConfig::new().set_str("datafusion.sql_parser.dialect", "postgres");
    let mut ctx = SessionContext::new_with_config(config);
    register_all(&mut ctx).expect("the JSON functions");

    let docs = StringArray::from(vec![
        Some(
            r#"{"kind": "user", "n": 3, "tag": "red", "a": {"b": {"c": 7}}, "list": [10, 20]}"#,
        ),
        Some(
            r#"{"kind": "user", "n": 5, "tag": "blue", "a": {"b": {"c": -1}}, "list": []}"#,
        ),
        Some(r#"{"kind": "thing", "n": 4, "tag": "red", "a": {"b": "leaf"}}"#),
        Some(r#"{"kind": "thing", "a": null}"#),
        Some("is not json"),
        None,
    ]);
    register(
        &ctx,
        "docs",
        vec![
            ("id", ints(&[1, 2, 3, 4, 5, 6])),
            ("name", texts(&["ann", "bob", "cup", "dud", "eel", "fox"])),
            ("doc", cast(&docs, doc_type).expect("the JSON column")),
        ],
    );
    register(
        &ctx,
        "tags",
        vec![
            ("tag", texts(&["red", "blue", "green"])),
            ("label", texts(&["warm", "cold", "none"])),
        ],
    );
    ctx
}

#[tokio::test]
async fn functions_in_the_select_list() {
    let ctx = context(&DataType::Utf8);
    check(
        &ctx,
        "select id, json_get_str(doc, 'kind'), json_get_int(doc, 'n'), \
         json_as_text(doc, 'list'), json_length(doc, 'list') from docs order by id",
        &[
            "1|user|3|[10, 20]|2",
            "2|user|5|[]|0",
            "3|thing|4|NULL|NULL",
            "4|thing|NULL|NULL|NULL",
            "5|NULL|NULL|NULL|NULL",
            "6|NULL|NULL|NULL|NULL",
        ],
    )
    .await;
    // a lookup of more than one step: only one document has a string there
    check(
        &ctx,
        "select id, json_get_str(doc, 'a', 'b') from docs where id <= 3 order by id",
        &["1|NULL", "2|NULL", "3|leaf"],
    )
    .await;
    // json_get yields a union that keeps the JSON type of the value
    check(
        &ctx,
        "select json_get(doc, 'n'), json_get(doc, 'kind'), json_get(doc, 'a'), \
         json_get(doc, 'list') from docs where id = 1",
        &[r#"{int=3}|{str=user}|{object={"b": {"c": 7}}}|{array=[10, 20]}"#],
    )
    .await;
    // all arguments constant
    check(
        &ctx,
        r#"select json_get_bool('{"x": true}', 'x'), json_get_float('{"x": 1.5}', 'x'),
                  json_get_json('{"x": [1, 2]}', 'x'), json_get('[1, 2, 3]', 1)"#,
        &["true|1.5|[1, 2]|{int=2}"],
    )
    .await;
}

#[tokio::test]
async fn operators_over_every_string_type() {
    let dictionary =
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    for doc_type in [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        dictionary,
    ] {
        let ctx = context(&doc_type);
        let batches = collect(
            &ctx,
            "select id, doc->>'kind', doc->'a'->'b'->>'c', doc ? 'tag' \
             from docs where doc is not null order by id",
        )
        .await;
        assert_eq!(
            rows(&batches),
            [
                "1|user|7|true",
                "2|user|-1|true",
                "3|thing|NULL|true",
                "4|thing|NULL|false",
                "5|NULL|NULL|false",
            ],
            "documents as {doc_type}"
        );

        // the planner of the crate names a column after the operator
        let schema = batches[0].schema();
        let names = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect::<Vec<_>>();
        assert_eq!(
            names,
            [
                "id",
                "doc ->> 'kind'",
                "doc -> 'a' -> 'b' ->> 'c'",
                "doc ? 'tag'"
            ]
        );
    }
}

#[tokio::test]
async fn nested_operators_under_casts() {
    let ctx = context(&DataType::Utf8);
    let batches = collect(
        &ctx,
        "select id, (doc->'n')::int, (doc->'a'->'b'->'c')::bigint, \
         (doc->'list'->0)::int, (doc->'a'->'b')::text from docs order by id",
    )
    .await;
    assert_eq!(
        rows(&batches),
        [
            r#"1|3|7|10|{"c": 7}"#,
            r#"2|5|-1|NULL|{"c": -1}"#,
            "3|4|NULL|NULL|leaf",
            "4|NULL|NULL|NULL|NULL",
            "5|NULL|NULL|NULL|NULL",
            "6|NULL|NULL|NULL|NULL",
        ]
    );
    // the type is the one of the cast, whatever the getter behind it returns
    let schema = batches[0].schema();
    let types = [1, 2, 3].map(|i| schema.field(i).data_type().clone());
    assert_eq!(types, [DataType::Int32, DataType::Int64, DataType::Int32]);

    // a failed lookup under TRY_CAST is a null
    check(
        &ctx,
        "select id, try_cast((doc->'kind') as bigint), (doc->'n')::int + 1 \
         from docs where id in (1, 4) order by id",
        &["1|NULL|4", "4|NULL|NULL"],
    )
    .await;
}

/// The rows above would be right without the rewrite too; this proves it ran.
#[tokio::test]
async fn the_rewrite_flattens_a_chain_under_a_cast() {
    let ctx = context(&DataType::Utf8);
    let plan = ctx
        .sql("select (doc->'a'->'b'->'c')::bigint as c from docs")
        .await
        .expect("a plan")
        .into_optimized_plan()
        .expect("an optimized plan")
        .display_indent()
        .to_string();
    assert!(
        plan.contains(r#"json_get_int(docs.doc, Utf8("a"), Utf8("b"), Utf8("c"))"#),
        "one typed lookup in\n{plan}"
    );
    assert!(!plan.contains("json_get("), "no untyped lookup in\n{plan}");
}

#[tokio::test]
async fn filters() {
    let ctx = context(&DataType::Utf8);
    for (predicate, expected) in [
        ("(doc->'n')::int > 3", vec!["bob", "cup"]),
        ("doc ? 'tag' and doc->>'kind' = 'user'", vec!["ann", "bob"]),
        ("json_contains(doc, 'a', 'b')", vec!["ann", "bob", "cup"]),
        ("not json_contains(doc, 'n') and id < 6", vec!["dud", "eel"]),
        // a JSON null, a document without that key, and no document at all
        ("(doc->'a') is null", vec!["dud", "eel", "fox"]),
        // the union is coerced against the literal
        ("json_get(doc, 'kind') = 'thing'", vec!["cup", "dud"]),
        ("(doc->'a'->'b'->>'c') in ('7', '8')", vec!["ann"]),
    ] {
        let sql = format!("select name from docs where {predicate} order by name");
        check(&ctx, &sql, &expected).await;
    }
}

#[tokio::test]
async fn groups() {
    let ctx = context(&DataType::Utf8);
    check(
        &ctx,
        "select doc->>'kind' as kind, count(*) as seen, sum((doc->'n')::int) as total \
         from docs where (doc->>'kind') is not null \
         group by doc->>'kind' order by kind",
        &["thing|2|4", "user|2|8"],
    )
    .await;
    // grouped by the alias, with the null group of the documents without a tag
    check(
        &ctx,
        "select (doc->>'tag') as tag, count(*) as seen from docs \
         group by tag having count(*) > 1 order by tag nulls last",
        &["red|2", "NULL|3"],
    )
    .await;
}

#[tokio::test]
async fn joins_with_aliases() {
    let ctx = context(&DataType::Utf8);
    check(
        &ctx,
        "select d.name as who, t.label from docs as d \
         join tags as t on (d.doc->>'tag') = t.tag order by who",
        &["ann|warm", "bob|cold", "cup|warm"],
    )
    .await;
    check(
        &ctx,
        "select t.label, count(d.id) as seen from tags as t \
         left join docs as d on (d.doc->>'tag') = t.tag \
         group by t.label order by t.label",
        &["cold|1", "none|0", "warm|2"],
    )
    .await;
    // one table under two names, a cast on both sides: each follows itself
    check(
        &ctx,
        "select x.name, y.name from docs as x \
         join docs as y on (x.doc->'n')::int = (y.doc->'n')::int order by x.name",
        &["ann|ann", "bob|bob", "cup|cup"],
    )
    .await;
}

/// 5 follows 4 and 4 follows 3. On 55.2.0 `No field named "__datafusion_extracted_..`:
/// extracted leaf expressions were found again by name, and the two sides of this join
/// have one name for two of them. `s['n']` in place of `doc->'n'` failed alike.
#[tokio::test]
async fn a_self_join_on_a_computed_key() {
    let ctx = context(&DataType::Utf8);
    check(
        &ctx,
        "select x.name, y.name from docs as x \
         join docs as y on (x.doc->'n')::int = (y.doc->'n')::int + 1 order by x.name",
        &["bob|cup", "cup|ann"],
    )
    .await;
}

#[tokio::test]
async fn filters_above_subqueries() {
    let ctx = context(&DataType::Utf8);
    check(
        &ctx,
        "select s.name, s.c from \
         (select d.name, (d.doc->'a'->'b'->'c')::bigint as c from docs as d) as s \
         where s.c > 0",
        &["ann|7"],
    )
    .await;
    // users add up to 8, things to 4
    check(
        &ctx,
        "select q.kind, q.total from \
         (select x.kind, sum(x.n) as total from \
          (select json_get_str(doc, 'kind') as kind, json_get_int(doc, 'n') as n \
           from docs) as x \
          group by x.kind) as q \
         where q.total > 5",
        &["user|8"],
    )
    .await;
    // the inner lookup leaves the subquery as a union, the outer chain goes on from it
    check(
        &ctx,
        "select s.name from (select name, doc->'a' as a from docs) as s \
         where (s.a->'b'->>'c') = '7'",
        &["ann"],
    )
    .await;
}
