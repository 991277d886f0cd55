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
//! so that both are driven in exactly the same way; [`Planner`] is what the rest
//! of the program sees of them.
//!
//! A plan goes from SQL text through the logical plan, analyzer, optimizer and
//! physical planner to the optimized physical plan, and dropping the plans is part
//! of it. The session state is kept rather than cloned for each query as
//! `SessionContext::sql` does: the clone costs the same in both engines and would
//! only dilute the ratio.

use anyhow::Result;

/// Partitions that both engines plan for, whatever the machine has.
pub const TARGET_PARTITIONS: usize = 8;

/// The parser's default depth of 50 doesn't reach for the deep plans.
const RECURSION_LIMIT: usize = 1000;

/// What an engine does for the benchmark.
pub trait Planner {
    /// Runs a `CREATE VIEW` statement.
    fn define_view(&mut self, sql: &str) -> Result<()>;

    /// Plans one query, from its text to the physical plan.
    fn plan(&mut self, sql: &str) -> Result<()>;

    /// Makes the schema and the `width` expressions `c0 AS c0`, `c1 AS c1`, ...
    /// for [`Self::to_field`].
    fn prepare_to_field(&mut self, width: usize) -> Result<()>;

    /// Calls `Expr::to_field` once on each of the prepared expressions.
    fn to_field(&mut self) -> Result<()>;
}

/// Writes the module of the engine in the crate of the given name.
macro_rules! engine {
    ($krate:ident) => {
        #[doc = concat!("The engine of the crate `", stringify!($krate), "`.")]
        pub mod $krate {
            use std::hint::black_box;
            use std::sync::Arc;

            use ::$krate::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
            use ::$krate::catalog::{Session, TableProvider};
            use ::$krate::common::{Constraint, Constraints, DFSchema, DFSchemaRef};
            use ::$krate::error::Result as EngineResult;
            use ::$krate::execution::{SessionState, TaskContext};
            use ::$krate::logical_expr::{
                Expr, ExprSchemable, TableProviderFilterPushDown, TableType,
            };
            use ::$krate::physical_plan::streaming::{PartitionStream, StreamingTableExec};
            use ::$krate::physical_plan::{
                EmptyRecordBatchStream, ExecutionPlan, SendableRecordBatchStream,
            };
            use ::$krate::prelude::{SessionConfig, SessionContext};
            use anyhow::Result;
            use tokio::runtime::{Builder, Runtime};

            use crate::engine::{Planner, RECURSION_LIMIT, TARGET_PARTITIONS};
            use crate::schemas::{self, ColumnType, Table};

            /// Version of the crate.
            pub const VERSION: &str = ::$krate::DATAFUSION_VERSION;

            /// A session with the given tables and views.
            pub struct Engine {
                context: SessionContext,
                state: SessionState,
                runtime: Runtime,
                to_field: Option<(DFSchemaRef, Vec<Expr>)>,
            }

            impl Engine {
                /// Makes a session and registers `tables`, then `views` (SQL).
                pub fn new(tables: &[Table], views: &[&str]) -> Result<Self> {
                    let config = SessionConfig::new()
                        .with_target_partitions(TARGET_PARTITIONS)
                        .set_usize(
                            "datafusion.execution.planning_concurrency",
                            TARGET_PARTITIONS,
                        )
                        .set_usize("datafusion.sql_parser.recursion_limit", RECURSION_LIMIT);
                    let context = SessionContext::new_with_config(config);
                    for table in tables {
                        context.register_table(
                            table.name.as_str(),
                            Arc::new(SchemaTable::new(table)),
                        )?;
                    }
                    let mut engine = Self {
                        state: context.state(),
                        context,
                        runtime: Builder::new_current_thread().build()?,
                        to_field: None,
                    };
                    for view in views {
                        engine.define_view(view)?;
                    }
                    Ok(engine)
                }
            }

            impl Planner for Engine {
                fn define_view(&mut self, sql: &str) -> Result<()> {
                    // The kept state shares its catalog with the context.
                    let _frame = self.runtime.block_on(self.context.sql(sql))?;
                    Ok(())
                }

                fn plan(&mut self, sql: &str) -> Result<()> {
                    // What a context does for each query: a start time for
                    // `now()` and a fresh generator of aliases.
                    self.state.mark_start_execution();
                    let state = &self.state;
                    let plan = self.runtime.block_on(async {
                        let plan = state.create_logical_plan(sql).await?;
                        state.create_physical_plan(&plan).await
                    })?;
                    black_box(plan);
                    Ok(())
                }

                fn prepare_to_field(&mut self, width: usize) -> Result<()> {
                    // The schema and the columns of a planned query rather than
                    // hand-made ones: they have whatever an engine knows about
                    // the columns of a real plan.
                    let sql = format!("SELECT * FROM {}", schemas::wide_table(width));
                    let plan = self
                        .runtime
                        .block_on(self.state.create_logical_plan(&sql))?;
                    let schema = Arc::clone(plan.schema());
                    anyhow::ensure!(schema.fields().len() == width, "not {width} columns");
                    let expressions = schema
                        .columns()
                        .into_iter()
                        .map(|column| {
                            let name = column.name.clone();
                            Expr::Column(column).alias(name)
                        })
                        .collect();
                    self.to_field = Some((schema, expressions));
                    Ok(())
                }

                fn to_field(&mut self) -> Result<()> {
                    let Some((schema, expressions)) = &self.to_field else {
                        anyhow::bail!("to_field without expressions");
                    };
                    let schema: &DFSchema = schema;
                    for expression in expressions {
                        black_box(expression.to_field(schema)?);
                    }
                    Ok(())
                }
            }

            /// A table that can be planned but has nothing to read.
            ///
            /// Unlike an empty in-memory table it doesn't know its row count, so that
            /// plans don't shrink to those of tiny tables (collected join sides, no
            /// repartitioning, counts from statistics). Like a table of Parquet files
            /// it has as many partitions as are planned for and takes every filter as
            /// a hint.
            #[derive(Debug)]
            struct SchemaTable {
                schema: SchemaRef,
                constraints: Constraints,
                partitions: Vec<Arc<dyn PartitionStream>>,
            }

            impl SchemaTable {
                fn new(table: &Table) -> Self {
                    let fields: Vec<Field> = table
                        .columns
                        .iter()
                        .map(|column| {
                            let data_type = match column.column_type {
                                ColumnType::I16 => DataType::Int16,
                                ColumnType::I32 => DataType::Int32,
                                ColumnType::I64 => DataType::Int64,
                                ColumnType::U16 => DataType::UInt16,
                                ColumnType::Str => DataType::Utf8View,
                                ColumnType::Date => DataType::Date32,
                                ColumnType::Decimal => DataType::Decimal128(15, 2),
                            };
                            Field::new(&column.name, data_type, column.nullable)
                        })
                        .collect();
                    let schema: SchemaRef = Arc::new(Schema::new(fields));
                    let constraints = if table.key.is_empty() {
                        Constraints::default()
                    } else {
                        Constraints::new_unverified(vec![Constraint::PrimaryKey(table.key.clone())])
                    };
                    let partition: Arc<dyn PartitionStream> = Arc::new(NoRows {
                        schema: Arc::clone(&schema),
                    });
                    Self {
                        schema,
                        constraints,
                        partitions: vec![partition; TARGET_PARTITIONS],
                    }
                }
            }

            #[async_trait::async_trait]
            impl TableProvider for SchemaTable {
                fn schema(&self) -> SchemaRef {
                    Arc::clone(&self.schema)
                }

                fn constraints(&self) -> Option<&Constraints> {
                    Some(&self.constraints)
                }

                fn table_type(&self) -> TableType {
                    TableType::Base
                }

                async fn scan(
                    &self,
                    _state: &dyn Session,
                    projection: Option<&Vec<usize>>,
                    _filters: &[Expr],
                    limit: Option<usize>,
                ) -> EngineResult<Arc<dyn ExecutionPlan>> {
                    Ok(Arc::new(StreamingTableExec::try_new(
                        Arc::clone(&self.schema),
                        self.partitions.clone(),
                        projection,
                        None,
                        false,
                        limit,
                    )?))
                }

                fn supports_filters_pushdown(
                    &self,
                    filters: &[&Expr],
                ) -> EngineResult<Vec<TableProviderFilterPushDown>> {
                    Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
                }
            }

            /// A partition without rows.
            #[derive(Debug)]
            struct NoRows {
                schema: SchemaRef,
            }

            impl PartitionStream for NoRows {
                fn schema(&self) -> &SchemaRef {
                    &self.schema
                }

                fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
                    Box::pin(EmptyRecordBatchStream::new(Arc::clone(&self.schema)))
                }
            }
        }
    };
}

engine!(stock);
engine!(fork);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::{self, Group, Work};
    use crate::schemas;

    /// Plans every entry that needs no data directory (the widest left out: a
    /// debug build takes too long for them) and collects what fails.
    fn failures(engine: &mut dyn Planner) -> Vec<String> {
        let mut failures = vec![];
        for group in Group::ALL {
            for entry in queries::load(group, None).unwrap() {
                let mut run = || -> Result<()> {
                    for view in &entry.views {
                        engine.define_view(view)?;
                    }
                    match &entry.work {
                        Work::Plan(sql) if sql.len() < 4000 => engine.plan(sql),
                        Work::Plan(_) => Ok(()),
                        Work::ToField(width) => {
                            engine.prepare_to_field(*width)?;
                            engine.to_field()
                        }
                    }
                };
                if let Err(error) = run() {
                    failures.push(format!("{}: {error:#}", entry.id()));
                }
            }
        }
        failures
    }

    #[test]
    fn both_engines_plan_what_is_built_in() {
        // Debug builds need more stack than a test's thread has.
        std::thread::Builder::new()
            .stack_size(crate::STACK_SIZE)
            .spawn(|| {
                let tables = schemas::tables();
                let mut base = super::stock::Engine::new(&tables, schemas::VIEWS).unwrap();
                assert_eq!(failures(&mut base), Vec::<String>::new());
                let mut fork = super::fork::Engine::new(&tables, schemas::VIEWS).unwrap();
                assert_eq!(failures(&mut fork), Vec::<String>::new());
            })
            .unwrap()
            .join()
            .unwrap();
    }
}
