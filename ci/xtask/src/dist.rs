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

//! `dist`: the patched tree as an archive that others can vendor.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::base;
use crate::project::{BASE_VERSION, Project};
use crate::series::{self, UPSTREAM};

/// The file that marks a tree as the fork; [`crate::doctor`] looks for it.
pub const MARKER: &str = "SERIES.md";

pub fn dist(project: &Project) -> Result<PathBuf> {
    let git = series::open(project)?;
    let uncommitted = git.uncommitted()?;
    if !uncommitted.is_empty() {
        bail!(
            "{} files in crates/ are in no commit, so no archive could hold them; commit or remove them first \
             (`cargo xtask status` lists them)",
            uncommitted.len()
        );
    }
    let stages = series::committed(&git)?;
    let stage = stages.last().map_or(UPSTREAM, |(name, _)| name);
    let short = git.read(["rev-parse", "--short=10", "HEAD"])?;
    let name = format!("datafusion-{BASE_VERSION}-column-ids-{stage}-{short}");

    let mut marker = format!(
        "# Apache DataFusion {BASE_VERSION} with column identity\n\n\
         A modified copy of the 40 published crates of DataFusion {BASE_VERSION}, not an Apache release. \
         Put it under version control as a whole and add these lines to the Cargo.toml of your workspace \
         (paths are relative to that file):\n\n```toml\n{}```\n\nThe patches applied, in order:\n\n",
        patch_block(project, &name)?
    );
    for (stage, commits) in &stages {
        for commit in commits {
            marker.push_str(&format!("* {stage}: {}\n", commit.subject));
        }
    }
    // A workspace of its own: it can be built and tested where it lies.
    let manifest =
        fs::read_to_string(project.root().join("Cargo.toml"))?.replace("\"crates/", "\"");
    let scratch = tempfile::tempdir()?;
    let mut extra = vec![];
    for (file, content) in [(MARKER, marker), ("Cargo.toml", manifest)] {
        fs::write(scratch.path().join(file), content)?;
        extra.push(scratch.path().join(file));
    }
    for file in ["Cargo.lock", "LICENSE", "NOTICE"] {
        extra.push(project.root().join(file));
    }

    let folder = project.target().join("dist");
    fs::create_dir_all(&folder)?;
    let archive = folder.join(format!("{name}.tar.gz"));
    let mut args = vec![
        "archive".to_string(),
        "--format=tar.gz".to_string(),
        format!("--prefix={name}/"),
        format!("--output={}", archive.display()),
    ];
    for file in extra {
        let file = file
            .canonicalize()
            .with_context(|| format!("{} is missing", file.display()))?;
        args.push(format!("--add-file={}", file.display()));
    }
    args.push("HEAD".to_string());
    git.run(&args)?;
    Ok(archive)
}

/// The `[patch.crates-io]` block that points a workspace at the tree in `folder`.
pub fn patch_block(project: &Project, folder: &str) -> Result<String> {
    let mut block = format!(
        "[dependencies]\ndatafusion = \"={BASE_VERSION}\"\n\n[patch.crates-io]\n"
    );
    for name in base::pinned_crates(&project.upstream().join("Cargo.toml"))? {
        block.push_str(&format!(
            "{name} = {{ path = \"{folder}/{}\" }}\n",
            base::upstream_folder(&name)
        ));
    }
    Ok(block)
}
