//! The statistics of a file, from its Parquet footer: the number of rows and, for each column of single values, the least and the
//! greatest value and the number of nulls. Engines skip files by them.
//!
//! A bound is left out where it could be wrong in a reader: floats that are not finite, decimals with more digits than a JSON number
//! safely has, and types that the protocol does not compare.

use std::ops::RangeInclusive;

use arrow_schema::{DataType, Schema};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;
use serde_json::{Map, Number, Value, json};

/// The years 1 to 9999 in epoch milliseconds, and in days since 1970.
const READABLE_MS: RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;
const READABLE_DAYS: RangeInclusive<i64> = -719_162..=2_932_896;

/// The largest precision of a decimal whose every value is exact as a 64-bit float.
const EXACT_DIGITS: u8 = 15;

/// Statistics as JSON, as the protocol writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStatistics(String);

impl FileStatistics {
    /// The statistics of a file with these columns.
    #[must_use]
    pub fn of(metadata: &ParquetMetaData, schema: &Schema) -> Self {
        let (mut least, mut greatest, mut nulls) = (Map::new(), Map::new(), Map::new());
        let parquet = metadata.file_metadata().schema_descr();
        for leaf in 0..parquet.num_columns() {
            let Some(field) = schema.fields().get(parquet.get_column_root_idx(leaf)) else { continue };
            if field.data_type().is_nested() {
                continue;
            }
            let Some(column) = ColumnStatistics::of(metadata, leaf) else { continue };
            let name = field.name();
            nulls.extend(column.nulls.map(|count| (name.clone(), json!(count))));
            let bounds = column.bounds.iter().map(|bounds| bounds.values(field.data_type()));
            let bounds: Option<Vec<_>> = bounds.collect();
            // Without a group that has bounds, all values are null.
            let Some(bounds) = bounds.filter(|bounds| !bounds.is_empty()) else { continue };
            let (low, high): (Vec<_>, Vec<_>) = bounds.into_iter().unzip();
            least.extend(low.into_iter().min_by(compare).map(|low| (name.clone(), low)));
            greatest.extend(high.into_iter().max_by(compare).map(|high| (name.clone(), high)));
        }
        let rows = metadata.file_metadata().num_rows();
        let all =
            json!({ "numRecords": rows, "minValues": least, "maxValues": greatest, "nullCount": nulls });
        Self(all.to_string())
    }

    /// Statistics that another writer has stored.
    pub(super) fn stored(json: String) -> Self {
        Self(json)
    }

    /// The JSON.
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// The number of rows, if it is known.
    #[must_use]
    pub fn rows(&self) -> Option<u64> {
        let statistics: Value = serde_json::from_str(&self.0).ok()?;
        statistics.get("numRecords")?.as_u64()
    }
}

/// The statistics of one column in all row groups.
struct ColumnStatistics<'p> {
    /// Of the groups that have values.
    bounds: Vec<GroupBounds<'p>>,
    nulls: Option<u64>,
}

/// The statistics of one column in one row group.
struct GroupBounds<'p>(&'p Statistics);

impl<'p> ColumnStatistics<'p> {
    /// `None` if a row group has no statistics.
    fn of(metadata: &'p ParquetMetaData, leaf: usize) -> Option<Self> {
        let (mut bounds, mut nulls) = (Vec::new(), Some(0));
        for group in metadata.row_groups() {
            let column = group.columns().get(leaf)?;
            let statistics = column.statistics()?;
            let null_count = statistics.null_count_opt();
            nulls = nulls.zip(null_count).map(|(sum, count)| sum + count);
            let rows = u64::try_from(group.num_rows()).unwrap_or(0);
            if null_count != Some(rows) {
                bounds.push(GroupBounds(statistics));
            }
        }
        Some(Self { bounds, nulls })
    }
}

impl GroupBounds<'_> {
    /// The least and the greatest value; `None` if they are unknown, or have no safe form.
    fn values(&self, data_type: &DataType) -> Option<(Value, Value)> {
        match self.0 {
            Statistics::Int32(bounds) => {
                let form = |value: &i32| integer(i64::from(*value), data_type);
                bounds.min_opt().and_then(form).zip(bounds.max_opt().and_then(form))
            }
            Statistics::Int64(bounds) => {
                let form = |value: &i64| integer(*value, data_type);
                bounds.min_opt().and_then(form).zip(bounds.max_opt().and_then(form))
            }
            Statistics::Double(bounds) => {
                let form = |value: &f64| Number::from_f64(*value).map(Value::Number);
                bounds.min_opt().and_then(form).zip(bounds.max_opt().and_then(form))
            }
            Statistics::ByteArray(bounds) if *data_type == DataType::Utf8 => {
                let form =
                    |value: &parquet::data_type::ByteArray| value.as_utf8().ok().map(|text| json!(text));
                bounds.min_opt().and_then(form).zip(bounds.max_opt().and_then(form))
            }
            Statistics::Boolean(_)
            | Statistics::Int96(_)
            | Statistics::Float(_)
            | Statistics::ByteArray(_)
            | Statistics::FixedLenByteArray(_) => None,
        }
    }
}

/// A value that Parquet stores as an integer.
#[expect(clippy::wildcard_enum_match_arm, reason = "other types are not stored as integers")]
fn integer(value: i64, data_type: &DataType) -> Option<Value> {
    match data_type {
        DataType::Int64 => Some(json!(value)),
        // Readers know the years 1 to 9999.
        DataType::Timestamp(..) if !READABLE_MS.contains(&value) => None,
        DataType::Date32 if !READABLE_DAYS.contains(&value) => None,
        DataType::Timestamp(..) => {
            let time = jiff::Timestamp::from_millisecond(value).ok()?;
            Some(json!(format!("{time:.3}")))
        }
        DataType::Date32 => {
            let days = jiff::Span::new().try_days(value).ok()?;
            Some(json!(jiff::civil::date(1970, 1, 1).checked_add(days).ok()?.to_string()))
        }
        DataType::Decimal128(precision, scale) if *precision <= EXACT_DIGITS => decimal(value, *scale),
        _ => None,
    }
}

/// A decimal as a JSON number.
fn decimal(unscaled: i64, scale: i8) -> Option<Value> {
    let scale = usize::try_from(scale).ok()?;
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at_checked(digits.len() - scale)?;
    let sign = if unscaled < 0 { "-" } else { "" };
    let point = if scale > 0 { "." } else { "" };
    let text = format!("{sign}{whole}{point}{fraction}");
    serde_json::from_str(&text).ok().map(Value::Number)
}

/// The order of two bounds of one column.
fn compare(one: &Value, other: &Value) -> std::cmp::Ordering {
    match (one, other) {
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one.cmp(&other),
            _ => one.as_f64().unwrap_or(0.0).total_cmp(&other.as_f64().unwrap_or(0.0)),
        },
        _ => std::cmp::Ordering::Equal,
    }
}
