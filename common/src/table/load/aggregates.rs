//! Aggregates: which rollups an entity's items address, and what is counted there.

use std::sync::Arc;

use super::document::{AggregateSettings, MeasureKindSettings, MeasureSettings, ValueType};
use super::part::EntityContext;
use super::problem::suggestion;
use super::reader::Located;
use super::resolve::{HeldMeasure, ModelCompiler};
use super::scope::EntityScope;
use crate::table::template::split_format;
use crate::table::{
    Aggregate, AverageMeasure, BoundTemplate, Measure, MeasureKind, RollupDestination, RollupExpiry, Term,
    ValueFormat,
};

/// Compiles an aggregate.
pub(super) fn aggregate(
    compiler: &mut ModelCompiler<'_, '_, '_>,
    index: usize,
    settings: &AggregateSettings<'_>,
) {
    let owner = format!("aggregate `{}`", settings.name.value);
    let of = compiler.entity_named(&owner, settings.of);
    let lookups: Vec<usize> =
        settings.lookups.iter().filter_map(|name| compiler.lookup_named(&owner, *name)).collect();
    let rollups: Vec<(usize, usize)> = settings
        .into
        .iter()
        .filter_map(|name| Some((compiler.rollup_named(&owner, *name)?, name.at)))
        .collect();
    let mut compiled = Aggregate {
        name: Arc::from(settings.name.value),
        of: of.unwrap_or(0),
        when: None,
        lookups: Vec::new(),
        into: Vec::new(),
        measures: Vec::new(),
    };
    // Of an unknown entity nothing can be resolved.
    if let Some(of) = of {
        let mut entity = std::mem::take(compiler.scopes.get_mut(of).unwrap_or(&mut EntityScope::default()));
        let was_incomplete = entity.is_incomplete;
        entity.is_incomplete |= lookups.len() < settings.lookups.len();
        let mut part = EntityContext {
            compiler,
            owner,
            entity_name: settings.of.value,
            entity: &entity,
            outputs: Vec::new(),
        };
        compiled.lookups = part.lookups(&settings.lookups, settings.name.at, &lookups);
        let owner = part.owner.clone();
        compiled.when = settings.when.and_then(|when| part.pattern(&owner, when));
        compiled.into = rollups.iter().map(|(rollup, at)| part.destination(*rollup, *at)).collect();
        compiled.measures = settings.measures.iter().filter_map(|measure| part.measure(measure)).collect();
        if let Some(scope) = compiler.scopes.get_mut(of) {
            *scope = EntityScope { is_incomplete: was_incomplete, ..entity };
        }
        if let Some(entity) = compiler.model.entities.get_mut(of) {
            entity.aggregates.push(index);
        }
    }
    hold(compiler, index, settings, &rollups);
    compiler.model.aggregates.push(compiled);
}

impl EntityContext<'_, '_, '_, '_> {
    /// A rollup whose key's variables are bound to this entity's values.
    fn destination(&mut self, rollup: usize, at: usize) -> RollupDestination {
        let mut bound = [BoundTemplate { pieces: Vec::new() }, BoundTemplate { pieces: Vec::new() }];
        let mut expires = None;
        if let Some(found) = self.compiler.model.rollups.get(rollup) {
            let (partition, sort, variables) =
                (found.partition.clone(), found.sort.clone(), found.variables.clone());
            let owner = format!("{}: rollup `{}`", self.owner, found.name);
            bound = [&partition, &sort].map(|template| self.bind(&owner, at, template, &variables));
            expires = self.expiry(&owner, rollup, at);
        }
        let [partition, sort] = bound;
        RollupDestination { rollup, partition, sort, expires }
    }

    fn expiry(&mut self, owner: &str, rollup: usize, at: usize) -> Option<RollupExpiry> {
        let document = self.compiler.document;
        let (after, of) = document.rollups.get(rollup)?.expires?;
        let owner = format!("{owner}: `expires`");
        let variables = &self.compiler.model.rollups.get(rollup)?.variables;
        let is_it = |name: &&Arc<str>| split_format(name).is_ok_and(|(base, _)| base == of.value);
        let Some(variable) =
            variables.iter().find(|name| ***name == *of.value).or(variables.iter().find(is_it))
        else {
            let bases = variables.iter().map(|name| split_format(name).map_or(&**name, |(base, _)| base));
            let message = format!(
                "{owner}: `{}` is no variable of the rollup's key, and what is counted into it would not agree on when it expires; name one that is{}",
                of.value,
                suggestion(of.value, bases)
            );
            self.compiler.report(of.at, message);
            return None;
        };
        let variable = Arc::clone(variable);
        let resolved = self.resolve(&owner, Located { value: &*variable, at })?;
        if !resolved.value_type.fits_key(ValueFormat::Day) {
            let described = resolved.value_type.described();
            self.compiler.report(
                of.at,
                format!("{owner}: `{}` is {described}, not a time; name text or a number", of.value),
            );
        }
        Some(RollupExpiry { of: resolved.term, format: resolved.format, after })
    }

    /// A measure; `None` for an average, which is the rollup's own, and for a wrong one.
    fn measure(&mut self, settings: &MeasureSettings<'_>) -> Option<Measure> {
        let owner = format!("{}: measure `{}`", self.owner, settings.name.value);
        let when = settings.when.and_then(|when| self.pattern(&owner, when));
        let kind = match &settings.kind {
            MeasureKindSettings::Count => MeasureKind::Count,
            MeasureKindSettings::Sum(names) => {
                let terms =
                    names.iter().filter_map(|name| self.number(&owner, *name, "a sum is of numbers", false));
                MeasureKind::Sum(terms.collect())
            }
            MeasureKindSettings::Max(name) => {
                let (term, format) = self.comparable(&owner, *name)?;
                MeasureKind::Max(term, format)
            }
            MeasureKindSettings::Min(name) => {
                let (term, format) = self.comparable(&owner, *name)?;
                MeasureKind::Min(term, format)
            }
            MeasureKindSettings::Histogram { of, width, bins } => {
                let of = self.number(&owner, *of, "a histogram is of numbers", true)?;
                let labels = bin_labels(settings.name.value, *width, *bins);
                MeasureKind::Histogram {
                    of,
                    width: *width,
                    labels: labels.into_iter().map(Arc::from).collect(),
                }
            }
            MeasureKindSettings::Average { .. } => return None,
        };
        Some(Measure { name: Arc::from(settings.name.value), when, kind })
    }

    fn number(&mut self, owner: &str, name: Located<&str>, rule: &str, ratio: bool) -> Option<Term> {
        let resolved = self.resolve(owner, name)?;
        let fits = resolved.value_type.is_numeric() || (ratio && resolved.value_type == ValueType::Ratio);
        if !fits {
            let described = resolved.value_type.described();
            self.compiler.report(name.at, format!("{owner}: `{}` is {described}; {rule}", name.value));
        } else if resolved.format != ValueFormat::Plain {
            self.compiler
                .report(name.at, format!("{owner}: `{}`: numbers take no formats; leave it out", name.value));
        }
        Some(resolved.term)
    }

    fn comparable(&mut self, owner: &str, name: Located<&str>) -> Option<(Term, ValueFormat)> {
        let resolved = self.resolve(owner, name)?;
        let fits = match resolved.format {
            ValueFormat::Plain => {
                matches!(resolved.value_type, ValueType::Text | ValueType::Number | ValueType::Any)
            }
            ValueFormat::Day => resolved.value_type.fits_key(ValueFormat::Day),
        };
        if !fits {
            let described = resolved.value_type.described();
            self.compiler.report(
                name.at,
                format!("{owner}: `{}` is {described}; `max` and `min` are of numbers or texts", name.value),
            );
        }
        Some((resolved.term, resolved.format))
    }
}

/// The attributes of a histogram's bins: the name and the bin's lower bound, padded to one length.
fn bin_labels(name: &str, width: i64, bins: i64) -> Vec<String> {
    let digits = (width * (bins - 1)).to_string().len();
    (0..bins).map(|bin| format!("{name}_{:0digits$}", bin * width)).collect()
}

/// Notes what the rollups of an aggregate hold of it, and what they must be read for.
fn hold(
    compiler: &mut ModelCompiler<'_, '_, '_>,
    index: usize,
    settings: &AggregateSettings<'_>,
    rollups: &[(usize, usize)],
) {
    let owner = format!("aggregate `{}`", settings.name.value);
    for measure in &settings.measures {
        if let MeasureKindSettings::Average { sum, over } = &measure.kind {
            let owner = format!("{owner}: measure `{}`", measure.name.value);
            average_part(compiler, &owner, settings, *sum);
            average_part(compiler, &owner, settings, *over);
        }
        let attributes = if let MeasureKindSettings::Histogram { width, bins, .. } = &measure.kind {
            bin_labels(measure.name.value, *width, *bins)
        } else {
            vec![measure.name.value.to_owned()]
        };
        for (rollup, _) in rollups {
            let held = attributes.iter().map(|attribute| HeldMeasure {
                rollup: *rollup,
                attribute: Arc::from(attribute.as_str()),
                aggregate: index,
                at: measure.name.at,
            });
            compiler.held.extend(held);
            let Some(rollup) = compiler.model.rollups.get_mut(*rollup) else { continue };
            let computed = match &measure.kind {
                MeasureKindSettings::Max(_) | MeasureKindSettings::Min(_) => {
                    rollup.extremes.push(Arc::from(measure.name.value));
                    true
                }
                MeasureKindSettings::Average { sum, over } => {
                    rollup.averages.push(AverageMeasure {
                        name: Arc::from(measure.name.value),
                        sum: Arc::from(sum.value),
                        count: Arc::from(over.value),
                    });
                    true
                }
                MeasureKindSettings::Count
                | MeasureKindSettings::Sum(_)
                | MeasureKindSettings::Histogram { .. } => false,
            };
            if computed && rollup.shards > 1 {
                let message = format!(
                    "{owner}: measure `{}`: rollup `{}` is sharded, and `max`, `min` and `avg` cannot be; give them a rollup of their own",
                    measure.name.value, rollup.name
                );
                compiler.report(measure.name.at, message);
            }
        }
    }
}

/// What an average divides, and by what, must be counts or sums of the same aggregate.
fn average_part(
    compiler: &mut ModelCompiler<'_, '_, '_>,
    owner: &str,
    settings: &AggregateSettings<'_>,
    name: Located<&str>,
) {
    let is_added = |measure: &&MeasureSettings<'_>| {
        matches!(measure.kind, MeasureKindSettings::Count | MeasureKindSettings::Sum(_))
    };
    let added: Vec<&str> =
        settings.measures.iter().filter(is_added).map(|measure| measure.name.value).collect();
    if !added.contains(&name.value) {
        let nearest = suggestion(name.value, added);
        compiler.report(
            name.at,
            format!("{owner}: `{}` is no count or sum of this aggregate{nearest}", name.value),
        );
    }
}
