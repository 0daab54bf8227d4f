//! The events of an item.

use afterwrite_model::Result;
use afterwrite_model::projection::{EventChange, SecretAttributes, events_of};
use afterwrite_model::table::Model;
use serde::Serialize;
use serde_json::value::RawValue;

/// An event of the item's creation.
#[derive(Debug, Serialize)]
pub struct ItemEvent {
    /// The rule's name.
    pub name: String,
    /// The target that the rule names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The values that it states; `None` if it is the change record.
    pub detail: Option<Box<RawValue>>,
}

/// The events of the item's creation.
///
/// # Errors
/// As [`events_of`].
pub(super) fn events_of_creation(model: &Model, change: &EventChange<'_>) -> Result<Vec<ItemEvent>> {
    let events = events_of(model, change, &SecretAttributes::new(model))?.into_iter();
    let shown = events.map(|event| ItemEvent {
        name: event.name.to_string(),
        to: event.to.as_ref().map(ToString::to_string),
        detail: event.detail().and_then(|detail| RawValue::from_string(detail.to_owned()).ok()),
    });
    Ok(shown.collect())
}
