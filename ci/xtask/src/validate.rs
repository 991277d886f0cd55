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

//! `validate`: which rules leave column ids wrong, over all sqllogictest files.
//!
//! The engine checks its plans itself and logs what is wrong (in the crates,
//! `datafusion_optimizer::column_id_checks`). This command runs the files with that
//! log on and counts. A line of the log says which task wrote it, and each file is a
//! task, so that an issue finds the statement that it belongs to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use toml_edit::DocumentMut;

use crate::project::Project;
use crate::test::{Outcome, slt};
use crate::ui;

/// What the runner logs: the statements, and the checks of their plans.
const LOG: &str = "datafusion_sqllogictest=debug,datafusion::column_id=trace";

/// The checks before the first rule of the analyzer: what planning makes.
const PLANNER: &str = "planner output";

/// The same for a plan that was optimized before: CREATE TABLE AS and EXPLAIN optimize
/// their query and hand the result to the analyzer again, and PREPARE optimizes what
/// EXECUTE plans. This is no planner's output, and what is wrong there has been counted
/// for a rule already.
const AGAIN: &str = "optimized plan, planned again";

/// The longest statement that is shown whole.
const SAMPLE_LENGTH: usize = 160;

/// What a log says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Findings {
    statements: u64,
    /// Plans as planning makes them, before any rule
    plans: u64,
    /// In these plans
    references: u64,
    subqueries: u64,
    /// Plans that are exempt: see [`AGAIN`]
    again: u64,
    cells: BTreeMap<(String, String), Cell>,
}

/// What a task does.
struct Running {
    statement: String,
    /// Plans that were checked before the first rule
    plans: u64,
}

/// The issues of a kind that a rule made.
#[derive(Debug, Default, PartialEq, Eq)]
struct Cell {
    count: u64,
    /// A statement, and what is wrong in its plan
    sample: String,
    statements: BTreeSet<String>,
}

/// What a stage has to hold, from `ci/column_ids.toml`.
struct Level {
    /// Issues after any rule fail, not only those of the planner's own output
    all_rules: bool,
    /// Rules with issues that are known, and how many
    left: BTreeMap<String, u64>,
    floors: Vec<(&'static str, u64)>,
}

/// Runs the files and prints the table. The outcome is the one of the files, with a
/// failure for each thing that the level of the stage asks for and is not so.
pub fn validate(
    project: &Project,
    filter: Option<&str>,
    markdown: Option<&Path>,
) -> Result<Outcome> {
    let level = Level::read(project)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("column_ids.log");
    let log = slt::Log {
        filter: LOG,
        file: &file,
    };
    let mut outcome = slt::run(project, filter, Some(log))?;
    if !file.exists() {
        // No file was chosen: none fits the filter, or the ones that do need data.
        return Ok(outcome);
    }
    let findings = Findings::read(&file)?;
    let table = findings.table();
    say!("\n{table}\n");
    for ((rule, kind), cell) in &findings.cells {
        say!("{rule}, {kind}: {}", cell.sample);
    }
    say!(
        "\n{} statements, {} plans, {} references, {} subqueries checked",
        findings.statements,
        findings.plans,
        findings.references,
        findings.subqueries
    );
    say!(
        "exempt: {} plans that were optimized before, of CREATE TABLE AS, EXPLAIN and \
         EXECUTE ({} issues)",
        findings.again,
        findings.issues(|rule| rule == AGAIN)
    );
    if let Some(path) = markdown {
        fs::write(path, format!("{table}\n"))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    say!(
        "{} issues in planner output, {} after rules",
        findings.issues(|rule| rule == PLANNER),
        findings.issues(|rule| rule != PLANNER && rule != AGAIN)
    );
    let all_files = filter.is_none() && outcome.skipped == 0;
    for complaint in level.complaints(&findings, all_files) {
        outcome.fail(format!("column ids: {complaint}"));
    }
    Ok(outcome)
}

impl Findings {
    fn read(file: &Path) -> Result<Self> {
        let mut findings = Self::default();
        let mut running = HashMap::new();
        let mut reader = BufReader::new(File::open(file)?);
        let mut bytes = vec![];
        while reader.read_until(b'\n', &mut bytes)? > 0 {
            findings.line(String::from_utf8_lossy(&bytes).trim_end(), &mut running);
            bytes.clear();
        }
        Ok(findings)
    }

    /// One of
    ///
    /// * `[DEBUG datafusion_sqllogictest::.. task 7] [FILE] Running query: "..."`
    /// * `[TRACE datafusion::column_id task 7] STAGE: checked N nodes, ...`
    /// * `[DEBUG datafusion::column_id task 7] RULE (pass 0): KIND: column ...`
    fn line(&mut self, line: &str, running: &mut HashMap<String, Running>) {
        let Some((head, message)) = line
            .strip_prefix('[')
            .and_then(|line| line.split_once("] "))
        else {
            return;
        };
        let Some((origin, task)) = head.split_once(" task ") else {
            return;
        };
        if !origin.ends_with("datafusion::column_id") {
            if let Some((_, statement)) = message.split_once("Running query: ") {
                self.statements += 1;
                let text = statement.trim_start_matches('"').trim_start();
                let is_execute = text
                    .get(..8)
                    .is_some_and(|word| word.eq_ignore_ascii_case("execute "));
                let running_now = Running {
                    statement: message_of(message, statement),
                    plans: u64::from(is_execute),
                };
                running.insert(task.to_string(), running_now);
            }
            return;
        }
        let Some((rule, rest)) = message.split_once(": ") else {
            return;
        };
        // All passes of a rule are one row.
        let rule = rule.split_once(" (pass ").map_or(rule, |(rule, _)| rule);
        let mut running = running.get_mut(task);
        let is_check = rest.starts_with("checked ");
        if let Some(running) = running.as_mut().filter(|_| is_check && rule == PLANNER) {
            running.plans += 1;
        }
        let again = running.as_ref().is_some_and(|running| running.plans > 1);
        let rule = if again && rule == PLANNER {
            AGAIN
        } else {
            rule
        };
        if let Some(counts) = rest.strip_prefix("checked ") {
            if rule == AGAIN {
                self.again += 1;
            }
            if rule == PLANNER {
                let mut counts = counts
                    .split(|c: char| !c.is_ascii_digit())
                    .filter_map(|n| n.parse::<u64>().ok());
                let (_nodes, references, subqueries) =
                    (counts.next(), counts.next(), counts.next());
                self.plans += 1;
                self.references += references.unwrap_or_default();
                self.subqueries += subqueries.unwrap_or_default();
            }
            return;
        }
        let Some((kind, what)) = rest.split_once(": ") else {
            return;
        };
        let statement = running.map_or_else(String::new, |r| r.statement.clone());
        let cell = self
            .cells
            .entry((rule.to_string(), kind.to_string()))
            .or_default();
        cell.count += 1;
        if cell.sample.is_empty() {
            cell.sample = format!("{what}\n    {statement}");
        }
        cell.statements.insert(statement);
    }

    fn issues(&self, rules: impl Fn(&str) -> bool) -> u64 {
        let chosen = self.cells.iter().filter(|((rule, _), _)| rules(rule));
        chosen.map(|(_, cell)| cell.count).sum()
    }

    /// A row a rule, a column a kind of issue, and the number of statements.
    fn table(&self) -> comfy_table::Table {
        let kinds: BTreeSet<_> = self.cells.keys().map(|(_, kind)| kind).collect();
        let rules: BTreeSet<_> = self.cells.keys().map(|(rule, _)| rule).collect();
        let mut header = vec!["rule".to_string()];
        header.extend(kinds.iter().map(|kind| kind.to_string()));
        header.push("statements".to_string());
        let mut table = ui::table(header);
        for rule in rules {
            let mut row = vec![rule.clone()];
            let mut statements = BTreeSet::new();
            for kind in &kinds {
                let cell = self.cells.get(&(rule.clone(), kind.to_string()));
                row.push(cell.map_or(String::new(), |cell| cell.count.to_string()));
                statements.extend(cell.into_iter().flat_map(|cell| &cell.statements));
            }
            row.push(statements.len().to_string());
            table.add_row(row);
        }
        table
    }
}

/// `[window.slt] select ...`, not too long.
fn message_of(message: &str, statement: &str) -> String {
    let file = message.split_once("] ").map_or("", |(file, _)| file);
    let statement = statement.replace("\\n", " ");
    let mut words: String = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.len() > SAMPLE_LENGTH {
        let end = (0..=SAMPLE_LENGTH)
            .rev()
            .find(|i| words.is_char_boundary(*i));
        words.truncate(end.unwrap_or_default());
        words.push_str("...");
    }
    format!("{}] {words}", file)
}

impl Level {
    fn read(project: &Project) -> Result<Self> {
        let path = project.root().join("ci/column_ids.toml");
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is not right", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let document: DocumentMut = text.parse()?;
        let number = |key: &'static str| {
            let value = document.get("floors").and_then(|floors| floors.get(key));
            let value = value.and_then(|value| value.as_integer());
            let value = value.with_context(|| format!("no number floors.{key}"))?;
            Ok::<_, anyhow::Error>((key, u64::try_from(value)?))
        };
        Ok(Self {
            all_rules: match document.get("level").and_then(|level| level.as_str()) {
                Some("planner") => false,
                Some("rules") => true,
                other => anyhow::bail!(
                    "level must be \"planner\" (issues in unoptimised plans fail) or \
                     \"rules\" (issues after rules fail as well), not {other:?}"
                ),
            },
            left: match document.get("left").and_then(|left| left.as_table()) {
                None => BTreeMap::new(),
                Some(table) => table
                    .iter()
                    .map(|(rule, left)| {
                        let left = left
                            .as_integer()
                            .with_context(|| format!("no number left.{rule}"))?;
                        Ok((rule.to_string(), u64::try_from(left)?))
                    })
                    .collect::<Result<_>>()?,
            },
            floors: vec![
                number("statements")?,
                number("plans")?,
                number("references")?,
                number("subqueries")?,
            ],
        })
    }

    fn complaints(&self, findings: &Findings, with_floors: bool) -> Vec<String> {
        let mut complaints = vec![];
        let rules: BTreeSet<_> = findings.cells.keys().map(|(rule, _)| rule).collect();
        for rule in rules {
            if rule == AGAIN || !(self.all_rules || rule == PLANNER) {
                continue;
            }
            let issues = findings.issues(|r| r == rule);
            let left = self.left.get(rule).copied().unwrap_or(0);
            if issues > left {
                complaints.push(format!(
                    "{rule}: {issues} issues, and {left} are known to be left"
                ));
            }
        }
        for (rule, left) in self.left.iter().filter(|_| with_floors) {
            let issues = findings.issues(|r| r == rule);
            if issues < *left {
                complaints.push(format!(
                    "{rule}: only {issues} of the {left} issues that were left: say so in \
                     ci/column_ids.toml"
                ));
            }
        }
        for (key, floor) in self.floors.iter().filter(|_| with_floors) {
            let checked = match *key {
                "statements" => findings.statements,
                "plans" => findings.plans,
                "references" => findings.references,
                _ => findings.subqueries,
            };
            if checked < *floor {
                complaints.push(format!(
                    "only {checked} {key} were checked, and {floor} at least are expected"
                ));
            }
        }
        complaints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVEL: &str = "level = \"planner\"\n[floors]\nstatements = 2\nplans = 2\n\
                         references = 9\nsubqueries = 0\n";

    fn read(lines: &[&str]) -> Findings {
        let mut findings = Findings::default();
        let mut running = HashMap::new();
        for line in lines {
            findings.line(line, &mut running);
        }
        findings
    }

    #[test]
    fn issues_are_counted_by_rule_and_kind() {
        let findings = read(&[
            "[DEBUG datafusion_sqllogictest::x task 7] [a.slt] Running query: \"select\\n 1\"",
            "[DEBUG datafusion_sqllogictest::x task 8] [b.slt] Running query: \"select 2\"",
            "[TRACE datafusion::column_id task 7] planner output: checked 2 nodes, 5 references, 1 subqueries",
            "[TRACE datafusion::column_id task 8] planner output: checked 2 nodes, 4 references, 0 subqueries",
            "[TRACE datafusion::column_id task 8] analyzer output: checked 2 nodes, 9 references, 0 subqueries",
            "[DEBUG datafusion::column_id task 8] some_rule (pass 0): stale id: column t.a #1 at Filter",
            "[DEBUG datafusion::column_id task 7] some_rule (pass 1): stale id: column t.b #2 at Filter",
            "[DEBUG datafusion::column_id task 7] planner output: missing id: column c at Sort",
            "not a line of the log",
        ]);
        assert_eq!((findings.statements, findings.plans), (2, 2));
        assert_eq!((findings.references, findings.subqueries), (9, 1));
        let stale = &findings.cells[&("some_rule".to_string(), "stale id".to_string())];
        assert_eq!((stale.count, stale.statements.len()), (2, 2));
        assert_eq!(
            stale.sample,
            "column t.a #1 at Filter\n    [b.slt] \"select 2\""
        );
        assert_eq!(findings.issues(|rule| rule == PLANNER), 1);
        let table = findings.table().to_string();
        assert!(
            table.contains("some_rule") && table.contains("missing id"),
            "{table}"
        );

        let complaints = Level::parse(LEVEL).unwrap().complaints(&findings, true);
        let of = |rule, n| format!("{rule}: {n} issues, and 0 are known to be left");
        assert_eq!(complaints, [of("planner output", 1)]);
        let rules = LEVEL.replace("planner", "rules");
        let complaints = Level::parse(&rules).unwrap().complaints(&findings, true);
        assert_eq!(complaints, [of("planner output", 1), of("some_rule", 2)]);
    }

    #[test]
    fn a_plan_that_was_optimized_before_is_no_planner_output() {
        let statement =
            "[DEBUG datafusion_sqllogictest::x task 7] [a.slt] Running query: \"create\"";
        let check = "[TRACE datafusion::column_id task 7] planner output: checked 2 nodes, 5 references, 1 subqueries";
        let issue = "[DEBUG datafusion::column_id task 7] planner output: missing id: column c at Sort";
        let findings = read(&[statement, check, check, issue]);
        assert_eq!((findings.plans, findings.again), (1, 1));
        assert_eq!(findings.issues(|rule| rule == PLANNER), 0);
        assert_eq!(findings.issues(|rule| rule == AGAIN), 1);
        let execute = statement.replace("create", "EXECUTE p(1)");
        let findings = read(&[&execute, check, issue]);
        assert_eq!((findings.plans, findings.again), (0, 1));
        assert_eq!(findings.issues(|rule| rule == PLANNER), 0);
        // The next statement starts anew.
        let findings = read(&[statement, check, statement, check, issue]);
        assert_eq!((findings.plans, findings.again), (2, 0));
        assert_eq!(findings.issues(|rule| rule == PLANNER), 1);
    }

    #[test]
    fn too_little_checked_is_a_failure() {
        let findings = read(&[
            "[TRACE datafusion::column_id task 7] planner output: checked 2 nodes, 5 references, 1 subqueries",
        ]);
        let level = Level::parse(LEVEL).unwrap();
        assert_eq!(level.complaints(&findings, true).len(), 3);
        assert!(level.complaints(&findings, false).is_empty());
    }

    #[test]
    fn issues_that_are_known_to_be_left() {
        let findings = read(&[
            "[DEBUG datafusion::column_id task 8] one (pass 0): stale id: column t.a #1 at Filter",
            "[DEBUG datafusion::column_id task 8] one (pass 1): missing id: column t.a at Filter",
            "[DEBUG datafusion::column_id task 7] two (pass 1): stale id: column t.b #2 at Filter",
        ]);
        let complaints = |left: &str| {
            let text = LEVEL.replace("planner", "rules");
            let level = Level::parse(&format!("{text}[left]\n{left}")).unwrap();
            let complaints = level.complaints(&findings, true);
            let of_rules = complaints.iter().filter(|c| !c.contains("were checked"));
            of_rules.cloned().collect::<Vec<_>>()
        };
        assert!(complaints("one = 2\ntwo = 1").is_empty());
        assert_eq!(
            complaints("one = 1\ntwo = 1"),
            ["one: 2 issues, and 1 are known to be left"]
        );
        assert_eq!(
            complaints("one = 2"),
            ["two: 1 issues, and 0 are known to be left"]
        );
        let fewer = complaints("one = 2\ntwo = 1\nthree = 1");
        assert!(
            fewer[0].starts_with("three: only 0 of the 1 issues"),
            "{fewer:?}"
        );
        let level = Level::parse(&format!("{LEVEL}[left]\none = \"a\""));
        assert!(level.err().unwrap().to_string().contains("left.one"));
    }

    #[test]
    fn a_wrong_level_is_named() {
        let error = Level::parse("level = \"all\"").err().unwrap();
        assert!(error.to_string().contains("level must be"), "{error}");
        let error = Level::parse("level = \"rules\"").err().unwrap();
        assert!(error.to_string().contains("floors.statements"), "{error}");
    }
}
