//! Items that the model counts: one for people to write first, and one of each entity to try.
//!
//! Each variable of the key and each attribute has some candidate values: words, times, and the values that the model's conditions compare
//! with. The item begins with the first candidate of each. A candidate replaces it if `model explain` then finds fewer problems or more
//! measures.

mod draft;
mod fields;
mod lookups;
mod summary;
mod values;

use std::sync::Arc;

use afterwrite_model::record::Timestamp;
use afterwrite_model::table::{Entity, Model};
use serde_json::{Map, Value};

use self::draft::{SampleDraft, SampleScore};
use self::fields::SampleFields;

/// The samples of an entity that are improved, at most.
const MAX_STARTS: usize = 40;
/// Entities that are tried, at most.
const MAX_ENTITIES: usize = 60;

/// An item of one table.
#[derive(Debug, PartialEq)]
pub struct SampleItem {
    /// The table: an index into [`Model::tables`].
    pub table: usize,
    /// The attributes, in DynamoDB's JSON.
    pub attributes: Map<String, Value>,
    /// The items that it looks up, to write first.
    pub looked_up: Vec<SampleItem>,
}

impl SampleItem {
    /// The items in the order of writing: the looked-up items, then the item itself.
    pub fn in_order(&self) -> impl Iterator<Item = &Self> {
        self.looked_up.iter().chain([self])
    }
}

/// An item that an application writes and that is counted, if there is one; `None` for a model whose keys cannot be made. An item that needs no
/// lookup is preferred.
#[must_use]
pub fn sample_item(model: &Arc<Model>, now: Timestamp) -> Option<SampleItem> {
    let written = model.entities.iter().filter(|entity| entity.rollup.is_none());
    let drafts = written.take(MAX_ENTITIES).flat_map(|entity| drafts(model, entity, now));
    best(drafts, |score| rank(score) == (true, true, true, true)).map(|(_, item)| item)
}

/// An item of this entity that is counted without a problem, with the items that it looks up; `None` if no such item can be made.
#[must_use]
pub fn counted_item(model: &Arc<Model>, entity: &Entity, now: Timestamp) -> Option<SampleItem> {
    let is_counted = |score: &SampleScore| {
        let (is_matched, has_no_problem, is_measured, _) = rank(score);
        is_matched && has_no_problem && is_measured
    };
    best(drafts(model, entity, now), is_counted).filter(|(score, _)| is_counted(score)).map(|(_, item)| item)
}

fn drafts<'m>(
    model: &'m Arc<Model>,
    entity: &'m Entity,
    now: Timestamp,
) -> impl Iterator<Item = SampleDraft<'m>> + use<'m> {
    SampleDraft::starts(model, entity, now).into_iter().take(MAX_STARTS)
}

/// The best of some drafts, each improved. The first draft that is good enough ends the search.
fn best<'m>(
    drafts: impl Iterator<Item = SampleDraft<'m>>,
    is_enough: impl Fn(&SampleScore) -> bool,
) -> Option<(SampleScore, SampleItem)> {
    let mut best: Option<(SampleScore, SampleItem)> = None;
    for mut draft in drafts {
        let score = draft.improve();
        let is_better = best.as_ref().is_none_or(|(known, _)| rank(&score) > rank(known));
        if is_better && score.0 {
            best = Some((score, item_of(&draft)));
        }
        if is_enough(&score) {
            break;
        }
    }
    best
}

/// The order of samples of different entities.
fn rank(score: &SampleScore) -> (bool, bool, bool, bool) {
    let (is_matched, problems, measures, lookups, _) = score;
    (*is_matched, problems.0 == 0, *measures > 0, lookups.0 == 0)
}

/// The sample, with the items that it looks up.
fn item_of(draft: &SampleDraft<'_>) -> SampleItem {
    let item = |fields: &SampleFields<'_>, looked_up| SampleItem {
        table: fields.entity.table,
        attributes: fields.item(),
        looked_up,
    };
    let found = draft.looked_up.found_by(&draft.fields);
    let looked_up = found.iter().map(|found| item(found, Vec::new())).collect();
    item(&draft.fields, looked_up)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::summary::ItemSummary;
    use super::*;

    fn sample(text: &str) -> (Arc<Model>, SampleItem) {
        let model = Arc::new(Model::parse(text, "model.toml").expect("a model"));
        let now = Timestamp::parse("2026-11-26T18:00:00Z").expect("a time");
        let item = sample_item(&model, now).expect("a sample");
        (model, item)
    }

    fn summary(model: &Arc<Model>, item: &SampleItem) -> ItemSummary {
        let json = Value::Object(item.attributes.clone()).to_string();
        let given = item.looked_up.iter().filter_map(|found| {
            let json = Value::Object(found.attributes.clone()).to_string();
            Some(ItemSummary::of(model, found.table, &json, &BTreeMap::new())?.gives)
        });
        let given = given.flatten().collect();
        ItemSummary::of(model, item.table, &json, &given).expect("the sample is of an entity")
    }

    #[test]
    fn a_sample_is_never_an_item_of_a_rollup() {
        let (model, item) = sample(
            r##"
name = "skus"
generation = 1
tables.Tab.key = ["PK", "SK"]
entities.customer = { key = { PK = "C#{c}", SK = "C" }, attributes = { country = "S" } }
entities.order = { key = { PK = "C#{c}", SK = "O#{o}" }, attributes = { sku = "S" } }
lookups.who = { of = "customer", key = { PK = "C#{c}", SK = "C" }, gives = ["country"] }
rollups.country.key = { PK = "CO#{country}", SK = "T" }
[[aggregates]]
name = "orders"
of = "order"
lookup = "who"
into = "country"
measures = { orders = "count", skus = { distinct = "sku" } }
"##,
        );
        assert_eq!((item.table, item.looked_up.len()), (0, 1), "{item:?}");
        assert!(summary(&model, &item).measures > 0, "{item:?}");
    }

    #[test]
    fn every_built_in_model_counts_its_sample() {
        for name in Model::built_in_names() {
            let model = Arc::new(Model::load(name).expect("a built-in model"));
            let now = Timestamp::parse("2026-11-26T18:00:00Z").expect("a time");
            let item = sample_item(&model, now).expect("a sample");
            let found = summary(&model, &item);
            assert!(found.problems == 0 && found.measures > 0, "{name}: {found:?} {item:?}");
        }
    }

    #[test]
    fn each_counted_entity_of_the_built_in_models_has_an_item_with_its_lookups() {
        for name in Model::built_in_names() {
            let model = Arc::new(Model::load(name).expect("a built-in model"));
            let now = Timestamp::parse("2026-11-26T18:00:00Z").expect("a time");
            // A sample has no elements.
            let counted = |entity: &&Entity| {
                let mut aggregates =
                    entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index));
                entity.rollup.is_none() && aggregates.any(|aggregate| aggregate.for_each.is_none())
            };
            for entity in model.entities.iter().filter(counted) {
                assert!(counted_item(&model, entity, now).is_some(), "{name}: {}", entity.name);
            }
        }
    }

    #[test]
    fn conditions_number_keys_and_separators_are_met() {
        let (model, item) = sample(
            r##"
            name = "calls"
            generation = 1
            [tables.calls]
            key = ["tenant", "at"]
            types = { at = "N" }
            separator = "-"
            [entities.call]
            key = { tenant = "T-{tenant_id}", at = "{at}" }
            when.kind = ["CALL"]
            attributes = { kind = "S", cost = "N", "info.done" = "BOOL", when = "S" }
            [rollups.day]
            key = { PK = "T#{tenant_id}", SK = "DAY#{when:day}" }
            [[aggregates]]
            name = "calls"
            of = "call"
            into = "day"
            [aggregates.measures]
            dear = { count = true, when.cost = [{ numeric = [">", 70] }], when."info.done" = [false] }
            "##,
        );
        let found = summary(&model, &item);
        assert_eq!((found.problems, found.measures), (0, 1), "{item:?}");
        assert_eq!(item.attributes.get("kind"), Some(&json!({ "S": "CALL" })));
    }

    #[test]
    fn a_sample_with_lookups_has_the_looked_up_items_units_of_times_and_numbers_in_texts() {
        let (model, item) = sample(
            r##"
            name = "vets"
            generation = 1
            [tables.vets]
            key = ["pk", "sk"]
            separator = "|"
            [entities.clinic]
            key = { pk = "clinic|{clinic}", sk = "clinic" }
            attributes = { tz = "S" }
            [entities.visit]
            key = { pk = "clinic|{place}", sk = "visit|{visit}" }
            times = { started = "milliseconds" }
            attributes = { started = "N", price = "S", status = "S" }
            derive.amount = { number = "price" }
            [lookups.zone]
            of = "clinic"
            key = { pk = "clinic|{place}", sk = "clinic" }
            gives = ["tz"]
            [rollups.day]
            key = { PK = "clinic|{place}", SK = "DAY#{started:day@tz}" }
            [[aggregates]]
            name = "days"
            of = "visit"
            lookup = "zone"
            into = "day"
            when.status = [{ anything-but = "cancelled" }]
            [aggregates.measures]
            visits = "count"
            revenue = { sum = "amount" }
            "##,
        );
        let found = summary(&model, &item);
        assert_eq!((found.problems, found.measures), (0, 2), "{item:?}");
        assert_eq!(item.attributes.get("started"), Some(&json!({ "N": "1795716000000" })), "{item:?}");
        assert_ne!(item.attributes.get("status"), Some(&json!({ "S": "cancelled" })));
        let [clinic] = item.looked_up.as_slice() else { panic!("{item:?}") };
        assert_eq!(clinic.attributes.get("pk"), item.attributes.get("pk"), "{item:?}");
        assert_eq!(clinic.attributes.get("tz"), Some(&json!({ "S": "Europe/Berlin" })));
    }
}
