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

/// The value of a computed measure.
#[derive(Clone, Debug, PartialEq)]
pub enum ComputedValue<'m> {
    /// It has this value.
    Present(AttributeValue<'static>),
    /// It is absent.
    Absent,
    /// A `latest` whose second attribute, which has this name, shows nothing that was seen: a value that is stored nevertheless stays, because it may be
    /// right.
    Unseen(&'m Arc<str>),
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

    /// Its value, from the totals of the measures that it is computed from, or from a text that the rollup has seen.
    #[must_use]
    pub fn value<'i>(
        &self,
        total_of: impl Fn(&Arc<str>) -> Option<Decimal>,
        seen: impl FnOnce(&Arc<str>) -> Option<&'i AttributeValue<'static>>,
    ) -> ComputedValue<'_> {
        let number = match &self.rule {
            ComputedRule::Average { sum, count } => total_of(sum)
                .zip(total_of(count))
                .and_then(|(sum, count)| sum.divided_by(&count, AVERAGE_PLACES)),
            ComputedRule::Percentile { percent, bins } => bins.percentile(percent, total_of),
            ComputedRule::Latest { seen: name } => {
                let value = seen(name).and_then(AttributeValue::as_text).and_then(Latest::value);
                return value.map_or(ComputedValue::Unseen(name), ComputedValue::Present);
            }
        };
        number.map_or(ComputedValue::Absent, |number| ComputedValue::Present(AttributeValue::N(number)))
    }
}
