//! Given the zone that an item states, expect these keys, days and expiries.

use super::*;
use crate::entity::SourceKey;
use crate::record::{Image, Item};
use crate::table::{MeasureKind, Model};

const MODEL: &str = r#"
name = "orders"
generation = 1
tables.t.key = ["pk"]
[entities.order]
key = { pk = "ORDER#{order_id}" }
attributes = { placed_at = "any", tz = "any", "place.zone" = "S", site = "S" }
derive.zone = { first = ["place.zone", "site"] }
[entities.city]
key = { pk = "CITY#{city}" }
attributes = { time_zone = "S" }
[rollups.day]
key = { PK = "DAY#{placed_at:day@tz}", SK = "ROLLUP" }
expires = { after = "1 days", of = "placed_at" }
[rollups.hour]
key = { PK = "HOUR#{at:hour@there}", SK = "ROLLUP" }
[[aggregates]]
name = "days"
of = "order"
into = "day"
[aggregates.measures]
orders = "count"
last = { max = "placed_at:day@tz" }
[[aggregates]]
name = "hours"
of = "order"
into = "hour"
bind = { at = "placed_at", there = "zone" }
measures.orders = "count"
[[caches]]
of = "order"
keys = ["orders:{placed_at:week@tz}"]
[datasets.orders]
of = "order"
partition = "placed_at:day@tz"
columns.order_id = "string"
"#;

fn with_order<T>(attributes: &[(&str, &str)], read: impl FnOnce(&Model, &ImageScope<'_, '_>) -> T) -> T {
    let model = Model::parse(MODEL, "orders.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let key = SourceKey { table: 0, partition: "ORDER#1".into(), sort: None };
    let item: Item = attributes
        .iter()
        .map(|(name, value)| ((*name).to_owned().into(), AttributeValue::text((*value).to_owned())))
        .collect();
    let image = Image::from_item(&item, &model.row_attributes);
    let identity = key.identify(&model, &image).expect("an order");
    read(&model, &ImageScope::of(&model, &identity, &image))
}

/// The partition key of the first rollup of an aggregate, and its expiry.
fn key(aggregate: usize, attributes: &[(&str, &str)]) -> Result<(String, Option<String>)> {
    with_order(attributes, |model, scope| {
        let destination = &model.aggregates[aggregate].into[0];
        let mut key = String::new();
        scope.render_rollup(&destination.partition, model.rollups[destination.rollup].keys, &mut key)?;
        let expires = destination.expires.as_ref().map(|expiry| scope.expiry(expiry));
        Ok((key, expires.transpose()?.map(|time| time.to_string())))
    })
}

#[test]
fn each_item_has_its_own_calendar() {
    // All items of a rollup expire at one time, whatever their zones.
    for (zone, day, expires) in [
        ("UTC", "2026-02-06", "2026-02-07T00:00:00Z"),
        ("Europe/Berlin", "2026-02-07", "2026-02-08T00:00:00Z"),
        ("America/Los_Angeles", "2026-02-06", "2026-02-07T00:00:00Z"),
        ("Asia/Kolkata", "2026-02-07", "2026-02-08T00:00:00Z"),
        ("Pacific/Kiritimati", "2026-02-07", "2026-02-08T00:00:00Z"),
    ] {
        let order = [("placed_at", "2026-02-06T23:30:00Z"), ("tz", zone)];
        assert_eq!(key(0, &order).unwrap(), (format!("DAY#{day}"), Some(expires.to_owned())), "{zone}");
        let last = with_order(&order, |model, scope| {
            let MeasureKind::Max(of, format, _) = &model.aggregates[0].measures[1].kind else {
                panic!("no max")
            };
            scope.extreme(of, format).unwrap()
        });
        assert_eq!(last, Some(AttributeValue::text(day)), "{zone}");
    }
}

#[test]
fn a_zone_can_be_derived_and_bound() {
    let order = [("placed_at", "2026-07-06T22:30:00Z"), ("site", "Asia/Tokyo")];
    assert_eq!(key(1, &order).unwrap().0, "HOUR#2026-07-07T07");
}

#[test]
fn a_zone_that_does_not_exist_is_a_misfit() {
    let placed = ("placed_at", "2026-02-06T23:30:00Z");
    for (zone, problem) in [
        ("Europe/Berlyn", "attribute `tz` is not the name of a time zone of the IANA database"),
        ("europe/berlin", "attribute `tz` is not the name of a time zone of the IANA database"),
        ("", "attribute `tz` is not the name of a time zone of the IANA database"),
    ] {
        let error = key(0, &[placed, ("tz", zone)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Record);
        assert!(error.to_string().starts_with(problem), "{error}");
        assert!(zone.is_empty() || !format!("{error:?}").contains(zone), "an error has no values of items");
    }
    let error = key(0, &[placed]).unwrap_err();
    let problem = "attribute `tz` is missing or NULL, and should be a time zone";
    assert!(error.to_string().starts_with(problem), "{error}");
    let error = key(1, &[placed]).unwrap_err();
    assert!(error.to_string().starts_with("derived value `zone` is missing"), "{error}");
}

#[test]
fn a_cache_key_without_a_zone_is_left_out() {
    let text = |attributes: &[(&str, &str)]| {
        with_order(attributes, |model, scope| {
            let BoundPiece::Value(term, format) = &model.caches[0].keys[0].pieces[1] else {
                panic!("no value")
            };
            scope.text(term, format).map(|text| text.map(std::borrow::Cow::into_owned))
        })
    };
    let placed = ("placed_at", "2026-02-08T23:30:00Z");
    assert_eq!(text(&[placed, ("tz", "Europe/Berlin")]).unwrap().as_deref(), Some("2026-W07"));
    assert_eq!(text(&[placed, ("tz", "UTC")]).unwrap().as_deref(), Some("2026-W06"));
    assert_eq!(text(&[placed]).unwrap(), None);
    assert!(text(&[placed, ("tz", "Berlin")]).is_err());
}
