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
//! Random queries whose names collide, on the fork and on stock DataFusion.
//!
//! A statement is data first (see [`ast`]): each column has an identity, and its name
//! is drawn from a pool so small that everything collides ([`generate`]). Printed
//! twice, as drawn and with all columns renamed apart ([`print`]), it has to give the
//! same rows; [`oracle`] has the other comparisons. Both engines are linked into this
//! program ([`engine`]). A failing statement is made small ([`shrink`]) and printed as
//! a script ([`report`]).
//!
//! The ideas are not new. Queries that only their meaning ties together: RAGS (Slutz,
//! 1998). Comparing a query with a variant of itself: SQLancer's metamorphic oracles
//! (Rigger and Su, 2020). Cutting the structure rather than the text: hierarchical
//! delta debugging (Misherghi and Su, 2006), as done for the programs of Csmith.

mod ast;
mod engine;
mod generate;
mod mutants;
mod oracle;
mod print;
mod report;
mod shrink;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Parser, ValueEnum};
use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use toml_edit::DocumentMut;

use crate::engine::Engine;
use crate::oracle::{Checker, NEEDED_RULES, Outcome, Verdict};
use crate::report::{Counts, Failed};

/// Plans recurse deeply, and debug builds need much of it.
const STACK_SIZE: usize = 64 * 1024 * 1024;

/// Trials to make one statement smaller.
const SHRINK_STEPS: usize = 1000;

/// The longest time for that.
const SHRINK_TIME: Duration = Duration::from_secs(60);

/// When nothing has ended for so long, something hangs that a timeout cannot end.
const HANG: Duration = Duration::from_secs(300);

/// Runs random statements on the fork and compares the rows: with those of the same
/// statement whose columns are renamed apart, with those of two optimizer rules less,
/// and with those of DataFusion 55.2.0.
#[derive(Debug, Parser)]
#[command(
    name = "query-fuzz",
    after_help = "\
Exit status:
  0  no statement failed
  1  a statement failed, or a mutant was not found; rejections of names that are not
     unique and what neither engine supports are counted and do not fail
  2  the statements could not be run"
)]
struct Args {
    /// Where the statements come from; with the number of a statement it says all
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Number of statements
    #[arg(long, value_name = "M", default_value_t = 2000)]
    count: u64,

    /// Only the statement of this number
    #[arg(long, value_name = "K")]
    only: Option<u64>,

    /// What to test: with `stock` it is 55.2.0, to see what would be found
    #[arg(long, value_enum, default_value_t = Subject::Fork)]
    engine: Subject,

    /// Stop after so many failures
    #[arg(
        long,
        value_name = "N",
        default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    max_failures: u64,

    /// Print failing statements as they were drawn
    #[arg(long)]
    no_shrink: bool,

    /// Do not ask for silence of the fork's checks of column ids
    #[arg(long)]
    no_validator: bool,

    /// Seconds for a query
    #[arg(long, value_name = "S", default_value_t = 10)]
    timeout: u64,

    /// Statements at a time [default: one for each processor, at most 4]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,

    /// Also write all results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Print the statements and run nothing
    #[arg(long)]
    print: bool,

    /// Run the statements of this file, each of which 55.2.0 has to fail
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "print", "json"])]
    known: Option<PathBuf>,

    /// Give the fork faults in the handling of ids, each of which has to be found
    #[arg(long, conflicts_with_all = ["known", "only", "print", "json"])]
    mutants: bool,
}

/// The engine that is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    Fork,
    Stock,
}

/// The contents of the file of `--json`.
#[derive(Serialize)]
struct Results<'a> {
    subject: &'a str,
    seed: u64,
    counts: &'a Counts,
    failures: &'a [Failed],
    exit_code: u8,
}

/// Both engines.
struct Engines {
    stock: engine::stock::Engine,
    fork: engine::fork::Engine,
}

impl Engines {
    fn new(args: &Args) -> Result<Self> {
        let timeout = Duration::from_secs(args.timeout);
        Ok(Self {
            stock: engine::stock::Engine::new(timeout).context("55.2.0")?,
            fork: engine::fork::Engine::new(timeout).context("the fork")?,
        })
    }

    fn checker(&self, subject: Subject, validator: bool) -> Checker<'_> {
        let stock: &dyn Engine = &self.stock;
        match subject {
            Subject::Fork => Checker {
                subject: &self.fork,
                stock: Some(stock),
                validator,
            },
            Subject::Stock => Checker {
                subject: stock,
                stock: None,
                validator: false,
            },
        }
    }
}

/// What came of one statement.
struct Done {
    number: u64,
    verdict: Verdict,
    failed: Option<Failed>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Everything; returns the exit status.
fn run(args: &Args) -> Result<u8> {
    let numbers = match args.only {
        Some(number) => number..number.saturating_add(1),
        None => 0..args.count,
    };
    if args.print {
        for number in numbers {
            let query = generate::statement(args.seed, number);
            println!("-- statement {number} of seed {}", args.seed);
            println!("{};", written(print::colliding(&query), number)?);
            println!("-- {};", written(print::apart(&query), number)?);
        }
        return Ok(0);
    }
    engine::keep_panics_quiet();
    if !args.no_validator {
        engine::listen_to_validator();
    }
    if let Some(path) = &args.known {
        return known(args, path);
    }
    if args.mutants {
        return mutants(args);
    }
    // Before the work, so that a bad path is noticed at once.
    let json = args
        .json
        .as_ref()
        .map(|path| {
            File::create(path).with_context(|| format!("cannot write {}", path.display()))
        })
        .transpose()?;

    print!("{}", heading(args));
    let start = Instant::now();
    let (counts, failures) = fuzz(args, numbers.start, numbers.end)?;
    let exit_code = u8::from(counts.failed > 0);
    println!("\n{}", counts.render());
    if counts.failed >= args.max_failures {
        println!("stopped after --max-failures {}", args.max_failures);
    }
    println!("{:.1} s", start.elapsed().as_secs_f64());
    println!("{}", counts.line());
    if let Some(file) = json {
        let results = Results {
            subject: subject_name(args.engine),
            seed: args.seed,
            counts: &counts,
            failures: &failures,
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

fn subject_name(subject: Subject) -> &'static str {
    match subject {
        Subject::Fork => "the fork",
        Subject::Stock => "55.2.0",
    }
}

/// What is tested, and how.
fn heading(args: &Args) -> String {
    let mut text = format!(
        "Statements of seed {} on {} (fork {}, stock {})\n",
        args.seed,
        subject_name(args.engine),
        engine::fork::VERSION,
        engine::stock::VERSION,
    );
    if args.engine == Subject::Fork && args.no_validator {
        text.push_str("The validator is not asked\n");
    }
    for (rule, reason) in NEEDED_RULES {
        text.push_str(&format!("The rule {rule} is never left out: {reason}\n"));
    }
    text
}

/// A printed statement, which the generator has made sure there is.
fn written(text: Result<String, print::Unprintable>, number: u64) -> Result<String> {
    text.map_err(|error| anyhow!("statement {number} cannot be written: {}", error.0))
}

/// A bar on standard error; hidden when that isn't a terminal.
fn progress(statements: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (eta {eta})")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(statements).with_style(style)
}

/// What the threads share.
struct Shared<'a> {
    args: &'a Args,
    /// The next statement
    next: AtomicU64,
    end: u64,
    stop: AtomicBool,
    /// Statements under way
    running: Mutex<BTreeSet<u64>>,
}

impl Shared<'_> {
    fn running<T>(&self, change: impl FnOnce(&mut BTreeSet<u64>) -> T) -> T {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut *running)
    }
}

/// Runs all statements; prints those that fail in the order of their numbers.
fn fuzz(args: &Args, first: u64, end: u64) -> Result<(Counts, Vec<Failed>)> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.unwrap_or(processors.min(4)).max(1);
    let shared = Shared {
        args,
        next: AtomicU64::new(first),
        end,
        stop: AtomicBool::new(false),
        running: Mutex::new(BTreeSet::new()),
    };
    let bar = progress(end.saturating_sub(first));
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs {
            let send = send.clone();
            let shared = &shared;
            thread::Builder::new()
                .stack_size(STACK_SIZE)
                .spawn_scoped(scope, move || work(shared, &send))
                .context("cannot start a thread")?;
        }
        drop(send);
        let mut counts = Counts::default();
        let mut failures: Vec<Failed> = vec![];
        let mut early: BTreeMap<u64, Failed> = BTreeMap::new();
        let mut ended = BTreeSet::new();
        let mut next = first;
        loop {
            let done = match receive.recv_timeout(HANG) {
                Ok(Ok(done)) => done,
                Ok(Err(error)) => {
                    shared.stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    bar.finish_and_clear();
                    hangs(&shared);
                }
            };
            bar.inc(1);
            counts.add(&done.verdict, done.failed.as_ref());
            bar.set_message(format!("{} failed", counts.failed));
            if counts.failed >= args.max_failures {
                shared.stop.store(true, Ordering::Relaxed);
            }
            ended.insert(done.number);
            early.extend(done.failed.map(|failed| (done.number, failed)));
            while ended.remove(&next) {
                if let Some(failed) = early.remove(&next) {
                    bar.suspend(|| println!("\n{}", failed.script()));
                    failures.push(failed);
                }
                next += 1;
            }
        }
        bar.finish_and_clear();
        for failed in early.into_values() {
            println!("\n{}", failed.script());
            failures.push(failed);
        }
        Ok((counts, failures))
    })
}

/// A query does not end and does not let go of its thread: all that is left is to say
/// which one, and to end the process.
fn hangs(shared: &Shared<'_>) -> ! {
    let seed = shared.args.seed;
    for number in shared.running(|running| running.clone()) {
        println!("-- statement {number} of seed {seed} hangs, or one beside it");
        if let Ok(sql) = print::colliding(&generate::statement(seed, number)) {
            println!("{sql};");
        }
    }
    println!("no statement has ended for {HANG:?}: failed");
    std::process::exit(1)
}

/// One thread: takes statements until there are none.
fn work(shared: &Shared<'_>, send: &Sender<Result<Done>>) {
    let engines = match Engines::new(shared.args) {
        Ok(engines) => engines,
        Err(error) => {
            // If nobody listens there is another error already.
            let _ = send.send(Err(error));
            return;
        }
    };
    let Args {
        seed,
        engine,
        no_validator,
        no_shrink,
        ..
    } = shared.args;
    let checker = engines.checker(*engine, !no_validator);
    while !shared.stop.load(Ordering::Relaxed) {
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        if number >= shared.end {
            break;
        }
        shared.running(|running| running.insert(number));
        let done = statement(&checker, *seed, number, !no_shrink);
        shared.running(|running| running.remove(&number));
        if send.send(done).is_err() {
            break;
        }
    }
}

/// Runs one statement, and makes it small if it fails.
fn statement(checker: &Checker<'_>, seed: u64, number: u64, small: bool) -> Result<Done> {
    let query = generate::statement(seed, number);
    let rules = checker.rules(seed, number);
    let verdict = checker
        .check(&query, &rules, None)
        .map_err(|error| anyhow!("statement {number} cannot be written: {}", error.0))?;
    let failed = match &verdict.outcome {
        Outcome::Failed(finding) => {
            let start = Instant::now();
            let mut finding = finding.as_ref().clone();
            let mut smallest = query.clone();
            if small {
                let first = finding.clone();
                smallest = shrink::shrink(&query, SHRINK_STEPS, &mut |candidate| {
                    if start.elapsed() > SHRINK_TIME {
                        return false;
                    }
                    match checker.check(candidate, &rules, Some(first.oracle)) {
                        Ok(Verdict {
                            outcome: Outcome::Failed(now),
                            ..
                        }) if now.is_like(&first) => {
                            finding = *now;
                            true
                        }
                        _ => false,
                    }
                });
            }
            Some(Failed::new(seed, number, finding, &smallest, &query))
        }
        _ => None,
    };
    Ok(Done {
        number,
        verdict,
        failed,
    })
}

/// Does something in a thread, for its stack.
fn with_stack<T: Send>(run: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let handle = thread::Builder::new()
            .stack_size(STACK_SIZE)
            .spawn_scoped(scope, run)
            .context("cannot start a thread")?;
        handle.join().map_err(|_| anyhow!("panicked"))?
    })
}

/// Looks for each mutant, and prints a table of what found it.
fn mutants(args: &Args) -> Result<u8> {
    let count = args.count.min(mutants::STATEMENTS);
    let hunts = with_stack(|| {
        let engines = Engines::new(args)?;
        let fork = engines.checker(Subject::Fork, false);
        let timeout = Duration::from_secs(args.timeout);
        mutants::hunt_all(&fork, timeout, args.seed, count)
    })?;
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header([
        "mutant",
        "statement that the validator finds it with",
        "statement that another oracle finds it with",
    ]);
    let number = |found: Option<u64>| match found {
        Some(number) => number.to_string(),
        None => "-".to_string(),
    };
    for hunt in &hunts {
        let rows = match &hunt.rows {
            Some((statement, oracle)) => format!("{statement} ({oracle})"),
            None => "-".to_string(),
        };
        let validator = number(hunt.validator);
        table.add_row([hunt.mutant.to_string(), validator, rows]);
    }
    println!("{table}\n");
    let escaped = hunts.iter().filter(|hunt| !hunt.is_found()).count();
    println!(
        "{} mutants, {escaped} not found with {count} statements of seed {}",
        hunts.len(),
        args.seed
    );
    Ok(u8::from(escaped > 0))
}

/// Runs the statements of a file on 55.2.0, which has to fail them, and on the fork.
fn known(args: &Args, path: &Path) -> Result<u8> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let document: DocumentMut = text
        .parse()
        .with_context(|| format!("{} is not TOML", path.display()))?;
    let entries = document
        .get("known")
        .and_then(|known| known.as_array_of_tables())
        .with_context(|| format!("{} has no [[known]]", path.display()))?;
    let mut all = vec![];
    for entry in entries {
        let number = |key| {
            let value = entry.get(key).and_then(|value| value.as_integer());
            let value = value.and_then(|value| u64::try_from(value).ok());
            value.with_context(|| format!("{}: no {key}", path.display()))
        };
        let report = entry.get("report").and_then(|value| value.as_str());
        let report = report.with_context(|| format!("{}: no report", path.display()))?;
        all.push((report.to_string(), number("seed")?, number("number")?));
    }
    ensure!(!all.is_empty(), "{} names no statement", path.display());

    let found = with_stack(|| known_statements(args, &all))?;
    println!(
        "{} statements, {} failed: 55.2.0 does not fail them as it did",
        all.len(),
        all.len() - found
    );
    Ok(u8::from(found < all.len()))
}

/// Prints a table; returns how many are found again.
fn known_statements(args: &Args, all: &[(String, u64, u64)]) -> Result<usize> {
    let engines = Engines::new(args)?;
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header([
        "report",
        "seed",
        "number",
        "found on 55.2.0",
        "looks like",
        "on the fork",
    ]);
    let mut found = 0;
    for (report, seed, number) in all {
        let stock = engines.checker(Subject::Stock, false);
        let stock = statement(&stock, *seed, *number, true)?.failed;
        let (again, looks) = match &stock {
            Some(failed) => {
                let looks = &failed.looks_like;
                (looks.contains(&report.as_str()), looks.join(", "))
            }
            None => (false, "-".to_string()),
        };
        found += usize::from(again);
        let fork = engines.checker(Subject::Fork, !args.no_validator);
        let fork = match statement(&fork, *seed, *number, false)?.verdict.outcome {
            Outcome::Passed => "passes".to_string(),
            Outcome::Exempt(_) => "exempt".to_string(),
            Outcome::Unsupported(_) => "not supported".to_string(),
            Outcome::Failed(finding) => finding.oracle.to_string(),
        };
        table.add_row([
            report.clone(),
            seed.to_string(),
            number.to_string(),
            if again { "yes" } else { "NO" }.to_string(),
            looks,
            fork,
        ]);
        if let Some(failed) = stock {
            println!("{}", failed.script());
        }
    }
    println!("{table}\n");
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Args::command().debug_assert();
        let args = Args::parse_from(["query-fuzz", "--seed", "5", "--engine", "stock"]);
        assert_eq!((args.seed, args.engine), (5, Subject::Stock));
        assert_eq!(args.count, 2000);
    }

    #[test]
    fn the_rules_that_are_needed_exist() {
        let engine = engine::fork::Engine::new(Duration::from_secs(60)).unwrap();
        let rules = engine.rules();
        for (needed, _) in NEEDED_RULES {
            assert!(rules.iter().any(|rule| rule == needed), "{needed}");
        }
    }

    /// Statements of the two engines end in something that is counted.
    #[test]
    fn a_few_statements_run() {
        let args = Args::parse_from([
            "query-fuzz",
            "--count",
            "12",
            "--no-shrink",
            "--no-validator",
        ]);
        let (counts, failures) = fuzz(&args, 0, args.count).unwrap();
        assert!(counts.statements > 0);
        assert_eq!(counts.failed, failures.len() as u64);
    }
}
