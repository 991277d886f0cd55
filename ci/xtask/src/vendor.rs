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

//! `vendor`: from the pinned crates and `patches/` to the tree in `crates/`.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::base::{self, Base};
use crate::git::Git;
use crate::project::{BASE_VERSION, Project};
use crate::series::{self, BRANCH, Patch, Series, UPSTREAM, UPSTREAM_REF};

/// The date of the base commit: fixed, so that the commit is the same everywhere.
const BASE_DATE: &str = "2026-01-01T00:00:00Z";

/// How far the series is applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Until {
    /// All patches, on the branch that `export` reads.
    #[default]
    End,
    /// The end of a stage, with HEAD detached.
    Stage(String),
    /// Before the first patch, with HEAD detached.
    Upstream,
}

/// What [`vendor`] found to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Done {
    UpToDate,
    Moved,
}

/// Makes `crates/` hold the base and the series as far as `until`.
///
/// Work that is not in `patches/` is never touched: it is an error, or, with
/// `force`, kept under `refs/backup/` first.
pub fn vendor(
    project: &Project,
    base: &dyn Base,
    until: &Until,
    force: bool,
) -> Result<Done> {
    let _lock = project.lock()?;
    let series = Series::read(project)?;
    let wanted = match until {
        Until::End => series,
        Until::Stage(stage) => series.until(stage)?,
        Until::Upstream => Series::default(),
    };
    let mut made = false;
    let git = match series::open(project) {
        Ok(git) => git,
        Err(error) if project.crates().exists() => {
            if !force {
                return Err(error);
            }
            set_aside(project)?;
            made = true;
            lay_base(project, base)?
        }
        Err(_) => {
            made = true;
            lay_base(project, base)?
        }
    };
    if base_is_outdated(project, &git)? {
        bail!(
            "crates/ was made from another base than the one pinned in ci/upstream.\n\
             Export what is yours, move crates/ away and run `cargo xtask vendor` again."
        );
    }

    let target = match wanted.patches().last() {
        None => git.commit(UPSTREAM_REF)?,
        Some(last) => series::applied(&git, &last.key)?,
    };
    let busy = git.in_progress();
    let uncommitted = if busy.is_some() {
        vec![]
    } else {
        git.uncommitted()?
    };
    let unexported = series::unexported(&git)?;
    let keeps_work = !force || (uncommitted.is_empty() && unexported.is_empty());
    if busy.is_none() && keeps_work && target == Some(git.head()?) {
        let branch = git.read(["branch", "--show-current"])?;
        if (*until == Until::End) == (branch == BRANCH) {
            tag_stages(&git, &wanted, until)?;
            series::record_head(&git)?;
            return Ok(if made { Done::Moved } else { Done::UpToDate });
        }
    }
    if let Some(busy) = busy
        && !force
    {
        bail!(
            "crates/ is in the middle of {busy}.\n\
             Finish it there (for patches: resolve, `git add`, then `git -C crates am --continue`, then \
             `cargo xtask export --force`), or give it up with `cargo xtask vendor --force`, which keeps a copy of \
             the tree under a backup ref."
        );
    }
    if !force && !(uncommitted.is_empty() && unexported.is_empty()) {
        let mut message = String::from(
            "crates/ holds work that patches/ does not hold; nothing was changed.\n",
        );
        list(&mut message, "not committed there", &uncommitted);
        list(&mut message, "committed there, not exported", &unexported);
        message.push_str(
            "Commit it in crates/ and run `cargo xtask export`, or run `cargo xtask vendor --force`, \
             which keeps it under a backup ref.",
        );
        bail!(message);
    }
    if force && (busy.is_some() || !uncommitted.is_empty() || !unexported.is_empty()) {
        for name in back_up(&git)? {
            eprintln!("crates/: what patches/ does not hold is kept as {name}");
        }
        git.quit_in_progress()?;
        git.run(["reset", "--quiet", "--hard"])?;
        git.run(["clean", "--quiet", "-d", "--force"])?;
    }
    let superseded = series::superseded(&git, &Series::read(project)?)?;
    if !superseded.is_empty() {
        let mut message = String::new();
        list(
            &mut message,
            "commits that were exported, but are not in patches/ now; refs/xtask/applied/ keeps them",
            &superseded,
        );
        eprint!("{message}");
    }

    // Start from the longest part of the series that this repository has
    // already: files that do not differ keep their times, and cargo its work.
    let patches: Vec<&Patch> = wanted.patches().collect();
    let mut have = patches.len();
    let mut start = None;
    while have > 0 && start.is_none() {
        start = series::applied(&git, &patches[have - 1].key)?;
        if start.is_none() {
            have -= 1;
        }
    }
    let start = start.unwrap_or_else(|| UPSTREAM_REF.to_string());
    let back = git.lines(["log", "--format=%h %s", &format!("HEAD..{start}")])?;
    let mut message = String::new();
    list(
        &mut message,
        "patches that were not on HEAD and now are",
        &back,
    );
    eprint!("{message}");
    if *until == Until::End {
        git.run(["checkout", "--quiet", "-B", BRANCH, &start])?;
    } else {
        git.run(["checkout", "--quiet", "--detach", &start])?;
    }
    series::record_head(&git)?;
    apply(project, &git, &patches[have..])?;
    tag_stages(&git, &wanted, until)?;
    series::record_head(&git)?;
    Ok(Done::Moved)
}

/// `crates/` for commands that use it: made if it is missing, brought up to
/// date if that loses nothing, and left alone where someone works in it.
pub fn ensure(project: &Project, base: &dyn Base) -> Result<Git> {
    if project.crates().exists() {
        let git = series::open(project)?;
        let in_use = git.in_progress().is_some()
            || git.read(["branch", "--show-current"])? != BRANCH
            || !series::at_recorded_head(&git)?
            || !git.uncommitted()?.is_empty()
            || !series::unexported(&git)?.is_empty();
        if in_use {
            eprintln!(
                "using crates/ as it is (`cargo xtask status` shows what it holds)"
            );
            return Ok(git);
        }
    }
    vendor(project, base, &Until::End, false)?;
    series::open(project)
}

fn list(message: &mut String, title: &str, lines: &[String]) {
    const SHOWN: usize = 8;
    if lines.is_empty() {
        return;
    }
    message.push_str(&format!("  {title}:\n"));
    for line in lines.iter().take(SHOWN) {
        message.push_str(&format!("    {line}\n"));
    }
    if lines.len() > SHOWN {
        message.push_str(&format!("    and {} more\n", lines.len() - SHOWN));
    }
}

fn timestamp() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}

/// Moves a `crates/` without our history out of the way.
fn set_aside(project: &Project) -> Result<()> {
    let to = project.root().join(format!("crates.aside-{}", timestamp()));
    fs::rename(project.crates(), &to)?;
    eprintln!("the old crates/ is now {}", project.display(&to));
    Ok(())
}

/// Keeps the work tree, HEAD and the branch under `refs/backup/`. Touches
/// nothing else, so whatever git is in the middle of can still go on.
fn back_up(git: &Git) -> Result<Vec<String>> {
    let mut stem = format!("refs/backup/{}", timestamp());
    let mut counter = 1;
    while git.commit(&stem)?.is_some() {
        counter += 1;
        stem = format!("refs/backup/{}-{counter}", timestamp());
    }
    let snapshot = git.snapshot("Work kept by `cargo xtask vendor --force`")?;
    git.run(["update-ref", &stem, &snapshot])?;
    let mut names = vec![stem.clone()];
    // In a rebase HEAD has only what was replayed so far.
    if let Some(branch) = git.commit(&format!("refs/heads/{BRANCH}"))?
        && branch != git.head()?
    {
        let name = format!("{stem}-{BRANCH}");
        git.run(["update-ref", &name, &branch])?;
        names.push(name);
    }
    Ok(names)
}

/// Lays out the pristine crates and commits them as tag `upstream`.
///
/// This happens beside `crates/`, which appears by a rename, so an interrupted
/// run leaves nothing half made there.
fn lay_base(project: &Project, base: &dyn Base) -> Result<Git> {
    let sources = base.sources(project)?;
    let staging = project.root().join("crates.partial");
    if staging.exists() {
        eprintln!(
            "removing {}, left by a run that was interrupted",
            project.display(&staging)
        );
        fs::remove_dir_all(&staging)?;
    }
    fs::create_dir_all(&staging)?;
    base::lay_out(&sources, &staging)?;
    let git = Git::at(&staging);
    git.run(["init", "--quiet", "--initial-branch", BRANCH])?;
    // `gc --auto` would run between two commands; `am` has to keep CRLF files.
    git.run(["config", "gc.auto", "0"])?;
    git.run(["config", "core.autocrlf", "false"])?;
    let exclude = [
        "# Linked or made by `cargo xtask test`; not part of the crates.",
        "/testing",
        "/parquet-testing",
        "/benchmarks",
        "/datafusion/core/tests/data",
        "/datafusion/core/tests/tpc-ds",
        "/datafusion/core/tests/tpch-csv",
        "/datafusion/sqllogictest/test_files/tpch/data",
        "/datafusion/sqllogictest/test_files/scratch*",
        "/datafusion-cli/.history",
        "*.pending-snap",
    ];
    fs::write(staging.join(".git/info/exclude"), exclude.join("\n") + "\n")?;
    // Crates ship files that their own .gitignore would leave out.
    git.run(["add", "--all", "--force"])?;
    let message = format!(
        "Apache DataFusion {BASE_VERSION}, the published crates\n\n\
         As on crates.io, with a `path` beside each dependency among them."
    );
    let output = git
        .command(["commit", "--quiet", "--no-verify", "--message", &message])
        .env("GIT_AUTHOR_NAME", "Apache DataFusion")
        .env("GIT_AUTHOR_EMAIL", "dev@datafusion.apache.org")
        .env("GIT_AUTHOR_DATE", BASE_DATE)
        .env("GIT_COMMITTER_DATE", BASE_DATE)
        .output()?;
    if !output.status.success() {
        bail!(
            "could not commit the base:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    check_tree(project, &git, &staging)?;
    git.run(["tag", UPSTREAM])?;
    fs::rename(&staging, project.crates())?;
    series::open(project)
}

/// The tree hash that `ci/upstream/TREE` pins, if that file exists.
fn pinned_tree(project: &Project) -> Result<Option<String>> {
    let file = project.upstream().join("TREE");
    if !file.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&file)?;
    Ok(text
        .lines()
        .map(str::trim)
        .find(|l| !l.is_empty() && !l.starts_with('#'))
        .map(str::to_string))
}

fn base_is_outdated(project: &Project, git: &Git) -> Result<bool> {
    let tree = git.read(["rev-parse", &format!("{UPSTREAM_REF}^{{tree}}")])?;
    Ok(pinned_tree(project)?.is_some_and(|pinned| pinned != tree))
}

/// cargo verifies the archives, not what is unpacked from them; a file edited
/// in the registry's folder shows here.
fn check_tree(project: &Project, git: &Git, staging: &Path) -> Result<()> {
    let tree = git.read(["rev-parse", "HEAD^{tree}"])?;
    match pinned_tree(project)? {
        Some(pinned) if pinned == tree => Ok(()),
        Some(pinned) => bail!(
            "the crates laid out in {} are not the pinned base: tree {tree}, ci/upstream/TREE says {pinned}.\n\
             Most likely a file below cargo's registry/src was edited: remove the datafusion*-{BASE_VERSION} \
             folders there and run `cargo xtask vendor` again. When moving to another base, write the new \
             hash into ci/upstream/TREE.",
            project.display(staging)
        ),
        None => {
            eprintln!("ci/upstream/TREE is missing; the base has tree {tree}");
            Ok(())
        }
    }
}

/// Applies `patches` on HEAD and records the commits.
fn apply(project: &Project, git: &Git, patches: &[&Patch]) -> Result<()> {
    if patches.is_empty() {
        return Ok(());
    }
    let start = git.head()?;
    eprintln!("applying {} patches", patches.len());
    let mut args: Vec<String> = [
        "am",
        "--3way",
        "--keep",
        "--keep-cr",
        "--committer-date-is-author-date",
    ]
    .map(str::to_string)
    .to_vec();
    for patch in patches {
        args.push(patch.path.canonicalize()?.to_string_lossy().into_owned());
    }
    let output = git.output(&args)?;
    let commits = git.lines(["rev-list", "--reverse", &format!("{start}..HEAD")])?;
    let merged = String::from_utf8_lossy(&output.stdout).contains("3-way merge")
        || String::from_utf8_lossy(&output.stderr).contains("3-way merge");
    if !merged {
        for (patch, commit) in patches.iter().zip(&commits) {
            series::record_applied(git, &patch.key, commit)?;
        }
    }
    if output.status.success() {
        if merged {
            bail!(
                "the patches applied only with git's three-way merge: their text is for other surroundings.\n\
                 crates/ holds the merged commits; read them (`git -C crates log -p {UPSTREAM}..`), tag the ends \
                 of the stages and run `cargo xtask export --force` to refresh patches/."
            );
        }
        return Ok(());
    }
    let failed = patches
        .get(commits.len())
        .context("git am failed after the last patch")?;
    bail!(
        "{} does not apply.\n{}\n\
         crates/ is left as `git am` left it. Resolve the conflict there, `git add` the files, then run \
         `git -C crates am --continue` (it goes on with the {} patches after this one), tag the ends of the \
         stages and run `cargo xtask export --force`.\n\
         To give up: `cargo xtask vendor --force`.",
        project.display(&failed.path),
        explain_failure(git, &failed.path)?,
        patches.len() - commits.len() - 1,
    )
}

/// Names file, line and hunk of a patch that does not apply to HEAD.
fn explain_failure(git: &Git, patch: &Path) -> Result<String> {
    let text = fs::read_to_string(patch).unwrap_or_default();
    let path = patch.canonicalize()?;
    // Against HEAD: the work tree may hold the conflict markers of `am --3way`.
    let index = tempfile::NamedTempFile::new()?;
    let with_index = |args: &[&std::ffi::OsStr]| {
        git.command(args)
            .env("GIT_INDEX_FILE", index.path())
            .output()
    };
    fs::remove_file(index.path())?;
    with_index(&["read-tree".as_ref(), "HEAD".as_ref()])?;
    let output = with_index(&[
        "apply".as_ref(),
        "--check".as_ref(),
        "--cached".as_ref(),
        path.as_os_str(),
    ])?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut lines = vec![];
    for line in stderr.lines() {
        let place = line
            .strip_prefix("error: patch failed: ")
            .and_then(|p| p.rsplit_once(':'));
        match place {
            Some((file, start)) => {
                let hunk = hunk_number(&text, file, start);
                lines.push(match hunk {
                    Some((number, header)) => {
                        format!("  {file}: hunk {number} ({header})")
                    }
                    None => format!("  {file}: the hunk at line {start}"),
                });
            }
            None if line.starts_with("error: ")
                && !line.ends_with("patch does not apply") =>
            {
                lines.push(format!("  {}", line.trim_start_matches("error: ")));
            }
            None => {}
        }
    }
    if lines.is_empty() {
        lines.push(
            "  git could not read it as a patch (is the file cut off?)".to_string(),
        );
    }
    Ok(lines.join("\n"))
}

/// The ordinal and header of the hunk of `file` whose old text starts at line `start`.
fn hunk_number(patch: &str, file: &str, start: &str) -> Option<(usize, String)> {
    let header = format!("--- a/{file}");
    patch
        .lines()
        .skip_while(|l| *l != header)
        .skip(1)
        .take_while(|l| !l.starts_with("diff --git "))
        .filter(|l| l.starts_with("@@ -"))
        .enumerate()
        .find(|(_, l)| {
            l[4..]
                .split([',', ' '])
                .next()
                .is_some_and(|old| old == start)
        })
        .map(|(index, l)| (index + 1, l.to_string()))
}

/// Puts the stage tags on their commits. With the whole series in place, tags
/// of stages that `patches/` does not have are taken away.
fn tag_stages(git: &Git, series: &Series, until: &Until) -> Result<()> {
    for stage in &series.stages {
        let Some(last) = stage.patches.last() else {
            continue;
        };
        let commit = series::applied(git, &last.key)?
            .with_context(|| format!("no commit for {}", last.path.display()))?;
        git.run(["tag", "--force", &stage.name, &commit])?;
    }
    if *until == Until::End {
        for tag in git.lines(["tag", "--list"])? {
            if series::is_stage_name(&tag) && !series.stages.iter().any(|s| s.name == tag)
            {
                git.run(["tag", "--delete", &tag])?;
            }
        }
    }
    Ok(())
}
