//! The forms of values in the schema, and objects with a fixed list of keys.

use serde_json::{Map, Value, json};

use crate::table::named::NamedValue;

/// The names that entities, rollups and other parts can have.
pub(super) const PART_NAME: &str = "^[A-Za-z0-9_-]+$";

/// The names that datasets, columns and queries can have.
pub(super) const SQL_NAME: &str = "^[a-z][a-z0-9_]*$";

/// A key of an object: its description and the form of its value.
pub(super) struct KeyForm {
    about: &'static str,
    form: Value,
    is_required: bool,
}

/// A key that must be present.
pub(super) fn required(about: &'static str, form: Value) -> KeyForm {
    KeyForm { about, form, is_required: true }
}

/// A key that can be absent.
pub(super) fn optional(about: &'static str, form: Value) -> KeyForm {
    KeyForm { about, form, is_required: false }
}

/// An object with these keys and no others. A key without a form allows every value.
pub(super) fn closed_object(about: &str, keys: &[&str], form_of: impl Fn(&str) -> Option<KeyForm>) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for key in keys {
        let property = form_of(key).map_or_else(
            || json!({}),
            |KeyForm { about, form, is_required }| {
                if is_required {
                    required.push(*key);
                }
                described(form, about)
            },
        );
        properties.insert((*key).to_owned(), property);
    }
    let object = json!({ "type": "object", "additionalProperties": false, "properties": properties, "required": required });
    described(object, about)
}

/// The same object, in which one key needs another.
pub(super) fn needing(mut object: Value, key: &str, other: &str) -> Value {
    if let Some(object) = object.as_object_mut() {
        object.insert("dependentRequired".to_owned(), json!({ key: [other] }));
    }
    object
}

/// The same form with a description.
pub(super) fn described(mut form: Value, about: &str) -> Value {
    if let Some(form) = form.as_object_mut() {
        form.insert("description".to_owned(), json!(about));
    }
    form
}

/// A text.
pub(super) fn text() -> Value {
    json!({ "type": "string" })
}

/// One of several forms.
pub(super) fn any_of(forms: impl IntoIterator<Item = Value>) -> Value {
    json!({ "anyOf": forms.into_iter().collect::<Vec<_>>() })
}

/// A text, or a list of texts.
pub(super) fn texts() -> Value {
    json!({ "anyOf": [text(), { "type": "array", "items": text() }] })
}

/// A text, or a list of one or more texts.
pub(super) fn some_texts() -> Value {
    json!({ "anyOf": [text(), { "type": "array", "items": text(), "minItems": 1 }] })
}

/// The name of a value.
pub(super) fn named<T: NamedValue>() -> Value {
    json!({ "enum": T::NAMES })
}

/// A whole number from 1 on.
pub(super) fn positive(most: i64) -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": most })
}

/// An object with names that the model chooses, and values of one form.
pub(super) fn map_of(form: &Value) -> Value {
    json!({ "type": "object", "additionalProperties": form })
}

/// The same with names of one pattern.
pub(super) fn named_parts(names: &str, form: &Value) -> Value {
    json!({ "type": "object", "propertyNames": { "pattern": names }, "additionalProperties": form })
}

/// A list of objects.
pub(super) fn list_of(form: &Value) -> Value {
    json!({ "type": "array", "items": form })
}
