//! The keys that an entity's items can have, as far as filter patterns can test them: beginnings of texts.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite::effect::KeyAttribute;
use afterwrite::heartbeat::heartbeat_write;
use afterwrite::record::{AttributeValue, Timestamp};
use afterwrite::table::{Entity, KeyType, Table, Template, TemplatePiece};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// A condition on a key attribute's text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KeyCondition {
    Equals(String),
    Begins(String),
}

impl KeyCondition {
    fn text(&self) -> &str {
        match self {
            Self::Equals(text) | Self::Begins(text) => text,
        }
    }

    /// Whether every text that meets `other` meets this condition.
    fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Begins(beginning), other) => other.text().starts_with(beginning.as_str()),
            (Self::Equals(text), Self::Equals(other)) => text == other,
            (Self::Equals(_), Self::Begins(_)) => false,
        }
    }

    fn shortened(&self, length: usize) -> Self {
        let short: String = self.text().chars().take(length).collect();
        if short == self.text() { self.clone() } else { Self::Begins(short) }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Equals(text) => json!(text),
            Self::Begins(text) => json!({ "prefix": text }),
        }
    }
}

/// The texts of a key attribute: those that meet any of the conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum KeyTexts {
    /// Every text, or an attribute that the table does not have.
    #[default]
    All,
    AnyOf(BTreeSet<KeyCondition>),
}

impl KeyTexts {
    /// The texts that a template can write. A number has no beginnings: the same number has several texts.
    fn of_template(template: &Template, key_type: KeyType) -> Self {
        let condition = match (key_type, template.pieces.as_slice()) {
            (KeyType::Number, _) => return Self::All,
            (KeyType::Text | KeyType::Binary, [TemplatePiece::Literal(text)]) => {
                KeyCondition::Equals(text.to_string())
            }
            (KeyType::Text | KeyType::Binary, [TemplatePiece::Literal(text), ..]) => {
                KeyCondition::Begins(text.to_string())
            }
            (KeyType::Text | KeyType::Binary, _) => return Self::All,
        };
        Self::AnyOf(BTreeSet::from([condition]))
    }

    fn union(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::AnyOf(mine), Self::AnyOf(theirs)) => {
                let all: BTreeSet<&KeyCondition> = mine.union(theirs).collect();
                let is_included = |condition: &KeyCondition| {
                    all.iter().any(|other| *other != condition && other.includes(condition))
                };
                Self::AnyOf(all.iter().filter(|one| !is_included(one)).map(|one| (*one).clone()).collect())
            }
            (Self::All, _) | (_, Self::All) => Self::All,
        }
    }

    /// The number of conditions; far more than any list has if there is no condition.
    fn weight(&self) -> usize {
        match self {
            Self::All => 1000,
            Self::AnyOf(conditions) => conditions.len(),
        }
    }

    fn conditions(&self) -> impl Iterator<Item = &KeyCondition> {
        let conditions = match self {
            Self::All => None,
            Self::AnyOf(conditions) => Some(conditions),
        };
        conditions.into_iter().flatten()
    }
}

/// The key of a table's heartbeat: the texts of the attributes that are not numbers.
#[derive(Clone, Debug)]
pub(super) struct HeartbeatKey {
    partition: Option<String>,
    sort: Option<String>,
}

impl HeartbeatKey {
    /// The heartbeat's key; `None` if the table has no heartbeat.
    pub(super) fn of_table(table: &Table) -> Option<Self> {
        let write = heartbeat_write(table, table.name.clone(), Timestamp::from_epoch_ms(0))?;
        let text = |attribute: &KeyAttribute| match attribute.value.as_text() {
            Some(text) => Some(text.to_owned()),
            None => binary_text(&attribute.value),
        };
        Some(Self { partition: text(&write.key.partition), sort: write.key.sort.as_ref().and_then(text) })
    }
}

/// A binary value, as records have it.
fn binary_text(value: &AttributeValue<'_>) -> Option<String> {
    if let AttributeValue::B(bytes) = value { Some(STANDARD.encode(bytes)) } else { None }
}

/// The keys whose partition key and whose sort key have one of these texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyArea {
    partition: KeyTexts,
    sort: KeyTexts,
}

impl KeyArea {
    /// The keys of an entity's items.
    pub(super) fn of_entity(entity: &Entity, table: &Table) -> Self {
        let sort = entity.key.sort.as_ref().zip(table.sort_key.as_ref());
        Self {
            partition: KeyTexts::of_template(&entity.key.partition, table.partition_key.key_type),
            sort: sort.map_or(KeyTexts::All, |(key, schema)| KeyTexts::of_template(key, schema.key_type)),
        }
    }

    /// Whether every key is in the area.
    pub(super) fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// The characters of the longest text that the partition key is compared with.
    pub(super) fn longest_beginning(&self) -> usize {
        self.partition.conditions().map(|condition| condition.text().chars().count()).max().unwrap_or(0)
    }

    fn union(&self, other: &Self) -> Self {
        Self { partition: self.partition.union(&other.partition), sort: self.sort.union(&other.sort) }
    }

    /// How many pairs of a partition key's and a sort key's condition the area has.
    fn weight(&self) -> usize {
        self.partition.weight() * self.sort.weight()
    }

    /// The pattern that the area's keys match.
    pub(super) fn pattern(&self, table: &Table) -> String {
        let lists = [&self.partition, &self.sort].map(|texts| match texts {
            KeyTexts::All => None,
            KeyTexts::AnyOf(conditions) => Some(conditions.iter().map(KeyCondition::to_json).collect()),
        });
        written_pattern(table, lists)
    }

    /// The pattern that the area's keys match, the heartbeat, and keys that lack the table's attributes. An area without any
    /// condition stands for no keys.
    pub(super) fn guarding_pattern(&self, table: &Table, heartbeat: Option<&HeartbeatKey>) -> String {
        let texts = [
            (&self.partition, heartbeat.and_then(|key| key.partition.as_ref())),
            (&self.sort, heartbeat.and_then(|key| key.sort.as_ref())),
        ];
        let is_empty = self.is_everything() && heartbeat.is_some();
        written_pattern(table, texts.map(|(texts, heartbeat)| guarded_list(texts, heartbeat, is_empty)))
    }
}

/// A list of conditions that also accepts the heartbeat's text, and a record without the attribute; `None` if every text is
/// accepted, unless the area has no keys.
fn guarded_list(texts: &KeyTexts, heartbeat: Option<&String>, is_empty: bool) -> Option<Vec<Value>> {
    if *texts == KeyTexts::All && (!is_empty || heartbeat.is_none()) {
        return None;
    }
    let mut list: Vec<Value> = texts.conditions().map(KeyCondition::to_json).collect();
    list.extend(heartbeat.map(|text| json!(text)));
    list.push(json!({ "exists": false }));
    Some(list)
}

/// A pattern with these lists of conditions on the partition key and the sort key.
fn written_pattern(table: &Table, [partition, sort]: [Option<Vec<Value>>; 2]) -> String {
    let attributes = [(Some(&table.partition_key), partition), (table.sort_key.as_ref(), sort)];
    // In the order of their names: the same model gives the same text in every build.
    let keys: BTreeMap<&str, Value> = attributes
        .into_iter()
        .filter_map(|(schema, list)| {
            let (schema, list) = (schema?, list?);
            Some((&*schema.name, json!({ schema.key_type.name(): list })))
        })
        .collect();
    json!({ "dynamodb": { "Keys": keys } }).to_string()
}

/// Areas that differ in one attribute are joined; the keys stay the same.
pub(super) fn joined(areas: Vec<KeyArea>) -> Vec<KeyArea> {
    let mut joined: Vec<KeyArea> = Vec::new();
    for area in areas {
        match joined.iter_mut().find(|known| known.partition == area.partition) {
            Some(known) => known.sort = known.sort.union(&area.sort),
            None => joined.push(area),
        }
    }
    let mut result: Vec<KeyArea> = Vec::new();
    for area in joined {
        match result.iter_mut().find(|known| known.sort == area.sort) {
            Some(known) => known.partition = known.partition.union(&area.partition),
            None => result.push(area),
        }
    }
    result
}

/// At most `count` areas with all the keys: of two areas, those are combined that add the fewest pairs of conditions.
pub(super) fn combined(mut areas: Vec<KeyArea>, count: usize) -> Vec<KeyArea> {
    while areas.len() > count.max(1) {
        let pairs =
            (0..areas.len()).flat_map(|first| (first + 1..areas.len()).map(move |second| (first, second)));
        let added = |(first, second): &(usize, usize)| added_weight(areas.get(*first), areas.get(*second));
        let Some((first, second)) = pairs.min_by_key(added) else { break };
        let other = areas.remove(second);
        if let Some(one) = areas.get_mut(first) {
            *one = one.union(&other);
        }
    }
    areas
}

/// The pairs of conditions that combining two areas adds.
fn added_weight(one: Option<&KeyArea>, other: Option<&KeyArea>) -> usize {
    one.zip(other).map_or(usize::MAX, |(one, other)| {
        one.union(other).weight().saturating_sub(one.weight() + other.weight())
    })
}

/// At most `count` areas with all the partition keys, whatever the sort key, each beginning cut to `length` characters.
pub(super) fn partition_areas(areas: &[KeyArea], count: usize, length: usize) -> Vec<KeyArea> {
    let shortened = areas.iter().map(|area| match &area.partition {
        KeyTexts::All => KeyTexts::All,
        KeyTexts::AnyOf(_) if length == 0 => KeyTexts::All,
        KeyTexts::AnyOf(conditions) => {
            KeyTexts::AnyOf(conditions.iter().map(|condition| condition.shortened(length)).collect())
        }
    });
    let all = shortened.reduce(|one, other| one.union(&other)).unwrap_or_default();
    let conditions: Vec<KeyCondition> = all.conditions().cloned().collect();
    if conditions.is_empty() {
        return vec![KeyArea::default()];
    }
    let chunks = conditions.chunks(conditions.len().div_ceil(count.max(1)));
    let texts = chunks.map(|chunk| KeyTexts::AnyOf(chunk.iter().cloned().collect()));
    texts.map(|partition| KeyArea { partition, sort: KeyTexts::All }).collect()
}
