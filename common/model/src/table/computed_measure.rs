//! Measures that a rollup computes from its other measures.

use std::sync::Arc;

use super::latest::Latest;
use super::percentile::PercentileBins;
use crate::record::{AttributeValue, Decimal};

/// Decimal places that an average is rounded to.
const AVERAGE_PLACES: u8 = 6;

/// A measure that a rollup computes from its other measures.
#[derive(Debug)]
pub struct ComputedMeasure {
    /// The measure it is stored as.
    pub name: Arc<str>,
    /// How it is computed.
    pub rule: ComputedRule,
}

/// How a measure is computed from other measures.
#[derive(Debug)]
pub enum ComputedRule {
    /// The average of a sum over a count: rounded half to even at 6 decimal places, absent at a count of 0.
    Average {
        /// The measure that is divided.
        sum: Arc<str>,
        /// The measure it is divided by.
        count: Arc<str>,
    },
    /// The estimate of a percentile; absent if the bins are empty.
    Percentile {
        /// Which percentile.
        percent: Decimal,
        /// The bins.
        bins: Arc<PercentileBins>,
    },
    /// The value of the item with the latest time; absent if none was seen.
    Latest {
        /// The attribute with the time, the item's key and the value.
        seen: Arc<str>,
    },
}

impl ComputedMeasure {
    /// The measures that it is computed from.
    #[must_use]
    pub fn parts(&self) -> Vec<Arc<str>> {
        match &self.rule {
            ComputedRule::Average { sum, count } => vec![Arc::clone(sum), Arc::clone(count)],
            ComputedRule::Percentile { bins, .. } => bins.labels.clone(),
            ComputedRule::Latest { seen } => vec![Arc::clone(seen)],
        }
    }

    /// Its value, from the totals of the measures that it is computed from, or from a text that the rollup has seen; `None` if it is absent.
    #[must_use]
    pub fn value<'i>(
        &self,
        total_of: impl Fn(&Arc<str>) -> Option<Decimal>,
        seen: impl FnOnce(&Arc<str>) -> Option<&'i AttributeValue<'static>>,
    ) -> Option<AttributeValue<'static>> {
        match &self.rule {
            ComputedRule::Average { sum, count } => {
                total_of(sum)?.divided_by(&total_of(count)?, AVERAGE_PLACES).map(AttributeValue::N)
            }
            ComputedRule::Percentile { percent, bins } => {
                bins.percentile(percent, total_of).map(AttributeValue::N)
            }
            ComputedRule::Latest { seen: name } => Latest::value(seen(name)?.as_text()?),
        }
    }
}
