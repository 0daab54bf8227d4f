//! Columns of files as other writers of Delta tables write them, read in the types that this crate writes.
//!
//! The protocol fixes the type of a column by the table's schema; a file may store it in another form. The library deltalake and Spark
//! rewrite files of our tables when they optimize them:
//!
//! | | this crate | others |
//! |---|---|---|
//! | columns that every row has | not nullable | nullable, without nulls |
//! | timestamps | INT64 milliseconds | INT64 microseconds, nanoseconds or INT96 |
//! | names of list elements and map entries | `element`, `key_value` | any |
//! | texts | Arrow's `Utf8` | any of Arrow's text types, in the embedded schema |
//! | whole numbers | INT64 | INT32, with a smaller type |
//!
//! Types come from Parquet's own schema. The embedded Arrow schema is not read: it only adds forms of the same types.

use std::fs::File;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array as _, ArrayRef, Int64Array, ListArray, MapArray, PrimitiveArray, StructArray, new_null_array,
};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, TimeUnit};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;

use crate::column_type::{element_field_of, entries_field, timestamp_type};

/// The metadata of a file, with which its rows are read.
pub(super) fn reader_metadata(file: &File) -> Result<ArrowReaderMetadata, ParquetError> {
    let metadata = ArrowReaderMetadata::load(file, ArrowReaderOptions::new().with_skip_arrow_metadata(true))?;
    let columns = metadata.metadata().file_metadata().schema_descr().columns().to_vec();
    if columns.iter().all(|column| column.physical_type() != PhysicalType::INT96) {
        return Ok(metadata);
    }
    // As nanoseconds, times before 1677 and after 2262 would be other times.
    let mut leaves = columns.iter().map(|column| column.physical_type());
    let fields = metadata.schema().fields().iter().map(|field| without_int96(field, &mut leaves));
    let schema = Arc::new(Schema::new(fields.collect::<Fields>()));
    ArrowReaderMetadata::try_new(
        Arc::clone(metadata.metadata()),
        ArrowReaderOptions::new().with_schema(schema),
    )
}

/// A field whose INT96 timestamps are milliseconds. `leaves` has the physical types of its columns and of the columns that follow.
#[expect(clippy::wildcard_enum_match_arm, reason = "all other types are of one column")]
fn without_int96(field: &FieldRef, leaves: &mut impl Iterator<Item = PhysicalType>) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::List(element) => DataType::List(without_int96(element, leaves)),
        DataType::Map(entries, sorted) => DataType::Map(without_int96(entries, leaves), *sorted),
        DataType::Struct(members) => {
            DataType::Struct(members.iter().map(|member| without_int96(member, leaves)).collect())
        }
        other => match leaves.next() {
            Some(PhysicalType::INT96) => timestamp_type(),
            _ => other.clone(),
        },
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

/// The type in which this crate writes values that are read in this type.
#[expect(clippy::wildcard_enum_match_arm, reason = "all other types are written as they are read")]
pub(super) fn table_type(read: &DataType) -> DataType {
    let nullable = |field: &FieldRef| Field::new(field.name(), table_type(field.data_type()), true);
    match read {
        DataType::Timestamp(..) => timestamp_type(),
        DataType::List(element) => {
            DataType::List(Arc::new(element_field_of(table_type(element.data_type()))))
        }
        DataType::Struct(members) => DataType::Struct(members.iter().map(nullable).collect()),
        DataType::Map(entries, _) => {
            let DataType::Struct(entry) = entries.data_type() else { return read.clone() };
            let mut fields = entry.iter();
            let key = fields.next().map(|key| Field::new("key", table_type(key.data_type()), false));
            let value = fields.next().map(|value| Field::new("value", table_type(value.data_type()), true));
            DataType::Map(Arc::new(entries_field(key.into_iter().chain(value).collect())), false)
        }
        other => other.clone(),
    }
}

/// Whether every value of one type has exactly one value of the other. Timestamps are cut to milliseconds, as the exporter cuts them.
pub(super) fn is_readable_as(read: &DataType, wanted: &DataType) -> bool {
    match (read, wanted) {
        (DataType::Null, _) | (DataType::Timestamp(..), DataType::Timestamp(TimeUnit::Millisecond, _)) => {
            true
        }
        (DataType::Int8 | DataType::Int16 | DataType::Int32, DataType::Int64) => true,
        (DataType::Decimal128(digits, scale), DataType::Decimal128(most, wanted)) => {
            digits <= most && scale == wanted
        }
        (DataType::List(element), DataType::List(wanted)) => {
            is_readable_as(element.data_type(), wanted.data_type())
        }
        (DataType::Map(entries, _), DataType::Map(wanted, _)) => {
            match (entries.data_type(), wanted.data_type()) {
                (DataType::Struct(entry), DataType::Struct(wanted)) => {
                    let mut both = entry.iter().zip(wanted);
                    entry.len() == wanted.len()
                        && both.all(|(field, wanted)| is_readable_as(field.data_type(), wanted.data_type()))
                }
                _ => false,
            }
        }
        // A member that is not wanted would be lost.
        (DataType::Struct(members), DataType::Struct(wanted)) => members.iter().all(|member| {
            let mut all = wanted.iter().filter(|wanted| wanted.name() == member.name());
            all.next().is_some_and(|wanted| is_readable_as(member.data_type(), wanted.data_type()))
        }),
        (read, wanted) => read == wanted,
    }
}

/// Values in another type, as which their type is readable.
pub(super) fn read_as(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == wanted {
        return Ok(Arc::clone(array));
    }
    Ok(match (array.data_type(), wanted) {
        (DataType::Null, _) => new_null_array(wanted, array.len()),
        (DataType::Timestamp(unit, _), DataType::Timestamp(TimeUnit::Millisecond, _)) => {
            Arc::new(milliseconds(array, *unit)?.with_data_type(wanted.clone()))
        }
        (DataType::Int8, DataType::Int64) => Arc::new(widened(array.as_primitive::<Int8Type>())),
        (DataType::Int16, DataType::Int64) => Arc::new(widened(array.as_primitive::<Int16Type>())),
        (DataType::Int32, DataType::Int64) => Arc::new(widened(array.as_primitive::<Int32Type>())),
        (DataType::Decimal128(..), DataType::Decimal128(precision, scale)) => {
            let decimals = array.as_primitive::<arrow_array::types::Decimal128Type>().clone();
            Arc::new(decimals.with_precision_and_scale(*precision, *scale)?)
        }
        (DataType::List(_), DataType::List(element)) => {
            let lists = array.as_list::<i32>();
            let values = read_as(lists.values(), element.data_type())?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Arc::new(ListArray::try_new(Arc::clone(element), offsets, values, nulls)?)
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            let DataType::Struct(fields) = entries.data_type() else { return Err(other_type(array, wanted)) };
            let (maps, entry) = (array.as_map(), read_entries(array.as_map(), fields)?);
            let (offsets, nulls) = (maps.offsets().clone(), maps.nulls().cloned());
            Arc::new(MapArray::try_new(Arc::clone(entries), offsets, entry, nulls, *sorted)?)
        }
        (DataType::Struct(_), DataType::Struct(members)) => {
            Arc::new(read_members(array.as_struct(), members)?)
        }
        _ => return Err(other_type(array, wanted)),
    })
}

/// The entries of maps: keys and values.
fn read_entries(maps: &MapArray, fields: &Fields) -> Result<StructArray, ArrowError> {
    let columns = maps.entries().columns().iter().zip(fields);
    let columns = columns.map(|(column, field)| read_as(column, field.data_type()));
    StructArray::try_new(fields.clone(), columns.collect::<Result<_, _>>()?, None)
}

/// The members by name; members that the file lacks are null.
fn read_members(structs: &StructArray, members: &Fields) -> Result<StructArray, ArrowError> {
    let columns = members.iter().map(|member| match structs.column_by_name(member.name()) {
        Some(column) => read_as(column, member.data_type()),
        None => Ok(new_null_array(member.data_type(), structs.len())),
    });
    StructArray::try_new(members.clone(), columns.collect::<Result<_, _>>()?, structs.nulls().cloned())
}

fn milliseconds(
    array: &ArrayRef,
    unit: TimeUnit,
) -> Result<PrimitiveArray<TimestampMillisecondType>, ArrowError> {
    /// Cuts each time to the last millisecond that began at or before the time.
    fn cut<T: arrow_array::ArrowPrimitiveType<Native = i64>>(
        array: &ArrayRef,
        parts: i64,
    ) -> PrimitiveArray<TimestampMillisecondType> {
        array.as_primitive::<T>().unary(|time| time.div_euclid(parts))
    }
    match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().try_unary(|seconds| {
            let time: Option<i64> = seconds.checked_mul(1000);
            time.ok_or_else(|| ArrowError::CastError("a time has too many digits".to_owned()))
        }),
        TimeUnit::Millisecond => Ok(cut::<TimestampMillisecondType>(array, 1)),
        TimeUnit::Microsecond => Ok(cut::<TimestampMicrosecondType>(array, 1000)),
        TimeUnit::Nanosecond => Ok(cut::<TimestampNanosecondType>(array, 1_000_000)),
    }
}

fn widened<T: arrow_array::ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> Int64Array
where
    i64: From<T::Native>,
{
    array.unary::<_, Int64Type>(i64::from)
}

fn other_type(array: &ArrayRef, wanted: &DataType) -> ArrowError {
    ArrowError::CastError(format!("a column of type {} is not {wanted}", array.data_type()))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::TimestampMillisecondType;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use parquet::data_type::{Int96, Int96Type};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;

    /// A time as INT96: the Julian day, and the nanoseconds in it.
    fn int96(ms: i64) -> Int96 {
        let day = u32::try_from(ms.div_euclid(86_400_000) + 2_440_588).unwrap();
        let nanoseconds = u64::try_from(ms.rem_euclid(86_400_000)).unwrap() * 1_000_000;
        let mut value = Int96::new();
        let [low, high] =
            [nanoseconds, nanoseconds >> 32].map(|half| u32::try_from(half & 0xffff_ffff).unwrap());
        value.set_data(low, high, day);
        value
    }

    #[test]
    fn int96_has_every_time_that_milliseconds_have() {
        let times = [-62_135_596_800_000, -1, 0, 1_770_422_400_123, 253_402_300_799_999];
        let schema = parse_message_type("message spark { REQUIRED INT96 at; REQUIRED INT32 n; }").unwrap();
        let file = tempfile::tempfile().unwrap();
        let mut writer =
            SerializedFileWriter::new(file.try_clone().unwrap(), Arc::new(schema), Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int96Type>().write_batch(&times.map(int96), None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column
            .typed::<parquet::data_type::Int32Type>()
            .write_batch(&[1, 2, 3, 4, i32::MIN], None, None)
            .unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();

        let metadata = reader_metadata(&file).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata).build().unwrap();
        let batch = reader.map(Result::unwrap).next().unwrap();
        let read = read_as(batch.column(0), &timestamp_type()).unwrap();
        assert_eq!(read.as_primitive::<TimestampMillisecondType>().values(), &times);
        assert!(is_readable_as(batch.column(1).data_type(), &DataType::Int64));
        let numbers = read_as(batch.column(1), &DataType::Int64).unwrap();
        assert_eq!(numbers.as_primitive::<Int64Type>().values(), &[1, 2, 3, 4, i64::from(i32::MIN)]);
    }

    #[test]
    fn a_value_that_would_be_lost_is_refused() {
        let text = |name: &str| Field::new(name, DataType::Utf8, true);
        let members =
            |names: &[&str]| DataType::Struct(names.iter().map(|name| text(name)).collect::<Fields>());
        assert!(is_readable_as(&members(&["b", "a"]), &members(&["a", "b", "c"])));
        assert!(!is_readable_as(&members(&["a", "other"]), &members(&["a"])));
        assert!(!is_readable_as(&DataType::Decimal128(10, 3), &DataType::Decimal128(12, 2)));
        assert!(!is_readable_as(&DataType::Float64, &DataType::Int64));
        assert!(!is_readable_as(&DataType::Int64, &DataType::Int32));
    }
}
