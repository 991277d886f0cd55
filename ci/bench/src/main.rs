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

//! Planning speed of the fork against stock DataFusion, in one process.
//!
//! Both engines are linked into this program and run in turn on one thread, so
//! that whatever disturbs the machine disturbs both. See [`measure`] for the
//! sampling and [`report`] for what counts as slower.

mod alloc;
mod engine;
mod measure;
mod queries;
mod report;
mod schemas;

use std::any::Any;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::engine::{Planner, TARGET_PARTITIONS};
use crate::measure::{Failure, Side};
use crate::queries::{Entry, Group, Source, Work};
use crate::report::{ENTRY_LIMIT, EntryReport, GROUP_LIMIT, GroupReport, Summary};

/// Names the data directory when `--data` doesn't.
const DATA_VARIABLE: &str = "DATAFUSION_TEST_DATA";

/// Deep plans recurse deeply, and the main thread's stack depends on the machine.
const STACK_SIZE: usize = 64 * 1024 * 1024;

/// Compares planning speed of the fork with stock DataFusion.
///
/// Plans queries from SQL text to the physical plan with both engines, in turn and
/// in one process, and reports the median of the ratios fork / base with its 95 %
/// interval, and the allocations of a plan.
#[derive(Debug, Parser)]
#[command(
    name = "planning-bench",
    after_help = "\
Exit status:
  0  the fork is not slower
  1  an entry is over (its interval lies above 1.03 in two runs), or the geometric
     mean of a group is above 1.00; to_field is reported but not judged
  2  the fork fails to plan what the base plans, or another error"
)]
struct Args {
    /// Only entries whose `group/entry` contains this text
    filter: Option<String>,

    /// Directory with the benchmark queries, laid out like upstream's repository
    /// (benchmarks/queries/...) [env: DATAFUSION_TEST_DATA] [default: a small
    /// built-in set of queries]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Pairs of samples for an entry, made even
    #[arg(
        long,
        value_name = "N",
        default_value_t = 40,
        value_parser = clap::value_parser!(u16).range(6..=1000)
    )]
    samples: u16,

    /// Only this group; can be given several times
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<Group>,

    /// Also write all results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// What to call the base in the output
    #[arg(long, value_name = "NAME", default_value = "55.2.0")]
    base_name: String,

    /// List the entries and measure nothing
    #[arg(long)]
    list: bool,
}

/// The contents of the file of `--json`.
#[derive(Serialize)]
struct Results<'a> {
    base: Version<'a>,
    fork: Version<'a>,
    samples: usize,
    target_partitions: usize,
    entry_limit: f64,
    group_limit: f64,
    groups: &'a [GroupReport],
    summary: &'a Summary,
    exit_code: u8,
}

/// An engine in the file of `--json`.
#[derive(Serialize)]
struct Version<'a> {
    name: &'a str,
    version: &'a str,
}

/// Both engines.
struct Engines {
    base: Box<dyn Planner>,
    fork: Box<dyn Planner>,
}

impl Engines {
    fn new() -> Result<Self> {
        let tables = schemas::tables();
        let base = engine::stock::Engine::new(&tables, schemas::VIEWS)
            .context("cannot set up the base")?;
        let fork =
            engine::fork::Engine::new(&tables, schemas::VIEWS).context("cannot set up the fork")?;
        Ok(Self {
            base: Box::new(base),
            fork: Box::new(fork),
        })
    }

    fn side(&mut self, side: Side) -> &mut dyn Planner {
        match side {
            Side::Base => self.base.as_mut(),
            Side::Fork => self.fork.as_mut(),
        }
    }

    /// One unit of an entry that [`Self::check`] has prepared.
    fn run(&mut self, side: Side, work: &Work) -> Result<()> {
        let planner = self.side(side);
        match work {
            Work::Plan(sql) => planner.plan(sql),
            Work::ToField(_) => planner.to_field(),
        }
    }

    /// Prepares an entry and runs it once. A panic counts as an error.
    fn check(&mut self, side: Side, entry: &Entry) -> Result<()> {
        let checked = catch_unwind(AssertUnwindSafe(|| {
            let planner = self.side(side);
            for view in &entry.views {
                planner.define_view(view)?;
            }
            if let Work::ToField(width) = entry.work {
                planner.prepare_to_field(width)?;
            }
            self.run(side, &entry.work)
        }));
        checked.unwrap_or_else(|panic| Err(anyhow!("panic: {}", panic_text(&*panic))))
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "without a message"
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = std::thread::Builder::new()
        .stack_size(STACK_SIZE)
        .spawn(move || run(&args))
        .map(std::thread::JoinHandle::join);
    match outcome {
        Ok(Ok(Ok(code))) => ExitCode::from(code),
        Ok(Ok(Err(error))) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
        // The panic has already been reported.
        Ok(Err(_)) => ExitCode::from(2),
        Err(error) => {
            eprintln!("error: cannot start a thread: {error}");
            ExitCode::from(2)
        }
    }
}

/// Everything; returns the exit status.
fn run(args: &Args) -> Result<u8> {
    let data = args.data.clone().or_else(|| {
        std::env::var_os(DATA_VARIABLE)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    });
    let groups = load(args, data.as_deref())?;
    if args.list {
        for entry in groups.iter().flat_map(|(_, entries)| entries) {
            println!("{}", entry.id());
        }
        return Ok(0);
    }
    // Before the measuring, so that a bad path is noticed at once.
    let json = args
        .json
        .as_ref()
        .map(|path| File::create(path).with_context(|| format!("cannot write {}", path.display())))
        .transpose()?;

    print!("{}", heading(args, &groups, data.as_deref()));
    // An odd number of pairs would favour one order of the two engines.
    let pairs = usize::from(args.samples).next_multiple_of(2);
    let mut engines = Engines::new()?;
    let progress = progress(groups.iter().map(|(_, entries)| entries.len()).sum());
    let mut reports = vec![];
    for (group, entries) in &groups {
        let start = Instant::now();
        let report = measure_group(
            &mut engines,
            *group,
            entries,
            data.as_deref(),
            pairs,
            &progress,
        );
        progress.suspend(|| println!("\n{}", report.render(&args.base_name, pairs)));
        if progress.is_hidden() {
            eprintln!(
                "{group}: {} entries in {:.1} s",
                entries.len(),
                start.elapsed().as_secs_f64()
            );
        }
        reports.push(report);
    }
    progress.finish_and_clear();

    let summary = Summary::new(&reports);
    let exit_code = summary.exit_code();
    println!("\n{}", report::render_groups(&reports, &args.base_name));
    println!("{}", summary.line());
    if let Some(file) = json {
        let results = Results {
            base: Version {
                name: &args.base_name,
                version: engine::stock::VERSION,
            },
            fork: Version {
                name: "fork",
                version: engine::fork::VERSION,
            },
            samples: pairs,
            target_partitions: TARGET_PARTITIONS,
            entry_limit: ENTRY_LIMIT,
            group_limit: GROUP_LIMIT,
            groups: &reports,
            summary: &summary,
            exit_code,
        };
        let mut writer = BufWriter::new(file);
        serde_json::to_writer_pretty(&mut writer, &results)
            .context("cannot write the JSON file")?;
        writeln!(writer)
            .and_then(|()| writer.flush())
            .context("cannot write the JSON file")?;
    }
    Ok(exit_code)
}

/// The selected entries by group, without empty groups.
fn load(args: &Args, data: Option<&Path>) -> Result<Vec<(Group, Vec<Entry>)>> {
    let mut groups = vec![];
    for group in Group::ALL {
        if !args.groups.is_empty() && !args.groups.contains(&group) {
            continue;
        }
        let mut entries = queries::load(group, data)?;
        if let Some(filter) = &args.filter {
            entries.retain(|entry| entry.id().contains(filter.as_str()));
        }
        if !entries.is_empty() {
            groups.push((group, entries));
        }
    }
    ensure!(!groups.is_empty(), "no entry matches");
    Ok(groups)
}

/// What is compared, and where the entries come from.
fn heading(args: &Args, groups: &[(Group, Vec<Entry>)], data: Option<&Path>) -> String {
    let list = |source: Source| -> Option<String> {
        let counts: Vec<String> = groups
            .iter()
            .filter(|(group, _)| group.source(data) == source)
            .map(|(group, entries)| format!("{group} {}", entries.len()))
            .collect();
        (!counts.is_empty()).then(|| counts.join(", "))
    };
    let mut text = format!(
        "Planning speed: fork ({}) against {} ({}), {TARGET_PARTITIONS} target partitions\n",
        engine::fork::VERSION,
        args.base_name,
        engine::stock::VERSION,
    );
    if let (Some(counts), Some(data)) = (list(Source::Files), data) {
        text.push_str(&format!("Queries from {}: {counts}\n", data.display()));
    }
    if let Some(counts) = list(Source::BuiltIn) {
        text.push_str(&format!(
            "Built-in stand-ins for the benchmarks (neither --data nor {DATA_VARIABLE} is given): \
             {counts}\n"
        ));
    }
    if let Some(counts) = list(Source::Generated) {
        text.push_str(&format!("Generated: {counts}\n"));
    }
    text
}

/// A bar on standard error; hidden when that isn't a terminal.
fn progress(entries: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (eta {eta})")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(entries as u64).with_style(style)
}

/// Measures the entries of a group.
fn measure_group(
    engines: &mut Engines,
    group: Group,
    entries: &[Entry],
    data: Option<&Path>,
    pairs: usize,
    progress: &ProgressBar,
) -> GroupReport {
    let mut reports = vec![];
    for entry in entries {
        progress.set_message(entry.id());
        reports.push(measure_entry(engines, entry, pairs));
        progress.inc(1);
    }
    // Second runs come last, so that one disturbance doesn't hit both runs.
    for (entry, report) in entries.iter().zip(&mut reports) {
        if report.needs_second_run() {
            progress.set_message(format!("{} again", entry.id()));
            match measure::measure(&mut |side| engines.run(side, &entry.work), pairs) {
                Ok(run) => report.second = Some(run),
                Err(failure) => set_error(report, failure),
            }
        }
        report.judge();
    }
    GroupReport::new(group.name(), group.is_micro(), group.source(data), reports)
}

/// Checks, times and counts one entry.
fn measure_entry(engines: &mut Engines, entry: &Entry, pairs: usize) -> EntryReport {
    let calls = match entry.work {
        Work::Plan(_) => None,
        Work::ToField(width) => Some(width),
    };
    let mut report = EntryReport::new(&entry.name, calls);
    for side in Side::BOTH {
        if let Err(error) = engines.check(side, entry) {
            set_error(&mut report, (side, error));
        }
    }
    if report.base_error.is_none()
        && report.fork_error.is_none()
        && let Err(failure) = measure_planned(engines, entry, pairs, &mut report)
    {
        set_error(&mut report, failure);
    }
    report
}

/// Times and counts an entry that both engines plan.
fn measure_planned(
    engines: &mut Engines,
    entry: &Entry,
    pairs: usize,
    report: &mut EntryReport,
) -> Result<(), Failure> {
    let mut run = |side| engines.run(side, &entry.work);
    report.first = Some(measure::measure(&mut run, pairs)?);
    let base = measure::allocations(&mut run, Side::Base)?;
    let fork = measure::allocations(&mut run, Side::Fork)?;
    report.base_allocations = Some(base);
    report.fork_allocations = Some(fork);
    report.allocation_ratio =
        (base.allocations > 0).then(|| fork.allocations as f64 / base.allocations as f64);
    Ok(())
}

fn set_error(report: &mut EntryReport, (side, error): Failure) {
    let text = Some(format!("{error:#}"));
    match side {
        Side::Base => report.base_error = text,
        Side::Fork => report.fork_error = text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Args::command().debug_assert();
        let args = Args::parse_from(["planning-bench", "--group", "to_field", "--group", "wide"]);
        assert_eq!(args.groups, [Group::ToField, Group::Wide]);
        assert_eq!(args.samples, 40);
    }

    #[test]
    fn filters_by_group_and_entry() {
        let args = Args::parse_from(["planning-bench", "wide/project_10"]);
        let groups = load(&args, None).unwrap();
        let ids: Vec<String> = groups
            .iter()
            .flat_map(|(_, entries)| entries.iter().map(Entry::id))
            .collect();
        assert_eq!(
            ids,
            ["wide/project_10", "wide/project_100", "wide/project_1000"]
        );
        let args = Args::parse_from(["planning-bench", "no such entry"]);
        assert!(load(&args, None).is_err());
    }
}
