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
//! Faults in the handling of ids, each of which the oracles have to find.
//!
//! A mutant is the fork with one rule more, before its own: once a query the rule does
//! to the plan what code with the fault would have done to it. So no source is changed
//! and nothing is built again, and the same program has all of them. The plan that the
//! other rules get is as wrong as if the planner had made it; names, types and shape
//! are right. What this does not show is a fault further on that needs a certain rule
//! before it, nor one in the lookup of columns itself.
//!
//! Each mutant is looked for twice: by the validator alone, and by the other oracles
//! without it. Some faults are of the kind that only one of the two can see.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::fork::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use ::fork::common::{Column, ColumnId, DFSchemaRef, SourceColumnIds};
use ::fork::error::{DataFusionError, Result as EngineResult};
use ::fork::execution::SessionStateBuilder;
use ::fork::logical_expr::{Expr, LogicalPlan, Projection};
use ::fork::optimizer::{OptimizerConfig, OptimizerRule};
use ::fork::prelude::SessionContext;
use anyhow::{Result, anyhow};

use crate::engine::{Engine, Failure, Rows, fork, validated};
use crate::generate::statement;
use crate::oracle::{Checker, Oracle, Outcome};
use crate::print::{self, Unprintable};

/// Statements within which a mutant has to be found.
pub const STATEMENTS: u64 = 200;

/// What a fault makes of a plan.
type Change = fn(LogicalPlan) -> Changed;

type Changed = EngineResult<Transformed<LogicalPlan>>;

/// All mutants.
const MUTANTS: [(&str, Change); 12] = [
    ("references lose their ids", drop_ids),
    ("outer references lose their ids", drop_outer_ids),
    ("two references have each other's id", swap_references),
    (
        "a name decides: a reference has the id of another column of the name",
        go_by_name,
    ),
    (
        "two outputs of a projection have each other's id",
        swap_outputs,
    ),
    ("two outputs of a projection have one id", merge_outputs),
    (
        "a projection that is built anew has new columns",
        rebuild_projections,
    ),
    ("a scan that is built anew has new columns", renew_scans),
    (
        "a second scan of a table keeps the ids of the first",
        keep_over_copies,
    ),
    (
        "a computed output keeps the id of what it reads",
        keep_over_computation,
    ),
    (
        "an aggregate keeps the id of its argument",
        keep_over_aggregates,
    ),
    ("a union keeps the ids of its first input", keep_over_unions),
];

/// The statements that a mutant was found with.
pub struct Hunt {
    pub mutant: &'static str,
    /// By the validator
    pub validator: Option<u64>,
    /// By another oracle, which did not have its help
    pub rows: Option<(u64, Oracle)>,
}

impl Hunt {
    pub fn is_found(&self) -> bool {
        self.validator.is_some() || self.rows.is_some()
    }
}

/// Looks for all mutants with the first `count` statements of a seed. Those that the
/// fork itself does not pass say nothing about a mutant and are left out.
pub fn hunt_all(
    fork: &Checker<'_>,
    timeout: Duration,
    seed: u64,
    count: u64,
) -> Result<Vec<Hunt>> {
    let mut passed = BTreeMap::new();
    let mut hunts = vec![];
    for (mutant, change) in MUTANTS {
        let mutated = Mutated::new(change, timeout)?;
        let mut hunt = Hunt {
            mutant,
            validator: None,
            rows: None,
        };
        for number in 0..count {
            let query = statement(seed, number);
            let rules = fork.rules(seed, number);
            let unwritten = |error: Unprintable| {
                anyhow!("statement {number} cannot be written: {}", error.0)
            };
            let check = |checker: &Checker<'_>| -> Result<Outcome> {
                let verdict = checker.check(&query, &rules, None).map_err(unwritten)?;
                Ok(verdict.outcome)
            };
            let passes = match passed.get(&number) {
                Some(passes) => *passes,
                None => {
                    let with_validator = Checker {
                        validator: true,
                        ..*fork
                    };
                    let passes = check(&with_validator)? == Outcome::Passed;
                    passed.insert(number, passes);
                    passes
                }
            };
            if !passes {
                continue;
            }
            if hunt.validator.is_none() {
                let sql = print::colliding(&query).map_err(unwritten)?;
                let (_, issues) = validated(true, || mutated.run(&sql, &[]));
                hunt.validator = (!issues.is_empty()).then_some(number);
            }
            if hunt.rows.is_none() {
                let checker = Checker {
                    subject: &mutated,
                    stock: fork.stock,
                    validator: false,
                };
                if let Outcome::Failed(finding) = check(&checker)? {
                    hunt.rows = Some((number, finding.oracle));
                }
            }
            if hunt.validator.is_some() && hunt.rows.is_some() {
                break;
            }
        }
        hunts.push(hunt);
    }
    Ok(hunts)
}

/// The name of the rule with the fault.
const RULE: &str = "mutant";

/// The rule with the fault.
#[derive(Debug)]
struct Fault {
    change: Change,
    /// Whether it is still to be done for the query
    due: Arc<AtomicBool>,
}

impl OptimizerRule for Fault {
    fn name(&self) -> &str {
        RULE
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>, DataFusionError> {
        match self.due.swap(false, Ordering::Relaxed) {
            true => (self.change)(plan),
            false => Ok(Transformed::no(plan)),
        }
    }
}

/// The fork with a fault.
struct Mutated {
    engine: fork::Engine,
    due: Arc<AtomicBool>,
}

impl Mutated {
    fn new(change: Change, timeout: Duration) -> Result<Self> {
        let mut engine = fork::Engine::new(timeout)?;
        let due = Arc::new(AtomicBool::new(false));
        let state = engine.context.state();
        let mut rules = state.optimizers().to_vec();
        rules.insert(
            0,
            Arc::new(Fault {
                change,
                due: Arc::clone(&due),
            }),
        );
        let state = SessionStateBuilder::new_from_existing(state)
            .with_optimizer_rules(rules)
            .build();
        engine.context = SessionContext::new_with_state(state);
        Ok(Self { engine, due })
    }
}

impl Engine for Mutated {
    fn rules(&self) -> Vec<String> {
        let mut rules = self.engine.rules();
        rules.retain(|rule| rule != RULE);
        rules
    }

    fn run(&self, sql: &str, without: &[String]) -> Result<Rows, Failure> {
        self.due.store(true, Ordering::Relaxed);
        self.engine.run(sql, without)
    }
}

// What the faults do

fn drop_ids(plan: LogicalPlan) -> Changed {
    each_node(plan, |node| {
        references(node, &mut |column, outer| {
            !outer && column.id.take().is_some()
        })
    })
}

fn drop_outer_ids(plan: LogicalPlan) -> Changed {
    each_node(plan, |node| {
        references(node, &mut |column, outer| {
            outer && column.id.take().is_some()
        })
    })
}

/// The first two columns that a filter or a projection reads.
fn swap_references(plan: LogicalPlan) -> Changed {
    each_node(plan, |node| {
        let mut ids = vec![];
        node.apply_expressions(|expr| {
            ids.extend(columns_of(expr));
            Ok(TreeNodeRecursion::Continue)
        })?;
        let first = ids.first().copied();
        let second = ids.into_iter().find(|id| Some(*id) != first);
        let is_for = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Projection(_));
        if !is_for || second.is_none() {
            return Ok(Transformed::no(node));
        }
        references(node, &mut |column, outer| {
            let other = match column.id {
                _ if outer => return false,
                id if id == first => second,
                id if id == second => first,
                _ => return false,
            };
            column.id = other;
            true
        })
    })
}

fn go_by_name(plan: LogicalPlan) -> Changed {
    each_node(plan, |node| {
        let schemas: Vec<DFSchemaRef> = node
            .inputs()
            .into_iter()
            .map(|input| Arc::clone(input.schema()))
            .collect();
        references(node, &mut |column, outer| {
            let other =
                schemas
                    .iter()
                    .flat_map(|schema| schema.columns())
                    .find(|other| {
                        other.name == column.name
                            && other.id.is_some()
                            && other.id != column.id
                    });
            match other {
                Some(other) if !outer && column.id.is_some() => {
                    column.id = other.id;
                    true
                }
                _ => false,
            }
        })
    })
}

fn swap_outputs(plan: LogicalPlan) -> Changed {
    each_node(plan, |mut node| {
        let LogicalPlan::Projection(projection) = &mut node else {
            return Ok(Transformed::no(node));
        };
        let mut ids: Vec<Option<ColumnId>> = projection.schema.column_ids().collect();
        if ids.len() < 2 || ids[0] == ids[1] {
            return Ok(Transformed::no(node));
        }
        ids.swap(0, 1);
        let schema = projection.schema.as_ref().clone().with_column_ids(ids)?;
        projection.schema = Arc::new(schema);
        Ok(Transformed::yes(node))
    })
}

fn merge_outputs(plan: LogicalPlan) -> Changed {
    let renumber = Renumber::of(&plan, |renumber, node| {
        if let LogicalPlan::Projection(projection) = node
            && projection.expr.len() >= 2
            && !is_renaming(&projection.expr[1])
        {
            let schema = &projection.schema;
            renumber.add(schema.column_id(1), schema.column_id(0));
        }
    })?;
    renumber.apply(plan)
}

fn rebuild_projections(plan: LogicalPlan) -> Changed {
    each_node(plan, |node| match node {
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            let projection = Projection::try_new(expr, input)?;
            Ok(Transformed::yes(LogicalPlan::Projection(projection)))
        }
        node => Ok(Transformed::no(node)),
    })
}

fn renew_scans(plan: LogicalPlan) -> Changed {
    each_node(plan, |mut node| {
        if let LogicalPlan::TableScan(scan) = &mut node
            && let Some(source) = scan.projected_schema.source_column_ids()
        {
            let new = ColumnId::new_block(source.len());
            let schema = scan.projected_schema.as_ref().clone();
            let schema =
                schema.with_source_column_ids(new, scan.projection.as_deref())?;
            scan.projected_schema = Arc::new(schema);
            return Ok(Transformed::yes(node));
        }
        Ok(Transformed::no(node))
    })
}

fn keep_over_copies(plan: LogicalPlan) -> Changed {
    let mut first: HashMap<String, SourceColumnIds> = HashMap::new();
    let renumber = Renumber::of(&plan, |renumber, node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(source) = scan.projected_schema.source_column_ids()
        {
            let name = scan.table_name.to_string();
            let kept = first.entry(name).or_insert_with(|| source.clone()).clone();
            if kept != source {
                renumber.blocks.push((source.clone(), kept.clone()));
                for (from, to) in source.iter().zip(kept.iter()) {
                    renumber.add(Some(from), Some(to));
                }
            }
        }
    })?;
    renumber.apply(plan)
}

fn keep_over_computation(plan: LogicalPlan) -> Changed {
    let renumber = Renumber::of(&plan, |renumber, node| {
        let LogicalPlan::Projection(projection) = node else {
            return;
        };
        for (i, expr) in projection.expr.iter().enumerate() {
            if !is_renaming(expr) {
                let read = columns_of(expr).into_iter().next();
                renumber.add(projection.schema.column_id(i), read);
            }
        }
    })?;
    renumber.apply(plan)
}

fn keep_over_aggregates(plan: LogicalPlan) -> Changed {
    let renumber = Renumber::of(&plan, |renumber, node| {
        let LogicalPlan::Aggregate(aggregate) = node else {
            return;
        };
        let outputs = aggregate.schema.column_ids();
        let keys = outputs.len().saturating_sub(aggregate.aggr_expr.len());
        for (output, expr) in outputs.skip(keys).zip(&aggregate.aggr_expr) {
            renumber.add(output, columns_of(expr).into_iter().next());
        }
    })?;
    renumber.apply(plan)
}

fn keep_over_unions(plan: LogicalPlan) -> Changed {
    let renumber = Renumber::of(&plan, |renumber, node| {
        let LogicalPlan::Union(union) = node else {
            return;
        };
        if let Some(input) = union.inputs.first() {
            let ids = input.schema().column_ids();
            for (output, id) in union.schema.column_ids().zip(ids) {
                renumber.add(output, id);
            }
        }
    })?;
    renumber.apply(plan)
}

// What they are made of

/// Does something to each node, inputs and subqueries first.
fn each_node(plan: LogicalPlan, change: impl FnMut(LogicalPlan) -> Changed) -> Changed {
    plan.transform_up_with_subqueries(change)
}

/// Changes the references of a node. The function says whether it did, and is told
/// whether a reference is an outer one.
fn references(
    node: LogicalPlan,
    change: &mut dyn FnMut(&mut Column, bool) -> bool,
) -> Changed {
    let mut each = |expr: Expr| {
        expr.transform(|mut expr| {
            let changed = match &mut expr {
                Expr::Column(column) => change(column, false),
                Expr::OuterReferenceColumn(_, column) => change(column, true),
                _ => false,
            };
            Ok(Transformed::new_transformed(expr, changed))
        })
    };
    match node {
        LogicalPlan::Subquery(mut subquery) => {
            let mut changed = false;
            for outer in &mut subquery.outer_ref_columns {
                let new = each(std::mem::take(outer))?;
                changed |= new.transformed;
                *outer = new.data;
            }
            let plan = LogicalPlan::Subquery(subquery);
            Ok(Transformed::new_transformed(plan, changed))
        }
        node => node.map_expressions(each),
    }
}

/// The ids of the columns that an expression reads, in order.
fn columns_of(expr: &Expr) -> Vec<ColumnId> {
    let mut ids = vec![];
    // The function does not fail.
    let _ = expr.apply(|expr| {
        if let Expr::Column(column) = expr {
            ids.extend(column.id);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    ids
}

/// Whether an expression has the values of a column.
fn is_renaming(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_renaming(&alias.expr),
        expr => matches!(expr, Expr::Column(_)),
    }
}

/// Other ids for columns, where they are defined, passed on and read.
#[derive(Default)]
struct Renumber {
    ids: HashMap<ColumnId, ColumnId>,
    /// Those of whole tables
    blocks: Vec<(SourceColumnIds, SourceColumnIds)>,
}

impl Renumber {
    /// What a function finds at the nodes of a plan.
    fn of(
        plan: &LogicalPlan,
        mut find: impl FnMut(&mut Self, &LogicalPlan),
    ) -> EngineResult<Self> {
        let mut renumber = Self::default();
        plan.apply_with_subqueries(|node| {
            find(&mut renumber, node);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(renumber)
    }

    fn add(&mut self, from: Option<ColumnId>, to: Option<ColumnId>) {
        if let (Some(from), Some(to)) = (from, to)
            && from != to
        {
            self.ids.insert(from, to);
        }
    }

    /// The id that a column gets: what it is computed from can get another one too.
    fn id(&self, id: ColumnId) -> ColumnId {
        let mut id = id;
        for _ in 0..self.ids.len() {
            match self.ids.get(&id) {
                Some(next) => id = *next,
                None => break,
            }
        }
        id
    }

    fn schema(&self, schema: &mut DFSchemaRef) -> EngineResult<()> {
        let ids: Vec<Option<ColumnId>> = schema
            .column_ids()
            .map(|id| id.map(|id| self.id(id)))
            .collect();
        *schema = Arc::new(schema.as_ref().clone().with_column_ids(ids)?);
        Ok(())
    }

    fn apply(&self, plan: LogicalPlan) -> Changed {
        if self.ids.is_empty() {
            return Ok(Transformed::no(plan));
        }
        each_node(plan, |node| {
            let change = &mut |column: &mut Column, _: bool| {
                let id = column.id;
                column.id = id.map(|id| self.id(id));
                column.id != id
            };
            let mut node = references(node, change)?.data;
            match &mut node {
                LogicalPlan::Projection(node) => self.schema(&mut node.schema)?,
                LogicalPlan::Window(node) => self.schema(&mut node.schema)?,
                LogicalPlan::Aggregate(node) => self.schema(&mut node.schema)?,
                LogicalPlan::Join(node) => self.schema(&mut node.schema)?,
                LogicalPlan::Union(node) => self.schema(&mut node.schema)?,
                LogicalPlan::SubqueryAlias(node) => self.schema(&mut node.schema)?,
                LogicalPlan::Unnest(node) => self.schema(&mut node.schema)?,
                LogicalPlan::TableScan(scan) => {
                    let source = scan.projected_schema.source_column_ids();
                    let block = self
                        .blocks
                        .iter()
                        .find(|(from, _)| Some(from) == source.as_ref());
                    if let Some((_, to)) = block {
                        let schema = scan.projected_schema.as_ref().clone();
                        let projection = scan.projection.as_deref();
                        let schema =
                            schema.with_source_column_ids(to.clone(), projection)?;
                        scan.projected_schema = Arc::new(schema);
                    }
                }
                // Schemas of inputs, or of nothing that these statements have.
                _ => {}
            }
            Ok(Transformed::yes(node))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{listen_to_validator, stock};
    use crate::with_stack;

    #[test]
    fn every_mutant_is_found() {
        listen_to_validator();
        let hunts = with_stack(|| {
            let timeout = Duration::from_secs(60);
            let subject = fork::Engine::new(timeout)?;
            let stock = stock::Engine::new(timeout)?;
            let fork = Checker {
                subject: &subject,
                stock: Some(&stock),
                validator: true,
            };
            hunt_all(&fork, timeout, 1, STATEMENTS)
        });
        let hunts = hunts.unwrap();
        assert!(hunts.len() >= 10);
        let escaped = hunts.iter().filter(|hunt| !hunt.is_found());
        let escaped: Vec<_> = escaped.map(|hunt| hunt.mutant).collect();
        assert!(escaped.is_empty(), "{escaped:?}");
        // The rows have to tell too, and not the validator alone.
        let by_rows = hunts.iter().filter(|hunt| hunt.rows.is_some()).count();
        assert!(by_rows >= 5, "{by_rows}");
    }

    /// A rule more does no harm: what is found is the fault.
    #[test]
    fn a_mutant_without_a_fault_is_not_found() {
        let rows = with_stack(|| {
            let timeout = Duration::from_secs(60);
            let mutated = Mutated::new(|plan| Ok(Transformed::no(plan)), timeout)?;
            assert!(!mutated.rules().iter().any(|rule| rule == RULE));
            let rows = mutated.run("SELECT a FROM t WHERE b = 3", &[]);
            rows.map_err(|failure| anyhow!("{failure}"))
        });
        assert_eq!(rows.unwrap(), [["1"]]);
    }
}
