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

//! Every patch builds on its own, and every stage's end passes the suites.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::{Outcome, slt, unit};
use crate::git::Git;
use crate::project::Project;
use crate::series::{self, Commit, UPSTREAM_REF};
use crate::{export, toolchain, ui};

/// `full`: all stages, with unit and slt at the end of each. Else the stages
/// that changed since `since` (the main branch's last commit).
pub fn run(project: &Project, full: bool, since: Option<&str>) -> Result<Outcome> {
    let git = series::open(project)?;
    let differences = export::check(project)?;
    if !differences.is_empty() {
        bail!(
            "patches/ is not what crates/ holds; run `cargo xtask export` first:\n  {}",
            differences.join("\n  ")
        );
    }
    let stages = series::committed(&git)?;
    let changed = if full {
        None
    } else {
        Some(changed_stages(project, since)?)
    };
    let mut outcome = Outcome::default();
    let work = worktree(project, &git)?;
    for (stage, commits) in &stages {
        if changed.as_ref().is_some_and(|c| !c.contains(stage)) {
            outcome.skipped += commits.len();
            outcome.notes.push(format!(
                "{stage}: {} patches did not change, not built",
                commits.len()
            ));
            continue;
        }
        for commit in commits {
            outcome.add(check(&work, stage, commit)?);
        }
        if full {
            for (name, result) in [
                ("unit", unit::run(&work.project, None)),
                ("slt", slt::run(&work.project, None, None)),
            ] {
                let result = result?;
                eprintln!(
                    "{stage}, {name}: {} passed, {} failed, {} skipped",
                    result.passed, result.failed, result.skipped
                );
                outcome.add(result);
            }
        }
    }
    Ok(outcome)
}

struct Work {
    /// A project of its own below `target/`: the user's tree stays as it is.
    project: Project,
    git: Git,
}

/// A second work tree of `crates/` in a folder with the workspace's manifest.
fn worktree(project: &Project, git: &Git) -> Result<Work> {
    let root = project.target().join("series");
    fs::create_dir_all(&root)?;
    for file in ["Cargo.toml", "Cargo.lock"] {
        fs::copy(project.root().join(file), root.join(file))?;
    }
    Ok(Work {
        git: git.worktree(&root.join("crates"), UPSTREAM_REF)?,
        project: Project::at(root),
    })
}

fn check(work: &Work, stage: &str, commit: &Commit) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    eprintln!("{stage}: {}", commit.subject);
    work.git
        .run(["checkout", "--quiet", "--detach", &commit.hash])?;
    let start = std::time::Instant::now();
    let status = toolchain::cargo(&work.project)?
        .args(["check", "--locked", "--workspace", "--tests"])
        .args(["--features", unit::FEATURES])
        .status()
        .context("cargo could not be started")?;
    if status.success() {
        outcome.passed += 1;
        eprintln!("  builds ({})", ui::duration(start.elapsed()));
    } else {
        outcome.fail(format!("{stage}: \"{}\" does not build", commit.subject));
    }
    Ok(outcome)
}

/// The stages whose patches differ from those in commit `since`.
fn changed_stages(project: &Project, since: Option<&str>) -> Result<Vec<String>> {
    let git = Git::at(project.root());
    let since = match since {
        Some(revision) => revision.to_string(),
        None => ["origin/main", "main"]
            .into_iter()
            .find(|name| matches!(git.commit(name), Ok(Some(_))))
            .context(
                "there is no branch main to compare with; name a commit with --since",
            )?
            .to_string(),
    };
    let mut files = git.lines(["diff", "--name-only", &since, "--", "patches"])?;
    files.extend(git.lines([
        "ls-files",
        "--others",
        "--exclude-standard",
        "--",
        "patches",
    ])?);
    let mut stages: Vec<String> = files
        .iter()
        .map(PathBuf::from)
        .filter(|file| file.extension().is_some_and(|e| e == "patch"))
        .filter_map(|file| Some(file.iter().nth(1)?.to_string_lossy().into_owned()))
        .collect();
    stages.sort();
    stages.dedup();
    Ok(stages)
}
