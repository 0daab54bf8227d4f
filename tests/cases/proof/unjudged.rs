//! B2. A verification that could judge nothing did not finish.

use std::sync::Arc;

use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::table::Model;
use afterwrite_operations::backfill::BackfillArguments;
use afterwrite_operations::verify::{
    ThreeWayCheck, UnjudgedPart, VerifiedPart, VerifyArguments, VerifyReport, unjudged_error,
};

use super::world::{ProofWorld, TABLE, model, model_of_orders};

fn parts(report: &VerifyReport) -> Vec<VerifiedPart> {
    report.summary.unjudged.iter().map(|unjudged| unjudged.part).collect()
}

#[tokio::test]
async fn b2_items_that_are_all_undecided_were_not_verified() {
    let world = ProofWorld::new(0);
    (0..20).for_each(|order| world.put_order(order, "nobody", 5));
    (0..10).for_each(|customer| {
        let key = Item::from([("pk".into(), AttributeValue::text(format!("CUSTOMER#{customer}")))]);
        world.tables.delete(&world.tables.key_of(TABLE, &key).unwrap()).unwrap();
    });
    let report = world.verify(VerifyArguments::default()).await.unwrap();
    assert_eq!((report.summary.items, report.summary.undecided, report.summary.drift), (20, 20, 0));
    let [UnjudgedPart { part, looked_at, cause, .. }] = report.summary.unjudged.as_slice() else {
        panic!("{report:#?}");
    };
    assert_eq!((*part, *looked_at), (VerifiedPart::Items, 20));
    let error = unjudged_error(&report.summary.unjudged).to_string();
    assert!(error.contains("items") && error.contains(cause.as_str()), "{error}");
}

#[tokio::test]
async fn b2_a_selection_of_nothing_was_not_verified() {
    let world = ProofWorld::new(20);
    world.backfill(BackfillArguments::default()).await.unwrap();
    let right = world.verify(VerifyArguments::default()).await.unwrap();
    assert_eq!((parts(&right), right.summary.items), (vec![], 30));

    let only = |name: &str| format!("{name}=nobody").parse().unwrap();
    let cases = [
        (
            VerifyArguments { only: Some(only("customer_id")), ..VerifyArguments::default() },
            "customer_id=nobody",
        ),
        (VerifyArguments { only: Some(only("unknown")), ..VerifyArguments::default() }, "unknown=nobody"),
        (VerifyArguments { sample: 1e-9, seed: 1, ..VerifyArguments::default() }, "--sample"),
    ];
    for (arguments, cause) in cases {
        let report = world.verify(arguments).await.unwrap();
        assert_eq!(parts(&report), [VerifiedPart::Everything], "{report:#?}");
        assert!(report.summary.unjudged[0].cause.contains(cause), "{report:#?}");
    }
}

#[tokio::test]
async fn b3_items_that_count_by_a_model_with_other_keys_were_not_verified() {
    let world = ProofWorld::new(20);
    world.backfill(BackfillArguments::default()).await.unwrap();
    // The same generation, with another key of the orders: their entries count, and no entity has them.
    let moved = world.with(model_of_orders(1, "PURCHASE", &["country"]));
    let report = moved.verify(VerifyArguments::default()).await.unwrap();
    assert_eq!((report.summary.items, report.summary.drift), (10, 0), "the customers: {report:#?}");
    let [UnjudgedPart { part, looked_at, cause, .. }] = report.summary.unjudged.as_slice() else {
        panic!("{report:#?}");
    };
    assert_eq!((*part, *looked_at), (VerifiedPart::Items, 20));
    assert!(cause.contains("`afterwrite backfill`") && cause.contains("--model"), "{cause}");
    moved.backfill(BackfillArguments::default()).await.unwrap();
    assert_eq!(parts(&moved.verify(VerifyArguments::default()).await.unwrap()), []);
}

#[tokio::test]
async fn b2_a_counter_that_no_item_shows_was_not_compared() {
    let world = ProofWorld::new(20);
    world.backfill(BackfillArguments::default()).await.unwrap();
    let three_way = ThreeWayCheck {
        attribute: "order_totl".to_owned(),
        rollup: world.model.rollups[0].name.to_string(),
        measure: "orders".to_owned(),
    };
    let arguments = VerifyArguments { three_way: Some(three_way), ..VerifyArguments::default() };
    let report = world.verify(arguments).await.unwrap();
    assert_eq!(parts(&report), [VerifiedPart::ThreeWay], "{report:#?}");
    assert!(report.summary.unjudged[0].cause.contains("order_totl"), "{report:#?}");
}

#[tokio::test]
async fn b2_an_entity_whose_lookups_are_all_unknown_was_not_verified() {
    let world = ProofWorld::new(20);
    world.backfill(BackfillArguments::default()).await.unwrap();
    let newer = world.with(model(2, &["country", "region"]));
    let report = newer.verify(VerifyArguments::default()).await.unwrap();
    assert_eq!(parts(&report), [VerifiedPart::Entity], "{report:#?}");
    assert_eq!(report.summary.unjudged[0].entity.as_deref(), Some("order"));
}

/// The aggregate that counts orders by each of their tags.
const BY_TAG: &str = r##"
name = "tags"
generation = 1

[tables.Shop]
key = ["pk"]

[entities.order]
key = { pk = "ORDER#{order_id}" }
attributes = { tags = "SS" }

[rollups.tag]
key = { PK = "TAG#{tag}", SK = "ROLLUP" }

[[aggregates]]
name = "orders_by_tag"
of = "order"
for_each = { tag = "tags" }
at_most = 5
into = "tag"
measures.orders = "count"
"##;

#[tokio::test]
async fn b2_an_element_of_for_each_selects_items_without_an_entry() {
    let model = Model::parse(BY_TAG, "tags.toml").unwrap_or_else(|errors| panic!("{}", errors.into_error()));
    let world = ProofWorld::new(0).with(Arc::new(model));
    let put = |order: &str| {
        let tags = AttributeValue::Ss(vec!["new".into()]);
        let item = Item::from([("pk".into(), AttributeValue::text(order)), ("tags".into(), tags)]);
        world.tables.put(TABLE, item).unwrap();
    };
    put("ORDER#1");
    world.backfill(BackfillArguments::default()).await.unwrap();
    // Nothing counts it: the rollup equals the ledger, and is wrong.
    put("ORDER#2");
    let only = "tag=new".parse().unwrap();
    let report =
        world.verify(VerifyArguments { only: Some(only), ..VerifyArguments::default() }).await.unwrap();
    assert_eq!((parts(&report), report.summary.drift), (vec![], 1), "{report:#?}");
    assert_eq!(world.verify(VerifyArguments::default()).await.unwrap().summary.drift, 1);
}

#[tokio::test]
async fn b2_a_tenant_by_a_lookup_has_entries_whose_items_do_not_exist() {
    let world = ProofWorld::new(20);
    world.backfill(BackfillArguments::default()).await.unwrap();
    let country = || Some("country=NO".parse().unwrap());
    let arguments = || VerifyArguments { only: country(), ..VerifyArguments::default() };
    let right = world.verify(arguments()).await.unwrap();
    assert_eq!((parts(&right), right.summary.drift), (vec![], 0), "{right:#?}");
    let key = Item::from([("pk".into(), AttributeValue::text("ORDER#7"))]);
    world.tables.delete(&world.tables.key_of(TABLE, &key).unwrap()).unwrap();
    // Only the entry shows that the order was the country's.
    let report = world.verify(arguments()).await.unwrap();
    assert_eq!((report.summary.drift, report.summary.items), (1, right.summary.items), "{report:#?}");
    let elsewhere = "customer=8".parse().unwrap();
    let others = VerifyArguments { only: Some(elsewhere), ..VerifyArguments::default() };
    assert_eq!(world.verify(others).await.unwrap().summary.drift, 0);
}
