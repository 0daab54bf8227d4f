//! The streams that tables have had: a table whose stream is enabled again, or that is created again, gets a new one.
//!
//! The database has one list of stream records for each table name, and only the newest label. So a record belongs to a stream by its
//! sequence number: the number is at least the time of the write in microseconds, and a label is the time at which its stream was created.
//!
//! ```text
//! label 1 ──── records of stream 1 ────┬─ no stream ─┬──── records of stream 2 ────▶ sequence number
//!                                   disabled      label 2
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use afterwrite_model::Result;
use dynoxide::Database;
use dynoxide::actions::list_streams::ListStreamsRequest;

use super::database::call;

/// Turns a stored sequence number into its public form of 21 digits.
const PUBLIC_OFFSET: i128 = 100_000_000_000_000_000_000;

/// The labels of all streams that are known, by table, the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamHistory(Arc<Mutex<BTreeMap<String, Vec<String>>>>);

/// The stored sequence numbers of a stream's records: from `first`, before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamWindow {
    pub(crate) first: i64,
    /// Where the table's next stream begins; `None` for the newest stream.
    pub(crate) end: Option<i64>,
}

impl StreamHistory {
    /// The label of the table's stream now; `None` if it has none, or there is no such table.
    ///
    /// # Errors
    /// `Unavailable` if the database fails.
    pub(crate) async fn current(&self, database: &Database, table: &str) -> Result<Option<String>> {
        let request = ListStreamsRequest { table_name: Some(table.to_owned()), ..Default::default() };
        let listed = call(database, |database| database.list_streams(request)).await?;
        Ok(listed.streams.into_iter().next().map(|stream| self.note(table, stream.stream_label)))
    }

    /// The label of a stream by the label that AWS's form of its ARN has.
    pub(crate) fn label(&self, table: &str, aws: &str) -> Option<String> {
        self.lock().get(table)?.iter().find(|label| aws_label(label).as_deref() == Some(aws)).cloned()
    }

    /// The records of a stream.
    pub(crate) fn window(&self, table: &str, label: &str) -> StreamWindow {
        let end = self.following(table, label).map(|next| created_at_us(&next));
        StreamWindow { first: created_at_us(label), end }
    }

    /// The label of the stream that the table had after this one.
    pub(super) fn following(&self, table: &str, label: &str) -> Option<String> {
        let streams = self.lock();
        streams.get(table)?.iter().skip_while(|known| *known != label).nth(1).cloned()
    }

    /// The label of the first stream that is known.
    pub(super) fn oldest(&self, table: &str) -> Option<String> {
        self.lock().get(table)?.first().cloned()
    }

    /// Adds a label. Labels of one millisecond are one stream: AWS's form does not distinguish them.
    fn note(&self, table: &str, label: String) -> String {
        let mut streams = self.lock();
        let labels = streams.entry(table.to_owned()).or_default();
        match labels.iter().find(|known| aws_label(known) == aws_label(&label)) {
            Some(known) => known.clone(),
            None => {
                labels.push(label.clone());
                labels.sort_unstable();
                label
            }
        }
    }

    /// Adds a stream of an earlier process, by the label of AWS's form; `None` if it is another text.
    pub(super) fn adopt(&self, table: &str, aws: &str) -> Option<String> {
        let created: jiff::Timestamp = format!("{aws}Z").parse().ok()?;
        Some(self.note(table, format!("{}.{:09}", created.as_second(), created.subsec_nanosecond())))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamWindow {
    /// Whether a record with this public sequence number belongs to the stream.
    pub(crate) fn has(&self, public: &str) -> bool {
        stored_number(public)
            .is_none_or(|number| number >= self.first && self.end.is_none_or(|end| number < end))
    }
}

/// The stored sequence number that a public one names.
pub(crate) fn stored_number(public: &str) -> Option<i64> {
    i64::try_from(public.parse::<i128>().ok()? - PUBLIC_OFFSET).ok()
}

/// The public form of a stored sequence number.
pub(crate) fn public_number(stored: i64) -> String {
    (PUBLIC_OFFSET + i128::from(stored)).to_string()
}

/// The time at which the stream with this label, `<seconds>.<nanoseconds>`, was created; `None` if it is another text.
fn created_at(label: &str) -> Option<jiff::Timestamp> {
    let (seconds, nanoseconds) = label.split_once('.')?;
    jiff::Timestamp::new(seconds.parse().ok()?, nanoseconds.parse().ok()?).ok()
}

/// Converts `<seconds>.<nanoseconds>` to a label like `2026-02-06T10:00:00.000`.
pub(super) fn aws_label(label: &str) -> Option<String> {
    Some(created_at(label)?.strftime("%Y-%m-%dT%H:%M:%S%.3f").to_string())
}

/// The creation of a stream in microseconds since 1970; 0 if its label is another text.
fn created_at_us(label: &str) -> i64 {
    created_at(label).map_or(0, jiff::Timestamp::as_microsecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_ends_where_the_next_one_begins() {
        let history = StreamHistory::default();
        for label in ["1770372000.000100000", "1770372000.000200000", "1770372009.500000000"] {
            history.note("T", label.to_owned());
        }
        let window = history.window("T", "1770372000.000100000");
        // The first two labels are of one millisecond.
        let expected = StreamWindow { first: 1_770_372_000_000_100, end: Some(1_770_372_009_500_000) };
        assert_eq!(window, expected);
        assert!(window.has(&public_number(1_770_372_009_499_999)));
        assert!(!window.has(&public_number(1_770_372_009_500_000)));
        assert!(!window.has(&public_number(1_770_372_000_000_099)));
        assert_eq!(history.following("T", "1770372000.000100000").as_deref(), Some("1770372009.500000000"));
        assert_eq!(history.window("T", "1770372009.500000000").end, None);
        assert_eq!(history.label("T", "2026-02-06T10:00:09.500").as_deref(), Some("1770372009.500000000"));
        assert_eq!(history.label("T", "2026-02-06T10:00:01.000"), None);
        let earlier = history.adopt("T", "2026-02-05T10:00:00.250").expect("a label");
        assert_eq!(earlier, "1770285600.250000000");
        assert_eq!(history.window("T", &earlier).end, Some(1_770_372_000_000_100));
    }
}
