//! `C(image)`: what an item in this state contributes.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{ImageScope, LookupAnswers, RollupTargets, ShardAssignment, TargetId, TargetKey};
use crate::entity::ItemIdentity;
use crate::record::{AttributeValue, Decimal, Image};
use crate::table::{Aggregate, Measure, MeasureKind, Model, Operand, Pattern, Term, ValueFormat};
use crate::{Error, ErrorKind, Result};

/// What an item contributes, aggregate by aggregate. What is nought is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemContributions {
    /// One share for each aggregate that counts the item.
    pub by_aggregate: SmallVec<[Contribution; 1]>,
}

impl ItemContributions {
    /// Those of an item of which nothing is counted.
    pub const NOTHING: Self = Self { by_aggregate: SmallVec::new_const() };
}

/// The rollups that an aggregate counts an item into.
pub type TargetIds = SmallVec<[TargetId; 4]>;

/// Numbers by measure.
pub type MeasureAmounts = Vec<(Arc<str>, Decimal)>;

/// What an item contributes to one aggregate: the same measures to each of its rollups.
#[derive(Clone, Debug, PartialEq)]
pub struct Contribution {
    /// The aggregate's name.
    pub aggregate: Arc<str>,
    /// The rollups.
    pub targets: TargetIds,
    /// The measures, none of them nought.
    pub measures: MeasureAmounts,
}

/// A value that a rollup's `max` or `min` must not fall behind.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtremeValue {
    /// The rollup.
    pub target: TargetId,
    /// The measure.
    pub measure: Arc<str>,
    /// Which of two values stays.
    pub rule: ExtremeRule,
    /// The value: a number or a text.
    pub value: AttributeValue<'static>,
}

/// Which of two values stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtremeRule {
    /// `max`.
    Largest,
    /// `min`.
    Smallest,
}

/// All that follows from one image.
#[derive(Clone, Debug, Default)]
pub struct ImageProjection {
    /// What is counted of the item.
    pub contributions: ItemContributions,
    /// What `max` and `min` have to see.
    pub extremes: Vec<ExtremeValue>,
}

/// What an item contributes in the state that `image` shows.
///
/// # Errors
/// [`ErrorKind::Record`] if a value is missing or of a wrong type; [`ErrorKind::Unavailable`] if a lookup has no answer yet.
pub fn contributions<'s, 'a: 's>(
    model: &'s Model,
    identity: &'s ItemIdentity<'_, '_>,
    image: &'s Image<'a>,
    answers: &'s impl LookupAnswers,
    sharding: ShardAssignment<'_>,
    targets: &mut RollupTargets,
) -> Result<ImageProjection> {
    let mut projected = ImageProjection::default();
    for aggregate in identity.entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index)) {
        let bare = ImageScope::of(model, identity, image);
        let mut outputs = SmallVec::<[_; 2]>::new();
        for key in &aggregate.lookups {
            let question = bare.lookup_key(key)?;
            outputs.push(answers.outputs(&question).ok_or_else(|| {
                answers.failure(&question).unwrap_or_else(|| unanswered(model, key.lookup))
            })?);
        }
        let scope = ImageScope { outputs: &outputs, ..bare };
        if holds(aggregate.when.as_ref(), &scope)? {
            project(aggregate, &scope, sharding, targets, &mut projected)?;
        }
    }
    Ok(projected)
}

fn project(
    aggregate: &Aggregate,
    scope: &ImageScope<'_, '_>,
    sharding: ShardAssignment<'_>,
    targets: &mut RollupTargets,
    projected: &mut ImageProjection,
) -> Result<()> {
    let mut measures = Vec::with_capacity(aggregate.measures.len());
    let mut extremes = Vec::new();
    for measure in &aggregate.measures {
        if holds(measure.when.as_ref(), scope)? {
            match amount(measure, scope)? {
                MeasureAmount::Nothing => {}
                MeasureAmount::Number(name, number) => measures.push((name, number)),
                MeasureAmount::Extreme(keep, value) => extremes.push((&measure.name, keep, value)),
            }
        }
    }
    if measures.is_empty() && extremes.is_empty() {
        return Ok(());
    }
    let destinations = destinations(aggregate, scope, sharding, targets)?;
    for (measure, rule, value) in extremes {
        projected.extremes.extend(destinations.iter().map(|target| ExtremeValue {
            target: *target,
            measure: Arc::clone(measure),
            rule,
            value: value.clone(),
        }));
    }
    if !measures.is_empty() {
        let share = Contribution { aggregate: Arc::clone(&aggregate.name), targets: destinations, measures };
        projected.contributions.by_aggregate.push(share);
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
            Some(expiry) => Some(scope.time(&expiry.of, expiry.format)?.plus(expiry.after)),
            None => None,
        };
        let shard = sharding.shard(&partition, &sort, rollup.shards, targets);
        let key = TargetKey { partition: &partition, sort: &sort, shard };
        ids.push(targets.intern(destination.rollup, key, expires_at));
    }
    targets.give_buffers((partition, sort));
    Ok(ids)
}

enum MeasureAmount {
    Nothing,
    Number(Arc<str>, Decimal),
    Extreme(ExtremeRule, AttributeValue<'static>),
}

fn amount(measure: &Measure, scope: &ImageScope<'_, '_>) -> Result<MeasureAmount> {
    let extreme = |keep, term: &Term, format: ValueFormat| {
        Ok(match scope.extreme(term, format)? {
            Some(value) => MeasureAmount::Extreme(keep, value),
            None => MeasureAmount::Nothing,
        })
    };
    match &measure.kind {
        MeasureKind::Count => Ok(MeasureAmount::Number(Arc::clone(&measure.name), Decimal::ONE)),
        MeasureKind::Sum(factors) => Ok(match product(measure, factors, scope)? {
            Some(number) if !number.is_zero() => MeasureAmount::Number(Arc::clone(&measure.name), number),
            Some(_) | None => MeasureAmount::Nothing,
        }),
        MeasureKind::Max(term, format) => extreme(ExtremeRule::Largest, term, *format),
        MeasureKind::Min(term, format) => extreme(ExtremeRule::Smallest, term, *format),
        MeasureKind::Histogram { of, width, labels } => Ok(match bin(scope, of, *width, labels)? {
            Some(label) => MeasureAmount::Number(Arc::clone(label), Decimal::ONE),
            None => MeasureAmount::Nothing,
        }),
        MeasureKind::Average { .. } => Ok(MeasureAmount::Nothing),
    }
}

fn product(measure: &Measure, factors: &[Term], scope: &ImageScope<'_, '_>) -> Result<Option<Decimal>> {
    let mut product: Option<Decimal> = None;
    for factor in factors {
        let Some(number) = scope.number(factor)? else { return Ok(None) };
        product = Some(match product {
            None => number.into_owned(),
            Some(so_far) => so_far.times(&number).map_err(|cause| {
                Error::new(
                    ErrorKind::Record,
                    format!("the product for measure `{}` is beyond 38 digits", measure.name),
                )
                .caused_by(cause)
            })?,
        });
    }
    Ok(product)
}

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
    // Beyond an i64 a value lies in the last bin, or below the first.
    let index = numerator.floor_divided_by(&bin_width).unwrap_or(if numerator.sign().is_gt() {
        i64::MAX
    } else {
        -1
    });
    let Ok(index) = usize::try_from(index) else { return Ok(None) };
    Ok(labels.get(index).or(labels.last()))
}

pub(super) fn holds(pattern: Option<&Pattern>, scope: &ImageScope<'_, '_>) -> Result<bool> {
    match pattern {
        None => Ok(true),
        Some(pattern) => pattern.matches(&mut |term: &Term| scope.read(term)),
    }
}

fn unanswered(model: &Model, lookup: usize) -> Error {
    let name = model.lookups.get(lookup).map_or("?", |lookup| &lookup.name);
    Error::new(ErrorKind::Unavailable, format!("lookup `{name}` found no item to ask")).hint(
        "The record comes again; if the looked-up item was never written, the mapping's retry limit ends it",
    )
}
