//! B2, C4. `max` and `min` are judged as long as their rollup lives, and a repair has a line for each finding.

use std::sync::Arc;

use afterwrite_memory::{MemoryObjects, MemoryTables};
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::table::Model;
use afterwrite_operations::backfill::BackfillArguments;
use afterwrite_operations::repair::{DriftRepairer, RepairOutcome, RepairTask};
use afterwrite_operations::verify::{FindingPlace, VerifyArguments, VerifyReport};

use super::world::{ProofWorld, STATE, TABLE, TOLERANCE};

const EXTREMES: &str = r##"
name = "extremes"
generation = 1
[tables.Shop]
key = ["pk"]
[entities.order]
key = { pk = "ORDER#{order}" }
attributes = { day = "S", amount = "N" }
[rollups.day]
key = { PK = "DAY#{day:day}", SK = "ALL" }
expires = { after = "30 days", of = "day" }
[[aggregates]]
name = "orders"
of = "order"
into = "day"
measures = { orders = "count", most = { max = "amount" }, least = { min = "amount" } }
"##;

/// Two orders of two days, counted. The clock shows 2026-02-06: the rollup of the second day has expired.
async fn world() -> ProofWorld {
    let model =
        Model::parse(EXTREMES, "extremes.toml").unwrap_or_else(|errors| panic!("{}", errors.into_error()));
    let world = ProofWorld::new(0).with(Arc::new(model));
    for (order, day) in [("ORDER#1", "2026-02-05T10:00:00Z"), ("ORDER#2", "2026-01-07T10:00:00Z")] {
        let item = Item::from([
            ("pk".into(), AttributeValue::text(order)),
            ("day".into(), AttributeValue::text(day)),
            ("amount".into(), AttributeValue::N(5_i64.into())),
        ]);
        world.tables.put(TABLE, item).unwrap();
    }
    world.backfill(BackfillArguments::default()).await.unwrap();
    world
}

async fn verify(world: &ProofWorld) -> VerifyReport {
    world.verify(VerifyArguments::default()).await.unwrap()
}

/// Changes the extremes of all rollups.
fn set(world: &ProofWorld, change: impl Fn(&mut Item)) {
    for mut row in MemoryTables::scan(&world.tables, STATE) {
        if row.get("EntityType") == Some(&AttributeValue::text("ROLLUP")) {
            change(&mut row);
            world.tables.put(STATE, row).unwrap();
        }
    }
}

#[tokio::test]
async fn b2_extremes_of_a_rollup_that_expires_later_are_judged() {
    let world = world().await;
    assert_eq!(verify(&world).await.summary.drift, 0);
    set(&world, |row| {
        row.insert("most".into(), AttributeValue::N(1_i64.into()));
        row.remove("least");
    });
    let report = verify(&world).await;
    let found: Vec<_> =
        report.findings.iter().map(|finding| (finding.place(), finding.subject.key().1.join("/"))).collect();
    let extreme = (FindingPlace::Extreme, "ORDER#1".to_owned());
    assert_eq!(found, [extreme.clone(), extreme]);
}

#[tokio::test]
async fn c4_a_repair_has_a_line_for_each_finding_of_an_item() {
    let world = world().await;
    set(&world, |row| {
        row.remove("most");
        row.remove("least");
    });
    let findings = verify(&world).await.findings;
    assert_eq!(findings.len(), 2);
    // One of the two is right again before the repair begins.
    set(&world, |row| drop(row.insert("most".into(), AttributeValue::N(5_i64.into()))));
    let repairer = DriftRepairer::new(world.context(), TOLERANCE);
    let task: RepairTask<Arc<MemoryObjects>, _, _> = RepairTask::new(repairer, None, "repair", &findings);
    let log = task.run().await.unwrap();
    let mut outcomes: Vec<(RepairOutcome, bool)> = log
        .iter()
        .map(|entry| (entry.outcome, entry.finding.values.keys().any(|name| name.ends_with("least"))))
        .collect();
    outcomes.sort_by_key(|(_, is_least)| *is_least);
    assert_eq!(outcomes, [(RepairOutcome::AlreadyRight, false), (RepairOutcome::Repaired, true)], "{log:#?}");
    assert_eq!(verify(&world).await.findings, []);
}
