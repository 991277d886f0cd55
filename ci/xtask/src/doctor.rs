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

//! `doctor`: does a project really link the fork?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::{MetadataCommand, Package};

use crate::base;
use crate::dist::MARKER;
use crate::git::Git;
use crate::project::{BASE_VERSION, Project};
use crate::series::UPSTREAM_REF;
use crate::ui;

/// Prints where each DataFusion crate of the project at `path` comes from.
/// Returns whether all of them are the fork's.
pub fn doctor(project: &Project, path: &Path) -> Result<bool> {
    let manifest = if path.is_dir() {
        path.join("Cargo.toml")
    } else {
        path.to_path_buf()
    };
    let metadata = MetadataCommand::new()
        .manifest_path(&manifest)
        .exec()
        .with_context(|| {
            format!("cargo cannot read the project at {}", path.display())
        })?;
    let ours = base::pinned_crates(&project.upstream().join("Cargo.toml"))?;
    let mut found: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
    for package in &metadata.packages {
        if ours.iter().any(|name| name == package.name.as_str()) {
            found
                .entry(package.name.as_str())
                .or_default()
                .push(package);
        }
    }
    if found.is_empty() {
        say!("{} does not depend on DataFusion", manifest.display());
        return Ok(false);
    }

    let mut table = ui::table(["crate", "version", "comes from", "the fork"]);
    let mut stock = vec![];
    let mut twice = vec![];
    for (name, packages) in &found {
        if packages.len() > 1 {
            twice.push(*name);
        }
        for package in packages {
            let tree = fork_tree(package);
            let origin = match (&tree, &package.source) {
                (Some(tree), _) => tree.display().to_string(),
                (None, Some(source)) => source.to_string(),
                (None, None) => package.manifest_path.to_string(),
            };
            let version = package.version.to_string();
            let verdict = if tree.is_some() { "yes" } else { "no" };
            table.add_row([*name, version.as_str(), origin.as_str(), verdict]);
            if tree.is_none() {
                stock.push((*name, version));
            }
        }
    }
    say!("{table}");
    let total: usize = found.values().map(Vec::len).sum();
    if stock.is_empty() {
        say!("all {total} DataFusion crates come from the fork");
        return Ok(true);
    }
    say!(
        "{} of {total} DataFusion crates do not come from the fork:",
        stock.len()
    );
    if stock.iter().any(|(_, version)| version != BASE_VERSION) {
        say!(
            "* [patch.crates-io] offers {BASE_VERSION}, and cargo prefers a newer version that fits: \
             pin `datafusion = \"={BASE_VERSION}\"` and run \
             `cargo update -p datafusion --precise {BASE_VERSION}` (likewise for the crates above)."
        );
    }
    if stock.iter().any(|(_, version)| version == BASE_VERSION) {
        say!(
            "* crates of version {BASE_VERSION} from another place lack a line in the [patch.crates-io] of the \
             workspace's root manifest (cargo ignores the block elsewhere); README.md has the whole block."
        );
    }
    if !twice.is_empty() {
        say!(
            "* {} is linked twice; types of one copy do not fit the other.",
            twice.join(", ")
        );
    }
    Ok(false)
}

/// The root of the fork's tree that holds `package`, if it is one of ours.
fn fork_tree(package: &Package) -> Option<PathBuf> {
    if package.source.is_some() {
        return None;
    }
    let folder = package.manifest_path.parent()?.as_std_path();
    let depth = base::upstream_folder(package.name.as_str())
        .split('/')
        .count();
    let root = folder.ancestors().nth(depth)?;
    // The tree that `vendor` makes, unless it shows the base without patches.
    let git = Git::at(root);
    let vendored = root.join(".git").exists()
        && matches!(git.commit(UPSTREAM_REF), Ok(Some(base)) if git.head().is_ok_and(|h| h != base));
    (root.join(MARKER).exists() || vendored).then(|| root.to_path_buf())
}
