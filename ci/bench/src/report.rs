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

//! What was measured: verdicts, tables for people, structures for `--json`.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::alloc::Count;
use crate::measure::{Run, geometric_mean};
use crate::queries::Source;

/// An entry is over when its interval lies above this, in both runs.
pub const ENTRY_LIMIT: f64 = 1.03;

/// A group is over when its geometric mean, rounded to two decimals, is above this.
pub const GROUP_LIMIT: f64 = 1.00;

/// What came of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Not slower than allowed
    Ok,
    /// The first run was above the limit, the second wasn't
    NotConfirmed,
    /// Both runs were above the limit
    Over,
    /// Measured but not judged
    Micro,
    /// Only the fork plans it
    BaseFails,
    /// Only the base plans it
    ForkFails,
    /// Not planned by either
    BothFail,
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::NotConfirmed => "ok (over once)",
            Verdict::Over => "OVER",
            Verdict::Micro => "-",
            Verdict::BaseFails => "base fails",
            Verdict::ForkFails => "FORK FAILS",
            Verdict::BothFail => "not planned by either",
        }
    }
}

/// Everything about one entry.
#[derive(Clone, Debug, Serialize)]
pub struct EntryReport {
    /// Name within the group
    pub name: String,
    /// Calls in a unit, for micro entries
    pub calls: Option<usize>,
    /// Why the base doesn't plan it
    pub base_error: Option<String>,
    /// Why the fork doesn't plan it
    pub fork_error: Option<String>,
    /// First run
    pub first: Option<Run>,
    /// Second run, made if the first was above the limit
    pub second: Option<Run>,
    /// Allocations of one unit on the base
    pub base_allocations: Option<Count>,
    /// Allocations of one unit on the fork
    pub fork_allocations: Option<Count>,
    /// Allocations of the fork / those of the base
    pub allocation_ratio: Option<f64>,
    /// What came of it
    pub verdict: Verdict,
}

impl EntryReport {
    /// A report without results.
    pub fn new(name: &str, calls: Option<usize>) -> Self {
        Self {
            name: name.to_string(),
            calls,
            base_error: None,
            fork_error: None,
            first: None,
            second: None,
            base_allocations: None,
            fork_allocations: None,
            allocation_ratio: None,
            verdict: Verdict::Ok,
        }
    }

    /// Whether the first run asks for a second one.
    pub fn needs_second_run(&self) -> bool {
        self.calls.is_none() && self.first.is_some_and(|run| above(&run))
    }

    /// Sets the verdict from the results.
    pub fn judge(&mut self) {
        self.verdict = match (&self.base_error, &self.fork_error) {
            (Some(_), Some(_)) => Verdict::BothFail,
            (Some(_), None) => Verdict::BaseFails,
            (None, Some(_)) => Verdict::ForkFails,
            (None, None) if self.calls.is_some() => Verdict::Micro,
            (None, None) => match (self.needs_second_run(), &self.second) {
                (true, Some(second)) if above(second) => Verdict::Over,
                (true, _) => Verdict::NotConfirmed,
                (false, _) => Verdict::Ok,
            },
        };
    }
}

/// Whether the whole interval lies above the limit.
fn above(run: &Run) -> bool {
    run.low > ENTRY_LIMIT
}

/// Everything about one group.
#[derive(Clone, Debug, Serialize)]
pub struct GroupReport {
    /// Name
    pub name: &'static str,
    /// Whether its entries are single calls, which aren't judged
    pub micro: bool,
    /// Where its entries come from
    pub source: Source,
    /// Its entries
    pub entries: Vec<EntryReport>,
    /// Geometric mean of the entries' median ratios.
    ///
    /// Always of the first runs: to take the second one where the first was bad
    /// would only ever improve the mean.
    pub time_ratio: Option<f64>,
    /// Geometric mean of the entries' allocation ratios
    pub allocation_ratio: Option<f64>,
    /// Whether the mean of the times is above the limit
    pub over: bool,
}

impl GroupReport {
    /// Summarizes judged entries.
    pub fn new(name: &'static str, micro: bool, source: Source, entries: Vec<EntryReport>) -> Self {
        let time_ratio =
            geometric_mean(entries.iter().filter_map(|entry| Some(entry.first?.ratio)));
        let allocation_ratio =
            geometric_mean(entries.iter().filter_map(|entry| entry.allocation_ratio));
        let over =
            !micro && time_ratio.is_some_and(|ratio| (ratio * 100.0).round() / 100.0 > GROUP_LIMIT);
        Self {
            name,
            micro,
            source,
            entries,
            time_ratio,
            allocation_ratio,
            over,
        }
    }

    /// Number of entries with the given verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.entries
            .iter()
            .filter(|entry| entry.verdict == verdict)
            .count()
    }

    /// The table of the group's entries, the messages of those that failed, and
    /// which ones got fewer than `pairs` pairs because they take long.
    pub fn render(&self, base_name: &str, pairs: usize) -> String {
        let mut header = vec![
            self.name.to_string(),
            format!("{base_name} us"),
            "fork us".to_string(),
            "ratio".to_string(),
            "95 % interval".to_string(),
        ];
        if self.micro {
            header.extend([
                "speed-up".to_string(),
                format!("{base_name} ns/call"),
                "fork ns/call".to_string(),
            ]);
        }
        header.extend([
            format!("{base_name} allocs"),
            "fork allocs".to_string(),
            "ratio".to_string(),
            "verdict".to_string(),
        ]);
        let mut table = new_table(header);
        for entry in &self.entries {
            let mut row = vec![entry.name.clone()];
            row.extend(time_cells(entry.first.as_ref()));
            if self.micro {
                row.extend(call_cells(entry));
            }
            row.extend([
                cell(entry.base_allocations, |count| {
                    count.allocations.to_string()
                }),
                cell(entry.fork_allocations, |count| {
                    count.allocations.to_string()
                }),
                cell(entry.allocation_ratio, |ratio| format!("{ratio:.3}")),
                entry.verdict.text().to_string(),
            ]);
            table.add_row(row);
            if let Some(second) = &entry.second {
                let mut row = vec!["  second run".to_string()];
                row.extend(time_cells(Some(second)));
                table.add_row(row);
            }
        }
        let mut text = format!("{table}\n");
        for entry in &self.entries {
            for (who, error) in [(base_name, &entry.base_error), ("fork", &entry.fork_error)] {
                if let Some(error) = error {
                    text.push_str(&format!("{}: {who}: {}\n", entry.name, one_line(error)));
                }
            }
        }
        for entry in &self.entries {
            if let Some(run) = entry.first.filter(|run| run.pairs < pairs) {
                text.push_str(&format!(
                    "{}: {} pairs only, it takes long\n",
                    entry.name, run.pairs
                ));
            }
        }
        text
    }
}

/// The table of all groups.
pub fn render_groups(groups: &[GroupReport], base_name: &str) -> String {
    let mut table = new_table(vec![
        "group".to_string(),
        "entries".to_string(),
        format!("time / {base_name}"),
        format!("allocs / {base_name}"),
        "over".to_string(),
        "fork fails".to_string(),
        "base fails".to_string(),
        "not planned by either".to_string(),
        "verdict".to_string(),
    ]);
    for group in groups {
        table.add_row(vec![
            group.name.to_string(),
            group.entries.len().to_string(),
            cell(group.time_ratio, |ratio| format!("{ratio:.3}")),
            cell(group.allocation_ratio, |ratio| format!("{ratio:.3}")),
            group.count(Verdict::Over).to_string(),
            group.count(Verdict::ForkFails).to_string(),
            group.count(Verdict::BaseFails).to_string(),
            group.count(Verdict::BothFail).to_string(),
            match (group.micro, group.over) {
                (true, _) => "-",
                (false, true) => "OVER",
                (false, false) => "ok",
            }
            .to_string(),
        ]);
    }
    format!("{table}\n")
}

/// The outcome over all groups.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Number of entries
    pub entries: usize,
    /// Entries that are over, as `group/name`
    pub over: Vec<String>,
    /// Groups whose mean is over
    pub groups_over: Vec<&'static str>,
    /// Entries that only the base plans
    pub fork_fails: Vec<String>,
    /// Entries that only the fork plans
    pub base_fails: Vec<String>,
    /// Entries that neither plans
    pub both_fail: Vec<String>,
}

impl Summary {
    /// Summarizes judged groups.
    pub fn new(groups: &[GroupReport]) -> Self {
        let ids = |verdict: Verdict| -> Vec<String> {
            groups
                .iter()
                .flat_map(|group| {
                    group
                        .entries
                        .iter()
                        .filter(move |entry| entry.verdict == verdict)
                        .map(move |entry| format!("{}/{}", group.name, entry.name))
                })
                .collect()
        };
        Self {
            entries: groups.iter().map(|group| group.entries.len()).sum(),
            over: ids(Verdict::Over),
            groups_over: groups
                .iter()
                .filter(|group| group.over)
                .map(|group| group.name)
                .collect(),
            fork_fails: ids(Verdict::ForkFails),
            base_fails: ids(Verdict::BaseFails),
            both_fail: ids(Verdict::BothFail),
        }
    }

    /// 0 if all is well, 1 if something is over, 2 if the fork fails where the
    /// base doesn't.
    pub fn exit_code(&self) -> u8 {
        if !self.fork_fails.is_empty() {
            2
        } else if !self.over.is_empty() || !self.groups_over.is_empty() {
            1
        } else {
            0
        }
    }

    /// The last line of the output.
    pub fn line(&self) -> String {
        let verdict = match self.exit_code() {
            0 => "ok",
            1 => "OVER",
            _ => "FAILED",
        };
        format!(
            "{verdict}: {} entries; over: {}; groups over: {}; fork fails: {}; \
             base fails: {}; not planned by either: {}",
            self.entries,
            names(&self.over),
            names(&self.groups_over),
            names(&self.fork_fails),
            names(&self.base_fails),
            names(&self.both_fail),
        )
    }
}

/// `none`, or the names.
fn names<T: AsRef<str>>(list: &[T]) -> String {
    if list.is_empty() {
        return "none".to_string();
    }
    let list: Vec<&str> = list.iter().map(AsRef::as_ref).collect();
    list.join(", ")
}

/// A table whose columns but the first and the last hold numbers.
fn new_table(header: Vec<String>) -> Table {
    let columns = header.len();
    let mut table = Table::new();
    table
        .load_preset(presets::ASCII_MARKDOWN)
        .set_header(header);
    for index in 1..columns.saturating_sub(1) {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Both times, the ratio and its interval.
fn time_cells(run: Option<&Run>) -> [String; 4] {
    [
        cell(run, |run| microseconds(run.base_ns)),
        cell(run, |run| microseconds(run.fork_ns)),
        cell(run, |run| format!("{:.3}", run.ratio)),
        cell(run, |run| format!("{:.3} - {:.3}", run.low, run.high)),
    ]
}

/// Speed-up and the times of one call, for micro entries.
fn call_cells(entry: &EntryReport) -> [String; 3] {
    let calls = entry.calls.unwrap_or(1) as f64;
    let run = entry.first.as_ref();
    [
        cell(run, |run| format!("{:.2}x", 1.0 / run.ratio)),
        cell(run, |run| format!("{:.1}", run.base_ns / calls)),
        cell(run, |run| format!("{:.1}", run.fork_ns / calls)),
    ]
}

/// The text of a value, `-` without one.
fn cell<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_string(), text)
}

/// Nanoseconds as microseconds, with about four digits.
fn microseconds(ns: f64) -> String {
    let us = ns / 1000.0;
    if us < 10.0 {
        format!("{us:.3}")
    } else if us < 1000.0 {
        format!("{us:.1}")
    } else {
        format!("{us:.0}")
    }
}

/// The start of an error message, for the tables; `--json` has all of it.
fn one_line(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
    match line.char_indices().nth(200) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(low: f64, ratio: f64) -> Run {
        Run {
            pairs: 40,
            iterations: 1,
            base_ns: 1e6,
            fork_ns: 1e6 * ratio,
            ratio,
            low,
            high: ratio + 0.01,
        }
    }

    fn entry(first: Run, second: Option<Run>) -> EntryReport {
        let mut entry = EntryReport::new("e", None);
        entry.first = Some(first);
        entry.second = second;
        entry.judge();
        entry
    }

    fn exit_code(entries: Vec<EntryReport>) -> u8 {
        let group = GroupReport::new("g", false, Source::BuiltIn, entries);
        Summary::new(&[group]).exit_code()
    }

    #[test]
    fn over_needs_two_runs() {
        let fine = run(0.98, 0.99);
        let slow = run(1.031, 1.05);
        assert_eq!(entry(fine, None).verdict, Verdict::Ok);
        assert_eq!(entry(run(1.03, 1.04), None).verdict, Verdict::Ok);
        assert_eq!(entry(slow, Some(fine)).verdict, Verdict::NotConfirmed);
        assert_eq!(entry(slow, Some(slow)).verdict, Verdict::Over);
    }

    #[test]
    fn groups_are_judged_by_two_decimals() {
        let group = |ratio| exit_code(vec![entry(run(0.9, ratio), None)]);
        assert_eq!(group(1.0), 0);
        assert_eq!(group(1.004), 0);
        assert_eq!(group(1.006), 1);
    }

    #[test]
    fn failures_count_where_the_base_plans() {
        let mut failed = EntryReport::new("e", None);
        failed.fork_error = Some("no".to_string());
        failed.judge();
        assert_eq!(exit_code(vec![failed.clone()]), 2);
        failed.base_error = Some("no".to_string());
        failed.judge();
        assert_eq!(failed.verdict, Verdict::BothFail);
        assert_eq!(exit_code(vec![failed]), 0);
    }

    #[test]
    fn micro_entries_are_not_judged() {
        let mut entry = EntryReport::new("10", Some(10));
        entry.first = Some(run(2.0, 2.1));
        assert!(!entry.needs_second_run());
        entry.judge();
        assert_eq!(entry.verdict, Verdict::Micro);
        let group = GroupReport::new("m", true, Source::Generated, vec![entry]);
        let text = group.render("base", 40);
        assert!(
            text.contains("0.48x") && text.contains("100000.0"),
            "{text}"
        );
        assert_eq!(Summary::new(&[group]).exit_code(), 0);
    }

    #[test]
    fn long_messages_are_cut() {
        assert_eq!(one_line("a\nb"), "a");
        assert!(one_line(&"x".repeat(500)).len() < 210);
    }
}
