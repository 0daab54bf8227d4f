//! The result of a trace, as a line of text or as JSON.

use std::collections::BTreeMap;
use std::fmt;

use afterwrite_model::harmless::harmless;
use afterwrite_model::projection::Event;
use serde::Serialize;
use serde_json::value::RawValue;

/// Everything that follows from one change record. But for the images, it has keys and numbers only.
#[derive(Debug, Default, Serialize)]
pub struct RecordTrace {
    /// When the change was made.
    pub at: Option<String>,
    /// `INSERT`, `MODIFY`, `REMOVE`, or `EXPIRE` for a removal by time to live.
    pub operation: String,
    /// The source table's name.
    pub table: String,
    /// The values of the item's key.
    pub key: Vec<String>,
    /// The entity; `None` if the item matches none.
    pub entity: Option<String>,
    /// The rollups whose measures differ between the old and the new image.
    pub rollups: Vec<TracedRollup>,
    /// The stale cache keys.
    pub keys: Vec<String>,
    /// The stale paths.
    pub paths: Vec<String>,
    /// The events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<TracedEvent>,
    /// The rows of datasets.
    pub rows: Vec<TracedRow>,
    /// Why the record is not counted yet, and is delivered again: a lookup through an index finds no item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Why it is not known here which rollups the record changes: outputs of lookups are not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Why the record is malformed, or cannot be counted as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Why the item could not be counted before the change, which mends or removes it: then the differences are not known here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem_before: Option<String>,
    /// The change itself, if contents are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Box<RawValue>>,
}

/// The difference that a record makes to one rollup.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct TracedRollup {
    /// The partition key.
    #[serde(rename = "PK")]
    pub partition: String,
    /// The sort key.
    #[serde(rename = "SK")]
    pub sort: String,
    /// The difference of each measure, with its sign. Of `max` and `min`, the value to take into account.
    pub measures: BTreeMap<String, String>,
}

/// An event, without the values that it states.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct TracedEvent {
    /// The rule's name.
    pub name: String,
    /// The event's id.
    pub id: String,
    /// The target that the rule names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl TracedEvent {
    pub(super) fn of(event: &Event) -> Self {
        let Event { id, name, to, .. } = event;
        Self { name: name.to_string(), id: id.clone(), to: to.as_ref().map(ToString::to_string) }
    }
}

/// A row of a dataset.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct TracedRow {
    /// The dataset.
    pub dataset: String,
    /// The day of its partition.
    pub dt: String,
    /// The change, as the row states it.
    pub operation: String,
}

impl RecordTrace {
    /// Whether the record is counted once a function has taken it: a record with a problem is parked, and one of no entity is ignored.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.entity.is_some() && self.problem.is_none()
    }
}

/// One line, without characters that a terminal would obey.
impl fmt::Display for RecordTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, operation, table, key, entity, .. } = self;
        let (at, entity) = (at.as_deref().unwrap_or("-"), entity.as_deref().unwrap_or("(no entity)"));
        let key = key.join(" ");
        write!(f, "{at} {operation} {} {} → {entity}", harmless(table), harmless(&key))?;
        let rollups = self.rollups.iter().map(ToString::to_string);
        let events = self.events.iter().map(|event| format!("{} {}", event.name, event.id));
        let rows = self.rows.iter().map(|row| format!("{} dt={} {}", row.dataset, row.dt, row.operation));
        for (title, parts) in [
            ("rollups", rollups.collect()),
            ("keys", self.keys.clone()),
            ("paths", self.paths.clone()),
            ("events", events.collect()),
            ("rows", rows.collect::<Vec<_>>()),
        ] {
            if !parts.is_empty() {
                write!(f, " → {title}: {}", harmless(&parts.join(", ")))?;
            }
        }
        let states = [
            ("waits", &self.waits),
            ("unknown", &self.unknown),
            ("problem", &self.problem),
            ("problem before the change", &self.problem_before),
        ];
        for (title, text) in states.into_iter().filter_map(|(title, text)| Some((title, text.as_ref()?))) {
            write!(f, " → {title}: {}", harmless(text))?;
        }
        if let Some(change) = &self.change {
            write!(f, " → change: {}", harmless(change.get()))?;
        }
        Ok(())
    }
}

impl fmt::Display for TracedRollup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measures: Vec<String> =
            self.measures.iter().map(|(name, number)| format!("{name} {number}")).collect();
        write!(f, "{} {} ({})", self.partition, self.sort, measures.join(" "))
    }
}
