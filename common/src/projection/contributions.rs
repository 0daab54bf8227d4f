//! `C(image)`: the contributions of an item in the state of an image.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{ImageScope, KnownLookups, RollupTargets, ShardAssignment, TargetId, TargetKey, lookup_keys};
use crate::entity::ItemCandidates;
use crate::record::{AttributeValue, Decimal, Image};
use crate::table::{Aggregate, Measure, MeasureKind, Model, Operand, Pattern, Term, ValueFormat};
use crate::{Error, ErrorKind, Result};

/// The contributions of an item. Measures that are zero are omitted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemContributions {
    /// One contribution for each aggregate that counts the item.
    pub by_aggregate: SmallVec<[Contribution; 1]>,
}

impl ItemContributions {
    /// The contributions of an item that is not counted.
    pub const NOTHING: Self = Self { by_aggregate: SmallVec::new_const() };
}

/// The rollups that an aggregate counts an item into.
pub type TargetIds = SmallVec<[TargetId; 4]>;

/// Numbers by measure.
pub type MeasureAmounts = Vec<(Arc<str>, Decimal)>;

/// The contribution of an item to one aggregate: the same measures to each of its rollups.
#[derive(Clone, Debug, PartialEq)]
pub struct Contribution {
    /// The aggregate's name.
    pub aggregate: Arc<str>,
    /// The rollups.
    pub targets: TargetIds,
    /// The measures; none is zero.
    pub measures: MeasureAmounts,
}

/// A value that a rollup's `max` or `min` must take into account.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtremeValue {
    /// The rollup.
    pub target: TargetId,
    /// The measure.
    pub measure: Arc<str>,
    /// Which of two values is kept.
    pub rule: ExtremeRule,
    /// The value: a number or a text.
    pub value: AttributeValue<'static>,
}

/// Which of two values is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtremeRule {
    /// `max`.
    Largest,
    /// `min`.
    Smallest,
}

/// The contributions and extreme values of one image.
#[derive(Clone, Debug, Default)]
pub struct ImageProjection {
    /// The contributions that are counted.
    pub contributions: ItemContributions,
    /// The values for `max` and `min`.
    pub extremes: Vec<ExtremeValue>,
}

/// Computes the contributions of an item in the state of `image`; an item of no entity contributes nothing. Conditions come before lookups: an aggregate whose
/// conditions exclude the item needs no lookup.
///
/// # Errors
/// [`ErrorKind::Record`] if a value is missing or of a wrong type; [`ErrorKind::Unavailable`] if a lookup has no
/// outputs yet.
pub fn contributions<'s, 'a: 's>(
    model: &'s Model,
    candidates: &'s ItemCandidates<'_, '_>,
    image: &'s Image<'a>,
    lookups: &'s impl KnownLookups,
    sharding: ShardAssignment<'_>,
    targets: &mut RollupTargets,
) -> Result<ImageProjection> {
    let mut projection = ImageProjection::default();
    let Some(identity) = candidates.in_state(image) else { return Ok(projection) };
    for aggregate in identity.entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index)) {
        let without_outputs = ImageScope::of(model, identity, image);
        let counts = counts_before_lookups(aggregate, &without_outputs)?;
        if counts == Some(false) {
            continue;
        }
        let mut outputs = SmallVec::<[_; 2]>::new();
        for lookup in &aggregate.lookups {
            let key = without_outputs.lookup_key(lookup)?;
            let Some(known) = lookups.outputs(&key) else {
                // If the image lacks an input of any lookup, none is made: that is the error, and it is permanent.
                lookup_keys(model, candidates, image)?;
                return Err(lookups.failure(&key).unwrap_or_else(|| no_outputs(model, lookup.lookup)));
            };
            outputs.push(known);
        }
        let scope = ImageScope { outputs: &outputs, ..without_outputs };
        if counts == Some(true) || holds(aggregate.when.as_ref(), &scope)? {
            project_aggregate(aggregate, &scope, sharding, targets, &mut projection)?;
        }
    }
    Ok(projection)
}

/// Whether an aggregate counts an item, as far as that is known before its lookups: `Some(false)` if its condition or the
/// conditions of all its measures exclude the item, `None` if its condition depends on outputs of lookups. The scope has
/// no such outputs.
///
/// # Errors
/// [`ErrorKind::Record`] if a value in the condition is of a wrong type.
pub(super) fn counts_before_lookups(
    aggregate: &Aggregate,
    scope: &ImageScope<'_, '_>,
) -> Result<Option<bool>> {
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

fn project_aggregate(
    aggregate: &Aggregate,
    scope: &ImageScope<'_, '_>,
    sharding: ShardAssignment<'_>,
    targets: &mut RollupTargets,
    projection: &mut ImageProjection,
) -> Result<()> {
    let mut measures = Vec::with_capacity(aggregate.measures.len());
    let mut extremes = Vec::new();
    for measure in &aggregate.measures {
        if holds(measure.when.as_ref(), scope)? {
            match amount(measure, scope)? {
                None => {}
                Some(MeasureAmount::Number(name, number)) => measures.push((Arc::clone(name), number)),
                Some(MeasureAmount::Extreme(rule, value)) => extremes.push((&measure.name, rule, value)),
            }
        }
    }
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
    if !measures.is_empty() {
        let aggregate = Arc::clone(&aggregate.name);
        let contribution = Contribution { aggregate, targets: destinations, measures };
        projection.contributions.by_aggregate.push(contribution);
    }
    Ok(())
}

fn destinations(
    aggregate: &Aggregate,
    scope: &ImageScope<'_, '_>,
    sharding: ShardAssignment<'_>,
    targets: &mut RollupTargets,
) -> Result<TargetIds> {
    let mut ids = TargetIds::new();
    let (mut partition, mut sort) = targets.take_buffers();
    for destination in &aggregate.into {
        let Some(rollup) = scope.model.rollups.get(destination.rollup) else { continue };
        scope.render(&destination.partition, &mut partition)?;
        scope.render(&destination.sort, &mut sort)?;
        let expires_at = match &destination.expires {
            Some(expiry) => Some(scope.expiry(expiry)?),
            None => None,
        };
        let shard = sharding.shard(&partition, &sort, rollup.shards, targets);
        let key = TargetKey { partition: &partition, sort: &sort, shard };
        ids.push(targets.intern(destination.rollup, key, expires_at));
    }
    targets.return_buffers((partition, sort));
    Ok(ids)
}

enum MeasureAmount<'m> {
    Number(&'m Arc<str>, Decimal),
    Extreme(ExtremeRule, AttributeValue<'static>),
}

/// The amount of a measure; `None` if the item does not change it.
fn amount<'m>(measure: &'m Measure, scope: &ImageScope<'_, '_>) -> Result<Option<MeasureAmount<'m>>> {
    let number = |number| MeasureAmount::Number(&measure.name, number);
    let extreme = |rule, term: &Term, format: ValueFormat| {
        Ok(scope.extreme(term, format)?.map(|value| MeasureAmount::Extreme(rule, value)))
    };
    match &measure.kind {
        MeasureKind::Count => Ok(Some(number(Decimal::ONE))),
        MeasureKind::Sum(factors) => {
            Ok(product(measure, factors, scope)?.filter(|product| !product.is_zero()).map(number))
        }
        MeasureKind::Max(term, format) => extreme(ExtremeRule::Largest, term, *format),
        MeasureKind::Min(term, format) => extreme(ExtremeRule::Smallest, term, *format),
        MeasureKind::Histogram { of, width, labels } => {
            let label = bin(scope, of, *width, labels)?;
            Ok(label.map(|label| MeasureAmount::Number(label, Decimal::ONE)))
        }
        MeasureKind::Average { .. } => Ok(None),
    }
}

fn product(measure: &Measure, factors: &[Term], scope: &ImageScope<'_, '_>) -> Result<Option<Decimal>> {
    let mut product: Option<Decimal> = None;
    for factor in factors {
        let Some(number) = scope.number(factor)? else { return Ok(None) };
        product = Some(match product {
            None => number.into_owned(),
            Some(so_far) => so_far.times(&number).map_err(|cause| {
                let message = format!("the product for measure `{}` exceeds 38 digits", measure.name);
                Error::new(ErrorKind::Record, message).caused_by(cause)
            })?,
        });
    }
    Ok(product)
}

/// The label of a value's bin; `None` if the value is absent or below the first bin.
fn bin<'l>(
    scope: &ImageScope<'_, '_>,
    of: &Term,
    width: i64,
    labels: &'l [Arc<str>],
) -> Result<Option<&'l Arc<str>>> {
    let (numerator, denominator) = match scope.read(of)? {
        None => return Ok(None),
        Some(Operand::Ratio { numerator, denominator }) => (numerator, denominator),
        Some(Operand::Value(_) | Operand::Text(_)) => match scope.number(of)? {
            Some(number) => (number.into_owned(), Decimal::ONE),
            None => return Ok(None),
        },
    };
    let Ok(bin_width) = denominator.times(&Decimal::from(width)) else { return Ok(None) };
    // A quotient that exceeds an i64 is in the last bin, or below the first.
    let out_of_range = if numerator.sign().is_gt() { i64::MAX } else { -1 };
    let index = numerator.floor_divided_by(&bin_width).unwrap_or(out_of_range);
    let Ok(index) = usize::try_from(index) else { return Ok(None) };
    Ok(labels.get(index).or(labels.last()))
}

pub(super) fn holds(pattern: Option<&Pattern>, scope: &ImageScope<'_, '_>) -> Result<bool> {
    match pattern {
        None => Ok(true),
        Some(pattern) => pattern.matches(&mut |term: &Term| scope.read(term)),
    }
}

fn holds_before_lookups(pattern: Option<&Pattern>, scope: &ImageScope<'_, '_>) -> Result<Option<bool>> {
    match pattern {
        None => Ok(Some(true)),
        Some(pattern) => pattern.matches_before_lookups(&mut |term: &Term| scope.read(term)),
    }
}

fn no_outputs(model: &Model, lookup: usize) -> Error {
    let name = model.lookups.get(lookup).map_or("?", |lookup| &lookup.name);
    Error::new(ErrorKind::Unavailable, format!("lookup `{name}` found no item")).hint(
        "The record is redelivered; if the looked-up item is never written, the retry limit of the event source mapping ends this",
    )
}

#[cfg(test)]
mod tests;
