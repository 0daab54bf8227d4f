//! What may happen in a run: drawn by its seed, so that some seeds know few evils and others all of them.

use afterwrite_tests::faults::FaultRates;
use afterwrite_tests::random::SeededRandom;

/// What may happen in a run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Writes of the application.
    pub(crate) writes: u32,
    /// Lambda processes.
    pub(crate) consumers: usize,
    /// What befalls their calls.
    pub(crate) rates: FaultRates,
    /// Attempts before a batch goes to the on-failure bucket; `None`: for ever.
    pub(crate) retries: Option<u32>,
    /// Writes in a thousand of a wrong type.
    pub(crate) poison: u64,
    /// Records in a thousand that are malformed, until the decoder is corrected in the end.
    pub(crate) malformed: u64,
    /// How often, in a thousand steps, some item is reconciled.
    pub(crate) reconciles: u64,
    /// Whether processes of a next generation of the model take over, one after the other.
    pub(crate) generations: bool,
    /// Whether days and weeks pass.
    pub(crate) time_flies: bool,
    /// Whether streams are switched off and on again.
    pub(crate) recreates_streams: bool,
    /// Whether processes crash and invocations run into their timeout.
    pub(crate) crashes: bool,
}

impl Options {
    pub(crate) fn draw(random: &mut SeededRandom) -> Self {
        // Without a limit a record that nobody can count would hold up its shard for ever.
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
        }
    }
}
