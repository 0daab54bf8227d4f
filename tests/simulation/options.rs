//! The options of a run, drawn from its seed: some runs have few kinds of faults, others all of them.

use afterwrite_tests::faults::FaultRates;
use afterwrite_tests::random::SeededRandom;

use super::events::state::EventOptions;

/// The options of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunOptions {
    /// The number of the application's writes.
    pub(crate) writes: u32,
    /// The number of Lambda processes.
    pub(crate) consumers: usize,
    /// The rates of faults in their calls.
    pub(crate) rates: FaultRates,
    /// The retries before a batch goes to the on-failure bucket; `None`: no limit.
    pub(crate) retries: Option<u32>,
    /// Writes with a wrong type, per thousand.
    pub(crate) poison: u64,
    /// Malformed records, per thousand; at the end the decoder is "corrected" and reads them.
    pub(crate) malformed: u64,
    /// Steps that reconcile an item, per thousand.
    pub(crate) reconciles: u64,
    /// Whether processes with the next model generation replace the others, one by one.
    pub(crate) generations: bool,
    /// Whether days and weeks may pass.
    pub(crate) time_flies: bool,
    /// Whether streams are disabled and enabled again.
    pub(crate) recreates_streams: bool,
    /// Whether records that cannot be counted are parked; otherwise they fail.
    pub(crate) parks: bool,
    /// Whether processes crash and invocations time out.
    pub(crate) crashes: bool,
    /// The shards of each stream at the beginning.
    pub(crate) shards: u64,
    /// Whether shards are split.
    pub(crate) splits: bool,
    /// The number of changes that the application makes at once, in one burst.
    pub(crate) burst: Option<u64>,
    /// Whether the application copies items to other keys.
    pub(crate) clones: bool,
    /// Whether the application writes items that cannot take a mirror.
    pub(crate) breaks_mirrors: bool,
    /// Whether the application writes keys that the ledger must hash.
    pub(crate) odd_keys: bool,
    /// Whether measures of rollups are overwritten by text for a while.
    pub(crate) tampers: bool,
    /// Whether batches with an expiry are delivered twice at a time.
    pub(crate) doubles: bool,
    /// Malformed expiries, per thousand.
    pub(crate) malformed_expiries: u64,
    /// Whether some invocations have a decoder that reads malformed expiries, while others do not.
    pub(crate) mixed_decoders: bool,
    /// Whether an item that cannot be counted is deleted, and hardly anything else changes the rollup that it left.
    pub(crate) vanishes: bool,
    /// How the relay publishes events; `None` if it does not.
    pub(crate) events: Option<EventOptions>,
}

/// Every how many seeds a run has a batch of [`LARGEST_BURST`] records.
const LARGEST_EVERY: u64 = 500;
/// The records of a batch at most, as in an event source mapping.
pub(crate) const LARGEST_BURST: u64 = 10_000;

impl RunOptions {
    pub(crate) fn draw(seed: u64, random: &mut SeededRandom) -> Self {
        let burst = draw_burst(seed, random);
        let is_large = burst.is_some_and(|records| records > 1000);
        // Without a limit, a record that cannot be counted would block its shard forever.
        let vanishes = random.chance(250) && !is_large;
        let poison = if (random.chance(400) || vanishes) && !is_large { 120 } else { 0 };
        let malformed = if random.chance(400) && !is_large { 40 } else { 0 };
        let mixed_decoders = malformed > 0 && random.chance(850);
        let has_limit = random.chance(600) || poison + malformed > 0;
        Self {
            writes: 25 + u32::try_from(random.below(45)).unwrap_or(0),
            consumers: 2 + usize::from(random.chance(400)),
            rates: if random.chance(800) { draw_rates(random, is_large) } else { FaultRates::NONE },
            retries: has_limit.then(|| 1 + u32::try_from(random.below(4)).unwrap_or(0)),
            poison,
            malformed,
            reconciles: random.pick(&[0, 0, 12, 80]).copied().unwrap_or(0),
            generations: random.chance(350),
            time_flies: random.chance(600),
            recreates_streams: random.chance(300),
            crashes: random.chance(700) || vanishes,
            parks: random.chance(500) || vanishes || (mixed_decoders && random.chance(600)),
            shards: if is_large || random.chance(100) { 1 } else { 3 },
            splits: random.chance(300) && !is_large,
            burst,
            clones: random.chance(500),
            breaks_mirrors: random.chance(350),
            odd_keys: random.chance(350),
            tampers: random.chance(250) && !is_large,
            doubles: random.chance(700),
            malformed_expiries: if mixed_decoders { 15 * malformed } else { malformed },
            mixed_decoders,
            vanishes,
            events: draw_events(seed),
        }
    }
}

/// Draws from a generator of its own, so that the other options of a seed are the same with events and without.
fn draw_events(seed: u64) -> Option<EventOptions> {
    let mut random = SeededRandom::new(!seed);
    random.chance(500).then(|| EventOptions {
        has_queue: random.chance(850),
        faults: random.pick(&[0, 60, 250]).copied().unwrap_or(0),
        damages: random.pick(&[0, 0, 40]).copied().unwrap_or(0),
    })
}

/// The size of the burst: hundreds in one of forty runs, thousands in very few.
fn draw_burst(seed: u64, random: &mut SeededRandom) -> Option<u64> {
    let hundreds = random.chance(25).then(|| 120 + random.below(480));
    match seed % LARGEST_EVERY {
        99 => Some(LARGEST_BURST),
        199 => Some(LARGEST_BURST / 5),
        _ => hundreds,
    }
}

/// Some kinds of faults in addition to the usual ones.
fn draw_rates(random: &mut SeededRandom, is_large: bool) -> FaultRates {
    let mut if_drawn = |chance: u64, rate: u64| if random.chance(chance) { rate } else { 0 };
    FaultRates {
        late: if_drawn(350, 25),
        hang: if_drawn(250, 6),
        rejected: if is_large { 0 } else { if_drawn(250, 15) },
        torn_read: if_drawn(500, 250),
        partial_read: if_drawn(500, 200),
        index_stale: if_drawn(400, 200),
        index_double: if_drawn(400, 200),
        ..FaultRates::SOME
    }
}
