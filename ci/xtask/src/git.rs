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

//! Git, run so that nobody's own configuration can change what it writes.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// One repository.
#[derive(Debug, Clone)]
pub struct Git {
    dir: PathBuf,
}

impl Git {
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// A git command in this repository.
    ///
    /// Global and system configuration is left out (`diff.noprefix`, commit
    /// signing and the like would change patches), and so are the variables
    /// that git sets for hooks, which name the outer repository.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new("git");
        command.current_dir(&self.dir).args(args);
        for name in [
            "GIT_DIR",
            "GIT_WORK_TREE",
            "GIT_INDEX_FILE",
            "GIT_PREFIX",
            "GIT_OBJECT_DIRECTORY",
            "GIT_EXTERNAL_DIFF",
            "GIT_DIFF_OPTS",
        ] {
            command.env_remove(name);
        }
        command
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_COMMITTER_NAME", "xtask")
            .env("GIT_COMMITTER_EMAIL", "xtask@localhost")
            .env("GIT_EDITOR", "true")
            .env("LC_ALL", "C")
            .env("TZ", "UTC");
        command
    }

    pub fn output<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Output> {
        self.command(args)
            .output()
            .context("git could not be started; is it installed?")
    }

    /// Standard output without the last newline; an error carries git's own words.
    pub fn read<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<String> {
        let args: Vec<_> = args.into_iter().map(|a| a.as_ref().to_owned()).collect();
        let output = self.output(&args)?;
        if !output.status.success() {
            let words: Vec<_> = args.iter().map(|a| a.to_string_lossy()).collect();
            bail!(
                "`git {}` failed in {}:\n{}",
                words.join(" "),
                self.dir.display(),
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
        }
        let text = String::from_utf8(output.stdout)
            .context("git printed text that is not UTF-8")?;
        Ok(text.trim_end_matches('\n').to_string())
    }

    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<()> {
        self.read(args).map(drop)
    }

    pub fn lines<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Vec<String>> {
        Ok(self.read(args)?.lines().map(str::to_string).collect())
    }

    /// The commit that `revision` names, if there is one.
    pub fn commit(&self, revision: &str) -> Result<Option<String>> {
        let revision = format!("{revision}^{{commit}}");
        let output = self.output(["rev-parse", "--verify", "--quiet", &revision])?;
        let found = String::from_utf8_lossy(&output.stdout).trim().to_string();
        Ok(output.status.success().then_some(found))
    }

    pub fn head(&self) -> Result<String> {
        self.commit("HEAD")?
            .with_context(|| format!("{} has no commit", self.dir.display()))
    }

    /// Changed and untracked files, as `git status --short` prints them.
    pub fn uncommitted(&self) -> Result<Vec<String>> {
        self.lines(["status", "--porcelain", "--untracked-files=all"])
    }

    /// What git is in the middle of, in words for a person.
    pub fn in_progress(&self) -> Option<&'static str> {
        let git_dir = self.dir.join(".git");
        [
            ("rebase-apply", "applying patches (`git am`)"),
            ("rebase-merge", "a rebase"),
            ("MERGE_HEAD", "a merge"),
            ("CHERRY_PICK_HEAD", "a cherry-pick"),
            ("REVERT_HEAD", "a revert"),
        ]
        .into_iter()
        .find(|(file, _)| git_dir.join(file).exists())
        .map(|(_, words)| words)
    }

    /// Forgets what [`Self::in_progress`] reports without touching files or HEAD.
    pub fn quit_in_progress(&self) -> Result<()> {
        let git_dir = self.dir.join(".git");
        let operations = [
            ("rebase-apply", ["am", "--quit"]),
            ("rebase-merge", ["rebase", "--quit"]),
            ("MERGE_HEAD", ["merge", "--quit"]),
            ("CHERRY_PICK_HEAD", ["cherry-pick", "--quit"]),
            ("REVERT_HEAD", ["revert", "--quit"]),
        ];
        for (file, args) in operations {
            if git_dir.join(file).exists() {
                self.run(args)?;
            }
        }
        Ok(())
    }
}
