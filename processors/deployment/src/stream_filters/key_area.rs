//! The keys that an entity's items can have, as far as filter patterns can test them: beginnings of texts.

use std::collections::BTreeMap;

use afterwrite_model::effect::KeyAttribute;
use afterwrite_model::heartbeat::heartbeat_write;
use afterwrite_model::record::{AttributeValue, Timestamp};
use afterwrite_model::table::{Entity, KeyType, Table, Template, TemplatePiece};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// A condition on a key attribute's text.
#[derive(Clone, Debug, PartialEq, Eq)]
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

    /// The order of conditions: the conditions that a beginning includes follow it without a gap.
    fn order(&self) -> (&str, bool) {
        (self.text(), matches!(self, Self::Equals(_)))
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

/// The texts of a key attribute that meet any of the conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum KeyTexts {
    /// Every text, or an attribute that the table does not have.
    #[default]
    All,
    /// In their [order](KeyCondition::order), and none includes another.
    AnyOf(Vec<KeyCondition>),
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
        Self::AnyOf(vec![condition])
    }

    fn union(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::AnyOf(mine), Self::AnyOf(theirs)) => Self::AnyOf(united(mine, theirs).cloned().collect()),
            (Self::All, _) | (_, Self::All) => Self::All,
        }
    }

    /// The texts of any of these, with their beginnings cut to `length` characters.
    fn shortened<'k>(all: impl Iterator<Item = &'k Self>, length: usize) -> Self {
        let mut shortened = Vec::new();
        for texts in all {
            match texts {
                Self::AnyOf(conditions) if length > 0 => {
                    shortened.extend(conditions.iter().map(|condition| condition.shortened(length)));
                }
                Self::All | Self::AnyOf(_) => return Self::All,
            }
        }
        shortened.sort_by(|one, other| one.order().cmp(&other.order()));
        Self::AnyOf(widest(shortened.iter()).cloned().collect())
    }

    /// The number of conditions; far more than any list has if there is no condition.
    fn weight(&self) -> usize {
        match self {
            Self::All => UNCONDITIONAL,
            Self::AnyOf(conditions) => conditions.len(),
        }
    }

    /// The weight of the union, which is not made.
    fn united_weight(&self, other: &Self) -> usize {
        match (self, other) {
            (Self::AnyOf(mine), Self::AnyOf(theirs)) => united(mine, theirs).count(),
            (Self::All, _) | (_, Self::All) => UNCONDITIONAL,
        }
    }

    /// The conditions as patterns list them: exact texts first.
    fn conditions(&self) -> impl Iterator<Item = &KeyCondition> {
        let conditions: &[KeyCondition] = match self {
            Self::All => &[],
            Self::AnyOf(conditions) => conditions,
        };
        let is_exact = |condition: &&KeyCondition| matches!(condition, KeyCondition::Equals(_));
        let exact = conditions.iter().filter(is_exact);
        exact.chain(conditions.iter().filter(move |condition| !is_exact(condition)))
    }
}

/// The weight of an attribute without a condition.
const UNCONDITIONAL: usize = 1000;

/// The conditions of two lists in their order, without conditions that another condition includes.
fn united<'c>(one: &'c [KeyCondition], other: &'c [KeyCondition]) -> impl Iterator<Item = &'c KeyCondition> {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let in_order = std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(first), Some(second)) if first.order() > second.order() => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    });
    widest(in_order)
}

/// Ordered conditions without conditions that another condition includes: a condition follows the condition that includes it.
fn widest<'c>(in_order: impl Iterator<Item = &'c KeyCondition>) -> impl Iterator<Item = &'c KeyCondition> {
    let mut kept: Option<&KeyCondition> = None;
    in_order.filter(move |condition| {
        let is_new = kept.is_none_or(|kept| !kept.includes(condition));
        if is_new {
            kept = Some(*condition);
        }
        is_new
    })
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

    pub(super) fn union(&self, other: &Self) -> Self {
        Self { partition: self.partition.union(&other.partition), sort: self.sort.union(&other.sort) }
    }

    /// How many pairs of a partition key's and a sort key's condition the area has.
    fn weight(&self) -> usize {
        self.partition.weight() * self.sort.weight()
    }

    /// The pairs of conditions that the union with another area adds.
    pub(super) fn added_weight(&self, other: &Self) -> usize {
        let united = self.partition.united_weight(&other.partition) * self.sort.united_weight(&other.sort);
        united.saturating_sub(self.weight() + other.weight())
    }

    /// The pattern that the area's keys match.
    pub(super) fn pattern(&self, table: &Table) -> String {
        let lists = [&self.partition, &self.sort].map(|texts| match texts {
            KeyTexts::All => None,
            KeyTexts::AnyOf(_) => Some(texts.conditions().map(KeyCondition::to_json).collect()),
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

/// At most `count` areas with all the partition keys and any sort key, each beginning cut to `length` characters.
pub(super) fn partition_areas(areas: &[KeyArea], count: usize, length: usize) -> Vec<KeyArea> {
    let all = KeyTexts::shortened(areas.iter().map(|area| &area.partition), length);
    let conditions: Vec<KeyCondition> = all.conditions().cloned().collect();
    if conditions.is_empty() {
        return vec![KeyArea::default()];
    }
    let chunks = conditions.chunks(conditions.len().div_ceil(count.max(1)));
    let texts = chunks.map(|chunk| {
        let mut chunk = chunk.to_vec();
        chunk.sort_by(|one, other| one.order().cmp(&other.order()));
        KeyTexts::AnyOf(chunk)
    });
    texts.map(|partition| KeyArea { partition, sort: KeyTexts::All }).collect()
}
