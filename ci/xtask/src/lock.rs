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

//! `lock`: lock files with the versions that upstream tested.
//!
//! Each published crate ships the lock file it was packaged with, all made from
//! the one of upstream's workspace. Together they name a version of every
//! third-party crate that the vendored workspace needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;
use toml_edit::{DocumentMut, Table};

use crate::base::{Base, Registry};
use crate::project::Project;

/// Name and version.
type Key = (String, String);

#[derive(Default)]
struct Locked {
    source: String,
    checksum: Option<String>,
    dependencies: BTreeSet<String>,
}

/// Writes the lock files of the vendored workspace and of what is built beside
/// it. Returns how many packages the shipped lock files name.
///
/// The vendored workspace can be locked only when `crates/` holds the base that
/// `ci/upstream` names; before that only `ci/upstream/Cargo.lock` is written.
pub fn lock(project: &Project) -> Result<usize> {
    let base = Registry { locked: false };
    let mut packages = BTreeMap::new();
    for (name, folder) in base.sources(project)? {
        let file = folder.join("Cargo.lock");
        let text = fs::read_to_string(&file)
            .with_context(|| format!("{name} ships no readable Cargo.lock"))?;
        merge(&text, &mut packages)
            .with_context(|| format!("in the lock file of {name}"))?;
    }
    let text = render(&packages);
    for folder in [
        project.upstream(),
        project.root().to_path_buf(),
        project.drop_in(),
        project.bench(),
        project.fuzz(),
    ] {
        if folder != project.upstream() && !project.crates().exists() {
            eprintln!(
                "only ci/upstream/Cargo.lock was written: there is no crates/ yet; run \
                 `cargo xtask vendor --upstream`, then `cargo xtask lock` again"
            );
            break;
        }
        complete(&folder, &text)?;
    }
    Ok(packages.len())
}

fn merge(text: &str, packages: &mut BTreeMap<Key, Locked>) -> Result<()> {
    let document: DocumentMut = text.parse()?;
    let tables: Vec<&Table> = document
        .get("package")
        .and_then(|p| p.as_array_of_tables())
        .context("no [[package]]")?
        .iter()
        .collect();
    let field = |table: &Table, name: &str| -> Option<String> {
        Some(table.get(name)?.as_str()?.to_string())
    };
    // The crates of the base come by path; cargo adds them by itself.
    let ours = |name: &str| name == "datafusion" || name.starts_with("datafusion-");
    for table in &tables {
        let name = field(table, "name").context("a package without a name")?;
        if ours(&name) {
            continue;
        }
        let version = field(table, "version").context("a package without a version")?;
        let source =
            field(table, "source").with_context(|| format!("{name} has no source"))?;
        let entry = packages.entry((name, version)).or_default();
        entry.source = source;
        entry.checksum = field(table, "checksum");
        let dependencies = table.get("dependencies").and_then(|d| d.as_array());
        for dependency in dependencies.into_iter().flatten() {
            let dependency = dependency
                .as_str()
                .context("a dependency that is no text")?;
            let mut words = dependency.split(' ');
            let name = words.next().unwrap_or_default();
            let version = words.next();
            if ours(name) {
                continue;
            }
            // A lock file names the version only where the name alone is not
            // clear in that file; in the sum of all it may not be.
            let mut found = tables.iter().filter(|t| {
                field(t, "name").as_deref() == Some(name)
                    && (version.is_none() || field(t, "version").as_deref() == version)
            });
            let (Some(target), None) = (found.next(), found.next()) else {
                bail!("the dependency {dependency:?} is not clear");
            };
            let version = field(target, "version").unwrap_or_default();
            let source = field(target, "source").unwrap_or_default();
            entry
                .dependencies
                .insert(format!("{name} {version} ({source})"));
        }
    }
    Ok(())
}

fn render(packages: &BTreeMap<Key, Locked>) -> String {
    let mut text = String::from("version = 4\n");
    for ((name, version), locked) in packages {
        text.push_str(&format!(
            "\n[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = \"{}\"\n",
            locked.source
        ));
        if let Some(checksum) = &locked.checksum {
            text.push_str(&format!("checksum = \"{checksum}\"\n"));
        }
        if !locked.dependencies.is_empty() {
            text.push_str("dependencies = [\n");
            for dependency in &locked.dependencies {
                text.push_str(&format!(" \"{dependency}\",\n"));
            }
            text.push_str("]\n");
        }
    }
    text
}

/// Lets cargo add what `text` lacks and bring it into its own form.
fn complete(folder: &Path, text: &str) -> Result<()> {
    let file = folder.join("Cargo.lock");
    let old = fs::read(&file).ok();
    fs::write(&file, text)?;
    let completed = MetadataCommand::new()
        .manifest_path(folder.join("Cargo.toml"))
        .exec();
    if let (Err(_), Some(old)) = (&completed, old) {
        fs::write(&file, old)?;
    }
    completed.with_context(|| {
        format!("cargo cannot complete {}; it is as it was", file.display())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_stay_clear_in_the_sum() {
        let package = |name: &str, version: &str, dependencies: &str| {
            format!(
                "[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = \"r\"\nchecksum = \"c\"\n{dependencies}\n"
            )
        };
        let one = package(
            "user",
            "1.0.0",
            "dependencies = [\"rand\", \"datafusion-common\"]",
        ) + &package("rand", "0.8.0", "")
            + "[[package]]\nname = \"datafusion-common\"\nversion = \"55.2.0\"\n";
        let two = package("rand", "0.9.0", "") + &package("rand", "0.8.0", "");
        let mut packages = BTreeMap::new();
        merge(&one, &mut packages).unwrap();
        merge(&two, &mut packages).unwrap();
        assert_eq!(packages.len(), 3);
        let text = render(&packages);
        assert!(text.contains("\"rand 0.8.0 (r)\""), "{text}");
        assert!(!text.contains("datafusion"), "{text}");
        let unclear = two + &package("user", "1.0.0", "dependencies = [\"rand\"]");
        assert!(merge(&unclear, &mut packages).is_err());
    }
}
