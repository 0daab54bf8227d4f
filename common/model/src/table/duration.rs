//! Lengths of time as models write them: `90 days`, or in one word `5s`.

use std::time::Duration;

/// The units of [`parse`] and [`duration`], largest first, in milliseconds. A day is 24 hours here: an expiry counts from a moment.
const UNITS: [(&str, u64); 5] =
    [("week", 604_800_000), ("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000)];

/// The units of [`parse_short`], in milliseconds.
const SHORT_UNITS: [(&str, u64); 3] = [("ms", 1), ("s", 1_000), ("m", 60_000)];

/// Reads a whole number and a unit, from seconds to weeks.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let (number, unit) = text.trim().split_once(' ')?;
    let unit = unit.trim_start();
    length(number, unit.strip_suffix('s').unwrap_or(unit), &UNITS)
}

/// Reads a short time in one word: `5s`, `500ms`, `2m`.
pub(super) fn parse_short(text: &str) -> Option<Duration> {
    let digits = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(digits)?;
    length(number, unit, &SHORT_UNITS)
}

fn length(number: &str, unit: &str, units: &[(&str, u64)]) -> Option<Duration> {
    let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
    let (_, ms) = units.iter().find(|(known, _)| *known == unit)?;
    number.checked_mul(*ms).map(Duration::from_millis)
}

/// A duration in the largest unit up to days that makes it whole: `90 days`, `5 seconds`.
#[must_use]
pub fn duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    let mut units = UNITS.iter().skip(1).map(|(unit, length)| (*unit, u128::from(*length)));
    let (unit, length) = units.find(|(_, length)| ms.is_multiple_of(*length)).unwrap_or(("millisecond", 1));
    let number = ms / length;
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times() {
        for (text, ms) in [("5s", 5_000), ("500ms", 500), ("2m", 120_000)] {
            assert_eq!(parse_short(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "5", "s", "0s", "-5s", "1.5s", "5 s", "5h", "5sec", "99999999999999999999s"] {
            assert_eq!(parse_short(text), None, "{text}");
        }
    }

    #[test]
    fn lengths_of_time() {
        for (text, seconds) in
            [("1 second", 1), ("90 days", 7_776_000), ("2 weeks", 1_209_600), ("36  hours", 129_600)]
        {
            assert_eq!(parse(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in
            ["", "90", "days", "0 days", "-1 days", "1.5 days", "2 months", "99999999999999999999 days"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn durations_have_the_largest_unit_that_makes_them_whole() {
        for (seconds, written) in [
            (5, "5 seconds"),
            (1, "1 second"),
            (60, "1 minute"),
            (5_400, "90 minutes"),
            (86_400, "1 day"),
            (7_776_000, "90 days"),
        ] {
            assert_eq!(duration(Duration::from_secs(seconds)), written);
        }
    }
}
