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

//! The unpatched base: the published crates, laid out as in upstream's repository.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;
use indicatif::ProgressIterator;
use toml_edit::{DocumentMut, Item, Table, value};

use crate::project::{BASE_VERSION, Project};
use crate::ui;

/// Where the pristine crates come from.
pub trait Base {
    /// Crate name to the folder that holds its published source.
    fn sources(&self, project: &Project) -> Result<BTreeMap<String, PathBuf>>;
}

/// crates.io, through cargo: it downloads what is missing and verifies each
/// archive against the checksum in `ci/upstream/Cargo.lock`.
pub struct Registry {
    /// Whether the lock file decides; it does but when it is made anew.
    pub locked: bool,
}

/// The registry as `ci/upstream/Cargo.lock` pins it.
pub const REGISTRY: Registry = Registry { locked: true };

impl Base for Registry {
    fn sources(&self, project: &Project) -> Result<BTreeMap<String, PathBuf>> {
        let manifest = project.upstream().join("Cargo.toml");
        let pinned = pinned_crates(&manifest)?;
        let locked = self.locked.then_some("--locked");
        let fetch = Command::new(cargo())
            .args(["fetch", "--manifest-path"])
            .arg(&manifest)
            .args(locked)
            .status()
            .context("cargo could not be started")?;
        if !fetch.success() {
            bail!(
                "cargo could not fetch the pinned crates of DataFusion {BASE_VERSION} (its own message is above).\n\
                 They come from crates.io and are needed once: check the network, or CARGO_NET_OFFLINE if it is set, \
                 and run the command again. Nothing was changed."
            );
        }
        let metadata = MetadataCommand::new()
            .manifest_path(&manifest)
            .other_options(["--locked".to_string(), "--offline".to_string()])
            .exec()
            .with_context(|| {
                format!("cargo cannot read {}", project.display(&manifest))
            })?;
        let mut sources = BTreeMap::new();
        for name in pinned {
            let package = metadata
                .packages
                .iter()
                .find(|p| {
                    p.name.as_str() == name && p.version.to_string() == BASE_VERSION
                })
                .with_context(|| {
                    format!("{name} {BASE_VERSION} is not in ci/upstream/Cargo.lock")
                })?;
            let folder = package
                .manifest_path
                .parent()
                .context("a manifest without a folder")?;
            sources.insert(name, folder.as_std_path().to_path_buf());
        }
        Ok(sources)
    }
}

/// The cargo that runs this tool.
pub fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string())
}

/// The names that `ci/upstream/Cargo.toml` pins.
pub fn pinned_crates(manifest: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(manifest)
        .with_context(|| format!("cannot read {}", manifest.display()))?;
    let document: DocumentMut = text
        .parse()
        .with_context(|| format!("{} is not TOML", manifest.display()))?;
    let dependencies = document
        .get("dependencies")
        .and_then(Item::as_table)
        .with_context(|| format!("{} has no [dependencies]", manifest.display()))?;
    let wanted = format!("={BASE_VERSION}");
    dependencies
        .iter()
        .map(|(name, item)| {
            let version = item.get("version").or(Some(item)).and_then(Item::as_str);
            if version != Some(wanted.as_str()) {
                bail!(
                    "{} pins {name} to {version:?}, expected {wanted:?}",
                    manifest.display()
                );
            }
            Ok(name.to_string())
        })
        .collect()
}

/// The folder of a crate in upstream's repository.
pub fn upstream_folder(crate_name: &str) -> String {
    match crate_name {
        "datafusion" => "datafusion/core".to_string(),
        "datafusion-cli" => "datafusion-cli".to_string(),
        name => format!("datafusion/{}", name.trim_start_matches("datafusion-")),
    }
}

/// Copies the crates of `sources` to `to` in upstream's layout and gives every
/// dependency among them its `path`.
pub fn lay_out(sources: &BTreeMap<String, PathBuf>, to: &Path) -> Result<()> {
    let options = fs_extra::dir::CopyOptions::new().content_only(true);
    let bar = ui::progress(sources.len() as u64, "copying");
    for (name, from) in sources.iter().progress_with(bar) {
        let folder = to.join(upstream_folder(name));
        fs::create_dir_all(&folder)?;
        fs_extra::dir::copy(from, &folder, &options).with_context(|| {
            format!("cannot copy {} to {}", from.display(), folder.display())
        })?;
        // Written by cargo when it unpacked the archive, not part of the crate.
        for extra in [".cargo-ok", ".cargo-checksum.json"] {
            let file = folder.join(extra);
            if file.exists() {
                fs::remove_file(file)?;
            }
        }
        let manifest = folder.join("Cargo.toml");
        let text = fs::read_to_string(&manifest)
            .with_context(|| format!("the published {name} has no Cargo.toml"))?;
        let linked =
            link_manifest(&text, name, |dependency| sources.contains_key(dependency))
                .with_context(|| format!("in the manifest of {name}"))?;
        fs::write(&manifest, linked)?;
    }
    Ok(())
}

/// The one change made to published manifests: `path` beside the version of
/// each dependency that `is_ours`, so that the tree is self-contained.
fn link_manifest(
    text: &str,
    crate_name: &str,
    is_ours: impl Fn(&str) -> bool,
) -> Result<String> {
    let mut document: DocumentMut = text.parse()?;
    let depth = upstream_folder(crate_name).split('/').count();
    let link = |table: &mut Table| -> Result<()> {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(dependencies) = table.get_mut(kind).and_then(Item::as_table_mut)
            else {
                continue;
            };
            for (key, item) in dependencies.iter_mut() {
                let package = item
                    .get("package")
                    .and_then(Item::as_str)
                    .unwrap_or(key.get())
                    .to_string();
                if !is_ours(&package) {
                    continue;
                }
                let path =
                    format!("{}{}", "../".repeat(depth), upstream_folder(&package));
                item.as_table_mut()
                    .with_context(|| format!("{package} is not a table of its own"))?
                    .insert("path", value(path));
            }
        }
        Ok(())
    };
    link(document.as_table_mut())?;
    if let Some(targets) = document.get_mut("target").and_then(Item::as_table_mut) {
        for (_, target) in targets.iter_mut() {
            if let Some(table) = target.as_table_mut() {
                link(table)?;
            }
        }
    }
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_upstreams() {
        assert_eq!(upstream_folder("datafusion"), "datafusion/core");
        assert_eq!(upstream_folder("datafusion-cli"), "datafusion-cli");
        assert_eq!(
            upstream_folder("datafusion-expr-common"),
            "datafusion/expr-common"
        );
    }

    #[test]
    fn every_kind_of_dependency_gets_its_path() {
        let manifest = r#"[package]
name = "datafusion-x"

[dependencies.arrow]
version = "59"

[dependencies.datafusion-common]
version = "55.2.0"
default-features = false

[dev-dependencies.renamed]
version = "55.2.0"
package = "datafusion"

[target.'cfg(unix)'.build-dependencies.datafusion-cli]
version = "55.2.0"
"#;
        let linked = link_manifest(manifest, "datafusion-x", |name| {
            name.starts_with("datafusion")
        })
        .unwrap();
        let expected = r#"[package]
name = "datafusion-x"

[dependencies.arrow]
version = "59"

[dependencies.datafusion-common]
version = "55.2.0"
default-features = false
path = "../../datafusion/common"

[dev-dependencies.renamed]
version = "55.2.0"
package = "datafusion"
path = "../../datafusion/core"

[target.'cfg(unix)'.build-dependencies.datafusion-cli]
version = "55.2.0"
path = "../../datafusion-cli"
"#;
        assert_eq!(linked, expected);
    }
}
