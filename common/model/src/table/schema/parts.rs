//! The parts of a model: the description and the form of each of their keys.

use serde_json::{Value, json};

use super::conditions::when;
use super::forms::{
    KeyForm, PART_NAME, SQL_NAME, any_of, closed_object, map_of, named, named_parts, optional, positive,
    required, some_texts, text, texts,
};
use super::measures::measure;
use crate::table::cache::RemedyName;
use crate::table::dataset::COLUMN_KEYS;
use crate::table::derivation::DerivationFunction;
use crate::table::for_each::MAX_ELEMENTS;
use crate::table::named::NamedValue as _;
use crate::table::rank::{self, MAX_RANK_SHARDS};
use crate::table::rollup::{EXPIRY_KEYS, MAX_SHARDS};
use crate::table::time_reading::TimeNotation;
use crate::table::value_type::DeclaredType;
use crate::table::{EventTrigger, OnExpiry, OnMisfit, RowHistory};

/// Templates by key attribute.
fn templates() -> Value {
    map_of(&text())
}

pub(super) fn entity(key: &str) -> Option<KeyForm> {
    Some(match key {
        "table" => optional("The table; default: the model's only table.", text()),
        "key" => {
            required("A template for each key attribute of the table, such as ORDER#{order_id}.", templates())
        }
        "attributes" => optional(
            "The attributes that the model uses, with their types in DynamoDB.",
            map_of(&named::<DeclaredType>()),
        ),
        "derive" => optional("Values that are computed from attributes.", map_of(&derivation())),
        "when" => optional(
            "The condition that distinguishes items of this entity from others with such keys.",
            when(),
        ),
        "times" => optional(
            "How names are read as times: a unit, ulid, ksuid, uuidv7, day, compact, or an IANA time zone.",
            map_of(&any_of([named::<TimeNotation>(), text()])),
        ),
        "secret" => optional("Attributes that never leave the table.", texts()),
        "on_expiry" => optional(
            "The effect of a TTL deletion on what was counted: keep it (the default), or subtract it.",
            named::<OnExpiry>(),
        ),
        "ttl" => optional(
            "The table's TTL attribute, a number. The removal of an item that had expired by then is a TTL deletion, also if DynamoDB does not mark it.",
            text(),
        ),
        _ => return None,
    })
}

/// A derived value: one of the functions with its arguments.
fn derivation() -> Value {
    any_of(DerivationFunction::NAMES.iter().map(|name| {
        closed_object("A derived value.", &[name], |function| {
            let (about, arguments) = derivation_function(function)?;
            Some(required(about, arguments))
        })
    }))
}

/// The function of this name in words, and its arguments; `None` if it has no description yet.
fn derivation_function(name: &str) -> Option<(&'static str, Value)> {
    let two = |form: Value| json!({ "type": "array", "items": form, "minItems": 2, "maxItems": 2 });
    Some(match name {
        "percent" => ("100 · part / whole, exact, of two attributes: [part, whole].", two(text())),
        "first" => ("The first of these attributes that is present and not NULL.", some_texts()),
        "part" => (
            "The variable of this name in an attribute that holds a key: [attribute, template].",
            two(text()),
        ),
        "size" => {
            ("The elements of a list, set or map, the characters of a text, the bytes of a binary.", text())
        }
        "number" => ("The exact number that a text has, such as \"23.40\"; a number stays as it is.", text()),
        "minus" => {
            ("The difference of two attributes or constants.", two(json!({ "type": ["string", "number"] })))
        }
        "duration" => ("The seconds between two times: [begin, end].", two(text())),
        _ => return None,
    })
}

pub(super) fn lookup(key: &str) -> Option<KeyForm> {
    Some(match key {
        "of" => required("The entity that has the values.", text()),
        "index" => optional(
            "A global secondary index of the entity's table; without one, the item is read by its primary key.",
            text(),
        ),
        "key" => optional(
            "Templates of the index's key, or of the entity's; required with an index.",
            json!({ "type": "object", "additionalProperties": text(), "minProperties": 1, "maxProperties": 8 }),
        ),
        "gives" => {
            required("The outputs: key variables, derived values or attributes of the entity.", some_texts())
        }
        _ => return None,
    })
}

pub(super) fn rollup(key: &str) -> Option<KeyForm> {
    Some(match key {
        "key" => required("The templates of PK and SK in the state table.", templates()),
        "shards" => optional(
            "The number of items that a hot rollup is spread over; readers sum them.",
            positive(MAX_SHARDS),
        ),
        "expires" => optional(
            "The time after which a rollup is deleted; default: never.",
            closed_object("The life of a rollup.", &EXPIRY_KEYS, expiry),
        ),
        "on_expiry" => optional(
            "The effect of a TTL deletion on what its items contribute as a source; default: they stay counted.",
            named::<OnExpiry>(),
        ),
        "rank" => optional(
            "The orders of the rollup's items, by the measure that orders them.",
            map_of(&closed_object("An order of the rollup's items.", &rank::KEYS, order)),
        ),
        _ => return None,
    })
}

fn expiry(key: &str) -> Option<KeyForm> {
    Some(match key {
        "after" => required("A length of time, such as 90 days.", text()),
        "of" => required("The variable of the rollup's key that is a time.", text()),
        _ => return None,
    })
}

fn order(key: &str) -> Option<KeyForm> {
    Some(match key {
        "within" => optional(
            "The template of the group that an item is ranked in, of variables of the rollup's key; default: its PK.",
            text(),
        ),
        "shards" => optional(
            "The number of partitions of the index that a group is spread over; readers merge them.",
            positive(MAX_RANK_SHARDS),
        ),
        _ => return None,
    })
}

pub(super) fn aggregate(key: &str) -> Option<KeyForm> {
    Some(match key {
        "name" => required("The aggregate's name in ledger entries.", text()),
        "of" => required("The entity whose items are counted.", text()),
        "lookup" => optional("The lookups whose outputs are used.", texts()),
        "when" => optional("The condition under which an item counts.", when()),
        "bind" => optional(
            "Variables of the rollups' keys, each with the name of this entity that it stands for.",
            map_of(&text()),
        ),
        "on_misfit" => optional("The treatment of an item that cannot be counted.", named::<OnMisfit>()),
        "optional" => {
            optional("Names in rollup keys without which an item does not count in those rollups.", texts())
        }
        "for_each" => optional(
            "A name for each element of a list, set or map: the item counts once for every element.",
            map_of(&text()),
        ),
        "at_most" => optional("The number of elements that an item may have.", positive(MAX_ELEMENTS)),
        "into" => required("The rollups that the items are counted into.", some_texts()),
        "measures" => required(
            "The measures by name.",
            json!({ "type": "object", "additionalProperties": measure(), "minProperties": 1 }),
        ),
        _ => return None,
    })
}

pub(super) fn mirror(key: &str) -> Option<KeyForm> {
    Some(match key {
        "onto" => required("The entity that shows the measures.", text()),
        "from" => required("The rollup that they are copied from.", text()),
        "bind" => optional(
            "Variables of the item's key, each with the variable of the rollup's key that it stands for.",
            map_of(&text()),
        ),
        "attributes" => required(
            "The item's attributes (a path may lead into a map), each with the measure that it shows.",
            json!({ "type": "object", "additionalProperties": text(), "minProperties": 1 }),
        ),
        _ => return None,
    })
}

pub(super) fn cache(key: &str) -> Option<KeyForm> {
    Some(match key {
        "of" => required("An entity, or a list of entities.", some_texts()),
        "keys" => optional("Templates of cache keys.", texts()),
        "paths" => {
            optional("Templates of CloudFront paths; {page:path} keeps the slashes of a value.", texts())
        }
        "when" => optional("The condition under which an image makes its entries stale.", when()),
        "depends_on" => {
            optional("The attributes whose changes make the entries stale; default: all.", some_texts())
        }
        "remedy" => optional("The treatment of stale keys; the default is delete.", remedy()),
        _ => return None,
    })
}

/// The remedies that are written as a name; a tombstone is written with its time.
fn remedy() -> Value {
    let timed = RemedyName::Tombstone.name();
    let names: Vec<&str> = RemedyName::NAMES.iter().copied().filter(|name| *name != timed).collect();
    let tombstone = closed_object("A tombstone.", &[timed], |_| {
        Some(required("The time during which nobody can store the key, such as 5s.", text()))
    });
    json!({ "anyOf": [{ "enum": names }, tombstone] })
}

pub(super) fn event(key: &str) -> Option<KeyForm> {
    Some(match key {
        "name" => {
            required("The name that the events carry.", json!({ "type": "string", "pattern": PART_NAME }))
        }
        "of" => required("An entity, a rollup, or * for every change record.", text()),
        "records" => optional(
            "Whether the events are whole change records; only with of = \"*\".",
            json!({ "const": true }),
        ),
        "when" => optional("The condition that an item enters and leaves.", when()),
        "on" => optional("The changes that are events; the default is enter.", named::<EventTrigger>()),
        "detail" => optional("The names whose values an event states.", texts()),
        "to" => optional(
            "The target, if it is not the default one: AFTERWRITE_EVENTS_<TO> has its ARN.",
            json!({ "type": "string", "pattern": "^[a-z0-9_]+$" }),
        ),
        _ => return None,
    })
}

pub(super) fn dataset(key: &str) -> Option<KeyForm> {
    Some(match key {
        "of" => required("The entity whose changes become rows.", text()),
        "partition" => required("The time whose day is the row's partition, such as created_at:day.", text()),
        "when" => optional("The condition under which an item is a row.", when()),
        "days" => optional("Retired; delete the line.", json!({ "deprecated": true })),
        "lookup" => optional("The lookups whose outputs are columns.", texts()),
        "columns" => required("The columns, each with its type.", named_parts(SQL_NAME, &column())),
        "sort" => optional("The columns that files of current rows are sorted by.", texts()),
        "history" => optional(
            "The rows that compaction keeps in the log: all (the default), or the newest of each item.",
            named::<RowHistory>(),
        ),
        _ => return None,
    })
}

/// A column: its type, or a table.
fn column() -> Value {
    let table = closed_object("A column.", &COLUMN_KEYS, |key| {
        Some(match key {
            "type" => required("The type, such as string, int64 or decimal(10,2).", text()),
            "from" => optional("The attribute; default: the attribute of the column's name.", text()),
            "required" => {
                optional("Whether an absent attribute is recorded in _rescued.", json!({ "type": "boolean" }))
            }
            _ => return None,
        })
    });
    json!({ "anyOf": [text(), table] })
}

pub(super) fn query(key: &str) -> Option<KeyForm> {
    Some(match key {
        "about" => required("The result of the query, one sentence.", text()),
        "sql" => required("One SELECT in Athena's SQL.", text()),
        _ => return None,
    })
}
