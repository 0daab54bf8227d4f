//! Event rules: the changes that other systems hear of (`[[events]]`).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use super::load::compiler::{EntityContext, ModelCompiler};
use super::load::problem::ProblemCode;
use super::load::reader::{Located, SettingsTable, place};
use super::named::{named_values, read_named};
use super::template::known_name;
use super::{Entity, InternedPath, Model, ModelNotation, Pattern, Term, ValueFormat};

/// The name in `of` that stands for every item of every source table.
const EVERY_ITEM: &str = "*";

/// A rule that makes events of changes.
#[derive(Debug)]
pub struct EventRule {
    /// Its name, which its events carry.
    pub name: Arc<str>,
    /// The target that it names; `None` for the default target.
    pub to: Option<Arc<str>>,
    /// The changes that it makes events of.
    pub subject: EventSubject,
}

/// The changes that an event rule makes events of.
#[derive(Debug)]
pub enum EventSubject {
    /// Every change of an item of the application. The event is the change record.
    Records,
    /// Changes of the items of one entity.
    Items(ItemEvents),
}

/// The events of the items of one entity.
#[derive(Debug)]
pub struct ItemEvents {
    /// The entity: an index into [`Model::entities`].
    pub of: usize,
    /// The condition that divides the states of an item in two. Without one, the item meets it as long as it exists.
    pub when: Option<Pattern>,
    /// The changes that are events.
    pub on: EventTrigger,
    /// The values that an event states.
    pub detail: Vec<EventValue>,
}

named_values! {
    /// The changes of an item that are events.
    #[derive(Default)]
    pub enum EventTrigger {
        /// The item meets the condition after the change and did not meet it before.
        #[default]
        Enter = "enter" | "insert" | "create" | "created",
        /// The item met the condition before the change and does not meet it any more.
        Leave = "leave" | "exit" | "remove" | "delete" | "deleted",
        /// The item meets the condition after the change.
        Change = "change" | "changes" | "modify" | "update" | "all" | "any",
    }
}

/// A value that an event states.
#[derive(Debug)]
pub struct EventValue {
    /// As the model file names it, with its format.
    pub name: Arc<str>,
    /// Where it comes from.
    pub from: Term,
    /// How it is written.
    pub format: ValueFormat,
}

impl EventSubject {
    /// The events of the items of one entity, if they are such.
    #[must_use]
    pub fn items(&self) -> Option<&ItemEvents> {
        match self {
            Self::Records => None,
            Self::Items(items) => Some(items),
        }
    }
}

impl EventRule {
    /// The events of the items of one entity, if it makes such.
    #[must_use]
    pub fn items(&self) -> Option<&ItemEvents> {
        self.subject.items()
    }

    /// The rule in words.
    #[must_use]
    pub fn describe(&self, model: &Model) -> EventDescription {
        let items = self.items();
        let when = items.and_then(|items| {
            items.when.as_ref().map(|when| ModelNotation::of(model, items.of, &[]).condition(when))
        });
        EventDescription {
            of: items.map_or_else(|| EVERY_ITEM.to_owned(), |items| model.entity_name(items.of)),
            when,
            on: items.map(|items| items.on),
            detail: items
                .into_iter()
                .flat_map(|items| &items.detail)
                .map(|value| value.name.to_string())
                .collect(),
            to: self.to.as_ref().map(ToString::to_string),
        }
    }
}

impl ItemEvents {
    /// The terms that its values are made from, zones of formats included.
    fn value_terms(&self) -> impl Iterator<Item = &Term> {
        self.detail.iter().flat_map(|value| std::iter::once(&value.from).chain(value.format.zone_term()))
    }

    /// Calls `visit` with every term of its condition and its values.
    pub(super) fn each_term(&self, visit: &mut impl FnMut(&Term)) {
        self.when.iter().for_each(|when| when.each_term(visit));
        self.value_terms().for_each(visit);
    }

    /// The attributes that its values are read or derived from; `entity` has the items.
    pub(super) fn stated_attributes<'e>(
        &'e self,
        entity: &'e Entity,
    ) -> impl Iterator<Item = &'e InternedPath> {
        self.value_terms().flat_map(|term| entity.attributes_of(term))
    }
}

/// An event rule in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventDescription {
    /// The entity; `*` for every item.
    pub of: String,
    /// The condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The changes that are events; absent if the event is the change record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<EventTrigger>,
    /// The values that an event states.
    pub detail: Vec<String>,
    /// The target, if it is not the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl Model {
    /// The targets that the event rules name, each once: `None` for the default target.
    #[must_use]
    pub fn event_targets(&self) -> BTreeSet<Option<Arc<str>>> {
        self.events.iter().map(|rule| rule.to.clone()).collect()
    }

    /// Whether a rule forwards every change record.
    #[must_use]
    pub fn forwards_records(&self) -> bool {
        self.events.iter().any(|rule| rule.items().is_none())
    }
}

/// The keys of an event rule.
pub(super) const KEYS: [&str; 7] = ["name", "of", "records", "when", "on", "detail", "to"];

/// The keys that only a rule of an entity has.
const KEYS_OF_ITEMS: [&str; 3] = ["when", "on", "detail"];

/// Compiles an event rule.
pub(super) fn compile(compiler: &mut ModelCompiler<'_, '_>, settings: &SettingsTable<'_>) -> Option<()> {
    let SettingsTable { owner, at, .. } = settings;
    let problems = &mut *compiler.problems;
    let (name, of) = (settings.required_text("name", problems), settings.required_text("of", problems));
    let records = settings.boolean("records", problems).unwrap_or(false);
    let on = read_named(settings, "on", problems).unwrap_or_default();
    let (detail, to) = (settings.texts("detail", problems), settings.text("to", problems));
    if let Some(name) = name {
        check_rule_name(compiler, name);
    }
    let to = to.and_then(|to| target(compiler, owner, to));
    let subject = match of? {
        of if of.value == EVERY_ITEM => {
            check_records_rule(compiler, settings, records);
            EventSubject::Records
        }
        of => {
            check_items_rule(compiler, settings);
            let entity = compiler.source_named(owner, of);
            let mut context = compiler.context(owner, entity);
            let when = context.pattern(owner, settings.get("when"));
            let detail = context.event_values(&detail);
            // An unknown source is reported; nothing is of it.
            EventSubject::Items(ItemEvents { of: entity.unwrap_or(usize::MAX), when, on, detail })
        }
    };
    let index = compiler.model.events.len();
    let entity = subject.items().and_then(|items| compiler.model.entities.get_mut(items.of));
    entity.into_iter().for_each(|entity| entity.events.push(index));
    compiler.places.events.push(*at);
    compiler.model.events.push(EventRule { name: Arc::from(name?.value), to, subject });
    Some(())
}

/// The length of an event's `DetailType` in EventBridge.
const MAX_NAME: usize = 128;

/// Two rules of one name would give two events one id.
fn check_rule_name(compiler: &mut ModelCompiler<'_, '_>, name: Located<&str>) {
    compiler.check_name("event", name);
    let length = name.value.chars().count();
    if length > MAX_NAME {
        let message = format!(
            "event `{}`: its name has {length} characters, and the `DetailType` of EventBridge has at most {MAX_NAME}; shorten it",
            name.value
        );
        compiler.report(ProblemCode::InvalidEvent, name.at, message);
    }
    let first = compiler.model.events.iter().position(|rule| *rule.name == *name.value);
    if let Some(first) = first.and_then(|first| compiler.places.events.get(first)).copied() {
        let message = format!("event `{}`: another rule has this name; choose another", name.value);
        compiler.report(ProblemCode::DuplicateName, name.at, message).related(first, "the other rule");
    }
}

/// The name of a target, which is the end of the name of an environment variable.
fn target(compiler: &mut ModelCompiler<'_, '_>, owner: &str, to: Located<&str>) -> Option<Arc<str>> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if to.value.is_empty() || !to.value.bytes().all(is_plain) {
        let message = format!(
            "{owner}: `to`: the name of a target is made of lower-case letters, digits and `_`; AFTERWRITE_EVENTS_<TO>, in capital letters, has its ARN"
        );
        compiler.report(ProblemCode::InvalidName, to.at, message);
        return None;
    }
    Some(Arc::from(to.value))
}

/// A rule of every item forwards records, and says so.
fn check_records_rule(compiler: &mut ModelCompiler<'_, '_>, settings: &SettingsTable<'_>, records: bool) {
    let owner = &settings.owner;
    if !records {
        let message = format!(
            "{owner}: `of = \"*\"` forwards whole change records; write `records = true` next to it, or name an entity in `of`"
        );
        compiler.report(ProblemCode::InvalidEvent, settings.at, message);
    }
    for key in KEYS_OF_ITEMS {
        if let Some(value) = settings.get(key) {
            let message = format!(
                "{owner}: `{key}` belongs to the items of one entity, and `of = \"*\"` forwards every change record as it is; leave it out, or name an entity in `of`"
            );
            compiler.report(ProblemCode::InvalidEvent, place(value), message);
        }
    }
}

fn check_items_rule(compiler: &mut ModelCompiler<'_, '_>, settings: &SettingsTable<'_>) {
    if let Some(value) = settings.get("records") {
        let message = format!(
            "{}: `records` forwards the change records of all items; write `of = \"*\"`, or leave it out and name the values in `detail`",
            settings.owner
        );
        compiler.report(ProblemCode::InvalidEvent, place(value), message);
    }
}

impl EntityContext<'_, '_, '_> {
    /// The values that `detail` names.
    fn event_values(&mut self, names: &[Located<&str>]) -> Vec<EventValue> {
        let owner = format!("{}: `detail`", self.owner);
        let mut values: Vec<EventValue> = Vec::new();
        for name in names {
            let Some(resolved) = self.resolve(&owner, *name) else { continue };
            let known = known_name(name.value);
            if values.iter().any(|value| *value.name == *known) {
                let message = format!("{owner}: `{}` is named twice; name it once", name.value);
                self.report(ProblemCode::DuplicateName, name.at, message);
                continue;
            }
            if !resolved.format.is_plain() && !resolved.value_type.is_ordered() {
                let message = format!(
                    "{owner}: `{}` would always be null, because the value is {}, not a time",
                    name.value,
                    resolved.value_type.described()
                );
                self.report(ProblemCode::InvalidEvent, name.at, message);
            }
            values.push(EventValue { name: Arc::from(known), from: resolved.term, format: resolved.format });
        }
        values
    }
}
