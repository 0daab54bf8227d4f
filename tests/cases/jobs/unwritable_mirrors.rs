//! A8: a mirror that an item cannot take is named, and the job that could not write it ends with exit code 1.

use aws_sdk_dynamodb::types::AttributeValue;

use super::deployment::{ORDERS, STATE, Shop};

/// The shop itself shows the number of its orders.
const MIRROR: &str = r##"
[entities.shop]
table = "Orders"
key = { PK = "SHOP#{shop}", SK = "SHOP" }

[[mirrors]]
onto = "shop"
from = "shop"
attributes = { "shown.orders" = "orders" }
"##;

/// A shop with ten orders, whose first customer's item has a text where the mirror needs a map.
async fn shop_without_a_place_for_its_mirror() -> Shop {
    let shop = Shop::with_orders(10).await;
    let model = std::fs::read_to_string(shop.path("model.toml")).unwrap();
    std::fs::write(shop.path("model.toml"), format!("{model}{MIRROR}")).unwrap();
    set_shown(&shop, AttributeValue::S("nothing".to_owned())).await;
    shop
}

/// Writes the item of the first shop.
async fn set_shown(shop: &Shop, shown: AttributeValue) {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let put = shop.server.client().put_item().table_name(ORDERS);
    put.item("PK", text("SHOP#0")).item("SK", text("SHOP")).item("shown", shown).send().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a8_a_backfill_names_the_mirrors_that_it_cannot_write() {
    let shop = shop_without_a_place_for_its_mirror().await;
    let backfill = ["backfill", "--yes", "--without-recovery"];
    for more in [&[][..], &["--all"], &["--mirrors"]] {
        let text = shop.text(1, &[&backfill[..], more].concat());
        assert!(text.contains("a mirror cannot be written") && text.contains("SHOP#0"), "{more:?}: {text}");
    }
    assert_eq!(shop.counted().await, 10, "the orders are counted all the same");
    set_shown(&shop, AttributeValue::M(Default::default())).await;
    for more in [&["--mirrors"][..], &["--all"]] {
        let text = shop.text(0, &[&backfill[..], more].concat());
        assert!(!text.contains("cannot be written"), "{more:?}: {text}");
    }
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a8_a_repair_that_cannot_write_a_mirror_has_failed() {
    let shop = shop_without_a_place_for_its_mirror().await;
    shop.text(1, &["backfill", "--yes", "--without-recovery"]);
    shop.text(1, &["verify", "--tolerance", "0", "--report", "drift.jsonl"]);
    let repair = ["repair", "drift.jsonl", "--yes", "--without-recovery", "--tolerance", "0", "--json"];
    let log = shop.json(1, &repair);
    assert_eq!(
        (&log[0]["finding"]["place"], &log[0]["outcome"]),
        (&"mirror".into(), &"failed".into()),
        "{log}"
    );
    assert!(log[0]["action"].as_str().unwrap().contains("a mirror cannot be written"), "{log}");
    // The mirror of a rollup that a repair sets is written, too.
    let key = |text: &str| AttributeValue::S(text.to_owned());
    let update = shop.server.client().update_item().table_name(STATE);
    let update = update.key("PK", key("SHOP#0")).key("SK", key("TOTAL"));
    let update = update.update_expression("SET orders = :n");
    update.expression_attribute_values(":n", AttributeValue::N("99".to_owned())).send().await.unwrap();
    shop.text(1, &["verify", "--tolerance", "0", "--report", "drift.jsonl"]);
    let log = shop.json(1, &repair);
    let mut outcomes: Vec<_> = log
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line["finding"]["place"].as_str(), line["outcome"].as_str()))
        .collect();
    outcomes.sort();
    assert!(outcomes.contains(&(Some("rollup"), Some("repaired"))), "{log}");
    assert!(outcomes.contains(&(Some("mirror"), Some("failed"))), "{log}");
    shop.server.stop().await.unwrap();
}
