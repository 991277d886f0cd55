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

//! The unit and integration tests that the published crates ship.

use std::process::Command;

use anyhow::{Context, Result};
use cargo_metadata::MetadataCommand;

use super::{Outcome, harness, slt, without_data};
use crate::project::Project;
use crate::{testdata, toolchain};

/// The crates that the series touches, or that read what it touches.
pub const PACKAGES: [&str; 13] = [
    "datafusion-common",
    "datafusion-expr",
    "datafusion-optimizer",
    "datafusion-sql",
    "datafusion-proto",
    "datafusion-substrait",
    "datafusion",
    "datafusion-physical-plan",
    "datafusion-physical-expr",
    "datafusion-physical-optimizer",
    "datafusion-functions",
    "datafusion-ffi",
    "datafusion-cli",
];

/// Upstream's CI tests with these on. `backtrace` is left out: it slows every
/// error down and no test needs it.
pub const FEATURES: &str = "datafusion/serde,datafusion/avro,datafusion/parquet_encryption,\
datafusion-proto/json,datafusion-ffi/integration-tests,datafusion-sqllogictest/parquet_encryption";

/// Tests of the crates that read upstream's data set.
fn need_data() -> impl Iterator<Item = &'static str> {
    include_str!("need_data.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// `cargo test` over all tested crates.
///
/// Every suite selects the same packages and features, and narrows by target:
/// another selection would be another resolution of features, and cargo would
/// build everything a second time.
pub fn cargo_test(project: &Project) -> Result<Command> {
    let mut command = toolchain::cargo(project)?;
    // One of upstream's own helpers takes the variable for another folder.
    command.env_remove(testdata::VARIABLE);
    command.args(["test", "--locked", "--no-fail-fast", "--features", FEATURES]);
    for package in PACKAGES.iter().chain([&slt::PACKAGE]) {
        command.args(["--package", package]);
    }
    Ok(command)
}

pub fn run(project: &Project, filter: Option<&str>) -> Result<Outcome> {
    let has_data = testdata::link(project)?;
    let mut outcome = Outcome::default();
    let mut command = cargo_test(project)?;
    command.args(["--lib", "--bins"]);
    for name in integration_tests(project)? {
        command.args(["--test", &name]);
    }
    command.arg("--").args(filter);
    if !has_data {
        let names: Vec<_> = need_data()
            .filter(|name| filter.is_none_or(|f| name.contains(f)))
            .collect();
        for name in &names {
            command.args(["--skip", name]);
        }
        if !names.is_empty() {
            outcome.skipped += names.len();
            outcome.notes.push(without_data(&format!(
                "skipped {} tests: {}",
                names.len(),
                names.join(", ")
            )));
        }
    }
    outcome.add(harness(&mut command, "the unit tests")?);
    Ok(outcome)
}

/// The integration tests of [`PACKAGES`] by name: all but the slt runner, which
/// is a test target of the same kind.
fn integration_tests(project: &Project) -> Result<Vec<String>> {
    let metadata = MetadataCommand::new()
        .manifest_path(project.root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("cargo cannot read the vendored workspace")?;
    Ok(metadata
        .packages
        .iter()
        .filter(|p| PACKAGES.contains(&p.name.as_str()))
        .flat_map(|p| &p.targets)
        .filter(|t| t.is_test())
        .map(|t| t.name.clone())
        .collect())
}
