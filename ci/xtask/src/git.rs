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
use std::path::{Path, PathBuf};
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
    /// Whatever a user or an outer git may have set is left out: configuration
    /// and attributes would change patches (`diff.noprefix`, `format.signoff`,
    /// a diff driver for `*.rs`), ignore rules would hide new files, and the
    /// variables that git sets for hooks name the outer repository.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new("git");
        command.current_dir(&self.dir);
        for setting in [
            "core.attributesFile=/dev/null",
            "core.excludesFile=/dev/null",
            "core.quotePath=false",
            "format.signoff=false",
            "diff.context=3",
            "diff.interHunkContext=0",
            "diff.algorithm=myers",
            "diff.indentHeuristic=true",
            "diff.renames=true",
            "diff.noprefix=false",
            "diff.mnemonicPrefix=false",
            "diff.suppressBlankEmpty=false",
            "commit.gpgsign=false",
            "core.autocrlf=false",
            "core.hooksPath=/dev/null",
        ] {
            command.args(["-c", setting]);
        }
        // The tree may belong to another user, as in a container.
        command.arg("-c");
        command.arg(format!("safe.directory={}", self.dir.display()));
        command.args(args);
        for name in [
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            "GIT_COMMON_DIR",
            "GIT_CONFIG",
            "GIT_CONFIG_COUNT",
            "GIT_CONFIG_PARAMETERS",
            "GIT_DEFAULT_HASH",
            "GIT_DIFF_OPTS",
            "GIT_DIR",
            "GIT_EXTERNAL_DIFF",
            "GIT_GRAFT_FILE",
            "GIT_IMPLICIT_WORK_TREE",
            "GIT_INDEX_FILE",
            "GIT_INTERNAL_SUPER_PREFIX",
            "GIT_NAMESPACE",
            "GIT_NO_REPLACE_OBJECTS",
            "GIT_OBJECT_DIRECTORY",
            "GIT_PREFIX",
            "GIT_REPLACE_REF_BASE",
            "GIT_SHALLOW_FILE",
            "GIT_TEMPLATE_DIR",
            "GIT_WORK_TREE",
        ] {
            command.env_remove(name);
        }
        // No search above this folder: a damaged repository here must not be
        // taken for the one around it.
        if let Some(parent) = self.dir.parent() {
            command.env("GIT_CEILING_DIRECTORIES", parent);
        }
        command
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_ATTR_NOSYSTEM", "1")
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

    /// The commit that `revision` names, or none if there is no such revision.
    pub fn commit(&self, revision: &str) -> Result<Option<String>> {
        let revision = format!("{revision}^{{commit}}");
        let output = self.output(["rev-parse", "--verify", "--quiet", &revision])?;
        match output.status.code() {
            Some(0) => {}
            // Quiet about a revision that is not there, not about other errors.
            _ if output.stderr.is_empty() => return Ok(None),
            _ => bail!(
                "git cannot read {}:\n{}",
                self.dir.display(),
                String::from_utf8_lossy(&output.stderr).trim_end()
            ),
        }
        Ok(Some(
            String::from_utf8_lossy(&output.stdout).trim().to_string(),
        ))
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

    /// A second work tree at `path` that shows `commit`, made if it is missing
    /// or belongs to a repository that is gone.
    pub fn worktree(&self, path: &Path, commit: &str) -> Result<Git> {
        let tree = Git::at(path);
        let ours = |tree: &Git| -> Result<bool> {
            let common = |git: &Git| -> Result<PathBuf> {
                let dir = git.read([
                    "rev-parse",
                    "--path-format=absolute",
                    "--git-common-dir",
                ])?;
                Ok(PathBuf::from(dir).canonicalize()?)
            };
            Ok(common(tree)? == common(self)?)
        };
        if path.exists() && !ours(&tree).unwrap_or(false) {
            std::fs::remove_dir_all(path).with_context(|| {
                format!("cannot remove the old work tree {}", path.display())
            })?;
        }
        self.run(["worktree", "prune"])?;
        if path.exists() {
            tree.run(["checkout", "--quiet", "--force", "--detach", commit])?;
        } else {
            let path = path.to_string_lossy().into_owned();
            self.run(["worktree", "add", "--quiet", "--detach", &path, commit])?;
        }
        Ok(tree)
    }

    /// Commits the work tree as it is, on top of HEAD, without touching HEAD,
    /// the index or any file. Returns the commit.
    pub fn snapshot(&self, message: &str) -> Result<String> {
        let scratch = tempfile::tempdir()?;
        let index = scratch.path().join("index");
        let run = |args: &[&str]| -> Result<String> {
            let output = self
                .command(args)
                .env("GIT_INDEX_FILE", &index)
                .env("GIT_AUTHOR_NAME", "xtask")
                .env("GIT_AUTHOR_EMAIL", "xtask@localhost")
                .output()?;
            if !output.status.success() {
                bail!(
                    "git could not keep the work tree of {}:\n{}",
                    self.dir.display(),
                    String::from_utf8_lossy(&output.stderr).trim_end()
                );
            }
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
        };
        run(&["read-tree", "HEAD"])?;
        run(&["add", "--all"])?;
        let tree = run(&["write-tree"])?;
        run(&["commit-tree", &tree, "-p", "HEAD", "-m", message])
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
