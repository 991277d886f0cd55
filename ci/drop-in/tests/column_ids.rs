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

//! The checks of column ids, as a program sees them that uses `tracing`: issues are
//! events under the target `datafusion::column_id`, which a subscriber selects like any
//! other, and the strict switch makes them errors.
//!
//! One test, since the log and the switch are the whole process's.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{LogicalPlan, Projection};
use datafusion::optimizer::column_id_checks::{TARGET, set_strict};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::prelude::SessionContext;
use drop_in::rows;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_log::{LogTracer, NormalizeEvent};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Builds projections anew and so makes new columns of what they compute: a rule of
/// somebody who does not know of ids.
#[derive(Debug)]
struct ForgetfulRule;

impl OptimizerRule for ForgetfulRule {
    fn name(&self) -> &str {
        "forgetful"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Projection(projection) = plan else {
            return Ok(Transformed::no(plan));
        };
        let Projection { expr, input, .. } = projection;
        let projection = Projection::try_new(expr, input)?;
        Ok(Transformed::yes(LogicalPlan::Projection(projection)))
    }
}

/// Target, level and message of each event.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<(String, Level, String)>>>);

impl<S: Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        // An event that comes from `log` has its own metadata in fields.
        let normalized = event.normalized_metadata();
        let metadata = normalized.as_ref().unwrap_or_else(|| event.metadata());
        let mut message = Message::default();
        event.record(&mut message);
        let event = (metadata.target().to_string(), *metadata.level(), message.0);
        self.0.lock().unwrap().push(event);
    }
}

#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

const QUERY: &str =
    "select b from (select x + 1 as b from (values (1), (2)) t(x)) where b > 2";

async fn run() -> Result<Vec<String>> {
    // No other rule: some of the engine's own still leave issues behind.
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_optimizer_rules(vec![Arc::new(ForgetfulRule)])
        .build();
    let ctx = SessionContext::new_with_state(state);
    Ok(rows(&ctx.sql(QUERY).await?.collect().await?))
}

#[tokio::test]
async fn issues_are_events_or_errors() {
    let recorder = Recorder::default();
    let filter = Targets::new().with_target(TARGET, Level::DEBUG);
    let subscriber = tracing_subscriber::registry()
        .with(filter)
        .with(recorder.clone());
    tracing::subscriber::set_global_default(subscriber).unwrap();
    LogTracer::init().unwrap();

    assert_eq!(run().await.unwrap(), ["3"]);
    let events = std::mem::take(&mut *recorder.0.lock().unwrap());
    // Nothing but the target was asked for.
    assert!(
        events
            .iter()
            .all(|(target, ..)| target == "datafusion::column_id")
    );
    assert!(events.iter().all(|(_, level, _)| *level == Level::DEBUG));
    let of_the_rule: Vec<_> = events
        .iter()
        .filter(|(_, _, message)| message.starts_with("forgetful (pass 0): "))
        .collect();
    assert!(!of_the_rule.is_empty(), "{events:#?}");

    // The rows are right, and the query fails all the same.
    set_strict(true);
    let error = run().await.unwrap_err().to_string();
    set_strict(false);
    assert!(
        error.contains("Column ids are wrong after forgetful (pass 0)"),
        "{error}"
    );
}
