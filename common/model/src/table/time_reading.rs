//! How a value is read as a time: what `times` of an entity states, and the formats of buckets.

use std::fmt;

use super::named::{NamedValue as _, named_values};
use super::time_bucket::TimeBucket;
use crate::record::{Decimal, NamedZone, Timestamp};

named_values! {
    /// How a value that is not ISO 8601 states a time.
    pub enum TimeNotation {
        /// Seconds since 1970, as a number or as digits.
        Seconds = "seconds" | "s" | "sec" | "second" | "epoch",
        /// Milliseconds since 1970.
        Milliseconds = "milliseconds" | "ms" | "millis" | "millisecond",
        /// Microseconds since 1970.
        Microseconds = "microseconds" | "us" | "micros" | "microsecond",
        /// Nanoseconds since 1970.
        Nanoseconds = "nanoseconds" | "ns" | "nanos" | "nanosecond",
        /// A ULID, which begins with its time.
        Ulid = "ulid",
        /// A KSUID, which begins with its time.
        Ksuid = "ksuid",
        /// A UUID of version 7, which begins with its time.
        UuidV7 = "uuidv7" | "uuid7" | "uuid_v7" | "uuid-v7" | "uuid",
        /// A text that begins with a day: `2026-02-06-0017`, `20260206-0017`.
        Day = "day" | "date",
        /// The digits of a calendar time: `20260206`, `20260206143000`.
        Compact = "compact" | "basic" | "digits" | "yyyymmdd" | "yyyymmddhhmmss",
    }
}

impl TimeNotation {
    /// Whether numbers have it; all can be texts.
    pub(super) fn is_numeric(self) -> bool {
        self.per_second().is_some() || self == Self::Compact
    }

    /// How many of a unit are a second.
    fn per_second(self) -> Option<u64> {
        match self {
            Self::Seconds => Some(1),
            Self::Milliseconds => Some(1_000),
            Self::Microseconds => Some(1_000_000),
            Self::Nanoseconds => Some(1_000_000_000),
            Self::Ulid | Self::Ksuid | Self::UuidV7 | Self::Day | Self::Compact => None,
        }
    }

    /// How errors call such a value.
    fn described(self) -> &'static str {
        match self {
            Self::Seconds => "a number of seconds since 1970",
            Self::Milliseconds => "a number of milliseconds since 1970",
            Self::Microseconds => "a number of microseconds since 1970",
            Self::Nanoseconds => "a number of nanoseconds since 1970",
            Self::Ulid => "a ULID",
            Self::Ksuid => "a KSUID",
            Self::UuidV7 => "a UUID of version 7",
            Self::Day => "a text that begins with a day, such as 2026-02-06 or 20260206",
            Self::Compact => "the digits of a time, such as 20260206 or 20260206143000",
        }
    }

    fn of_text(self, text: &str) -> Option<Timestamp> {
        match self {
            Self::Seconds | Self::Milliseconds | Self::Microseconds | Self::Nanoseconds => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
                if is_number { self.of_number(&text.parse().ok()?) } else { None }
            }
            Self::Ulid => Timestamp::of_ulid(text),
            Self::Ksuid => Timestamp::of_ksuid(text),
            Self::UuidV7 => Timestamp::of_uuid_v7(text),
            Self::Day => Timestamp::of_leading_day(text),
            Self::Compact => Timestamp::of_compact(text),
        }
    }

    /// Rounded down to the millisecond.
    fn of_number(self, number: &Decimal) -> Option<Timestamp> {
        if self == Self::Compact {
            return Timestamp::of_compact(&number.to_string());
        }
        let per_second = Decimal::from(i64::try_from(self.per_second()?).ok()?);
        let ms = number.times(&Decimal::from(1000)).ok()?.floor_divided_by(&per_second)?;
        Some(Timestamp::from_epoch_ms(ms))
    }
}

/// How a value is read as a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeReading {
    /// A text by its form ([`Timestamp::parse`]), a number by its size ([`Timestamp::from_epoch_number`]).
    #[default]
    Detected,
    /// In this notation only.
    Notation(TimeNotation),
    /// The same as [`TimeReading::Detected`], but a text without an offset is in this zone.
    Zone(NamedZone),
    /// A text that is a number, because the key has type `N` or a number was written into it: its size tells the unit
    /// ([`Timestamp::from_epoch_number`]). Any other text is detected.
    Digits,
    /// A text that is a bucket: a variable of the item's key that has a format.
    Bucket(TimeBucket, Option<NamedZone>),
}

impl TimeReading {
    /// The notation that it takes, if it takes only one.
    #[must_use]
    pub fn notation(self) -> Option<TimeNotation> {
        match self {
            Self::Notation(notation) => Some(notation),
            Self::Detected | Self::Zone(_) | Self::Digits | Self::Bucket(..) => None,
        }
    }

    /// The reading with this name in `times`.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let notation = TimeNotation::of_name(name).map(Self::Notation);
        notation.or_else(|| NamedZone::of_name(name).map(Self::Zone))
    }

    /// The same, but a bucket is read in UTC, so that its day is that of its own calendar.
    #[must_use]
    pub fn by_its_calendar(self) -> Self {
        match self {
            Self::Bucket(bucket, _) => Self::Bucket(bucket, None),
            Self::Detected | Self::Notation(_) | Self::Zone(_) | Self::Digits => self,
        }
    }

    /// The time in a text.
    #[must_use]
    pub fn of_text(self, text: &str) -> Option<Timestamp> {
        match self {
            Self::Detected => Timestamp::parse(text),
            Self::Notation(notation) => notation.of_text(text),
            Self::Zone(zone) => zone.parse(text),
            Self::Digits => match text.parse() {
                Ok(number) => Timestamp::from_epoch_number(&number),
                Err(_) => Timestamp::parse(text),
            },
            Self::Bucket(bucket, zone) => bucket.parse(text, zone),
        }
    }

    /// The time in a number.
    #[must_use]
    pub fn of_number(self, number: &Decimal) -> Option<Timestamp> {
        match self {
            Self::Detected | Self::Zone(_) | Self::Digits => Timestamp::from_epoch_number(number),
            Self::Notation(notation) => notation.of_number(number),
            Self::Bucket(..) => None,
        }
    }

    /// Whether `times` of an entity states it.
    #[must_use]
    pub fn is_declared(self) -> bool {
        match self {
            Self::Notation(_) | Self::Zone(_) => true,
            Self::Detected | Self::Digits | Self::Bucket(..) => false,
        }
    }

    /// Whether it reads a bucket, which is all that the key has of the time.
    pub(super) fn is_bucket(self) -> bool {
        match self {
            Self::Bucket(..) => true,
            Self::Detected | Self::Notation(_) | Self::Zone(_) | Self::Digits => false,
        }
    }

    /// Whether a text with an offset is the moment that it states.
    pub(super) fn takes_moments(self) -> bool {
        match self {
            Self::Detected | Self::Zone(_) => true,
            Self::Notation(_) | Self::Digits | Self::Bucket(..) => false,
        }
    }

    /// How errors call such a value.
    #[must_use]
    pub fn described(self) -> &'static str {
        match self {
            Self::Detected | Self::Zone(_) => {
                "a time (ISO 8601 text, a date, an hour, or a number of seconds, milliseconds or microseconds since 1970)"
            }
            Self::Notation(notation) => notation.described(),
            Self::Digits => "a number of seconds, milliseconds or microseconds since 1970",
            Self::Bucket(..) => "a part of the calendar",
        }
    }
}

/// As `times` names it.
impl fmt::Display for TimeReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Detected => f.write_str("detected"),
            Self::Digits => f.write_str("digits"),
            Self::Notation(notation) => f.write_str(notation.name()),
            Self::Zone(zone) => f.write_str(zone.name()),
            Self::Bucket(bucket, None) => f.write_str(bucket.name()),
            Self::Bucket(bucket, Some(zone)) => write!(f, "{}@{}", bucket.name(), zone.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Option<i64> {
        TimeReading::of_name(name).unwrap().of_text(text).map(Timestamp::epoch_ms)
    }

    fn read_number(name: &str, number: &str) -> Option<i64> {
        let reading = TimeReading::of_name(name).unwrap();
        reading.of_number(&number.parse().unwrap()).map(Timestamp::epoch_ms)
    }

    #[test]
    fn a_declared_unit_counts_whatever_the_size() {
        for (name, number, ms) in [
            ("seconds", "253402300800", 253_402_300_800_000),
            ("seconds", "1.2345", 1_234),
            ("milliseconds", "1", 1),
            ("milliseconds", "1000.9", 1_000),
            ("microseconds", "1999", 1),
            ("nanoseconds", "1770388200123456789", 1_770_388_200_123),
            ("milliseconds", "-0.5", -1),
            ("microseconds", "-1", -1),
        ] {
            assert_eq!(read_number(name, number), Some(ms), "{number} {name}");
            assert_eq!(read(name, number), Some(ms), "\"{number}\" {name}");
        }
        for text in ["", "-", "1e3", "+1", "2026-02-06T14:30:00Z", "1_000", "0x1", " 1", "NaN"] {
            assert_eq!(read("seconds", text), None, "{text}");
        }
        assert_eq!(read_number("seconds", "1e30"), None);
    }

    #[test]
    fn identifiers_are_texts_and_nothing_else() {
        assert_eq!(read("ulid", "01ARYZ6S41TSV4RRFFQ69G5FAV"), Some(1_469_918_176_385));
        assert_eq!(read("ksuid", "0ujtsYcgvSTl8PAuAdqWYSMnLOv"), Some(1_507_608_047_000));
        assert_eq!(read("uuidv7", "017F22E2-79B0-7CC3-98C4-DC0C0C07398F"), Some(1_645_557_742_000));
        for name in ["ulid", "ksuid", "uuidv7"] {
            assert_eq!(read(name, "2026-02-06T14:30:00Z"), None, "{name}");
            assert_eq!(read_number(name, "1770388200"), None, "{name}");
        }
    }

    #[test]
    fn a_number_in_a_key_is_read_by_its_size() {
        let read = |text: &str| TimeReading::Digits.of_text(text).map(Timestamp::epoch_ms);
        assert_eq!(read("1770388200"), Some(1_770_388_200_000));
        assert_eq!(read("1770388200123"), Some(1_770_388_200_123));
        assert_eq!(read("2026-02-06T14:30:00Z"), Some(1_770_388_200_000));
        assert_eq!(read("never"), None);
    }

    #[test]
    fn days_of_identifiers_and_digits_of_times() {
        assert_eq!(read("day", "20260206-0017"), Some(1_770_336_000_000));
        assert_eq!(read("day", "1770388200"), None);
        assert_eq!(read_number("day", "20260206"), None);
        assert_eq!(read("compact", "20260206143000"), Some(1_770_388_200_000));
        assert_eq!(read_number("compact", "20260206"), Some(1_770_336_000_000));
        assert_eq!(read_number("compact", "20260206.5"), None);
        assert_eq!(read("compact", "2026-02-06"), None);
    }

    #[test]
    fn a_zone_is_of_texts_without_an_offset() {
        assert_eq!(read("Europe/Berlin", "2026-02-06 14:30:00"), Some(1_770_384_600_000));
        assert_eq!(read("Europe/Berlin", "2026-02-06T14:30:00Z"), Some(1_770_388_200_000));
        assert_eq!(read_number("Europe/Berlin", "1770388200"), Some(1_770_388_200_000));
    }

    #[test]
    fn other_names_have_no_reading() {
        for name in ["detected", "week", "Berlin", "SECONDS", ""] {
            assert_eq!(TimeReading::of_name(name), None, "{name}");
        }
    }
}
