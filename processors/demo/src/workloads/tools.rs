//! What generators of all workloads need: names, moments, chances.

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};

use crate::script::{Lane, Script};
use afterwrite_local::dynamodb::{KeyDefinition, TableDefinition};

/// The rounds of a script; time to live takes what has expired after each.
pub(super) const ROUNDS: usize = 5;
/// The days that a workload reaches back, today among them.
pub(super) const DAYS: i64 = 31;

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

/// A key without a sort key.
pub(super) fn partition_only(name: &str) -> KeyDefinition {
    KeyDefinition { partition: name.to_owned(), sort: None }
}

/// The time of an epoch second.
pub(super) fn time(epoch_seconds: i64) -> Timestamp {
    Timestamp::from_second(epoch_seconds).unwrap_or_default()
}

/// So many lanes, nothing in them yet.
pub(super) fn lanes(count: usize) -> Vec<Lane> {
    (0..count).map(|_| Lane::default()).collect()
}

/// The part of `total` that falls to each of `parts`.
pub(super) fn share(total: u64, parts: usize, part: usize) -> u64 {
    let (parts, part) = (u64::try_from(parts).unwrap_or(1), u64::try_from(part).unwrap_or(0));
    total / parts + u64::from(part < total % parts)
}

/// One writer of a workload.
pub(super) trait Actor {
    /// What it writes before the first round.
    fn open(&mut self, lane: &mut Lane);

    /// What it writes in a round, for so much of the workload's size.
    fn act(&mut self, size: u64, round: usize, lane: &mut Lane);
}

/// The script of actors who share a workload among them, and of one more, if there is, who works behind all of it.
pub(super) fn play(size: u64, mut actors: Vec<impl Actor>, backstage: Option<&mut dyn Actor>) -> Script {
    let mut rounds = Vec::new();
    let mut backstage = backstage;
    let count = actors.len();
    for number in 0..=ROUNDS {
        // The first is the opening.
        let round = number.checked_sub(1);
        let of_round = round.map_or(0, |round| share(size, ROUNDS, round));
        let mut lanes = lanes(count);
        let write = |actor: &mut dyn Actor, size, lane: &mut Lane| match round {
            None => actor.open(lane),
            Some(round) => actor.act(size, round, lane),
        };
        for (place, (actor, lane)) in actors.iter_mut().zip(&mut lanes).enumerate() {
            write(actor, share(of_round, count, place), lane);
        }
        if let Some(actor) = &mut backstage {
            let mut lane = Lane::default();
            write(&mut **actor, of_round, &mut lane);
            lanes.push(lane);
        }
        rounds.push(lanes);
    }
    Script { rounds }
}

/// The first moment of the month that ends now.
pub(super) fn earliest(now: Timestamp) -> Timestamp {
    let day = now.as_second().div_euclid(86_400) - (DAYS - 1);
    Timestamp::from_second(day * 86_400).unwrap_or(now)
}

/// A moment in the given round of the month, not after now.
pub(super) fn moment(random: &mut Rng, now: Timestamp, round: usize) -> Timestamp {
    let span = now.duration_since(earliest(now)).as_secs();
    let rounds = i64::try_from(ROUNDS).unwrap_or(1);
    let round = i64::try_from(round).unwrap_or(0).min(rounds - 1);
    let offset = span * round / rounds + random.i64(0..(span / rounds).max(1));
    earliest(now).checked_add(SignedDuration::from_secs(offset)).unwrap_or(now)
}

/// As applications write times.
pub(super) fn instant(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The UTC day of a time.
pub(super) fn day(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d").to_string()
}

/// So many days before or, if negative, after.
pub(super) fn days_before(time: Timestamp, days: i64) -> Timestamp {
    time.checked_sub(SignedDuration::from_hours(24 * days)).unwrap_or(time)
}

/// An id of a UUID's form.
pub(super) fn new_id(random: &mut Rng) -> String {
    let (high, low) = (random.u64(..), random.u64(..));
    let hex = format!("{high:016x}{low:016x}");
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    format!("{}-{}-4{}-8{}-{}", part(0..8), part(8..12), part(13..16), part(17..20), part(20..32))
}

/// An id of eight digits.
pub(super) fn short_id(random: &mut Rng) -> String {
    format!("{:08x}", random.u32(..))
}

/// Whether something happens that happens so often in a hundred times.
pub(super) fn in_a_hundred(random: &mut Rng, times: u8) -> bool {
    random.u8(..100) < times
}

/// One of these.
pub(super) fn one_of<T: Copy + Default>(random: &mut Rng, choices: &[T]) -> T {
    random.choice(choices).copied().unwrap_or_default()
}

/// The first second of an hour, `yyyy-mm-dd-hh`.
pub(super) fn hour_of(hour: &str) -> Option<i64> {
    let (day, hour) = hour.split_at_checked(10)?;
    let hours: i64 = hour.strip_prefix('-')?.parse().ok()?;
    Some(crate::recount::start_of_day(day)? + 3600 * hours)
}
