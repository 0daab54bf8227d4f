//! Points in time, to the millisecond.

use std::fmt;
use std::time::Duration;

use jiff::tz::TimeZone;

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    epoch_ms: i64,
}

impl Timestamp {
    /// From milliseconds since the epoch.
    #[must_use]
    pub const fn from_epoch_ms(epoch_ms: i64) -> Self {
        Self { epoch_ms }
    }

    /// From whole seconds since the epoch.
    #[must_use]
    pub const fn from_epoch_seconds(seconds: i64) -> Self {
        Self { epoch_ms: seconds.saturating_mul(1000) }
    }

    /// From text in RFC 3339 (`2026-02-06T14:30:00Z`, offsets and fractions allowed) or a plain date, taken as its
    /// first moment in UTC.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let instant = text.parse::<jiff::Timestamp>().ok().or_else(|| {
            let date = text.parse::<jiff::civil::Date>().ok().filter(|_| text.len() == "yyyy-mm-dd".len())?;
            date.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
        })?;
        Some(Self { epoch_ms: instant.as_millisecond() })
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn epoch_ms(self) -> i64 {
        self.epoch_ms
    }

    /// Whole seconds since the epoch, rounded down: what DynamoDB's TTL attribute holds.
    #[must_use]
    pub const fn epoch_seconds(self) -> i64 {
        self.epoch_ms.div_euclid(1000)
    }

    /// The UTC day, `yyyy-mm-dd`; `None` outside the years −9999 to 9999.
    #[must_use]
    pub fn day(self) -> Option<String> {
        let instant = jiff::Timestamp::from_millisecond(self.epoch_ms).ok()?;
        Some(TimeZone::UTC.to_datetime(instant).date().to_string())
    }

    /// This time plus a duration, at most the end of time.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self { epoch_ms: self.epoch_ms.saturating_add(ms) }
    }

    /// This time less a duration, at least the beginning of time.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self { epoch_ms: self.epoch_ms.saturating_sub(ms) }
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let ms = self.epoch_ms.saturating_sub(earlier.epoch_ms);
        Duration::from_millis(u64::try_from(ms).unwrap_or(0))
    }
}

/// RFC 3339 in UTC, to the second: `2026-02-06T14:30:00Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_second(self.epoch_seconds()) {
            Ok(instant) => write!(f, "{instant}"),
            Err(_) => write!(f, "{} s after 1970", self.epoch_seconds()),
        }
    }
}
