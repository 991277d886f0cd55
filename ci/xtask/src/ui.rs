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

//! Progress and tables.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stdout};
use std::time::Duration;

use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressStyle};

/// A bar on standard error; nothing where that is not a terminal.
pub fn progress(len: u64, message: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:>10} [{bar:40}] {pos}/{len}")
        .expect("a constant template")
        .progress_chars("=> ");
    ProgressBar::new(len)
        .with_style(style)
        .with_message(message)
}

/// A table in the form of DataFusion's own output.
pub fn table<H: Into<String>>(header: impl IntoIterator<Item = H>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(header.into_iter().map(Into::into).collect::<Vec<String>>());
    table
}

/// `mm:ss`
pub fn duration(d: Duration) -> String {
    format!("{}:{:02}", d.as_secs() / 60, d.as_secs() % 60)
}

/// `println!` for output that may go to a pipe: where nobody reads on, the
/// program ends with the status of one that the pipe's signal ended.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::ui::say(format_args!($($words)*))
    };
}

pub fn say(words: Arguments<'_>) {
    match writeln!(stdout().lock(), "{words}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(141),
        // Nowhere is left to say it.
        _ => {}
    }
}
