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

//! The sqllogictest files, with the runner that upstream ships.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{Outcome, stream, unit, without_data};
use crate::project::Project;
use crate::testdata;

pub const PACKAGE: &str = "datafusion-sqllogictest";

/// What the runner is to log, and where to.
pub struct Log<'a> {
    /// In the form of `RUST_LOG`
    pub filter: &'a str,
    pub file: &'a Path,
}

/// Runs the files whose path holds `filter`, or all.
pub fn run(
    project: &Project,
    filter: Option<&str>,
    log: Option<Log<'_>>,
) -> Result<Outcome> {
    let has_data = testdata::link(project)?;
    testdata::tpch(project)?;
    let mut outcome = Outcome::default();
    let mut chosen = BTreeSet::new();
    let mut includes = BTreeSet::new();
    let mut without = vec![];
    for file in testdata::slt_files(project)? {
        if filter.is_some_and(|f| !file.to_string_lossy().contains(f)) {
            continue;
        }
        let uses = testdata::uses(project, &file)?;
        if has_data || uses.data.is_empty() {
            chosen.insert(file);
            includes.extend(uses.includes);
        } else {
            without.push(file.display().to_string());
        }
    }
    outcome.skipped = without.len();
    if !without.is_empty() {
        outcome.notes.push(without_data(&format!(
            "skipped {} files: {}",
            without.len(),
            without.join(", ")
        )));
    }
    if chosen.is_empty() {
        return Ok(outcome);
    }

    let mut command = unit::cargo_test(project)?;
    if let Some(log) = log {
        // Built before, so that standard error is the log and nothing else.
        let mut build = unit::cargo_test(project)?;
        build.args(["--test", "sqllogictests", "--no-run"]);
        if !build.status()?.success() {
            bail!("the sqllogictest runner does not build");
        }
        let file = File::create(log.file)
            .with_context(|| format!("cannot write {}", log.file.display()))?;
        command.env("RUST_LOG", log.filter).stderr(file);
    }
    command
        .env("INCLUDE_TPCH", "true")
        .env_remove("INCLUDE_SQLITE")
        .env_remove("PG_COMPAT")
        .args(["--test", "sqllogictests", "--", "--timing-summary"]);
    if filter.is_some() || !without.is_empty() {
        // The runner matches its arguments against the paths of files, those of
        // included files as well: records of one that does not match are left out.
        command.args(chosen.iter().chain(&includes));
    }
    let mut ran = BTreeSet::new();
    let mut failed = BTreeSet::new();
    let ok = stream(&mut command, |line| match timed_file(line) {
        Some(file) => {
            ran.insert(Path::new("test_files").join(file));
        }
        None => {
            failed.extend(failed_file(line, &chosen));
            if !line.starts_with("Per-file elapsed summary") {
                say!("{line}");
            }
        }
    })?;
    let missing: Vec<_> = chosen.difference(&ran).collect();
    if ran.is_empty() && !ok {
        bail!("the sqllogictest runner did not build or was ended");
    }
    for file in &missing {
        outcome.fail(format!("{} was not run by the runner", file.display()));
    }
    for file in &failed {
        outcome.fail(format!("FAILED {}", file.display()));
    }
    if !ok && failed.is_empty() && missing.is_empty() {
        outcome.fail("the runner reports a failure in no file that it names (see above)");
    }
    outcome.passed = ran.difference(&failed).count();
    Ok(outcome)
}

/// The file of a line of the runner's timing summary: `  3.    1.234s  window.slt`.
fn timed_file(line: &str) -> Option<&str> {
    let (rank, rest) = line.trim_start().split_once(". ")?;
    rank.parse::<usize>().ok()?;
    let (seconds, file) = rest.trim_start().split_once("s  ")?;
    seconds.parse::<f64>().ok()?;
    file.ends_with(".slt").then_some(file)
}

/// The file that a line of the runner's error report is about.
fn failed_file(line: &str, chosen: &BTreeSet<PathBuf>) -> Option<PathBuf> {
    // `... in file test_files/a.slt ...`, `failure in a.slt for sql ...`, `at test_files/a.slt:12`
    line.split(|c: char| c.is_whitespace() || "\"'(),".contains(c))
        .filter_map(|word| word.find(".slt").map(|end| &word[..end + 4]))
        .flat_map(|word| {
            let below = word.find("test_files/").map_or(word, |at| &word[at..]);
            [PathBuf::from(below), Path::new("test_files").join(below)]
        })
        .find(|path| chosen.contains(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runners_lines() {
        assert_eq!(timed_file("  3.    1.234s  window.slt"), Some("window.slt"));
        assert_eq!(
            timed_file("504.    0.000s  tpch/tpch.slt"),
            Some("tpch/tpch.slt")
        );
        assert_eq!(timed_file("1. query failed"), None);
        let chosen = BTreeSet::from([PathBuf::from("test_files/window.slt")]);
        for line in [
            "External error: failure in window.slt for sql SELECT 1",
            "at test_files/window.slt:12",
            "Execution error: Error in \"window.slt\": x",
        ] {
            assert_eq!(
                failed_file(line, &chosen),
                chosen.first().cloned(),
                "{line}"
            );
        }
        assert_eq!(failed_file("at test_files/other.slt:12", &chosen), None);
    }
}
