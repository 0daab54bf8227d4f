//! A range of time, by which records and the archive's objects are chosen.

use std::time::Duration;

use afterwrite_model::record::{Decimal, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The longest time that objects of failed batches are kept, `on_failure_expiration_days` of the Terraform module: as long, a redrive can
/// archive their lines.
const FAILED_BATCH_DAYS: u64 = 90;
/// How much later than its change a line can arrive in the archive: a stream keeps a record for a day, then a failed batch is kept, and a
/// delivery stream keeps a line for another day.
const LATEST_ARRIVAL: Duration = Duration::from_secs((FAILED_BATCH_DAYS + 2) * 24 * 60 * 60);
/// An object holds the lines that arrived in its hour, and lines that were buffered before.
const BUFFERED: Duration = Duration::from_secs(2 * 60 * 60);

/// A range of the times at which changes were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// The first time; `None` for the beginning.
    pub from: Option<Timestamp>,
    /// The time after the last; `None` for the end.
    pub to: Option<Timestamp>,
}

#[derive(Deserialize)]
struct TimedRecord<'r> {
    #[serde(borrow)]
    dynamodb: TimedChange<'r>,
}

#[derive(Deserialize)]
struct TimedChange<'r> {
    #[serde(borrow, rename = "ApproximateCreationDateTime")]
    created: &'r RawValue,
}

impl TimeRange {
    /// Whether the range has no bounds.
    #[must_use]
    pub fn is_unbounded(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// Whether no time is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.from.zip(self.to).is_some_and(|(from, to)| from >= to)
    }

    /// Whether it contains a time, which can lack its fraction of a second as records' times do: a change of the second in which the range
    /// begins is in it.
    #[must_use]
    pub fn contains(&self, time: Timestamp) -> bool {
        self.from.is_none_or(|from| from.epoch_seconds() <= time.epoch_seconds())
            && self.to.is_none_or(|to| time < to)
    }

    /// Whether it contains the change of a record. A record without a time is contained: nothing shows that it is not.
    #[must_use]
    pub fn contains_record(&self, json: &str) -> bool {
        self.is_unbounded() || creation_time(json).is_none_or(|time| self.contains(time))
    }

    /// The objects of an archive that are searched for records of the range, for people; `None` if all are.
    #[must_use]
    pub fn searched(&self) -> Option<String> {
        let arrived = match (self.from, self.to) {
            (None, None) => return None,
            (Some(from), None) => format!("{from} or later"),
            (None, Some(to)) => format!("before {}", to.plus(LATEST_ARRIVAL)),
            (Some(from), Some(to)) => format!("from {from} until {}", to.plus(LATEST_ARRIVAL)),
        };
        let late = match self.to {
            Some(_) => {
                format!(", because a batch that failed can be redriven for up to {FAILED_BATCH_DAYS} days")
            }
            None => String::new(),
        };
        Some(format!("objects of an archive that arrived {arrived}{late}; every object of other inputs"))
    }

    /// Whether an object of the archive, `…/dt=<yyyy-mm-dd>/hh=<hh>/…`, can have records of the range. Any other object can.
    #[must_use]
    pub fn may_hold(&self, key: &str) -> bool {
        let Some(arrival) = arrival_hour(key) else { return true };
        let ends = arrival.plus(BUFFERED);
        self.from.is_none_or(|from| from < ends) && self.to.is_none_or(|to| arrival < to.plus(LATEST_ARRIVAL))
    }
}

/// When the change of a record was made.
pub(crate) fn creation_time(json: &str) -> Option<Timestamp> {
    let record: TimedRecord<'_> = serde_json::from_str(json).ok()?;
    let seconds: Decimal = record.dynamodb.created.get().parse().ok()?;
    Timestamp::from_epoch_number(&seconds)
}

fn arrival_hour(key: &str) -> Option<Timestamp> {
    let part = |name: &str| key.split('/').find_map(|part| part.strip_prefix(name));
    let (day, hour) = (part("dt=")?, part("hh=")?);
    Timestamp::parse(&format!("{day}T{hour}:00:00Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: &str, to: &str) -> TimeRange {
        TimeRange { from: Timestamp::parse(from), to: Timestamp::parse(to) }
    }

    #[test]
    fn records_are_chosen_by_their_time() {
        let range = range("2026-02-06T10:00:00Z", "2026-02-06T11:00:00Z");
        let record = |time: &str| format!(r#"{{"dynamodb":{{"ApproximateCreationDateTime":{time}}}}}"#);
        assert!(range.contains_record(&record("1770372000")));
        assert!(range.contains_record(&record("1770372000.5")));
        assert!(!range.contains_record(&record("1770371999")));
        assert!(!range.contains_record(&record("1770375600")));
        assert!(range.contains_record("{}"), "a record without a time");
        let within = TimeRange { from: Timestamp::parse("2026-02-06T10:00:00.500Z"), to: None };
        assert!(
            within.contains_record(&record("1770372000")),
            "the change may have been made later in its second"
        );
        assert!(!within.contains_record(&record("1770371999")));
    }

    #[test]
    fn objects_that_arrived_too_early_or_too_late_are_skipped() {
        let range = range("2026-02-06T10:00:00Z", "2026-02-06T11:00:00Z");
        for (key, may_hold) in [
            ("archive/dt=2026-02-06/hh=07/a.gz", false),
            ("archive/dt=2026-02-06/hh=09/a.gz", true),
            ("archive/dt=2026-02-11/hh=10/a.gz", true),
            ("archive/dt=2026-05-09/hh=10/a.gz", true),
            ("archive/dt=2026-05-09/hh=11/a.gz", false),
            ("elsewhere/a.gz", true),
        ] {
            assert_eq!(range.may_hold(key), may_hold, "{key}");
        }
        assert!(TimeRange::default().may_hold("archive/dt=2020-01-01/hh=00/a.gz"));
        let searched = range.searched().unwrap();
        for part in ["2026-02-06T10:00:00Z", "2026-05-09T11:00:00Z", "90 days"] {
            assert!(searched.contains(part), "{searched}");
        }
        assert_eq!(TimeRange::default().searched(), None);
    }
}
