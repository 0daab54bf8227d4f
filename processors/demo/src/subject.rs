//! What the demo puts to the test: the aggregator, exactly as Lambda runs it, with its counts added up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use afterwrite::clock::{Clock as _, SystemClock};
use afterwrite::commit::{CommitTotals, Ledger};
use afterwrite::sink::dynamodb::DynamoDb;
use afterwrite::table::Model;
use afterwrite::{Error, ErrorKind, Result};
use afterwrite_functions::StreamAggregator;
use aws_sdk_dynamodb::Client;

use super::stage::STATE_TABLE;
use afterwrite_local::poller::EventHandler;

/// What is kept back of an invocation's time, to answer in.
const TO_ANSWER: Duration = Duration::from_millis(500);

const REASONS_KEPT: usize = 100;

/// The aggregator under its handler.
#[derive(Debug)]
pub(super) struct Subject {
    aggregator: StreamAggregator<DynamoDb, SystemClock>,
    sums: Mutex<Sums>,
}

/// What all invocations so far came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) records: u64,
    pub(super) unmatched: u64,
    pub(super) totals: CommitTotals,
    /// Why records were not counted when they were last delivered, by sequence number; the first hundred.
    pub(super) reasons: BTreeMap<String, String>,
}

impl Subject {
    /// The aggregator of a model whose tables live under these names.
    pub(super) fn new(model: &Arc<Model>, table_names: &[Arc<str>], client: Client) -> Self {
        let tables = DynamoDb::new(client);
        let (model, names) = (Arc::clone(model), table_names.to_vec());
        let ledger = Ledger::new(model, names, Arc::from(STATE_TABLE), tables, SystemClock);
        Self { aggregator: StreamAggregator::new(ledger), sums: Mutex::default() }
    }

    pub(super) fn sums(&self) -> Sums {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl EventHandler for Subject {
    async fn handle(&self, event: Vec<u8>, remaining: Duration) -> Result<Vec<u8>> {
        let deadline = SystemClock.now().plus(remaining.saturating_sub(TO_ANSWER));
        let handled = self.aggregator.handle(&event, deadline).await?;
        {
            let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
            sums.records += handled.records;
            sums.unmatched += handled.unmatched;
            sums.totals += handled.totals;
            for failed in handled.failures {
                let sequence_number = failed.sequence_number.unwrap_or_default();
                if sums.reasons.len() < REASONS_KEPT || sums.reasons.contains_key(&sequence_number) {
                    sums.reasons.insert(sequence_number, failed.error.to_string());
                }
            }
        }
        serde_json::to_vec(&handled.response)
            .map_err(|error| Error::new(ErrorKind::State, "the response cannot be written").caused_by(error))
    }
}
