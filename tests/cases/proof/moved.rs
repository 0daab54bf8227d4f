//! C6. An aggregate that counts the items of another entity now.

use std::sync::Arc;

use afterwrite_memory::MemoryTables;
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::table::Model;
use afterwrite_operations::backfill::BackfillArguments;
use afterwrite_operations::verify::{VerifiedPart, VerifyArguments};

use super::world::{ProofWorld, STATE, TABLE};

/// The model that counts the items of this entity. It has both entities.
fn model(generation: u32, of: &str) -> Arc<Model> {
    let source = format!(
        r#"
name = "moved"
generation = {generation}
[tables.{TABLE}]
key = ["pk"]
[entities.order]
key = {{ pk = "ORDER#{{id}}" }}
[entities.invoice]
key = {{ pk = "INVOICE#{{id}}" }}
[rollups.all]
key = {{ PK = "ALL", SK = "ROLLUP" }}
[[aggregates]]
name = "all"
of = "{of}"
into = "all"
measures.counted = "count"
"#
    );
    Arc::new(Model::parse(&source, "moved.toml").unwrap_or_else(|errors| panic!("{}", errors.into_error())))
}

fn counted(world: &ProofWorld) -> Option<AttributeValue<'static>> {
    MemoryTables::scan(&world.tables, STATE).iter().find_map(|row| row.get("counted").cloned())
}

#[tokio::test]
async fn c6_items_of_an_entity_that_nothing_counts_any_more_are_subtracted() {
    let orders = ProofWorld::new(0).with(model(1, "order"));
    for key in ["ORDER#1", "ORDER#2", "ORDER#3", "INVOICE#1"] {
        let item = Item::from([("pk".into(), AttributeValue::text(key))]);
        orders.tables.put(TABLE, item).unwrap();
    }
    orders.backfill(BackfillArguments::default()).await.unwrap();
    assert_eq!(counted(&orders), Some(AttributeValue::N(3_i64.into())));
    let invoices = orders.with(model(2, "invoice"));
    let before = invoices.verify(VerifyArguments::default()).await.unwrap();
    assert!(
        before.summary.unjudged.iter().any(|part| part.part == VerifiedPart::Items && part.looked_at == 3),
        "{before:#?}"
    );
    invoices.backfill(BackfillArguments::default()).await.unwrap();
    assert_eq!(counted(&invoices), Some(AttributeValue::N(1_i64.into())));
    let after = invoices.verify(VerifyArguments::default()).await.unwrap();
    assert_eq!((after.summary.unjudged, after.summary.drift), (vec![], 0));
}
