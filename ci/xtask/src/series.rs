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

//! The series: the patches on disk, and the commits in `crates/` that they are.
//!
//! Invariants:
//! * `crates/` is a linear history: tag `upstream`, then one commit a patch,
//!   on branch [`BRANCH`]. A tag with the name of its folder ends each stage.
//! * Every commit that a patch file describes is held by a ref under
//!   [`APPLIED`], named by a hash of the base and of all patch files up to
//!   that one. So no exported work can be lost, switching between stages costs
//!   a checkout, and "not yet exported" is a question to git.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use regex::Regex;
use sha2::{Digest, Sha256};

use crate::git::Git;
use crate::project::{BASE_VERSION, Project};

/// The branch that `export` reads.
pub const BRANCH: &str = "series";
/// The tag on the commit of the pristine crates.
pub const UPSTREAM: &str = "upstream";
/// Prefix of the refs that hold commits which are in `patches/`.
pub const APPLIED: &str = "refs/xtask/applied/";
/// Where the last vendor or export left HEAD.
const LEFT_OFF: &str = "refs/xtask/left-off";
/// [`UPSTREAM`] in full: a branch or a remote may have the same short name.
pub const UPSTREAM_REF: &str = "refs/tags/upstream";

/// One patch file.
#[derive(Debug, Clone)]
pub struct Patch {
    pub path: PathBuf,
    /// Hash of the base and of all patch files up to and including this one.
    pub key: String,
    pub subject: String,
}

/// One folder of `patches/`.
#[derive(Debug, Clone)]
pub struct Stage {
    pub name: String,
    pub patches: Vec<Patch>,
}

/// All of `patches/`, in the order in which it applies.
#[derive(Debug, Clone, Default)]
pub struct Series {
    pub stages: Vec<Stage>,
}

impl Series {
    /// Reads `patches/`. A name that would not sort as meant, a gap in the
    /// numbers or a file that is no patch is an error.
    pub fn read(project: &Project) -> Result<Self> {
        let patch_name = Regex::new(r"^(\d{4})-[^/]+\.patch$")?;
        let root = project.patches();
        let mut key = base_key();
        let mut stages = vec![];
        for folder in sorted(&root)? {
            let name = file_name(&folder);
            if !folder.is_dir() || !is_stage_name(&name) {
                bail!(
                    "{} is not a stage: stages are folders named like 01-groundwork",
                    project.display(&folder)
                );
            }
            let mut patches: Vec<Patch> = vec![];
            for file in sorted(&folder)? {
                let name = file_name(&file);
                if name == "COVER.md" {
                    continue;
                }
                let number = patch_name
                    .captures(&name)
                    .and_then(|c| c[1].parse::<usize>().ok());
                if number != Some(patches.len() + 1) {
                    bail!(
                        "{}: expected a file named {:04}-SUBJECT.patch or COVER.md here",
                        project.display(&file),
                        patches.len() + 1
                    );
                }
                let bytes = fs::read(&file)
                    .with_context(|| format!("cannot read {}", project.display(&file)))?;
                well_formed(&bytes).with_context(|| project.display(&file))?;
                key = next_key(&key, &bytes);
                patches.push(Patch {
                    subject: subject(&bytes),
                    path: file,
                    key: key.clone(),
                });
            }
            stages.push(Stage { name, patches });
        }
        Ok(Self { stages })
    }

    pub fn patches(&self) -> impl Iterator<Item = &Patch> {
        self.stages.iter().flat_map(|s| &s.patches)
    }

    /// The series up to the end of `stage`.
    pub fn until(&self, stage: &str) -> Result<Self> {
        let Some(end) = self.stages.iter().position(|s| s.name == stage) else {
            let names: Vec<_> = self.stages.iter().map(|s| s.name.as_str()).collect();
            bail!(
                "there is no stage {stage}; patches/ holds {}",
                names.join(", ")
            );
        };
        Ok(Self {
            stages: self.stages[..=end].to_vec(),
        })
    }
}

fn base_key() -> String {
    next_key("", BASE_VERSION.as_bytes())
}

pub fn next_key(previous: &str, patch: &[u8]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(previous.as_bytes());
    hasher.update([0]);
    hasher.update(patch);
    let digest = hasher.finalize();
    digest[..16].iter().map(|b| format!("{b:02x}")).collect()
}

/// Holds `commit` as the one that the patch with `key` describes.
pub fn record_applied(git: &Git, key: &str, commit: &str) -> Result<()> {
    git.run(["update-ref", &format!("{APPLIED}{key}"), commit])
}

/// The commit that the patch with `key` describes, if this repository has it.
pub fn applied(git: &Git, key: &str) -> Result<Option<String>> {
    git.commit(&format!("{APPLIED}{key}"))
}

/// Commits of HEAD or of the branch that were never exported, newest first, as
/// `hash subject`. No ref of this tool holds these.
pub fn unexported(git: &Git) -> Result<Vec<String>> {
    let branch = format!("refs/heads/{BRANCH}");
    let mut args = vec!["log", "--format=%h %s", "HEAD"];
    if git.commit(&branch)?.is_some() {
        args.push(&branch);
    }
    let glob = format!("--glob={APPLIED}*");
    args.extend(["--not", UPSTREAM_REF, &glob]);
    git.lines(args)
}

/// Commits of HEAD that were exported once and are in no patch file of `series`
/// now: another branch of the project is checked out, or an export was undone.
/// They stay held by their refs.
pub fn superseded(git: &Git, series: &Series) -> Result<Vec<String>> {
    let mut args = vec!["log", "--format=%h %s", "HEAD", "--not", UPSTREAM_REF]
        .into_iter()
        .map(str::to_string)
        .collect::<Vec<_>>();
    for patch in series.patches() {
        args.extend(applied(git, &patch.key)?);
    }
    let fresh = unexported(git)?;
    let mut commits = git.lines(args)?;
    commits.retain(|commit| !fresh.contains(commit));
    Ok(commits)
}

/// Remembers HEAD as the place where the tool left off.
pub fn record_head(git: &Git) -> Result<()> {
    git.run(["update-ref", LEFT_OFF, "HEAD"])
}

/// Whether HEAD is where the tool left off: nobody moved it since.
pub fn at_recorded_head(git: &Git) -> Result<bool> {
    Ok(git.commit(LEFT_OFF)? == Some(git.head()?))
}

/// A commit of the series, with what a rewrite by rebase leaves alone.
#[derive(Debug, Clone)]
pub struct Commit {
    pub hash: String,
    pub subject: String,
    author: String,
    author_date: String,
}

impl Commit {
    fn read(git: &Git, range: &[&str]) -> Result<Vec<Self>> {
        let mut args = vec![
            "log",
            "--reverse",
            "--format=%H%x1f%an <%ae>%x1f%ad%x1f%s",
            "--date=raw",
        ];
        args.extend(range);
        git.lines(args)?
            .iter()
            .map(|line| {
                let mut fields = line.split('\u{1f}').map(str::to_string);
                let mut next = || fields.next().context("git log printed a short line");
                Ok(Self {
                    hash: next()?,
                    author: next()?,
                    author_date: next()?,
                    subject: next()?,
                })
            })
            .collect()
    }

    /// Whether `self` is `other` after an amend, fixup or rebase: author and
    /// author date survive these, and the subject tells apart what one
    /// `rebase --exec` might have stamped alike.
    fn is_rewrite_of(&self, other: &Self) -> bool {
        self.author == other.author
            && self.author_date == other.author_date
            && self.subject == other.subject
    }
}

/// The commits in `crates/` as stages, boundaries taken from the tags.
///
/// A tag on a commit that a rebase replaced counts for its replacement.
/// Commits after the last tag belong to the last stage.
pub fn committed(git: &Git) -> Result<Vec<(String, Vec<Commit>)>> {
    let range = format!("{UPSTREAM_REF}..HEAD");
    if !git
        .lines(["rev-list", "--min-parents=2", &range])?
        .is_empty()
    {
        bail!(
            "crates/ has a merge commit after tag {UPSTREAM}; the series is linear: rebase instead of merging"
        );
    }
    let commits = Commit::read(git, &[&range])?;
    // A part of the series is checked out: tags of later stages are no concern.
    let detached = git.read(["branch", "--show-current"])?.is_empty();
    let mut ends = vec![];
    for tag in git.lines(["tag", "--list"])? {
        if !is_stage_name(&tag) {
            continue;
        }
        let hash = git
            .commit(&format!("refs/tags/{tag}"))?
            .with_context(|| format!("tag {tag} names no commit"))?;
        let mut position = commits.iter().position(|c| c.hash == hash);
        if position.is_none() {
            let old = Commit::read(git, &["-1", &hash])?.remove(0);
            position = commits.iter().rposition(|c| c.is_rewrite_of(&old));
            if position.is_none() && detached {
                continue;
            }
            if position.is_none() {
                bail!(
                    "tag {tag} (\"{}\") is not on branch {BRANCH}, nor is a rewritten form of its commit.\n\
                     Put it on the last commit of its stage: git -C crates tag -f {tag} COMMIT\n\
                     or remove the stage: git -C crates tag -d {tag}",
                    old.subject
                );
            }
        }
        ends.push((tag, position.expect("found above")));
    }
    ends.sort();
    if ends.is_empty() && !commits.is_empty() {
        bail!(
            "no stage tag in crates/: tag the last commit of the first stage, \
             as in `git -C crates tag 01-groundwork`"
        );
    }
    let mut stages = vec![];
    let mut start = 0;
    for (index, (tag, end)) in ends.iter().enumerate() {
        let end = if index + 1 == ends.len() {
            commits.len()
        } else {
            end + 1
        };
        if end <= start && index > 0 {
            bail!(
                "the tags {} and {tag} are in the wrong order: each belongs on the last commit of \
                 its stage. Move one: git -C crates tag -f {tag} COMMIT",
                ends[index - 1].0
            );
        }
        stages.push((tag.clone(), commits[start..end].to_vec()));
        start = end;
    }
    Ok(stages)
}

/// Whether `name` is the name of a stage's folder, and so of its tag.
pub fn is_stage_name(name: &str) -> bool {
    let stage = Regex::new(r"^\d\d[a-z]?-[a-z0-9-]+$").expect("a constant expression");
    stage.is_match(name)
}

/// Refuses a `crates/` that `vendor` did not make.
pub fn open(project: &Project) -> Result<Git> {
    let dir = project.crates();
    if !dir.exists() {
        bail!("there is no crates/ yet: run `cargo xtask vendor`");
    }
    let git = Git::at(&dir);
    if !dir.join(".git").exists() || git.commit(UPSTREAM_REF)?.is_none() {
        bail!(
            "crates/ is not a tree that `cargo xtask vendor` finished (no git tag {UPSTREAM} in it).\n\
             If nothing in it is yours, remove it; `cargo xtask vendor --force` moves it aside and starts anew."
        );
    }
    Ok(git)
}

/// Refuses a file that `git am` would skip or misread.
fn well_formed(patch: &[u8]) -> Result<()> {
    if !patch.starts_with(b"From ") {
        bail!(
            "not a patch in git's mail format (it is empty, or its first line is not `From COMMIT ...`)"
        );
    }
    if patch.windows(2).take(64).any(|pair| pair == b"\r\n") {
        bail!(
            "it has CRLF line ends: git changed it on checkout. Clone with `-c core.autocrlf=false`, \
             or run `git checkout -- patches` after `git config core.autocrlf false`"
        );
    }
    if !String::from_utf8_lossy(patch).contains("\ndiff --git ") {
        bail!("a patch without a diff (was it cut off?)");
    }
    Ok(())
}

fn subject(patch: &[u8]) -> String {
    let text = String::from_utf8_lossy(patch);
    let mut lines = text.lines().skip_while(|l| !l.starts_with("Subject: "));
    let mut subject = lines
        .next()
        .unwrap_or_default()
        .trim_start_matches("Subject: ")
        .to_string();
    // A long header is folded; continuation lines start with a blank.
    for line in lines.take_while(|l| l.starts_with(' ')) {
        subject.push_str(line);
    }
    subject
}

/// The visible entries of `folder` by name; none if it does not exist.
fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(vec![]);
    }
    let mut entries = vec![];
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if !file_name(&path).starts_with('.') {
            entries.push(path);
        }
    }
    entries.sort();
    Ok(entries)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
