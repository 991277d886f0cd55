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

//! The vendor and export cycle on a base of two small crates.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use tempfile::TempDir;

use crate::base::Base;
use crate::export;
use crate::git::Git;
use crate::project::Project;
use crate::series::{self, BRANCH, UPSTREAM};
use crate::vendor::{Done, Until, ensure, vendor};

/// A project in a temporary folder, and the crates that stand in for the registry's.
struct Fixture {
    project: Project,
    sources: BTreeMap<String, PathBuf>,
    _folder: TempDir,
}

impl Base for Fixture {
    fn sources(&self, _: &Project) -> Result<BTreeMap<String, PathBuf>> {
        Ok(self.sources.clone())
    }
}

const LIB: &str = "datafusion/common/src/lib.rs";

fn numbered(lines: usize) -> String {
    (1..=lines).map(|n| format!("// line {n}\n")).collect()
}

impl Fixture {
    /// A project without patches; `crates/` is not made yet.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut sources = BTreeMap::new();
        for name in ["datafusion-common", "datafusion"] {
            let source = folder.path().join("registry").join(name);
            fs::create_dir_all(source.join("src")).unwrap();
            fs::write(source.join(".cargo-ok"), "{}").unwrap();
            fs::write(source.join("src/lib.rs"), numbered(40)).unwrap();
            let manifest = format!(
                "[package]\nname = \"{name}\"\nversion = \"55.2.0\"\n\n[dependencies.datafusion-common]\nversion = \"55.2.0\"\n"
            );
            fs::write(source.join("Cargo.toml"), manifest).unwrap();
            sources.insert(name.to_string(), source);
        }
        let root = folder.path().join("project");
        fs::create_dir_all(root.join("ci/upstream")).unwrap();
        Self {
            project: Project::at(root),
            sources,
            _folder: folder,
        }
    }

    /// Two stages: two patches on the library, then a new `.slt` file.
    fn with_series() -> Self {
        let fixture = Self::new();
        fixture.vendor().unwrap();
        let edit = |number: usize, text: &str| {
            let old = format!("// line {number}\n");
            let new = fixture
                .read(LIB)
                .replace(&old, &format!("{old}// {text}\n"));
            fixture.write(LIB, &new);
        };
        edit(5, "first");
        fixture.commit("feat(common): add a first line");
        edit(7, "second");
        fixture.commit("fix(common): add a second line");
        fixture.tag("01-groundwork");
        fixture.write(
            "datafusion/sqllogictest/test_files/identity.slt",
            "query I\nSELECT 1\n----\n1\n",
        );
        fixture.commit("test: an slt file");
        fixture.tag("02-column-ids");
        export::export(&fixture.project, false).unwrap();
        fixture
    }

    fn vendor(&self) -> Result<Done> {
        vendor(&self.project, self, &Until::End, false)
    }

    fn git(&self) -> Git {
        Git::at(self.project.crates())
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.project.crates().join(path)).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.project.crates().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn author(&self, args: &[&str]) {
        let output = self
            .git()
            .command(args)
            .env("GIT_AUTHOR_NAME", "A. Author")
            .env("GIT_AUTHOR_EMAIL", "author@example.org")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn commit(&self, subject: &str) {
        let message = format!(
            "{subject}\n\nBecause of a reason.\n\nPlans: unchanged\nAPI: none\nUpstream: not sent"
        );
        self.author(&["add", "--all"]);
        self.author(&["commit", "--quiet", "--message", &message]);
    }

    fn tag(&self, name: &str) {
        self.git().run(["tag", "--force", name]).unwrap();
    }

    /// Every file of `patches/` and `test_files/` with its content.
    fn exported(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for folder in [self.project.patches(), self.project.test_files()] {
            for entry in walkdir::WalkDir::new(folder) {
                let Ok(entry) = entry else { continue };
                if entry.file_type().is_file() {
                    let name = self.project.display(entry.path());
                    files.insert(name, fs::read_to_string(entry.path()).unwrap());
                }
            }
        }
        files
    }

    /// The same project, as a clone without `crates/` finds it.
    fn fresh_clone(&self) -> Self {
        let clone = Self::new();
        for (name, text) in self.exported() {
            let path = clone.project.root().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        clone
    }

    fn edit_patch(&self, edit: impl Fn(&str) -> String) -> PathBuf {
        let path = self
            .project
            .patches()
            .join("01-groundwork/0002-fix-common-add-a-second-line.patch");
        let text = fs::read_to_string(&path).unwrap();
        let edited = edit(&text);
        assert_ne!(text, edited);
        fs::write(&path, edited).unwrap();
        path
    }
}

fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
    format!("{:#}", result.unwrap_err())
}

#[test]
fn vendor_then_export_changes_nothing() {
    let original = Fixture::with_series();
    let files = original.exported();
    assert_eq!(
        files.keys().map(String::as_str).collect::<Vec<_>>(),
        [
            "patches/01-groundwork/0001-feat-common-add-a-first-line.patch",
            "patches/01-groundwork/0002-fix-common-add-a-second-line.patch",
            "patches/02-column-ids/0001-test-an-slt-file.patch",
            "test_files/identity.slt",
        ]
    );
    let clone = original.fresh_clone();
    assert_eq!(clone.vendor().unwrap(), Done::Moved);
    assert_eq!(clone.vendor().unwrap(), Done::UpToDate);
    assert!(export::check(&clone.project).unwrap().is_empty());
    assert!(export::export(&clone.project, false).unwrap().is_empty());
    assert_eq!(clone.exported(), files);
    // Made again elsewhere, the commits are the same to the last bit.
    let second = original.fresh_clone();
    second.vendor().unwrap();
    assert_eq!(clone.git().head().unwrap(), second.git().head().unwrap());
}

#[test]
fn manifests_are_linked_and_cargos_marks_left_out() {
    let fixture = Fixture::new();
    fixture.vendor().unwrap();
    let manifest = fixture.read("datafusion/core/Cargo.toml");
    assert!(
        manifest.contains("path = \"../../datafusion/common\""),
        "{manifest}"
    );
    assert!(
        !fixture
            .project
            .crates()
            .join("datafusion/core/.cargo-ok")
            .exists()
    );
}

#[test]
fn stages_stop_where_they_end() {
    let fixture = Fixture::with_series().fresh_clone();
    let go = |until| vendor(&fixture.project, &fixture, &until, false).unwrap();
    go(Until::Upstream);
    assert_eq!(fixture.read(LIB), numbered(40));
    go(Until::Stage("01-groundwork".into()));
    assert!(fixture.read(LIB).contains("// second"));
    let slt = fixture
        .project
        .crates()
        .join("datafusion/sqllogictest/test_files/identity.slt");
    assert!(!slt.exists());
    // An export from here would drop the second stage.
    let error = message(export::export(&fixture.project, false));
    assert!(
        error.contains("run `cargo xtask vendor` first")
            || error.contains("Run `cargo xtask vendor` first"),
        "{error}"
    );
    go(Until::End);
    assert!(slt.exists());
    let error = message(vendor(
        &fixture.project,
        &fixture,
        &Until::Stage("09-none".into()),
        false,
    ));
    assert!(error.contains("01-groundwork, 02-column-ids"), "{error}");
}

#[test]
fn uncommitted_work_is_refused_or_kept() {
    let fixture = Fixture::with_series();
    fixture.write(LIB, "mine\n");
    fixture.write("datafusion/common/src/new.rs", "mine too\n");
    assert_eq!(fixture.vendor().unwrap(), Done::UpToDate);
    let error = message(vendor(&fixture.project, &fixture, &Until::Upstream, false));
    assert!(
        error.contains(LIB) && error.contains("new.rs") && error.contains("--force"),
        "{error}"
    );
    assert_eq!(fixture.read(LIB), "mine\n");

    vendor(&fixture.project, &fixture, &Until::Upstream, true).unwrap();
    assert_eq!(fixture.read(LIB), numbered(40));
    let backups = fixture
        .git()
        .lines(["for-each-ref", "--format=%(refname)", "refs/backup"])
        .unwrap();
    assert_eq!(backups.len(), 1);
    let kept = |file: &str| {
        fixture
            .git()
            .read(["show", &format!("{}:{file}", backups[0])])
            .unwrap()
    };
    assert_eq!(kept(LIB), "mine");
    assert_eq!(kept("datafusion/common/src/new.rs"), "mine too");
}

#[test]
fn unexported_commits_are_refused_or_kept() {
    let fixture = Fixture::with_series();
    fixture.write("datafusion/common/src/new.rs", "mine\n");
    fixture.commit("feat(common): not exported");
    let before = fixture.git().head().unwrap();
    let error = message(fixture.vendor());
    assert!(error.contains("feat(common): not exported"), "{error}");
    assert_eq!(fixture.git().head().unwrap(), before);

    vendor(&fixture.project, &fixture, &Until::End, true).unwrap();
    let backup = fixture
        .git()
        .read(["for-each-ref", "--format=%(refname)", "refs/backup"])
        .unwrap();
    fixture
        .git()
        .run(["merge-base", "--is-ancestor", &before, &backup])
        .unwrap();
}

#[test]
fn a_tampered_patch_is_named_with_file_and_hunk() {
    let fixture = Fixture::with_series().fresh_clone();
    let patch = fixture.edit_patch(|text| text.replace(" // line 8", " // line eight"));
    let error = message(fixture.vendor());
    assert!(error.contains(&fixture.project.display(&patch)), "{error}");
    assert!(
        error.contains(LIB) && error.contains("hunk 1 (@@ -6,6"),
        "{error}"
    );
    // The first patch stays applied, and the state is git's own.
    assert!(fixture.git().in_progress().is_some());
    assert!(fixture.read(LIB).contains("// first"));
    let error = message(fixture.vendor());
    assert!(
        error.contains("in the middle of applying patches"),
        "{error}"
    );

    // Resolved by hand, `git am --continue` goes on to the last patch.
    let resolved = fixture
        .read(LIB)
        .replace("// line 7\n", "// line 7\n// second\n");
    fixture.write(LIB, &resolved);
    fixture.author(&["add", LIB]);
    fixture.author(&["am", "--continue"]);
    assert_eq!(
        fixture
            .git()
            .lines(["rev-list", "upstream..HEAD"])
            .unwrap()
            .len(),
        3
    );
    fixture
        .git()
        .run(["tag", "01-groundwork", "HEAD~1"])
        .unwrap();
    fixture.tag("02-column-ids");
    export::export(&fixture.project, true).unwrap();
    assert_eq!(fixture.fresh_clone().vendor().unwrap(), Done::Moved);
}

#[test]
fn a_truncated_patch_is_named() {
    let fixture = Fixture::with_series().fresh_clone();
    let patch =
        fixture.edit_patch(|text| text[..text.find("@@").unwrap() + 30].to_string());
    let error = message(fixture.vendor());
    assert!(error.contains(&fixture.project.display(&patch)), "{error}");
    // Giving up loses nothing either.
    let error = message(vendor(&fixture.project, &fixture, &Until::End, true));
    assert!(error.contains("does not apply"), "{error}");
}

#[test]
fn a_patch_that_needs_a_merge_is_reported() {
    // The first patch changed under the second, whose blobs are known: `am
    // --3way` can place it. That is for moving a series, not for one at rest.
    let fixture = Fixture::with_series();
    let first = fixture
        .project
        .patches()
        .join("01-groundwork/0001-feat-common-add-a-first-line.patch");
    let text = fs::read_to_string(&first).unwrap();
    fs::write(&first, text.replace("+// first", "+// primero")).unwrap();
    let error = message(vendor(&fixture.project, &fixture, &Until::End, false));
    assert!(error.contains("three-way merge"), "{error}");
    assert!(!export::check(&fixture.project).unwrap().is_empty());
}

#[test]
fn an_interrupted_run_leaves_no_half_made_tree() {
    let fixture = Fixture::with_series().fresh_clone();
    let partial = fixture.project.root().join("crates.partial/datafusion");
    fs::create_dir_all(&partial).unwrap();
    fixture.vendor().unwrap();
    assert!(!partial.exists());
    assert!(export::check(&fixture.project).unwrap().is_empty());
}

/// A series whose second patch conflicts once the first one is tampered with.
fn conflicting() -> Fixture {
    let fixture = Fixture::new();
    fixture.vendor().unwrap();
    let change = |from: &str, to: &str| {
        let text = fixture.read(LIB).replace(from, to);
        fixture.write(LIB, &text);
    };
    change("// line 8\n", "// line eight A\n");
    fixture.commit("feat(common): change a line");
    change("// line 7\n", "// line 7\n// second\n");
    fixture.commit("fix(common): add a second line");
    fixture.tag("01-groundwork");
    export::export(&fixture.project, false).unwrap();
    let first = fixture
        .project
        .patches()
        .join("01-groundwork/0001-feat-common-change-a-line.patch");
    let text = fs::read_to_string(&first).unwrap();
    fs::write(&first, text.replace("+// line eight A", "+// line eight B")).unwrap();
    fixture
}

#[test]
fn a_conflict_is_left_to_resolve_or_kept() {
    let fixture = conflicting();
    let error = message(fixture.vendor());
    assert!(
        error.contains("0002-fix-common-add-a-second-line.patch does not apply"),
        "{error}"
    );
    assert!(fixture.read(LIB).contains("<<<<<<<"));
    // Giving it up works with the conflict in the index, and keeps the files.
    let error = message(vendor(&fixture.project, &fixture, &Until::End, true));
    assert!(error.contains("does not apply"), "{error}");
    let backups = fixture
        .git()
        .lines(["for-each-ref", "--format=%(refname)", "refs/backup"])
        .unwrap();
    let kept = fixture
        .git()
        .read(["show", &format!("{}:{LIB}", backups[0])])
        .unwrap();
    assert!(
        kept.contains("<<<<<<<") && kept.contains("// line eight B"),
        "{kept}"
    );
    vendor(&fixture.project, &fixture, &Until::Upstream, true).unwrap();
    assert_eq!(fixture.read(LIB), numbered(40));
    assert!(fixture.git().in_progress().is_none());
}

#[test]
fn commits_on_the_branch_are_safe_while_head_is_elsewhere() {
    let fixture = Fixture::with_series();
    fixture.write("datafusion/common/src/new.rs", "mine\n");
    fixture.commit("feat(common): not exported");
    let mine = fixture.git().head().unwrap();
    fixture
        .git()
        .run(["checkout", "--quiet", "--detach", UPSTREAM])
        .unwrap();
    let error = message(fixture.vendor());
    assert!(error.contains("feat(common): not exported"), "{error}");
    vendor(&fixture.project, &fixture, &Until::End, true).unwrap();
    let backups = fixture
        .git()
        .lines(["for-each-ref", "--format=%(objectname)", "refs/backup"])
        .unwrap();
    assert!(backups.contains(&mine), "{backups:?}");
}

#[test]
fn export_does_not_replace_patches_that_were_never_applied() {
    let fixture = Fixture::with_series();
    // A colleague's patch is pulled while a commit of ours waits.
    let pulled = fixture
        .project
        .patches()
        .join("02-column-ids/0002-test-pulled.patch");
    let text = fixture.exported()["patches/02-column-ids/0001-test-an-slt-file.patch"]
        .replace("identity.slt", "pulled.slt");
    fs::write(&pulled, &text).unwrap();
    fixture.write("datafusion/common/src/new.rs", "mine\n");
    fixture.commit("feat(common): ours");
    let error = message(export::export(&fixture.project, false));
    assert!(error.contains("0002-test-pulled.patch"), "{error}");
    assert_eq!(fs::read_to_string(&pulled).unwrap(), text);
    export::export(&fixture.project, true).unwrap();
    assert!(!pulled.exists());
}

#[test]
fn tags_go_with_their_stage() {
    let fixture = Fixture::with_series();
    fs::remove_dir_all(fixture.project.patches().join("02-column-ids")).unwrap();
    assert_eq!(fixture.vendor().unwrap(), Done::Moved);
    assert!(
        fixture
            .git()
            .commit("refs/tags/02-column-ids")
            .unwrap()
            .is_none()
    );
    assert_eq!(
        export::check(&fixture.project).unwrap(),
        ["test_files/identity.slt has no commit in crates/"]
    );
}

#[test]
fn a_tag_that_is_missing_comes_back() {
    let fixture = Fixture::with_series();
    fixture
        .git()
        .run(["tag", "--delete", "01-groundwork"])
        .unwrap();
    assert_eq!(fixture.vendor().unwrap(), Done::UpToDate);
    assert!(export::check(&fixture.project).unwrap().is_empty());
}

#[test]
fn commands_leave_a_tree_alone_that_someone_moved() {
    let fixture = Fixture::with_series();
    // A patch dropped on purpose, not exported yet.
    fixture
        .git()
        .run(["reset", "--quiet", "--hard", "HEAD~1"])
        .unwrap();
    let dropped = fixture.git().head().unwrap();
    ensure(&fixture.project, &fixture).unwrap();
    assert_eq!(fixture.git().head().unwrap(), dropped);
}

#[test]
fn settings_of_the_user_do_not_reach_the_patches() {
    let fixture = Fixture::with_series();
    for (name, value) in [
        ("diff.noprefix", "true"),
        ("diff.context", "1"),
        ("format.signoff", "true"),
    ] {
        fixture.git().run(["config", name, value]).unwrap();
    }
    assert!(export::check(&fixture.project).unwrap().is_empty());
}

#[test]
fn a_message_that_am_would_cut_is_not_exported() {
    let fixture = Fixture::with_series();
    fixture.write("datafusion/common/src/new.rs", "new\n");
    fixture.commit("feat(common): a thing\n\nBefore\n---\nafter");
    let error = message(export::export(&fixture.project, false));
    assert!(
        error.contains("take this line of the message for the diff: ---"),
        "{error}"
    );
}

#[test]
fn a_foreign_folder_is_set_aside_only_by_force() {
    let fixture = Fixture::with_series().fresh_clone();
    fixture.write("precious.txt", "mine\n");
    let error = message(fixture.vendor());
    assert!(
        error.contains("not a tree that `cargo xtask vendor` finished"),
        "{error}"
    );
    assert_eq!(fixture.read("precious.txt"), "mine\n");
    vendor(&fixture.project, &fixture, &Until::End, true).unwrap();
    let aside = fs::read_dir(fixture.project.root())
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.to_string_lossy().contains("crates.aside-"))
        .unwrap();
    assert_eq!(
        fs::read_to_string(aside.join("precious.txt")).unwrap(),
        "mine\n"
    );
}

#[test]
fn another_base_than_the_pinned_one_is_an_error() {
    let fixture = Fixture::new();
    fs::write(
        fixture.project.upstream().join("TREE"),
        "# tree\n0123456789\n",
    )
    .unwrap();
    let error = message(fixture.vendor());
    assert!(
        error.contains("ci/upstream/TREE says 0123456789"),
        "{error}"
    );
    assert!(!fixture.project.crates().exists());
}

#[test]
fn tags_follow_a_rebase() {
    let fixture = Fixture::with_series();
    let before = fixture.exported();
    // Amend the first patch below the others: all three commits are new.
    let text = fixture
        .read(LIB)
        .replace("// first\n", "// first, mended\n");
    fixture.write(LIB, &text);
    fixture.author(&["add", "--all"]);
    let first = fixture
        .git()
        .read(["rev-list", "--reverse", "upstream..HEAD"])
        .unwrap();
    let first = first.lines().next().unwrap().to_string();
    fixture.author(&["commit", "--quiet", &format!("--fixup={first}")]);
    fixture.author(&[
        "-c",
        "sequence.editor=true",
        "rebase",
        "--quiet",
        "-i",
        "--autosquash",
        UPSTREAM,
    ]);
    let changed = export::export(&fixture.project, false).unwrap();
    let names: Vec<_> = changed.iter().map(|p| p.display().to_string()).collect();
    assert!(
        names.contains(
            &"patches/01-groundwork/0001-feat-common-add-a-first-line.patch".to_string()
        ),
        "{names:?}"
    );
    assert_eq!(before.len(), fixture.exported().len());
    assert_eq!(
        fixture.git().commit("01-groundwork").unwrap(),
        fixture.git().commit("HEAD~1").unwrap()
    );
    assert_eq!(
        fixture.git().read(["branch", "--show-current"]).unwrap(),
        BRANCH
    );
    assert_eq!(fixture.vendor().unwrap(), Done::UpToDate);
}

#[test]
fn check_names_the_file_that_differs() {
    let fixture = Fixture::with_series();
    let patch = fixture.edit_patch(|text| text.replace("a reason", "another reason"));
    let differences = export::check(&fixture.project).unwrap();
    assert_eq!(
        differences,
        [format!(
            "{} differs from its commit",
            fixture.project.display(&patch)
        )]
    );
    fs::remove_file(&patch).unwrap();
    fs::write(fixture.project.test_files().join("stray.slt"), "").unwrap();
    let differences = export::check(&fixture.project).unwrap();
    assert_eq!(differences.len(), 2, "{differences:?}");
    assert!(
        differences[0].ends_with("is missing")
            && differences[1].contains("stray.slt has no commit"),
        "{differences:?}"
    );
    // The cover text is written by hand and stays.
    let cover = fixture.project.patches().join("01-groundwork/COVER.md");
    fs::write(&cover, "cover\n").unwrap();
    export::export(&fixture.project, true).unwrap();
    assert!(cover.exists());
}

#[test]
fn a_commit_without_its_trailers_is_not_exported() {
    let fixture = Fixture::with_series();
    fixture.write("datafusion/common/src/new.rs", "new\n");
    fixture.author(&["add", "--all"]);
    fixture.author(&[
        "commit",
        "--quiet",
        "--message",
        "add a thing\n\nPlans: unchanged",
    ]);
    let error = message(export::export(&fixture.project, false));
    for words in [
        "add a thing",
        "upstream's form",
        "0 `API:`",
        "0 `Upstream:`",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(!error.contains("`Plans:`"), "{error}");
}

#[test]
fn names_that_would_not_sort_as_meant_are_errors() {
    let fixture = Fixture::with_series();
    let rename = |from: &str, to: &str| {
        fs::rename(
            fixture.project.patches().join(from),
            fixture.project.patches().join(to),
        )
        .unwrap();
    };
    rename(
        "01-groundwork/0002-fix-common-add-a-second-line.patch",
        "01-groundwork/0003-fix-common-add-a-second-line.patch",
    );
    let error = message(series::Series::read(&fixture.project));
    assert!(
        error.contains("0003-fix") && error.contains("expected a file named 0002-"),
        "{error}"
    );
    rename("01-groundwork", "groundwork");
    let error = message(series::Series::read(&fixture.project));
    assert!(
        error.contains("patches/groundwork is not a stage"),
        "{error}"
    );
}

#[test]
fn a_missing_tree_is_named() {
    let fixture = Fixture::new();
    let error = message(export::check(&fixture.project));
    assert!(error.contains("run `cargo xtask vendor`"), "{error}");
    assert!(!Path::new(&fixture.project.crates()).exists());
}
