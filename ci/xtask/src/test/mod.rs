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

//! `test`: the suites, and what they add up to.

mod drop_in;
mod series;
pub(crate) mod slt;
mod tool;
mod unit;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::base::REGISTRY;
use crate::project::Project;
use crate::{export, testdata, ui, validate, vendor};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// The tests of this tool
    Tool,
    /// Whether patches/ and test_files/ are what crates/ holds
    Export,
    /// The unit and integration tests of the crates
    Unit,
    /// The sqllogictest files
    Slt,
    /// The sqllogictest files, with the column ids of their plans checked
    Validate,
    /// Every patch of the changed stages builds on its own
    Series,
    /// Published crates written for DataFusion 55, on the fork
    DropIn,
    /// Everything but series; validate stands for slt
    All,
}

impl Suite {
    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |v| v.get_name().to_string())
    }
}

/// What a suite, or a part of it, came to.
#[derive(Debug, Default)]
pub struct Outcome {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
    /// Lines for the end: what failed, what was skipped and why.
    pub notes: Vec<String>,
}

impl Outcome {
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.notes.extend(other.notes);
    }

    pub fn fail(&mut self, note: impl Into<String>) {
        self.failed += 1;
        self.notes.push(note.into());
    }
}

pub struct Options {
    pub suite: Suite,
    pub filter: Option<String>,
    /// For `series`: all stages, each with its unit and slt suites.
    pub full: bool,
    /// For `series`: the commit that counts as the old state.
    pub since: Option<String>,
}

/// Runs the suites. Returns whether everything passed.
pub fn test(project: &Project, options: &Options) -> Result<bool> {
    // A wrong setting is not a failed test: say so before anything runs.
    testdata::source()?;
    vendor::ensure(project, &REGISTRY)?;
    let suites = match options.suite {
        // No filter fits the export check, and it must not make up for one that fits nothing.
        Suite::All if options.filter.is_some() => {
            vec![Suite::Tool, Suite::Unit, Suite::Validate, Suite::DropIn]
        }
        Suite::All => vec![
            Suite::Tool,
            Suite::Export,
            Suite::Unit,
            Suite::Validate,
            Suite::DropIn,
        ],
        one => vec![one],
    };
    let filter = options.filter.as_deref();
    let mut rows: Vec<(String, Outcome, Duration)> = vec![];
    for suite in suites {
        eprintln!("== {} ==", suite.name());
        let start = Instant::now();
        let outcome = match suite {
            Suite::Tool => tool::run(project, filter),
            Suite::Export => exported(project),
            Suite::Unit => unit::run(project, filter),
            Suite::Slt => slt::run(project, filter, None),
            Suite::Validate => validate::validate(project, filter, None),
            Suite::Series => series::run(project, options.full, options.since.as_deref()),
            Suite::DropIn => drop_in::run(project, filter),
            Suite::All => unreachable!("expanded above"),
        };
        // A suite that cannot even start must not keep the others from running.
        let outcome = outcome.unwrap_or_else(|error| {
            let mut outcome = Outcome::default();
            outcome.fail(format!("{} did not run: {error:#}", suite.name()));
            outcome
        });
        rows.push((suite.name(), outcome, start.elapsed()));
    }

    say!("");
    let mut table = ui::table(["suite", "passed", "failed", "skipped", "time"]);
    let mut total = Outcome::default();
    for (name, outcome, time) in rows {
        table.add_row([
            name.clone(),
            outcome.passed.to_string(),
            outcome.failed.to_string(),
            outcome.skipped.to_string(),
            ui::duration(time),
        ]);
        for note in &outcome.notes {
            say!("{name}: {note}");
        }
        total.add(outcome);
    }
    say!("{table}");
    if total.passed + total.failed + total.skipped == 0 {
        // A filter that fits nothing must not look like a success.
        bail!(
            "no test ran{}",
            filter.map_or(String::new(), |f| format!(": nothing fits {f:?}"))
        );
    }
    say!(
        "{} passed, {} failed, {} skipped",
        total.passed,
        total.failed,
        total.skipped
    );
    Ok(total.failed == 0)
}

fn exported(project: &Project) -> Result<Outcome> {
    let differences = export::check(project)?;
    let mut outcome = Outcome::default();
    if differences.is_empty() {
        outcome.passed += 1;
    } else {
        outcome.fail(format!(
            "run `cargo xtask export`:\n  {}",
            differences.join("\n  ")
        ));
    }
    Ok(outcome)
}

/// Runs `command`, hands each line of its standard output to `line`, and says
/// whether it succeeded. Standard error goes through: cargo's progress is there.
fn stream(command: &mut Command, mut line: impl FnMut(&str)) -> Result<bool> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{:?} could not be started", command.get_program()))?;
    let stdout = child.stdout.take().context("no standard output to read")?;
    let mut reader = BufReader::new(stdout);
    let mut bytes = vec![];
    while reader.read_until(b'\n', &mut bytes)? > 0 {
        // Tests print what they like, not only UTF-8.
        line(String::from_utf8_lossy(&bytes).trim_end_matches('\n'));
        bytes.clear();
    }
    Ok(child.wait()?.success())
}

/// Runs `cargo test` in the form that the built-in harness prints, shows all
/// but the lines of tests that pass, and adds up the results.
///
/// `ignored` tests count as skipped.
fn harness(command: &mut Command, what: &str) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let ok = stream(command, |line| {
        if let Some(test) = line.strip_prefix("test ") {
            if let Some(name) = test.strip_suffix(" ... FAILED") {
                outcome.notes.push(format!("FAILED {name}"));
            }
            if test.ends_with(" ... ok") || test.contains(" ... ignored") {
                return;
            }
        }
        if let Some(counts) = line.strip_prefix("test result: ") {
            outcome.passed += count(counts, "passed");
            outcome.failed += count(counts, "failed");
            outcome.skipped += count(counts, "ignored");
        }
        if !line.is_empty() {
            say!("{line}");
        }
    })?;
    if !ok && outcome.failed == 0 {
        outcome.fail(format!("{what} did not build or was ended"));
    }
    Ok(outcome)
}

/// The number before `word` in `ok. 3 passed; 0 failed; ...`
fn count(counts: &str, word: &str) -> usize {
    counts
        .split(['.', ';'])
        .filter_map(|part| part.trim().strip_suffix(word))
        .find_map(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

/// Says once, for all suites, that the data is not there.
fn without_data(skipped: &str) -> String {
    format!(
        "{skipped}; they read upstream's data set: {}",
        testdata::HOW_TO_GET
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_the_built_in_harness() {
        let line = "FAILED. 250 passed; 2 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.31s";
        assert_eq!(count(line, "passed"), 250);
        assert_eq!(count(line, "failed"), 2);
        assert_eq!(count(line, "ignored"), 1);
        assert_eq!(count(line, "nothing"), 0);
    }
}
