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
//! What has to hold for a statement, and whether it does.
//!
//! No oracle knows the right rows. They compare: a query with itself under other names
//! (metamorphic testing, as SQLancer does with other relations), with itself without
//! two optimizer rules, and with 55.2.0. What an engine rejects for a reason that is
//! known is counted and not a failure.

use std::fmt;

use serde::Serialize;

use crate::ast::Query;
use crate::engine::{End, Engine, Failure, Rows, Stage, validated};
use crate::generate::Dice;
use crate::print::{self, Unprintable};

/// Rules that a plan cannot do without, and why. Two of the others are left out for
/// each statement.
pub const NEEDED_RULES: [(&str, &str); 5] = [
    (
        "rewrite_set_comparison",
        "there is no execution plan for ANY and ALL",
    ),
    (
        "replace_distinct_aggregate",
        "there is no execution plan for DISTINCT",
    ),
    (
        "decorrelate_predicate_subquery",
        "there is no execution plan for EXISTS and IN",
    ),
    (
        "scalar_subquery_to_join",
        "there is no execution plan for a correlated scalar subquery",
    ),
    (
        "decorrelate_lateral_join",
        "there is no execution plan for a reference to a sibling",
    ),
];

/// Rejections that are meant for users: names that are not unique. Exempt until stage
/// 04, and only where planning makes them: a rule that runs into one of them is wrong.
const REJECTED_NAMES: [&str; 5] = [
    "require unique expression names",
    "contains duplicate qualified field name",
    "contains duplicate unqualified field name",
    "which would be ambiguous",
    "Ambiguous reference",
];

/// What neither engine can do under any names.
const NOT_SUPPORTED: [&str; 10] = [
    "This feature is not implemented",
    "Correlated scalar subquery",
    "Accessing outer reference columns is not allowed",
    "subquery can only be used in",
    "should not contain a mixed of outer references",
    "cannot contain non-correlated columns",
    "Unsupported Subquery plan",
    // A set operation can make text of a number.
    "Unary operator '-' only supports",
    // A correlated NOT IN: its predicates become keys of the join.
    "null_aware anti join only supports single column join key",
    // DISTINCT over a window function with LIMIT, says `issues.md`.
    "Ordering direction required for DISTINCT with limit",
];

/// What was compared when a statement failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Oracle {
    /// The statement fails, and not for a reason that is known
    Fails,
    /// It fails, and 55.2.0 has an answer
    FailsOnlyHere,
    /// Other rows with the columns renamed apart
    Renamed,
    /// Fails with the columns renamed apart
    RenamedFails,
    /// Other rows without two rules
    Rules,
    /// Fails without two rules
    RulesFails,
    /// Other rows than 55.2.0, which agrees with itself
    Stock,
    /// The validator reports something
    Validator,
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Oracle::Fails => "fails",
            Oracle::FailsOnlyHere => "fails, and 55.2.0 does not",
            Oracle::Renamed => "other rows with the columns renamed apart",
            Oracle::RenamedFails => "fails with the columns renamed apart only",
            Oracle::Rules => "other rows without two rules",
            Oracle::RulesFails => "fails without two rules",
            Oracle::Stock => "other rows than 55.2.0",
            Oracle::Validator => "the validator reports an issue",
        })
    }
}

/// A failure of a statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub oracle: Oracle,
    /// What has to stay the same for the failure to be the same
    pub key: String,
    /// An error, or the rules that were left out
    pub message: String,
    pub expected: Option<Rows>,
    pub got: Option<Rows>,
}

impl Finding {
    fn failure(oracle: Oracle, failure: &Failure, message: String) -> Self {
        Self {
            oracle,
            key: format!("{:?} {:?} {}", failure.end, failure.stage, family(failure)),
            message,
            expected: None,
            got: None,
        }
    }

    fn rows(oracle: Oracle, message: String, expected: Rows, got: &Rows) -> Self {
        Self {
            oracle,
            key: String::new(),
            message,
            expected: Some(expected),
            got: Some(got.clone()),
        }
    }

    pub fn is_like(&self, other: &Self) -> bool {
        self.oracle == other.oracle && self.key == other.key
    }
}

/// What came of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// Rejected for its names
    Exempt(&'static str),
    /// Not supported, whatever the names
    Unsupported(&'static str),
    Failed(Box<Finding>),
}

/// An outcome, and what else is worth counting.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub outcome: Outcome,
    pub notes: Vec<&'static str>,
}

/// The engines and what to compare.
pub struct Checker<'a> {
    pub subject: &'a dyn Engine,
    /// 55.2.0, unless it is the subject
    pub stock: Option<&'a dyn Engine>,
    pub validator: bool,
}

impl Checker<'_> {
    /// The two rules that a statement has to do without.
    pub fn rules(&self, seed: u64, number: u64) -> Vec<String> {
        let mut rules = self.subject.rules();
        rules.retain(|rule| NEEDED_RULES.iter().all(|(needed, _)| needed != rule));
        // Draws of their own, so that the statement is the same in any case.
        let mut dice = Dice::new(!seed, number);
        let mut drawn = vec![];
        while drawn.len() < 2 && !rules.is_empty() {
            drawn.push(rules.remove(dice.below(rules.len())));
        }
        drawn
    }

    /// Checks a statement; with `only`, no more than what this oracle needs.
    pub fn check(
        &self,
        query: &Query,
        without: &[String],
        only: Option<Oracle>,
    ) -> Result<Verdict, Unprintable> {
        let sql = print::colliding(query)?;
        let apart = print::apart(query)?;
        let mut notes = vec![];
        // All that the subject plans is listened to, and 55.2.0 has no validator.
        let (compared, issues) = validated(self.validator, || {
            self.compare(&sql, &apart, without, only, &mut notes)
        });
        // What is not carried out has a plan all the same.
        let outcome = match (compared, issues.first()) {
            (Ok(outcome), None) => outcome,
            (Ok(_), Some(issue)) => Outcome::Failed(Box::new(Finding {
                oracle: Oracle::Validator,
                key: issue_key(issue),
                message: issues.join("\n"),
                expected: None,
                got: None,
            })),
            (Err(mut finding), issue) => {
                if let Some(issue) = issue {
                    finding.message.push_str("\nthe validator: ");
                    finding.message.push_str(issue);
                }
                Outcome::Failed(Box::new(finding))
            }
        };
        Ok(Verdict { outcome, notes })
    }

    fn compare(
        &self,
        sql: &str,
        apart: &str,
        without: &[String],
        only: Option<Oracle>,
        notes: &mut Vec<&'static str>,
    ) -> Result<Outcome, Finding> {
        let wants = |oracles: &[Oracle]| only.is_none_or(|only| oracles.contains(&only));
        let rows = match self.subject.run(sql, &[]) {
            Ok(rows) => rows,
            Err(failure) => return self.failed(&failure, sql, apart, only),
        };

        if wants(&[Oracle::Renamed, Oracle::RenamedFails, Oracle::Validator]) {
            match self.subject.run(apart, &[]) {
                Ok(expected) if expected == rows => {}
                Ok(expected) => {
                    let message = format!("renamed apart: {apart}");
                    return Err(Finding::rows(Oracle::Renamed, message, expected, &rows));
                }
                // Names that engines make up can collide whatever the user's are.
                Err(failure) if rejected_names(&failure).is_some() => {
                    notes.push("names rejected in the query renamed apart only");
                }
                Err(failure) => {
                    let message = format!("{failure}\nrenamed apart: {apart}");
                    return Err(Finding::failure(
                        Oracle::RenamedFails,
                        &failure,
                        message,
                    ));
                }
            }
        }

        if wants(&[Oracle::Rules, Oracle::RulesFails, Oracle::Validator])
            && !without.is_empty()
        {
            let rules = format!("without the rules {}", without.join(" and "));
            match self.subject.run(sql, without) {
                Ok(expected) if expected == rows => {}
                Ok(expected) => {
                    let mut message = rules;
                    if let Some(stock) = self.stock
                        && stock.run(sql, without).as_ref() == Ok(&expected)
                        && stock.run(sql, &[]).as_ref() == Ok(&rows)
                    {
                        message.push_str("\n55.2.0 has the same rows, with and without");
                    }
                    return Err(Finding::rows(Oracle::Rules, message, expected, &rows));
                }
                Err(failure) if not_supported(&failure).is_some() => {
                    notes.push("not supported without two rules");
                }
                Err(failure) => {
                    let message = format!("{failure}\n{rules}");
                    return Err(Finding::failure(Oracle::RulesFails, &failure, message));
                }
            }
        }

        if let Some(stock) = self.stock.filter(|_| wants(&[Oracle::Stock])) {
            match stock.run(sql, &[]) {
                Ok(expected) if expected == rows => notes.push("as 55.2.0"),
                // Is 55.2.0 of another opinion under other names?
                Ok(expected) => match stock.run(apart, &[]) {
                    Ok(again) if again == expected => {
                        let message = "55.2.0 has the expected rows".to_string();
                        return Err(Finding::rows(
                            Oracle::Stock,
                            message,
                            expected,
                            &rows,
                        ));
                    }
                    _ => notes.push("55.2.0 is wrong"),
                },
                Err(_) => notes.push("55.2.0 fails"),
            }
        }

        Ok(Outcome::Passed)
    }

    /// A statement without rows: is that all right?
    fn failed(
        &self,
        failure: &Failure,
        sql: &str,
        apart: &str,
        only: Option<Oracle>,
    ) -> Result<Outcome, Finding> {
        let stock = self
            .stock
            .filter(|_| only.is_none_or(|only| only == Oracle::FailsOnlyHere));
        let mut of_stock = String::new();
        if let Some(stock) = stock {
            match stock.run(sql, &[]) {
                // Wrong rows are no reason to give some.
                Ok(expected) if stock.run(apart, &[]).as_ref() == Ok(&expected) => {
                    let oracle = Oracle::FailsOnlyHere;
                    let mut finding =
                        Finding::failure(oracle, failure, failure.to_string());
                    finding.expected = Some(expected);
                    return Err(finding);
                }
                Ok(_) => of_stock.push_str("\n55.2.0 contradicts itself"),
                Err(failure) => of_stock = format!("\n55.2.0: {failure}"),
            }
        }
        if let Some(reason) = rejected_names(failure) {
            return Ok(Outcome::Exempt(reason));
        }
        let renamed = self.subject.run(apart, &[]);
        if let Some(reason) = not_supported(failure)
            && let Err(other) = &renamed
            && not_supported(other).is_some()
        {
            return Ok(Outcome::Unsupported(reason));
        }
        let message = match &renamed {
            Ok(_) => format!("{failure}\nrenamed apart: {apart}{of_stock}"),
            Err(other) => {
                format!("{failure}\nrenamed apart too: {other}{of_stock}")
            }
        };
        let mut finding = Finding::failure(Oracle::Fails, failure, message);
        finding.expected = renamed.ok();
        Err(finding)
    }
}

fn pattern(failure: &Failure, patterns: &[&'static str]) -> Option<&'static str> {
    if failure.end != End::Error {
        return None;
    }
    let mut patterns = patterns.iter();
    let found = patterns.find(|pattern| failure.message.contains(**pattern));
    found.copied()
}

fn rejected_names(failure: &Failure) -> Option<&'static str> {
    if failure.stage != Stage::Plan {
        return None;
    }
    pattern(failure, &REJECTED_NAMES)
}

fn not_supported(failure: &Failure) -> Option<&'static str> {
    pattern(failure, &NOT_SUPPORTED)
}

/// An error without what differs from statement to statement: names, numbers.
fn family(failure: &Failure) -> String {
    let words: Vec<&str> = failure
        .message
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|word| {
            word.len() > 1 && word.chars().all(|c| c.is_ascii_alphabetic() || c == '_')
        })
        .take(10)
        .collect();
    words.join(" ")
}

/// The rule and the kind of an issue like `push_down_filter (pass 1): stale id: ...`.
fn issue_key(issue: &str) -> String {
    let mut parts = issue.split(": ");
    let rule = parts.next().unwrap_or_default();
    let rule = rule.split(" (pass").next().unwrap_or_default();
    format!("{rule}: {}", parts.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::{Expr, Item, Leaf, Select, Source, Type};
    use crate::generate::statement;
    use std::cell::RefCell;

    /// An engine that answers what it is told to, in turn.
    struct Scripted(RefCell<Vec<Result<Rows, Failure>>>);

    impl Engine for Scripted {
        fn rules(&self) -> Vec<String> {
            vec!["one".to_string(), "rewrite_set_comparison".to_string()]
        }

        fn run(&self, _sql: &str, _without: &[String]) -> Result<Rows, Failure> {
            self.0.borrow_mut().remove(0)
        }
    }

    fn rows(value: &str) -> Result<Rows, Failure> {
        Ok(vec![vec![value.to_string()]])
    }

    fn error(stage: Stage, message: &str) -> Result<Rows, Failure> {
        Err(Failure {
            stage,
            end: End::Error,
            message: message.to_string(),
        })
    }

    fn outcome(
        subject: Vec<Result<Rows, Failure>>,
        stock: Vec<Result<Rows, Failure>>,
    ) -> Outcome {
        let subject = Scripted(RefCell::new(subject));
        let stock = Scripted(RefCell::new(stock));
        let checker = Checker {
            subject: &subject,
            stock: Some(&stock),
            validator: true,
        };
        let rules = ["one".to_string()];
        let verdict = checker.check(&statement(1, 1), &rules, None).unwrap();
        verdict.outcome
    }

    fn oracle(outcome: Outcome) -> Oracle {
        match outcome {
            Outcome::Failed(finding) => finding.oracle,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn equal_rows_pass() {
        let all = outcome(vec![rows("1"), rows("1"), rows("1")], vec![rows("1")]);
        assert_eq!(all, Outcome::Passed);
        // 55.2.0 fails, or contradicts itself.
        let failing = vec![error(Stage::Optimize, "no")];
        let fork = || vec![rows("1"), rows("1"), rows("1")];
        assert_eq!(outcome(fork(), failing), Outcome::Passed);
        let wrong = vec![rows("2"), rows("1")];
        assert_eq!(outcome(fork(), wrong), Outcome::Passed);
    }

    #[test]
    fn each_oracle_notices() {
        let renamed = outcome(vec![rows("1"), rows("2")], vec![]);
        assert_eq!(oracle(renamed), Oracle::Renamed);
        let three = || vec![rows("1"), rows("1"), rows("2")];
        let rules = outcome(three(), vec![rows("1")]);
        assert_eq!(oracle(rules), Oracle::Rules);
        // As 55.2.0 does it: said, and a failure.
        let Outcome::Failed(both) = outcome(three(), vec![rows("2"), rows("1")]) else {
            panic!("passed");
        };
        assert_eq!(both.oracle, Oracle::Rules);
        assert!(both.message.contains("55.2.0 has the same rows"));
        let stock = outcome(
            vec![rows("1"), rows("1"), rows("1")],
            vec![rows("2"), rows("2")],
        );
        assert_eq!(oracle(stock), Oracle::Stock);
        let fails = outcome(
            vec![error(Stage::Optimize, "no such field"), rows("1")],
            vec![error(Stage::Optimize, "no such field")],
        );
        assert_eq!(oracle(fails), Oracle::Fails);
        let only_here = outcome(
            vec![error(Stage::Plan, "require unique expression names")],
            vec![rows("1"), rows("1")],
        );
        assert_eq!(oracle(only_here), Oracle::FailsOnlyHere);
    }

    #[test]
    fn rejected_names_are_exempt_where_planning_makes_them() {
        let message = "Projections require unique expression names but ...";
        let no = || vec![error(Stage::Plan, message)];
        assert!(matches!(outcome(no(), no()), Outcome::Exempt(_)));
        let rule = || vec![error(Stage::Optimize, message), error(Stage::Plan, "")];
        assert_eq!(oracle(outcome(rule(), rule())), Oracle::Fails);
    }

    #[test]
    fn what_is_not_supported_is_so_under_all_names() {
        let no = || error(Stage::Physical, "This feature is not implemented: Exists");
        let both = outcome(vec![no(), no()], vec![no()]);
        assert!(matches!(both, Outcome::Unsupported(_)));
        assert_eq!(
            oracle(outcome(vec![no(), rows("1")], vec![no()])),
            Oracle::Fails
        );
    }

    #[test]
    fn errors_of_a_family_differ_in_names_only() {
        let text = |name: &str| {
            let message = format!(
                "Schema error: No field named {name}. Valid fields are __correlated_sq_1.a."
            );
            family(&error(Stage::Optimize, &message).unwrap_err())
        };
        assert_eq!(text("x.a"), text("t.b"));
        assert_eq!(text("x.a"), "Schema error No field named Valid fields are");
        assert_eq!(
            issue_key("push_down_filter (pass 2): stale id: column a #7 at Filter"),
            "push_down_filter: stale id"
        );
    }

    #[test]
    fn needed_rules_are_not_left_out() {
        let subject = Scripted(RefCell::new(vec![]));
        let checker = Checker {
            subject: &subject,
            stock: None,
            validator: false,
        };
        assert_eq!(checker.rules(1, 1), ["one"]);
    }

    #[test]
    fn what_cannot_be_written_is_not_run() {
        let subject = Scripted(RefCell::new(vec![]));
        let checker = Checker {
            subject: &subject,
            stock: None,
            validator: false,
        };
        let col = crate::ast::Col {
            id: 1,
            ty: Type::Int,
        };
        let query = Query::select(Select {
            distinct: false,
            first: Leaf {
                alias: None,
                source: Source::Table(0),
                cols: vec![],
                names: None,
            },
            joins: vec![],
            filter: None,
            group: None,
            items: vec![Item {
                col,
                name: None,
                expr: Expr::col(col),
            }],
        });
        assert!(checker.check(&query, &[], None).is_err());
    }
}
