//! The application: it writes items, independently of Afterwrite.

mod actions;
mod bursts;
mod items;
mod mirroring;

use std::collections::BTreeMap;

use afterwrite_model::record::Item;
use afterwrite_tests::random::SeededRandom;

use super::options::RunOptions;

const PROJECTS: u64 = 3;
const OWNERS: [&str; 3] = ["ann", "ben", "cleo"];
const SHOPS: u64 = 2;
/// A shop that is only visited by [`SimulatedApplication::vanish`].
const QUIET_SHOP: u64 = SHOPS;
const CITIES: [&str; 3] = ["Bern", "Chur", "Genf"];
const SENSORS: u64 = 2;
/// Places up to this one are used apart from meetings of sensors.
const MEETING_PLACES: u64 = 20_000;

/// An application with random actions.
#[derive(Debug)]
pub(crate) struct SimulatedApplication {
    random: SeededRandom,
    /// Writes with a wrong type, per thousand.
    poison: u64,
    /// Items that the application has read; it may put these old versions back.
    copies: BTreeMap<(String, String), Item>,
    /// The number of items or images of one burst, unless there is none (any more).
    burst: Option<u64>,
    /// The number of actions before the burst.
    actions_before_burst: u64,
    /// Whether it copies items to other keys.
    clones: bool,
    /// Whether it writes items that cannot take a mirror.
    breaks_mirrors: bool,
    /// Whether it writes keys that must be hashed.
    odd_keys: bool,
    /// Whether it deletes items that cannot be counted.
    vanishes: bool,
    /// How often all sensors have been moved to one place.
    meetings: u64,
    /// A session whose key is like that of a marker in use.
    pub(crate) marker_like: Option<String>,
}

impl SimulatedApplication {
    pub(crate) fn new(mut random: SeededRandom, options: &RunOptions) -> Self {
        Self {
            poison: options.poison,
            copies: BTreeMap::new(),
            burst: options.burst,
            actions_before_burst: 3 + random.below(15),
            clones: options.clones,
            breaks_mirrors: options.breaks_mirrors,
            odd_keys: options.odd_keys,
            vanishes: options.vanishes,
            meetings: 0,
            marker_like: None,
            random,
        }
    }
}
