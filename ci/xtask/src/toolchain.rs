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

//! How the vendored workspace is built: cargo with `protoc` at hand.

use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use cargo_metadata::Message;

use crate::base;
use crate::project::Project;

/// A cargo command in the vendored workspace.
pub fn cargo(project: &Project) -> Result<Command> {
    let mut command = Command::new(base::cargo());
    // What cargo says of this tool's own package must not reach the build scripts of
    // others: some ask to be run again when it changes, and then what was built without
    // the tool, with plain cargo, would be built again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    command.env("PROTOC", protoc()?);
    command.current_dir(project.root());
    Ok(command)
}

/// Runs a `cargo build` and returns the program that it made.
///
/// To run that and not `cargo run`, which would build again what has been changed in
/// the meantime, is what makes a result belong to what was built.
///
/// # Errors
///
/// If it does not build, or makes no program.
pub fn build(command: &mut Command) -> Result<PathBuf> {
    let mut child = command
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo could not be started")?;
    let stdout = child.stdout.take().context("no standard output to read")?;
    let mut program = None;
    for message in Message::parse_stream(BufReader::new(stdout)) {
        if let Message::CompilerArtifact(artifact) =
            message.context("cargo's messages cannot be read")?
            && let Some(executable) = artifact.executable
        {
            program = Some(executable.into_std_path_buf());
        }
    }
    if !child.wait()?.success() {
        bail!("cargo's message is above");
    }
    program.context("cargo built no program")
}

/// `datafusion-substrait` needs a protobuf compiler: the one that `PROTOC`
/// names, else the one on PATH, else the one in the `protoc-bin-vendored` crate.
fn protoc() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("PROTOC") {
        return Ok(named.into());
    }
    if let Ok(found) = which::which("protoc") {
        return Ok(found);
    }
    protoc_bin_vendored::protoc_bin_path().context(
        "no protoc for this platform: install it and put it on PATH or name it in PROTOC",
    )
}
