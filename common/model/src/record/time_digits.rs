//! Calendar times without punctuation, and days at the beginning of identifiers: `20260206143000`, `2026-02-06-0017`.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::Offset;

use super::time::Timestamp;

/// The lengths of days, hours, minutes, seconds and milliseconds, in digits.
const LENGTHS: [usize; 5] = [8, 10, 12, 14, 17];

impl Timestamp {
    /// The day that a text begins with, in UTC: `2026-02-06` or `20260206`. The text ends there, or goes on with another character than a
    /// digit.
    #[must_use]
    pub fn of_leading_day(text: &str) -> Option<Self> {
        let day = leading_day(text, "0000-00-00").or_else(|| leading_day(text, "00000000"))?;
        of_digits(&day.replace('-', ""))
    }

    /// The UTC time in a text of digits, from the year to the day, hour, minute, second or millisecond: `20260206`, `20260206143000`. Between
    /// day and hour there may be a `T`, and at the end a `Z`, as in the basic format of ISO 8601.
    #[must_use]
    pub fn of_compact(text: &str) -> Option<Self> {
        match text.split_once('T') {
            None => of_digits(text),
            Some((day, time)) if day.len() == 8 && time.len() >= 2 => {
                of_digits(&format!("{day}{}", time.strip_suffix('Z').unwrap_or(time)))
            }
            Some(_) => None,
        }
    }
}

/// The beginning of a text, if it has this shape (`0` stands for any digit) and no digit follows.
fn leading_day<'t>(text: &'t str, shape: &str) -> Option<&'t str> {
    let (day, rest) = text.split_at_checked(shape.len())?;
    let is_shaped = shape.bytes().zip(day.bytes()).all(|(expected, byte)| match expected {
        b'0' => byte.is_ascii_digit(),
        other => byte == other,
    });
    (is_shaped && !rest.starts_with(|next: char| next.is_ascii_digit())).then_some(day)
}

fn of_digits(digits: &str) -> Option<Timestamp> {
    if !LENGTHS.contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number =
        |from: usize, length: usize| -> Option<i16> { digits.get(from..from + length)?.parse().ok() };
    // The parts that are left out are zero.
    let part = |from: usize| number(from, 2).unwrap_or(0).try_into().ok();
    let date = Date::new(number(0, 4)?, part(4)?, part(6)?).ok()?;
    let milliseconds = i32::from(number(14, 3).unwrap_or(0));
    let time = Time::new(part(8)?, part(10)?, part(12)?, milliseconds * 1_000_000).ok()?;
    Offset::UTC.to_timestamp(DateTime::from_parts(date, time)).ok().map(Timestamp::from_jiff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leading(text: &str) -> Option<String> {
        Timestamp::of_leading_day(text).map(|time| time.to_string())
    }

    fn compact(text: &str) -> Option<i64> {
        Timestamp::of_compact(text).map(Timestamp::epoch_ms)
    }

    #[test]
    fn an_identifier_begins_with_its_day() {
        for text in [
            "2026-02-06",
            "20260206",
            "2026-02-06-0017",
            "20260206-0017",
            "20260206#x",
            "2026-02-06T14:30:00Z",
            "20260206é",
        ] {
            assert_eq!(leading(text).as_deref(), Some("2026-02-06T00:00:00Z"), "{text}");
        }
        let others = [
            "202602061",
            "2026-02-061",
            "2026-02",
            "2026-02-30",
            "20261301",
            "2026/02/06",
            "x20260206",
            "",
            "2026-0206",
            "éééé-02-06",
        ];
        for text in others {
            assert_eq!(leading(text), None, "{text}");
        }
    }

    #[test]
    fn digits_are_a_time_of_the_calendar() {
        for (text, ms) in [
            ("20260206", 1_770_336_000_000),
            ("2026020614", 1_770_386_400_000),
            ("202602061430", 1_770_388_200_000),
            ("20260206143005", 1_770_388_205_000),
            ("20260206143005250", 1_770_388_205_250),
            ("20260206T143005Z", 1_770_388_205_000),
            ("20260206T1430", 1_770_388_200_000),
        ] {
            assert_eq!(compact(text), Some(ms), "{text}");
        }
        let others = [
            "2026-02-06",
            "202602061",
            "2026020",
            "20260230",
            "2026020624",
            "202602061460",
            "20260206143060",
            "20260206 1430",
            "2026020614Z",
            "20260206T",
            "T20260206",
            "+2026020",
            "２０２６",
            "",
        ];
        for text in others {
            assert_eq!(compact(text), None, "{text}");
        }
    }
}
