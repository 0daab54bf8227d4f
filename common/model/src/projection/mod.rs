//! Projects an image of an item: to the contributions to rollups, the stale caches, the rows of datasets, the events, and the
//! line of the archive.
//!
//! In: an [`Image`], the entities that the item's key allows, and the outputs of its lookups. The image decides which entity the item is of. Out: for the ledger, an [`ImageProjection`].
//! Pure: no I/O, no clock; the same input always has the same result.
//!
//! This file has the parts that all projections begin with: the identity of an item in one of its states ([`ItemCandidates::in_state`]), and the
//! lookups that an image needs ([`lookup_keys`]), whose outputs are read before. The ledger's `C(image)` is [`contributions()`]:
//! aggregate → rollups → measure → number.

mod archive;
mod contributions;
mod element;
mod elements;
mod events;
mod expired_source;
mod extreme;
mod invalidation;
mod key_text;
mod key_values;
mod measures;
mod rows;
mod scope;
mod searched;
mod secrets;
mod target;

pub use archive::archive_line;
pub use contributions::contributions;
pub use element::ItemElement;
pub use events::{Event, EventChange, events_of};
pub use extreme::ExtremeRule;
pub use invalidation::{RecordsByPath, StaleCaches, StaleKey};
pub use key_values::KeyValue;
pub use rows::{DatasetRow, RecordImages, RowOperation, datasets_of, decode_old_image, rows, snapshot_row};
pub use scope::{ImageScope, LookupOutputs, attribute};
pub use searched::{SearchedLookups, awaits_lookup};
pub use secrets::SecretAttributes;
pub use target::{
    Contribution, ExtremeValue, INVALID_ROLLUP_KEY, ImageProjection, ItemContributions, MeasureAmounts,
    RollupTarget, RollupTargets, ShardAssignment, TargetId, TargetIds, TargetKey,
};

pub use crate::effect::{MAX_PARTITION_KEY, MAX_SORT_KEY};

use std::borrow::Cow;
use std::time::Duration;

use smallvec::SmallVec;

use self::contributions::{Misfit, counts_before_lookups};
use crate::entity::{ItemCandidates, ItemIdentity, SourceKey};
use crate::record::{AttributeValue, ChangeRecord, Decimal, Image, Item, Operation, StreamView, Timestamp};
use crate::table::{Aggregate, LookupSource, LookupUse, Model, escaped, unescaped};
use crate::{Error, ErrorKind, Result};

/// DynamoDB's TTL does not delete an item whose time is longer ago than five years.
const OLDEST_EXPIRY: Duration = Duration::from_secs(5 * 365 * 24 * 60 * 60);

impl<'m, 'k> ItemCandidates<'m, 'k> {
    /// The identity of the item in the state of an image; `None` if the image meets the condition of no candidate.
    #[must_use]
    pub fn in_state(&self, image: &Image<'_>) -> Option<&ItemIdentity<'m, 'k>> {
        self.iter().find(|identity| match &identity.entity.when {
            None => true,
            Some(when) => ImageScope::of(self.model(), identity, image).satisfies(when),
        })
    }

    /// The identity of the item before a change, by the attributes of the old image that were decoded eagerly. `None` if the item did not
    /// exist, or was of no entity.
    #[must_use]
    pub fn before(&self, record: &ChangeRecord<'_>) -> Option<&ItemIdentity<'m, 'k>> {
        match self.by_key() {
            Some(identity) => record.old.is_present().then_some(identity),
            None => self.in_state(record.old.eager_fields()?),
        }
    }

    /// The identity of the item after a change; `None` if the item does not exist, or is of no entity.
    #[must_use]
    pub fn after(&self, record: &ChangeRecord<'_>) -> Option<&ItemIdentity<'m, 'k>> {
        self.in_state(record.new.as_ref()?)
    }

    /// Whether a change is an expiry, a deletion by time to live (TTL): DynamoDB marks it as one, or the item had expired by the attribute that its
    /// entity names. In a global table, DynamoDB does not mark the deletions that TTL made in another region.
    #[must_use]
    pub fn is_expiry(&self, record: &ChangeRecord<'_>) -> bool {
        let had_expired = || {
            let ttl = self.before(record)?.entity.ttl.as_ref()?;
            had_expired(attribute(record.old.eager_fields()?, ttl)?, record.created_at?)
        };
        record.expired || (record.operation == Operation::Remove && had_expired().unwrap_or(false))
    }

    /// The error of a record without an image that `reader` needs. If the stream does not carry the image, the kind is [`ErrorKind::Stream`]; if it
    /// does, or the record does not name its view type, the record is malformed ([`ErrorKind::Record`]).
    #[must_use]
    pub fn missing_image(&self, record: &ChangeRecord<'_>, reader: &str) -> Error {
        let kind = match record.view {
            Some(StreamView::NewAndOldImages) | None => ErrorKind::Record,
            Some(StreamView::NewImage | StreamView::OldImage | StreamView::KeysOnly) => ErrorKind::Stream,
        };
        Error::new(kind, format!("the stream's records lack an image that {reader} needs"))
            .with("view type", record.view.map_or("unknown", StreamView::name))
            .with("entity", self.iter().next().map_or("", |identity| &*identity.entity.name))
            .hint("Set the table's stream to NEW_AND_OLD_IMAGES")
    }

    /// Whether the item is of an entity before or after a change, or may be: its key alone decides.
    #[must_use]
    pub fn match_change(&self, record: &ChangeRecord<'_>) -> bool {
        self.by_key().is_some() || self.before(record).is_some() || self.after(record).is_some()
    }
}

/// Whether an item with this value of its TTL attribute had expired when it was deleted; `None` if TTL ignores the value.
fn had_expired(ttl: &AttributeValue<'_>, deleted_at: Timestamp) -> Option<bool> {
    let seconds = |time: Timestamp| Decimal::from(time.epoch_seconds());
    let expires_at = ttl.as_number()?;
    Some(*expires_at <= seconds(deleted_at) && *expires_at >= seconds(deleted_at.minus(OLDEST_EXPIRY)))
}

impl SourceKey<'_> {
    /// The identity of an item with this key and image; `None` if it matches no entity.
    pub fn identify<'m, 'k>(&'k self, model: &'m Model, image: &Image<'_>) -> Option<ItemIdentity<'m, 'k>> {
        self.candidates(model).in_state(image).cloned()
    }
}

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

    /// The same key with borrowed text.
    #[must_use]
    pub fn borrowed(&self) -> LookupKey<'_> {
        LookupKey { lookup: self.lookup, key: Cow::Borrowed(&self.key) }
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

    /// Whether a lookup was searched and finds nothing. The answer is used for lookups by primary key only: an index lags behind its table, so
    /// that it may find the item later.
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
/// [`ErrorKind::Record`] if the image lacks an input of a lookup, or a value in a condition is of a wrong type, unless the
/// aggregate skips such items; [`ErrorKind::Misfit`] if it wants the record to fail.
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
