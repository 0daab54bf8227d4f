//! Candidate values of a sample item.

use afterwrite_model::record::{AttributePath, Timestamp};
use afterwrite_model::table::{
    ColumnType, DeclaredType, Entity, KeyType, Model, TemplatePiece, TimeNotation, TimeReading, ValueFormat,
};
use serde_json::{Value, json};

/// Identifiers that begin with a time: a ULID, a UUID of version 7, a KSUID, and the digits of a day.
const TIME_IDS: [&str; 4] = [
    "01KAZ3NDEKTSV4RRFFQ69G5FAV",
    "019ac2f0-1c2d-7000-8000-0000000000a1",
    "36Bv1CIXSgnwCJRJ4fbHW1aBcDe",
    "20260206",
];
/// The name of a time zone.
pub(super) const TIME_ZONE: &str = "Europe/Berlin";
/// The last words of names of times.
const TIME_WORDS: [&str; 14] = [
    "at",
    "on",
    "date",
    "time",
    "timestamp",
    "ts",
    "day",
    "created",
    "updated",
    "started",
    "finished",
    "ended",
    "until",
    "since",
];
/// Usual names of attributes that expire an item.
const EXPIRIES: [&str; 5] = ["ttl", "expires", "expires_at", "expiresAt", "expiry"];
/// A year in seconds.
const YEAR: i64 = 365 * 24 * 60 * 60;

/// The context of an attribute, on which its candidates depend.
pub(super) struct CandidateValues<'c> {
    pub(super) path: &'c AttributePath,
    /// Values that the model's conditions compare with, in DynamoDB's JSON.
    pub(super) compared: &'c [Value],
    pub(super) now: Timestamp,
    /// Whether the attribute expires the item.
    pub(super) is_expiry: bool,
    /// How the attribute is read as a time, if the model states it.
    pub(super) reading: Option<TimeReading>,
}

impl CandidateValues<'_> {
    /// The candidates of an attribute of this type, in DynamoDB's JSON; the likeliest is the first. `null` leaves the attribute out.
    pub(super) fn of_type(&self, declared: DeclaredType) -> Vec<Value> {
        let mut values = match declared {
            DeclaredType::Text => self.texts(),
            DeclaredType::Number => self.numbers(),
            DeclaredType::Bool => self.booleans(),
            DeclaredType::Map => vec![json!({ "M": {} })],
            DeclaredType::List => lists(),
            DeclaredType::TextSet => vec![json!({ "SS": ["a"] })],
            DeclaredType::NumberSet => vec![json!({ "NS": ["1"] })],
            DeclaredType::BinarySet => vec![json!({ "BS": ["MQ=="] })],
            DeclaredType::Binary => vec![json!({ "B": "MQ==" })],
            DeclaredType::Any => [self.texts(), self.numbers(), self.booleans(), lists()].concat(),
        };
        values.push(Value::Null);
        values
    }

    fn texts(&self) -> Vec<Value> {
        let name = self.path.names().last().map_or("", |name| name);
        let word = format!("{name}-1");
        let time = self.now.to_string();
        let mut texts = if is_time(name) { vec![time, word] } else { vec![word, time] };
        texts.extend(self.compared("S").map(str::to_owned));
        texts.extend(self.compared("N").map(str::to_owned));
        texts.extend(TIME_IDS.map(str::to_owned));
        texts.push(TIME_ZONE.to_owned());
        texts.extend(["1".to_owned(), self.now.epoch_seconds().to_string(), self.now.epoch_ms().to_string()]);
        texts.splice(..0, self.in_notation());
        texts.into_iter().map(|text| json!({ "S": text })).collect()
    }

    fn numbers(&self) -> Vec<Value> {
        let name = self.path.names().last().map_or("", |name| name);
        let seconds = self.now.epoch_seconds();
        let mut numbers = if is_time(name) { vec![seconds, 1] } else { vec![1, seconds] };
        if self.is_expiry || EXPIRIES.contains(&name) {
            numbers.insert(0, seconds + YEAR);
        }
        numbers.extend([100, 0, self.now.epoch_ms()]);
        let numbers =
            self.in_notation().into_iter().chain(numbers.into_iter().map(|number| number.to_string()));
        let compared = self.compared("N").flat_map(|number| {
            let next = number.parse::<i64>().ok().map(|number| {
                [number.saturating_add(1), number.saturating_sub(1)].map(|near| near.to_string())
            });
            [number.to_owned()].into_iter().chain(next.into_iter().flatten())
        });
        numbers.chain(compared).map(|number| json!({ "N": number })).collect()
    }

    /// The time now in the notation that the model states for the attribute, if it is that of a number.
    fn in_notation(&self) -> Option<String> {
        let notation = self.reading?.notation()?;
        let ms = self.now.epoch_ms();
        Some(match notation {
            TimeNotation::Seconds => self.now.epoch_seconds().to_string(),
            TimeNotation::Milliseconds => ms.to_string(),
            TimeNotation::Microseconds => format!("{ms}000"),
            TimeNotation::Nanoseconds => format!("{ms}000000"),
            TimeNotation::Compact => {
                self.now.to_string().chars().filter(char::is_ascii_digit).take(14).collect()
            }
            TimeNotation::Day => self.now.to_string().chars().take(10).collect(),
            // Candidates of every text have the ids.
            TimeNotation::Ulid | TimeNotation::Ksuid | TimeNotation::UuidV7 => return None,
        })
    }

    fn booleans(&self) -> Vec<Value> {
        [true, false].map(|value| json!({ "BOOL": value })).to_vec()
    }

    fn compared(&self, kind: &'static str) -> impl Iterator<Item = &str> {
        self.compared.iter().filter_map(move |value| value.get(kind)?.as_str())
    }
}

fn lists() -> Vec<Value> {
    [json!([{ "S": "a" }]), json!([{ "N": "1" }]), json!([])].map(|list| json!({ "L": list })).to_vec()
}

/// Candidates of a variable of the key: numbers for a number key, and texts without the separator of the table's keys. All candidates if none
/// fits.
pub(super) fn variable_texts(
    model: &Model,
    entity: &Entity,
    (index, name): (usize, &str),
    now: Timestamp,
) -> Vec<Value> {
    let texts = key_texts(name, format_of(entity, index), now);
    let Some(table) = model.tables.get(entity.table) else { return texts };
    let templates = std::iter::once(&entity.key.partition).chain(&entity.key.sort);
    let is_number = table.key().zip(templates).any(|(key, template)| {
        let mut variables = template.pieces.iter().map(|piece| match piece {
            TemplatePiece::Variable(variable, _) => Some(*variable),
            TemplatePiece::Literal(_) => None,
        });
        key.key_type == KeyType::Number && variables.any(|variable| variable == Some(index))
    });
    let fits = |text: &&Value| {
        let text = text.as_str().unwrap_or_default();
        !table.separator.is_some_and(|separator| text.contains(separator))
            && (!is_number || text.parse::<i64>().is_ok())
    };
    let fitting: Vec<Value> = texts.iter().filter(fits).cloned().collect();
    if fitting.is_empty() { texts } else { fitting }
}

/// The format of a variable in the key of its entity.
fn format_of(entity: &Entity, variable: usize) -> ValueFormat {
    let templates = std::iter::once(&entity.key.partition).chain(&entity.key.sort);
    let mut formats = templates.flat_map(|template| &template.pieces).filter_map(|piece| match piece {
        TemplatePiece::Variable(index, format) if *index == variable => Some(format.clone()),
        TemplatePiece::Variable(..) | TemplatePiece::Literal(_) => None,
    });
    formats.next().unwrap_or(ValueFormat::Plain)
}

/// Candidates of a variable of a key, as texts. A variable with a format has a text of that format.
fn key_texts(name: &str, format: ValueFormat, now: Timestamp) -> Vec<Value> {
    let mut formatted = String::new();
    if let Some(format) = format.time()
        && format.bucket.write(now, None, &mut formatted).is_some()
    {
        return vec![Value::from(formatted)];
    }
    let letters: String = name.chars().filter(|character| character.is_alphanumeric()).collect();
    let time = now.to_string();
    let day = time.get(..10).unwrap_or_default().to_owned();
    // The last word is also binary, in base64.
    let words = vec![format!("{name}-1"), format!("{letters}1"), "1".to_owned(), "AAEC".to_owned()];
    let times = vec![time, day];
    let all = if is_time(name) { [times, words] } else { [words, times] };
    all.concat().into_iter().chain(TIME_IDS.map(str::to_owned)).map(Value::from).collect()
}

/// Whether the last word of a name is one of times: `started_at`, `createdAt`.
fn is_time(name: &str) -> bool {
    let start = name.char_indices().rev().find(|(_, character)| !character.is_lowercase());
    let word = match start {
        Some((index, character)) if character.is_uppercase() => name.get(index..),
        Some((index, character)) => name.get(index + character.len_utf8()..),
        None => Some(name),
    };
    word.is_some_and(|word| TIME_WORDS.contains(&word.to_lowercase().as_str()))
}

/// The type of attributes that fit a column.
pub(super) fn type_of_column(column: &ColumnType) -> DeclaredType {
    match column {
        ColumnType::String | ColumnType::Timestamp | ColumnType::Date => DeclaredType::Text,
        ColumnType::Int64 | ColumnType::Double | ColumnType::Decimal { .. } => DeclaredType::Number,
        ColumnType::Boolean => DeclaredType::Bool,
        ColumnType::Binary => DeclaredType::Binary,
        ColumnType::List(_) => DeclaredType::List,
        ColumnType::Map(_) | ColumnType::Struct(_) => DeclaredType::Map,
        ColumnType::Json => DeclaredType::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_times_are_known_by_their_last_word() {
        for name in ["started_at", "createdAt", "date", "orderDate", "last-seen-on", "ts"] {
            assert!(is_time(name), "{name}");
        }
        for name in ["candidate", "format", "seat", "status", "birthdays"] {
            assert!(!is_time(name), "{name}");
        }
    }
}
