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

//! The data files that upstream's tests read and the published crates leave out.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufWriter, Write};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use regex::Regex;
use tpchgen::generators;
use walkdir::WalkDir;

use crate::project::Project;
use crate::ui;

/// Names a folder laid out like upstream's repository (a checkout of it serves).
pub const VARIABLE: &str = "DATAFUSION_TEST_DATA";

/// What to do without the data, for messages.
pub const HOW_TO_GET: &str = "set DATAFUSION_TEST_DATA to an upstream checkout of the base's tag with its submodules \
(git clone --recurse-submodules of apache/datafusion), or to a folder laid out like one";

/// The folders, by their paths in upstream's repository.
const FOLDERS: [&str; 6] = [
    "testing",
    "parquet-testing",
    "benchmarks",
    "datafusion/core/tests/data",
    "datafusion/core/tests/tpc-ds",
    "datafusion/core/tests/tpch-csv",
];

/// What an upstream checkout without its submodules lacks.
const IN_SUBMODULES: [&str; 2] = ["testing/data", "parquet-testing/data"];

/// The runner's folder, from which the paths in `.slt` files count.
pub fn slt_folder(project: &Project) -> PathBuf {
    project.crates().join("datafusion/sqllogictest")
}

/// The folder that the variable names, checked; none if it is not set.
pub fn source() -> Result<Option<PathBuf>> {
    let Some(folder) = std::env::var_os(VARIABLE).filter(|v| !v.is_empty()) else {
        return Ok(None);
    };
    let source = Path::new(&folder)
        .canonicalize()
        .with_context(|| format!("{VARIABLE} names {folder:?}, which cannot be read"))?;
    let missing: Vec<&str> = FOLDERS
        .into_iter()
        .chain(IN_SUBMODULES)
        .filter(|f| !source.join(f).is_dir())
        .collect();
    if !missing.is_empty() {
        bail!(
            "{VARIABLE} names a folder without {}; it has to be laid out like upstream's repository, \
             submodules included",
            missing.join(", ")
        );
    }
    Ok(Some(source))
}

/// Links the data into `crates/` as `DATAFUSION_TEST_DATA` says, or takes old
/// links away where it is not set. Returns whether the data is there.
pub fn link(project: &Project) -> Result<bool> {
    let source = source()?;
    for folder in FOLDERS {
        let link = project.crates().join(folder);
        if link.is_symlink() {
            fs::remove_file(&link)?;
        }
        if let Some(source) = &source {
            if link.exists() {
                bail!(
                    "{} is in the way of a link to the test data; move it away",
                    project.display(&link)
                );
            }
            fs::create_dir_all(link.parent().context("a link at the root")?)?;
            symlink(source.join(folder), &link)
                .with_context(|| format!("cannot link {}", project.display(&link)))?;
        }
    }
    Ok(source.is_some())
}

/// The `.slt` files, as paths below the runner's folder, in order.
pub fn slt_files(project: &Project) -> Result<Vec<PathBuf>> {
    let folder = slt_folder(project);
    let mut files = vec![];
    for entry in WalkDir::new(folder.join("test_files")).sort_by_file_name() {
        let entry = entry?;
        if entry.path().extension().is_some_and(|e| e == "slt") {
            files.push(entry.path().strip_prefix(&folder)?.to_path_buf());
        }
    }
    Ok(files)
}

/// One `.slt` file: the files it includes, and the data it reads.
pub struct Uses {
    /// Files read by `include`, below the runner's folder.
    pub includes: BTreeSet<PathBuf>,
    /// Paths in upstream's repository of data that the published crates lack.
    pub data: BTreeSet<PathBuf>,
}

/// Finds what `file` (a path below the runner's folder) includes and reads.
pub fn uses(project: &Project, file: &Path) -> Result<Uses> {
    let folder = slt_folder(project);
    let include = Regex::new(r"(?m)^include\s+(\S+)\s*$")?;
    let relative = Regex::new(r"(?:\.\./)+[\w./*?=-]+")?;
    let mut uses = Uses {
        includes: BTreeSet::new(),
        data: BTreeSet::new(),
    };
    let mut todo = vec![file.to_path_buf()];
    while let Some(file) = todo.pop() {
        let text = fs::read_to_string(folder.join(&file))
            .with_context(|| format!("cannot read {}", file.display()))?;
        let beside = file.parent().context("an .slt file without a folder")?;
        for found in include.captures_iter(&text) {
            for included in expand(&folder, beside, &found[1])? {
                if uses.includes.insert(included.clone()) {
                    todo.push(included);
                }
            }
        }
        let from = Path::new("datafusion/sqllogictest");
        for found in relative.find_iter(&text) {
            let path = normalize(&from.join(found.as_str()));
            if FOLDERS.iter().any(|f| path.starts_with(f)) {
                uses.data.insert(path);
            }
        }
    }
    Ok(uses)
}

/// The files that an `include` names; a star stands for any part of a file name.
fn expand(folder: &Path, beside: &Path, name: &str) -> Result<Vec<PathBuf>> {
    let pattern = normalize(&beside.join(name));
    let parent = pattern.parent().context("an include of no file")?;
    let last = pattern
        .file_name()
        .context("an include of no file")?
        .to_string_lossy();
    let matcher =
        Regex::new(&format!("^{}$", regex::escape(&last).replace(r"\*", ".*")))?;
    let mut files = vec![];
    let entries = fs::read_dir(folder.join(parent))
        .with_context(|| format!("include {name} in {}", beside.display()))?;
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if matcher.is_match(&name) {
            files.push(parent.join(name));
        }
    }
    files.sort();
    Ok(files)
}

/// Resolves `.` and `..` by the text of the path alone.
fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// Writes the TPC-H tables at scale factor 0.1, which `tpch.slt` reads, unless
/// they are there.
pub fn tpch(project: &Project) -> Result<()> {
    const SCALE: f64 = 0.1;
    let folder = slt_folder(project).join("test_files/tpch/data");
    let bar = ui::progress(8, "tpch data");
    let table = |name: &str,
                 write: &dyn Fn(&mut dyn Write) -> std::io::Result<()>|
     -> Result<()> {
        bar.inc(1);
        let file = folder.join(format!("{name}.tbl"));
        if file.exists() {
            return Ok(());
        }
        fs::create_dir_all(&folder)?;
        // Renamed when whole, so an interrupted run leaves no short table.
        let mut partial = BufWriter::new(tempfile::NamedTempFile::new_in(&folder)?);
        write(&mut partial)?;
        partial.into_inner()?.persist(&file)?;
        Ok(())
    };
    macro_rules! rows {
        ($generator:ident) => {
            &|out: &mut dyn Write| {
                for row in generators::$generator::new(SCALE, 1, 1).iter() {
                    writeln!(out, "{row}")?;
                }
                Ok(())
            }
        };
    }
    table("region", rows!(RegionGenerator))?;
    table("nation", rows!(NationGenerator))?;
    table("supplier", rows!(SupplierGenerator))?;
    table("part", rows!(PartGenerator))?;
    table("partsupp", rows!(PartSuppGenerator))?;
    table("customer", rows!(CustomerGenerator))?;
    table("orders", rows!(OrderGenerator))?;
    table("lineitem", rows!(LineItemGenerator))?;
    bar.finish_and_clear();
    Ok(())
}
