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

//! `datafusion-tracing`: a physical optimizer rule that wraps every operator of
//! a plan in an `ExecutionPlan` of its own, which delegates all trait methods
//! and opens a span, and wrappers around every analyzer, optimizer and physical
//! optimizer rule and the query planner. A layer records the spans, so the tests
//! see that rows stay right *and* that the wrappers were in the plan.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tracing::{
    InstrumentationOptions, RuleInstrumentationOptions, instrument_rules_with_info_spans,
    instrument_with_info_spans,
};
use drop_in::{collect, ints, register, rows, texts};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Name of the span of every operator; the operator itself is its `otel.name`.
const OPERATOR: &str = "InstrumentedExec";
/// Name of the span of every analyzer and optimizer rule.
const RULE: &str = "Rule";
/// Name of the span around all rules of one kind.
const PHASE: &str = "Phase";

#[derive(Clone, Debug)]
struct Span {
    name: &'static str,
    fields: BTreeMap<String, String>,
}

impl Span {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

#[derive(Default)]
struct Spans {
    all: Vec<Span>,
    /// Index in `all` of the span that holds an id now; ids are used again.
    index: HashMap<u64, usize>,
}

/// A layer that keeps every span with the last value of each field.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Spans>>);

impl Recorder {
    /// Starts to record what this thread does, until the guard is dropped.
    fn start() -> (Self, DefaultGuard) {
        let recorder = Self::default();
        let subscriber = tracing_subscriber::registry().with(recorder.clone());
        (recorder, tracing::subscriber::set_default(subscriber))
    }

    fn spans(&self, name: &str) -> Vec<Span> {
        let spans = self.0.lock().expect("the recorded spans");
        spans
            .all
            .iter()
            .filter(|span| span.name == name)
            .cloned()
            .collect()
    }

    /// Spans called `name` of the operator, rule or phase `what`. A rule that
    /// changed the plan adds a remark to its name.
    fn named(&self, name: &str, what: &str) -> Vec<Span> {
        let mut found = self.spans(name);
        found.retain(|span| {
            let named = span.field("otel.name");
            named == what || named == format!("{what} (modified)")
        });
        found
    }

    fn assert_seen(&self, name: &str, what: &[&str]) {
        for what in what {
            assert!(
                !self.named(name, what).is_empty(),
                "no {name} span of {what}; there are {:?}",
                self.spans(name)
                    .iter()
                    .map(|span| span.field("otel.name").to_string())
                    .collect::<Vec<_>>()
            );
        }
    }
}

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_string(), value.to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0
            .insert(field.name().to_string(), format!("{value:?}"));
    }
}

impl<S: Subscriber> Layer<S> for Recorder {
    fn on_new_span(&self, attrs: &Attributes<'_>, id: &Id, _ctx: Context<'_, S>) {
        let mut span = Span {
            name: attrs.metadata().name(),
            fields: BTreeMap::new(),
        };
        attrs.record(&mut Fields(&mut span.fields));
        let mut spans = self.0.lock().expect("the recorded spans");
        let index = spans.all.len();
        spans.all.push(span);
        spans.index.insert(id.into_u64(), index);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _ctx: Context<'_, S>) {
        let mut fields = BTreeMap::new();
        values.record(&mut Fields(&mut fields));
        let mut spans = self.0.lock().expect("the recorded spans");
        if let Some(index) = spans.index.get(&id.into_u64()).copied() {
            spans.all[index].fields.extend(fields);
        }
    }
}

fn register_tables(ctx: &SessionContext) {
    register(
        ctx,
        "emp",
        vec![
            ("id", ints(&[1, 2, 3, 4, 5])),
            ("dept", ints(&[10, 10, 20, 20, 30])),
            ("pay", ints(&[100, 200, 300, 50, 75])),
        ],
    );
    register(
        ctx,
        "dept",
        vec![
            ("id", ints(&[10, 20, 30])),
            ("name", texts(&["ops", "dev", "hr"])),
        ],
    );
}

/// A session with every operator and every rule traced.
fn traced_context(partitions: usize) -> SessionContext {
    let operators = InstrumentationOptions::builder()
        .record_metrics(true)
        .preview_limit(10)
        .add_custom_field("env", "drop-in")
        .build();
    let operator_rule = instrument_with_info_spans!(
        options: operators,
        env = tracing::field::Empty,
    );
    let state = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(partitions))
        .with_default_features()
        .with_physical_optimizer_rule(operator_rule)
        .build();
    let rules = RuleInstrumentationOptions::full().with_plan_diff();
    let state = instrument_rules_with_info_spans!(options: rules, state: state);

    let ctx = SessionContext::new_with_state(state);
    register_tables(&ctx);
    ctx
}

/// Four people earn 75 or more; only employee 4 is left out.
const JOINED: &str = "select d.name, count(*) as heads, sum(e.pay) as total \
     from emp as e join dept as d on e.dept = d.id \
     where e.pay >= 75 group by d.name order by d.name";
const JOINED_ROWS: [&str; 3] = ["dev|1|300", "hr|1|75", "ops|2|300"];

fn pretty(batches: &[RecordBatch]) -> String {
    pretty_format_batches(batches)
        .expect("a printed table")
        .to_string()
}

#[tokio::test]
async fn operators_are_traced() {
    let (recorder, _guard) = Recorder::start();
    let ctx = traced_context(1);
    let batches = collect(&ctx, JOINED).await;
    assert_eq!(rows(&batches), JOINED_ROWS);

    recorder.assert_seen(
        OPERATOR,
        &[
            "FilterExec",
            "HashJoinExec",
            "AggregateExec",
            "SortExec",
            "DataSourceExec",
        ],
    );
    for span in recorder.spans(OPERATOR) {
        assert_eq!(span.field("env"), "drop-in", "a field of ours in {span:?}");
    }

    // what the crate reads back from the wrapped operators: metrics and rows
    let filters = recorder.named(OPERATOR, "FilterExec");
    let rows_out = filters
        .iter()
        .map(|span| span.field("datafusion.metrics.output_rows"))
        .collect::<Vec<_>>();
    assert_eq!(rows_out, ["4"], "output rows of the filter");
    let result = pretty(&batches);
    assert!(
        recorder
            .spans(OPERATOR)
            .iter()
            .any(|span| span.field("datafusion.preview") == result),
        "no operator has seen\n{result}"
    );
}

#[tokio::test]
async fn rules_are_traced() {
    let (recorder, _guard) = Recorder::start();
    let ctx = traced_context(1);
    assert_eq!(rows(&collect(&ctx, JOINED).await), JOINED_ROWS);

    recorder.assert_seen(
        PHASE,
        &[
            "analyze_logical_plan",
            "optimize_logical_plan",
            "optimize_physical_plan",
        ],
    );
    recorder.assert_seen(
        RULE,
        &[
            // analyzer, optimizer, physical optimizer
            "type_coercion",
            "push_down_filter",
            "join_selection",
        ],
    );

    // the filter moves below the join, which the wrapper sees by comparing plans
    let pushed = recorder
        .named(RULE, "push_down_filter")
        .into_iter()
        .find(|span| span.field("otel.name").ends_with("(modified)"))
        .expect("a span of push_down_filter that changed the plan");
    let diff = pushed.field("datafusion.plan_diff");
    assert!(
        diff.lines()
            .any(|line| line.starts_with('+') && line.contains("Filter: ")),
        "an added filter in\n{diff}"
    );
    assert!(
        recorder
            .named(PHASE, "optimize_logical_plan")
            .iter()
            .any(|span| span
                .field("datafusion.effective_rules")
                .contains("push_down_filter")),
        "push_down_filter among the effective rules"
    );

    let planned = recorder.spans("create_physical_plan");
    assert!(
        planned
            .iter()
            .any(|span| span.field("physical_plan").contains("FilterExec")),
        "a physical plan with the filter in {planned:?}"
    );
}

#[tokio::test]
async fn partitioned_operators_are_traced() {
    let (recorder, _guard) = Recorder::start();
    let ctx = traced_context(3);
    assert_eq!(rows(&collect(&ctx, JOINED).await), JOINED_ROWS);
    // 100 and 200 in 10, 300 without the 50 in 20, 75 in 30; dept adds zeros
    assert_eq!(
        rows(
            &collect(
                &ctx,
                "select x.k, sum(x.v) as total from \
                 (select dept as k, pay as v from emp where pay > 50 \
                  union all select id, 0 from dept) as x \
                 group by x.k order by x.k"
            )
            .await
        ),
        ["10|300", "20|300", "30|75"]
    );
    recorder.assert_seen(OPERATOR, &["FilterExec", "AggregateExec", "UnionExec"]);
    // the two inputs of the union are partitions that something brings together
    assert!(
        [
            "RepartitionExec",
            "CoalescePartitionsExec",
            "SortPreservingMergeExec"
        ]
        .iter()
        .any(|name| !recorder.named(OPERATOR, name).is_empty()),
        "no operator over several partitions"
    );

    // a session plans and runs many queries with the same wrappers
    for _ in 0..3 {
        assert_eq!(rows(&collect(&ctx, JOINED).await), JOINED_ROWS);
    }
}

/// The spans come from the crate, not from DataFusion or the recorder.
#[tokio::test]
async fn a_plain_session_has_no_spans() {
    let (recorder, _guard) = Recorder::start();
    let ctx = SessionContext::new();
    register_tables(&ctx);
    assert_eq!(rows(&collect(&ctx, JOINED).await), JOINED_ROWS);
    for name in [OPERATOR, RULE, PHASE] {
        assert!(recorder.spans(name).is_empty(), "unexpected {name} spans");
    }
}
