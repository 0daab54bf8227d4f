//! Parts of the calendar that a time is counted by: a minute, a day, an ISO week.

use std::fmt::Write as _;

use jiff::Span;
use jiff::civil::{Date, DateTime, ISOWeekDate, Time, Weekday};

use super::named::named_values;
use crate::record::{NamedZone, Timestamp, first_moment, local_time};

named_values! {
    /// A part of the calendar, and the text that stands for it.
    pub enum TimeBucket {
        /// `2026-02-06T14:30`.
        Minute = "minute",
        /// `2026-02-06T14`.
        Hour = "hour",
        /// `2026-02-06`.
        Day = "day",
        /// The week of ISO 8601, from Monday: `2026-W06`.
        Week = "week",
        /// `2026-02`.
        Month = "month",
        /// `2026-Q1`.
        Quarter = "quarter",
        /// `2026`.
        Year = "year",
    }
}

impl TimeBucket {
    /// The form of its text: `0` stands for any digit.
    #[must_use]
    pub fn shape(self) -> &'static str {
        match self {
            Self::Minute => "0000-00-00T00:00",
            Self::Hour => "0000-00-00T00",
            Self::Day => "0000-00-00",
            Self::Week => "0000-W00",
            Self::Month => "0000-00",
            Self::Quarter => "0000-Q0",
            Self::Year => "0000",
        }
    }

    /// Whether each of these buckets lies in exactly one bucket of the other format, which its text determines.
    #[must_use]
    pub fn lies_in(self, other: Self) -> bool {
        match other {
            Self::Week => self <= Self::Week,
            Self::Minute | Self::Hour | Self::Day => self <= other,
            Self::Month | Self::Quarter | Self::Year => self <= other && self != Self::Week,
        }
    }

    /// The bucket of a text such as `2026-02-06T14:30:00Z` in UTC, borrowed from the text; `None` if the text has another
    /// form, or if the bucket is not a part of it.
    #[must_use]
    pub fn prefix_of_utc(self, text: &str) -> Option<&str> {
        match self {
            Self::Minute | Self::Hour | Self::Day | Self::Month | Self::Year => {
                Timestamp::prefix_of_utc(text, self.shape().len())
            }
            Self::Week | Self::Quarter => None,
        }
    }

    /// Appends the bucket of a time, in a zone or in UTC. `None` if it has none: a time outside the years 0 to 9999, or, as a day,
    /// outside −9999 to 9999.
    #[must_use]
    pub fn write(self, time: Timestamp, zone: Option<NamedZone>, text: &mut String) -> Option<()> {
        let local = local_time(time, zone)?;
        let date = local.date();
        let (year, month) = (u16::try_from(date.year()).ok(), date.month());
        match self {
            Self::Minute => {
                year?;
                write!(text, "{date}T{:02}:{:02}", local.hour(), local.minute())
            }
            Self::Hour => {
                year?;
                write!(text, "{date}T{:02}", local.hour())
            }
            Self::Day => write!(text, "{date}"),
            Self::Week => {
                let week = date.iso_week_date();
                write!(text, "{:04}-W{:02}", u16::try_from(week.year()).ok()?, week.week())
            }
            Self::Month => write!(text, "{:04}-{month:02}", year?),
            Self::Quarter => write!(text, "{:04}-Q{}", year?, quarter(month)),
            Self::Year => write!(text, "{:04}", year?),
        }
        .ok()
    }

    /// The first moment of the bucket that a time is in.
    #[must_use]
    pub fn start(self, time: Timestamp, zone: Option<NamedZone>) -> Option<Timestamp> {
        match (self, zone) {
            (Self::Day, None) => Some(time.start_of_day()),
            _ => first_moment(self.truncated(local_time(time, zone)?)?, zone),
        }
    }

    /// The first moment at which UTC shows the bucket that a time is in by the calendar of a zone.
    #[must_use]
    pub fn start_in_utc(self, time: Timestamp, zone: Option<NamedZone>) -> Option<Timestamp> {
        first_moment(self.truncated(local_time(time, zone)?)?, None)
    }

    /// The first moment of the bucket with this text.
    #[must_use]
    pub fn parse(self, text: &str, zone: Option<NamedZone>) -> Option<Timestamp> {
        if !fits_shape(text, self.shape()) {
            return None;
        }
        let number = |from: usize, length: usize| text.get(from..from + length)?.parse::<i8>().ok();
        let year: i16 = text.get(..4)?.parse().ok()?;
        let day = || Date::new(year, number(5, 2)?, number(8, 2)?).ok();
        let start = match self {
            Self::Minute => at(day()?, number(11, 2)?, number(14, 2)?)?,
            Self::Hour => at(day()?, number(11, 2)?, 0)?,
            Self::Day => midnight(day()?),
            Self::Week => midnight(ISOWeekDate::new(year, number(6, 2)?, Weekday::Monday).ok()?.date()),
            Self::Month => midnight(Date::new(year, number(5, 2)?, 1).ok()?),
            Self::Quarter => midnight(Date::new(year, first_month(number(6, 1)?)?, 1).ok()?),
            Self::Year => midnight(Date::new(year, 1, 1).ok()?),
        };
        first_moment(start, zone)
    }

    /// The text of the bucket that is so many buckets after the one with this text, or before it. An hour that a calendar skips counts.
    #[must_use]
    pub fn shifted(self, text: &str, buckets: i64) -> Option<String> {
        let start = local_time(self.parse(text, None)?, None)?;
        let span = match self {
            Self::Minute => Span::new().try_minutes(buckets),
            Self::Hour => Span::new().try_hours(buckets),
            Self::Day => Span::new().try_days(buckets),
            Self::Week => Span::new().try_weeks(buckets),
            Self::Month => Span::new().try_months(buckets),
            Self::Quarter => Span::new().try_months(buckets.checked_mul(3)?),
            Self::Year => Span::new().try_years(buckets),
        };
        let moved = first_moment(start.checked_add(span.ok()?).ok()?, None)?;
        let mut shifted = String::new();
        self.write(moved, None, &mut shifted)?;
        Some(shifted)
    }

    fn truncated(self, local: DateTime) -> Option<DateTime> {
        let date = local.date();
        Some(match self {
            Self::Minute => date.at(local.hour(), local.minute(), 0, 0),
            Self::Hour => date.at(local.hour(), 0, 0, 0),
            Self::Day => midnight(date),
            Self::Week => midnight(date.iso_week_date().first_of_week().ok()?.date()),
            Self::Month => midnight(date.first_of_month()),
            Self::Quarter => midnight(Date::new(date.year(), first_month(quarter(date.month()))?, 1).ok()?),
            Self::Year => midnight(date.first_of_year()),
        })
    }
}

/// Whether a text has a shape, in which `0` stands for any digit.
pub(super) fn fits_shape(text: &str, shape: &str) -> bool {
    let mut pairs = shape.bytes().zip(text.bytes());
    shape.len() == text.len()
        && pairs.all(|(expected, byte)| match expected {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
}

/// A time of day, which a text may state wrongly.
fn at(date: Date, hour: i8, minute: i8) -> Option<DateTime> {
    Some(date.to_datetime(Time::new(hour, minute, 0, 0).ok()?))
}

fn midnight(date: Date) -> DateTime {
    date.at(0, 0, 0, 0)
}

fn quarter(month: i8) -> i8 {
    (month - 1) / 3 + 1
}

/// The first month of a quarter.
fn first_month(quarter: i8) -> Option<i8> {
    (1..=4).contains(&quarter).then(|| (quarter - 1) * 3 + 1)
}

#[cfg(test)]
mod tests;
