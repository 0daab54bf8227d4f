//! The transitions that must be events, counted from the images of all records without code of the product.

use std::fmt;

use afterwrite_demo::exact::ExactNumber;
use afterwrite_model::record::{AttributeValue, Item};
use serde_json::{Map, Value, json};

use super::super::numbers::{exact, stored};
use super::super::oracle::{ItemKind, item_kind};
use super::super::source_rollups::{STATE_IN_ENTRIES, SourceRollup};
use super::super::store::{STATE, key_of_item, key_text, text};
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
    pub(super) fn of_envelope(body: &Value) -> Self {
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        Self {
            rule: text("name"),
            table: text("table"),
            key: body["key"].to_string(),
            position: text("position"),
        }
    }
}

impl fmt::Display for TransitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, table, key, position } = self;
        write!(f, "`{rule}` of {table} {key} at {position}")
    }
}

/// A transition and the event that tells of it.
pub(super) struct ExpectedTransition {
    pub(super) target: EventTargetKind,
    trigger: RuleTrigger,
    entity: &'static str,
    operation: &'static str,
    changed_at: String,
    detail: Value,
}

impl ExpectedTransition {
    pub(super) fn envelope(&self, key: &TransitionKey, id: &Value) -> Value {
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

    pub(super) fn coverage(&self) -> &'static str {
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
        let transition = ExpectedTransition {
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
