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
//! The two engines, made from one text.
//!
//! [`engine!`] writes the same module for the crate `stock` and the crate `fork`,
//! so that both are driven in exactly the same way; [`Engine`] is what the rest of the
//! program sees of them. A panic and a query that takes too long are answers like any
//! other, and so is what the fork's validator has to say: it reports through `log`, to
//! a logger that keeps nothing else.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

use log::{LevelFilter, Log, Metadata, Record};

/// Physical plans have no ids, so that more would only take time.
const TARGET_PARTITIONS: usize = 1;

/// How far a query came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From the text to the first plan: errors here are meant for users
    Plan,
    /// Analyzer and optimizer
    Optimize,
    /// The physical planner and optimizer
    Physical,
    Execute,
}

/// What a query that gives no rows ended in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Error,
    Panic,
    Timeout,
}

/// A query that gives no rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub stage: Stage,
    pub end: End,
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stage,
            end,
            message,
        } = self;
        write!(f, "{end:?} at stage {stage:?}: {message}")
    }
}

/// The values of a result as text, sorted.
pub type Rows = Vec<Vec<String>>;

/// What an engine does for the fuzzer.
pub trait Engine {
    /// The names of its optimizer rules, in their order.
    fn rules(&self) -> Vec<String>;

    /// Runs a query, with the optimizer's rules but those given.
    fn run(&self, sql: &str, without: &[String]) -> Result<Rows, Failure>;
}

/// Writes the module of the engine in the crate of the given name.
macro_rules! engine {
    ($krate:ident) => {
        #[doc = concat!("The engine of the crate `", stringify!($krate), "`.")]
        pub mod $krate {
            use std::cell::Cell;
            use std::sync::Arc;
            use std::time::Duration;

            use ::$krate::arrow::datatypes::{Field, Schema};
            use ::$krate::arrow::record_batch::RecordBatch;
            use ::$krate::arrow::util::display::{ArrayFormatter, FormatOptions};
            use ::$krate::datasource::MemTable;
            use ::$krate::error::Result as EngineResult;
            use ::$krate::execution::SessionStateBuilder;
            use ::$krate::physical_plan::collect;
            use ::$krate::prelude::{SessionConfig, SessionContext};
            use anyhow::{Context, Result};
            use tokio::runtime::{Builder, Runtime};

            use crate::engine::{End, Failure, Rows, Stage, TARGET_PARTITIONS, guarded};
            use crate::tables::{COPIES, TABLES, Table};

            /// Version of the crate.
            pub const VERSION: &str = ::$krate::DATAFUSION_VERSION;

            /// A session with all tables.
            pub struct Engine {
                pub context: SessionContext,
                runtime: Runtime,
                timeout: Duration,
            }

            impl Engine {
                pub fn new(timeout: Duration) -> Result<Self> {
                    let config =
                        SessionConfig::new().with_target_partitions(TARGET_PARTITIONS);
                    let context = SessionContext::new_with_config(config);
                    // One thread: the validator's reports belong to its query.
                    let runtime = Builder::new_current_thread().enable_time().build()?;
                    for table in &TABLES {
                        runtime.block_on(register(&context, table)).with_context(
                            || format!("cannot make table {}", table.name),
                        )?;
                    }
                    Ok(Self {
                        context,
                        runtime,
                        timeout,
                    })
                }

                async fn answer(
                    &self,
                    sql: &str,
                    without: &[String],
                    stage: &Cell<Stage>,
                ) -> EngineResult<Rows> {
                    let mut state = self.context.state();
                    if !without.is_empty() {
                        let rules = state
                            .optimizers()
                            .iter()
                            .filter(|rule| without.iter().all(|name| name != rule.name()))
                            .cloned()
                            .collect();
                        state = SessionStateBuilder::new_from_existing(state)
                            .with_optimizer_rules(rules)
                            .build();
                        state.mark_start_execution();
                    }
                    let plan = state.create_logical_plan(sql).await?;
                    stage.set(Stage::Optimize);
                    let plan = state.optimize(&plan)?;
                    stage.set(Stage::Physical);
                    let planner = Arc::clone(state.query_planner());
                    let plan = planner.create_physical_plan(&plan, &state).await?;
                    stage.set(Stage::Execute);
                    rows(&collect(plan, state.task_ctx()).await?)
                }
            }

            impl crate::engine::Engine for Engine {
                fn rules(&self) -> Vec<String> {
                    let state = self.context.state();
                    let rules = state.optimizers().iter();
                    rules.map(|rule| rule.name().to_string()).collect()
                }

                fn run(&self, sql: &str, without: &[String]) -> Result<Rows, Failure> {
                    guarded(|stage| {
                        self.runtime.block_on(async {
                            let answer = self.answer(sql, without, stage);
                            match tokio::time::timeout(self.timeout, answer).await {
                                Ok(Ok(rows)) => Ok(rows),
                                Ok(Err(error)) => {
                                    Err((End::Error, error.strip_backtrace()))
                                }
                                Err(_) => {
                                    Err((End::Timeout, format!("{:?}", self.timeout)))
                                }
                            }
                        })
                    })
                }
            }

            /// Makes a table as the printed scripts do, and its copies.
            async fn register(context: &SessionContext, table: &Table) -> Result<()> {
                context.sql(&table.sql()).await?.collect().await?;
                let frame = context.table(table.name).await?;
                let schema = frame.schema().as_arrow().clone();
                let batches = frame.collect().await?;
                for copy in 0..COPIES {
                    let fields: Vec<Field> = schema
                        .fields()
                        .iter()
                        .zip(table.copy_columns(copy))
                        .map(|(field, name)| field.as_ref().clone().with_name(name))
                        .collect();
                    let schema = Arc::new(Schema::new(fields));
                    let batches = batches
                        .iter()
                        .map(|batch| {
                            let columns = batch.columns().to_vec();
                            RecordBatch::try_new(Arc::clone(&schema), columns)
                        })
                        .collect::<Result<Vec<_>, _>>()?;
                    let provider = MemTable::try_new(schema, vec![batches])?;
                    context.register_table(table.copy(copy), Arc::new(provider))?;
                }
                Ok(())
            }

            fn rows(batches: &[RecordBatch]) -> EngineResult<Rows> {
                let options = FormatOptions::default().with_null("NULL");
                let mut rows = vec![];
                for batch in batches {
                    let columns = batch
                        .columns()
                        .iter()
                        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
                        .collect::<Result<Vec<_>, _>>()?;
                    for row in 0..batch.num_rows() {
                        let values = columns
                            .iter()
                            .map(|column| column.value(row).try_to_string())
                            .collect::<Result<Vec<_>, _>>()?;
                        rows.push(values);
                    }
                }
                rows.sort();
                Ok(rows)
            }
        }
    };
}

engine!(stock);
engine!(fork);

thread_local! {
    /// Whether this thread is running a query
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    /// The message of the last panic in a query
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    /// What the validator says, while somebody listens
    static ISSUES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Lets panics in queries be silent; they are reported as failures.
pub fn keep_panics_quiet() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
        if GUARDED.get() {
            PANIC.set(Some(info.to_string()));
        } else {
            usual(info);
        }
    }));
}

/// Runs a query that may panic.
fn guarded(
    run: impl FnOnce(&Cell<Stage>) -> Result<Rows, (End, String)>,
) -> Result<Rows, Failure> {
    let stage = Cell::new(Stage::Plan);
    GUARDED.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&stage)));
    GUARDED.set(false);
    let (end, message) = match outcome {
        Ok(Ok(rows)) => return Ok(rows),
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let message = PANIC.take().unwrap_or_else(|| panic_text(&*panic));
            (End::Panic, message)
        }
    };
    Err(Failure {
        stage: stage.get(),
        end,
        message,
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text.to_string()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "without a message".to_string()
    }
}

/// Keeps what the fork's checks of column ids report.
struct Validator;

static VALIDATOR: Validator = Validator;

impl Log for Validator {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == ::fork::optimizer::column_id_checks::TARGET
            && ISSUES.with_borrow(Option::is_some)
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let issue = record.args().to_string();
            ISSUES.with_borrow_mut(|issues| issues.get_or_insert_default().push(issue));
        }
    }

    fn flush(&self) {}
}

/// Lets [`validated`] hear the validator.
pub fn listen_to_validator() {
    // Fails if there is a logger already, which is this one.
    let _ = log::set_logger(&VALIDATOR);
    log::set_max_level(LevelFilter::Debug);
}

/// Does something, and says what the validator reported meanwhile.
pub fn validated<T>(listen: bool, run: impl FnOnce() -> T) -> (T, Vec<String>) {
    ISSUES.set(listen.then(Vec::new));
    let value = run();
    (value, ISSUES.take().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn both() -> [(&'static str, Box<dyn Engine>); 2] {
        let timeout = Duration::from_secs(60);
        [
            ("stock", Box::new(stock::Engine::new(timeout).unwrap())),
            ("fork", Box::new(fork::Engine::new(timeout).unwrap())),
        ]
    }

    #[test]
    fn both_engines_answer_in_the_same_form() {
        for (name, engine) in both() {
            let rows = engine.run("SELECT a, c['b'] FROM v WHERE b > 2", &[]);
            assert_eq!(rows.unwrap(), [["NULL", "1"]], "{name}");
            let rows = engine.run("SELECT v3_a FROM v_3 WHERE v3_b > 2", &[]);
            assert_eq!(rows.unwrap(), [["NULL"]], "{name}");
            let rows = engine.run("SELECT unnest(d) FROM w WHERE a = 1", &[]);
            assert_eq!(rows.unwrap(), [["1"], ["2"]], "{name}");
        }
    }

    #[test]
    fn failures_say_where() {
        for (name, engine) in both() {
            let failure = engine.run("SELECT nothing FROM t", &[]).unwrap_err();
            assert_eq!(
                (failure.stage, failure.end),
                (Stage::Plan, End::Error),
                "{name}"
            );
            let failure = engine.run("SELECT 1 / (a - a) FROM t", &[]).unwrap_err();
            assert_eq!(failure.stage, Stage::Execute, "{name}");
        }
    }

    #[test]
    fn a_panic_is_a_failure() {
        let failure = guarded(|stage| {
            stage.set(Stage::Physical);
            panic!("oops");
        });
        let failure = failure.unwrap_err();
        assert_eq!((failure.stage, failure.end), (Stage::Physical, End::Panic));
        assert!(failure.message.contains("oops"));
    }

    #[test]
    fn rules_can_be_left_out() {
        for (name, engine) in both() {
            let rules = engine.rules();
            assert!(
                rules
                    .iter()
                    .any(|rule| rule == "replace_distinct_aggregate")
            );
            let sql = "SELECT DISTINCT b FROM t WHERE b = 1";
            assert_eq!(engine.run(sql, &[]).unwrap(), [["1"]], "{name}");
            let needed = ["replace_distinct_aggregate".to_string()];
            let failure = engine.run(sql, &needed).unwrap_err();
            assert_eq!(failure.stage, Stage::Physical, "{name}");
        }
    }
}
