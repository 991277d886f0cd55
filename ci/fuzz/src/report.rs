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
//! What is printed: scripts of failing statements, what they look like, and counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::ast::{
    Body, Expr, Leaf, Query, Select, Source, Type, Visitor, for_each_expr, inline_ctes,
    referable, walk,
};
use crate::oracle::{Finding, Oracle, Outcome, Verdict};
use crate::print;
use crate::tables::TABLES;

/// Rows that are printed of a result.
const ROWS_SHOWN: usize = 12;

/// A failing statement.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    pub seed: u64,
    pub number: u64,
    pub finding: Finding,
    /// As it is after shrinking
    pub sql: String,
    /// As it was drawn
    pub drawn: String,
    /// Reports that the statement reminds of
    pub looks_like: Vec<&'static str>,
}

impl Failed {
    pub fn new(
        seed: u64,
        number: u64,
        finding: Finding,
        small: &Query,
        drawn: &Query,
    ) -> Self {
        let text =
            |query: &Query| print::colliding(query).unwrap_or_else(|error| error.0);
        Self {
            seed,
            number,
            looks_like: looks_like(small, &finding),
            finding,
            sql: text(small),
            drawn: text(drawn),
        }
    }

    /// A script for `cargo xtask sql`, with all else in comments.
    pub fn script(&self) -> String {
        let Self {
            seed,
            number,
            finding,
            sql,
            looks_like,
            ..
        } = self;
        let mut text = format!(
            "-- statement {number} of seed {seed} (--seed {seed} --only {number}): {}\n",
            finding.oracle
        );
        if !looks_like.is_empty() {
            let _ = writeln!(text, "-- looks like {}", looks_like.join(", "));
        }
        for line in finding.message.lines() {
            let _ = writeln!(text, "-- {line}");
        }
        for (what, rows) in [("expected", &finding.expected), ("got", &finding.got)] {
            let Some(rows) = rows else { continue };
            let _ = writeln!(text, "-- {what}: {} rows", rows.len());
            for row in rows.iter().take(ROWS_SHOWN) {
                let _ = writeln!(text, "--   {}", row.join("|"));
            }
            if rows.len() > ROWS_SHOWN {
                text.push_str("--   ...\n");
            }
        }
        for table in &TABLES {
            let mut words = sql.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            if words.any(|word| word == table.name) {
                let _ = writeln!(text, "{};", table.sql());
            }
        }
        let _ = writeln!(text, "{sql};");
        text
    }
}

/// The reports that a failing statement reminds of: by its error and by the shapes
/// that are in it. A guess, meant for statements that are small.
pub fn looks_like(query: &Query, finding: &Finding) -> Vec<&'static str> {
    if finding.oracle == Oracle::Validator {
        return vec![];
    }
    let mut shapes = Shapes::default();
    walk(&mut inline_ctes(query), &mut shapes);
    let mut found = shapes.0;
    let says = |text: &str| finding.message.contains(text);
    if says("Can't compare arrays") || says("Only intervals with the same data type") {
        found.insert("#26033");
    }
    // The set comparisons of that report do not fail, their rows are wrong.
    if finding.got.is_none() {
        found.remove("#25258");
    }
    found.into_iter().collect()
}

/// Shapes of the reports in `issues.md`.
#[derive(Default)]
struct Shapes(BTreeSet<&'static str>);

impl Shapes {
    fn subquery(&mut self, query: &mut Query) {
        struct Inside {
            /// Reads from outside of the subquery
            outer: BTreeSet<u32>,
            joins: bool,
            derived: bool,
        }
        impl Visitor for Inside {
            fn select(&mut self, select: &mut Select) {
                self.joins |= !select.joins.is_empty();
            }
            fn leaf(&mut self, leaf: &mut Leaf) {
                if let Source::Derived(query) = &mut leaf.source {
                    self.derived |= !outer(query).is_disjoint(&self.outer);
                }
            }
        }
        let mut inside = Inside {
            outer: outer(query),
            joins: false,
            derived: false,
        };
        walk(query, &mut inside);
        if inside.outer.is_empty() {
            return;
        }
        if inside.joins {
            self.0.insert("#26692");
        }
        let renamed = match &query.body {
            Body::Select(select) => select.items.iter().any(|item| item.name.is_some()),
            Body::Set(_) => false,
        };
        if inside.derived || renamed {
            self.0.insert("#26033");
        }
    }
}

/// The columns that a query reads and does not have.
fn outer(query: &mut Query) -> BTreeSet<u32> {
    let own = referable(query);
    let mut outer = BTreeSet::new();
    for_each_expr(query, |expr| {
        if let Expr::Col { col, .. } = expr
            && !own.contains(&col.id)
        {
            outer.insert(col.id);
        }
    });
    outer
}

/// Whether an expression has a subquery.
fn has_subquery(expr: &Expr) -> bool {
    let mut expr = expr.clone();
    expr.query_mut().is_some() || expr.children_mut().into_iter().any(|e| has_subquery(e))
}

/// An expression without casts.
fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(_, expr) => bare(expr),
        expr => expr,
    }
}

impl Visitor for Shapes {
    fn select(&mut self, select: &mut Select) {
        if select
            .joins
            .iter()
            .any(|j| j.on.as_ref().is_some_and(has_subquery))
        {
            self.0.insert("#26573");
        }
        if let Some(group) = &select.group {
            let bases: Vec<&Expr> = group.keys.iter().map(bare).collect();
            if (1..bases.len()).any(|at| bases[..at].contains(&bases[at])) {
                self.0.insert("#26619");
            }
        }
        let aggregates: Vec<&Expr> = select
            .items
            .iter()
            .filter_map(|item| match &item.expr {
                Expr::Aggregate { arg: Some(arg), .. } => Some(bare(arg)),
                _ => None,
            })
            .collect();
        if (1..aggregates.len()).any(|at| aggregates[..at].contains(&aggregates[at])) {
            self.0.insert("#26221");
        }
        let unnests = |expr: &Expr| matches!(expr, Expr::Unnest(_));
        let casts = |expr: &Expr| matches!(expr, Expr::Cast(..));
        if select.items.iter().any(|item| unnests(&item.expr))
            && select.items.iter().any(|item| casts(&item.expr))
        {
            self.0.insert("#26621");
        }
        self.projections(select);
    }

    fn expr(&mut self, expr: &mut Expr) {
        if matches!(expr, Expr::Quantified { .. }) {
            self.0.insert("#25258");
        }
        if let Some(query) = expr.query_mut() {
            self.subquery(query);
        }
    }
}

impl Shapes {
    /// A projection over a projection.
    fn projections(&mut self, select: &Select) {
        let Source::Derived(query) = &select.first.source else {
            return;
        };
        let Body::Select(inner) = &query.body else {
            return;
        };
        let names = |select: &Select| -> BTreeSet<Option<&'static str>> {
            select.items.iter().map(|item| item.name).collect()
        };
        let plain = select.joins.is_empty() && select.group.is_none();
        if plain && inner.group.is_none() && names(select) == names(inner) {
            self.0.insert("#24686");
        }
        let is_struct = |ty: Type| ty == Type::Struct;
        if inner.items.iter().any(|item| is_struct(item.col.ty)) {
            self.0.insert("#25446");
        }
    }
}

/// All that is counted in a run.
#[derive(Debug, Default, Serialize)]
pub struct Counts {
    pub statements: u64,
    pub passed: u64,
    pub failed: u64,
    /// By the oracle that failed
    failures: BTreeMap<String, u64>,
    /// By what they look like
    shapes: BTreeMap<&'static str, u64>,
    /// Rejected for names that are not unique
    exempt: BTreeMap<&'static str, u64>,
    /// Not supported by either engine
    unsupported: BTreeMap<&'static str, u64>,
    notes: BTreeMap<&'static str, u64>,
}

impl Counts {
    pub fn add(&mut self, verdict: &Verdict, failed: Option<&Failed>) {
        self.statements += 1;
        match &verdict.outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Exempt(reason) => *self.exempt.entry(*reason).or_default() += 1,
            Outcome::Unsupported(reason) => {
                *self.unsupported.entry(*reason).or_default() += 1;
            }
            Outcome::Failed(finding) => {
                self.failed += 1;
                let mut what = finding.oracle.to_string();
                if finding.oracle == Oracle::Validator {
                    let _ = write!(what, ": {}", finding.key);
                }
                *self.failures.entry(what).or_default() += 1;
            }
        }
        for note in &verdict.notes {
            *self.notes.entry(*note).or_default() += 1;
        }
        if let Some(failed) = failed {
            for shape in &failed.looks_like {
                *self.shapes.entry(*shape).or_default() += 1;
            }
        }
    }

    /// Statements that were exempt.
    pub fn exempt(&self) -> u64 {
        self.exempt.values().sum()
    }

    /// Statements that neither engine supports.
    pub fn unsupported(&self) -> u64 {
        self.unsupported.values().sum()
    }

    /// The table of all counts.
    pub fn render(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN).set_header([
            "what",
            "reason",
            "statements",
        ]);
        if let Some(column) = table.column_mut(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let mut add = |what: &str, reason: &str, count: u64| {
            table.add_row([what.to_string(), reason.to_string(), count.to_string()]);
        };
        add("passed", "", self.passed);
        for (reason, count) in &self.exempt {
            add("exempt: names that are not unique", reason, *count);
        }
        for (reason, count) in &self.unsupported {
            add("not supported under any names", reason, *count);
        }
        for (reason, count) in &self.failures {
            add("failed", reason, *count);
        }
        for (shape, count) in &self.shapes {
            add("of these look like", shape, *count);
        }
        for (note, count) in &self.notes {
            add("noted", note, *count);
        }
        format!("{table}\n")
    }

    /// The last line of the output.
    pub fn line(&self) -> String {
        format!(
            "{} statements, {} failed, {} passed, {} exempt for their names, {} not supported",
            self.statements,
            self.failed,
            self.passed,
            self.exempt(),
            self.unsupported()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::statement;

    fn finding(oracle: Oracle) -> Finding {
        Finding {
            oracle,
            key: "push_down_filter: stale id".to_string(),
            message: "line one\nline two".to_string(),
            expected: Some(vec![vec!["1".to_string(), "NULL".to_string()]]),
            got: Some(vec![]),
        }
    }

    #[test]
    fn a_script_makes_its_tables_and_comments_the_rest() {
        let query = statement(3, 4);
        let failed = Failed::new(3, 4, finding(Oracle::Renamed), &query, &query);
        let script = failed.script();
        assert!(script.contains("--seed 3 --only 4"), "{script}");
        assert!(script.contains("-- line two\n"), "{script}");
        assert!(script.contains("--   1|NULL\n"), "{script}");
        assert!(script.contains("CREATE TABLE"), "{script}");
        assert!(script.ends_with(&format!("{};\n", failed.sql)), "{script}");
    }

    #[test]
    fn counts_add_up() {
        let mut counts = Counts::default();
        let mut add = |outcome| {
            let notes = vec!["as 55.2.0"];
            counts.add(&Verdict { outcome, notes }, None);
        };
        add(Outcome::Passed);
        add(Outcome::Exempt("Ambiguous reference"));
        add(Outcome::Unsupported("Correlated scalar subquery"));
        add(Outcome::Failed(Box::new(finding(Oracle::Validator))));
        assert_eq!(
            counts.line(),
            "4 statements, 1 failed, 1 passed, 1 exempt for their names, 1 not supported"
        );
        let table = counts.render();
        assert!(
            table.contains("issue: push_down_filter: stale id"),
            "{table}"
        );
        assert!(table.contains("| as 55.2.0"), "{table}");
    }

    #[test]
    fn shapes_are_seen() {
        // Somewhere among many statements there is each shape.
        let mut seen = BTreeSet::new();
        for number in 0..4000 {
            let query = statement(1, number);
            let mut inlined = inline_ctes(&query);
            let mut shapes = Shapes::default();
            walk(&mut inlined, &mut shapes);
            seen.extend(shapes.0);
        }
        let all = [
            "#24686", "#25258", "#25446", "#26033", "#26221", "#26573", "#26619",
            "#26621", "#26692",
        ];
        assert_eq!(seen, BTreeSet::from(all));
    }
}
