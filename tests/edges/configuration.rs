//! A wrong set-up, such as no permission: the invocation fails, whichever request shows it, and nothing is parked.

use afterwrite_model::ErrorKind;
use afterwrite_model::effect::Write;
use afterwrite_model::record::Timestamp;
use afterwrite_tests::deployment::event;
use serde_json::json;

use super::models::{ATTEMPTS, SHOP, put_project};
use super::observed::{ObservedTables, WriteFate};
use super::world::{EdgeWorld, NOW, aggregator_over};

/// Delivers the records of a world whose writes with these kinds and beginnings of keys fail for a wrong set-up.
async fn assert_refused(model: &str, world: &EdgeWorld, kind: &'static str, beginning: &'static str) {
    let fate = move |sent: &'static str, write: &Write| {
        let key = write.key.partition.value.as_text();
        let is_refused = sent == kind && key.is_some_and(|key| key.starts_with(beginning));
        if is_refused { WriteFate::Failed(ErrorKind::Configuration) } else { WriteFate::CarriedOut }
    };
    let aggregator = aggregator_over(model, ObservedTables::with_fate(&world.tables, fate));
    let deadline = Timestamp::from_epoch_seconds(NOW + 3);
    let error = aggregator.handle(event(&world.records).as_bytes(), deadline).await.expect_err(beginning);
    assert_eq!(error.kind(), ErrorKind::Configuration, "{beginning}");
}

#[tokio::test]
async fn the_invocation_fails_at_an_entry_a_transaction_and_a_lookup() {
    for (kind, beginning) in [("write", "LEDGER#"), ("transact", "ADMIN#"), ("write", "LOOKUP#")] {
        let mut world = EdgeWorld::new(ATTEMPTS);
        put_project(&mut world, "p1");
        world.put("CANDIDATE#c1", "ATTEMPT#t1", json!({ "project_id": { "S": "p1" } }));
        world.stream();
        assert_refused(ATTEMPTS, &world, kind, beginning).await;
    }
}

#[tokio::test]
async fn the_invocation_fails_at_a_mirror() {
    let mut world = EdgeWorld::new(SHOP);
    world.put("SHOP#s1", "SHOP", json!({ "stats": { "M": {} } }));
    world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "5" } }));
    world.stream();
    assert_refused(SHOP, &world, "write", "SHOP#").await;
    assert_eq!(world.shown("SHOP#s1", "SHOP", "stats.books"), None);
}
