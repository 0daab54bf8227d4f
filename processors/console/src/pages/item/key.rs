//! The key of an item, as a form and as it is read.

use std::borrow::Cow;

use afterwrite_model::entity::{SourceKey, key_value};
use afterwrite_model::harmless::harmless;
use afterwrite_model::projection::{MAX_PARTITION_KEY, MAX_SORT_KEY};
use afterwrite_model::record::Decimal;
use afterwrite_model::table::{KeySchema, KeyType, Table};
use afterwrite_model::{Error, ErrorKind, Result};
use maud::{Markup, html};

use crate::context::ConsoleContext;
use crate::links::ITEM;
use crate::query::PageQuery;

/// The longest part of a key, in bytes.
const LIMITS: [usize; 2] = [MAX_PARTITION_KEY, MAX_SORT_KEY];

/// A form for each table.
pub(super) fn forms(context: &ConsoleContext, query: &PageQuery) -> Markup {
    let chosen = query.get("table").and_then(|name| table_named(context, name));
    let value = |index: usize, name: &str| query.visible(name).filter(|_| chosen == Some(index));
    html! {
        @for (index, table) in context.model().tables.iter().enumerate() {
            form method="get" action=(ITEM) {
                input type="hidden" name="table" value=(table.name);
                label { (title(table)) input name="pk" required value=[value(index, "pk")] autocomplete="off" spellcheck="false"; }
                @if let Some(sort) = &table.sort_key {
                    label { (described(sort)) input name="sk" required value=[value(index, "sk")] autocomplete="off" spellcheck="false"; }
                }
                button { "Show the item" }
            }
        }
    }
}

fn title(table: &Table) -> String {
    let name = if table.is_state() { "rollups" } else { &*table.name };
    format!("{}: {}", harmless(name), described(&table.partition_key))
}

fn described(key: &KeySchema) -> String {
    let form = match key.key_type {
        KeyType::Text => "",
        KeyType::Number => " (a number)",
        KeyType::Binary => " (base64)",
    };
    format!("{}{form}", harmless(&key.name))
}

/// The table with this name: in the model, or as it is deployed.
fn table_named(context: &ConsoleContext, name: &str) -> Option<usize> {
    let model = context.model();
    let of_model = model.tables.iter().position(|table| *table.name == *name);
    of_model.or_else(|| model.table_deployed_as(&context.config.table_names, name))
}

/// The key that a query names; `None` if it names none.
///
/// # Errors
/// `Configuration` if no item can have the key.
pub(super) fn asked_key(context: &ConsoleContext, query: &PageQuery) -> Result<Option<SourceKey<'static>>> {
    let Some(partition) = query.get("pk") else { return Ok(None) };
    let model = context.model();
    let index = match query.get("table") {
        Some(name) => table_named(context, name).ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "the model has no such table").with("table", name)
        })?,
        None => 0,
    };
    let Some(table) = model.tables.get(index) else { return Ok(None) };
    let sort = match (&table.sort_key, query.get("sk")) {
        (None, _) => None,
        (Some(key), Some(sort)) => Some(key_text(key, sort, LIMITS[1])?),
        (Some(key), None) => {
            return Err(Error::new(ErrorKind::Configuration, "the address lacks the sort key of the item")
                .with("attribute", &*key.name)
                .hint("Name it as `sk`"));
        }
    };
    let partition = key_text(&table.partition_key, partition, LIMITS[0])?;
    Ok(Some(SourceKey { table: index, partition: Cow::Owned(partition), sort: sort.map(Cow::Owned) }))
}

/// The text of a part of a key. A number may have any spelling.
fn key_text(key: &KeySchema, written: &str, limit: usize) -> Result<String> {
    let refused = |problem: &str, hint: &str| {
        Error::new(ErrorKind::Configuration, problem.to_owned())
            .with("attribute", &*key.name)
            .hint(hint.to_owned())
    };
    let text = match key.key_type {
        KeyType::Text => written.to_owned(),
        KeyType::Number => match written.trim().parse::<Decimal>() {
            Ok(number) => number.to_string(),
            Err(_) => {
                return Err(refused("the key attribute is a number", "Write its digits, such as 7 or -1.5"));
            }
        },
        // A space stands for the plus sign of base64 that an address lost.
        KeyType::Binary => written.trim().replace(' ', "+"),
    };
    if key_value(&text, key.key_type).is_none() {
        return Err(refused("the key attribute is binary", "Write it as base64, with padding, such as AP8="));
    }
    let bytes = match key.key_type {
        KeyType::Text | KeyType::Number => text.len(),
        KeyType::Binary => text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count(),
    };
    if bytes > limit {
        let problem = format!("the key attribute is longer than the {limit} bytes that DynamoDB allows");
        return Err(refused(&problem, "No item has such a key"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn read(key_type: KeyType, written: &str) -> std::result::Result<String, String> {
        let key = KeySchema { name: Arc::from("k"), key_type };
        key_text(&key, written, 6).map_err(|error| error.to_string())
    }

    #[test]
    fn each_type_of_key_has_one_text() {
        assert_eq!(read(KeyType::Text, "a#\"<"), Ok("a#\"<".to_owned()));
        assert_eq!(read(KeyType::Number, " 007.0"), Ok("7".to_owned()));
        assert_eq!(read(KeyType::Binary, "AP8="), Ok("AP8=".to_owned()));
        assert_eq!(read(KeyType::Binary, "AA D"), Ok("AA+D".to_owned()));
        for (key_type, wrong) in [
            (KeyType::Number, "seven"),
            (KeyType::Binary, "A"),
            (KeyType::Binary, "AP8"),
            (KeyType::Text, "1234567"),
            (KeyType::Binary, "AAAAAAAAAA=="),
        ] {
            assert!(read(key_type, wrong).is_err(), "{wrong}");
        }
        assert!(read(KeyType::Text, "123456").is_ok() && read(KeyType::Binary, "AAAAAAAA").is_ok());
    }
}
