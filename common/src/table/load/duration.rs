//! Lengths of time as models write them: `90 days`.

use std::time::Duration;

/// Reads a whole number and a unit, from seconds to weeks. A day is 24 hours here: what expires counts from a moment.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let (number, unit) = text.trim().split_once(' ')?;
    let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
    let unit = unit.trim_start();
    let seconds: u64 = match unit.strip_suffix('s').unwrap_or(unit) {
        "second" => 1,
        "minute" => 60,
        "hour" => 60 * 60,
        "day" => 24 * 60 * 60,
        "week" => 7 * 24 * 60 * 60,
        _ => return None,
    };
    number.checked_mul(seconds).map(Duration::from_secs)
}

/// Reads a short time as it is written in one word: `5s`, `500ms`, `2m`.
pub(super) fn parse_short(text: &str) -> Option<Duration> {
    let digits = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
    let ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    number.checked_mul(ms).map(Duration::from_millis)
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
}
