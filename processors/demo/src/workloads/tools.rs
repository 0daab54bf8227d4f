//! Tools for the generators of all workloads: scripts of several writers, tables, names, times, chances.

use afterwrite_local::dynamodb::{KeyDefinition, TableDefinition};
use fastrand::Rng;
use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::item::{SdkItem, item};
use crate::recount::start_of_day;
use crate::script::{Script, ScriptLane};

/// The writers that share a workload: so many lanes are written concurrently.
pub(super) const LANES: usize = 8;
/// The rounds of a script; time to live deletes expired items after each.
pub(super) const ROUNDS: usize = 5;
/// The days of a workload, up to and including today.
pub(super) const DAYS: i64 = 31;

/// The rows of a chart.
pub(super) const CHART_ROWS: usize = 10;

/// A writer of one lane of a workload.
pub(super) trait LaneWriter {
    /// Writes what there is before the first round.
    fn open(&mut self, lane: &mut ScriptLane);

    /// Writes a round; `size` is its part of the workload's size.
    fn write_round(&mut self, size: u64, round: usize, lane: &mut ScriptLane);
}

/// The script of writers that share a workload, and of one more, if there is one, whose work does not depend on their number.
pub(super) fn play(
    size: u64,
    mut writers: Vec<impl LaneWriter>,
    backstage: Option<&mut dyn LaneWriter>,
) -> Script {
    let count = writers.len();
    let mut all: Vec<&mut dyn LaneWriter> = Vec::new();
    all.extend(writers.iter_mut().map(|writer| writer as &mut dyn LaneWriter));
    all.extend(backstage.map(|writer| writer as &mut dyn LaneWriter));
    let opening = all.iter_mut().map(|writer| written(|lane| writer.open(lane))).collect();
    let mut rounds = vec![opening];
    for round in 0..ROUNDS {
        let of_round = share(size, ROUNDS, round);
        let lanes = all.iter_mut().enumerate().map(|(place, writer)| {
            let part = if place < count { share(of_round, count, place) } else { of_round };
            written(|lane| writer.write_round(part, round, lane))
        });
        rounds.push(lanes.collect());
    }
    Script { rounds }
}

/// The lane that `write` fills.
fn written(write: impl FnOnce(&mut ScriptLane)) -> ScriptLane {
    let mut lane = ScriptLane::default();
    write(&mut lane);
    lane
}

/// The part of `total` for one of `parts`.
pub(super) fn share(total: u64, parts: usize, part: usize) -> u64 {
    let (parts, part) = (u64::try_from(parts).unwrap_or(1), u64::try_from(part).unwrap_or(0));
    total / parts + u64::from(part < total % parts)
}

/// A source table with a stream. An index is its name and its key attributes.
pub(super) fn table(
    name: &str,
    key: KeyDefinition,
    indexes: &[(&str, KeyDefinition)],
    ttl: bool,
) -> TableDefinition {
    TableDefinition {
        name: name.to_owned(),
        key,
        indexes: indexes.iter().map(|(name, key)| ((*name).to_owned(), key.clone())).collect(),
        stream: true,
        ttl_attribute: ttl.then(|| "ttl".to_owned()),
    }
}

/// A table with the keys `PK` and `SK`, whose indexes have keys of the same names after their own.
pub(super) fn single_table(name: &str, indexes: &[&str]) -> Vec<TableDefinition> {
    let key = |prefix: &str| KeyDefinition::new(&format!("{prefix}PK"), &format!("{prefix}SK"));
    let indexes: Vec<_> = indexes.iter().map(|name| (*name, key(name))).collect();
    vec![table(name, key(""), &indexes, true)]
}

/// A key of `PK` and `SK`.
pub(super) fn key(partition: &str, sort: &str) -> SdkItem {
    item(json!({ "PK": partition, "SK": sort }))
}

/// The start of the month that ends now.
pub(super) fn earliest(now: Timestamp) -> Timestamp {
    let day = now.as_second().div_euclid(86_400) - (DAYS - 1);
    Timestamp::from_second(day * 86_400).unwrap_or(now)
}

/// A random time in a round of the month, not after now.
pub(super) fn moment(random: &mut Rng, now: Timestamp, round: usize) -> Timestamp {
    let span = now.duration_since(earliest(now)).as_secs();
    let rounds = i64::try_from(ROUNDS).unwrap_or(1);
    let round = i64::try_from(round).unwrap_or(0).min(rounds - 1);
    let offset = span * round / rounds + random.i64(0..(span / rounds).max(1));
    earliest(now).checked_add(SignedDuration::from_secs(offset)).unwrap_or(now)
}

/// A time as most applications write it.
pub(super) fn instant(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The UTC day of a time.
pub(super) fn day(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d").to_string()
}

/// The time this number of days before.
pub(super) fn days_before(time: Timestamp, days: i64) -> Timestamp {
    time.checked_sub(SignedDuration::from_hours(24 * days)).unwrap_or(time)
}

/// The first second of an hour, `yyyy-mm-dd-hh`.
pub(super) fn start_of_hour(hour: &str) -> Option<i64> {
    let (day, hour) = hour.split_at_checked(10)?;
    Some(start_of_day(day)? + 3600 * hour.strip_prefix('-')?.parse::<i64>().ok()?)
}

/// A random id in the form of a UUID.
pub(super) fn new_id(random: &mut Rng) -> String {
    let (high, low) = (random.u64(..), random.u64(..));
    let hex = format!("{high:016x}{low:016x}");
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    format!("{}-{}-4{}-8{}-{}", part(0..8), part(8..12), part(13..16), part(17..20), part(20..32))
}

/// A random id of eight digits.
pub(super) fn short_id(random: &mut Rng) -> String {
    format!("{:08x}", random.u32(..))
}

/// True in this percentage of all calls.
pub(super) fn chance(random: &mut Rng, percent: u8) -> bool {
    random.u8(..100) < percent
}

/// One of these.
pub(super) fn one_of<T: Clone + Default>(random: &mut Rng, choices: &[T]) -> T {
    random.choice(choices).cloned().unwrap_or_default()
}

/// The first second that a KSUID can name.
const KSUID_EPOCH: i64 = 1_400_000_000;
/// The digits of a KSUID.
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A random KSUID: 27 digits that begin with the time, to the second.
pub(super) fn ksuid(random: &mut Rng, time: Timestamp) -> String {
    let seconds = u32::try_from(time.as_second() - KSUID_EPOCH).unwrap_or_default();
    let mut bytes = [0_u8; 20];
    random.fill(&mut bytes);
    bytes.iter_mut().zip(seconds.to_be_bytes()).for_each(|(byte, time)| *byte = time);
    let mut digits: Vec<char> = (0..27).map(|_| next_digit(&mut bytes)).collect();
    digits.reverse();
    digits.into_iter().collect()
}

/// Divides a number by 62, and returns the remainder as a digit.
fn next_digit(number: &mut [u8]) -> char {
    let mut rest = 0_u32;
    for byte in number {
        let value = rest * 256 + u32::from(*byte);
        *byte = u8::try_from(value / 62).unwrap_or(u8::MAX);
        rest = value % 62;
    }
    usize::try_from(rest).ok().and_then(|place| BASE62.get(place)).map_or('0', |digit| char::from(*digit))
}

/// The time of a KSUID in epoch seconds.
fn ksuid_seconds(id: &str) -> Option<i64> {
    let mut bytes = [0_u8; 20];
    for digit in id.bytes() {
        let mut carry = u32::try_from(BASE62.iter().position(|known| *known == digit)?).ok()?;
        for byte in bytes.iter_mut().rev() {
            let value = u32::from(*byte) * 62 + carry;
            *byte = u8::try_from(value % 256).ok()?;
            carry = value / 256;
        }
    }
    let [first, second, third, fourth, ..] = bytes;
    Some(KSUID_EPOCH + i64::from(u32::from_be_bytes([first, second, third, fourth])))
}

/// The UTC day of a KSUID; empty if the text is not a KSUID.
pub(super) fn ksuid_day(id: &str) -> String {
    let time = ksuid_seconds(id).and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map(day).unwrap_or_default()
}

/// The ISO week of a date, `2026-W06`.
pub(super) fn week(date: &str) -> String {
    let date = date.parse::<Date>().map(Date::iso_week_date);
    date.map_or_else(|_| String::new(), |week| format!("{}-W{:02}", week.year(), week.week()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ksuid_has_its_time() {
        // The example of the KSUID's inventors.
        assert_eq!(ksuid_seconds("0ujtsYcgvSTl8PAuAdqWYSMnLOv"), Some(1_507_608_047));
        let mut random = Rng::with_seed(1);
        for seconds in [KSUID_EPOCH, 1_770_467_696, 4_000_000_000] {
            let id = ksuid(&mut random, Timestamp::from_second(seconds).unwrap());
            assert_eq!((id.len(), ksuid_seconds(&id)), (27, Some(seconds)), "{id}");
        }
    }
}
