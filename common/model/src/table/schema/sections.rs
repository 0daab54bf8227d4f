//! The sections of a model file.

use serde_json::{Value, json};

use super::forms::{
    KeyForm, PART_NAME, SQL_NAME, closed_object, list_of, map_of, named, named_parts, needing, optional,
    required, text,
};
use super::parts;
use crate::table::{
    ArchiveScope, RollupKeys, aggregate_settings, cache, dataset, entity, event, lookup, mirror, rollup,
    saved_query, secondary_index, source_table,
};

/// A section: its description and form; `None` for one that has none yet.
pub(super) fn section(name: &str) -> Option<KeyForm> {
    Some(match name {
        "name" => required("The model's name.", json!({ "type": "string", "pattern": PART_NAME })),
        "generation" => required(
            "A whole number; increase it with every change of the file.",
            json!({ "type": "integer", "minimum": 1 }),
        ),
        "archive" => optional(
            "The change records that are archived: all (the default), or only those of items that match an entity.",
            named::<ArchiveScope>(),
        ),
        "rollup_keys" => optional(
            "How values are written into the keys of rollups: plain (the default), or escaped, without `#`.",
            named::<RollupKeys>(),
        ),
        "tables" => required("The source tables, by their names in DynamoDB.", tables()),
        "entities" => optional(
            "The kinds of items, recognized by their primary keys.",
            named_parts(PART_NAME, &closed_object("A kind of item.", &entity::KEYS, parts::entity)),
        ),
        "lookups" => optional(
            "Values that items take from another item. The first result is stored and never changes.",
            named_parts(
                PART_NAME,
                &needing(closed_object("A lookup.", &lookup::KEYS, parts::lookup), "index", "key"),
            ),
        ),
        "rollups" => optional(
            "The items of the state table that hold measures.",
            named_parts(PART_NAME, &closed_object("A kind of rollup.", &rollup::KEYS, parts::rollup)),
        ),
        "aggregates" => optional(
            "The measures of items that are counted into rollups.",
            list_of(&needing(
                closed_object("An aggregate.", &aggregate_settings::KEYS, parts::aggregate),
                "for_each",
                "at_most",
            )),
        ),
        "mirrors" => optional(
            "Measures that are copied onto an application's items.",
            list_of(&closed_object("A mirror.", &mirror::KEYS, parts::mirror)),
        ),
        "caches" => optional("Cache keys and CloudFront paths that a change makes stale.", caches()),
        "events" => optional("The changes that other systems hear of.", events()),
        "datasets" => optional(
            "Rows for analysts; the name is the table's name in SQL.",
            named_parts(SQL_NAME, &closed_object("A dataset.", &dataset::KEYS, parts::dataset)),
        ),
        "queries" => optional(
            "Saved queries.",
            named_parts(SQL_NAME, &closed_object("A saved query.", &saved_query::KEYS, parts::query)),
        ),
        _ => return None,
    })
}

fn caches() -> Value {
    list_of(&closed_object("A cache rule.", &cache::KEYS, parts::cache))
}

fn events() -> Value {
    list_of(&closed_object("An event rule.", &event::KEYS, parts::event))
}

fn tables() -> Value {
    let table = closed_object("A source table.", &source_table::KEYS, |key| {
        Some(match key {
            "key" => key_attributes(
                "The partition key attribute and, if the table has one, the sort key attribute.",
                text(),
            ),
            "separator" => optional("A text that no variable of a key of this table contains.", text()),
            "types" => key_types(),
            "indexes" => optional(
                "The global secondary indexes that the application needs, by name.",
                map_of(&closed_object("An index.", &secondary_index::KEYS, |key| {
                    Some(match key {
                        "key" => key_attributes(
                            "The partition key and, if the index has one, the sort key: an attribute each, or a list of up to four.",
                            several_attributes(),
                        ),
                        "types" => key_types(),
                        _ => return None,
                    })
                })),
            ),
            _ => return None,
        })
    });
    json!({ "type": "object", "additionalProperties": table, "minProperties": 1 })
}

fn key_attributes(about: &'static str, key: Value) -> KeyForm {
    let both = json!({ "type": "array", "items": key, "minItems": 1, "maxItems": 2 });
    required(about, json!({ "anyOf": [text(), both] }))
}

/// A key of an index: an attribute, or several.
fn several_attributes() -> Value {
    let several = json!({ "type": "array", "items": text(), "minItems": 1, "maxItems": secondary_index::MAX_ATTRIBUTES });
    json!({ "anyOf": [text(), several] })
}

fn key_types() -> KeyForm {
    optional("The types of key attributes that are not text.", map_of(&named::<crate::table::KeyType>()))
}
