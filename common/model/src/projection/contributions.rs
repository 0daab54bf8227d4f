//! `C(image)`: the contributions of an item in the state of an image.

use std::sync::Arc;

use smallvec::SmallVec;

use super::elements::project_elements;
use super::measures::{destinations, holds, measured};
use super::{
    Contribution, ExtremeValue, ImageProjection, ImageScope, KnownLookups, LookupKey, LookupOutputs,
    RollupTargets, ShardAssignment, aggregate_lookups, lookup_keys,
};
use crate::entity::ItemCandidates;
use crate::record::Image;
use crate::table::{Aggregate, LookupSource, LookupUse, Model, OnMisfit, Pattern, Term};
use crate::{Error, ErrorKind, Result};

/// Computes the contributions of an item in the state of `image`; an item of no entity contributes nothing. Conditions come before lookups: an aggregate whose
/// conditions exclude the item needs no lookup. `keys` are the keys of the image's lookups ([`lookup_keys`]) that the caller has made; the
/// other keys are made here.
///
/// # Errors
/// [`ErrorKind::Record`] if a value is missing or of a wrong type, or a lookup by primary key finds nothing, unless the aggregate skips
/// such items; [`ErrorKind::Misfit`] if it wants the record to fail; [`ErrorKind::Unavailable`] if another lookup has no outputs yet.
pub fn contributions<'s, 'a: 's>(
    model: &'s Model,
    candidates: &'s ItemCandidates<'_, '_>,
    (image, keys): (&'s Image<'a>, &'s [LookupKey<'static>]),
    lookups: &'s impl KnownLookups,
    sharding: ShardAssignment<'_>,
    targets: &mut RollupTargets,
) -> Result<ImageProjection> {
    let mut projection = ImageProjection::default();
    let Some(identity) = candidates.in_state(image) else { return Ok(projection) };
    let mut first_misfit = None;
    let (mut before, mut is_skipped) = (projection.length(), false);
    for aggregate in identity.entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index)) {
        if first_misfit.is_some() && aggregate.on_misfit != OnMisfit::Fail {
            // Only an aggregate that must not be parked can still change the result.
            continue;
        }
        if !aggregate.continues {
            (before, is_skipped) = (projection.length(), false);
        } else if is_skipped {
            continue;
        }
        let scope = ImageScope::of(model, identity, image);
        let projector = AggregateProjector { aggregate, candidates, keys, lookups, sharding };
        if let Err(error) = projector.project(&scope, targets, &mut projection) {
            match Misfit::of(aggregate, error)? {
                Misfit::Uncountable(error) => first_misfit = Some(first_misfit.unwrap_or(error)),
                Misfit::Skipped => {
                    projection.shorten(before);
                    projection.skipped += 1;
                    is_skipped = true;
                }
            }
        }
    }
    first_misfit.map_or(Ok(projection), Err)
}

impl ImageProjection {
    /// How many contributions and values for `max` and `min` it has.
    fn length(&self) -> (usize, usize) {
        (self.contributions.by_aggregate.len(), self.extremes.len())
    }

    /// Removes what was added since it had this length.
    fn shorten(&mut self, (contributions, extremes): (usize, usize)) {
        self.contributions.by_aggregate.truncate(contributions);
        self.extremes.truncate(extremes);
    }
}

/// The treatment of an item that does not fit an aggregate.
pub(super) enum Misfit {
    /// The item cannot be counted.
    Uncountable(Error),
    /// The aggregate does not count it.
    Skipped,
}

impl Misfit {
    /// The treatment of this error of an aggregate.
    ///
    /// # Errors
    /// The error itself if it is not a misfit, or the record must fail.
    pub(super) fn of(aggregate: &Aggregate, error: Error) -> Result<Self> {
        if error.kind() != ErrorKind::Record {
            return Err(error);
        }
        match aggregate.on_misfit {
            OnMisfit::Park => Ok(Self::Uncountable(error)),
            OnMisfit::Skip => Ok(Self::Skipped),
            OnMisfit::Fail => {
                let message = format!("aggregate `{}` does not park misfits: {error}", aggregate.name);
                Err(Error::new(ErrorKind::Misfit, message))
            }
        }
    }
}

/// Projects an image for one aggregate.
struct AggregateProjector<'p, K> {
    aggregate: &'p Aggregate,
    candidates: &'p ItemCandidates<'p, 'p>,
    keys: &'p [LookupKey<'static>],
    lookups: &'p K,
    sharding: ShardAssignment<'p>,
}

impl<K: KnownLookups> AggregateProjector<'_, K> {
    /// Adds the contributions of the image to the aggregate. The scope has no outputs of lookups. After an error, nothing is added.
    fn project(
        &self,
        without_outputs: &ImageScope<'_, '_>,
        targets: &mut RollupTargets,
        projection: &mut ImageProjection,
    ) -> Result<()> {
        let Self { aggregate, candidates, lookups, sharding, .. } = *self;
        let ImageScope { model, image, .. } = *without_outputs;
        let counts = counts_before_lookups(aggregate, without_outputs)?;
        if counts == Some(false) {
            return Ok(());
        }
        let mut outputs = SmallVec::<[_; 2]>::new();
        for (place, lookup) in aggregate.lookups.iter().enumerate() {
            let key = self.lookup_key(lookup, without_outputs)?;
            if let Some(known) = lookups.outputs(&key) {
                outputs.push(known);
                continue;
            }
            // The lookups of an image are resolved only if it has the inputs of all of them. If this aggregate lacks an input, that is
            // the error, and it is permanent. If another aggregate lacks one, that aggregate reports it.
            aggregate_lookups(aggregate, without_outputs)?;
            match lookup_keys(model, candidates, image) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Record => return Ok(()),
                Err(error) => return Err(error),
            }
            if let Some(error) = lookups.failure(&key) {
                return Err(error);
            }
            let is_absent = reads_the_item(model, lookup.lookup) && lookups.is_absent(&key);
            if !is_absent || aggregate.needs_outputs(place) {
                return Err(no_outputs(model, lookup.lookup, is_absent));
            }
            outputs.push(NO_OUTPUTS);
        }
        let scope = without_outputs.with_outputs(&aggregate.lookups, &outputs);
        let when = aggregate.when.as_ref().filter(|_| counts.is_none());
        match &aggregate.for_each {
            Some(elements) => {
                project_elements((aggregate, elements), when, &scope, sharding, targets, projection)
            }
            None if holds(when, &scope)? => project_item(aggregate, &scope, sharding, targets, projection),
            None => Ok(()),
        }
    }

    /// The key of a lookup. An entity uses each lookup with the same inputs, so the image has one key for it.
    fn lookup_key<'k, 'a: 'k>(
        &'k self,
        used: &LookupUse,
        scope: &ImageScope<'k, 'a>,
    ) -> Result<LookupKey<'k>> {
        match self.keys.iter().find(|key| key.lookup == used.lookup) {
            Some(key) => Ok(key.borrowed()),
            None => scope.lookup_key(used),
        }
    }
}

/// Whether an aggregate counts an item, as far as that is known before its lookups: `Some(false)` if its condition or the
/// conditions of all its measures exclude the item, or it has no element to count; `None` if its condition depends on outputs of
/// lookups or on elements. The scope has no such outputs, and no element.
///
/// # Errors
/// [`ErrorKind::Record`] if a value in the condition is of a wrong type, or the elements cannot be counted.
pub(super) fn counts_before_lookups(
    aggregate: &Aggregate,
    scope: &ImageScope<'_, '_>,
) -> Result<Option<bool>> {
    if let Some(elements) = &aggregate.for_each
        && scope.elements(elements)?.is_empty()
    {
        return Ok(Some(false));
    }
    let counts = holds_before_lookups(aggregate.when.as_ref(), scope)?;
    if counts == Some(false) || aggregate.lookups.is_empty() {
        return Ok(counts);
    }
    let may_count = aggregate.measures.iter().any(|measure| {
        // A measure that cannot be judged is judged after the lookups.
        measure.kind.function().is_contributed()
            && !matches!(holds_before_lookups(measure.when.as_ref(), scope), Ok(Some(false)))
    });
    Ok(if may_count { counts } else { Some(false) })
}

fn project_item(
    aggregate: &Aggregate,
    scope: &ImageScope<'_, '_>,
    sharding: ShardAssignment<'_>,
    targets: &mut RollupTargets,
    projection: &mut ImageProjection,
) -> Result<()> {
    let (measures, extremes) = measured(aggregate, scope)?;
    if measures.is_empty() && extremes.is_empty() {
        return Ok(());
    }
    let destinations = destinations(aggregate, scope, sharding, targets)?;
    for (measure, rule, value) in extremes {
        projection.extremes.extend(destinations.iter().map(|target| ExtremeValue {
            target: *target,
            measure: Arc::clone(measure),
            rule,
            value: value.clone(),
        }));
    }
    if !measures.is_empty() && !destinations.is_empty() {
        let aggregate = Arc::clone(&aggregate.name);
        let contribution = Contribution { aggregate, targets: destinations, measures };
        projection.contributions.by_aggregate.push(contribution);
    }
    Ok(())
}

fn holds_before_lookups(pattern: Option<&Pattern>, scope: &ImageScope<'_, '_>) -> Result<Option<bool>> {
    match pattern {
        None => Ok(Some(true)),
        Some(pattern) => pattern.matches_before_lookups(&mut |term: &Term| scope.read(term)),
    }
}

/// The outputs of a lookup that finds nothing: all are absent.
const NO_OUTPUTS: &LookupOutputs = &[];

/// Whether a lookup reads its item by the primary key. If it finds nothing, its item does not exist, or lacks an output.
fn reads_the_item(model: &Model, lookup: usize) -> bool {
    match model.lookups.get(lookup).map(|lookup| &lookup.source) {
        Some(LookupSource::PrimaryKey) => true,
        Some(LookupSource::Index(_)) | None => false,
    }
}

/// The hint of an error of a lookup that found no item.
const IS_REDELIVERED: &str = "The record is redelivered; if the looked-up item is never written, the retry limit of the event source mapping ends this";

fn no_outputs(model: &Model, lookup: usize, is_absent: bool) -> Error {
    let Some(lookup) = model.lookups.get(lookup) else {
        return Error::new(ErrorKind::State, "a lookup is not in the model; this is a defect of Afterwrite");
    };
    let name = &lookup.name;
    if is_absent {
        let (entity, outputs) = (model.entity_name(lookup.of), lookup.outputs.join("`, `"));
        let message = format!("lookup `{name}` found no item of entity `{entity}` that has `{outputs}`");
        return Error::new(ErrorKind::Record, message)
            .hint("Write that item; then redrive or reconcile this one");
    }
    Error::new(ErrorKind::Unavailable, format!("lookup `{name}` found no item")).hint(IS_REDELIVERED)
}

#[cfg(test)]
mod tests;
