//! An item that the model counts, to write first.
//!
//! Each variable of the key and each attribute has some candidate values: words, times, and the values that the model's conditions compare
//! with. The item begins with the first candidate of each. A candidate replaces it if `model explain` then finds fewer problems or more
//! measures.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_console::board::EditorItem;
use afterwrite_model::record::{AttributePath, Timestamp};
use afterwrite_model::table::{
    ComparedValue, DeclaredType, Entity, LookupUse, Model, Pattern, Template, TemplatePiece, Term,
};
use afterwrite_services::config::FunctionConfig;
use serde_json::{Map, Value, json};

use super::sample_values::{CandidateValues, type_of_column, variable_texts};
use crate::model::ItemSummary;

/// A value of a sample, or of an item that it looks up, which the first number names.
type ValuePlace = (Option<usize>, usize);

/// The samples of an entity that are improved, at most.
const MAX_STARTS: usize = 40;
/// Passes over all values; mostly the second changes nothing.
const MAX_PASSES: usize = 4;
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

    /// The items in the order in which they are written: those that it looks up, and the item itself.
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

/// How good a sample is: it is of the wanted entity, has no problems, contributes to measures, needs no lookups, and its rows have a day.
type SampleScore = (bool, Reverse<usize>, usize, Reverse<usize>, Reverse<usize>);

/// A value of the sample that is chosen among candidates.
#[derive(Clone)]
struct SampleValue {
    place: SamplePlace,
    candidates: Vec<Value>,
    chosen: usize,
}

#[derive(Clone)]
enum SamplePlace {
    /// A variable of the key. Variables come first, in the order of the entity.
    Variable,
    Attribute(AttributePath),
}

/// A sample of one entity that is being improved.
#[derive(Clone)]
struct SampleDraft<'m> {
    model: &'m Arc<Model>,
    entity: &'m Entity,
    values: Vec<SampleValue>,
    /// The items that its lookups find.
    looked_up: Vec<LookedUpDraft<'m>>,
}

/// A sample of an item that a lookup of another sample finds.
#[derive(Clone)]
struct LookedUpDraft<'m> {
    /// The lookup in the scope of the sample that uses it.
    needed: &'m LookupUse,
    /// The lookup in the scope of the looked-up item.
    offer: &'m LookupUse,
    draft: SampleDraft<'m>,
}

/// An item of an entity that is counted, if there is one; `None` for a model whose keys cannot be made.
pub(super) fn sample_item(model: &Arc<Model>, now: Timestamp) -> Option<SampleItem> {
    let mut best: Option<(SampleScore, SampleItem)> = None;
    for entity in model.entities.iter().take(MAX_ENTITIES) {
        for mut draft in SampleDraft::starts(model, entity, now).into_iter().take(MAX_STARTS) {
            let score = draft.improve();
            let is_better = best.as_ref().is_none_or(|(known, _)| rank(&score) > rank(known));
            if is_better && score.0 {
                best = Some((score, draft.sample()));
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

impl<'m> SampleDraft<'m> {
    fn new(model: &'m Arc<Model>, entity: &'m Entity, now: Timestamp) -> Self {
        let compared = compared_values(model, entity);
        let variables = entity.variables.iter().enumerate().map(|(index, name)| SampleValue {
            place: SamplePlace::Variable,
            candidates: variable_texts(model, entity, (index, name), now),
            chosen: 0,
        });
        let expiry = entity.ttl.as_ref().map(|path| model.attributes.name(path.root));
        let attributes = attributes(model, entity).into_iter().map(|(path, declared)| {
            let is_expiry = path.within().is_empty() && Some(path.root()) == expiry;
            let reading = entity.times.iter().find(|(name, _)| **name == *path.to_string());
            let reading = reading.map(|(_, reading)| *reading);
            let candidates = CandidateValues { path: &path, compared: &compared, now, is_expiry, reading };
            let candidates = candidates.of_type(declared);
            SampleValue { place: SamplePlace::Attribute(path), candidates, chosen: 0 }
        });
        Self { model, entity, values: variables.chain(attributes).collect(), looked_up: Vec::new() }
    }

    /// The same with a sample of each item that the entity's aggregates look up.
    fn with_lookups(mut self, now: Timestamp) -> Self {
        let aggregates = self.entity.aggregates.iter().filter_map(|index| self.model.aggregates.get(*index));
        for needed in aggregates.flat_map(|aggregate| &aggregate.lookups) {
            if self.looked_up.iter().any(|known| known.needed.lookup == needed.lookup) {
                continue;
            }
            let of = self.model.lookups.get(needed.lookup).map(|lookup| lookup.of);
            let Some(entity) = of.and_then(|of| self.model.entities.get(of)) else { continue };
            let Some(offer) = entity.offers.iter().find(|offer| offer.lookup == needed.lookup) else {
                continue;
            };
            self.looked_up.push(LookedUpDraft { needed, offer, draft: Self::new(self.model, entity, now) });
        }
        self
    }

    /// The looked-up items with the keys by which this sample finds them.
    fn found_items(&self) -> Vec<Self> {
        let found = self.looked_up.iter().map(|LookedUpDraft { needed, offer, draft }| {
            let mut draft = draft.clone();
            for (wanted, given) in needed.inputs.iter().zip(&offer.inputs) {
                if let Some(text) = self.text_of(wanted) {
                    draft.set(given, &text);
                }
            }
            draft
        });
        found.collect()
    }

    /// The place of a value of the item, if it is a variable of the key or an attribute.
    fn place_of(&self, term: &Term) -> Option<usize> {
        match term {
            Term::Key(variable) => Some(*variable),
            Term::Attribute(path) => {
                let root = Arc::clone(self.model.attributes.name(path.root));
                let path = AttributePath::nested(root, path.within.iter().cloned());
                self.values.iter().position(|value| match &value.place {
                    SamplePlace::Attribute(of) => *of == path,
                    SamplePlace::Variable => false,
                })
            }
            Term::Derived(_) | Term::LookupOutput { .. } | Term::Element(_) => None,
        }
    }

    /// The chosen text or number.
    fn text_of(&self, term: &Term) -> Option<String> {
        let value = self.values.get(self.place_of(term)?)?;
        let chosen = value.candidates.get(value.chosen)?;
        let text =
            chosen.as_str().or_else(|| chosen.get("S")?.as_str()).or_else(|| chosen.get("N")?.as_str());
        text.map(str::to_owned)
    }

    /// Sets a value to this text.
    fn set(&mut self, term: &Term, text: &str) {
        let Some(value) = self.place_of(term).and_then(|place| self.values.get_mut(place)) else { return };
        let is_number = value.candidates.first().is_some_and(|first| first.get("N").is_some());
        let set = match &value.place {
            SamplePlace::Variable => Value::from(text),
            SamplePlace::Attribute(_) if is_number => json!({ "N": text }),
            SamplePlace::Attribute(_) => json!({ "S": text }),
        };
        (value.candidates, value.chosen) = (vec![set], 0);
    }

    /// The sample, with the items that it looks up. Items of one key are one item.
    fn sample(&self) -> SampleItem {
        let item = |draft: &Self, looked_up| SampleItem {
            table: draft.entity.table,
            attributes: draft.item(),
            looked_up,
        };
        let looked_up = self.found_items().iter().map(|found| item(found, Vec::new())).collect();
        item(self, looked_up)
    }

    /// The samples to improve: the likeliest values; then, for each measure, values near the values in its conditions. If a measure counts
    /// only with several such values together, changes of one value at a time do not find them.
    fn starts(model: &'m Arc<Model>, entity: &'m Entity, now: Timestamp) -> Vec<Self> {
        let likeliest = Self::new(model, entity, now).with_lookups(now);
        let mut starts = vec![likeliest.clone()];
        for aggregate in entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index)) {
            for measure in &aggregate.measures {
                let conditions: Vec<&Pattern> =
                    entity.when.iter().chain(&aggregate.when).chain(&measure.when).collect();
                for difference in [0, 1, -1] {
                    let mut start = likeliest.clone();
                    conditions.iter().for_each(|condition| start.approach(condition, difference));
                    starts.push(start);
                }
            }
        }
        starts
    }

    /// Sets the values that a condition compares with; numbers with this difference.
    fn approach(&mut self, condition: &Pattern, difference: i64) {
        condition.each_value(&mut |term, compared| {
            let Some(path) = term.attribute() else { return };
            let wanted = match compared {
                ComparedValue::Text(text) => json!({ "S": text }),
                ComparedValue::Number(number) => match number.to_string().parse::<i64>() {
                    Ok(number) => json!({ "N": number.saturating_add(difference).to_string() }),
                    Err(_) => json!({ "N": number.to_string() }),
                },
                ComparedValue::Bool(value) => json!({ "BOOL": value != (difference < 0) }),
                ComparedValue::Absent if difference < 0 => Value::Null,
                ComparedValue::Absent => return,
            };
            let root = Arc::clone(self.model.attributes.name(path.root));
            let path = AttributePath::nested(root, path.within.iter().cloned());
            for value in &mut self.values {
                if let SamplePlace::Attribute(of) = &value.place
                    && *of == path
                    && value.candidates.contains(&wanted)
                {
                    (value.candidates, value.chosen) = (vec![wanted.clone()], 0);
                }
            }
        });
    }

    /// Replaces values while that makes the sample better; returns its score.
    fn improve(&mut self) -> SampleScore {
        let mut best = self.score();
        for _ in 0..MAX_PASSES {
            let before = best;
            let looked_up = self.looked_up.iter().enumerate().flat_map(|(found, looked_up)| {
                (0..looked_up.draft.values.len()).map(move |index| (Some(found), index))
            });
            let places: Vec<_> = (0..self.values.len()).map(|index| (None, index)).chain(looked_up).collect();
            for place in places {
                best = self.improve_value(place, best);
            }
            if best == before {
                break;
            }
        }
        best
    }

    fn improve_value(&mut self, place: ValuePlace, mut best: SampleScore) -> SampleScore {
        let Some((candidates, mut chosen)) =
            self.value_at(place).map(|value| (value.candidates.len(), value.chosen))
        else {
            return best;
        };
        for candidate in 0..candidates {
            self.choose(place, candidate);
            let score = self.score();
            if score > best {
                (best, chosen) = (score, candidate);
            }
        }
        self.choose(place, chosen);
        best
    }

    fn value_at(&mut self, (found, index): ValuePlace) -> Option<&mut SampleValue> {
        let values = match found {
            None => &mut self.values,
            Some(found) => &mut self.looked_up.get_mut(found)?.draft.values,
        };
        values.get_mut(index)
    }

    fn choose(&mut self, place: ValuePlace, candidate: usize) {
        if let Some(value) = self.value_at(place) {
            value.chosen = candidate;
        }
    }

    /// The outputs that the looked-up items give, by name.
    fn given(&self) -> BTreeMap<String, String> {
        let found = self.found_items();
        let given = found.iter().filter_map(|found| {
            let item = Value::Object(found.item()).to_string();
            Some(ItemSummary::of(self.model, found.entity.table, &item, &BTreeMap::new())?.gives)
        });
        given.flatten().collect()
    }

    fn score(&self) -> SampleScore {
        let item = Value::Object(self.item()).to_string();
        match ItemSummary::of(self.model, self.entity.table, &item, &self.given()) {
            Some(found) => (
                *found.entity == *self.entity.name,
                Reverse(found.problems),
                found.measures,
                Reverse(found.lookups),
                Reverse(found.undated_rows),
            ),
            None => (false, Reverse(usize::MAX), 0, Reverse(0), Reverse(0)),
        }
    }

    /// The item with the chosen values: its key, the keys of indexes by which it is looked up, and its attributes.
    fn item(&self) -> Map<String, Value> {
        let mut item = Map::new();
        for value in &self.values {
            let chosen = value.candidates.get(value.chosen).filter(|chosen| !chosen.is_null());
            if let (SamplePlace::Attribute(path), Some(chosen)) = (&value.place, chosen) {
                insert(&mut item, path.names(), chosen.clone());
            }
        }
        item.extend(self.index_keys());
        let templates = std::iter::once(&self.entity.key.partition).chain(&self.entity.key.sort);
        let table = self.model.tables.get(self.entity.table);
        for (key, template) in table.into_iter().flat_map(|table| table.key()).zip(templates) {
            let text = self.rendered(template, Some).unwrap_or_default();
            item.insert(key.name.to_string(), json!({ key.key_type.name(): text }));
        }
        item
    }

    /// The keys of the indexes by which items of this entity are looked up.
    fn index_keys(&self) -> Map<String, Value> {
        let mut keys = Map::new();
        for offer in &self.entity.offers {
            let Some(lookup) = self.model.lookups.get(offer.lookup) else { continue };
            if lookup.index().is_none() {
                continue;
            }
            for (name, template) in &lookup.key {
                let variable = |input: usize| match offer.inputs.get(input) {
                    Some(Term::Key(variable)) => Some(*variable),
                    Some(_) | None => None,
                };
                let text = self.rendered(template, variable);
                keys.extend(text.map(|text| (name.to_string(), json!({ "S": text }))));
            }
        }
        keys
    }

    /// A template with the chosen variables of the key; `variable` gives the key's variable of a template's.
    fn rendered(&self, template: &Template, variable: impl Fn(usize) -> Option<usize>) -> Option<String> {
        let mut text = String::new();
        for piece in &template.pieces {
            match piece {
                TemplatePiece::Literal(literal) => text.push_str(literal),
                TemplatePiece::Variable(index, _) => {
                    let value = self.values.get(variable(*index)?)?;
                    text.push_str(value.candidates.get(value.chosen)?.as_str()?);
                }
            }
        }
        Some(text)
    }
}

/// The attributes that the model declares for the entity, and the attributes that only its datasets read.
fn attributes(model: &Model, entity: &Entity) -> Vec<(AttributePath, DeclaredType)> {
    let mut attributes = entity.attributes.clone();
    for (_, dataset) in model.datasets_of(entity) {
        let columns =
            dataset.columns.iter().map(|column| (&column.from, type_of_column(&column.column_type)));
        let partition = dataset.partition_terms().map(|term| (term, DeclaredType::Text));
        for (term, declared) in columns.chain(partition) {
            let Some(path) = term.attribute() else { continue };
            let root = Arc::clone(model.row_attributes.name(path.root));
            let path = AttributePath::nested(root, path.within.iter().cloned());
            if !attributes.iter().any(|(known, _)| known.is_within(&path) || path.is_within(known)) {
                attributes.push((path, declared));
            }
        }
    }
    attributes.retain(|(path, _)| !entity.secrets.contains(path));
    attributes
}

/// The values that conditions on the entity's items compare with.
fn compared_values(model: &Model, entity: &Entity) -> Vec<Value> {
    let aggregates = || entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index));
    let measures = aggregates().flat_map(|aggregate| &aggregate.measures);
    let patterns = entity.when.iter();
    let patterns = patterns.chain(aggregates().filter_map(|aggregate| aggregate.when.as_ref()));
    let patterns: Vec<&Pattern> =
        patterns.chain(measures.filter_map(|measure| measure.when.as_ref())).collect();
    let mut values = Vec::new();
    for pattern in patterns {
        pattern.each_value(&mut |_, compared| {
            let value = match compared {
                ComparedValue::Text(text) => json!({ "S": text }),
                ComparedValue::Number(number) => json!({ "N": number.to_string() }),
                ComparedValue::Bool(value) => json!({ "BOOL": value }),
                ComparedValue::Absent => return,
            };
            if !values.contains(&value) {
                values.push(value);
            }
        });
    }
    values
}

/// Inserts a value at a path; maps around it are made.
fn insert(item: &mut Map<String, Value>, names: &[Arc<str>], value: Value) {
    let Some((name, within)) = names.split_first() else { return };
    if within.is_empty() {
        item.insert(name.to_string(), value);
        return;
    }
    let map = item.entry(name.to_string()).or_insert_with(|| json!({ "M": {} }));
    if let Some(members) = map.get_mut("M").and_then(Value::as_object_mut) {
        insert(members, within, value);
    }
}

#[cfg(test)]
mod tests {
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
