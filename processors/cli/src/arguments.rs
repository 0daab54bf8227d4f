//! Values on the command line: the forms of numbers and pairs, and names that do not exist.

use std::time::Duration;

use afterwrite_deployment::cost::Observability;
use afterwrite_mapping::STREAM_RETENTION;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::{NO_DAY, nearest_name};
use afterwrite_model::{Error, ErrorKind};
use clap::ValueEnum;

/// The metrics and alarms of a deployment, as an option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObservabilityArgument {
    /// All metrics, all alarms, and a dashboard.
    #[default]
    Full,
    /// The metrics and alarms that report every way of losing data.
    Minimal,
}

impl ObservabilityArgument {
    pub(crate) fn level(self) -> Observability {
        match self {
            Self::Full => Observability::Full,
            Self::Minimal => Observability::Minimal,
        }
    }
}

/// A whole number.
pub(crate) fn whole_number(written: &str) -> Result<u64, String> {
    written.parse().map_err(|_| "write a whole number, such as 42".to_owned())
}

/// The two sides of `NAME=VALUE`.
pub(crate) fn pair(written: &str) -> Result<(String, String), String> {
    let (name, value) = written.split_once('=').ok_or("write a name, `=` and a value")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// A day, as partitions are named.
pub(crate) fn day(written: &str) -> Result<String, String> {
    let has_form = written.len() == NO_DAY.len() && Timestamp::parse(written).is_some();
    has_form.then(|| written.to_owned()).ok_or_else(|| "write the day as yyyy-mm-dd".to_owned())
}

/// A time on the command line.
pub(crate) fn time(written: &str) -> Result<Timestamp, String> {
    Timestamp::parse(written)
        .ok_or_else(|| "write a time, such as 2026-02-06T10:00:00Z or 2026-02-06".to_owned())
}

/// A time on the command line, or how long ago it was: `10m`.
pub(crate) fn time_or_age(written: &str) -> Result<Timestamp, String> {
    const UNITS: [(char, u64); 3] = [('s', 1), ('m', 60), ('h', 60 * 60)];
    let of_unit = |(unit, seconds): (char, u64)| {
        let count: u64 = written.strip_suffix(unit)?.parse().ok()?;
        Some(Duration::from_secs(count.checked_mul(seconds)?))
    };
    match UNITS.into_iter().find_map(of_unit) {
        Some(age) => Ok(SystemClock.now().minus(age)),
        None => Timestamp::parse(written).ok_or_else(|| {
            "write an age, such as 90s, 10m or 2h, or a time, such as 2026-02-06T10:00:00Z".to_owned()
        }),
    }
}

/// The start of a reading of a stream at a time.
///
/// # Errors
/// [`ErrorKind::Configuration`] if the time lies in the future, before the records that a stream keeps, or before the time at which the
/// stream was enabled: records would be left out unnoticed.
pub(crate) fn stream_start(
    time: Timestamp,
    now: Timestamp,
    enabled_later: Option<Timestamp>,
) -> Result<Timestamp, Error> {
    let refused = |message: &str, hint: &str| {
        Err(Error::new(ErrorKind::Configuration, message).with("time", time.to_string()).hint(hint))
    };
    if time > now {
        return refused(
            "a stream cannot be read from a time in the future",
            "Name a time of the last 24 hours",
        );
    }
    if time < now.minus(STREAM_RETENTION) {
        return refused(
            "a stream keeps its records for 24 hours: changes after this time are missing from it",
            "Begin with the oldest record (--start trim-horizon, --from-start). Older changes are in the archive: \
             `afterwrite replay` and `afterwrite record` read it",
        );
    }
    match enabled_later.filter(|enabled| time < *enabled) {
        Some(enabled) => refused(
            "the table's stream was enabled after this time: the changes before it are missing from the stream",
            &format!(
                "Name {enabled} or a later time. `afterwrite backfill --all` counts what was written while the table had no stream"
            ),
        ),
        None => Ok(time),
    }
}

/// The error of a name that does not exist, with the names that exist; `what` describes it: "a table that the model does not have".
pub(crate) fn unknown<'n>(what: &str, name: &str, known: impl IntoIterator<Item = &'n str>) -> Error {
    let known: Vec<&str> = known.into_iter().collect();
    let hint = match nearest_name(name, known.iter().copied()) {
        Some(nearest) => format!("Did you mean {nearest}? Available: {}", known.join(", ")),
        None if known.is_empty() => "The model has none".to_owned(),
        None => format!("Available: {}", known.join(", ")),
    };
    Error::new(ErrorKind::Configuration, format!("the command names {what}")).with("name", name).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_a_time_before_now() {
        for (written, seconds) in [("90s", 90), ("10m", 600), ("2h", 7200)] {
            let time = time_or_age(written).unwrap();
            let age = SystemClock.now().since(time);
            assert!((seconds..seconds + 5).contains(&age.as_secs()), "{written}");
        }
        assert_eq!(time_or_age("2026-02-06"), Ok(Timestamp::parse("2026-02-06").unwrap()));
        for written in ["10d", "m", "-1h", "99999999999999999999h", "9999999999999999999h"] {
            assert!(time_or_age(written).is_err(), "{written}");
        }
    }

    #[test]
    fn a_stream_begins_at_a_time_that_it_keeps() {
        let now = Timestamp::from_epoch_seconds(1_770_000_000);
        for (time, is_kept) in [
            (now, true),
            (now.minus(STREAM_RETENTION), true),
            (now.minus(STREAM_RETENTION + Duration::from_secs(1)), false),
            (now.plus(Duration::from_secs(1)), false),
        ] {
            assert_eq!(stream_start(time, now, None).is_ok(), is_kept, "{time}");
        }
        let before = now.minus(Duration::from_secs(60));
        assert!(stream_start(before, now, Some(before)).is_ok());
        assert!(stream_start(before, now, Some(now)).is_err());
    }
}
