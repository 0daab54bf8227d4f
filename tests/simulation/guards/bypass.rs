//! How a guard is switched off: a change of what the product writes or reads, so that the guard has no effect.

use std::time::Duration;

use afterwrite_model::effect::{AttributeChange, ItemKey, KeyAttribute, Write, WriteAction, WriteCondition};
use afterwrite_model::record::{AttributePath, AttributeValue, Decimal, Item};
use afterwrite_model::table::{Entity, EventSubject, EventTrigger, Model, OnExpiry};
use serde_json::Value;

use super::super::events::state::EventBypass;
use super::super::store::{STATE, text};

/// The kind of an item that the product reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemClass {
    Entry,
    /// An entry of an item of a source rollup.
    LevelEntry,
    Marker,
    /// A marker of an expired item of a source rollup.
    LevelMarker,
    Lookup,
    Rollup,
    /// An item of the application.
    Source,
}

impl ItemClass {
    /// Whether items of the other class are of this class, too.
    pub(crate) fn includes(self, other: Self) -> bool {
        match (self, other) {
            (Self::Entry, Self::LevelEntry) | (Self::Marker, Self::LevelMarker) => true,
            (one, other) => one == other,
        }
    }
}

/// The change of the product's calls, of its model or of its deployment that switches a guard off.
#[derive(Clone, Debug)]
pub(crate) enum GuardBypass {
    /// Changes the writes of such items.
    Write(ItemClass, fn(&mut Write)),
    /// Single writes of such items, if the function selects them, have no effect.
    OmitSingle(ItemClass, fn(&Write) -> bool),
    /// Writes of such items in transactions have no effect.
    OmitAction(ItemClass),
    /// Changes such items when they are read, or returned with a refusal.
    Read(ItemClass, fn(&mut Item)),
    /// Reads find no such items. Conditions do.
    Hide(ItemClass),
    /// Reads of such items are eventually consistent.
    ReadStale(ItemClass),
    /// The server's clock is ahead of the run's time.
    ServerAhead(Duration),
    /// A transaction's writes are single writes, one after the other.
    TransactPiecemeal,
    /// The processes have another model.
    Model(fn(&mut Model)),
    /// The state table's stream is delivered without a filter.
    Unfiltered,
    /// The targets of events, or their queue, behave differently.
    Events(EventBypass),
}

/// The class of the item with this key. `item` has its contents, if there are any: of the ledger's items, only entries
/// have contributions.
pub(crate) fn item_class(key: &ItemKey, item: Option<&Item>) -> ItemClass {
    if *key.table != *STATE {
        return ItemClass::Source;
    }
    let text = |attribute: &KeyAttribute| attribute.value.as_text().unwrap_or("").to_owned();
    let (partition, sort) = (text(&key.partition), key.sort.as_ref().map(text).unwrap_or_default());
    let is_entry = || match item {
        Some(item) => item.contains_key("contributions"),
        None => !sort.contains("#EXPIRED#"),
    };
    let is_level = partition.starts_with("LEDGER#@state#");
    match (partition.starts_with("LEDGER#"), partition.starts_with("LOOKUP#")) {
        (true, _) => match (is_entry(), is_level) {
            (true, false) => ItemClass::Entry,
            (true, true) => ItemClass::LevelEntry,
            (false, false) => ItemClass::Marker,
            (false, true) => ItemClass::LevelMarker,
        },
        (false, true) => ItemClass::Lookup,
        (false, false) => ItemClass::Rollup,
    }
}

/// The class of the item that is written.
pub(crate) fn written_class(write: &Write) -> ItemClass {
    match &write.action {
        WriteAction::Put(item) => item_class(&write.key, Some(item)),
        WriteAction::Update(_) | WriteAction::Delete => item_class(&write.key, None),
    }
}

/// A condition that never holds.
const NEVER: WriteCondition = WriteCondition::Any(Vec::new());

/// Replaces the parts of a write's condition for which `replace` has a replacement, outermost first.
fn replace_conditions(write: &mut Write, replace: fn(&WriteCondition) -> Option<WriteCondition>) {
    write.condition = replaced(&write.condition, replace);
}

fn replaced(
    condition: &WriteCondition,
    replace: fn(&WriteCondition) -> Option<WriteCondition>,
) -> WriteCondition {
    let replaced_all = |parts: &[WriteCondition]| parts.iter().map(|part| replaced(part, replace)).collect();
    match (replace(condition), condition) {
        (Some(replacement), _) => replacement,
        (None, WriteCondition::All(parts)) => WriteCondition::All(replaced_all(parts)),
        (None, WriteCondition::Any(parts)) => WriteCondition::Any(replaced_all(parts)),
        (None, other) => other.clone(),
    }
}

fn is_path(path: &AttributePath, suffix: &str) -> bool {
    path.names().last().is_some_and(|name| name.ends_with(suffix))
}

// --- Conditions of the state table's items -----------------------------------------------------------------------

pub(crate) fn drop_revision_condition(write: &mut Write) {
    replace_conditions(write, |part| {
        matches!(part, WriteCondition::Equals(path, _) if is_path(path, "rev"))
            .then_some(WriteCondition::Always)
    });
}

pub(crate) fn drop_absence_condition(write: &mut Write) {
    replace_conditions(write, |part| (*part == WriteCondition::ItemAbsent).then_some(WriteCondition::Always));
}

/// The condition of a marker that settles an expiry.
pub(crate) fn settle_always(write: &mut Write) {
    if !is_parking(write) {
        write.condition = WriteCondition::Always;
    }
}

/// The condition of a marker that parks an expiry.
pub(crate) fn park_always(write: &mut Write) {
    if is_parking(write) {
        write.condition = WriteCondition::Always;
    }
}

fn is_parking(write: &Write) -> bool {
    matches!(&write.action, WriteAction::Put(item) if item.contains_key("behind"))
}

// --- Conditions of mirrors ---------------------------------------------------------------------------------------

/// A copy of any revision is replaced.
pub(crate) fn replace_newer_copies(write: &mut Write) {
    replace_conditions(write, |part| {
        matches!(part, WriteCondition::Less(path, _) if is_path(path, "_rev"))
            .then_some(WriteCondition::Always)
    });
}

/// Another value at the same revision does not cause a write.
pub(crate) fn keep_overwritten_copies(write: &mut Write) {
    replace_conditions(write, |part| match part {
        WriteCondition::All(parts) => {
            let is_same =
                matches!(parts.first(), Some(WriteCondition::Equals(path, _)) if is_path(path, "_rev"));
            is_same.then_some(NEVER)
        }
        _ => None,
    });
}

/// A copy of another rollup does not cause a write.
pub(crate) fn keep_foreign_copies(write: &mut Write) {
    replace_conditions(write, |part| match part {
        WriteCondition::Absent(path) | WriteCondition::Differs(path, _) if is_path(path, "_of") => {
            Some(NEVER)
        }
        _ => None,
    });
}

/// A write creates its item.
pub(crate) fn create_items(write: &mut Write) {
    replace_conditions(write, |part| (*part == WriteCondition::ItemExists).then_some(WriteCondition::Always));
}

/// A map around nested copies is created although it exists.
pub(crate) fn replace_maps(write: &mut Write) {
    let WriteAction::Update(changes) = &write.action else { return };
    let is_map = |change: &AttributeChange| matches!(change, AttributeChange::Set(_, AttributeValue::M(map)) if map.is_empty());
    if changes.iter().any(is_map) {
        write.condition = WriteCondition::ItemExists;
    }
}

// --- Contents of writes ------------------------------------------------------------------------------------------

fn put_item(write: &mut Write) -> Option<&mut Item> {
    match &mut write.action {
        WriteAction::Put(item) => Some(item),
        WriteAction::Update(_) | WriteAction::Delete => None,
    }
}

/// Lets TTL delete what may expire at once.
pub(crate) fn expire_at_once(write: &mut Write) {
    if let Some(expires_at) = put_item(write).and_then(|item| item.get_mut("expires_at")) {
        *expires_at = Decimal::ONE.into();
    }
}

/// Lets TTL delete an entry that marks its item as parked.
pub(crate) fn expire_parked(write: &mut Write) {
    if let Some(item) = put_item(write).filter(|item| item.contains_key("behind")) {
        item.insert("expires_at".into(), Decimal::ONE.into());
    }
}

pub(crate) fn omit_mark(write: &mut Write) {
    if let Some(item) = put_item(write) {
        item.remove("behind");
    }
}

/// Drops the additions to attributes that `is_dropped` selects.
fn drop_additions(write: &mut Write, is_dropped: fn(&str) -> bool) {
    if let WriteAction::Update(changes) = &mut write.action {
        changes.retain(
            |change| !matches!(change, AttributeChange::Add(path, _) if is_dropped(path.root().as_ref())),
        );
    }
}

pub(crate) fn drop_settled_part(write: &mut Write) {
    drop_additions(write, |name| name.starts_with("settled_"));
}

pub(crate) fn keep_revision(write: &mut Write) {
    drop_additions(write, |name| name == "rev");
}

// --- Single writes ------------------------------------------------------------------------------------------------

/// An entry that changes no rollup and parks nothing.
pub(crate) fn is_only_position(write: &Write) -> bool {
    !is_parking(write)
}

/// The note of another key at which a looked-up item has been seen.
pub(crate) fn is_note(write: &Write) -> bool {
    matches!(write.action, WriteAction::Update(_))
}

// --- Contents of reads --------------------------------------------------------------------------------------------

/// The entry's position is the start of its stream.
pub(crate) fn hide_position(item: &mut Item) {
    let label = text(item, "position").split('#').next().unwrap_or_default().to_owned();
    item.insert("position".into(), AttributeValue::text(format!("{label}#{:0>40}", 0)));
}

pub(crate) fn hide_as_of(item: &mut Item) {
    item.remove("as_of");
}

pub(crate) fn hide_mark(item: &mut Item) {
    item.remove("behind");
}

/// The entry was written by the first generation of the model.
pub(crate) fn hide_generation(item: &mut Item) {
    item.insert("generation".into(), Decimal::ONE.into());
}

pub(crate) fn hide_contributions(item: &mut Item) {
    item.insert("contributions".into(), AttributeValue::text("[]"));
}

/// The rollups that the item left are unknown.
pub(crate) fn hide_left(item: &mut Item) {
    change_contributions(item, |contributions| {
        contributions.retain(|contribution| !contribution[0].is_null());
    });
}

/// The shards of the entry's rollups are those of a rollup without shards.
pub(crate) fn hide_shards(item: &mut Item) {
    change_targets(item, |target| target[3] = Value::Null);
}

/// The entry's rollups never expire.
pub(crate) fn hide_rollup_expiry(item: &mut Item) {
    change_targets(item, |target| target[4] = Value::Null);
}

fn change_targets(item: &mut Item, change: fn(&mut Vec<Value>)) {
    change_contributions(item, |contributions| {
        let targets = contributions.iter_mut().filter_map(|contribution| contribution[1].as_array_mut());
        for target in targets.flatten().filter_map(Value::as_array_mut).filter(|target| target.len() == 5) {
            change(target);
        }
    });
}

fn change_contributions(item: &mut Item, change: impl FnOnce(&mut Vec<Value>)) {
    let mut contributions: Vec<Value> = serde_json::from_str(text(item, "contributions")).unwrap();
    change(&mut contributions);
    item.insert("contributions".into(), AttributeValue::text(serde_json::to_string(&contributions).unwrap()));
}

/// The remembered lookup notes no other keys.
pub(crate) fn hide_notes(item: &mut Item) {
    item.retain(|name, _| !name.starts_with("seen_at#"));
}

// --- The model ----------------------------------------------------------------------------------------------------

/// The entities of items of source rollups.
fn of_rollups(model: &mut Model) -> impl Iterator<Item = &mut Entity> {
    model.entities.iter_mut().filter(|entity| entity.rollup.is_some())
}

/// An item of a source rollup whose measures are all zero counts as present.
pub(crate) fn count_zeros(model: &mut Model) {
    of_rollups(model).for_each(|entity| entity.when = None);
}

/// TTL deletes an item of a source rollup like any deletion.
pub(crate) fn subtract_expired_rollups(model: &mut Model) {
    of_rollups(model).for_each(|entity| entity.on_expiry = OnExpiry::Subtract);
}

/// A change is an event of a rule whether or not the item met the rule before.
pub(crate) fn ignore_old_states(model: &mut Model) {
    for rule in &mut model.events {
        if let EventSubject::Items(items) = &mut rule.subject
            && items.on == EventTrigger::Enter
        {
            items.on = EventTrigger::Change;
        }
    }
}
