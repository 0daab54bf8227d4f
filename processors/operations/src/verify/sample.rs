//! Samples of keys.
//!
//! Each key has a place on a circle of 2^32 places, by a hash. A sample is an arc: it begins at the seed and is as long as its share. So a
//! seed names a sample, random seeds make independent samples, and samples that begin where the last one ended cover every key.
//!
//! ```text
//!        seed              next().seed
//!   ──────┼──────────────────┼────────────────────────▶ places
//!         └─ share · 2^32 ───┘
//! ```

use afterwrite_model::clock::Clock;
use serde::{Deserialize, Serialize};

const PLACES: u64 = 1 << 32;

/// The items, rollups and rows that a verification judges.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeySample {
    /// Their share, more than 0 and at most 1.
    #[serde(rename = "sample")]
    pub share: f64,
    /// Which of them: the beginning of the arc.
    pub seed: u32,
}

// A share is a number.
impl Eq for KeySample {}

impl Default for KeySample {
    fn default() -> Self {
        Self::ALL
    }
}

impl KeySample {
    /// Every key.
    pub const ALL: Self = Self { share: 1.0, seed: 0 };

    /// A random sample of this share.
    #[must_use]
    pub fn random(share: f64, clock: &impl Clock) -> Self {
        if share >= 1.0 {
            return Self::ALL;
        }
        let number = (0..4).fold(0_u64, |number, _| number * 1000 + u64::from(clock.permille()));
        Self { share, seed: u32::try_from(mixed(number) % PLACES).unwrap_or(0) }
    }

    /// Whether it has every key.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.share >= 1.0
    }

    /// Whether a key with these texts is in it.
    #[must_use]
    pub fn has(&self, texts: &[&str]) -> bool {
        let bytes = texts.iter().flat_map(|text| text.bytes().chain(std::iter::once(0)));
        // FNV-1a. Keys that differ in the last character have neighbouring hashes before they are mixed.
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let place = u32::try_from(mixed(hash) % PLACES).unwrap_or(0);
        u64::from(place.wrapping_sub(self.seed)) < self.places()
    }

    /// The number of places of the arc.
    #[must_use]
    pub fn places(&self) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of 2^32, rounded up so that 1/share samples have no gap"
        )]
        let places = (self.share.clamp(0.0, 1.0) * 4_294_967_296.0).ceil() as u64;
        places.clamp(1, PLACES)
    }

    /// The share of all places that so many places are.
    #[must_use]
    pub fn share_of(places: u64) -> f64 {
        crate::jobs::approximate(places) / 4_294_967_296.0
    }

    /// The sample of the same share that begins where this one ends.
    #[must_use]
    pub fn next(&self) -> Self {
        let end = u64::from(self.seed) + self.places();
        Self { seed: u32::try_from(end % PLACES).unwrap_or(0), ..*self }
    }
}

/// Spreads every bit of a number over all bits (the finalizer of MurmurHash3).
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let number = (number ^ (number >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ (number >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(sample: KeySample) -> Vec<usize> {
        let keys = (0..2_000).map(|number| (number, format!("ORDER#{number}")));
        keys.filter(|(_, key)| sample.has(&[key, "-"])).map(|(number, _)| number).collect()
    }

    #[test]
    fn samples_in_a_row_have_every_key_once_in_each_round() {
        for (share, runs) in [(0.05, 20), (1.0 / 3.0, 3), (0.01, 100), (0.3, 4), (1.0, 1), (0.5, 2)] {
            let mut sample = KeySample { share, seed: 4_000_000_000 };
            let mut times = vec![0; 2_000];
            for _ in 0..runs {
                judged(sample).into_iter().for_each(|key| times[key] += 1);
                sample = sample.next();
            }
            assert!(times.iter().all(|times| *times >= 1), "{share}");
        }
    }

    #[test]
    fn another_seed_is_another_sample_and_the_same_seed_the_same() {
        let sample = |seed| judged(KeySample { share: 0.05, seed });
        assert_eq!(sample(7), sample(7));
        let (one, other) = (sample(0), sample(2_000_000_000));
        assert!(one.iter().all(|key| !other.contains(key)));
        for numbers in [&one, &other] {
            assert!((60..140).contains(&numbers.len()), "{numbers:?}");
            // Neighbouring keys are not judged together.
            let neighbours = numbers.windows(2).filter(|pair| pair[1] - pair[0] == 1).count();
            assert!(neighbours < numbers.len() / 4, "{numbers:?}");
        }
    }

    #[test]
    fn a_share_that_is_too_small_for_a_place_is_one_place() {
        assert_eq!(KeySample { share: 1e-12, seed: 0 }.places(), 1);
        assert_eq!(KeySample::ALL.places(), PLACES);
        assert_eq!(KeySample::ALL.next(), KeySample::ALL);
    }
}
