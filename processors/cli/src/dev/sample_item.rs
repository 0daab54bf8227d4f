//! An item that the model counts, to write first.
//!
//! Each variable of the key and each attribute has some candidate values: words, times, and the values that the model's conditions compare
//! with. The item begins with the first candidate of each. A candidate replaces it if `model explain` then finds fewer problems or more
//! measures.

use std::sync::Arc;

use afterwrite_console::board::EditorItem;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_services::config::FunctionConfig;
use serde_json::{Map, Value};

use super::sample_draft::{SampleDraft, SampleScore};
use super::sample_fields::SampleFields;

/// The samples of an entity that are improved, at most.
const MAX_STARTS: usize = 40;
/// Entities that are tried, at most.
const MAX_ENTITIES: usize = 60;

/// An item of one table.
#[derive(Debug, PartialEq)]
pub(super) struct SampleItem {
    /// The table: an index into [`Model::tables`].
    pub(super) table: usize,
    /// The attributes, in DynamoDB's JSON.
    pub(super) attributes: Map<String, Value>,
    /// The items that it looks up, to write first.
    pub(super) looked_up: Vec<SampleItem>,
}

impl SampleItem {
    /// The deployed name of its table.
    pub(super) fn deployed_table<'c>(&self, config: &'c FunctionConfig) -> &'c str {
        config.table_names.get(self.table).map_or("", |name| name)
    }

    /// The items in the order of writing: the looked-up items, then the item itself.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &Self> {
        self.looked_up.iter().chain([self])
    }

    /// The items as the console's editor shows them, in the order in which they are written.
    pub(super) fn for_editor(&self, config: &FunctionConfig) -> Vec<EditorItem> {
        let items = self.in_order().map(|item| {
            let json = serde_json::to_string_pretty(&item.attributes).unwrap_or_default();
            EditorItem { table: item.deployed_table(config).to_owned(), json }
        });
        items.collect()
    }
}

/// An item of an entity that is counted, if there is one; `None` for a model whose keys cannot be made.
pub(super) fn sample_item(model: &Arc<Model>, now: Timestamp) -> Option<SampleItem> {
    let mut best: Option<(SampleScore, SampleItem)> = None;
    for entity in model.entities.iter().take(MAX_ENTITIES) {
        for mut draft in SampleDraft::starts(model, entity, now).into_iter().take(MAX_STARTS) {
            let score = draft.improve();
            let is_better = best.as_ref().is_none_or(|(known, _)| rank(&score) > rank(known));
            if is_better && score.0 {
                best = Some((score, item_of(&draft)));
            }
            if rank(&score) == (true, true, true, true) {
                return best.map(|(_, item)| item);
            }
        }
    }
    best.map(|(_, item)| item)
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

    use super::*;
    use crate::model::ItemSummary;

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
