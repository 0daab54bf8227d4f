//! Given an item with a list, a set or a map, expect these contributions of its elements.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::entity::SourceKey;
use crate::projection::{ItemContributions, KnownLookups, LookupKey, LookupOutputs, contributions};
use crate::record::{Decimal, Image, Item};
use crate::table::Model;

/// A model of orders with these attributes, rollups and this aggregate.
fn model(aggregate: &str) -> Arc<Model> {
    let source = format!(
        r##"
        name = "orders"
        generation = 1
        tables.t.key = ["PK"]
        [entities.order]
        key = {{ PK = "ORDER#{{order_id}}" }}
        attributes = {{ lines = "L", labels = "SS", sizes = "NS", stock = "M", any = "any", category = "S", day = "S", shop = "S" }}
        [entities.shop]
        key = {{ PK = "SHOP#{{shop}}" }}
        attributes = {{ city = "S" }}
        [lookups.shop]
        of = "shop"
        index = "GSI1"
        key = {{ GSI1PK = "SHOP#{{shop}}" }}
        gives = ["city"]
        [rollups.product]
        key = {{ PK = "PRODUCT#{{line.sku}}", SK = "ROLLUP" }}
        [rollups.label]
        key = {{ PK = "LABEL#{{line}}", SK = "ROLLUP" }}
        [rollups.place]
        key = {{ PK = "PLACE#{{line.key}}", SK = "ROLLUP" }}
        [rollups.category]
        key = {{ PK = "CATEGORY#{{category}}", SK = "ROLLUP" }}
        [rollups.day]
        key = {{ PK = "DAY#{{day:day}}", SK = "ROLLUP" }}
        [[aggregates]]
        name = "counted"
        of = "order"
        {aggregate}
        "##
    );
    Arc::new(Model::parse(&source, "orders.toml").unwrap_or_else(|errors| panic!("{errors}")))
}

/// A lookup never finds anything.
struct NoLookups;

impl KnownLookups for NoLookups {
    fn outputs(&self, _: &LookupKey<'_>) -> Option<&LookupOutputs> {
        None
    }
}

type Attributes<'v> = [(&'v str, AttributeValue<'static>)];

/// The contributions of an order: `PK measure` and the number.
fn counted(aggregate: &str, attributes: &Attributes<'_>) -> Result<Vec<(String, String)>> {
    Ok(projected(&model(aggregate), attributes)?.0)
}

/// Contributions, extremes, and the number of skipped items.
type Projected = (Vec<(String, String)>, Vec<(String, AttributeValue<'static>)>, u64);

fn projected(model: &Arc<Model>, attributes: &Attributes<'_>) -> Result<Projected> {
    let key = SourceKey { table: 0, partition: "ORDER#o1".into(), sort: None };
    let candidates = key.candidates(model);
    let item: Item =
        attributes.iter().map(|(name, value)| ((*name).to_owned().into(), value.clone())).collect();
    let image = Image::from_item(&item, &model.attributes);
    let sharding = ShardAssignment { source: &key, current: &ItemContributions::NOTHING };
    let mut targets = RollupTargets::of(model);
    let projection = contributions(model, &candidates, (&image, &[]), &NoLookups, sharding, &mut targets)?;
    let name = |target, measure: &str| format!("{} {measure}", targets.get(target).partition);
    let shares = projection.contributions.by_aggregate.iter();
    let counted = shares.flat_map(|share| {
        share.targets.iter().flat_map(|target| {
            share.measures.iter().map(|(measure, number)| (name(*target, measure), number.to_string()))
        })
    });
    let extremes = projection.extremes.iter();
    let extremes = extremes.map(|extreme| (name(extreme.target, &extreme.measure), extreme.value.clone()));
    Ok((counted.collect(), extremes.collect(), projection.skipped))
}

fn misfit(aggregate: &str, attributes: &Attributes<'_>) -> String {
    let error = counted(aggregate, attributes).expect_err("a misfit");
    assert_eq!(error.kind(), ErrorKind::Record);
    error.to_string()
}

fn number(text: &str) -> AttributeValue<'static> {
    AttributeValue::N(text.parse().expect("a number"))
}

fn map(members: &Attributes<'_>) -> AttributeValue<'static> {
    let members = members.iter().map(|(name, value)| ((*name).to_owned().into(), value.clone()));
    AttributeValue::M(members.collect())
}

fn line(sku: &str, quantity: i64) -> AttributeValue<'static> {
    map(&[("sku", AttributeValue::text(sku)), ("quantity", Decimal::from(quantity).into())])
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, number)| ((*name).to_owned(), (*number).to_owned())).collect()
}

const BY_PRODUCT: &str = r#"
    into = "product"
    for_each = { line = "lines" }
    at_most = 4
    measures = { lines = "count", units = { sum = "line.quantity" }, largest = { max = "line.quantity" } }
"#;

#[test]
fn lines_of_one_product_add_up_and_contributions_are_in_the_order_of_keys() {
    let lines = AttributeValue::L(vec![line("pen", 2), line("ink", 1), line("pen", 5)]);
    let (counted, extremes, _) = projected(&model(BY_PRODUCT), &[("lines", lines)]).unwrap();
    let expected = [
        ("PRODUCT#ink lines", "1"),
        ("PRODUCT#ink units", "1"),
        ("PRODUCT#pen lines", "2"),
        ("PRODUCT#pen units", "7"),
    ];
    assert_eq!(counted, pairs(&expected));
    let expected = [("PRODUCT#pen largest", "5"), ("PRODUCT#ink largest", "1")];
    assert_eq!(extremes, expected.map(|(name, value)| (name.to_owned(), number(value))));
}

#[test]
fn the_largest_of_as_many_lines_as_are_allowed_is_found_wherever_it_is() {
    for place in 0..4 {
        let lines = (0..4).map(|line_place| line("pen", if line_place == place { 9 } else { line_place }));
        let order = [("lines", AttributeValue::L(lines.collect()))];
        let (_, extremes, _) = projected(&model(BY_PRODUCT), &order).unwrap();
        assert_eq!(extremes, [("PRODUCT#pen largest".to_owned(), number("9"))]);
    }
}

#[test]
fn sums_that_cancel_out_are_left_out() {
    let units = "into = 'product'\nfor_each = { line = 'lines' }\nat_most = 4\nmeasures.units = { sum = 'line.quantity' }";
    let lines = AttributeValue::L(vec![line("pen", 2), line("ink", 1), line("pen", -2)]);
    assert_eq!(counted(units, &[("lines", lines)]).unwrap(), pairs(&[("PRODUCT#ink units", "1")]));
}

#[test]
fn an_item_without_elements_counts_nothing_and_needs_no_lookup() {
    // The only key of a lookup that could be needed is that of an order with lines.
    let with_lookup = format!("lookup = 'shop'\nwhen.city = ['Bern']\n{BY_PRODUCT}");
    for lines in [None, Some(AttributeValue::Null), Some(AttributeValue::L(Vec::new()))] {
        let item: Vec<_> = lines.into_iter().map(|lines| ("lines", lines)).collect();
        assert_eq!(counted(BY_PRODUCT, &item).unwrap(), []);
        assert_eq!(counted(&with_lookup, &item).unwrap(), []);
    }
    let with_line = [("lines", AttributeValue::L(vec![line("pen", 1)])), ("shop", "s".into())];
    assert_eq!(counted(&with_lookup, &with_line).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn elements_of_sets_are_the_element_itself() {
    let labels = "into = 'label'\nfor_each = { line = 'labels' }\nat_most = 4\nmeasures.items = 'count'";
    let set = AttributeValue::Ss(vec!["b".into(), "a".into()]);
    let expected = pairs(&[("LABEL#a items", "1"), ("LABEL#b items", "1")]);
    assert_eq!(counted(labels, &[("labels", set)]).unwrap(), expected);
    let sizes =
        "into = 'label'\nfor_each = { line = 'sizes' }\nat_most = 4\nmeasures.total = { sum = ['line', 2] }";
    let set = AttributeValue::Ns(vec![Decimal::from(3), Decimal::from(7)]);
    let expected = pairs(&[("LABEL#3 total", "6"), ("LABEL#7 total", "14")]);
    assert_eq!(counted(sizes, &[("sizes", set)]).unwrap(), expected);
}

#[test]
fn members_of_a_map_have_a_key_and_a_value() {
    let places =
        "into = 'place'\nfor_each = { line = 'stock' }\nat_most = 4\nmeasures.units = { sum = 'line.value' }";
    let stock = map(&[("bern", number("3")), ("chur", number("0.5"))]);
    let expected = pairs(&[("PLACE#bern units", "3"), ("PLACE#chur units", "0.5")]);
    assert_eq!(counted(places, &[("stock", stock)]).unwrap(), expected);
    let nested = places.replace("line.value", "line.value.free");
    let stock = map(&[("bern", map(&[("free", number("2"))])), ("chur", map(&[]))]);
    assert_eq!(counted(&nested, &[("stock", stock)]).unwrap(), pairs(&[("PLACE#bern units", "2")]));
}

#[test]
fn conditions_are_on_the_element_and_on_its_item() {
    let aggregate = r#"
        into = "product"
        for_each = { line = "lines" }
        at_most = 4
        when = { "line.quantity" = [{ numeric = [">", 1] }], category = ["tools"] }
        measures = { lines = "count", many = { count = true, when."line.quantity" = [{ numeric = [">", 4] }] } }
    "#;
    let lines = AttributeValue::L(vec![line("pen", 2), line("ink", 1), line("pen", 5)]);
    let order = |category: &str| [("lines", lines.clone()), ("category", AttributeValue::text(category))];
    let expected = pairs(&[("PRODUCT#pen lines", "2"), ("PRODUCT#pen many", "1")]);
    assert_eq!(counted(aggregate, &order("tools")).unwrap(), expected);
    assert_eq!(counted(aggregate, &order("food")).unwrap(), []);
}

#[test]
fn a_misfit_of_an_element_is_one_of_the_item() {
    let lines = |line: AttributeValue<'static>| [("lines", AttributeValue::L(vec![line]))];
    let text = misfit(BY_PRODUCT, &lines(map(&[("sku", number("1")), ("quantity", "secret".into())])));
    assert!(text.contains("element `line.quantity`") && !text.contains("secret"), "{text}");
    assert!(misfit(BY_PRODUCT, &lines(map(&[]))).contains("element `line.sku` is missing"));
    assert!(
        misfit(BY_PRODUCT, &[("lines", AttributeValue::text("pen"))])
            .contains("must be of type L and is of type S")
    );
    let five = AttributeValue::L((0..5).map(|_| line("pen", 1)).collect());
    assert!(misfit(BY_PRODUCT, &[("lines", five)]).contains("more than the 4 elements"));
    let huge = map(&[("sku", "pen".into()), ("quantity", number("9e125"))]);
    assert!(misfit(BY_PRODUCT, &[("lines", AttributeValue::L(vec![huge.clone(), huge]))]).contains("units"));
}

#[test]
fn an_aggregate_that_skips_misfits_counts_nothing_of_them() {
    let skipping = model(&format!("on_misfit = 'skip'\n{BY_PRODUCT}"));
    let lines = |quantity| {
        (
            "lines",
            AttributeValue::L(vec![line("ink", 1), map(&[("sku", "pen".into()), ("quantity", quantity)])]),
        )
    };
    assert_eq!(projected(&skipping, &[lines("many".into())]).unwrap(), (vec![], vec![], 1));
    let (counted, _, skipped) = projected(&skipping, &[lines(number("2"))]).unwrap();
    assert_eq!((counted.len(), skipped), (4, 0));
    // A key that DynamoDB does not accept.
    let long = AttributeValue::L(vec![line(&"x".repeat(3000), 1)]);
    assert_eq!(projected(&skipping, &[("lines", long.clone())]).unwrap(), (vec![], vec![], 1));
    assert!(counted_lines(&long) > 0, "parking finds out when the rollup is written");
}

fn counted_lines(lines: &AttributeValue<'static>) -> usize {
    counted(BY_PRODUCT, &[("lines", lines.clone())]).map_or(0, |counted| counted.len())
}

#[test]
fn an_aggregate_that_fails_misfits_wins_over_one_that_parks_them() {
    let both = |first: &str, second: &str| {
        let second = format!(
            "[[aggregates]]\nname = 'second'\nof = 'order'\non_misfit = '{second}'\ninto = 'category'\nmeasures.orders = 'count'"
        );
        model(&format!("on_misfit = '{first}'\n{BY_PRODUCT}\n{second}"))
    };
    let misfits = [("lines", AttributeValue::text("pen"))];
    let kind = |first, second| projected(&both(first, second), &misfits).map_err(|error| error.kind());
    assert_eq!(kind("park", "park").unwrap_err(), ErrorKind::Record);
    assert_eq!(kind("park", "skip").unwrap_err(), ErrorKind::Record);
    assert_eq!(kind("park", "fail").unwrap_err(), ErrorKind::Misfit);
    assert_eq!(kind("skip", "fail").unwrap_err(), ErrorKind::Misfit);
    assert_eq!(kind("fail", "skip").unwrap_err(), ErrorKind::Misfit);
    assert_eq!(kind("skip", "skip").unwrap().2, 2);
}

#[test]
fn an_optional_value_excludes_only_the_rollups_whose_keys_need_it() {
    let aggregate = "optional = ['category']\ninto = ['category', 'day']\nmeasures.orders = 'count'";
    let day = ("day", AttributeValue::text("2026-02-06T10:00:00Z"));
    let of_day = ("DAY#2026-02-06 orders", "1");
    for category in [None, Some(("category", AttributeValue::Null))] {
        let item: Vec<_> = category.into_iter().chain([day.clone()]).collect();
        assert_eq!(counted(aggregate, &item).unwrap(), pairs(&[of_day]));
    }
    let item = [day, ("category", "tools".into())];
    assert_eq!(counted(aggregate, &item).unwrap(), pairs(&[("CATEGORY#tools orders", "1"), of_day]));
    assert!(misfit(aggregate, &[("category", "tools".into())]).contains("`day` is missing"));
    let both = aggregate.replace("['category']", "['category', 'day']");
    assert_eq!(counted(&both, &[]).unwrap(), []);
}

proptest! {
    /// The recount shares nothing with the projection but the order of keys.
    #[test]
    fn elements_count_as_if_each_were_an_item(lines in proptest::collection::vec((0..4_u8, -3..9_i64), 0..12), rotation in 0..12_usize) {
        let aggregate = "into = ['product', 'category']\nfor_each = { line = 'lines' }\nat_most = 12\nwhen.\"line.quantity\" = [{ numeric = [\">\", -2] }]\nmeasures = { lines = 'count', units = { sum = 'line.quantity' } }";
        let model = model(aggregate);
        let order = |lines: &[(u8, i64)]| {
            let lines = lines.iter().map(|(sku, quantity)| line(&sku.to_string(), *quantity)).collect();
            [("lines", AttributeValue::L(lines)), ("category", "c".into())]
        };
        let mut expected: BTreeMap<String, [i64; 2]> = BTreeMap::new();
        for (sku, quantity) in lines.iter().filter(|(_, quantity)| *quantity > -2) {
            for rollup in [format!("PRODUCT#{sku}"), "CATEGORY#c".to_owned()] {
                let [count, units] = expected.entry(rollup).or_default();
                *count += 1;
                *units += quantity;
            }
        }
        let named = expected.into_iter().flat_map(|(rollup, [count, units])| {
            [(format!("{rollup} lines"), count), (format!("{rollup} units"), units)]
        });
        let expected: Vec<(String, String)> =
            named.filter(|(_, number)| *number != 0).map(|(name, number)| (name, number.to_string())).collect();
        let found = projected(&model, &order(&lines)).unwrap();
        prop_assert_eq!(&found.0, &expected);
        let mut rotated = lines.clone();
        rotated.rotate_left(rotation.checked_rem(lines.len()).unwrap_or(0));
        prop_assert_eq!(projected(&model, &order(&rotated)).unwrap().0, expected, "the order of a list does not matter");
    }
}
