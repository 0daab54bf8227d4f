//! A row of a dataset, built column by column from an item.

use afterwrite_demo::item::{SdkItem as Item, value_at};
use afterwrite_tests::datasets::TextRow;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use serde_json::{Map, Value};

/// The partition of items without a day.
const NO_DAY: &str = "0001-01-01";

/// A row that an item must have in its dataset.
pub(super) struct ExpectedRow<'i> {
    pub(super) dataset: &'static str,
    pub(super) columns: TextRow,
    item: &'i Item,
}

impl<'i> ExpectedRow<'i> {
    /// A row of the partition that holds the day of this attribute.
    pub(super) fn of(dataset: &'static str, item: &'i Item, day: &str) -> Self {
        let row = Self { dataset, item, columns: TextRow::new() };
        let day = row.value(day).map(|time| timestamp_text(time)[..NO_DAY.len()].to_owned());
        row.text("dt", Some(day.as_deref().unwrap_or(NO_DAY)))
    }

    /// Adds a column; an absent value is null.
    pub(super) fn text(mut self, column: &str, value: Option<&str>) -> Self {
        self.columns.extend(value.map(|value| (column.to_owned(), value.to_owned())));
        self
    }

    /// The text or the digits at a path of the item.
    fn value(&self, path: &str) -> Option<&'i str> {
        let value = value_at(self.item, path)?;
        value.as_s().or_else(|_| value.as_n()).ok().map(String::as_str)
    }

    /// A text or a number, unchanged.
    pub(super) fn scalar(self, column: &str, path: &str) -> Self {
        let value = self.value(path);
        self.text(column, value)
    }

    pub(super) fn instant(self, column: &str, path: &str) -> Self {
        let value = self.value(path).map(timestamp_text);
        self.text(column, value.as_deref())
    }

    /// A number with `scale` digits after the point.
    pub(super) fn decimal(self, column: &str, path: &str, scale: usize) -> Self {
        let fixed = self.value(path).map(|digits| {
            let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
            format!("{whole}.{fraction:0<scale$}")
        });
        self.text(column, fixed.as_deref())
    }

    pub(super) fn double(self, column: &str, path: &str) -> Self {
        let value = self.value(path).map(|digits| format!("{:?}", digits.parse::<f64>().expect("a number")));
        self.text(column, value.as_deref())
    }

    /// A list of texts, as Arrow formats it.
    pub(super) fn list(self, column: &str, path: &str) -> Self {
        let texts = value_at(self.item, path).and_then(|value| value.as_l().ok()).map(|values| {
            let texts: Vec<&str> =
                values.iter().filter_map(|value| Some(value.as_s().ok()?.as_str())).collect();
            format!("[{}]", texts.join(", "))
        });
        self.text(column, texts.as_deref())
    }

    pub(super) fn json(self, column: &str, path: &str) -> Self {
        let value = value_at(self.item, path).map(|value| plain_json(value).to_string());
        self.text(column, value.as_deref())
    }
}

/// The largest number that is seconds since 1970; larger ones are milliseconds.
const LAST_SECOND: i64 = 253_402_300_799;

/// A time as Arrow formats it. Applications write an instant, a day, or seconds or milliseconds since 1970.
pub(super) fn timestamp_text(time: &str) -> String {
    let instant: Timestamp = match (time.parse(), time.len()) {
        (Ok(milliseconds), _) if milliseconds > LAST_SECOND => {
            Timestamp::from_millisecond(milliseconds).expect("a time")
        }
        (Ok(seconds), _) => Timestamp::from_second(seconds).expect("a time"),
        (Err(_), 10) => format!("{time}T00:00:00Z").parse().expect("a day"),
        (Err(_), _) => time.parse().expect("an instant"),
    };
    if instant.subsec_nanosecond() == 0 { format!("{instant:.0}") } else { format!("{instant:.3}") }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the SDK keeps the variant for unknown types private")]
fn plain_json(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => Value::from(text.as_str()),
        AttributeValue::N(digits) => digits.parse().map(Value::Number).expect("a number"),
        AttributeValue::Bool(flag) => Value::from(*flag),
        AttributeValue::L(values) => values.iter().map(plain_json).collect(),
        AttributeValue::M(values) => {
            let members = values.iter().map(|(name, value)| (name.clone(), plain_json(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        other => panic!("workloads write no {other:?}"),
    }
}
