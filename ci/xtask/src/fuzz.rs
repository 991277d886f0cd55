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

//! `fuzz`: random statements whose names collide, on the fork and on 55.2.0.

use std::process::Command;

use anyhow::{Context, Result};

use crate::project::Project;
use crate::toolchain;

/// Runs `ci/fuzz`. Returns its exit status.
pub fn fuzz(project: &Project, args: &[String]) -> Result<i32> {
    let mut command = toolchain::cargo(project)?;
    command
        .env("CARGO_TARGET_DIR", project.target().join("fuzz"))
        .args(["build", "--locked", "--manifest-path"])
        .arg(project.fuzz().join("Cargo.toml"));
    let program = toolchain::build(&mut command).context("the fuzzer does not build")?;
    let status = Command::new(&program)
        .args(args)
        .status()
        .with_context(|| format!("{} could not be started", program.display()))?;
    Ok(status.code().unwrap_or(2))
}
