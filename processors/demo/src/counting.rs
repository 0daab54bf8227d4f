//! The subject of the demo: the aggregator exactly as Lambda runs it, with its totals.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use afterwrite_functions::StreamAggregator;
use afterwrite_ledger::{CommitTotals, Ledger};
use afterwrite_mapping::EventHandler;
use afterwrite_model::Result;
use afterwrite_model::clock::SystemClock;
use afterwrite_model::table::Model;
use afterwrite_services::dynamodb::DynamoDb;
use aws_sdk_dynamodb::Client;

use crate::invocation::{deadline, response_json};

/// The state table: rollups and ledger.
pub(crate) const STATE_TABLE: &str = "AfterwriteState";
/// Failed records whose reasons are kept.
const MAX_REASONS: usize = 100;

/// The aggregator as the handler of a stream.
#[derive(Debug)]
pub(crate) struct CountingFunction {
    aggregator: StreamAggregator<DynamoDb, SystemClock>,
    totals: Mutex<CountingTotals>,
}

/// The totals of all invocations so far.
#[derive(Debug, Default)]
pub(crate) struct CountingTotals {
    pub(crate) commits: CommitTotals,
    /// Why records were not counted in their last delivery, by sequence number; the first hundred.
    pub(crate) reasons: BTreeMap<String, String>,
}

impl CountingFunction {
    /// The aggregator of a model whose tables have these names.
    pub(crate) fn new(model: &Arc<Model>, table_names: &[Arc<str>], client: Client) -> Self {
        let tables = DynamoDb::new(client);
        let (model, names) = (Arc::clone(model), table_names.to_vec());
        let ledger = Ledger::new(model, names, Arc::from(STATE_TABLE), tables, SystemClock);
        Self { aggregator: StreamAggregator::new(ledger), totals: Mutex::default() }
    }

    pub(crate) fn totals(&self) -> MutexGuard<'_, CountingTotals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventHandler for CountingFunction {
    async fn handle(&self, event: Vec<u8>, remaining: Duration) -> Result<Vec<u8>> {
        let handled = self.aggregator.handle(&event, deadline(remaining)).await?;
        {
            let mut totals = self.totals();
            totals.commits += handled.totals;
            for failed in handled.failures {
                let number = failed.sequence_number.unwrap_or_default();
                if totals.reasons.len() < MAX_REASONS || totals.reasons.contains_key(&number) {
                    totals.reasons.insert(number, failed.error.to_string());
                }
            }
        }
        response_json(&handled.response)
    }
}
