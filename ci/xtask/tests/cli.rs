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

//! What a person sees of the commands: messages and exit statuses.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn xtask(project: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("--project").arg(project);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A project that has only the pins of the base.
fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let pins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../upstream");
    let to = folder.path().join("ci/upstream");
    fs::create_dir_all(to.join("src")).unwrap();
    for file in ["Cargo.toml", "Cargo.lock", "TREE", "src/lib.rs"] {
        fs::copy(pins.join(file), to.join(file)).unwrap();
    }
    folder
}

#[test]
fn without_a_network_vendor_says_so_and_changes_nothing() {
    let project = project();
    let empty_home = tempfile::tempdir().unwrap();
    let output = xtask(project.path())
        .arg("vendor")
        .env("CARGO_HOME", empty_home.path())
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("could not fetch the pinned crates"), "{text}");
    assert!(text.contains("check the network"), "{text}");
    let mut left: Vec<_> = fs::read_dir(project.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    left.sort();
    // `target` has the lock file of the run.
    assert_eq!(left, ["ci", "target"]);
}

#[test]
fn commands_that_need_the_tree_name_the_one_that_makes_it() {
    let project = project();
    for args in [
        vec!["status"],
        vec!["export"],
        vec!["export", "--check"],
        vec!["dist"],
    ] {
        let output = xtask(project.path()).args(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            stderr(&output).contains("run `cargo xtask vendor`"),
            "{args:?}"
        );
    }
}

#[test]
fn doctor_tells_a_stock_project() {
    // The folder that pins the base depends on the published crates themselves.
    let project = project();
    let output = xtask(project.path())
        .arg("doctor")
        .arg(project.path().join("ci/upstream"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("40 of 40 DataFusion crates do not come from the fork"),
        "{text}"
    );
    assert!(
        text.contains("lack a line in the [patch.crates-io]"),
        "{text}"
    );
}

#[test]
fn unknown_words_are_errors_with_help() {
    let output = xtask(Path::new(".")).arg("vendr").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("vendor"), "{}", stderr(&output));
}
