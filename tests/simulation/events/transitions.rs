//! The transitions that must be events, counted from the images of all records without code of the product.

use std::fmt;

use afterwrite_demo::exact::ExactNumber;
use afterwrite_model::record::{AttributeValue, Item};
use serde_json::{Map, Value, json};

use super::super::numbers::{exact, stored};
use super::super::oracle::{ItemKind, item_kind};
use super::super::source_rollups::{STATE_IN_ENTRIES, SourceRollup};
use super::super::store::{MAIN, STATE, key_of_item, key_text, text};
use super::super::stream::StreamRecord;
use super::state::EventTargetKind::{self, Fifo, Standard};

/// The identity of a transition: a rule, an item and the place of the change among the item's changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TransitionKey {
    rule: String,
    table: String,
    key: String,
    position: String,
}

impl TransitionKey {
    /// The transition that a message names: an envelope, or a forwarded record.
    pub(super) fn of_message(body: &Value) -> Self {
        if body.get("dynamodb").is_some() {
            return Self::of_record(body);
        }
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        Self {
            rule: text("name"),
            table: text("table"),
            key: body["key"].to_string(),
            position: text("position"),
        }
    }

    fn of_record(record: &Value) -> Self {
        let arn = record["eventSourceARN"].as_str().unwrap_or_default();
        let (table, label) =
            arn.split_once("table/").and_then(|(_, rest)| rest.split_once("/stream/")).unwrap_or_default();
        let change = &record["dynamodb"];
        // Each value of a key is a map of its type and its text.
        let text = |value: &Value| value.as_object().and_then(|typed| typed.values().next()).cloned();
        let keys = change["Keys"].as_object().into_iter().flatten();
        let key: Map<String, Value> =
            keys.map(|(name, value)| (name.clone(), text(value).unwrap_or_default())).collect();
        Self {
            rule: FORWARDING_RULE.to_owned(),
            table: table.to_owned(),
            key: Value::from(key).to_string(),
            position: format!("{label}#{:0>40}", change["SequenceNumber"].as_str().unwrap_or_default()),
        }
    }

    /// The item in one stream: changes in two streams of a table have no order.
    pub(super) fn item(&self) -> (&str, &str, &str) {
        let label = self.position.split('#').next().unwrap_or_default();
        (&self.table, &self.key, label)
    }

    pub(super) fn position(&self) -> &str {
        &self.position
    }
}

/// The rule that forwards change records.
const FORWARDING_RULE: &str = "changes";

impl fmt::Display for TransitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, table, key, position } = self;
        write!(f, "`{rule}` of {table} {key} at {position}")
    }
}

/// A transition and the event that tells of it.
pub(super) enum ExpectedTransition {
    /// A rule of an entity or a rollup.
    OfItem(ItemTransition),
    /// A change that is forwarded as it was delivered.
    Forwarded(String),
}

/// A transition of an item.
pub(super) struct ItemTransition {
    target: EventTargetKind,
    trigger: RuleTrigger,
    entity: &'static str,
    operation: &'static str,
    changed_at: String,
    detail: Value,
}

impl ExpectedTransition {
    pub(super) fn target(&self) -> EventTargetKind {
        match self {
            Self::OfItem(transition) => transition.target,
            Self::Forwarded(_) => Fifo,
        }
    }

    /// The message that tells of it; `id` is the id of the envelope.
    pub(super) fn message(&self, key: &TransitionKey, id: &Value) -> Value {
        match self {
            Self::OfItem(transition) => transition.envelope(key, id),
            Self::Forwarded(record) => serde_json::from_str(record).unwrap(),
        }
    }

    pub(super) fn coverage(&self) -> &'static str {
        match self {
            Self::OfItem(transition) => transition.coverage(),
            Self::Forwarded(_) => "event: record forwarded",
        }
    }
}

impl ItemTransition {
    fn envelope(&self, key: &TransitionKey, id: &Value) -> Value {
        json!({
            "id": id,
            "name": key.rule,
            "entity": self.entity,
            "table": key.table,
            "key": serde_json::from_str::<Value>(&key.key).unwrap(),
            "detail": self.detail,
            "operation": self.operation,
            "changed_at": self.changed_at,
            "position": key.position,
        })
    }

    fn coverage(&self) -> &'static str {
        match (self.operation, self.entity, self.trigger) {
            ("EXPIRE", _, _) => "event: of an expiry",
            (_, "user_total" | "user_day", RuleTrigger::Enter) => "event: threshold of a rollup crossed",
            (_, "user_total" | "user_day", _) => "event: threshold of a rollup crossed back",
            (_, "project", _) => "event: of a mirrored attribute",
            (_, _, RuleTrigger::Enter) => "event: item enters",
            (_, _, RuleTrigger::Leave) => "event: item leaves",
            (_, _, RuleTrigger::Change) => "event: item changes",
        }
    }
}

/// The changes that are events.
#[derive(Clone, Copy, Debug)]
enum RuleTrigger {
    Enter,
    Leave,
    Change,
}

impl RuleTrigger {
    fn is_event(self, before: bool, after: bool) -> bool {
        match self {
            Self::Enter => after && !before,
            Self::Leave => before && !after,
            Self::Change => after,
        }
    }
}

/// A rule of the model.
struct EventRule {
    name: &'static str,
    target: EventTargetKind,
    trigger: RuleTrigger,
    is_met: fn(&Item) -> bool,
    detail: &'static [&'static str],
}

const fn rule(
    name: &'static str,
    target: EventTargetKind,
    trigger: RuleTrigger,
    is_met: fn(&Item) -> bool,
    detail: &'static [&'static str],
) -> EventRule {
    EventRule { name, target, trigger, is_met, detail }
}

static OF_TASK: [EventRule; 3] = [
    rule("task_done", Fifo, RuleTrigger::Enter, is_done, &["task_id", "status", "points"]),
    rule("task_undone", Fifo, RuleTrigger::Leave, is_done, &["status"]),
    rule("task_alive", Fifo, RuleTrigger::Change, is_alive, &["status", "points"]),
];
static OF_USER: [EventRule; 1] =
    [rule("user_active", Fifo, RuleTrigger::Enter, |item| is_two(item, "days"), &["user_id", "days"])];
static OF_DAY: [EventRule; 2] = [
    rule("day_busy", Standard, RuleTrigger::Enter, |item| is_two(item, "sessions"), &["day", "sessions"]),
    rule("day_calm", Standard, RuleTrigger::Leave, |item| is_two(item, "sessions"), &["day", "sessions"]),
];
static OF_PROJECT: [EventRule; 1] = [rule(
    "project_filled",
    Standard,
    RuleTrigger::Enter,
    |item| is_two(item, "task_count"),
    &["project_id"],
)];
static OF_POST: [EventRule; 2] = [
    rule("post_live", Standard, RuleTrigger::Enter, |_| true, &["post_id", "state"]),
    rule("post_gone", Standard, RuleTrigger::Leave, |_| true, &["state"]),
];

fn is_done(item: &Item) -> bool {
    text(item, "status") == "DONE"
}

fn is_alive(item: &Item) -> bool {
    item.contains_key("status") && text(item, "status") != "CANCELLED"
}

/// Whether the number is at least two.
fn is_two(item: &Item, name: &str) -> bool {
    stored(item, name).is_some_and(|number| number >= exact("2"))
}

/// The rules of an item's entity, the entity's name, and whether the item is of it in a state.
fn rules_of(kind: &ItemKind<'_>) -> Option<(&'static [EventRule], &'static str)> {
    Some(match kind {
        ItemKind::Task { .. } => (&OF_TASK, "task"),
        ItemKind::Project { .. } => (&OF_PROJECT, "project"),
        ItemKind::Post => (&OF_POST, "post"),
        ItemKind::Rollup(SourceRollup::UserTotal) => (&OF_USER, "user_total"),
        ItemKind::Rollup(SourceRollup::UserDay) => (&OF_DAY, "user_day"),
        _ => return None,
    })
}

/// Whether an item with such a key is of the rules' entity.
fn is_of_entity(kind: &ItemKind<'_>, item: &Item) -> bool {
    match kind {
        ItemKind::Post => text(item, "state") == "LIVE",
        ItemKind::Rollup(source) => source.is_present(item),
        _ => true,
    }
}

/// The transitions of a record.
pub(super) fn transitions(record: &StreamRecord) -> Vec<(TransitionKey, ExpectedTransition)> {
    let of_item = item_transitions(record).into_iter();
    let of_item = of_item.map(|(key, transition)| (key, ExpectedTransition::OfItem(transition)));
    let forwarded = is_forwarded(record).then(|| {
        let body: Value = serde_json::from_str(&record.json).unwrap();
        (TransitionKey::of_message(&body), ExpectedTransition::Forwarded(record.json.clone()))
    });
    of_item.chain(forwarded).collect()
}

/// Whether a change is the application's own. A table with the keys of the state table could be that table: items with reserved keys are
/// Afterwrite's.
fn is_forwarded(record: &StreamRecord) -> bool {
    let is_reserved = ["LEDGER#", "LOOKUP#"].iter().any(|prefix| record.partition.starts_with(prefix));
    record.table != STATE && !(record.table == MAIN && is_reserved)
}

fn item_transitions(record: &StreamRecord) -> Vec<(TransitionKey, ItemTransition)> {
    let kind = item_kind(record.table, &record.partition, record.sort.as_deref());
    let Some((rules, entity)) = rules_of(&kind) else { return Vec::new() };
    let [before, after] =
        [&record.old, &record.new].map(|image| image.as_ref().filter(|item| is_of_entity(&kind, item)));
    let operation = match (&record.old, &record.new) {
        (None, _) => "INSERT",
        (Some(_), Some(_)) => "MODIFY",
        (Some(_), None) if record.is_expiry => "EXPIRE",
        (Some(_), None) => "REMOVE",
    };
    let is_event = |rule: &&EventRule| {
        let [before, after] = [before, after].map(|item| item.is_some_and(rule.is_met));
        rule.trigger.is_event(before, after)
    };
    let Some(shown) = after.or(before) else { return Vec::new() };
    let table = if record.table == STATE { STATE_IN_ENTRIES } else { record.table };
    let transition = |rule: &EventRule| {
        let key = TransitionKey {
            rule: rule.name.to_owned(),
            table: table.to_owned(),
            key: key_json(record.table, shown).to_string(),
            position: record.position(),
        };
        let transition = ItemTransition {
            target: rule.target,
            trigger: rule.trigger,
            entity,
            operation,
            changed_at: record.created_at.to_string(),
            detail: detail(record, shown, rule.detail),
        };
        (key, transition)
    };
    rules.iter().filter(is_event).map(transition).collect()
}

fn key_json(table: &str, item: &Item) -> Value {
    let key = key_of_item(table, item);
    let attributes = [Some(key.partition), key.sort].into_iter().flatten();
    let members: Map<String, Value> =
        attributes.map(|attribute| (attribute.name.to_string(), key_text(&attribute.value).into())).collect();
    members.into()
}

/// The values of an event: variables of the key, or attributes.
fn detail(record: &StreamRecord, item: &Item, names: &[&str]) -> Value {
    let sort = record.sort.as_deref().unwrap_or_default();
    let second = |key: &str| Value::from(key.split_once('#').map(|(_, rest)| rest));
    let value = |name: &str| match name {
        "task_id" | "project_id" => second(sort),
        "post_id" | "user_id" => second(&record.partition),
        "day" => Value::from(sort.strip_prefix("ROLLUP#DAY#")),
        name => item.get(name).map(value_json).unwrap_or_default(),
    };
    names.iter().map(|name| ((*name).to_owned(), value(name))).collect::<Map<String, Value>>().into()
}

fn value_json(value: &AttributeValue<'_>) -> Value {
    match value {
        AttributeValue::S(text) => text.as_ref().into(),
        AttributeValue::N(number) => {
            let number: ExactNumber = exact(&number.to_string());
            number.to_i64().expect("a small whole number").into()
        }
        _ => Value::Null,
    }
}
