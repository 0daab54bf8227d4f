//! The coverage of a verification: whether it compares datasets with items.

use serde::{Deserialize, Serialize};

/// Whether a verification compares datasets with items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatasetCoverage {
    /// It does.
    Compared,
    /// The model has no datasets.
    #[default]
    NoDatasets,
    /// It does not, because no bucket is configured.
    NoBucket,
    /// It does not, because the arguments exclude them.
    Excluded,
}

impl DatasetCoverage {
    /// The coverage in words.
    #[must_use]
    pub fn described(self) -> &'static str {
        match self {
            Self::Compared => "compared",
            Self::NoDatasets => "not compared: the model has none",
            Self::NoBucket => "not compared: no bucket is set",
            Self::Excluded => "not compared: excluded by an option",
        }
    }
}
