//! The values of a sample item: its key and its attributes, each with candidates.

use std::sync::Arc;

use afterwrite_model::record::{AttributePath, Timestamp};
use afterwrite_model::table::{
    ComparedValue, DeclaredType, Entity, Model, Pattern, Template, TemplatePiece, Term,
};
use serde_json::{Map, Value, json};

use super::values::{CandidateValues, type_of_column, variable_texts};

/// A number in a text.
const NUMBER: &str = "12.50";

/// A value of the sample that is chosen among candidates.
#[derive(Clone)]
pub(super) struct SampleValue {
    pub(super) place: SamplePlace,
    pub(super) candidates: Vec<Value>,
    pub(super) chosen: usize,
}

/// The place of a value in the item.
#[derive(Clone)]
pub(super) enum SamplePlace {
    /// A variable of the key. Variables come first, in the order of the entity.
    Variable,
    /// An attribute.
    Attribute(AttributePath),
}

/// The values of an item of one entity.
#[derive(Clone)]
pub(super) struct SampleFields<'m> {
    pub(super) model: &'m Arc<Model>,
    pub(super) entity: &'m Entity,
    pub(super) values: Vec<SampleValue>,
}

impl<'m> SampleFields<'m> {
    /// The likeliest values of an item.
    pub(super) fn new(model: &'m Arc<Model>, entity: &'m Entity, now: Timestamp) -> Self {
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
        let mut fields = Self { model, entity, values: variables.chain(attributes).collect() };
        // A text in place of a number hides other values that do not fit: changes of one value at a time would not find them.
        entity
            .derivations
            .iter()
            .filter_map(|derivation| derivation.kind.number_of())
            .for_each(|of| fields.prefer(of, NUMBER));
        fields
    }

    /// Sets the values that a condition compares with; numbers with this difference.
    pub(super) fn approach(&mut self, condition: &Pattern, difference: i64) {
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
            let path = path.named(&self.model.attributes);
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

    /// The place of a value of the item, if it is a variable of the key or an attribute.
    fn place_of(&self, term: &Term) -> Option<usize> {
        match term {
            Term::Key(variable) => Some(*variable),
            Term::Attribute(path) => {
                let path = path.named(&self.model.attributes);
                self.values.iter().position(|value| match &value.place {
                    SamplePlace::Attribute(of) => *of == path,
                    SamplePlace::Variable => false,
                })
            }
            Term::Derived(_) | Term::LookupOutput { .. } | Term::Element(_) => None,
        }
    }

    /// The chosen text or number.
    pub(super) fn text_of(&self, term: &Term) -> Option<String> {
        let value = self.values.get(self.place_of(term)?)?;
        let chosen = value.candidates.get(value.chosen)?;
        let text =
            chosen.as_str().or_else(|| chosen.get("S")?.as_str()).or_else(|| chosen.get("N")?.as_str());
        text.map(str::to_owned)
    }

    /// Sets a value to this text.
    pub(super) fn set(&mut self, term: &Term, text: &str) {
        let Some(value) = self.place_of(term).and_then(|place| self.values.get_mut(place)) else { return };
        let is_number = value.candidates.first().is_some_and(|first| first.get("N").is_some());
        let set = match &value.place {
            SamplePlace::Variable => Value::from(text),
            SamplePlace::Attribute(_) if is_number => json!({ "N": text }),
            SamplePlace::Attribute(_) => json!({ "S": text }),
        };
        (value.candidates, value.chosen) = (vec![set], 0);
    }

    /// Makes a text the first candidate of an attribute.
    pub(super) fn prefer(&mut self, term: &Term, text: &str) {
        let Some(value) = self.place_of(term).and_then(|place| self.values.get_mut(place)) else { return };
        match value.place {
            SamplePlace::Attribute(_) => value.candidates.insert(0, json!({ "S": text })),
            SamplePlace::Variable => {}
        }
    }

    /// The item with the chosen values: its key, the keys of indexes by which it is looked up, and its attributes.
    pub(super) fn item(&self) -> Map<String, Value> {
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
            let path = path.named(&model.row_attributes);
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
