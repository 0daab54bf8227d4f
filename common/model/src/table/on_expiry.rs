//! The effect of TTL on what an item contributes: `on_expiry`.

use super::named::named_values;

named_values! {
    /// The effect on an item's contributions when TTL deletes it.
    #[derive(Default)]
    pub enum OnExpiry {
        /// They stay counted, settled on the rollups.
        #[default]
        Keep = "keep",
        /// They are subtracted, as for any deletion.
        Subtract = "subtract",
    }
}

impl OnExpiry {
    /// The effect, in words.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Keep => "stays counted",
            Self::Subtract => "is subtracted",
        }
    }
}
