//! Zones that items state, and lookups through indexes with several key attributes: the same numbers on every way.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_model::table::Model;
use serde_json::{Value, json};

use super::world::{CountingWorld, Rollups, item, model};

/// Orders count on the day in their city, which is found by its country, its region and its number.
fn orders(treatment: &str) -> Arc<Model> {
    model(&format!(
        r##"
        tables.app.indexes.ByPlace = {{ key = [["country", "region"], ["number", "name"]], types = {{ number = "N" }} }}
        [entities.city]
        key = {{ PK = "CITY#{{city}}", SK = "CITY" }}
        attributes = {{ country = "S", region = "S", number = "N", name = "S", zone = "S" }}
        [entities.order]
        key = {{ PK = "ORDERS", SK = "ORDER#{{order}}" }}
        attributes = {{ country = "S", region = "S", number = "N", placed_at = "S", tz = "S" }}
        [lookups.place]
        of = "city"
        index = "ByPlace"
        key = {{ country = "{{country}}", region = "{{region}}", number = "{{number}}" }}
        gives = ["zone", "city"]
        [rollups.day]
        key = {{ PK = "DAY#{{placed_at:day@zone}}", SK = "ROLLUP" }}
        [rollups.city]
        key = {{ PK = "CITY_OF#{{city}}", SK = "ROLLUP" }}
        [[aggregates]]
        name = "by_city"
        of = "order"
        lookup = "place"
        into = ["day", "city"]
        {treatment}
        measures.orders = "count"
        [[aggregates]]
        name = "by_zone"
        of = "order"
        into = "day"
        bind.zone = "tz"
        when.tz = [{{ exists = true }}]
        {treatment}
        measures.by_own_zone = "count"
        "##
    ))
}

fn city(name: &str, number: &str, zone: &str) -> Value {
    let place = json!({ "country": { "S": "x" }, "region": { "S": "r" }, "number": { "N": number }, "name": { "S": name }, "zone": { "S": zone } });
    item(&format!("CITY#{name}"), "CITY", place)
}

fn order(id: &str, number: &str, zone: Option<&str>) -> Value {
    let mut order = json!({ "country": { "S": "x" }, "region": { "S": "r" }, "number": { "N": number }, "placed_at": { "S": "2026-02-06T23:30:00Z" } });
    if let Some(zone) = zone {
        order["tz"] = json!({ "S": zone });
    }
    item("ORDERS", &format!("ORDER#{id}"), order)
}

fn items() -> Vec<Value> {
    // The other region has the same number.
    let mut elsewhere = city("elsewhere", "1", "UTC");
    elsewhere["region"] = json!({ "S": "other" });
    vec![
        elsewhere,
        city("tokyo", "1", "Asia/Tokyo"),
        city("lima", "2", "America/Lima"),
        order("1", "1", Some("Europe/Berlin")),
        order("2", "2", Some("America/Lima")),
        order("3", "2", None),
    ]
}

fn expected() -> Rollups {
    let rollup = |key: &str, measures: &[(&str, &str)]| {
        let measures = measures.iter().map(|(name, number)| ((*name).to_owned(), (*number).to_owned()));
        (format!("{key} / ROLLUP"), measures.collect::<BTreeMap<_, _>>())
    };
    BTreeMap::from([
        rollup("DAY#2026-02-07", &[("orders", "1"), ("by_own_zone", "1")]),
        rollup("DAY#2026-02-06", &[("orders", "2"), ("by_own_zone", "1")]),
        rollup("CITY_OF#tokyo", &[("orders", "1")]),
        rollup("CITY_OF#lima", &[("orders", "2")]),
    ])
}

#[tokio::test]
async fn each_item_counts_on_the_day_of_its_own_zone_on_every_way() {
    let model = orders("");
    let mut world = CountingWorld::new(&model);
    let records: Vec<Value> = items().iter().map(|item| world.insert(item)).collect();
    let batch = world.deliver(&records).await;
    assert_eq!((world.rollups(), batch.failures.len()), (expected(), 0));
    assert!(world.verify().await.findings.is_empty());

    let filled = CountingWorld::with(&model, &items());
    filled.backfill(false).await;
    assert_eq!(filled.rollups(), expected());
    assert!(filled.verify().await.findings.is_empty());

    let (imported, _) = CountingWorld::with(&model, &items()).bulk(&items()).await;
    assert_eq!(imported, expected());
}

#[tokio::test]
async fn a_zone_that_does_not_exist_is_a_misfit_on_every_way() {
    let mars = order("4", "1", Some("Mars/Olympus"));
    let model = orders("on_misfit = \"skip\"");
    let mut skipping = CountingWorld::new(&model);
    let records: Vec<Value> = items().iter().chain([&mars]).map(|item| skipping.insert(item)).collect();
    skipping.deliver(&records).await;
    let mut with_mars = expected();
    for key in ["DAY#2026-02-07 / ROLLUP", "CITY_OF#tokyo / ROLLUP"] {
        with_mars.get_mut(key).unwrap().insert("orders".to_owned(), "2".to_owned());
    }
    assert_eq!((skipping.rollups(), skipping.parked()), (with_mars, 0));

    let mut parking = CountingWorld::new(&orders(""));
    let records: Vec<Value> = items().iter().chain([&mars]).map(|item| parking.insert(item)).collect();
    parking.deliver(&records).await;
    assert_eq!((parking.rollups(), parking.parked()), (expected(), 1));
    let corrected = order("4", "1", Some("Europe/Paris"));
    let record = parking.record(Some(&mars), Some(&corrected));
    parking.put(&corrected);
    parking.deliver(&[record]).await;
    let own = parking.rollups()["DAY#2026-02-07 / ROLLUP"]["by_own_zone"].clone();
    assert_eq!((own.as_str(), parking.parked()), ("2", 0));
}
