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

//! `bench`: planning speed of 55.2.0, or of an earlier stage, against the fork.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use toml_edit::{DocumentMut, value};

use crate::git::Git;
use crate::project::Project;
use crate::{series, testdata, toolchain};

pub struct Options {
    /// A stage to measure against in place of 55.2.0.
    pub base: Option<String>,
    /// Less optimised engines that build in a third of the time.
    pub quick: bool,
    /// Passed on to `planning-bench`.
    pub args: Vec<String>,
}

/// Runs `ci/bench`. Returns its exit status.
pub fn bench(project: &Project, options: &Options) -> Result<i32> {
    let git = series::open(project)?;
    let mut args = options.args.clone();
    let manifest = match &options.base {
        None => project.bench().join("Cargo.toml"),
        Some(stage) => {
            args.extend(["--base-name".to_string(), stage.clone()]);
            against_stage(project, &git, stage)?
        }
    };
    let mut command = toolchain::cargo(project)?;
    command
        .env("CARGO_TARGET_DIR", project.target().join("bench"))
        .args(["build", "--manifest-path"])
        .arg(&manifest)
        .args(["--profile", if options.quick { "quick" } else { "release" }])
        // A copy with another base has another lock file.
        .args(options.base.is_none().then_some("--locked"));
    // The program that was built is run, and not what cargo would build of a tree that
    // has been changed meanwhile.
    let program =
        toolchain::build(&mut command).context("the benchmark does not build")?;
    let status = Command::new(&program)
        .args(args)
        .status()
        .with_context(|| format!("{} could not be started", program.display()))?;
    if std::env::var_os(testdata::VARIABLE).is_none() {
        eprintln!(
            "note: measured on the built-in queries; for upstream's, {}",
            testdata::HOW_TO_GET
        );
    }
    Ok(status.code().unwrap_or(2))
}

/// A copy of `ci/bench`, as far below the project's root as the original, whose
/// base engine is the tree at the end of `stage`. Returns its manifest.
fn against_stage(project: &Project, git: &Git, stage: &str) -> Result<PathBuf> {
    let Some(commit) = git.commit(&format!("refs/tags/{stage}"))? else {
        bail!("crates/ has no tag {stage}; `cargo xtask status` lists the stages");
    };
    let copy = project.target().join("bench-base");
    let options = fs_extra::dir::CopyOptions::new()
        .content_only(true)
        .overwrite(true);
    fs::create_dir_all(&copy)?;
    fs_extra::dir::copy(project.bench(), &copy, &options)?;
    let tree = project.target().join("bench-tree");
    git.worktree(&tree, &commit)?;
    let manifest = copy.join("Cargo.toml");
    let mut document: DocumentMut = fs::read_to_string(&manifest)?.parse()?;
    let stock = document
        .get_mut("dependencies")
        .and_then(|d| d.get_mut("stock"))
        .and_then(|s| s.as_table_like_mut())
        .context("ci/bench/Cargo.toml has no dependency stock")?;
    stock.remove("version");
    stock.insert("path", value("../bench-tree/datafusion/core"));
    fs::write(&manifest, document.to_string())?;
    Ok(manifest)
}
