//! Projects an image of an item: to the contributions to rollups, the stale caches, the rows of datasets, and the line
//! of the archive.
//!
//! In: an [`Image`], the entities that the item's key allows, and the outputs of its lookups. The image decides which entity the item is of. Out: for the ledger, an [`ImageProjection`].
//! Pure: no I/O, no clock; the same input always has the same result.
//!
//! The ledger's `C(image)` is [`contributions()`]: aggregate → rollups → measure → number. The lookups that an image
//! needs are [`lookup_keys`]; their outputs are read before.

mod archive;
mod contributions;
mod derived;
mod elements;
mod events;
mod identity;
mod invalidation;
mod key_values;
mod measures;
mod rows;
mod scope;
mod searched;
mod secrets;
mod target;

pub use archive::archive_line;
pub use contributions::{
    Contribution, ExtremeRule, ExtremeValue, ImageProjection, ItemContributions, MeasureAmounts, TargetIds,
    contributions,
};
pub use elements::ItemElement;
pub use events::{Event, EventChange, events_of};
pub use invalidation::{RecordsByPath, StaleCaches, StaleKey};
pub use key_values::KeyValue;
pub use rows::{DatasetRow, RecordImages, RowOperation, datasets_of, decode_old_image, rows, snapshot_row};
pub use scope::{ImageScope, LookupOutputs, attribute};
pub use searched::{SearchedLookups, awaits_lookup};
pub use secrets::SecretAttributes;
pub use target::{INVALID_ROLLUP_KEY, RollupTarget, RollupTargets, ShardAssignment, TargetId, TargetKey};

pub use crate::effect::{MAX_PARTITION_KEY, MAX_SORT_KEY};

use std::borrow::Cow;

use smallvec::SmallVec;

use self::contributions::{Misfit, counts_before_lookups};
use crate::entity::{ItemCandidates, SourceKey};
use crate::record::{AttributeValue, Image, Item};
use crate::table::{Aggregate, LookupSource, LookupUse, Model, escaped, unescaped};
use crate::{Error, Result};

/// A lookup and the values of its inputs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LookupKey<'s> {
    /// The lookup: an index into [`Model::lookups`].
    pub lookup: usize,
    /// The value of the input. Several values are joined by `#`, with `%` escaped as `%25` and `#` as `%23`.
    pub key: Cow<'s, str>,
}

impl LookupKey<'_> {
    fn of_several(lookup: usize, values: &[Cow<'_, str>]) -> Self {
        let values = values.iter().map(|value| escaped(value));
        Self { lookup, key: Cow::Owned(values.collect::<Vec<_>>().join("#")) }
    }

    /// The same key with owned text.
    #[must_use]
    pub fn into_owned(self) -> LookupKey<'static> {
        LookupKey { lookup: self.lookup, key: Cow::Owned(self.key.into_owned()) }
    }

    /// The values of the `count` inputs.
    #[must_use]
    pub fn values(&self, count: usize) -> Vec<Cow<'_, str>> {
        match count {
            1 => vec![Cow::Borrowed(&*self.key)],
            _ => self.key.split('#').map(unescaped).collect(),
        }
    }
}

/// The results of lookups.
pub trait KnownLookups {
    /// The outputs of a lookup, if it has any.
    fn outputs(&self, key: &LookupKey<'_>) -> Option<&LookupOutputs>;

    /// Whether it is certain that a lookup finds nothing now. An index lags behind its table, so this is certain only of lookups by
    /// primary key.
    fn is_absent(&self, key: &LookupKey<'_>) -> bool {
        let _ = key;
        false
    }

    /// Why a lookup has no outputs, unless the reason is that it found no item.
    fn failure(&self, key: &LookupKey<'_>) -> Option<Error> {
        let _ = key;
        None
    }
}

/// The lookups that the contributions of an image depend on, each once; none for an aggregate whose conditions exclude the item, or that
/// skips it.
///
/// # Errors
/// [`crate::ErrorKind::Record`] if the image lacks an input of a lookup, or a value in a condition is of a wrong type, unless the
/// aggregate skips such items; [`crate::ErrorKind::Misfit`] if it wants the record to fail.
pub fn lookup_keys<'s, 'a: 's>(
    model: &'s Model,
    candidates: &'s ItemCandidates<'_, '_>,
    image: &'s Image<'a>,
) -> Result<SmallVec<[LookupKey<'s>; 2]>> {
    let Some(identity) = candidates.in_state(image) else { return Ok(SmallVec::new()) };
    let scope = ImageScope::of(model, identity, image);
    let mut keys = SmallVec::<[LookupKey<'s>; 2]>::new();
    for aggregate in identity.entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index)) {
        if aggregate.lookups.is_empty() {
            continue;
        }
        match aggregate_lookups(aggregate, &scope) {
            // Aggregates of an entity often share a lookup.
            Ok(needed) => {
                for key in needed {
                    if !keys.contains(&key) {
                        keys.push(key);
                    }
                }
            }
            Err(error) => match Misfit::of(aggregate, error)? {
                Misfit::Uncountable(error) => return Err(error),
                Misfit::Skipped => {}
            },
        }
    }
    Ok(keys)
}

pub(super) fn aggregate_lookups<'s, 'a: 's>(
    aggregate: &'s Aggregate,
    scope: &ImageScope<'s, 'a>,
) -> Result<SmallVec<[LookupKey<'s>; 2]>> {
    if counts_before_lookups(aggregate, scope)? == Some(false) {
        return Ok(SmallVec::new());
    }
    aggregate.lookups.iter().map(|lookup| scope.lookup_key(lookup)).collect()
}

/// The lookups that an image of a looked-up item has the outputs of. A lookup is omitted if the image lacks an input or
/// an output.
pub fn offered_outputs<'s, 'a: 's>(
    model: &'s Model,
    candidates: &'s ItemCandidates<'_, '_>,
    image: &'s Image<'a>,
) -> Vec<(LookupKey<'s>, Vec<AttributeValue<'static>>)> {
    let Some(identity) = candidates.in_state(image) else { return Vec::new() };
    let scope = ImageScope::of(model, identity, image);
    let offer = |lookup: &LookupUse| {
        let key = scope.lookup_key(lookup).ok()?;
        let outputs = lookup.outputs.iter().map(|term| scope.output(term)).collect::<Option<Vec<_>>>()?;
        Some((key, outputs))
    };
    identity.entity.offers.iter().filter_map(offer).collect()
}

/// The outputs of a lookup in an item that was found for it; `None` if the item is not of the looked-up entity, has another lookup key or
/// lacks an output.
#[must_use]
pub fn shown_outputs(
    model: &Model,
    key: &LookupKey<'_>,
    item: &Item,
) -> Option<Vec<AttributeValue<'static>>> {
    let of = model.lookups.get(key.lookup)?.of;
    let source = SourceKey::of_item(model, model.entities.get(of)?.table, item)?;
    let candidates = source.candidates(model);
    let image = Image::from_item(item, &model.attributes);
    let offers = offered_outputs(model, &candidates, &image);
    offers.into_iter().find(|(offered, _)| offered == key).map(|(_, outputs)| outputs)
}

/// The item that a lookup reads by its primary key; `None` if an index finds it.
#[must_use]
pub fn looked_up_item(model: &Model, key: &LookupKey<'_>) -> Option<SourceKey<'static>> {
    let lookup = model.lookups.get(key.lookup)?;
    match lookup.source {
        LookupSource::Index(_) => None,
        LookupSource::PrimaryKey => {
            let table = model.entities.get(lookup.of)?.table;
            let inputs = key.values(lookup.inputs.len());
            let mut key = lookup.key.iter().map(|(_, template)| Cow::Owned(template.render(&inputs)));
            Some(SourceKey { table, partition: key.next()?, sort: key.next() })
        }
    }
}
