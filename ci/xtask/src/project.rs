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

//! Where things are: the paths of the project and the facts about its base.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The release of DataFusion that the series applies to. The crates, their
/// versions and checksums are pinned in `ci/upstream`.
pub const BASE_VERSION: &str = "55.2.0";

/// The paths of one checkout of the project.
///
/// Everything the tool reads or writes is reached through this type, so the
/// tests run the same code on a small project in a temporary folder.
#[derive(Debug, Clone)]
pub struct Project {
    root: PathBuf,
}

impl Project {
    /// The project that this tool was built from.
    pub fn here() -> Result<Self> {
        let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest_dir
            .ancestors()
            .nth(2)
            .context("ci/xtask is not two folders below the project's root")?;
        Ok(Self::at(root))
    }

    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The patched tree: a git repository of its own, laid out as upstream's.
    pub fn crates(&self) -> PathBuf {
        self.root.join("crates")
    }

    /// The series: one folder a stage, one file a patch.
    pub fn patches(&self) -> PathBuf {
        self.root.join("patches")
    }

    /// Readable copies of the `.slt` files that the series adds.
    pub fn test_files(&self) -> PathBuf {
        self.root.join("test_files")
    }

    /// Manifest and lock file that pin the published crates.
    pub fn upstream(&self) -> PathBuf {
        self.root.join("ci/upstream")
    }

    pub fn drop_in(&self) -> PathBuf {
        self.root.join("ci/drop-in")
    }

    pub fn bench(&self) -> PathBuf {
        self.root.join("ci/bench")
    }

    /// The crate of the statement generator.
    pub fn fuzz(&self) -> PathBuf {
        self.root.join("ci/fuzz")
    }

    /// Everything that is made and can be made again.
    pub fn target(&self) -> PathBuf {
        self.root.join("target")
    }

    /// Keeps a second run of the tool from changing `crates/` or `patches/` at
    /// the same time. Released when the file is dropped, also by a crash.
    pub fn lock(&self) -> Result<File> {
        let path = self.target().join("xtask.lock");
        let file = fs::create_dir_all(self.target())
            .and_then(|()| File::create(&path))
            .with_context(|| format!("cannot write {}", self.display(&path)))?;
        // Most runs are over in seconds.
        for _ in 0..50 {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => {
                    thread::sleep(Duration::from_millis(100))
                }
                Err(TryLockError::Error(error)) => {
                    return Err(error)
                        .with_context(|| format!("cannot lock {}", self.display(&path)));
                }
            }
        }
        bail!("another `cargo xtask` is changing crates/ or patches/; wait for it to end")
    }

    /// `path` as a person would write it: relative to the project's root.
    pub fn display(&self, path: &Path) -> String {
        path.strip_prefix(&self.root)
            .unwrap_or(path)
            .display()
            .to_string()
    }
}
