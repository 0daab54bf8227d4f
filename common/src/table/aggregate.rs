//! Rollups, what is counted into them, and what is shown of them.

use std::sync::Arc;
use std::time::Duration;

use super::{BoundTemplate, LookupUse, Pattern, Template, Term, ValueFormat};
use crate::record::AttributePath;

/// An item of the state table that holds measures.
#[derive(Debug)]
pub struct Rollup {
    /// Its name in the model.
    pub name: Arc<str>,
    /// Its `PK`. The variables of both keys together are [`Rollup::variables`].
    pub partition: Template,
    /// Its `SK`.
    pub sort: Template,
    /// The names of the keys' variables, formats included (`bought_at:day`).
    pub variables: Vec<Arc<str>>,
    /// Over how many items it is spread (1: not at all). A sharded rollup has neither extremes nor averages.
    pub shards: u32,
    /// Measures computed of others; each needs the rollup to be read before it is written.
    pub averages: Vec<AverageMeasure>,
    /// The measures that are `max` or `min`; these too need the rollup to be read.
    pub extremes: Vec<Arc<str>>,
    /// The mirrors of it: indexes into [`super::Model::mirrors`].
    pub mirrors: Vec<usize>,
    /// The measures that, when they change, change what a mirror shows: those shown, and the parts of averages shown.
    pub shown: Vec<Arc<str>>,
    /// The other rollups that may be the same item, holding other measures: indexes into [`super::Model::rollups`].
    pub overlaps: Vec<usize>,
}

impl Rollup {
    /// Whether it must be read, computed and written on its `rev`, because `ADD` cannot do it.
    #[must_use]
    pub fn is_computed(&self) -> bool {
        !self.averages.is_empty() || !self.extremes.is_empty()
    }

    /// Whether a change of this measure changes what a mirror shows.
    #[must_use]
    pub fn shows(&self, measure: &str) -> bool {
        self.shown.iter().any(|shown| **shown == *measure)
    }

    /// Whether an item with this key (without the shard) can be of this rollup.
    #[must_use]
    pub fn has_key(&self, partition: &str, sort: &str) -> bool {
        let mut bindings = vec![None; self.variables.len()];
        self.partition.parse(partition, &mut bindings) && self.sort.parse(sort, &mut bindings)
    }
}

/// The average of a sum over a count: rounded half to even at 6 decimal places, absent at a count of nought.
#[derive(Debug)]
pub struct AverageMeasure {
    /// The measure it is stored as.
    pub name: Arc<str>,
    /// The measure that is divided.
    pub sum: Arc<str>,
    /// The measure it is divided by.
    pub count: Arc<str>,
}

/// Which measures an entity's items contribute to which rollups.
#[derive(Debug)]
pub struct Aggregate {
    /// Its name: what ledger entries know it by.
    pub name: Arc<str>,
    /// Whose items are counted: an index into [`super::Model::entities`].
    pub of: usize,
    /// What must hold for an item to be counted at all.
    pub when: Option<Pattern>,
    /// The lookups its templates and measures use; [`Term::LookupOutput`] indexes them.
    pub lookups: Vec<LookupUse>,
    /// The rollups that are counted into.
    pub into: Vec<RollupDestination>,
    /// What is counted.
    pub measures: Vec<Measure>,
}

/// A rollup as an aggregate's items address it.
#[derive(Debug)]
pub struct RollupDestination {
    /// Which rollup: an index into [`super::Model::rollups`].
    pub rollup: usize,
    /// Its `PK`.
    pub partition: BoundTemplate,
    /// Its `SK`.
    pub sort: BoundTemplate,
    /// When the rollup expires, if it does.
    pub expires: Option<RollupExpiry>,
}

/// The time at which a rollup expires.
#[derive(Debug)]
pub struct RollupExpiry {
    /// The moment that it counts from, a variable of the rollup's key: RFC 3339 text, a date, an hour, or epoch seconds.
    pub of: Term,
    /// How the key holds it: what all items that count into the rollup agree on.
    pub format: ValueFormat,
    /// How long after it.
    pub after: Duration,
}

/// What an item contributes.
#[derive(Debug)]
pub struct Measure {
    /// The rollup's attribute; for a histogram, the beginning of the names in [`MeasureKind::Histogram::labels`].
    pub name: Arc<str>,
    /// What must hold of the item.
    pub when: Option<Pattern>,
    /// How much.
    pub kind: MeasureKind,
}

/// How much an item contributes.
#[derive(Debug)]
pub enum MeasureKind {
    /// One.
    Count,
    /// The product of these numbers; nothing if one is absent.
    Sum(Vec<Term>),
    /// The largest value ever seen, number or formatted text. Does not retract.
    Max(Term, ValueFormat),
    /// The smallest value ever seen, number or formatted text. Does not retract.
    Min(Term, ValueFormat),
    /// One, in the bin that the value lies in: bin `i` holds values from `i·width` up; the last has no upper end, and below
    /// the first nothing is counted.
    Histogram {
        /// The value.
        of: Term,
        /// The width of a bin.
        width: i64,
        /// The attributes of the bins, lowest first.
        labels: Vec<Arc<str>>,
    },
}

/// A copy of a rollup's measures on an application's item.
#[derive(Debug)]
pub struct Mirror {
    /// The entity that shows it: an index into [`super::Model::entities`].
    pub onto: usize,
    /// The rollup it is copied from: an index into [`super::Model::rollups`].
    pub from: usize,
    /// What is copied.
    pub attributes: Vec<MirroredAttribute>,
    /// For each of [`super::Entity::variables`] of `onto`: the index of the rollup's variable of that name.
    pub item_variables: Vec<usize>,
    /// For each of [`Rollup::variables`] of `from`: where it comes from in `onto`'s scope ([`Term::LookupOutput`] then means
    /// the one lookup below), and how it is written.
    pub rollup_variables: Vec<(Term, ValueFormat)>,
    /// The lookup, asking for items of `onto` itself, that the rollup's key depends on: then the item may have moved (another
    /// owner) since the lookup was remembered.
    pub lookup: Option<LookupUse>,
}

/// One mirrored attribute.
#[derive(Debug)]
pub struct MirroredAttribute {
    /// Where the item shows it, nested if the path has several names.
    pub path: AttributePath,
    /// Where the item keeps the rollup's `rev` that it was copied at: `<attribute>_rev` beside it.
    pub revision_path: AttributePath,
    /// The same place in an image of the item, to compare with.
    pub image: super::InternedPath,
    /// The measure.
    pub measure: Arc<str>,
}
