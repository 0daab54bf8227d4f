//! `C(image)`: the contributions of an item in the state of an image.

use std::sync::Arc;

use smallvec::SmallVec;

use super::elements::project_elements;
use super::{
    ImageScope, KnownLookups, RollupTarget, RollupTargets, ShardAssignment, TargetId, TargetKey, lookup_keys,
};
use crate::entity::ItemIdentity;
use crate::record::{AttributeValue, Decimal, Image};
use crate::table::{Aggregate, Measure, MeasureKind, Model, OnMisfit, Operand, Pattern, Term, ValueFormat};
use crate::{Error, ErrorKind, Result};

/// The contributions of an item. Measures that are zero are omitted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemContributions {
    /// One contribution for each aggregate that counts the item; of an aggregate that counts its elements, one for each rollup.
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

impl ExtremeRule {
    /// Whether `value` replaces `known`. A value of another type was written by another model and is replaced.
    #[must_use]
    pub fn prefers(self, value: &AttributeValue<'_>, known: &AttributeValue<'_>) -> bool {
        let order = match (value, known) {
            (AttributeValue::N(new), AttributeValue::N(known)) => new.cmp(known),
            (AttributeValue::S(new), AttributeValue::S(known)) => new.as_bytes().cmp(known.as_bytes()),
            _ => return true,
        };
        match self {
            Self::Largest => order.is_gt(),
            Self::Smallest => order.is_lt(),
        }
    }
}

/// The contributions and extreme values of one image.
#[derive(Clone, Debug, Default)]
pub struct ImageProjection {
    /// The contributions that are counted.
    pub contributions: ItemContributions,
    /// The values for `max` and `min`.
    pub extremes: Vec<ExtremeValue>,
    /// The number of aggregates that leave the item out, because it does not fit them.
    pub skipped: u64,
}

/// Computes the contributions of an item in the state of `image`. Conditions come before lookups: an aggregate whose
/// conditions exclude the item needs no lookup.
///
/// # Errors
/// [`ErrorKind::Record`] if a value is missing or of a wrong type, unless the aggregate skips such items; [`ErrorKind::Misfit`] if it
/// wants the record to fail; [`ErrorKind::Unavailable`] if a lookup has no outputs yet.
pub fn contributions<'s, 'a: 's>(
    model: &'s Model,
    identity: &'s ItemIdentity<'_, '_>,
    image: &'s Image<'a>,
    lookups: &'s impl KnownLookups,
    sharding: ShardAssignment<'_>,
    targets: &mut RollupTargets,
) -> Result<ImageProjection> {
    let mut projection = ImageProjection::default();
    let mut first_misfit = None;
    for aggregate in identity.entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index)) {
        if first_misfit.is_some() && aggregate.on_misfit != OnMisfit::Fail {
            // Only an aggregate that must not be parked can still change the result.
            continue;
        }
        let scope = ImageScope::of(model, identity, image);
        let aggregates = AggregateProjector { aggregate, identity, lookups, sharding };
        if let Err(error) = aggregates.project(&scope, targets, &mut projection) {
            match Misfit::of(aggregate, error)? {
                Misfit::Counted(error) => first_misfit = Some(first_misfit.unwrap_or(error)),
                Misfit::Skipped => projection.skipped += 1,
            }
        }
    }
    first_misfit.map_or(Ok(projection), Err)
}

/// The treatment of an item that does not fit an aggregate.
pub(super) enum Misfit {
    /// The item cannot be counted.
    Counted(Error),
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
            OnMisfit::Park => Ok(Self::Counted(error)),
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
    identity: &'p ItemIdentity<'p, 'p>,
    lookups: &'p K,
    sharding: ShardAssignment<'p>,
}

impl<K: KnownLookups> AggregateProjector<'_, K> {
    /// Adds what the aggregate counts of the image; the scope has no outputs of lookups. After an error, nothing is added.
    fn project(
        &self,
        without_outputs: &ImageScope<'_, '_>,
        targets: &mut RollupTargets,
        projection: &mut ImageProjection,
    ) -> Result<()> {
        let Self { aggregate, identity, lookups, sharding } = *self;
        let ImageScope { model, image, .. } = *without_outputs;
        let counts = counts_before_lookups(aggregate, without_outputs)?;
        if counts == Some(false) {
            return Ok(());
        }
        let mut outputs = SmallVec::<[_; 2]>::new();
        for lookup in &aggregate.lookups {
            let key = without_outputs.lookup_key(lookup)?;
            let Some(known) = lookups.outputs(&key) else {
                // If the image lacks an input of any lookup, none is made: that is the error, and it is permanent.
                lookup_keys(model, identity, image)?;
                return Err(lookups.failure(&key).unwrap_or_else(|| no_outputs(model, lookup.lookup)));
            };
            outputs.push(known);
        }
        let scope = ImageScope { outputs: &outputs, ..*without_outputs };
        let when = aggregate.when.as_ref().filter(|_| counts.is_none());
        match &aggregate.for_each {
            Some(elements) => {
                project_elements((aggregate, elements), when, &scope, sharding, targets, projection)
            }
            None if holds(when, &scope)? => project_item(aggregate, &scope, sharding, targets, projection),
            None => Ok(()),
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

/// The values of an item, or of one of its elements, for the extremes of an aggregate.
pub(super) type MeasuredExtremes<'m> = Vec<(&'m Arc<str>, ExtremeRule, AttributeValue<'static>)>;

/// What an item, or one of its elements, adds to the measures of an aggregate.
pub(super) fn measured<'m>(
    aggregate: &'m Aggregate,
    scope: &ImageScope<'_, '_>,
) -> Result<(MeasureAmounts, MeasuredExtremes<'m>)> {
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
    Ok((measures, extremes))
}

/// The rollups that an aggregate counts an item, or one of its elements, into.
pub(super) fn destinations(
    aggregate: &Aggregate,
    scope: &ImageScope<'_, '_>,
    sharding: ShardAssignment<'_>,
    targets: &mut RollupTargets,
) -> Result<TargetIds> {
    let mut ids = TargetIds::new();
    let (mut partition, mut sort) = targets.take_buffers();
    for destination in &aggregate.into {
        let Some(rollup) = scope.model.rollups.get(destination.rollup) else { continue };
        if lacks_any(&destination.optional, scope)? {
            continue;
        }
        scope.render(&destination.partition, &mut partition)?;
        scope.render(&destination.sort, &mut sort)?;
        let expires_at = match &destination.expires {
            Some(expiry) => Some(scope.time(&expiry.of, expiry.format)?.plus(expiry.after)),
            None => None,
        };
        let shard = sharding.shard(&partition, &sort, rollup.shards, targets);
        let key = TargetKey { partition: &partition, sort: &sort, shard };
        let id = targets.intern(destination.rollup, key, expires_at);
        check_key(aggregate, targets.get(id))?;
        ids.push(id);
    }
    targets.return_buffers((partition, sort));
    Ok(ids)
}

/// Whether one of these values is absent or `NULL`.
fn lacks_any(terms: &[Term], scope: &ImageScope<'_, '_>) -> Result<bool> {
    for term in terms {
        if scope.read_unless_null(term)?.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A rollup's key that DynamoDB does not accept is an error of the record when the rollup is written. An aggregate that does not
/// park its misfits must know it before.
fn check_key(aggregate: &Aggregate, target: &RollupTarget) -> Result<()> {
    match aggregate.on_misfit {
        OnMisfit::Park => Ok(()),
        OnMisfit::Skip | OnMisfit::Fail if target.has_valid_key() => Ok(()),
        OnMisfit::Skip | OnMisfit::Fail => {
            let message = "a rollup's key is empty or longer than DynamoDB allows";
            Err(Error::new(ErrorKind::Record, message).with("rollup", target.name.as_ref()))
        }
    }
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
        MeasureKind::Sum { factors, constant } => {
            let product = product(measure, factors, constant.as_ref(), scope)?;
            Ok(product.filter(|product| !product.is_zero()).map(number))
        }
        MeasureKind::Max(term, format) => extreme(ExtremeRule::Largest, term, *format),
        MeasureKind::Min(term, format) => extreme(ExtremeRule::Smallest, term, *format),
        MeasureKind::Histogram { of, width, labels } => {
            let label = bin(scope, of, *width, labels)?;
            Ok(label.map(|label| MeasureAmount::Number(label, Decimal::ONE)))
        }
        MeasureKind::Percentiles { of, bins } => {
            let label = scope.number(of)?.and_then(|value| bins.label(&value));
            Ok(label.map(|label| MeasureAmount::Number(label, Decimal::ONE)))
        }
        MeasureKind::Average { .. } | MeasureKind::Percentile { .. } => Ok(None),
    }
}

fn product(
    measure: &Measure,
    factors: &[Term],
    constant: Option<&Decimal>,
    scope: &ImageScope<'_, '_>,
) -> Result<Option<Decimal>> {
    let mut product = constant.cloned();
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
        Some(Operand::Number(number)) => (number, Decimal::ONE),
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
