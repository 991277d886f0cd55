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

//! `status`: what is applied, uncommitted and unexported.

use std::collections::HashSet;

use anyhow::Result;

use crate::project::Project;
use crate::series::{self, Series};
use crate::ui;

pub fn status(project: &Project) -> Result<()> {
    let series = Series::read(project)?;
    let git = series::open(project)?;
    let reachable: HashSet<String> =
        git.lines(["rev-list", "HEAD"])?.into_iter().collect();

    let mut table = ui::table(["stage", "patch", "in crates/"]);
    let mut exported = HashSet::new();
    for stage in &series.stages {
        for patch in &stage.patches {
            let commit = series::applied(&git, &patch.key)?;
            let state = match &commit {
                Some(commit) if reachable.contains(commit) => "applied",
                Some(_) => "not on HEAD",
                None => "not applied",
            };
            exported.extend(commit);
            table.add_row([stage.name.as_str(), patch.subject.as_str(), state]);
        }
    }
    match series::committed(&git) {
        Ok(stages) => {
            for (stage, commits) in stages {
                for commit in commits.iter().filter(|c| !exported.contains(&c.hash)) {
                    table.add_row([
                        stage.as_str(),
                        commit.subject.as_str(),
                        "not exported",
                    ]);
                }
            }
        }
        Err(error) => eprintln!("{error:#}"),
    }
    say!("{table}");

    let branch = git.read(["branch", "--show-current"])?;
    match branch.as_str() {
        "" => say!(
            "HEAD: detached at {}",
            git.read(["log", "-1", "--format=%h %s"])?
        ),
        name => say!("HEAD: branch {name}"),
    }
    if let Some(busy) = git.in_progress() {
        say!("in the middle of {busy}");
    }
    let uncommitted = git.uncommitted()?;
    say!("not committed in crates/: {} files", uncommitted.len());
    for line in uncommitted.iter().take(20) {
        say!("  {line}");
    }
    let superseded = series::superseded(&git, &series)?;
    if !superseded.is_empty() {
        say!(
            "exported once, but not in patches/ now: {} commits (kept by refs/xtask/applied/)",
            superseded.len()
        );
        for line in superseded {
            say!("  {line}");
        }
    }
    let unexported = series::unexported(&git)?;
    say!("not exported to patches/: {} commits", unexported.len());
    for line in unexported {
        say!("  {line}");
    }
    Ok(())
}
