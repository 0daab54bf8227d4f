//! The measures of one item or element, and the rollups that they are counted into.

use std::sync::Arc;

use super::target::INVALID_ROLLUP_KEY;
use super::{
    ExtremeRule, ImageScope, MeasureAmounts, RollupTarget, RollupTargets, ShardAssignment, TargetIds,
    TargetKey,
};
use crate::record::{AttributeValue, Decimal};
use crate::table::{
    Aggregate, Latest, Measure, MeasureKind, OnMisfit, Operand, Pattern, Rollup, Term, ValueFormat,
};
use crate::{Error, ErrorKind, Result};

/// The values of an item, or of one of its elements, for the extremes of an aggregate.
pub(super) type MeasuredExtremes<'m> = Vec<(&'m Arc<str>, ExtremeRule, AttributeValue<'static>)>;

/// The amounts of the measures of an aggregate, of an item or of one of its elements.
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
                Some(MeasureAmount::Extreme(name, rule, value)) => extremes.push((name, rule, value)),
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
        scope.render_rollup(&destination.partition, rollup.keys, &mut partition)?;
        scope.render_rollup(&destination.sort, rollup.keys, &mut sort)?;
        if rollup.is_read_back && !scope.reads_back(rollup, destination, (&partition, &sort))? {
            return Err(misread_key(rollup));
        }
        let expires_at = match &destination.expires {
            Some(expiry) => Some(scope.expiry(expiry)?),
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

/// The error of an item whose key in a rollup would be read as that of another group, in which the next level or the rank would count it.
fn misread_key(rollup: &Rollup) -> Error {
    let message = "a value of the rollup's key contains the text that divides the values";
    let error = Error::new(ErrorKind::Record, message).with("rollup", rollup.name.as_ref());
    error.hint("Set `rollup_keys = \"escaped\"` in a new generation of the model")
}

/// A rollup's key that DynamoDB does not accept is an error of the record when the rollup is written. An aggregate that does not
/// park its misfits must know it before.
fn check_key(aggregate: &Aggregate, target: &RollupTarget) -> Result<()> {
    match aggregate.on_misfit {
        OnMisfit::Park => Ok(()),
        OnMisfit::Skip | OnMisfit::Fail if target.has_valid_key() => Ok(()),
        OnMisfit::Skip | OnMisfit::Fail => {
            Err(Error::new(ErrorKind::Record, INVALID_ROLLUP_KEY).with("rollup", target.name.as_ref()))
        }
    }
}

enum MeasureAmount<'m> {
    Number(&'m Arc<str>, Decimal),
    Extreme(&'m Arc<str>, ExtremeRule, AttributeValue<'static>),
}

/// The amount of a measure; `None` if the item does not change it.
fn amount<'m>(measure: &'m Measure, scope: &ImageScope<'_, '_>) -> Result<Option<MeasureAmount<'m>>> {
    let number = |number| MeasureAmount::Number(&measure.name, number);
    let extreme = |rule, term: &Term, format: &ValueFormat| {
        let value = scope.extreme(term, format)?;
        Ok(value.map(|value| MeasureAmount::Extreme(&measure.name, rule, value)))
    };
    match &measure.kind {
        MeasureKind::Count => Ok(Some(number(Decimal::ONE))),
        MeasureKind::Sum { factors, constant } => {
            let product = product(measure, factors, constant.as_ref(), scope)?;
            Ok(product.filter(|product| !product.is_zero()).map(number))
        }
        MeasureKind::Max(term, format, mixed) => extreme(ExtremeRule::Largest(*mixed), term, format),
        MeasureKind::Min(term, format, mixed) => extreme(ExtremeRule::Smallest(*mixed), term, format),
        MeasureKind::Latest(latest) => {
            let seen = latest_text(latest, scope)?;
            Ok(seen.map(|text| MeasureAmount::Extreme(latest.seen(), ExtremeRule::Latest, text.into())))
        }
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

/// The text that `latest` compares; `None` if the item lacks the value or the time.
fn latest_text(latest: &Latest, scope: &ImageScope<'_, '_>) -> Result<Option<String>> {
    let value = scope.extreme(&latest.of, &latest.format)?;
    let Some(value) = value else { return Ok(None) };
    let by = scope.extreme(&latest.by, &latest.by_format)?;
    Ok(by.map(|by| Latest::text(&by, &scope.variables.join("#"), &value)))
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
