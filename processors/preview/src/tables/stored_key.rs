//! Keys of items as map keys.

use afterwrite_model::effect::{ItemKey, KeyAttribute};

/// The table and the key values of an item, as text that can be compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct StoredKey {
    table: String,
    partition: String,
    sort: Option<String>,
}

impl StoredKey {
    pub(super) fn of(key: &ItemKey) -> Self {
        Self {
            table: key.table.to_string(),
            partition: text_of(&key.partition),
            sort: key.sort.as_ref().map(text_of),
        }
    }
}

/// The value with its type, because the number 1 and the text 1 differ.
fn text_of(attribute: &KeyAttribute) -> String {
    let value = &attribute.value;
    match (value.as_text(), value.as_number()) {
        (Some(text), _) => format!("S{text}"),
        (None, Some(number)) => format!("N{number}"),
        (None, None) => format!("{value:?}"),
    }
}
