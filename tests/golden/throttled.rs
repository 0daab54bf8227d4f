//! A throttled index delays only the items that need it.

use afterwrite_functions::AggregatedBatch;
use afterwrite_model::ErrorKind;
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_tests::faults::{FaultRates, FaultyTables};
use afterwrite_tests::replay::STATE;

use super::platform::{NOW, TABLE, aggregator, counted, created, item, tables};

/// The invocation's time limit.
const TIME_LIMIT_MS: i64 = 30_000;
/// Seeds with which different numbers of queries are throttled before the first that is not.
const SEEDS: std::ops::Range<u64> = 0..20;

/// Delivers a batch with a question whose project only the index has, then a project and its question.
async fn batch(rates: FaultRates, seed: u64) -> (AggregatedBatch, Vec<Item>) {
    let tables = tables();
    tables.put(TABLE, item("ADMIN#a9", "PROJECT#p9", "PROJECT#p9")).expect("a project");
    let aggregator = aggregator(FaultyTables::new(tables, rates, seed));
    let event =
        created([("PROJECT#p9", "QUESTION#q9"), ("ADMIN#a1", "PROJECT#p1"), ("PROJECT#p1", "QUESTION#q1")]);
    let deadline = Timestamp::from_epoch_ms(NOW * 1_000 + TIME_LIMIT_MS);
    let handled = aggregator.handle(event.as_bytes(), deadline).await.expect("an event");
    (handled, aggregator.ledger().tables().inner().scan(STATE))
}

/// The number of questions in an admin's rollup; `None` without a rollup.
fn questions(state: &[Item], admin: &str) -> Option<i64> {
    counted(state, (admin, "ROLLUP#TOTAL"), "questions")
}

#[tokio::test]
async fn items_that_need_no_throttled_index_are_committed() {
    let (handled, state) = batch(FaultRates { index_throttle: 1_000, ..FaultRates::NONE }, 1).await;
    let failed: Vec<_> = handled
        .failures
        .iter()
        .map(|failed| (failed.sequence_number.as_deref().unwrap_or_default(), failed.error.kind()))
        .collect();
    assert_eq!(failed, [("000000000000000000001", ErrorKind::Unavailable)]);
    assert_eq!((questions(&state, "ADMIN#a1"), questions(&state, "ADMIN#a9")), (Some(1), None));
}

#[tokio::test]
async fn a_throttled_index_query_is_retried_in_the_same_invocation() {
    let mut retries = Vec::new();
    for seed in SEEDS {
        let (handled, state) = batch(FaultRates { index_throttle: 750, ..FaultRates::NONE }, seed).await;
        assert!(handled.failures.is_empty(), "seed {seed}: {:?}", handled.failures);
        assert_eq!((questions(&state, "ADMIN#a1"), questions(&state, "ADMIN#a9")), (Some(1), Some(1)));
        retries.push(handled.totals.retries);
    }
    assert!(retries.contains(&0) && retries.contains(&3), "retries by seed: {retries:?}");
}
