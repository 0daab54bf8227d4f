//! The values of one column → an Arrow array.
//!
//! A value either fits its column exactly or not at all: a number is not rounded into a decimal, a text is not parsed as a
//! number. A value that does not fit leaves a null in the column; the caller stores it in `_rescued`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_model::record::{AttributeValue, Decimal, Timestamp, plain_json};
use afterwrite_model::table::{ColumnType, Operand, TimeReading};
use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float64Builder,
    GenericByteBuilder, Int64Builder, PrimitiveBuilder, StringBuilder, TimestampMillisecondBuilder,
};
use arrow_array::types::{ArrowPrimitiveType, ByteArrayType};
use arrow_array::{ArrayRef, ListArray, MapArray, StructArray};
use arrow_buffer::{NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{FieldRef, Fields};

use crate::column_type::{arrow_type, element_field, entries_field, entry_fields, member_fields};

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// A column that is being filled.
pub(super) trait ColumnBuilder: Send + Sync {
    /// Appends a value, or null. Returns `false` if the value does not fit; then a null was appended.
    fn append(&mut self, value: Option<&Operand<'_>>) -> bool;

    /// The approximate size of the values, in bytes.
    fn bytes(&self) -> usize;

    /// The values as an array. The column is empty afterwards.
    fn finish(&mut self) -> ArrayRef;

    /// Appends a value of a list, a map or a struct, where `NULL` is null.
    fn append_nested(&mut self, value: Option<&AttributeValue<'_>>) -> bool {
        self.append(value.filter(|value| !value.is_null()).map(Operand::Value).as_ref())
    }
}

/// An empty column, without capacity: there may be very many, with few values each. `reading` is how values are read as times; values
/// inside lists, maps and structs are detected.
pub(super) fn column_builder(column_type: &ColumnType, reading: TimeReading) -> Box<dyn ColumnBuilder> {
    let nested = |column_type: &ColumnType| column_builder(column_type, TimeReading::Detected);
    match column_type {
        ColumnType::String => scalar(StringBuilder::with_capacity(0, 0), text),
        ColumnType::Json => scalar(StringBuilder::with_capacity(0, 0), json),
        ColumnType::Int64 => scalar(Int64Builder::with_capacity(0), integer),
        ColumnType::Double => scalar(Float64Builder::with_capacity(0), float),
        ColumnType::Decimal { precision, scale } => {
            let (precision, scale) = (*precision, scale.unsigned_abs());
            let builder = Decimal128Builder::with_capacity(0).with_data_type(arrow_type(column_type));
            scalar(builder, move |value: &Operand<'_>| decimal(value, precision, scale))
        }
        ColumnType::Boolean => scalar(BooleanBuilder::with_capacity(0), boolean),
        ColumnType::Timestamp => {
            scalar(timestamp_builder(), move |value: &Operand<'_>| epoch_ms(value, reading))
        }
        ColumnType::Date => {
            let reading = reading.by_its_calendar();
            scalar(Date32Builder::with_capacity(0), move |value: &Operand<'_>| epoch_day(value, reading))
        }
        ColumnType::Binary => scalar(BinaryBuilder::with_capacity(0, 0), binary),
        ColumnType::List(element) => Box::new(ListColumn {
            field: Arc::new(element_field(element)),
            lengths: NestedLengths::new(),
            elements: nested(element),
        }),
        ColumnType::Map(value) => Box::new(MapColumn {
            entry: entry_fields(value),
            lengths: NestedLengths::new(),
            keys: StringBuilder::with_capacity(0, 0),
            values: nested(value),
        }),
        ColumnType::Struct(members) => Box::new(StructColumn {
            fields: member_fields(members),
            validity: NullBufferBuilder::new(0),
            columns: members.iter().map(|(name, member)| (name.clone(), nested(member))).collect(),
        }),
    }
}

/// An empty column of timestamps.
pub(super) fn timestamp_builder() -> TimestampMillisecondBuilder {
    TimestampMillisecondBuilder::with_capacity(0).with_data_type(arrow_type(&ColumnType::Timestamp))
}

/// The operations of Arrow's builders that [`ScalarColumn`] needs.
pub(super) trait ScalarBuilder: ArrayBuilder {
    type Value<'v>;

    /// Appends a value, or null.
    fn push(&mut self, value: Option<Self::Value<'_>>);

    /// The approximate size of the values, in bytes.
    fn value_bytes(&self) -> usize;
}

impl<T: ArrowPrimitiveType> ScalarBuilder for PrimitiveBuilder<T> {
    type Value<'v> = T::Native;

    fn push(&mut self, value: Option<T::Native>) {
        self.append_option(value);
    }

    fn value_bytes(&self) -> usize {
        size_of_val(self.values_slice())
    }
}

impl<T: ByteArrayType<Native: ToOwned + 'static>> ScalarBuilder for GenericByteBuilder<T> {
    type Value<'v> = Cow<'v, T::Native>;

    fn push(&mut self, value: Option<Cow<'_, T::Native>>) {
        self.append_option(value);
    }

    fn value_bytes(&self) -> usize {
        self.values_slice().len() + size_of_val(self.offsets_slice())
    }
}

impl ScalarBuilder for BooleanBuilder {
    type Value<'v> = bool;

    fn push(&mut self, value: Option<bool>) {
        self.append_option(value);
    }

    fn value_bytes(&self) -> usize {
        self.len() / 8
    }
}

/// A column of values that are not nested.
struct ScalarColumn<B, R> {
    builder: B,
    /// Reads a value; `None` if it does not fit.
    read: R,
}

fn scalar<B, R>(builder: B, read: R) -> Box<dyn ColumnBuilder>
where
    B: ScalarBuilder,
    R: for<'o> Fn(&'o Operand<'_>) -> Option<B::Value<'o>> + Send + Sync + 'static,
{
    Box::new(ScalarColumn { builder, read })
}

impl<B, R> ColumnBuilder for ScalarColumn<B, R>
where
    B: ScalarBuilder,
    R: for<'o> Fn(&'o Operand<'_>) -> Option<B::Value<'o>> + Send + Sync,
{
    fn append(&mut self, value: Option<&Operand<'_>>) -> bool {
        let fitting = value.and_then(&self.read);
        let fits = fitting.is_some() == value.is_some();
        self.builder.push(fitting);
        fits
    }

    fn bytes(&self) -> usize {
        self.builder.value_bytes()
    }

    fn finish(&mut self) -> ArrayRef {
        self.builder.finish()
    }
}

/// How long each list or map of a column is, and which are null.
struct NestedLengths {
    ends: Vec<i32>,
    validity: NullBufferBuilder,
}

impl NestedLengths {
    fn new() -> Self {
        Self { ends: vec![0], validity: NullBufferBuilder::new(0) }
    }

    /// Appends a list or map of this length, or null. Behind a null the column may have values: they are not part of any list or
    /// map.
    fn push(&mut self, length: usize, is_valid: bool) {
        let last = self.ends.last().copied().unwrap_or(0);
        self.ends.push(last.saturating_add(i32::try_from(length).unwrap_or(i32::MAX)));
        self.validity.append(is_valid);
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.ends)
    }

    fn finish(&mut self) -> (OffsetBuffer<i32>, Option<NullBuffer>) {
        let ends = std::mem::replace(&mut self.ends, vec![0]);
        (OffsetBuffer::new(ScalarBuffer::from(ends)), self.validity.finish())
    }
}

struct ListColumn {
    field: FieldRef,
    lengths: NestedLengths,
    elements: Box<dyn ColumnBuilder>,
}

impl ColumnBuilder for ListColumn {
    fn append(&mut self, value: Option<&Operand<'_>>) -> bool {
        let (mut length, mut all_fit) = (0, true);
        let is_list = value.is_some_and(|value| {
            visit_elements(value, |element| {
                all_fit &= self.elements.append_nested(Some(element));
                length += 1;
            })
        });
        self.lengths.push(length, is_list && all_fit);
        value.is_none() || (is_list && all_fit)
    }

    fn bytes(&self) -> usize {
        self.lengths.bytes() + self.elements.bytes()
    }

    fn finish(&mut self) -> ArrayRef {
        let (offsets, validity) = self.lengths.finish();
        Arc::new(ListArray::new(Arc::clone(&self.field), offsets, self.elements.finish(), validity))
    }
}

struct MapColumn {
    entry: Fields,
    lengths: NestedLengths,
    keys: StringBuilder,
    values: Box<dyn ColumnBuilder>,
}

impl ColumnBuilder for MapColumn {
    fn append(&mut self, value: Option<&Operand<'_>>) -> bool {
        let members = value.and_then(members);
        let mut fits = members.is_some();
        for (name, member) in members.into_iter().flatten() {
            self.keys.append_value(name);
            fits &= self.values.append_nested(Some(member));
        }
        self.lengths.push(members.map_or(0, BTreeMap::len), fits);
        value.is_none() || fits
    }

    fn bytes(&self) -> usize {
        self.lengths.bytes() + self.keys.value_bytes() + self.values.bytes()
    }

    fn finish(&mut self) -> ArrayRef {
        let (offsets, validity) = self.lengths.finish();
        let columns: Vec<ArrayRef> = vec![Arc::new(self.keys.finish()), self.values.finish()];
        let entries = StructArray::new(self.entry.clone(), columns, None);
        let field = Arc::new(entries_field(self.entry.clone()));
        Arc::new(MapArray::new(field, offsets, entries, validity, false))
    }
}

struct StructColumn {
    fields: Fields,
    validity: NullBufferBuilder,
    /// By the name that the map's member has.
    columns: Vec<(Arc<str>, Box<dyn ColumnBuilder>)>,
}

impl ColumnBuilder for StructColumn {
    fn append(&mut self, value: Option<&Operand<'_>>) -> bool {
        let members = value.and_then(members);
        let mut fits = members.is_some();
        for (name, column) in &mut self.columns {
            fits &= column.append_nested(members.and_then(|members| members.get(&**name)));
        }
        self.validity.append(fits);
        value.is_none() || fits
    }

    fn bytes(&self) -> usize {
        self.columns.iter().map(|(_, column)| column.bytes()).sum()
    }

    fn finish(&mut self) -> ArrayRef {
        let columns = self.columns.iter_mut().map(|(_, column)| column.finish()).collect();
        Arc::new(StructArray::new(self.fields.clone(), columns, self.validity.finish()))
    }
}

/// Visits the elements of a list or a set. Returns `false` if the value is neither.
fn visit_elements(value: &Operand<'_>, mut visit: impl FnMut(&AttributeValue<'_>)) -> bool {
    let Operand::Value(value) = value else { return false };
    match value {
        AttributeValue::L(elements) => elements.iter().for_each(visit),
        AttributeValue::Ss(texts) => texts.iter().for_each(|text| visit(&AttributeValue::from(&**text))),
        AttributeValue::Ns(all) => all.iter().for_each(|number| visit(&AttributeValue::N(number.clone()))),
        AttributeValue::Bs(all) => {
            all.iter().for_each(|bytes| visit(&AttributeValue::B(Cow::Borrowed(bytes))));
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

fn members<'o, 'v>(value: &'o Operand<'v>) -> Option<&'o BTreeMap<Cow<'v, str>, AttributeValue<'v>>> {
    if let Operand::Value(AttributeValue::M(members)) = value { Some(members) } else { None }
}

fn text<'o>(value: &'o Operand<'_>) -> Option<Cow<'o, str>> {
    match value {
        Operand::Text(text) => Some(Cow::Borrowed(text)),
        Operand::Value(value) => value.as_text().map(Cow::Borrowed),
        Operand::Number(_) | Operand::Ratio { .. } => None,
    }
}

fn json<'o>(value: &'o Operand<'_>) -> Option<Cow<'o, str>> {
    match value {
        Operand::Text(text) => Some(Cow::Owned(plain_json(&AttributeValue::from(&**text)))),
        Operand::Value(value) => Some(Cow::Owned(plain_json(value))),
        Operand::Number(number) => Some(Cow::Owned(number.to_string())),
        Operand::Ratio { .. } => None,
    }
}

/// A number; a variable of a key is a text.
fn number<'o>(value: &'o Operand<'_>) -> Option<Cow<'o, Decimal>> {
    match value {
        Operand::Value(value) => value.as_number().map(Cow::Borrowed),
        Operand::Text(text) => text.parse().ok().map(Cow::Owned),
        Operand::Number(number) => Some(Cow::Borrowed(number)),
        Operand::Ratio { .. } => None,
    }
}

fn integer(value: &Operand<'_>) -> Option<i64> {
    number(value)?.to_i64()
}

fn float(value: &Operand<'_>) -> Option<f64> {
    match value {
        Operand::Ratio { numerator, denominator } => Some(numerator.to_f64() / denominator.to_f64()),
        Operand::Value(_) | Operand::Text(_) | Operand::Number(_) => {
            number(value).map(|number| number.to_f64())
        }
    }
}

fn decimal(value: &Operand<'_>, precision: u8, scale: u8) -> Option<i128> {
    let limit = 10_u128.checked_pow(u32::from(precision))?;
    number(value)?.scaled(scale).filter(|scaled| scaled.unsigned_abs() < limit)
}

fn boolean(value: &Operand<'_>) -> Option<bool> {
    if let Operand::Value(AttributeValue::Bool(value)) = value { Some(*value) } else { None }
}

/// A time of a day of the calendar: a time that readers can write.
fn calendar_time(value: &Operand<'_>, reading: TimeReading) -> Option<Timestamp> {
    value.time(reading).filter(|time| time.has_day())
}

fn epoch_ms(value: &Operand<'_>, reading: TimeReading) -> Option<i64> {
    calendar_time(value, reading).map(|time| time.epoch_ms())
}

fn epoch_day(value: &Operand<'_>, reading: TimeReading) -> Option<i32> {
    i32::try_from(calendar_time(value, reading)?.epoch_seconds().div_euclid(DAY_SECONDS)).ok()
}

fn binary<'o>(value: &'o Operand<'_>) -> Option<Cow<'o, [u8]>> {
    if let Operand::Value(AttributeValue::B(bytes)) = value { Some(Cow::Borrowed(bytes)) } else { None }
}
