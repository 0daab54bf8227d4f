//! Given these images, expect these keys and paths.

use proptest::prelude::*;

use super::*;
use crate::entity::SourceKey;
use crate::record::{AttributeValue, Item};
use crate::table::CacheRemedy;

const MODEL: &str = r##"
name = "shop"
generation = 1
[tables.t]
key = ["PK", "SK"]
[entities.product]
key = { PK = "SHOP#{shop}", SK = "PRODUCT#{id}" }
attributes = { group = "S", live = "BOOL", price = "N", sold_at = "S" }
[[caches]]
of = "product"
keys = ["product:{id}", "group:{group}"]
paths = ["/p/{id}", "/g/{group}/*"]
[[caches]]
of = "product"
keys = ["shop:{shop}:live"]
when.live = [true]
remedy = { tombstone = "5s" }
[[caches]]
of = "product"
keys = ["shop:{shop}:prices"]
depends_on = ["price"]
remedy = "generation"
"##;

fn item(attributes: &[(&str, AttributeValue<'static>)]) -> Item {
    attributes.iter().map(|(name, value)| ((*name).to_owned().into(), value.clone())).collect()
}

/// The cache keys and paths that the change of product `id` makes stale.
fn stale(id: &str, old: Option<&Item>, new: Option<&Item>) -> StaleCaches {
    let model = Model::parse(MODEL, "shop.toml").unwrap_or_else(|problems| panic!("{problems}"));
    let sort = format!("PRODUCT#{id}");
    let key = SourceKey { table: 0, partition: "SHOP#s".into(), sort: Some(sort.into()) };
    let candidates = key.candidates(&model);
    let [old, new] = [old, new].map(|item| item.map(|item| Image::from_item(item, &model.attributes)));
    let mut stale = StaleCaches::default();
    stale.add(&candidates, 7, (old.as_ref(), new.as_ref()));
    stale
}

fn keys(stale: &StaleCaches) -> Vec<String> {
    stale.keys().map(|stale| stale.key).collect()
}

fn paths(stale: &StaleCaches) -> Vec<String> {
    stale.paths().keys().cloned().collect()
}

#[test]
fn keys_and_paths_come_from_the_old_and_the_new_image() {
    let (old, new) = (item(&[("group", "a".into())]), item(&[("group", "b".into())]));
    let stale = stale("1", Some(&old), Some(&new));
    assert_eq!(keys(&stale), ["group:a", "group:b", "product:1"]);
    assert_eq!(paths(&stale), ["/g/a/*", "/g/b/*", "/p/1"]);
    assert!(stale.keys().all(|key| key.records == [7] && key.remedy == CacheRemedy::Delete));
}

#[test]
fn a_condition_is_tested_on_each_image() {
    let (live, dead) = (item(&[("live", AttributeValue::Bool(true))]), item(&[]));
    for (old, new) in [(Some(&live), Some(&dead)), (Some(&dead), Some(&live)), (None, Some(&live))] {
        assert!(keys(&stale("1", old, new)).contains(&"shop:s:live".to_owned()));
    }
    assert!(!keys(&stale("1", Some(&dead), Some(&dead))).contains(&"shop:s:live".to_owned()));
}

#[test]
fn a_rule_is_affected_by_the_attributes_it_depends_on_and_by_creation_and_removal() {
    let price = |price: i64| item(&[("price", AttributeValue::N(price.into()))]);
    let has = |old: Option<&Item>, new: Option<&Item>| {
        keys(&stale("1", old, new)).contains(&"shop:s:prices".to_owned())
    };
    assert!(!has(Some(&price(1)), Some(&price(1))));
    assert!(has(Some(&price(1)), Some(&price(2))));
    assert!(has(Some(&price(1)), Some(&item(&[]))));
    assert!(has(None, Some(&price(1))) && has(Some(&price(1)), None));
}

#[test]
fn a_key_without_its_value_is_skipped_and_a_value_of_another_type_is_written_as_it_is() {
    assert_eq!(keys(&stale("1", None, Some(&item(&[])))), ["product:1", "shop:s:prices"]);
    let null = item(&[("group", AttributeValue::Null)]);
    assert_eq!(keys(&stale("1", None, Some(&null))), ["product:1", "shop:s:prices"]);
    let list = item(&[("group", AttributeValue::L(Vec::new()))]);
    assert_eq!(keys(&stale("1", None, Some(&list))), ["product:1", "shop:s:prices"]);
    let number = item(&[("group", AttributeValue::N(5.into())), ("live", AttributeValue::text("yes"))]);
    assert_eq!(keys(&stale("1", None, Some(&number))), ["group:5", "product:1", "shop:s:prices"]);
}

#[test]
fn the_stronger_of_two_remedies_wins() {
    let tombstone = |seconds| CacheRemedy::Tombstone(std::time::Duration::from_secs(seconds));
    let named =
        [(tombstone(5), 2), (CacheRemedy::Delete, 1), (CacheRemedy::Generation, 1), (tombstone(9), 3)];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]] {
        let mut stale = StaleCaches::default();
        for (remedy, record) in order.map(|index: usize| named[index]) {
            stale.add_key("k".to_owned(), remedy, 0, record);
        }
        let remedies: Vec<_> = stale.keys().map(|key| (key.remedy, key.records)).collect();
        assert_eq!(remedies, [(tombstone(9), vec![1, 2, 3]), (CacheRemedy::Generation, vec![1])]);
    }
}

#[test]
fn values_never_become_a_wildcard_or_a_second_path() {
    let long = "ü/".repeat(2_000);
    for (id, encoded) in [
        ("*", "%2A"),
        ("a/*", "a%2F%2A"),
        ("../x", "..%2Fx"),
        ("100%", "100%25"),
        ("a b\r\nDEL x", "a%20b%0D%0ADEL%20x"),
        ("\0\u{1}\u{7f}", "%00%01%7F"),
        ("試験?q=1#f", "%E8%A9%A6%E9%A8%93%3Fq=1%23f"),
        ("A-z_0.9~", "A-z_0.9%7E"),
        ("team:42@x=1&(a,b)!$+';", "team:42@x=1&(a,b)!$+';"),
        ("<\"{|}\\^[]`>", "%3C%22%7B%7C%7D%5C%5E%5B%5D%60%3E"),
        (&*long, &*"%C3%BC%2F".repeat(2_000)),
    ] {
        let stale = stale(id, None, Some(&item(&[])));
        assert_eq!(paths(&stale), [format!("/p/{encoded}")]);
        assert_eq!(
            keys(&stale).first(),
            Some(&format!("product:{id}")),
            "a key contains the value unchanged"
        );
    }
}

proptest! {
    #[test]
    fn any_value_can_be_read_back_from_its_path(id in "\\PC{1,40}|[\\x00-\\x7f]{1,40}") {
        let stale = stale(&id, None, Some(&item(&[])));
        let [path] = paths(&stale).try_into().unwrap();
        let value = path.strip_prefix("/p/").unwrap();
        prop_assert!(value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"$-_.+!'(),;:@&=%".contains(&byte)));
        let decoded = percent_encoding::percent_decode_str(value).decode_utf8().unwrap();
        prop_assert_eq!(&*decoded, &*id);
        let key = format!("product:{id}");
        prop_assert!(keys(&stale).contains(&key));
    }
}
