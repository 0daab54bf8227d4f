//! Timestamps with millisecond precision.

use std::fmt;
use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};

use super::decimal::Decimal;

/// The end of the year 9999: seconds, milliseconds and microseconds since the epoch.
const AFTER_9999: u64 = 253_402_300_800;
const AFTER_9999_MS: u64 = AFTER_9999 * 1000;
const AFTER_9999_US: u64 = AFTER_9999_MS * 1000;

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

    /// Parses RFC 3339 (`2026-02-06T14:30:00Z`, with offsets and fractions), the same without an offset (in UTC), a date, or
    /// an hour (`2026-02-06T14` or `2026-02-06-14`). A date or hour is its first moment in UTC. A space may stand for the `T`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match utc_time(text) {
            Some(instant) => Some(Self::from_epoch_ms(instant.as_millisecond())),
            None => Self::parse_general(text),
        }
    }

    fn parse_general(text: &str) -> Option<Self> {
        match parse_time(text)? {
            ParsedTime::Moment(time) => Some(time),
            ParsedTime::Start(local) | ParsedTime::Local(local) => {
                Offset::UTC.to_timestamp(local).ok().map(Self::from_jiff)
            }
        }
    }

    /// Rounded down to the millisecond, also before 1970.
    pub(super) fn from_jiff(instant: jiff::Timestamp) -> Self {
        let nanoseconds = i64::from(instant.subsec_nanosecond());
        let epoch_ms = instant.as_second().saturating_mul(1000) + nanoseconds.div_euclid(1_000_000);
        Self { epoch_ms }
    }

    /// The beginning of a text such as `2026-02-06T14:30:00Z`, which is its UTC day, hour or minute; `None` for every other
    /// text, even if it is a time.
    #[must_use]
    pub fn prefix_of_utc(text: &str, length: usize) -> Option<&str> {
        utc_time(text).and_then(|_| text.get(..length))
    }

    /// From a number of seconds, milliseconds, microseconds or nanoseconds since the epoch, distinguished by their size: the years up
    /// to 9999 are seconds. So milliseconds before 1978-01-11 are read as seconds.
    #[must_use]
    pub fn from_epoch_number(number: &Decimal) -> Option<Self> {
        let whole = number.floor_divided_by(&Decimal::ONE)?;
        let epoch_ms = match whole.unsigned_abs() {
            ..AFTER_9999 => number.times(&Decimal::from(1000)).ok()?.floor_divided_by(&Decimal::ONE)?,
            AFTER_9999..AFTER_9999_MS => whole,
            AFTER_9999_MS..AFTER_9999_US => whole.div_euclid(1000),
            AFTER_9999_US.. => whole.div_euclid(1_000_000),
        };
        Some(Self { epoch_ms })
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn epoch_ms(self) -> i64 {
        self.epoch_ms
    }

    /// Whole seconds since the epoch, rounded down: the format of DynamoDB's TTL attribute.
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

    /// Whether it has a [`Timestamp::day`].
    #[must_use]
    pub fn has_day(self) -> bool {
        jiff::Timestamp::from_millisecond(self.epoch_ms).is_ok()
    }

    /// The first moment of the UTC day.
    #[must_use]
    pub const fn start_of_day(self) -> Self {
        const DAY_MS: i64 = 24 * 60 * 60 * 1000;
        Self { epoch_ms: self.epoch_ms.div_euclid(DAY_MS).saturating_mul(DAY_MS) }
    }

    /// This time plus a duration, saturating.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self { epoch_ms: self.epoch_ms.saturating_add(ms) }
    }

    /// This time minus a duration, saturating.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self { epoch_ms: self.epoch_ms.saturating_sub(ms) }
    }

    /// The duration since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let ms = self.epoch_ms.saturating_sub(earlier.epoch_ms);
        Duration::from_millis(u64::try_from(ms).unwrap_or(0))
    }
}

/// Parses UTC times with seconds (`2026-02-06T14:30:00Z`), the most frequent form. Parsing only this form is much
/// faster than detecting the form of a text.
fn utc_time(text: &str) -> Option<jiff::Timestamp> {
    const SHAPE: &[u8; 20] = b"0000-00-00T00:00:00Z";
    let bytes: &[u8; 20] = text.as_bytes().try_into().ok()?;
    let is_shaped = SHAPE.iter().zip(bytes).fold(true, |all, (expected, byte)| {
        all & if *expected == b'0' { byte.is_ascii_digit() } else { byte == expected }
    });
    if !is_shaped {
        return None;
    }
    let [c0, c1, y0, y1, _, m0, m1, _, d0, d1, _, h0, h1, _, n0, n1, _, s0, s1, _] = bytes;
    let number =
        |tens: &u8, ones: &u8| (tens - b'0').wrapping_mul(10).wrapping_add(ones - b'0').cast_signed();
    let year = i16::from(number(c0, c1)) * 100 + i16::from(number(y0, y1));
    let (month, day) = (number(m0, m1), number(d0, d1));
    let time = DateTime::new(year, month, day, number(h0, h1), number(n0, n1), number(s0, s1), 0).ok()?;
    Offset::UTC.to_timestamp(time).ok()
}

/// A time as a text states it.
pub(super) enum ParsedTime {
    /// With an offset.
    Moment(Timestamp),
    /// Without one: the beginning of a day or an hour.
    Start(DateTime),
    /// Without one: a time of day.
    Local(DateTime),
}

/// Parses every text that is a time.
pub(super) fn parse_time(text: &str) -> Option<ParsedTime> {
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Some(ParsedTime::Moment(Timestamp::from_jiff(instant)));
    }
    let (date, time) = text.split_at_checked("yyyy-mm-dd".len())?;
    match hour_of_day(time) {
        Some(hour) => Some(ParsedTime::Start(date.parse::<Date>().ok()?.at(hour, 0, 0, 0))),
        None => local_time(text, time).map(ParsedTime::Local),
    }
}

/// A date and a time without an offset: `2026-02-06T14:30`, `2026-02-06 14:30:00.25`. `time` is the part after the date.
fn local_time(text: &str, time: &str) -> Option<DateTime> {
    let is_clock = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b':' | b'.'));
    let clock = time.strip_prefix(['T', ' '])?;
    (clock.contains(':') && is_clock(clock)).then(|| text.parse().ok()).flatten()
}

/// The hour after a date: `T14` or `-14`; 0 if the text is empty.
fn hour_of_day(text: &str) -> Option<i8> {
    if text.is_empty() {
        return Some(0);
    }
    let digits = text.strip_prefix(['T', '-']).filter(|digits| digits.len() == 2)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|hour| is_number && *hour < 24)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: usize = "yyyy-mm-dd".len();

    proptest! {
        #[test]
        fn the_fast_path_returns_the_same_as_the_general_one(
            text in "(0[0-9]00|[0-9]{4})-(02-(2[0-9]|30)|[01][0-9]-[0-3][0-9])T([01][0-9]|2[0-5]):[0-6][0-9]:[0-6][0-9]Z",
        ) {
            let general = Timestamp::parse_general(&text);
            prop_assert_eq!(Timestamp::parse(&text), general);
            match Timestamp::prefix_of_utc(&text, DAY) {
                Some(day) => prop_assert_eq!(Some(day.to_owned()), general.and_then(Timestamp::day)),
                // A leap second is a valid time, but not on the fast path.
                None => prop_assert!(general.is_none() || text.ends_with(":60Z")),
            }
        }
    }

    #[test]
    fn the_fast_path_has_the_limits_of_the_general_one() {
        for text in ["9999-12-30T21:59:59Z", "9999-12-30T22:00:00Z", "9999-12-31T00:00:00Z"] {
            let general = Timestamp::parse_general(text);
            assert_eq!(Timestamp::parse(text), general, "{text}");
            assert_eq!(
                Timestamp::prefix_of_utc(text, DAY).map(str::to_owned),
                general.and_then(Timestamp::day),
                "{text}"
            );
        }
    }

    #[test]
    fn only_utc_with_seconds_takes_the_fast_path() {
        for text in
            ["2026-02-06T14:30:00+00:00", "2026-02-06T14:30:00.5Z", "2026-02-06", "2026-02-06 14:30:00Z"]
        {
            assert_eq!(Timestamp::prefix_of_utc(text, DAY), None, "{text}");
        }
        assert_eq!(Timestamp::prefix_of_utc("2026-02-06T14:30:00Z", DAY), Some("2026-02-06"));
    }

    #[test]
    fn rfc_3339_dates_and_hours_are_parsed() {
        let cases = [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-02-06T14:30:00Z", 1_770_388_200_000),
            ("2026-02-06T14:30:00.5Z", 1_770_388_200_500),
            ("2026-02-06T14:30:00.123456789Z", 1_770_388_200_123),
            ("2026-02-06T15:30:00+01:00", 1_770_388_200_000),
            ("2026-02-06T06:30:00.250-08:00", 1_770_388_200_250),
            ("2026-02-06", 1_770_336_000_000),
            ("2026-02-06T14", 1_770_386_400_000),
            ("2026-02-06-14", 1_770_386_400_000),
            ("2026-02-06-00", 1_770_336_000_000),
            ("2026-02-06T14:30", 1_770_388_200_000),
            ("2026-02-06T14:30:00", 1_770_388_200_000),
            ("2026-02-06T14:30:00.123456", 1_770_388_200_123),
            ("2026-02-06 14:30:00", 1_770_388_200_000),
            ("2026-02-06 14:30:00.5", 1_770_388_200_500),
            ("2026-02-06 15:30:00+01:00", 1_770_388_200_000),
            ("1969-12-31T23:59:59.9999Z", -1),
            ("0001-01-01T00:00:00Z", -62_135_596_800_000),
        ];
        for (text, epoch_ms) in cases {
            assert_eq!(Timestamp::parse(text), Some(Timestamp::from_epoch_ms(epoch_ms)), "{text}");
        }
    }

    #[test]
    fn text_that_is_not_a_time_is_rejected() {
        let cases = [
            "",
            "yesterday",
            "1770388200",
            "2026",
            "2026-02",
            "20260206",
            "2026-02-30",
            "2026-13-01",
            "2026-02-06T",
            "2026-02-06T24",
            "2026-02-06-24",
            "2026-02-06T4",
            "2026-02-06 14",
            "2026-02-06T+1",
            "2026-02-30T14",
            "2026-02-06T14:30:",
            "2026-02-06T14:30:61",
            "2026-02-06T1430",
            "2026-02-06T14:30[Europe/Berlin]",
            "2026-02-06-14:30:00",
            "2026-02-30 14:30:00",
            "2026-02-06T25:00:00Z",
            "2026-02-06T14:30:00Z and more",
            " 2026-02-06",
        ];
        for text in cases {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_size_of_a_number_tells_its_unit() {
        let cases = [
            ("1770388200", 1_770_388_200_000),
            ("1770388200.5", 1_770_388_200_500),
            ("1770388200123", 1_770_388_200_123),
            ("1770388200123.9", 1_770_388_200_123),
            ("1770388200123456", 1_770_388_200_123),
            ("1770388200123456789", 1_770_388_200_123),
            ("253402300799", 253_402_300_799_000),
            ("253402300800", 253_402_300_800),
            ("-253402300800", -253_402_300_800),
            ("-1", -1_000),
            ("-0.0001", -1),
            ("0", 0),
        ];
        for (number, epoch_ms) in cases {
            let number: Decimal = number.parse().unwrap();
            assert_eq!(
                Timestamp::from_epoch_number(&number),
                Some(Timestamp::from_epoch_ms(epoch_ms)),
                "{number}"
            );
        }
        assert_eq!(Timestamp::from_epoch_number(&"1e30".parse().unwrap()), None);
    }

    #[test]
    fn the_day_is_in_utc() {
        for (text, day) in [
            ("2026-02-06T00:00:00Z", "2026-02-06"),
            ("2026-02-06T23:59:59.999Z", "2026-02-06"),
            ("2026-02-06T00:30:00+01:00", "2026-02-05"),
            ("2026-02-06T23:30:00-01:00", "2026-02-07"),
            ("1969-12-31T23:59:59.9999Z", "1969-12-31"),
            ("0099-03-01", "0099-03-01"),
        ] {
            assert_eq!(Timestamp::parse(text).unwrap().day().as_deref(), Some(day), "{text}");
        }
        for epoch_ms in [-377_705_023_201_001, -377_705_023_201_000, 253_402_207_200_999, i64::MAX] {
            let time = Timestamp::from_epoch_ms(epoch_ms);
            assert_eq!(time.has_day(), time.day().is_some(), "{epoch_ms}");
        }
        assert_eq!(Timestamp::from_epoch_ms(i64::MAX).day(), None);
    }

    #[test]
    fn times_are_formatted_with_whole_seconds() {
        assert_eq!(Timestamp::from_epoch_ms(1_770_388_200_999).to_string(), "2026-02-06T14:30:00Z");
        assert_eq!(Timestamp::from_epoch_ms(-1).to_string(), "1969-12-31T23:59:59Z");
        assert_eq!(Timestamp::from_epoch_ms(-1).epoch_seconds(), -1);
        assert_eq!(Timestamp::from_epoch_seconds(i64::MAX), Timestamp::from_epoch_ms(i64::MAX));
    }

    #[test]
    fn arithmetic_saturates() {
        let (early, late) = (Timestamp::from_epoch_ms(1_000), Timestamp::from_epoch_ms(2_500));
        assert_eq!(late.since(early), Duration::from_millis(1_500));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(early.plus(Duration::from_millis(1_500)), late);
        assert_eq!(late.minus(Duration::from_millis(1_500)), early);
        assert_eq!(early.plus(Duration::MAX), Timestamp::from_epoch_ms(i64::MAX));
        assert!(early.minus(Duration::MAX) < Timestamp::from_epoch_ms(-i64::MAX / 2));
    }
}
