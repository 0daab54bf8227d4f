//! The values of one column, as they come → an Arrow array.
//!
//! A value either fits its column as it is or not at all: no number is rounded into a decimal, no text parsed into a number. What does
//! not fit leaves the column null, and the caller keeps it elsewhere.

use std::borrow::Cow;
use std::sync::Arc;

use afterwrite::record::{AttributeValue, Decimal};
use afterwrite::table::{ColumnType, Operand};
use arrow_array::builder::{
    ArrayBuilder as _, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float64Builder,
    Int64Builder, StringBuilder, TimestampMillisecondBuilder,
};
use arrow_array::{ArrayRef, ListArray, MapArray, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;

use super::json::plain_json;
use crate::schema::{data_type, element_field, member_fields};

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// A column in the making.
#[derive(Debug)]
pub(crate) enum ColumnBuilder {
    String(StringBuilder),
    Json(StringBuilder),
    Int64(Int64Builder),
    Double(Float64Builder),
    Decimal { builder: Decimal128Builder, precision: u8, scale: u8 },
    Boolean(BooleanBuilder),
    Timestamp(TimestampMillisecondBuilder),
    Date(Date32Builder),
    Binary(BinaryBuilder),
    List(Box<ListBuilder>),
    Map(Box<MapBuilder>),
    Struct(Box<StructBuilder>),
}

#[derive(Debug)]
pub(crate) struct ListBuilder {
    column_type: ColumnType,
    lengths: Lengths,
    elements: ColumnBuilder,
}

#[derive(Debug)]
pub(crate) struct MapBuilder {
    column_type: ColumnType,
    lengths: Lengths,
    keys: StringBuilder,
    values: ColumnBuilder,
}

#[derive(Debug)]
pub(crate) struct StructBuilder {
    members: Vec<(Arc<str>, ColumnType)>,
    validity: NullBufferBuilder,
    columns: Vec<ColumnBuilder>,
}

/// Where each list of a column ends, and which are null.
#[derive(Debug)]
struct Lengths {
    offsets: Vec<i32>,
    validity: NullBufferBuilder,
}

impl Lengths {
    fn new() -> Self {
        Self { offsets: vec![0], validity: NullBufferBuilder::new(0) }
    }

    fn push(&mut self, end: usize, is_present: bool) {
        self.offsets.push(i32::try_from(end).unwrap_or(i32::MAX));
        self.validity.append(is_present);
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.offsets)
    }

    fn finish(&mut self) -> (OffsetBuffer<i32>, Option<arrow_buffer::NullBuffer>) {
        let offsets = std::mem::replace(&mut self.offsets, vec![0]);
        (OffsetBuffer::new(ScalarBuffer::from(offsets)), self.validity.finish())
    }
}

impl ColumnBuilder {
    /// An empty one, of no capacity: there may be very many, of few values each.
    pub(crate) fn new(column_type: &ColumnType) -> Self {
        match column_type {
            ColumnType::String => Self::String(StringBuilder::with_capacity(0, 0)),
            ColumnType::Json => Self::Json(StringBuilder::with_capacity(0, 0)),
            ColumnType::Int64 => Self::Int64(Int64Builder::with_capacity(0)),
            ColumnType::Double => Self::Double(Float64Builder::with_capacity(0)),
            ColumnType::Decimal { precision, scale } => Self::Decimal {
                builder: Decimal128Builder::with_capacity(0)
                    .with_data_type(DataType::Decimal128(*precision, *scale)),
                precision: *precision,
                scale: scale.unsigned_abs(),
            },
            ColumnType::Boolean => Self::Boolean(BooleanBuilder::with_capacity(0)),
            ColumnType::Timestamp => {
                let builder =
                    TimestampMillisecondBuilder::with_capacity(0).with_data_type(data_type(column_type));
                Self::Timestamp(builder)
            }
            ColumnType::Date => Self::Date(Date32Builder::with_capacity(0)),
            ColumnType::Binary => Self::Binary(BinaryBuilder::with_capacity(0, 0)),
            ColumnType::List(element) => Self::List(Box::new(ListBuilder {
                column_type: column_type.clone(),
                lengths: Lengths::new(),
                elements: Self::new(element),
            })),
            ColumnType::Map(value) => Self::Map(Box::new(MapBuilder {
                column_type: column_type.clone(),
                lengths: Lengths::new(),
                keys: StringBuilder::with_capacity(0, 0),
                values: Self::new(value),
            })),
            ColumnType::Struct(members) => Self::Struct(Box::new(StructBuilder {
                members: members.clone(),
                validity: NullBufferBuilder::new(0),
                columns: members.iter().map(|(_, member)| Self::new(member)).collect(),
            })),
        }
    }

    /// Appends a value, or null. `false` if it does not fit: then a null was appended.
    pub(crate) fn append(&mut self, value: Option<&Operand<'_>>) -> bool {
        let Some(value) = value else {
            self.append_null();
            return true;
        };
        let fits = match self {
            Self::String(builder) => text(value).map(|text| builder.append_value(text)),
            Self::Json(builder) => json(value).map(|json| builder.append_value(json)),
            Self::Int64(builder) => number(value).and_then(|n| n.to_i64()).map(|n| builder.append_value(n)),
            Self::Double(builder) => float(value).map(|number| builder.append_value(number)),
            Self::Decimal { builder, precision, scale } => {
                decimal(value, *precision, *scale).map(|number| builder.append_value(number))
            }
            Self::Boolean(builder) => boolean(value).map(|value| builder.append_value(value)),
            Self::Timestamp(builder) => {
                calendar_time(value).map(|time| builder.append_value(time.epoch_ms()))
            }
            Self::Date(builder) => date(value).map(|day| builder.append_value(day)),
            Self::Binary(builder) => binary(value).map(|bytes| builder.append_value(bytes)),
            Self::List(list) => list.append(value),
            Self::Map(map) => map.append(value),
            Self::Struct(structure) => structure.append(value),
        };
        if fits.is_none() {
            self.append_null();
        }
        fits.is_some()
    }

    fn append_null(&mut self) {
        match self {
            Self::String(builder) | Self::Json(builder) => builder.append_null(),
            Self::Int64(builder) => builder.append_null(),
            Self::Double(builder) => builder.append_null(),
            Self::Decimal { builder, .. } => builder.append_null(),
            Self::Boolean(builder) => builder.append_null(),
            Self::Timestamp(builder) => builder.append_null(),
            Self::Date(builder) => builder.append_null(),
            Self::Binary(builder) => builder.append_null(),
            Self::List(list) => list.lengths.push(list.elements.len(), false),
            Self::Map(map) => map.lengths.push(map.keys.len(), false),
            Self::Struct(structure) => {
                structure.validity.append_null();
                structure.columns.iter_mut().for_each(Self::append_null);
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::String(builder) | Self::Json(builder) => builder.len(),
            Self::Int64(builder) => builder.len(),
            Self::Double(builder) => builder.len(),
            Self::Decimal { builder, .. } => builder.len(),
            Self::Boolean(builder) => builder.len(),
            Self::Timestamp(builder) => builder.len(),
            Self::Date(builder) => builder.len(),
            Self::Binary(builder) => builder.len(),
            Self::List(list) => list.lengths.validity.len(),
            Self::Map(map) => map.lengths.validity.len(),
            Self::Struct(structure) => structure.validity.len(),
        }
    }

    /// About how many bytes the values take.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::String(builder) | Self::Json(builder) => text_bytes(builder),
            Self::Int64(builder) => size_of_val(builder.values_slice()),
            Self::Double(builder) => size_of_val(builder.values_slice()),
            Self::Decimal { builder, .. } => size_of_val(builder.values_slice()),
            Self::Boolean(builder) => builder.len() / 8,
            Self::Timestamp(builder) => size_of_val(builder.values_slice()),
            Self::Date(builder) => size_of_val(builder.values_slice()),
            Self::Binary(builder) => builder.values_slice().len() + size_of_val(builder.offsets_slice()),
            Self::List(list) => list.lengths.bytes() + list.elements.bytes(),
            Self::Map(map) => map.lengths.bytes() + text_bytes(&map.keys) + map.values.bytes(),
            Self::Struct(structure) => structure.columns.iter().map(Self::bytes).sum(),
        }
    }

    /// The values so far; begins anew.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        match self {
            Self::String(builder) | Self::Json(builder) => Arc::new(builder.finish()),
            Self::Int64(builder) => Arc::new(builder.finish()),
            Self::Double(builder) => Arc::new(builder.finish()),
            Self::Decimal { builder, .. } => Arc::new(builder.finish()),
            Self::Boolean(builder) => Arc::new(builder.finish()),
            Self::Timestamp(builder) => Arc::new(builder.finish()),
            Self::Date(builder) => Arc::new(builder.finish()),
            Self::Binary(builder) => Arc::new(builder.finish()),
            Self::List(list) => list.finish(),
            Self::Map(map) => map.finish(),
            Self::Struct(structure) => structure.finish(),
        }
    }
}

impl ListBuilder {
    fn append(&mut self, value: &Operand<'_>) -> Option<()> {
        if !fits(&self.column_type, value) {
            return None;
        }
        each_element(value, |element| self.elements.append(present(element)));
        self.lengths.push(self.elements.len(), true);
        Some(())
    }

    fn finish(&mut self) -> ArrayRef {
        let ColumnType::List(element) = &self.column_type else { return self.elements.finish() };
        let (offsets, validity) = self.lengths.finish();
        Arc::new(ListArray::new(Arc::new(element_field(element)), offsets, self.elements.finish(), validity))
    }
}

impl MapBuilder {
    fn append(&mut self, value: &Operand<'_>) -> Option<()> {
        let Operand::Value(AttributeValue::M(members)) = value else { return None };
        if !fits(&self.column_type, value) {
            return None;
        }
        for (name, member) in members {
            self.keys.append_value(name);
            self.values.append(present(&Operand::Value(member)));
        }
        self.lengths.push(self.keys.len(), true);
        Some(())
    }

    fn finish(&mut self) -> ArrayRef {
        let (offsets, validity) = self.lengths.finish();
        let DataType::Map(entries, is_sorted) = data_type(&self.column_type) else {
            return self.values.finish();
        };
        let DataType::Struct(fields) = entries.data_type() else { return self.values.finish() };
        let columns: Vec<ArrayRef> = vec![Arc::new(self.keys.finish()), self.values.finish()];
        let members = StructArray::new(fields.clone(), columns, None);
        Arc::new(MapArray::new(Arc::clone(&entries), offsets, members, validity, is_sorted))
    }
}

impl StructBuilder {
    fn append(&mut self, value: &Operand<'_>) -> Option<()> {
        let Operand::Value(AttributeValue::M(held)) = value else { return None };
        let member = |name: &Arc<str>| held.get(&**name).map(Operand::Value);
        let all_fit = self
            .members
            .iter()
            .all(|(name, column_type)| member(name).is_none_or(|value| fits(column_type, &value)));
        if !all_fit {
            return None;
        }
        for ((name, _), column) in self.members.iter().zip(&mut self.columns) {
            column.append(member(name).as_ref().and_then(present));
        }
        self.validity.append_non_null();
        Some(())
    }

    fn finish(&mut self) -> ArrayRef {
        let columns = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        Arc::new(StructArray::new(member_fields(&self.members), columns, self.validity.finish()))
    }
}

/// About how many bytes texts take.
pub(super) fn text_bytes(builder: &StringBuilder) -> usize {
    builder.values_slice().len() + size_of_val(builder.offsets_slice())
}

/// Whether a value within another fits; `NULL` always does.
fn fits(column_type: &ColumnType, value: &Operand<'_>) -> bool {
    if value.is_null() {
        return true;
    }
    match column_type {
        ColumnType::String => text(value).is_some(),
        ColumnType::Json => json(value).is_some(),
        ColumnType::Int64 => number(value).and_then(|number| number.to_i64()).is_some(),
        ColumnType::Double => float(value).is_some(),
        ColumnType::Decimal { precision, scale } => {
            decimal(value, *precision, scale.unsigned_abs()).is_some()
        }
        ColumnType::Boolean => boolean(value).is_some(),
        ColumnType::Timestamp => calendar_time(value).is_some(),
        ColumnType::Date => date(value).is_some(),
        ColumnType::Binary => binary(value).is_some(),
        ColumnType::List(element) => {
            let mut all_fit = true;
            let is_list = each_element(value, |value| {
                all_fit &= fits(element, value);
                all_fit
            });
            is_list && all_fit
        }
        ColumnType::Map(member) => match value {
            Operand::Value(AttributeValue::M(members)) => {
                members.values().all(|value| fits(member, &Operand::Value(value)))
            }
            Operand::Value(_) | Operand::Text(_) | Operand::Ratio { .. } => false,
        },
        ColumnType::Struct(members) => match value {
            Operand::Value(AttributeValue::M(held)) => members.iter().all(|(name, member)| {
                held.get(&**name).is_none_or(|value| fits(member, &Operand::Value(value)))
            }),
            Operand::Value(_) | Operand::Text(_) | Operand::Ratio { .. } => false,
        },
    }
}

/// `NULL` is null.
fn present<'o, 'v>(value: &'o Operand<'v>) -> Option<&'o Operand<'v>> {
    Some(value).filter(|value| !value.is_null())
}

/// Visits the elements of a list or a set; `false` if the value is neither.
fn each_element(value: &Operand<'_>, mut visit: impl FnMut(&Operand<'_>) -> bool) -> bool {
    let Operand::Value(value) = value else { return false };
    let mut visit = |element: &AttributeValue<'_>| {
        visit(&Operand::Value(element));
    };
    match value {
        AttributeValue::L(elements) => elements.iter().for_each(&mut visit),
        AttributeValue::Ss(texts) => {
            texts.iter().for_each(|text| visit(&AttributeValue::S(Cow::Borrowed(text))));
        }
        AttributeValue::Ns(numbers) => {
            numbers.iter().for_each(|number| visit(&AttributeValue::N(number.clone())));
        }
        AttributeValue::Bs(all) => {
            all.iter().for_each(|bytes| visit(&AttributeValue::B(Cow::Borrowed(bytes))))
        }
        AttributeValue::S(_)
        | AttributeValue::N(_)
        | AttributeValue::B(_)
        | AttributeValue::Bool(_)
        | AttributeValue::Null
        | AttributeValue::M(_) => return false,
    }
    true
}

fn text<'o>(value: &'o Operand<'_>) -> Option<&'o str> {
    match value {
        Operand::Text(text) => Some(text),
        Operand::Value(value) => value.as_text(),
        Operand::Ratio { .. } => None,
    }
}

fn json(value: &Operand<'_>) -> Option<String> {
    match value {
        Operand::Text(text) => Some(plain_json(&AttributeValue::S(Cow::Borrowed(text)))),
        Operand::Value(value) => Some(plain_json(value)),
        Operand::Ratio { .. } => None,
    }
}

/// A number; in a key numbers are text.
fn number<'o>(value: &'o Operand<'_>) -> Option<Cow<'o, Decimal>> {
    match value {
        Operand::Value(value) => value.as_number().map(Cow::Borrowed),
        Operand::Text(text) => text.parse().ok().map(Cow::Owned),
        Operand::Ratio { .. } => None,
    }
}

fn float(value: &Operand<'_>) -> Option<f64> {
    match value {
        Operand::Ratio { numerator, denominator } => Some(numerator.to_f64() / denominator.to_f64()),
        Operand::Value(_) | Operand::Text(_) => number(value).map(|number| number.to_f64()),
    }
}

fn decimal(value: &Operand<'_>, precision: u8, scale: u8) -> Option<i128> {
    let limit = 10_u128.checked_pow(u32::from(precision))?;
    number(value)?.scaled(scale).filter(|scaled| scaled.unsigned_abs() < limit)
}

fn boolean(value: &Operand<'_>) -> Option<bool> {
    if let Operand::Value(AttributeValue::Bool(value)) = value { Some(*value) } else { None }
}

/// A time of the calendar: one that readers can write.
fn calendar_time(value: &Operand<'_>) -> Option<afterwrite::record::Timestamp> {
    value.time().filter(|time| time.has_day())
}

fn date(value: &Operand<'_>) -> Option<i32> {
    i32::try_from(calendar_time(value)?.epoch_seconds().div_euclid(DAY_SECONDS)).ok()
}

fn binary<'o>(value: &'o Operand<'_>) -> Option<&'o [u8]> {
    if let Operand::Value(AttributeValue::B(bytes)) = value { Some(bytes) } else { None }
}
