//! B2. Each of several items that show the count of one rollup is compared.

use std::sync::Arc;

use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::table::Model;
use afterwrite_operations::backfill::BackfillArguments;
use afterwrite_operations::verify::{FindingPlace, ThreeWayCheck, VerifyArguments};

use super::world::{ProofWorld, TABLE, keys};

const MODEL: &str = r##"
name = "shops"
generation = 1
[tables.Shop]
key = ["pk"]
[entities.order]
key = { pk = "ORDER#{order}" }
attributes = { shop = "S" }
[entities.shop]
key = { pk = "SHOP#{shop}" }
[entities.card]
key = { pk = "CARD#{shop}" }
[rollups.shop]
key = { PK = "SHOP#{shop}", SK = "ROLLUP" }
[rollups.all]
key = { PK = "ALL", SK = "ROLLUP" }
[[aggregates]]
name = "orders"
of = "order"
into = "shop"
measures.orders = "count"
[[aggregates]]
name = "shops"
of = "shop"
into = "all"
measures.shops = "count"
[[aggregates]]
name = "cards"
of = "card"
into = "all"
measures.cards = "count"
"##;

#[tokio::test]
async fn b2_every_item_that_shows_the_count_of_a_rollup_is_compared() {
    let model = Model::parse(MODEL, "shops.toml").unwrap_or_else(|errors| panic!("{}", errors.into_error()));
    let world = ProofWorld::new(0).with(Arc::new(model));
    let put = |key: &'static str, attribute: (&'static str, AttributeValue<'static>)| {
        let item = [("pk".into(), AttributeValue::text(key)), (attribute.0.into(), attribute.1)];
        world.tables.put(TABLE, Item::from(item)).unwrap();
    };
    put("ORDER#1", ("shop", AttributeValue::text("s1")));
    let three_way = || ThreeWayCheck {
        attribute: "count".to_owned(),
        rollup: "shop".to_owned(),
        measure: "orders".to_owned(),
    };
    world.backfill(BackfillArguments::default()).await.unwrap();
    for (shop, card) in [(7_i64, 1_i64), (1, 7)] {
        put("SHOP#s1", ("count", AttributeValue::N(shop.into())));
        put("CARD#s1", ("count", AttributeValue::N(card.into())));
        world.backfill(BackfillArguments::default()).await.unwrap();
        let arguments = VerifyArguments { three_way: Some(three_way()), ..VerifyArguments::default() };
        let report = world.verify(arguments).await.unwrap();
        let wrong = if shop == 1 { "CARD#s1" } else { "SHOP#s1" };
        assert_eq!(keys(&report.findings), [wrong], "{report:#?}");
        assert_eq!(report.findings[0].place(), FindingPlace::ThreeWay);
    }
}
