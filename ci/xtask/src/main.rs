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

//! `cargo xtask`: makes, changes, tests and packages the fork.
//!
//! Reading order: [`project`] says where things are, [`series`] what a patch
//! series is, [`vendor`] and [`export`] go from files to commits and back, and
//! [`test`] runs the suites.

#[macro_use]
mod ui;

mod base;
mod bench;
mod dist;
mod doctor;
mod export;
mod fuzz;
mod git;
mod lock;
mod project;
mod series;
mod status;
mod test;
mod testdata;
mod toolchain;
mod validate;
mod vendor;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

use crate::base::REGISTRY;
use crate::project::Project;
use crate::test::Suite;
use crate::vendor::{Done, Until};

/// Makes, changes, tests and packages DataFusion with column identity.
///
/// Exit status: 0 success; 1 a test failed, a check found a difference or a
/// measured entry is over; 2 the command could not do its work (the message
/// says why and what to do). `sql` passes on the status of datafusion-cli.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Cli {
    /// Work on the checkout in this folder, not on the one this tool was built from
    #[arg(long, global = true, hide = true, value_name = "DIR")]
    project: Option<PathBuf>,
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Subcommand)]
enum Subcommands {
    /// Make crates/: the published crates with the patches applied
    Vendor {
        /// Stop at the end of this stage (a folder of patches/)
        #[arg(long, value_name = "NAME", conflicts_with = "upstream")]
        stage: Option<String>,
        /// Stop before the first patch
        #[arg(long)]
        upstream: bool,
        /// Go on although crates/ holds other work; it is kept under a backup ref
        #[arg(long)]
        force: bool,
    },
    /// Write the commits in crates/ to patches/, and the .slt files they add to test_files/
    Export {
        /// Write nothing; fail if an export would change a file
        #[arg(long)]
        check: bool,
        /// Replace patch files that were never applied in crates/ (pulled, or edited by hand)
        #[arg(long, conflicts_with = "check")]
        force: bool,
    },
    /// Show what is applied, what is not committed and what is not exported
    Status,
    /// Write an archive of the patched tree for use in other projects
    Dist,
    /// Say whether the project at PATH links the fork
    Doctor {
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
    /// Make the lock files anew from those that the crates ship (for a new base)
    Lock,
    /// Run the patched datafusion-cli (`sql -- --help` shows its own options)
    Sql {
        /// Optimised; builds for a long time the first time
        #[arg(long)]
        release: bool,
        /// Passed on to datafusion-cli
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "ARGS"
        )]
        args: Vec<String>,
    },
    /// Run the tests; the last line sums them up
    Test {
        #[arg(value_enum, default_value_t = Suite::All)]
        suite: Suite,
        /// Only tests or files whose name holds this (not for export and series)
        filter: Option<String>,
        /// series: all stages, with unit and slt at the end of each
        #[arg(long)]
        full: bool,
        /// series: stages that changed since this commit [default: the main branch]
        #[arg(long, value_name = "COMMIT")]
        since: Option<String>,
    },
    /// Check the column ids of every plan of the sqllogictest files, after every rule
    Validate {
        /// Only files whose path holds this; the floors do not count then
        filter: Option<String>,
        /// Also write the table to this file, as Markdown
        #[arg(long, value_name = "FILE")]
        markdown: Option<PathBuf>,
    },
    /// Compare planning speed with 55.2.0, both in one process
    Bench {
        /// Compare with the end of this stage in place of 55.2.0
        #[arg(long, value_name = "STAGE")]
        base: Option<String>,
        /// Less optimised, for use while working
        #[arg(long)]
        quick: bool,
        /// Passed on to the benchmark: [FILTER], --json FILE, --samples N, ... (`bench -- --help`)
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "ARGS"
        )]
        args: Vec<String>,
    },
    /// Run random statements whose names collide, and compare the rows
    Fuzz {
        /// Passed on to the fuzzer: --seed N, --count M, --only K, ... (`fuzz -- --help`)
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "ARGS"
        )]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let project = match cli.project {
        Some(folder) => Project::at(folder.canonicalize()?),
        None => Project::here()?,
    };
    let code = |ok: bool| {
        if ok {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    };
    match cli.command {
        Subcommands::Vendor {
            stage,
            upstream,
            force,
        } => {
            let until = match stage {
                Some(stage) => Until::Stage(stage),
                None if upstream => Until::Upstream,
                None => Until::End,
            };
            match vendor::vendor(&project, &REGISTRY, &until, force)? {
                Done::UpToDate => say!("crates/ is up to date"),
                Done::Moved => say!("crates/ is ready"),
            }
            Ok(ExitCode::SUCCESS)
        }
        Subcommands::Export { check: true, .. } => {
            let differences = export::check(&project)?;
            for line in &differences {
                say!("{line}");
            }
            if differences.is_empty() {
                say!("patches/ and test_files/ are what crates/ holds");
            } else {
                say!("run `cargo xtask export`");
            }
            Ok(code(differences.is_empty()))
        }
        Subcommands::Export { force, .. } => {
            let changed = export::export(&project, force)?;
            for path in &changed {
                say!("{}", path.display());
            }
            say!("{} files changed", changed.len());
            Ok(ExitCode::SUCCESS)
        }
        Subcommands::Status => status::status(&project).map(|()| ExitCode::SUCCESS),
        Subcommands::Dist => {
            let archive = dist::dist(&project)?;
            say!("{}", project.display(&archive));
            Ok(ExitCode::SUCCESS)
        }
        Subcommands::Doctor { path } => doctor::doctor(&project, &path).map(code),
        Subcommands::Lock => {
            let packages = lock::lock(&project)?;
            say!("{packages} packages as in the lock files that the crates ship");
            Ok(ExitCode::SUCCESS)
        }
        Subcommands::Sql { release, args } => {
            vendor::ensure(&project, &REGISTRY)?;
            let cargo = |verb: &str| -> Result<std::process::Command> {
                let mut command = toolchain::cargo(&project)?;
                command
                    .current_dir(std::env::current_dir()?)
                    .args([verb, "--locked", "--package", "datafusion-cli"])
                    .args(["--bin", "datafusion-cli", "--manifest-path"])
                    .arg(project.root().join("Cargo.toml"))
                    .args(release.then_some("--release"));
                Ok(command)
            };
            // Built first, so that its own failure is not taken for the program's.
            if !cargo("build")?.status()?.success() {
                bail!(
                    "the patched datafusion-cli does not build (cargo's message is above)"
                );
            }
            let status = cargo("run")?
                .args(["--quiet", "--"])
                .args(args)
                .status()
                .context("cargo could not be started")?;
            Ok(ExitCode::from(status.code().unwrap_or(2) as u8))
        }
        Subcommands::Test {
            suite,
            filter,
            full,
            since,
        } => {
            let options = test::Options {
                suite,
                filter,
                full,
                since,
            };
            test::test(&project, &options).map(code)
        }
        Subcommands::Validate { filter, markdown } => {
            vendor::ensure(&project, &REGISTRY)?;
            let outcome =
                validate::validate(&project, filter.as_deref(), markdown.as_deref())?;
            for note in &outcome.notes {
                say!("{note}");
            }
            let test::Outcome {
                passed,
                failed,
                skipped,
                ..
            } = outcome;
            if passed + failed + skipped == 0 {
                bail!("no file fits {:?}", filter.unwrap_or_default());
            }
            say!("{passed} passed, {failed} failed, {skipped} skipped");
            Ok(code(failed == 0))
        }
        Subcommands::Bench { base, quick, args } => {
            vendor::ensure(&project, &REGISTRY)?;
            let options = bench::Options { base, quick, args };
            let status = bench::bench(&project, &options)?;
            Ok(ExitCode::from(status as u8))
        }
        Subcommands::Fuzz { args } => {
            vendor::ensure(&project, &REGISTRY)?;
            let status = fuzz::fuzz(&project, &args)?;
            Ok(ExitCode::from(status as u8))
        }
    }
}
