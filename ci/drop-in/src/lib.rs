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

//! Proof that the patched tree is a drop-in replacement of DataFusion 55.
//!
//! The crates named in `Cargo.toml` are taken from the registry as they were
//! published, except for those in `patches/`, written for DataFusion 55, while
//! `[patch.crates-io]` puts the patched tree in place of every `datafusion*` crate
//! they depend on. Each file in `tests/` runs queries through one of them and
//! compares rows; `column_ids.rs` tests the fork itself, as a program that uses it.
//!
//! This library holds only what those files share.

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// One string per row, in the order of `batches`: the cells joined by `|`,
/// an SQL null shown as `NULL`.
pub fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::new().with_null("NULL");
    let mut out = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| {
                ArrayFormatter::try_new(column.as_ref(), &options)
                    .unwrap_or_else(|e| panic!("cannot print {}: {e}", column.data_type()))
            })
            .collect::<Vec<_>>();
        for row in 0..batch.num_rows() {
            let cells = columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect::<Vec<_>>();
            out.push(cells.join("|"));
        }
    }
    out
}

/// The batches of `sql`; a failure names the query.
pub async fn collect(ctx: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    ctx.sql(sql)
        .await
        .unwrap_or_else(|e| panic!("planning {sql}: {e}"))
        .collect()
        .await
        .unwrap_or_else(|e| panic!("running {sql}: {e}"))
}

/// The [`rows`] of `sql`; a failure names the query.
pub async fn query(ctx: &SessionContext, sql: &str) -> Vec<String> {
    rows(&collect(ctx, sql).await)
}

/// Checks that `sql` yields exactly `expected`, in that order.
pub async fn check(ctx: &SessionContext, sql: &str, expected: &[&str]) {
    assert_eq!(query(ctx, sql).await, expected, "rows of {sql}");
}

/// Registers an in-memory table of one batch.
pub fn register(ctx: &SessionContext, name: &str, columns: Vec<(&str, ArrayRef)>) {
    let batch =
        RecordBatch::try_from_iter(columns).unwrap_or_else(|e| panic!("columns of {name}: {e}"));
    ctx.register_batch(name, batch)
        .unwrap_or_else(|e| panic!("registering {name}: {e}"));
}

/// An Int64 column without nulls.
pub fn ints(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

/// A Utf8 column without nulls.
pub fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}
