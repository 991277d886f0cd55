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

//! Published crates written for DataFusion 55, built and run on the fork.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;
use toml_edit::{DocumentMut, InlineTable, value};

use super::{Outcome, harness};
use crate::git::Git;
use crate::project::Project;
use crate::toolchain;

pub fn run(project: &Project, filter: Option<&str>) -> Result<Outcome> {
    let patched = patched_crates(project)?;
    let mut command = toolchain::cargo(project)?;
    command
        // Shared with the workspace: third-party crates are locked to the same
        // versions, and most of them are built already.
        .env("CARGO_TARGET_DIR", project.target())
        .args(["test", "--no-fail-fast", "--manifest-path"]);
    if patched.is_empty() {
        command
            .arg(project.drop_in().join("Cargo.toml"))
            .arg("--locked");
    } else {
        command.arg(with_patched(project, &patched)?);
    }
    command.arg("--").args(filter);
    harness(&mut command, "the drop-in crate")
}

/// Published crates that the series breaks at compile time, each with the patch
/// that mends it: `ci/drop-in/patches/CRATE-VERSION.patch`.
fn patched_crates(project: &Project) -> Result<BTreeMap<String, PathBuf>> {
    let folder = project.drop_in().join("patches");
    let mut patches = BTreeMap::new();
    if folder.exists() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "patch") {
                let name = path.file_stem().context("a file without a name")?;
                patches.insert(name.to_string_lossy().into_owned(), path);
            }
        }
    }
    Ok(patches)
}

/// A copy of the crate, as far below the project's root as the original, that
/// uses patched copies of published crates. Returns its manifest.
fn with_patched(
    project: &Project,
    patches: &BTreeMap<String, PathBuf>,
) -> Result<PathBuf> {
    let original = project.drop_in();
    let metadata = MetadataCommand::new()
        .manifest_path(original.join("Cargo.toml"))
        .exec()
        .context("cargo cannot read ci/drop-in")?;
    let copy = project.target().join("drop-in");
    let options = fs_extra::dir::CopyOptions::new()
        .content_only(true)
        .overwrite(true);
    fs::create_dir_all(&copy)?;
    fs_extra::dir::copy(&original, &copy, &options)?;
    let manifest = copy.join("Cargo.toml");
    let mut document: DocumentMut = fs::read_to_string(&manifest)?.parse()?;
    for (name, patch) in patches {
        let package = metadata
            .packages
            .iter()
            .find(|p| format!("{}-{}", p.name, p.version) == *name)
            .with_context(|| {
                format!(
                    "{} is for a crate that ci/drop-in/Cargo.lock does not hold",
                    project.display(patch)
                )
            })?;
        let source = package
            .manifest_path
            .parent()
            .context("a manifest without a folder")?;
        let folder = copy.join("published").join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let options = fs_extra::dir::CopyOptions::new().content_only(true);
        fs_extra::dir::copy(source, &folder, &options)?;
        apply(project, patch, &folder)?;
        let mut table = InlineTable::new();
        table.insert("path", format!("published/{name}").into());
        document
            .get_mut("patch")
            .and_then(|p| p.get_mut("crates-io"))
            .and_then(|p| p.as_table_mut())
            .context("ci/drop-in/Cargo.toml has no [patch.crates-io]")?
            .insert(package.name.as_str(), value(table));
    }
    fs::write(&manifest, document.to_string())?;
    Ok(manifest)
}

fn apply(project: &Project, patch: &Path, folder: &Path) -> Result<()> {
    let output =
        Git::at(folder).output(["apply".as_ref(), "-p1".as_ref(), patch.as_os_str()])?;
    if !output.status.success() {
        bail!(
            "{} does not apply to the published crate:\n{}",
            project.display(patch),
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(())
}
