//! The schema of a table as the protocol writes it: JSON, types by name.

use std::collections::BTreeSet;

use afterwrite_model::table::KEY_COLUMN;
use afterwrite_model::{Error, ErrorKind, Result};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use serde_json::{Map, Value, json};

use super::PARTITION;

/// The schema of a table that has these columns in addition to those it has already.
///
/// # Errors
/// `Configuration` if a column has another type in the table, or a type that the protocol does not have; `State` if the table's schema
/// cannot be read.
pub(super) fn merge_schema(known: Option<&str>, columns: &Schema) -> Result<String> {
    let mut fields = known.map_or(Ok(Vec::new()), known_fields)?;
    fields.retain(|field| field.get("name").is_none_or(|name| name != PARTITION));
    refuse_other_key(&fields, columns)?;
    for column in columns.fields() {
        let field = delta_field(column)?;
        match fields.iter().find(|known| known.get("name") == field.get("name")) {
            Some(known) if is_same_type(known.get("type"), field.get("type")) => {}
            Some(_) => return Err(changed_type(column.name())),
            None => fields.push(field),
        }
    }
    fields.push(named_field(PARTITION, json!("string")));
    Ok(json!({ "type": "struct", "fields": fields }).to_string())
}

/// Whether two types have the same values. Other writers may store comments, and whether members are nullable, in another way.
fn is_same_type(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let fields = |of: &Map<String, Value>| of.get("fields").and_then(Value::as_array).cloned();
            let is_same = |member: &str| is_same_type(one.get(member), other.get(member));
            let are_same = match (fields(one), fields(other)) {
                (Some(one), Some(other)) => {
                    one.len() == other.len()
                        && one.iter().zip(&other).all(|(one, other)| {
                            one.get("name") == other.get("name")
                                && is_same_type(one.get("type"), other.get("type"))
                        })
                }
                (one, other) => one.is_none() && other.is_none(),
            };
            are_same && ["type", "elementType", "keyType", "valueType"].into_iter().all(is_same)
        }
        (one, other) => one == other,
    }
}

/// Rows with different key variables cannot be compared: no reader could tell which of them are of one item.
fn refuse_other_key(known: &[Value], columns: &Schema) -> Result<()> {
    let is_key = |name: &&str| name.starts_with(KEY_COLUMN);
    let known: BTreeSet<&str> =
        known.iter().filter_map(|field| field.get("name")?.as_str()).filter(is_key).collect();
    let key: BTreeSet<&str> =
        columns.fields().iter().map(|field| field.name().as_str()).filter(is_key).collect();
    if known.is_empty() || known == key {
        return Ok(());
    }
    let names = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(", ");
    Err(Error::new(ErrorKind::Configuration, "the key variables of the table differ from those of the model")
        .with("in the table", names(known))
        .with("in the model", names(key))
        .hint("Give the variables their old names; or give the dataset a new name, export the archive again with `afterwrite export`, and fill in what the archive lacks with `afterwrite backfill --datasets-only`"))
}

fn known_fields(schema: &str) -> Result<Vec<Value>> {
    let read: Option<Map<String, Value>> = serde_json::from_str(schema).ok();
    let fields = read.and_then(|mut schema| match schema.remove("fields") {
        Some(Value::Array(fields)) => Some(fields),
        _ => None,
    });
    fields.ok_or_else(|| Error::new(ErrorKind::State, "the schema of a table cannot be read"))
}

fn changed_type(column: &str) -> Error {
    Error::new(ErrorKind::Configuration, "a column has another type in the table than in the model")
        .with("column", column)
        .hint(
            "Give the column a new name in the model; or give the dataset a new name, export the archive again with `afterwrite export`, and fill in what the archive lacks with `afterwrite backfill --datasets-only`",
        )
}

fn delta_field(field: &Field) -> Result<Value> {
    Ok(named_field(field.name(), delta_type(field.data_type())?))
}

fn named_field(name: &str, delta_type: Value) -> Value {
    json!({ "name": name, "type": delta_type, "nullable": true, "metadata": {} })
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "columns have few of Arrow's types; the others are refused"
)]
fn delta_type(data_type: &DataType) -> Result<Value> {
    Ok(match data_type {
        DataType::Utf8 => json!("string"),
        DataType::Int64 => json!("long"),
        // Columns that other writers have added may have smaller numbers.
        DataType::Int32 => json!("integer"),
        DataType::Int16 => json!("short"),
        DataType::Int8 => json!("byte"),
        DataType::Float32 => json!("float"),
        DataType::Float64 => json!("double"),
        DataType::Boolean => json!("boolean"),
        DataType::Binary => json!("binary"),
        DataType::Date32 => json!("date"),
        DataType::Timestamp(TimeUnit::Millisecond, Some(_)) => json!("timestamp"),
        DataType::Decimal128(precision, scale) => json!(format!("decimal({precision},{scale})")),
        DataType::List(element) => {
            json!({ "type": "array", "elementType": delta_type(element.data_type())?, "containsNull": true })
        }
        DataType::Map(entries, _) => json!({
            "type": "map", "keyType": "string", "valueType": map_value_type(entries)?, "valueContainsNull": true,
        }),
        DataType::Struct(members) => {
            let members = members.iter().map(|member| delta_field(member)).collect::<Result<Vec<_>>>()?;
            json!({ "type": "struct", "fields": members })
        }
        other => return Err(unknown_type(other)),
    })
}

fn map_value_type(entries: &Field) -> Result<Value> {
    let DataType::Struct(members) = entries.data_type() else {
        return Err(unknown_type(entries.data_type()));
    };
    let value = members.get(1).ok_or_else(|| unknown_type(entries.data_type()))?;
    delta_type(value.data_type())
}

fn unknown_type(data_type: &DataType) -> Error {
    Error::new(ErrorKind::Configuration, "a column has a type that Delta tables do not have")
        .with("type", data_type.to_string())
}
