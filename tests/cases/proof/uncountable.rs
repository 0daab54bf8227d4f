//! Items that cannot be counted as they are: undecided, not drift, and nobody waits for them.

use std::sync::Arc;

use afterwrite_memory::MemoryObjects;
use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::table::Model;
use afterwrite_operations::backfill::BackfillArguments;
use afterwrite_operations::repair::{DriftRepairer, RepairTask};
use afterwrite_operations::verify::VerifyArguments;

use super::world::{ProofWorld, TABLE, TOLERANCE};

const PETS: &str = r##"
name = "pets"
generation = 1
[tables.Shop]
key = ["pk"]
[entities.order]
key = { pk = "ORDER#{order}" }
attributes = { pet = "S", amount = "N" }
[rollups.pet]
key = { PK = "PETS", SK = "PET#{pet}" }
[[aggregates]]
name = "orders"
of = "order"
into = "pet"
measures = { orders = "count", amount = { sum = "amount" } }
"##;

/// An order that is counted, one with a key of a rollup that is longer than DynamoDB allows, and one with a text in place of a number.
async fn world() -> ProofWorld {
    let model = Model::parse(PETS, "pets.toml").unwrap_or_else(|errors| panic!("{}", errors.into_error()));
    let world = ProofWorld::new(0).with(Arc::new(model));
    let long = "p".repeat(1_100);
    let five = AttributeValue::N(5_i64.into());
    for (order, pet, amount) in [
        ("ORDER#1", "Rex", five.clone()),
        ("ORDER#2", &*long, five),
        ("ORDER#3", "Rex", AttributeValue::text("five")),
    ] {
        let item = Item::from([
            ("pk".into(), AttributeValue::text(order)),
            ("pet".into(), AttributeValue::text(pet)),
            ("amount".into(), amount),
        ]);
        world.tables.put(TABLE, item).unwrap();
    }
    // The items that cannot be counted are reported and left.
    let _ = world.backfill(BackfillArguments::default()).await;
    world
}

#[tokio::test]
async fn an_item_whose_rollup_would_have_a_key_that_is_too_long_is_undecided() {
    let world = world().await;
    let report = world.verify(VerifyArguments::default()).await.unwrap();
    let summary = &report.summary;
    assert_eq!((summary.drift, summary.undecided), (0, 2), "{:#?}", report.findings);
    for finding in &report.findings {
        let cause = finding.cause.as_deref().unwrap_or_default();
        assert!(cause.contains("the item cannot be counted (RecordError): "), "{finding:?}");
    }
}

#[tokio::test]
async fn a_repair_waits_for_no_item_that_cannot_be_counted() {
    let world = world().await;
    let findings = world.verify(VerifyArguments::default()).await.unwrap().findings;
    let began = world.clock.now();
    let repairer = DriftRepairer::new(world.context(), TOLERANCE);
    let task: RepairTask<Arc<MemoryObjects>, _, _> = RepairTask::new(repairer, None, "repair", &findings);
    let log = task.run().await.unwrap();
    assert_eq!(log.len(), 2, "{log:#?}");
    assert!(world.clock.now().since(began) < TOLERANCE, "{:?}", world.clock.now().since(began));
}
