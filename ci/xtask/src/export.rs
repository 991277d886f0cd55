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

//! `export`: from the commits in `crates/` to `patches/` and `test_files/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use walkdir::WalkDir;

use crate::git::Git;
use crate::project::Project;
use crate::series::{self, BRANCH, Series, UPSTREAM_REF};

/// What an export writes: path below the project's root to content.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Writes the series. Returns the files that changed.
///
/// A patch file that was never applied here (pulled, or edited by hand) would
/// be lost; this is an error unless `force` is set.
pub fn export(project: &Project, force: bool) -> Result<Vec<PathBuf>> {
    let _lock = project.lock()?;
    let git = exportable(project)?;
    if !force {
        refuse_unapplied(project, &git)?;
    }
    let wanted = render(&git)?;
    let present = present(project)?;
    let mut changed = vec![];
    for path in present.keys().filter(|p| !wanted.contains_key(*p)) {
        fs::remove_file(project.root().join(path))
            .with_context(|| format!("cannot remove {}", path.display()))?;
        changed.push(path.clone());
    }
    for (path, content) in &wanted {
        if present.get(path) != Some(content) {
            let file = project.root().join(path);
            fs::create_dir_all(file.parent().context("a file without a folder")?)
                .and_then(|()| fs::write(&file, content))
                .with_context(|| format!("cannot write {}", path.display()))?;
            changed.push(path.clone());
        }
    }
    record(project, &git)?;
    Ok(changed)
}

/// Compares the series with `patches/` and `test_files/` and writes nothing.
/// Returns one line for each file that an export would change.
pub fn check(project: &Project) -> Result<Vec<String>> {
    let git = exportable(project)?;
    let wanted = render(&git)?;
    let present = present(project)?;
    let mut differences = vec![];
    for (path, content) in &wanted {
        match present.get(path) {
            None => differences.push(format!("{} is missing", path.display())),
            Some(old) if old != content => {
                differences.push(format!("{} differs from its commit", path.display()));
            }
            Some(_) => {}
        }
    }
    for path in present.keys().filter(|p| !wanted.contains_key(*p)) {
        differences.push(format!("{} has no commit in crates/", path.display()));
    }
    Ok(differences)
}

fn refuse_unapplied(project: &Project, git: &Git) -> Result<()> {
    let mut unapplied = vec![];
    for patch in Series::read(project)?.patches() {
        if series::applied(git, &patch.key)?.is_none() {
            unapplied.push(format!("  {}", project.display(&patch.path)));
        }
    }
    if !unapplied.is_empty() {
        bail!(
            "these patch files, or ones before them, were never applied in crates/, and an export would \
             replace them; nothing was changed:\n{}\n\
             If they were pulled: run `cargo xtask vendor --force`, which keeps your commits under a backup \
             ref and applies them, and cherry-pick yours. If they were edited by hand, or the commits in \
             crates/ replace them: `cargo xtask export --force`.",
            unapplied.join("\n")
        );
    }
    Ok(())
}

fn exportable(project: &Project) -> Result<Git> {
    let git = series::open(project)?;
    if let Some(busy) = git.in_progress() {
        bail!("crates/ is in the middle of {busy}; finish that before an export");
    }
    let branch = git.read(["branch", "--show-current"])?;
    if branch != BRANCH {
        bail!(
            "crates/ is not on branch {BRANCH}: it shows a part of the series, and an export would drop the rest.\n\
             Run `cargo xtask vendor` first (or, if the work is meant, `git -C crates checkout -B {BRANCH}`)."
        );
    }
    let uncommitted = git.uncommitted()?;
    if !uncommitted.is_empty() {
        eprintln!(
            "note: {} changed files in crates/ are in no commit and so in no patch",
            uncommitted.len()
        );
    }
    Ok(git)
}

fn render(git: &Git) -> Result<Files> {
    let mut files = Files::new();
    let mut from = UPSTREAM_REF.to_string();
    for (stage, commits) in series::committed(git)? {
        for commit in &commits {
            lint(git, &commit.hash)?;
        }
        let Some(last) = commits.last() else { continue };
        let folder = tempfile::tempdir()?;
        let range = format!("{from}..{}", last.hash);
        let output = folder.path().to_string_lossy().into_owned();
        git.run([
            "format-patch",
            "--quiet",
            "--keep-subject",
            "--zero-commit",
            "--no-signature",
            "--no-stat",
            "--full-index",
            "--binary",
            "--output-directory",
            &output,
            &range,
        ])?;
        for entry in fs::read_dir(folder.path())? {
            let path = entry?.path();
            let name = path.file_name().context("a file without a name")?;
            let to = Path::new("patches").join(&stage).join(name);
            files.insert(to, fs::read(&path)?);
        }
        from = last.hash.clone();
    }
    let range = format!("{UPSTREAM_REF}..HEAD");
    let added = git.read([
        "diff",
        "-z",
        "--no-renames",
        "--diff-filter=A",
        "--name-only",
        &range,
        "--",
        "*.slt",
    ])?;
    for path in added.split('\0').filter(|p| !p.is_empty()) {
        let name = Path::new(path)
            .file_name()
            .context("a file without a name")?;
        let to = Path::new("test_files").join(name);
        let blob = git.output(["cat-file", "blob", &format!("HEAD:{path}")])?;
        if !blob.status.success() {
            bail!("git cannot read {path} of HEAD in crates/");
        }
        if files.insert(to, blob.stdout).is_some() {
            bail!(
                "two .slt files of the series are called {}; test_files/ has room for one: rename one",
                name.display()
            );
        }
    }
    Ok(files)
}

/// The trailers that every patch carries, each once.
const TRAILERS: [&str; 3] = ["Plans", "API", "Upstream"];

/// Says what is wrong with a commit before it becomes a patch.
fn lint(git: &Git, commit: &str) -> Result<()> {
    let message = git.read(["log", "-1", "--format=%B", commit])?;
    let subject = message.lines().next().unwrap_or_default();
    let mut faults = vec![];
    let typed = regex::Regex::new(
        r"^(feat|fix|perf|refactor|test|docs|chore)(\([a-z0-9, -]+\))?: \S",
    )?;
    if !typed.is_match(subject) {
        faults.push(
            "the subject is not in upstream's form, as in `fix(expr): ...`".to_string(),
        );
    }
    if !message.contains("\n\n") {
        faults.push("the message says no reason".to_string());
    }
    let trailers = git.read(["log", "-1", "--format=%(trailers:only,unfold)", commit])?;
    for name in TRAILERS {
        let prefix = format!("{name}: ");
        match trailers.lines().filter(|l| l.starts_with(&prefix)).count() {
            1 => {}
            n => faults.push(format!("it has {n} `{name}:` trailers instead of one")),
        }
    }
    // `git am` ends a message at such a line, or takes it for the diff.
    let ends = |l: &&str| {
        *l == "---"
            || ["diff -", "Index: ", "--- "]
                .iter()
                .any(|p| l.starts_with(p))
    };
    if let Some(line) = message.lines().find(ends) {
        faults.push(format!(
            "`git am` would take this line of the message for the diff: {line}"
        ));
    }
    if git
        .read(["diff-tree", "--no-commit-id", "--name-only", "-r", commit])?
        .is_empty()
    {
        faults.push("it changes nothing, and no patch can hold that".to_string());
    }
    // Expected rows in .slt files may end in blanks.
    let whitespace = git.output([
        "diff-tree",
        "--check",
        "--no-commit-id",
        "-r",
        commit,
        "--",
        ".",
        ":!*.slt",
    ])?;
    if !whitespace.status.success() {
        faults.push(format!(
            "it adds faulty white space:\n{}",
            String::from_utf8_lossy(&whitespace.stdout).trim_end()
        ));
    }
    if !faults.is_empty() {
        bail!(
            "the commit {} \"{subject}\" cannot be exported yet:\n  {}\n\
             Mend it in crates/ (`git commit --amend`, or a fixup and a rebase).",
            &commit[..12.min(commit.len())],
            faults.join("\n  ")
        );
    }
    Ok(())
}

/// The patches and test files on disk; what is written by hand is left out.
fn present(project: &Project) -> Result<Files> {
    let mut files = Files::new();
    for folder in [project.patches(), project.test_files()] {
        if !folder.exists() {
            continue;
        }
        for entry in WalkDir::new(&folder) {
            let entry = entry?;
            let path = entry.path();
            let ours = path.extension().is_some_and(|e| e == "patch" || e == "slt");
            if entry.file_type().is_file() && ours {
                let relative = path.strip_prefix(project.root())?.to_path_buf();
                files.insert(relative, fs::read(path)?);
            }
        }
    }
    Ok(files)
}

/// Marks the commits as exported and puts the stage tags where they were found.
fn record(project: &Project, git: &Git) -> Result<()> {
    let stages = series::committed(git)?;
    let series = Series::read(project)?;
    let commits: Vec<_> = stages.iter().flat_map(|(_, c)| c).collect();
    let patches: Vec<_> = series.patches().collect();
    if commits.len() != patches.len() {
        bail!(
            "{} commits, but {} patch files after the export",
            commits.len(),
            patches.len()
        );
    }
    for (patch, commit) in patches.iter().zip(&commits) {
        series::record_applied(git, &patch.key, &commit.hash)?;
    }
    for (stage, commits) in &stages {
        if let Some(last) = commits.last() {
            git.run(["tag", "--force", stage, &last.hash])?;
        }
    }
    series::record_head(git)
}
