//! The description of the readers, from the compiled model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use afterwrite_model::harmless::harmless;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::{
    Aggregate, DeclaredType, DerivationKind, Measure, MeasureKind, Model, ModelNotation, Rank, Rollup,
    Template, TemplatePiece, Term, TimeFormat, ValueFormat,
};

use super::description::{
    ClientDescription, ExtremeType, KeyField, MirrorReader, MirrorValue, ReaderDescription, ReaderMeasure,
    ReaderRank, ReaderValue,
};
use super::names::{UniqueNames, identifier, type_name};
use super::runtime;

/// The time of examples: 2026-02-06T14:30:00Z.
const EXAMPLE_TIME: i64 = 1_770_388_200;

impl ClientDescription {
    /// The readers of a model.
    #[must_use]
    pub fn of(model: &Model) -> Self {
        let mut names = UniqueNames::default();
        let totals = types_of_totals(model);
        let readers = model.rollups.iter().enumerate();
        let readers = readers.map(|(index, rollup)| {
            let is_free = |name: &str| is_free(name) && !totals.contains(&type_name(name));
            let property = names.take(&rollup.name, is_free);
            reader(model, (index, rollup), property, &mut names)
        });
        Self {
            model: model.name.to_string(),
            generation: model.generation,
            fingerprint: model.fingerprint().to_string(),
            readers: readers.collect(),
            mirrors: mirrors(model),
        }
    }
}

/// The names of types whose plain numbers would have the name of another rollup's totals, in Python: `a_total` beside `a`, if not all measures of
/// `a` add up.
fn types_of_totals(model: &Model) -> BTreeSet<String> {
    let has_totals = |index: usize| measures(model, index).iter().any(|measure| !measure.value.adds_up());
    let rollups = model.rollups.iter().enumerate().filter(|(index, _)| has_totals(*index));
    rollups.map(|(_, rollup)| format!("{}Total", type_name(&identifier(&rollup.name)))).collect()
}

fn reader(
    model: &Model,
    (index, rollup): (usize, &Rollup),
    property: String,
    names: &mut UniqueNames,
) -> ReaderDescription {
    let formats = bucket_formats(model, index);
    let fields = key_fields(rollup, &formats);
    let template = |template: &Template| field_template(template, (&fields, &formats));
    let mut measures = measures(model, index);
    measures.sort_by_key(|measure| measure.value.is_computed());
    let ranks = rollup.ranks.iter().map(|rank| {
        let property = names.take(&format!("{property}_by_{}", rank.measure), is_free);
        reader_rank(rank, rollup, property, (&fields, &formats))
    });
    let ranks = ranks.collect();
    ReaderDescription {
        rollup: rollup.name.to_string(),
        type_name: type_name(&property),
        property,
        about: about(model, rollup),
        partition: template(&rollup.partition),
        sort: template(&rollup.sort),
        is_escaped: !rollup.keys.is_plain(),
        shards: rollup.shards,
        bucket: bucket(rollup, &formats),
        skips_zero: is_member(model, rollup),
        measures,
        ranks,
        fields,
    }
}

/// Whether no type of the fixed part has such a name.
fn is_free(name: &str) -> bool {
    !runtime::has_name_of(&type_name(name))
}

/// The sentences about a rollup.
fn about(model: &Model, rollup: &Rollup) -> Vec<String> {
    let description = rollup.describe();
    let mut about = vec![format!("The rollup `{}`: {}.", rollup.name, description.key)];
    if let Some((of, measure)) = rollup.name.rsplit_once('.').filter(|_| is_member(model, rollup)) {
        about.push(format!("Its items are the different values that `{measure}` of `{of}` counts."));
    }
    if rollup.shards > 1 {
        about.push(format!("It is spread over {} items, which are added up.", rollup.shards));
    }
    if let Some(expires) = description.expires {
        about.push(format!("It expires {expires}."));
    }
    about.into_iter().map(|sentence| harmless(&sentence).into_owned()).collect()
}

/// Whether a rollup holds the members of a distinct count.
fn is_member(model: &Model, rollup: &Rollup) -> bool {
    let parent = rollup.name.rsplit_once('.').map(|(parent, _)| parent);
    parent.is_some_and(|parent| model.rollups.iter().any(|other| *other.name == *parent))
}

/// The values of a key, aligned with [`Rollup::variables`].
fn key_fields(rollup: &Rollup, formats: &BucketFormats) -> Vec<KeyField> {
    let base = |index: usize| {
        let variable = rollup.variables.get(index).map_or("", |variable| variable);
        let time = formats.get(&index);
        let ending = time.map_or_else(String::new, |format| format!(":{format}"));
        variable.strip_suffix(&ending).unwrap_or(variable).to_owned()
    };
    let bases: Vec<String> = (0..rollup.variables.len()).map(|index| identifier(&base(index))).collect();
    let mut names = UniqueNames::default();
    let fields = rollup.variables.iter().enumerate().map(|(index, variable)| {
        let time = formats.get(&index);
        let is_shared = bases.iter().filter(|other| **other == identifier(&base(index))).count() > 1;
        let bucket = time.filter(|_| is_shared).map(|format| format!("_{}", format.bucket.name()));
        let name = names.take(&format!("{}{}", base(index), bucket.unwrap_or_default()), |_| true);
        let about = match time {
            Some(format) => format!("`{variable}`: {}", bucket_form(format)),
            None => format!("`{variable}`"),
        };
        KeyField { name, about: harmless(&about).into_owned(), is_partition: is_in(&rollup.partition, index) }
    });
    fields.collect()
}

/// The form of a bucket's text, by an example.
fn bucket_form(format: &TimeFormat) -> String {
    let mut example = String::new();
    let is_written = format.bucket.write(Timestamp::from_epoch_seconds(EXAMPLE_TIME), None, &mut example);
    let example = is_written.map_or_else(|| format.bucket.shape().to_owned(), |()| example);
    let zone = match format.zone.of_item() {
        Some(zone) => format!("the zone `{}` of each counted item", zone.name),
        None if format.to_string() == format.bucket.name() => "UTC".to_owned(),
        None => format.zone.to_string().trim_start_matches('@').to_owned(),
    };
    format!("the {} in {zone}, such as {example}", format.bucket.name())
}

/// The formats of the variables of a key that are buckets of time, by the variable's index.
type BucketFormats = BTreeMap<usize, TimeFormat>;

fn bucket_formats(model: &Model, rollup: usize) -> BucketFormats {
    let variables = model.rollups.get(rollup).map_or(0, |rollup| rollup.variables.len());
    (0..variables).filter_map(|variable| Some((variable, model.bucket_format(rollup, variable)?))).collect()
}

fn variable(piece: &TemplatePiece) -> Option<usize> {
    match piece {
        TemplatePiece::Literal(_) => None,
        TemplatePiece::Variable(index, _) => Some(*index),
    }
}

fn is_in(template: &Template, index: usize) -> bool {
    template.pieces.iter().filter_map(variable).any(|other| other == index)
}

/// The last variable of a key that is a bucket of time.
fn bucket(rollup: &Rollup, formats: &BucketFormats) -> Option<usize> {
    let pieces = rollup.partition.pieces.iter().chain(&rollup.sort.pieces);
    pieces.filter_map(variable).rfind(|index| formats.contains_key(index))
}

/// A template with the names of the fields, as the fixed part of a client reads it. No literal text has braces.
fn field_template(template: &Template, (fields, formats): (&[KeyField], &BucketFormats)) -> String {
    let piece = |piece: &TemplatePiece| match piece {
        TemplatePiece::Literal(text) => text.to_string(),
        TemplatePiece::Variable(index, _) => {
            let name = fields.get(*index).map_or("", |field| &field.name);
            let format = formats.get(index).map(|format| match format.zone.of_item() {
                Some(_) => format!(":{}@", format.bucket.name()),
                None => format!(":{format}"),
            });
            format!("{{{name}{}}}", format.unwrap_or_default())
        }
    };
    template.pieces.iter().map(piece).collect()
}

fn reader_rank(
    rank: &Rank,
    rollup: &Rollup,
    property: String,
    key: (&[KeyField], &BucketFormats),
) -> ReaderRank {
    let within = rank.within.as_ref().unwrap_or(&rollup.partition);
    let mut named: Vec<usize> = within.pieces.iter().filter_map(variable).collect();
    named.sort_unstable();
    named.dedup();
    ReaderRank {
        type_name: type_name(&property),
        property,
        measure: rank.measure.to_string(),
        within: field_template(within, key),
        shards: rank.shards,
        fields: named,
    }
}

/// The measures of a rollup, an index into [`Model::rollups`], in the order of the model.
fn measures(model: &Model, rollup: usize) -> Vec<ReaderMeasure> {
    let counts = |aggregate: &&Aggregate| aggregate.into.iter().any(|into| into.rollup == rollup);
    let aggregates = model.aggregates.iter().filter(counts);
    aggregates.flat_map(|aggregate| aggregate_measures(model, aggregate, rollup)).collect()
}

fn aggregate_measures(model: &Model, aggregate: &Aggregate, rollup: usize) -> Vec<ReaderMeasure> {
    let description = aggregate.describe(model);
    let items = match (&description.for_each, &description.when) {
        (Some(elements), Some(when)) => format!("`{}`, {elements}, when {when}", description.of),
        (Some(elements), None) => format!("`{}`, {elements}", description.of),
        (None, Some(when)) => format!("`{}` when {when}", description.of),
        (None, None) => format!("`{}`", description.of),
    };
    let members = distinct_members(model, aggregate, rollup);
    let described = aggregate.measures.iter().zip(description.measures.values());
    let measures = described.map(|(measure, described)| {
        let (text, value) = match &members {
            Some(member) => {
                (format!("the number of different values, which `{member}` lists"), ReaderValue::Distinct)
            }
            None => {
                let text = format!("{}, of {items}", described.text);
                (text, reader_value(model, aggregate, measure))
            }
        };
        ReaderMeasure { name: measure.name.to_string(), about: harmless(&text).into_owned(), value }
    });
    measures.collect()
}

/// The member rollup, if the aggregate counts the different values of a rollup.
fn distinct_members(model: &Model, aggregate: &Aggregate, rollup: usize) -> Option<String> {
    let source = model.entities.get(aggregate.of)?.rollup.and_then(|source| model.rollups.get(source))?;
    let rollup = model.rollups.get(rollup)?;
    let (parent, _) = source.name.rsplit_once('.').filter(|_| is_member(model, source))?;
    (*parent == *rollup.name).then(|| source.name.to_string())
}

fn reader_value(model: &Model, aggregate: &Aggregate, measure: &Measure) -> ReaderValue {
    let extreme = |term: &Term, format: &ValueFormat| extreme_type(model, aggregate, term, format);
    match &measure.kind {
        MeasureKind::Count => ReaderValue::Count,
        MeasureKind::Sum { .. } => ReaderValue::Sum,
        MeasureKind::Max(term, format, _) => ReaderValue::Max(extreme(term, format)),
        MeasureKind::Min(term, format, _) => ReaderValue::Min(extreme(term, format)),
        MeasureKind::Latest(latest) => ReaderValue::Latest(extreme(&latest.of, &latest.format)),
        MeasureKind::Histogram { width, labels, .. } => {
            let begins = (0..).map(|bin: i64| (bin * width).to_string());
            let bins = labels.iter().map(|label| label.to_string()).zip(begins);
            ReaderValue::Histogram(bins.map(<[String; 2]>::from).collect())
        }
        MeasureKind::Percentiles { bins, .. } => {
            let bins = bins.describe().into_iter().map(|bin| [bin.attribute, bin.estimate]);
            ReaderValue::Percentiles(bins.collect())
        }
        MeasureKind::Average { sum, count } => {
            ReaderValue::Average { sum: sum.to_string(), count: count.to_string() }
        }
        MeasureKind::Percentile { of, percent } => {
            ReaderValue::Percentile { of: of.to_string(), percent: percent.to_string() }
        }
    }
}

/// The values that an extreme compares, as far as the model says it.
fn extreme_type(model: &Model, aggregate: &Aggregate, term: &Term, format: &ValueFormat) -> ExtremeType {
    if !format.is_plain() {
        return ExtremeType::Text;
    }
    let Some(entity) = model.entities.get(aggregate.of) else { return ExtremeType::Any };
    match term {
        Term::Attribute(path) => {
            let name = ModelNotation::of(model, aggregate.of, &aggregate.lookups).attribute(path);
            let declared = entity.attributes.iter().find(|(path, _)| path.to_string() == name);
            declared.map_or(ExtremeType::Any, |(_, declared)| declared_extreme(*declared))
        }
        Term::Derived(index) => {
            entity.derivations.get(*index).map_or(ExtremeType::Any, |derived| derived_extreme(&derived.kind))
        }
        // A variable of a key that is a number in the text is refused (AW041).
        Term::Key(_) => ExtremeType::Text,
        Term::LookupOutput { .. } | Term::Element(_) => ExtremeType::Any,
    }
}

fn declared_extreme(declared: DeclaredType) -> ExtremeType {
    match declared {
        DeclaredType::Text => ExtremeType::Text,
        DeclaredType::Number => ExtremeType::Number,
        DeclaredType::Bool
        | DeclaredType::Map
        | DeclaredType::List
        | DeclaredType::TextSet
        | DeclaredType::NumberSet
        | DeclaredType::BinarySet
        | DeclaredType::Binary
        | DeclaredType::Any => ExtremeType::Any,
    }
}

fn derived_extreme(kind: &DerivationKind) -> ExtremeType {
    match kind {
        DerivationKind::Size(_)
        | DerivationKind::Number(_)
        | DerivationKind::Minus { .. }
        | DerivationKind::Duration { .. } => ExtremeType::Number,
        DerivationKind::Part { .. } => ExtremeType::Text,
        DerivationKind::Percent { .. } | DerivationKind::First(_) => ExtremeType::Any,
    }
}

/// The copies of each entity, in the order of the model.
fn mirrors(model: &Model) -> Vec<MirrorReader> {
    let mut names = UniqueNames::default();
    let entities = model.entities.iter().enumerate();
    let readers = entities.filter_map(|(index, entity)| {
        let values: Vec<MirrorValue> = mirror_values(model, index);
        if values.is_empty() {
            return None;
        }
        let property = names.take(&entity.name, is_free);
        let type_name = type_name(&property);
        Some(MirrorReader { entity: entity.name.to_string(), property, type_name, values })
    });
    readers.collect()
}

fn mirror_values(model: &Model, entity: usize) -> Vec<MirrorValue> {
    let mirrors = model.mirrors.iter().filter(|mirror| mirror.onto == entity);
    let values = mirrors.flat_map(|mirror| {
        let measures = measures(model, mirror.from);
        let rollup =
            model.rollups.get(mirror.from).map(|rollup| Arc::clone(&rollup.name)).unwrap_or_default();
        let values = mirror.attributes.iter().map(move |attribute| {
            let is_bin = |measure: &&ReaderMeasure| {
                measure.value.bins().iter().any(|[name, _]| *name == *attribute.measure)
            };
            let own = measures.iter().find(|measure| *measure.name == *attribute.measure);
            let value = match own {
                Some(measure) => measure.value.clone(),
                None if measures.iter().any(|measure| is_bin(&measure)) => ReaderValue::Count,
                None => ReaderValue::Sum,
            };
            let about = format!("`{}` of `{rollup}`", attribute.measure);
            let path = attribute.path.names().iter().map(ToString::to_string).collect();
            MirrorValue {
                written: attribute.path.to_string(),
                path,
                about: harmless(&about).into_owned(),
                value,
            }
        });
        values.collect::<Vec<_>>()
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_bind_fills_with_a_day_is_a_bucket() {
        let model = r##"
name = "scans"
generation = 1
tables.Scans.key = ["pk", "sk"]
[entities.scan]
key = { pk = "DEPOT#{depot}", sk = "SCAN#{scan}" }
attributes = { at = "S" }
[rollups.depot_day]
key = { PK = "DEPOT#{depot}", SK = "DAY#{day}" }
[[aggregates]]
name = "scans"
of = "scan"
into = "depot_day"
bind = { day = "at:day@Europe/Berlin" }
measures.scans = "count"
"##;
        let model = Model::parse(model, "scans.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let description = ClientDescription::of(&model);
        let [reader] = &description.readers[..] else { panic!("{description:?}") };
        assert_eq!((reader.bucket, &*reader.sort), (Some(1), "DAY#{day:day@Europe/Berlin}"));
        assert!(reader.fields[1].about.starts_with("`day`: the day in Europe/Berlin"), "{reader:?}");
    }
}
