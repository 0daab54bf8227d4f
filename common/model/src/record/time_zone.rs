//! Time zones of the IANA database.
//!
//! The database is part of the program, and the operating system's database is never read: a model gives the same keys on every
//! machine. Clocks are set forward and back: a local time then occurs never or twice.
//!
//! ```text
//!                      skipped (gap)                     repeated (fold)
//! moment               as much later as is skipped       the first
//! first_moment         the end of the gap                the first
//! ```

use std::fmt;
use std::sync::{LazyLock, OnceLock};

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};

use super::time::{ParsedTime, Timestamp, parse_time};

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Every zone of the database, by name; its rules are loaded when they are used first.
static ZONES: LazyLock<Vec<(String, OnceLock<ZoneRules>)>> = LazyLock::new(|| {
    let mut zones: Vec<_> =
        DATABASE.available().map(|name| (name.as_str().to_owned(), OnceLock::new())).collect();
    zones.sort_by(|(name, _), (other, _)| name.cmp(other));
    zones
});

#[derive(Debug)]
struct ZoneRules {
    name: &'static str,
    rules: TimeZone,
}

/// A time zone of the IANA database, such as `Europe/Berlin`.
#[derive(Clone, Copy)]
pub struct NamedZone(&'static ZoneRules);

impl NamedZone {
    /// The zone with this name, in the database's own spelling. Items state zones, so this is fast: a binary search.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let place = ZONES.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        let (name, zone) = ZONES.get(place)?;
        if let Some(rules) = zone.get() {
            return Some(Self(rules));
        }
        let rules = DATABASE.get(name).ok()?;
        Some(Self(zone.get_or_init(|| ZoneRules { name, rules })))
    }

    /// The names of all zones.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ZONES.iter().map(|(name, _)| name.as_str())
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The time in a text, as [`Timestamp::parse`] reads it, but a text without an offset is in this zone.
    #[must_use]
    pub fn parse(self, text: &str) -> Option<Timestamp> {
        match parse_time(text)? {
            ParsedTime::Moment(time) => Some(time),
            ParsedTime::Start(local) => first_moment(local, Some(self)),
            ParsedTime::Local(local) => {
                let moment = self.0.rules.to_ambiguous_timestamp(local).compatible().ok()?;
                Some(Timestamp::from_jiff(moment))
            }
        }
    }
}

impl PartialEq for NamedZone {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for NamedZone {}

impl fmt::Debug for NamedZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The calendar and the clock of a zone, or of UTC, at a time; `None` outside the years −9999 to 9999.
#[must_use]
pub(crate) fn local_time(time: Timestamp, zone: Option<NamedZone>) -> Option<DateTime> {
    let instant = jiff::Timestamp::from_millisecond(time.epoch_ms()).ok()?;
    Some(match zone {
        None => Offset::UTC.to_datetime(instant),
        Some(zone) => zone.0.rules.to_datetime(instant),
    })
}

/// The first moment at which the clock of a zone, or of UTC, shows this time or a later one.
#[must_use]
pub(crate) fn first_moment(local: DateTime, zone: Option<NamedZone>) -> Option<Timestamp> {
    let Some(NamedZone(ZoneRules { rules, .. })) = zone else {
        return Offset::UTC.to_timestamp(local).ok().map(Timestamp::from_jiff);
    };
    let moment = match rules.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok()?,
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok()?,
        AmbiguousOffset::Gap { after, .. } => {
            // With the offset that holds after the gap, a time in the gap lies before it.
            let before_gap = after.to_timestamp(local).ok()?;
            rules.following(before_gap).next()?.timestamp()
        }
    };
    Some(Timestamp::from_jiff(moment))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> NamedZone {
        NamedZone::of_name(name).unwrap_or_else(|| panic!("{name} is not in the database"))
    }

    fn parsed(name: &str, text: &str) -> Option<String> {
        zone(name).parse(text).map(|time| time.to_string())
    }

    #[test]
    fn zones_have_the_names_of_the_database() {
        assert_eq!(zone("Europe/Berlin").name(), "Europe/Berlin");
        assert_eq!(format!("{:?}", zone("America/Argentina/Buenos_Aires")), "America/Argentina/Buenos_Aires");
        for unknown in ["europe/berlin", "Berlin", "", "CET+1", "Europe/Berlin ", "Mars/Olympus"] {
            assert_eq!(NamedZone::of_name(unknown), None, "{unknown}");
        }
        assert!(NamedZone::names().count() > 400);
        assert!(NamedZone::names().all(|name| NamedZone::of_name(name).is_some()), "every zone loads");
    }

    #[test]
    fn only_texts_without_an_offset_are_local() {
        for (text, utc) in [
            ("2026-02-06 14:30:00", "2026-02-06T13:30:00Z"),
            ("2026-07-06T14:30", "2026-07-06T12:30:00Z"),
            ("2026-02-06", "2026-02-05T23:00:00Z"),
            ("2026-02-06T14", "2026-02-06T13:00:00Z"),
            ("2026-02-06-14", "2026-02-06T13:00:00Z"),
            ("2026-02-06T14:30:00Z", "2026-02-06T14:30:00Z"),
            ("2026-02-06T14:30:00-08:00", "2026-02-06T22:30:00Z"),
        ] {
            assert_eq!(parsed("Europe/Berlin", text).as_deref(), Some(utc), "{text}");
        }
        assert_eq!(parsed("Europe/Berlin", "yesterday"), None);
    }

    #[test]
    fn a_skipped_time_is_later_and_a_repeated_one_is_the_first() {
        // At 2026-03-29 01:00 UTC, 02:00 becomes 03:00; at 2026-10-25 01:00 UTC, 03:00 becomes 02:00.
        assert_eq!(parsed("Europe/Berlin", "2026-03-29 02:30:00").as_deref(), Some("2026-03-29T01:30:00Z"));
        assert_eq!(parsed("Europe/Berlin", "2026-10-25 02:30:00").as_deref(), Some("2026-10-25T00:30:00Z"));
    }

    #[test]
    fn the_first_moment_of_a_skipped_time_is_the_end_of_the_gap() {
        for (name, local, utc) in [
            // 02:00 to 03:00 is skipped.
            ("Europe/Berlin", "2026-03-29T02:00", "2026-03-29T01:00:00Z"),
            ("Europe/Berlin", "2026-03-29T02:59", "2026-03-29T01:00:00Z"),
            // Clocks went from 23:30 to 00:30: the day began at half past midnight.
            ("America/Toronto", "1919-03-31T00:00", "1919-03-31T04:30:00Z"),
            // No midnight: 00:00 became 01:00.
            ("America/Sao_Paulo", "2018-11-04T00:00", "2018-11-04T03:00:00Z"),
            // Half an hour, from 02:00 to 02:30.
            ("Australia/Lord_Howe", "2026-10-04T02:00", "2026-10-03T15:30:00Z"),
            // A day that did not exist.
            ("Pacific/Apia", "2011-12-30T00:00", "2011-12-30T10:00:00Z"),
            // Repeated: the first.
            ("Europe/Berlin", "2026-10-25T02:00", "2026-10-25T00:00:00Z"),
            ("Europe/Berlin", "2026-02-06T00:00", "2026-02-05T23:00:00Z"),
        ] {
            let moment = first_moment(local.parse().unwrap(), Some(zone(name))).unwrap();
            assert_eq!(moment.to_string(), utc, "{local} in {name}");
        }
    }
}
