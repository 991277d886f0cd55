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
//! The tables that queries read, and the names that everything shares.
//!
//! For the query whose columns are renamed apart each table is registered a second
//! time, [`COPIES`] times over, with columns that no other table has: each scan of a
//! query reads a copy of its own. (A derived table that renames the columns would do
//! too, but its projection would be in the way of what is to be tested.)

use crate::ast::Type;

/// Names of columns.
pub const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Aliases of relations; some are names of tables.
pub const ALIASES: [&str; 4] = ["x", "y", "t", "u"];

/// Names of CTEs.
pub const CTES: [&str; 2] = ["p", "q"];

/// How often a query renamed apart can read one table.
pub const COPIES: usize = 24;

/// A table.
pub struct Table {
    pub name: &'static str,
    pub columns: &'static [(&'static str, Type)],
    /// In SQL. Few values, so that joins match; some rows twice, some NULLs
    pub rows: &'static [&'static str],
}

/// All tables. The first has a column of each simple type: the shrinker puts it in
/// the place of other relations.
pub const TABLES: [Table; 4] = [
    Table {
        name: "t",
        columns: &[
            ("a", Type::Int),
            ("b", Type::Int),
            ("c", Type::Big),
            ("d", Type::Text),
        ],
        rows: &[
            "1, 3, 2, '1'",
            "2, 1, 2, '2'",
            "2, 1, 2, '2'",
            "3, NULL, 1, '0'",
            "NULL, 2, 3, NULL",
            "4, 0, NULL, '3'",
        ],
    },
    Table {
        name: "u",
        columns: &[("a", Type::Int), ("b", Type::Text), ("c", Type::Int)],
        rows: &[
            "2, '1', 1",
            "1, '2', 2",
            "3, NULL, 2",
            "1, '2', 4",
            "NULL, '0', 3",
        ],
    },
    Table {
        name: "v",
        columns: &[("b", Type::Int), ("a", Type::Big), ("c", Type::Struct)],
        rows: &[
            "1, 2, {a: 3, b: 1}",
            "2, 1, {a: 1, b: 2}",
            "2, 3, {a: 2, b: 2}",
            "NULL, 4, {a: 0, b: 3}",
            "3, NULL, {a: 4, b: 1}",
        ],
    },
    Table {
        name: "w",
        columns: &[("a", Type::Int), ("d", Type::List), ("b", Type::Int)],
        rows: &[
            "1, [1, 2], 2",
            "2, [3], 1",
            "3, [2, 4, 1], 1",
            "2, NULL, NULL",
        ],
    },
];

impl Table {
    /// `CREATE TABLE` with its rows.
    pub fn sql(&self) -> String {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|(name, ty)| format!("{name} {}", ty.sql()))
            .collect();
        format!(
            "CREATE TABLE {} ({}) AS VALUES\n  ({})",
            self.name,
            columns.join(", "),
            self.rows.join("),\n  (")
        )
    }

    /// The name of a copy.
    pub fn copy(&self, copy: usize) -> String {
        format!("{}_{copy}", self.name)
    }

    /// The names of the columns of a copy.
    pub fn copy_columns(&self, copy: usize) -> Vec<String> {
        self.columns
            .iter()
            .map(|(name, _)| format!("{}{copy}_{name}", self.name))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn rows_are_as_wide_as_their_table() {
        for table in &TABLES {
            for row in table.rows {
                // Commas within brackets and braces do not count.
                let mut depth = 0;
                let mut commas = 0;
                for c in row.chars() {
                    match c {
                        '[' | '{' => depth += 1,
                        ']' | '}' => depth -= 1,
                        ',' if depth == 0 => commas += 1,
                        _ => {}
                    }
                }
                assert_eq!(commas + 1, table.columns.len(), "{}: {row}", table.name);
            }
            assert!(table.columns.iter().all(|(name, _)| NAMES.contains(name)));
        }
    }

    #[test]
    fn copies_share_no_name() {
        let mut names = BTreeSet::new();
        for table in &TABLES {
            for copy in 0..COPIES {
                for name in table.copy_columns(copy) {
                    assert!(names.insert(name));
                }
            }
        }
    }
}
