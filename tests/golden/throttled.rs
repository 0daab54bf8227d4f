//! An index that is throttled holds up what needs it, and nothing else.

use afterwrite::ErrorKind;
use afterwrite::record::{Item, Timestamp};
use afterwrite_functions::Handled;
use afterwrite_tests::faults::{FaultRates, FaultyTables};
use afterwrite_tests::replay::STATE;

use crate::platform::{NOW, TABLE, aggregator, counted, created, item, tables};

/// The invocation's time, in milliseconds.
const TIME: i64 = 30_000;
/// A seed by which three queries of four that are throttled are the first three.
const THREE_IN_A_ROW: u64 = 3;

/// A batch of a question whose project only the index knows, and of a project with its own question; in that order.
async fn batch(rates: FaultRates, seed: u64) -> (Handled, Vec<Item>) {
    let tables = tables();
    tables.put(TABLE, item("ADMIN#a9", "PROJECT#p9", "PROJECT#p9")).expect("a project");
    let aggregator = aggregator(FaultyTables::new(tables, rates, seed));
    let event =
        created([("PROJECT#p9", "QUESTION#q9"), ("ADMIN#a1", "PROJECT#p1"), ("PROJECT#p1", "QUESTION#q1")]);
    let deadline = Timestamp::from_epoch_ms(NOW * 1_000 + TIME);
    let handled = aggregator.handle(event.as_bytes(), deadline).await.expect("an event");
    (handled, aggregator.ledger().tables().inner().scan(STATE))
}

/// How many questions an admin's rollup counts; `None` without a rollup.
fn questions(state: &[Item], admin: &str) -> Option<i64> {
    counted(state, (admin, "ROLLUP#TOTAL"), "questions")
}

#[tokio::test]
async fn what_needs_no_throttled_index_is_committed() {
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
async fn a_throttled_index_is_asked_again_in_place() {
    let (handled, state) =
        batch(FaultRates { index_throttle: 750, ..FaultRates::NONE }, THREE_IN_A_ROW).await;
    assert!(handled.failures.is_empty(), "{:?}", handled.failures);
    assert_eq!((questions(&state, "ADMIN#a1"), questions(&state, "ADMIN#a9")), (Some(1), Some(1)));
    assert_eq!(handled.totals.retries, 3);
}
