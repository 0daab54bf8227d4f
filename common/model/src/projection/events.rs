//! The events of a change: the rules of the model that it meets, and the message of each. Pure, so that every delivery of a record has the same
//! events with the same ids.
//!
//! An item meets a rule in a state in which it is of the rule's entity and its image meets the rule's condition.
//!
//! ```text
//! on         met before the change    met after it
//! enter      no                       yes
//! leave      yes                      no
//! change     either                   yes
//! ```
//!
//! A condition never fails a record, as in datasets: the stream has other readers, and none of them waits because a value has a wrong type. Such a
//! value is tested as it is, and a derived value that cannot be computed is absent.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::rows::value_of;
use super::{ImageScope, RowOperation, SecretAttributes, archive_line};
use crate::entity::{ItemCandidates, SourceKey};
use crate::record::{AttributeValue, ChangeRecord, Image, Operation, Timestamp, plain_json};
use crate::table::{Entity, EventRule, EventSubject, EventTrigger, EventValue, ItemEvents, Model, Operand};
use crate::{Result, hex};

/// How much of a hash an id and a group have, in bytes.
const HASH_LENGTH: usize = 16;

/// The decimal places of a ratio, as of an average.
const RATIO_PLACES: u8 = 6;

/// A change of one item, decoded with [`Model::attributes`].
#[derive(Clone, Copy)]
pub struct EventChange<'c> {
    /// The item.
    pub source: &'c SourceKey<'c>,
    /// The entities that the item's key allows; `None` if no entity has such a key.
    pub candidates: Option<&'c ItemCandidates<'c, 'c>>,
    /// The record.
    pub record: &'c ChangeRecord<'c>,
    /// The record's JSON as delivered.
    pub json: &'c str,
}

/// An event of a change: complete, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// 32 hexadecimal digits, the same at every delivery.
    pub id: String,
    /// The rule's name.
    pub name: Arc<str>,
    /// The target that the rule names; `None` for the default target.
    pub to: Option<Arc<str>>,
    /// A hash of the item's key, 32 hexadecimal digits. Events of one item have an order.
    pub group: String,
    /// The time of the change. Some emulators and archived records omit it.
    pub changed_at: Option<Timestamp>,
    /// The envelope's JSON up to the item's key.
    head: String,
    content: EventContent,
    /// The envelope's JSON from the operation on, without the last brace.
    tail: String,
}

/// The statement of an event about its change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum EventContent {
    /// Values of the item, a JSON object.
    Detail(String),
    /// The change record without secrets.
    Record(String),
}

impl Event {
    /// The message, JSON on one line: the envelope or, of a rule that forwards records, the change record.
    #[must_use]
    pub fn body(&self) -> String {
        match &self.content {
            EventContent::Detail(detail) => [&self.head, ",\"detail\":", detail, &self.tail, "}"].concat(),
            EventContent::Record(record) => record.clone(),
        }
    }

    /// The values that it states, a JSON object; `None` if it forwards the change record.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        match &self.content {
            EventContent::Detail(detail) => Some(detail),
            EventContent::Record(_) => None,
        }
    }

    /// The message if [`Event::body`] is too large for the target: the envelope with `"detail_omitted":true` in place of the values or of the
    /// record.
    #[must_use]
    pub fn body_without_detail(&self) -> String {
        [&self.head, &self.tail, ",\"detail_omitted\":true}"].concat()
    }
}

/// The events of a change, in the order of the model's rules.
///
/// # Errors
/// [`crate::ErrorKind::Stream`] if the stream does not carry an image that a rule needs; [`crate::ErrorKind::Record`] if the record lacks the image
/// all the same, or is malformed.
pub fn events_of(model: &Model, change: &EventChange<'_>, secrets: &SecretAttributes) -> Result<Vec<Event>> {
    let states = match change.candidates {
        Some(candidates) if candidates.any(|entity| !entity.events.is_empty()) => {
            Some(ItemStates::of(model, candidates, change.record)?)
        }
        Some(_) | None => None,
    };
    let mut events = Vec::new();
    for rule in &model.events {
        let (content, entity) = match &rule.subject {
            EventSubject::Items(items) => match states.as_ref().and_then(|states| states.shown(items)) {
                Some(scope) => {
                    (EventContent::Detail(detail_json(&scope, &items.detail)), Some(&scope.entity.name))
                }
                None => continue,
            },
            EventSubject::Records if is_of_application(model, change.source) => {
                (EventContent::Record(forwarded_record(change, secrets)?), None)
            }
            EventSubject::Records => continue,
        };
        events.push(event(model, change, rule, entity, content));
    }
    Ok(events)
}

/// An item before and after a change.
struct ItemStates<'c> {
    model: &'c Model,
    candidates: &'c ItemCandidates<'c, 'c>,
    /// `None` if the item did not exist, or if no rule depends on it.
    old: Option<Image<'c>>,
    new: Option<&'c Image<'c>>,
}

impl<'c> ItemStates<'c> {
    fn of(
        model: &'c Model,
        candidates: &'c ItemCandidates<'c, 'c>,
        record: &'c ChangeRecord<'c>,
    ) -> Result<Self> {
        if record.lacks_image() {
            return Err(candidates.missing_image(record, "an event"));
        }
        let states = Self { model, candidates, old: None, new: record.new.as_ref() };
        let depends_on_old = |items: &ItemEvents| match items.on {
            EventTrigger::Enter => states.is_met(items, states.new),
            EventTrigger::Leave => {
                candidates.any(|entity| states.is_source(items, entity)) && !states.is_met(items, states.new)
            }
            EventTrigger::Change => false,
        };
        let needs_old = record.operation != Operation::Insert
            && model.events.iter().filter_map(EventRule::items).any(depends_on_old);
        let old = if needs_old { record.old.decode(&model.attributes)? } else { None };
        Ok(Self { old, ..states })
    }

    /// The scope of an image, if the item is of the rule's entity in this state.
    fn scope<'s>(&'s self, items: &ItemEvents, image: Option<&'s Image<'c>>) -> Option<ImageScope<'s, 'c>> {
        let identity = self.candidates.in_state(image?)?;
        self.is_source(items, identity.entity).then_some(ImageScope::of(self.model, identity, image?))
    }

    /// Whether a rule is of an entity.
    fn is_source(&self, items: &ItemEvents, entity: &Entity) -> bool {
        self.model.entities.get(items.of).is_some_and(|of| std::ptr::eq(of, entity))
    }

    fn is_met(&self, items: &ItemEvents, image: Option<&Image<'c>>) -> bool {
        let scope = self.scope(items, image);
        scope.is_some_and(|scope| items.when.as_ref().is_none_or(|when| scope.satisfies(when)))
    }

    /// The scope in which the values of an event are read, if the change is one: the state after the change or, if the item is not of the
    /// entity any more, the state before it.
    fn shown(&self, items: &ItemEvents) -> Option<ImageScope<'_, 'c>> {
        let (old, new) = (self.old.as_ref(), self.new);
        let is_met_after = self.is_met(items, new);
        let is_event = match items.on {
            EventTrigger::Enter => is_met_after && !self.is_met(items, old),
            EventTrigger::Leave => !is_met_after && self.is_met(items, old),
            EventTrigger::Change => is_met_after,
        };
        if is_event { self.scope(items, new).or_else(|| self.scope(items, old)) } else { None }
    }
}

/// Whether an item is the application's own: its changes are forwarded. Items of the state table and the heartbeat are Afterwrite's.
fn is_of_application(model: &Model, source: &SourceKey<'_>) -> bool {
    Some(source.table) != model.state_source() && !source.is_heartbeat() && !source.is_reserved(model)
}

/// The record on one line, without the secrets that its item can have.
fn forwarded_record(change: &EventChange<'_>, secrets: &SecretAttributes) -> Result<String> {
    let secrets = secrets.of_change(change.candidates.map(|candidates| (change.record, candidates)));
    let mut line = archive_line(change.json, &secrets)?;
    line.truncate(line.trim_end().len());
    Ok(line)
}

/// The values that an event states, as a JSON object. A value that is absent is `null`.
fn detail_json(scope: &ImageScope<'_, '_>, detail: &[EventValue]) -> String {
    json_object(detail.iter().map(|value| (&*value.name, value_json(scope, value))))
}

fn value_json(scope: &ImageScope<'_, '_>, value: &EventValue) -> String {
    let json = if value.format.is_plain() {
        value_of(scope, &value.from).map(|operand| match operand {
            Operand::Value(value) => plain_json(value),
            Operand::Text(text) => text_json(&text),
            Operand::Number(number) => plain_json(&number.into()),
            Operand::Ratio { numerator, denominator } => {
                let quotient = numerator.divided_by(&denominator, RATIO_PLACES);
                quotient
                    .map_or_else(|| plain_json(&AttributeValue::Null), |number| plain_json(&number.into()))
            }
        })
    } else {
        scope.text(&value.from, &value.format).ok().flatten().map(|text| text_json(&text))
    };
    json.unwrap_or_else(|| plain_json(&AttributeValue::Null))
}

/// An object of values that are JSON already.
fn json_object<'n>(members: impl Iterator<Item = (&'n str, String)>) -> String {
    let members: Vec<String> = members.map(|(name, value)| format!("{}:{value}", text_json(name))).collect();
    format!("{{{}}}", members.join(","))
}

fn text_json(text: &str) -> String {
    plain_json(&text.into())
}

/// The event that a rule makes of a change. `entity` is the item's, if the rule is of one.
fn event(
    model: &Model,
    change: &EventChange<'_>,
    rule: &EventRule,
    entity: Option<&Arc<str>>,
    content: EventContent,
) -> Event {
    let EventChange { source, record, .. } = change;
    let table = model.tables.get(source.table);
    let table_name = table.map_or("", |table| &*table.name);
    let position = record.position.to_text();
    let key = [table_name, &source.partition, source.sort.as_deref().unwrap_or_default()];
    let id = hash([&*rule.name, &position].into_iter().chain(key));
    let attributes = table.into_iter().flat_map(|table| table.key());
    let attributes = attributes.filter_map(|key| Some((&*key.name, plain_json(record.keys.get(&key.name)?))));
    let mut members = vec![("id", text_json(&id)), ("name", text_json(&rule.name))];
    members.extend(entity.map(|entity| ("entity", text_json(entity))));
    members.extend([("table", text_json(table_name)), ("key", json_object(attributes))]);
    let mut head = json_object(members.into_iter());
    head.truncate(head.len().saturating_sub(1));
    let changed_at = record.created_at.map_or(AttributeValue::Null, |time| time.to_string().into());
    let tail = format!(
        ",\"operation\":{},\"changed_at\":{},\"position\":{}",
        text_json(operation(change).name()),
        plain_json(&changed_at),
        text_json(&position)
    );
    let (name, to, group) = (Arc::clone(&rule.name), rule.to.clone(), hash(key));
    Event { id, name, to, group, changed_at: record.created_at, head, content, tail }
}

/// The kind of change, as rows of datasets state it.
fn operation(change: &EventChange<'_>) -> RowOperation {
    let EventChange { candidates, record, .. } = change;
    match record.operation {
        Operation::Insert => RowOperation::Insert,
        Operation::Modify => RowOperation::Modify,
        Operation::Remove if candidates.map_or(record.expired, |known| known.is_expiry(record)) => {
            RowOperation::Expire
        }
        Operation::Remove => RowOperation::Remove,
    }
}

/// A hash of texts. Their lengths keep apart what would be the same text when joined.
fn hash<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(format!("{}:{text}", text.len()));
    }
    hex(&hash.finalize(), HASH_LENGTH)
}

#[cfg(test)]
mod tests;
