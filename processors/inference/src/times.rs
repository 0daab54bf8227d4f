//! Attributes and parts of keys that are times, and how they are read.

use afterwrite_model::record::{AttributeValue, Timestamp};
use afterwrite_model::table::{TimeNotation, TimeReading};

/// Times before 2008 and after 2050 are taken for other numbers.
const PLAUSIBLE: std::ops::Range<i64> = 1_199_145_600..2_524_608_000;

/// Parts of names that times have, in lower case, beside past participles.
const TIME_NAMES: [&str; 10] =
    ["time", "date", "day", "expir", "ttl", "paid", "sent", "seen", "login", "epoch"];

/// Endings of names that times have.
const TIME_ENDINGS: [&str; 6] = ["ed", "At", "_at", "_on", "_ts", "On"];

/// Whole names that times have, in lower case.
const WHOLE_TIME_NAMES: [&str; 4] = ["at", "on", "ts", "when"];

/// How values are read as times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueTime {
    reading: TimeReading,
    /// Whether it is a text without a zone.
    is_local: bool,
}

impl ValueTime {
    /// How a text is read as a time; `None` if it is not a time.
    pub(super) fn of(text: &str) -> Option<Self> {
        use TimeNotation::{Ksuid, Microseconds, Milliseconds, Nanoseconds, Seconds, Ulid, UuidV7};
        const DATE: usize = "2026-02-06".len();
        if text.len() >= DATE && Timestamp::parse(text).is_some() {
            let time = text.get(DATE..)?;
            let is_local = !time.is_empty() && !time.ends_with('Z') && !time.contains(['+', '-']);
            return Some(Self { reading: TimeReading::Detected, is_local });
        }
        let notations: &[TimeNotation] = match text.len() {
            26 => &[Ulid],
            27 => &[Ksuid],
            36 => &[UuidV7],
            10..=20 => &[Seconds, Milliseconds, Microseconds, Nanoseconds],
            _ => &[],
        };
        let mut readings = notations.iter().map(|notation| TimeReading::Notation(*notation));
        let is_plausible = |reading: &TimeReading| {
            reading.of_text(text).is_some_and(|time| PLAUSIBLE.contains(&time.epoch_seconds()))
        };
        readings.find(is_plausible).map(|reading| Self { reading, is_local: false })
    }

    /// How the values of an attribute are read; `None` if they are not times. Other numbers, such as account numbers, can look like times.
    pub(super) fn of_attribute(name: &str, values: &[&AttributeValue<'_>]) -> Option<Self> {
        let has_name = is_time_name(name);
        Self::shared(values.iter().map(|value| match (value.as_text(), value.as_number()) {
            (Some(text), _) => {
                Self::of(text).filter(|time| has_name || time.declared().is_none() || time.is_id())
            }
            (None, Some(number)) => Self::of(&number.to_string()).filter(|_| has_name),
            (None, None) => None,
        }))
    }

    /// How these parts of keys are read; `None` if they are not times. Ids with a time of another epoch look like nanoseconds.
    pub(super) fn of_key<'t>(texts: impl Iterator<Item = &'t str>) -> Option<Self> {
        let nanoseconds = TimeReading::Notation(TimeNotation::Nanoseconds);
        Self::shared(texts.map(Self::of)).filter(|time| time.reading != nanoseconds)
    }

    /// The reading that all have. If some texts lack a zone, all are read without one.
    fn shared(mut times: impl Iterator<Item = Option<Self>>) -> Option<Self> {
        let first = times.next()??;
        times.try_fold(first, |shared, time| {
            let is_local = shared.is_local || time?.is_local;
            time.filter(|time| time.reading == shared.reading).map(|time| Self { is_local, ..time })
        })
    }

    /// The comment on it.
    pub(super) fn described(self) -> String {
        match self.declared() {
            Some(id) if self.is_id() => id.to_uppercase(),
            Some(unit) => format!("{unit} since 1970"),
            None if self.is_local => "ISO 8601 without a zone, read as UTC".to_owned(),
            None => "ISO 8601".to_owned(),
        }
    }

    /// The value of `times` in a model; `None` if it is read without it.
    pub(super) fn declared(self) -> Option<&'static str> {
        self.reading.notation().map(TimeNotation::name)
    }

    /// Whether the time is part of an id.
    pub(super) fn is_id(self) -> bool {
        use TimeNotation::{Ksuid, Ulid, UuidV7};
        self.reading.notation().is_some_and(|notation| [Ulid, Ksuid, UuidV7].contains(&notation))
    }
}

/// Whether an attribute of this name is a time.
pub(super) fn is_time_name(name: &str) -> bool {
    let lower = name.to_lowercase();
    TIME_NAMES.iter().any(|part| lower.contains(part))
        || TIME_ENDINGS.iter().any(|ending| name.ends_with(ending))
        || WHOLE_TIME_NAMES.contains(&lower.as_str())
}
