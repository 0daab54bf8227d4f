//! Changes that a restored table does not have: `Orders=2026-02-06T10:00:00Z`.

use std::fmt;
use std::str::FromStr;

use afterwrite_model::record::Timestamp;
use serde::{Deserialize, Serialize};

use super::range::{TimeRange, creation_time};

/// Between the two times.
const UNTIL: &str = "..";

/// The changes of a table from the time to which it was restored, or in whose place another table was restored. The archive has them, and the restored
/// table does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UndoneChanges {
    /// As it was written.
    text: String,
    /// The deployed name of the table that the changes were made to.
    table: String,
    range: TimeRange,
}

#[derive(Deserialize)]
struct ChangeSource {
    #[serde(rename = "eventSourceARN")]
    arn: String,
}

impl UndoneChanges {
    /// The deployed name of the table.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Whether the change of a record is one of them. A record that does not show its table or its time is kept.
    #[must_use]
    pub fn has_record(&self, json: &str) -> bool {
        let stream = format!(":table/{}/stream/", self.table);
        serde_json::from_str(json).is_ok_and(|ChangeSource { arn }| arn.contains(&stream))
            && creation_time(json).is_some_and(|time| self.range.contains(time))
    }
}

/// As the command line has it: `TABLE=FROM` or `TABLE=FROM..TO`.
impl FromStr for UndoneChanges {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = |text: &str| {
            Timestamp::parse(text).ok_or_else(|| "write times such as 2026-02-06T10:00:00Z".to_owned())
        };
        let (table, times) = text
            .split_once('=')
            .filter(|(table, _)| !table.is_empty())
            .ok_or_else(|| "write TABLE=FROM or TABLE=FROM..TO".to_owned())?;
        let (from, to) = match times.split_once(UNTIL) {
            None => (times, None),
            Some((from, to)) => (from, Some(time(to)?)),
        };
        let range = TimeRange { from: Some(time(from)?), to };
        if range.is_empty() {
            return Err("the first time is not earlier than the second".to_owned());
        }
        Ok(Self { text: text.to_owned(), table: table.to_owned(), range })
    }
}

impl TryFrom<String> for UndoneChanges {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<UndoneChanges> for String {
    fn from(undone: UndoneChanges) -> Self {
        undone.text
    }
}

impl fmt::Display for UndoneChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(table: &str, time: &str) -> String {
        let seconds = Timestamp::parse(time).unwrap().epoch_seconds();
        format!(
            r#"{{"eventSourceARN":"arn:aws:dynamodb:us-east-1:000000000000:table/{table}/stream/2026-01-01T00:00:00.000","dynamodb":{{"ApproximateCreationDateTime":{seconds}}}}}"#
        )
    }

    #[test]
    fn changes_of_the_table_in_the_time_are_undone() {
        let undone: UndoneChanges = "Orders=2026-02-06T10:00:00Z".parse().unwrap();
        assert!(undone.has_record(&record("Orders", "2026-02-06T10:00:00Z")));
        assert!(undone.has_record(&record("Orders", "2026-03-06T10:00:00Z")));
        assert!(!undone.has_record(&record("Orders", "2026-02-06T09:59:59Z")));
        assert!(!undone.has_record(&record("Orders-restored", "2026-02-06T10:00:00Z")));
        assert!(!undone.has_record("{}"));
        let ended: UndoneChanges = "Orders=2026-02-06T10:00:00Z..2026-02-06T12:00:00Z".parse().unwrap();
        assert!(ended.has_record(&record("Orders", "2026-02-06T11:59:59Z")));
        assert!(!ended.has_record(&record("Orders", "2026-02-06T12:00:00Z")));
    }

    #[test]
    fn the_form_is_read_back() {
        for text in ["Orders=2026-02-06T10:00:00Z", "a-b.c=2026-02-06T10:00:00Z..2026-02-06T12:00:00.500Z"] {
            let undone: UndoneChanges = text.parse().unwrap();
            assert_eq!(undone.to_string().parse(), Ok(undone), "{text}");
        }
        for text in
            ["Orders", "=2026-02-06", "Orders=then", "Orders=2026-02-06..", "Orders=2026-02-07..2026-02-06"]
        {
            assert!(text.parse::<UndoneChanges>().is_err(), "{text}");
        }
    }
}
