//! JSON values ↔ Arrow arrays, for the few types that a checkpoint has.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Int32Builder, Int64Builder, StringBuilder};
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, ListArray, MapArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};
use serde_json::{Map, Value};

const NULL: Value = Value::Null;

/// An array of a field's values. A value of another type than the field's is null.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a checkpoint has few of Arrow's types; others are an error"
)]
pub(super) fn array_of(data_type: &DataType, values: &[&Value]) -> Result<ArrayRef, ArrowError> {
    Ok(match data_type {
        DataType::Utf8 => {
            let mut builder = StringBuilder::new();
            values.iter().for_each(|value| builder.append_option(value.as_str()));
            Arc::new(builder.finish())
        }
        DataType::Int64 => {
            let mut builder = Int64Builder::new();
            values.iter().for_each(|value| builder.append_option(value.as_i64()));
            Arc::new(builder.finish())
        }
        DataType::Int32 => {
            let mut builder = Int32Builder::new();
            let number = |value: &Value| i32::try_from(value.as_i64()?).ok();
            values.iter().for_each(|value| builder.append_option(number(value)));
            Arc::new(builder.finish())
        }
        DataType::Boolean => {
            let mut builder = BooleanBuilder::new();
            values.iter().for_each(|value| builder.append_option(value.as_bool()));
            Arc::new(builder.finish())
        }
        DataType::Struct(fields) => Arc::new(structs_of(fields, values)?),
        DataType::List(element) => {
            let lists: Vec<Option<&Vec<Value>>> = values.iter().map(|value| value.as_array()).collect();
            let elements: Vec<&Value> = lists.iter().flatten().flat_map(|list| list.iter()).collect();
            let offsets = OffsetBuffer::from_lengths(lists.iter().map(|list| list.map_or(0, Vec::len)));
            let nulls = NullBuffer::from_iter(lists.iter().map(Option::is_some));
            let elements = array_of(element.data_type(), &elements)?;
            Arc::new(ListArray::try_new(Arc::clone(element), offsets, elements, Some(nulls))?)
        }
        DataType::Map(entries, _) => Arc::new(maps_of(entries, values)?),
        other => return Err(ArrowError::NotYetImplemented(other.to_string())),
    })
}

fn structs_of(fields: &Fields, values: &[&Value]) -> Result<StructArray, ArrowError> {
    let columns = fields.iter().map(|field| {
        let members: Vec<&Value> =
            values.iter().map(|value| value.get(field.name()).unwrap_or(&NULL)).collect();
        array_of(field.data_type(), &members)
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let nulls = NullBuffer::from_iter(values.iter().map(|value| value.is_object()));
    StructArray::try_new(fields.clone(), columns, Some(nulls))
}

fn maps_of(entries: &FieldRef, values: &[&Value]) -> Result<MapArray, ArrowError> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(ArrowError::NotYetImplemented(entries.data_type().to_string()));
    };
    let maps: Vec<Option<&Map<String, Value>>> = values.iter().map(|value| value.as_object()).collect();
    let (mut keys, mut mapped) = (StringBuilder::new(), StringBuilder::new());
    for (key, value) in maps.iter().flatten().flat_map(|map| map.iter()) {
        keys.append_value(key);
        mapped.append_option(value.as_str());
    }
    let columns: Vec<ArrayRef> = vec![Arc::new(keys.finish()), Arc::new(mapped.finish())];
    let structs = StructArray::try_new(fields.clone(), columns, None)?;
    let offsets = OffsetBuffer::from_lengths(maps.iter().map(|map| map.map_or(0, Map::len)));
    let nulls = NullBuffer::from_iter(maps.iter().map(Option::is_some));
    MapArray::try_new(Arc::clone(entries), offsets, structs, Some(nulls), false)
}

/// The value at a place of an array; null if the array has a type that a checkpoint of this crate does not have.
#[expect(clippy::wildcard_enum_match_arm, reason = "columns of other types are ignored")]
pub(super) fn value_at(array: &dyn Array, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Utf8 => Value::from(array.as_string::<i32>().value(row)),
        DataType::Int64 => Value::from(array.as_primitive::<Int64Type>().value(row)),
        DataType::Int32 => Value::from(array.as_primitive::<Int32Type>().value(row)),
        DataType::Boolean => Value::from(array.as_boolean().value(row)),
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let present = columns.map(|(field, column)| (field.name().clone(), value_at(column, row)));
            Value::Object(present.filter(|(_, value)| !value.is_null()).collect())
        }
        DataType::List(_) => {
            let elements = array.as_list::<i32>().value(row);
            Value::Array((0..elements.len()).map(|at| value_at(&elements, at)).collect())
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let entry = |at| {
                let key = value_at(entries.columns().first()?, at).as_str()?.to_owned();
                Some((key, value_at(entries.columns().get(1)?, at)))
            };
            Value::Object((0..entries.len()).filter_map(entry).collect())
        }
        _ => Value::Null,
    }
}
