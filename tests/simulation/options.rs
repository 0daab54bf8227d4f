//! The options of a run, drawn from its seed: some runs have few kinds of faults, others all of them.

use afterwrite_tests::faults::FaultRates;
use afterwrite_tests::random::SeededRandom;

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
}

impl RunOptions {
    pub(crate) fn draw(random: &mut SeededRandom) -> Self {
        // Without a limit, a record that cannot be counted would block its shard forever.
        let poison = if random.chance(400) { 120 } else { 0 };
        let malformed = if random.chance(400) { 40 } else { 0 };
        let has_limit = random.chance(600) || poison + malformed > 0;
        Self {
            writes: 25 + u32::try_from(random.below(45)).unwrap_or(0),
            consumers: 2 + usize::from(random.chance(400)),
            rates: if random.chance(800) { FaultRates::SOME } else { FaultRates::NONE },
            retries: has_limit.then(|| 1 + u32::try_from(random.below(4)).unwrap_or(0)),
            poison,
            malformed,
            reconciles: random.pick(&[0, 0, 12, 80]).copied().unwrap_or(0),
            generations: random.chance(350),
            time_flies: random.chance(600),
            recreates_streams: random.chance(300),
            crashes: random.chance(700),
            parks: random.chance(500),
        }
    }
}
