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

//! The tests of this tool.

use std::process::Command;

use anyhow::Result;

use super::{Outcome, harness};
use crate::base;
use crate::project::Project;

pub fn run(project: &Project, filter: Option<&str>) -> Result<Outcome> {
    let mut command = Command::new(base::cargo());
    command
        .current_dir(project.root())
        .args([
            "test",
            "--locked",
            "--manifest-path",
            "ci/xtask/Cargo.toml",
            "--",
        ])
        .args(filter);
    harness(&mut command, "the tool")
}
