//! Measures that a rollup computes from other measures of their aggregate, and each rollup's knowledge of the measures that count into it.

use std::sync::Arc;

use super::computed_measure::{ComputedMeasure, ComputedRule};
use super::load::compiler::{ModelCompiler, RollupMeasure};
use super::load::problem::ProblemCode;
use super::load::suggestion::{joined, suggestion};
use super::measure::{
    CompiledMeasure, ComputedParts, Measure, MeasureFunction, MeasureKind, averaged, with_percentiles,
};

/// Registers the measures with the rollups of their aggregate.
pub(super) fn register_measures(
    compiler: &mut ModelCompiler<'_, '_>,
    owner: &str,
    measures: &[CompiledMeasure<'_>],
    rollups: &[(usize, usize)],
) {
    let aggregate = compiler.model.aggregates.len();
    for compiled in measures {
        let CompiledMeasure { name, function, attributes, texts, .. } = compiled;
        let owner = format!("{owner}: measure `{}`", name.value);
        check_parts(compiler, &owner, compiled, measures);
        for (rollup, _) in rollups.iter().copied() {
            compiler.measures.extend(attributes.iter().map(|attribute| RollupMeasure {
                rollup,
                attribute: Arc::clone(attribute),
                aggregate,
                is_number: !texts.contains(attribute),
                at: name.at,
            }));
            let Some(rollup) = compiler.model.rollups.get_mut(rollup) else { continue };
            if function.is_extreme() {
                // Of `latest`, the attribute that is compared is the first.
                rollup.extremes.extend(attributes.first().cloned());
            }
            let rule = compiled.measure.as_ref().and_then(|measure| computed_rule(measure, measures));
            rollup.computed.extend(rule.map(|rule| ComputedMeasure { name: Arc::from(name.value), rule }));
            if function.needs_whole_rollup() && rollup.shards > 1 {
                let message = format!(
                    "{owner}: rollup `{}` is sharded, and a sharded rollup has no {}; count them into a rollup of their own",
                    rollup.name,
                    joined(&MeasureFunction::names_of(MeasureFunction::needs_whole_rollup), "or")
                );
                compiler.findings.report(ProblemCode::ShardedMeasure, name.at, message);
            }
        }
    }
}

/// Reports parts of a computed measure that are not measures of the same aggregate, of the right kind.
fn check_parts(
    compiler: &mut ModelCompiler<'_, '_>,
    owner: &str,
    compiled: &CompiledMeasure<'_>,
    measures: &[CompiledMeasure<'_>],
) {
    match &compiled.parts {
        ComputedParts::None | ComputedParts::Distinct(_) => {}
        ComputedParts::Average(parts) => {
            let averaged = averaged(measures);
            for part in parts.iter().filter(|part| !averaged.contains(&part.value)) {
                let nearest = suggestion(part.value, averaged.iter().copied());
                let message =
                    format!("{owner}: `{}` is not a count or sum of this aggregate{nearest}", part.value);
                compiler.report(ProblemCode::UnfitAverage, part.at, message);
            }
        }
        ComputedParts::Percentile(of) => {
            let known = with_percentiles(measures);
            if !known.contains(&of.value) {
                let nearest = suggestion(of.value, known.iter().copied());
                let message = format!(
                    "{owner}: `{}` is not a measure `percentiles` of this aggregate{nearest}",
                    of.value
                );
                compiler.report(ProblemCode::UnfitPercentile, of.at, message);
            }
        }
    }
}

/// How a rollup computes a measure from other measures of its aggregate; `None` if items contribute to it.
fn computed_rule(measure: &Measure, measures: &[CompiledMeasure<'_>]) -> Option<ComputedRule> {
    match &measure.kind {
        MeasureKind::Average { sum, count } => {
            Some(ComputedRule::Average { sum: Arc::clone(sum), count: Arc::clone(count) })
        }
        MeasureKind::Percentile { of, percent } => {
            let measures = measures.iter().filter_map(|compiled| compiled.measure.as_ref());
            let bins = measures.filter(|other| other.name == *of).find_map(Measure::percentile_bins)?;
            Some(ComputedRule::Percentile { percent: percent.clone(), bins: Arc::clone(bins) })
        }
        MeasureKind::Latest(latest) => Some(ComputedRule::Latest { seen: Arc::clone(latest.seen()) }),
        MeasureKind::Count
        | MeasureKind::Sum { .. }
        | MeasureKind::Max(..)
        | MeasureKind::Min(..)
        | MeasureKind::Histogram { .. }
        | MeasureKind::Percentiles { .. } => None,
    }
}
