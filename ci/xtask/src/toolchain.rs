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

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::base;
use crate::project::Project;

/// A cargo command in the vendored workspace.
pub fn cargo(project: &Project) -> Result<Command> {
    let mut command = Command::new(base::cargo());
    command.env("PROTOC", protoc()?);
    command.current_dir(project.root());
    Ok(command)
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
