use proptest::prelude::*;

use super::*;
use crate::table::named::NamedValue as _;

/// Times, zones, and for each bucket its text and its first moment, computed by Python: see `generate.py` in the same folder.
const COMPUTED: &str = include_str!("../../../../../tests/fixtures/times/buckets.csv");

const ALL: [TimeBucket; 7] = [
    TimeBucket::Minute,
    TimeBucket::Hour,
    TimeBucket::Day,
    TimeBucket::Week,
    TimeBucket::Month,
    TimeBucket::Quarter,
    TimeBucket::Year,
];

fn text(bucket: TimeBucket, time: Timestamp, zone: Option<NamedZone>) -> Option<String> {
    let mut text = String::new();
    bucket.write(time, zone, &mut text).map(|()| text)
}

#[test]
fn buckets_are_those_that_python_computes() {
    let mut compared = 0;
    for line in COMPUTED.lines() {
        let mut fields = line.split(',');
        let seconds: i64 = fields.next().unwrap().parse().unwrap();
        let zone = fields.next().filter(|zone| *zone != "-");
        let zone = zone.map(|zone| NamedZone::of_name(zone).unwrap_or_else(|| panic!("{zone}")));
        for bucket in ALL {
            let (expected, start) = (fields.next().unwrap(), fields.next().unwrap().parse().unwrap());
            let time = Timestamp::from_epoch_seconds(seconds);
            assert_eq!(text(bucket, time, zone).as_deref(), Some(expected), "{line}");
            let start = Some(Timestamp::from_epoch_seconds(start));
            assert_eq!(bucket.start(time, zone), start, "the start of the {}: {line}", bucket.name());
            assert_eq!(bucket.parse(expected, zone), start, "the {} from its text: {line}", bucket.name());
            compared += 1;
        }
        assert_eq!(fields.next(), None);
    }
    assert!(compared > 5_000, "{compared} buckets were compared");
}

#[test]
fn the_texts_of_documentation() {
    let time = Timestamp::parse("2026-02-06T14:30:59.9Z").unwrap();
    let zone = NamedZone::of_name("Europe/Berlin");
    for (bucket, utc, berlin) in [
        (TimeBucket::Minute, "2026-02-06T14:30", "2026-02-06T15:30"),
        (TimeBucket::Hour, "2026-02-06T14", "2026-02-06T15"),
        (TimeBucket::Day, "2026-02-06", "2026-02-06"),
        (TimeBucket::Week, "2026-W06", "2026-W06"),
        (TimeBucket::Month, "2026-02", "2026-02"),
        (TimeBucket::Quarter, "2026-Q1", "2026-Q1"),
        (TimeBucket::Year, "2026", "2026"),
    ] {
        assert_eq!(text(bucket, time, None).as_deref(), Some(utc));
        assert_eq!(text(bucket, time, zone).as_deref(), Some(berlin));
    }
}

#[test]
fn all_times_of_a_repeated_hour_are_in_one_bucket_that_begins_once() {
    let zone = NamedZone::of_name("Europe/Berlin");
    // 03:00 becomes 02:00 at 01:00 UTC: 02:30 comes twice.
    let times = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"].map(|time| Timestamp::parse(time).unwrap());
    for time in times {
        assert_eq!(text(TimeBucket::Hour, time, zone).as_deref(), Some("2026-10-25T02"));
        assert_eq!(TimeBucket::Hour.start(time, zone), Timestamp::parse("2026-10-25T00:00:00Z"));
    }
}

#[test]
fn texts_that_are_not_a_bucket_have_no_start() {
    for (bucket, text) in [
        (TimeBucket::Minute, "2026-02-06T14:60"),
        (TimeBucket::Hour, "2026-02-06T24"),
        (TimeBucket::Day, "2026-02-30"),
        (TimeBucket::Week, "2026-W54"),
        (TimeBucket::Week, "2026-W00"),
        (TimeBucket::Month, "2026-13"),
        (TimeBucket::Quarter, "2026-Q0"),
        (TimeBucket::Quarter, "2026-Q5"),
        (TimeBucket::Year, "26"),
        (TimeBucket::Year, "+026"),
    ] {
        assert_eq!(bucket.parse(text, None), None, "{text}");
    }
    // 2026 has 53 weeks, 2025 has 52.
    assert!(TimeBucket::Week.parse("2026-W53", None).is_some());
    assert_eq!(TimeBucket::Week.parse("2025-W53", None), None);
}

#[test]
fn years_have_four_digits() {
    let before = Timestamp::parse("0000-01-01").unwrap().minus(std::time::Duration::from_secs(1));
    for bucket in ALL.into_iter().filter(|bucket| *bucket != TimeBucket::Day) {
        assert_eq!(text(bucket, before, None), None, "{}", bucket.name());
        assert_eq!(text(bucket, Timestamp::from_epoch_ms(i64::MAX), None), None, "{}", bucket.name());
    }
    // The first of January was a Saturday, in the last week of the year −1.
    let first = Timestamp::parse("0000-01-01").unwrap();
    assert_eq!(text(TimeBucket::Week, first, None), None);
    assert_eq!(text(TimeBucket::Year, first, None).as_deref(), Some("0000"));
}

/// Days since 1970 → year, month and day, by arithmetic of its own (Howard Hinnant, `civil_from_days`).
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * shifted + 2) / 5 + 1, (shifted + 2) % 12 + 1);
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The ISO week: that of the Thursday of the same week, counted in that Thursday's year.
fn iso_week(days: i64) -> (i64, i64) {
    // 1970-01-01 was a Thursday.
    let thursday = days - (days + 3).rem_euclid(7) + 3;
    let (year, ..) = civil(thursday);
    let first = (0..).map(|back| thursday - back).find(|day| civil(*day) == (year, 1, 1)).unwrap();
    (year, (thursday - first) / 7 + 1)
}

proptest! {
    #[test]
    fn buckets_in_utc_agree_with_arithmetic(seconds in -62_000_000_000_i64..253_402_200_000) {
        let days = seconds.div_euclid(86_400);
        let ((year, month, day), (iso_year, week)) = (civil(days), iso_week(days));
        let (hour, minute) = (seconds.rem_euclid(86_400) / 3600, seconds.rem_euclid(3600) / 60);
        let time = Timestamp::from_epoch_seconds(seconds);
        for (bucket, expected) in [
            (TimeBucket::Minute, format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}")),
            (TimeBucket::Hour, format!("{year:04}-{month:02}-{day:02}T{hour:02}")),
            (TimeBucket::Day, format!("{year:04}-{month:02}-{day:02}")),
            (TimeBucket::Week, format!("{iso_year:04}-W{week:02}")),
            (TimeBucket::Month, format!("{year:04}-{month:02}")),
            (TimeBucket::Quarter, format!("{year:04}-Q{}", (month + 2) / 3)),
            (TimeBucket::Year, format!("{year:04}")),
        ] {
            prop_assert_eq!(text(bucket, time, None), Some(expected));
        }
    }

    #[test]
    fn a_bucket_begins_with_its_start(
        ms in -2_000_000_000_000_i64..4_000_000_000_000, zone in 0_usize..10_000, which in 0_usize..7,
    ) {
        let names: Vec<&str> = NamedZone::names().collect();
        let zone = NamedZone::of_name(names[zone % names.len()]);
        let (bucket, time) = (ALL[which], Timestamp::from_epoch_ms(ms));
        let written = text(bucket, time, zone).unwrap();
        let start = bucket.start(time, zone).unwrap();
        prop_assert!(fits_shape(&written, bucket.shape()), "{}", written);
        prop_assert!(start <= time);
        prop_assert_eq!(text(bucket, start, zone), Some(written.clone()));
        prop_assert_eq!(bucket.parse(&written, zone), Some(start));
        prop_assert_eq!(bucket.start(start, zone), Some(start));
        let before = Timestamp::from_epoch_ms(start.epoch_ms() - 1);
        prop_assert_ne!(text(bucket, before, zone), Some(written));
    }

    #[test]
    fn the_fast_path_writes_the_same(seconds in -62_000_000_000_i64..253_402_200_000, which in 0_usize..7) {
        let time = Timestamp::from_epoch_seconds(seconds);
        let (bucket, stated) = (ALL[which], time.to_string());
        if let Some(prefix) = bucket.prefix_of_utc(&stated) {
            prop_assert_eq!(text(bucket, time, None), Some(prefix.to_owned()));
        }
    }

    #[test]
    fn a_bucket_determines_those_that_it_lies_in(ms in 0_i64..4_000_000_000_000, fine in 0_usize..7, coarse in 0_usize..7) {
        let (fine, coarse, time) = (ALL[fine], ALL[coarse], Timestamp::from_epoch_ms(ms));
        if fine.lies_in(coarse) {
            let start = fine.start(time, None).unwrap();
            prop_assert_eq!(coarse.start(start, None), coarse.start(time, None));
        }
    }
}

#[test]
fn buckets_lie_in_larger_ones_but_for_weeks() {
    for (index, fine) in ALL.into_iter().enumerate() {
        for (other, coarse) in ALL.into_iter().enumerate() {
            let expected = index <= other && (fine != TimeBucket::Week || coarse == TimeBucket::Week);
            assert_eq!(fine.lies_in(coarse), expected, "{} in {}", fine.name(), coarse.name());
        }
    }
    assert_eq!(TimeBucket::NAMES, ALL.map(TimeBucket::name));
}

#[test]
fn buckets_before_and_after_follow_the_calendar() {
    for (bucket, text, steps, expected) in [
        (TimeBucket::Minute, "2026-12-31T23:59", 1, "2027-01-01T00:00"),
        (TimeBucket::Hour, "2026-03-29T01", 1, "2026-03-29T02"),
        (TimeBucket::Day, "2024-02-28", 2, "2024-03-01"),
        (TimeBucket::Week, "2026-W53", 1, "2027-W01"),
        (TimeBucket::Month, "2026-01", -1, "2025-12"),
        (TimeBucket::Quarter, "2026-Q1", -1, "2025-Q4"),
        (TimeBucket::Year, "2026", 10, "2036"),
    ] {
        assert_eq!(bucket.shifted(text, steps).as_deref(), Some(expected));
        assert_eq!(bucket.shifted(expected, -steps).as_deref(), Some(text));
    }
    assert_eq!(TimeBucket::Year.shifted("9999", 1), None);
    assert_eq!(TimeBucket::Day.shifted("2026-02-30", 1), None);
    assert_eq!(TimeBucket::Quarter.shifted("2026-Q1", i64::MAX), None);
}
