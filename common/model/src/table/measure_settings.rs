//! How a model writes measures: `"count"`, `{ sum = "price" }`, `{ histogram = "percent", width = 10, bins = 10 }`.

use std::sync::Arc;

use toml::de::DeValue;

use super::latest::Latest;
use super::load::compiler::{EntityContext, ModelCompiler};
use super::load::problem::{ProblemCode, ProblemCollector};
use super::load::reader::{self, Located, RawValue, SettingsTable, WrittenFactor, entries};
use super::load::suggestion::{listed, nearest};
use super::measure::{CompiledMeasure, ComputedParts, MeasureFunction, MeasureKind};
use super::named::{NamedValue as _, meant};
use super::percentile::{MAX_BINS, PercentileBins};
use super::value_type::{MixedTypes, ValueType};
use super::{Pattern, Term, ValueFormat};
use crate::record::Decimal;

/// The longest name of a measure, in letters. DynamoDB's limit on attributes that are no keys is higher, and the name of a measure is a part of others.
const MAX_NAME: usize = 255;

fn check_name(compiler: &mut ModelCompiler<'_, '_>, kind: &str, name: Located<&str>) {
    compiler.check_name(kind, name);
    if name.value.len() > MAX_NAME {
        let message = format!("{kind}: a name has at most {MAX_NAME} letters");
        compiler.report(ProblemCode::InvalidName, name.at, message);
    }
}

/// Compiles a measure; `None` if it cannot be read.
pub(super) fn compile<'d>(
    context: &mut EntityContext<'_, '_, '_>,
    name: Located<&'d str>,
    value: RawValue<'d>,
) -> Option<CompiledMeasure<'d>> {
    let owner = format!("{}: measure `{}`", context.owner, name.value);
    let kind = format!("{}: measure", context.owner);
    check_name(context.compiler, &kind, name);
    let problems = &mut *context.compiler.problems;
    if let DeValue::String(function) = value.get_ref() {
        if function == MeasureFunction::Count.name() {
            return Some(CompiledMeasure::new(name, MeasureFunction::Count, Some(MeasureKind::Count), None));
        }
        let message = format!(
            "{owner}: only \"count\" can be written as a string; other measures are tables, like {{ sum = \"attribute\" }}{}",
            meant::<MeasureFunction>(function)
        );
        problems.report(ProblemCode::UnknownMeasureKind, reader::place(value), message);
        return None;
    }
    let table = reader::table(&owner, value, problems)?;
    let mut named: Vec<MeasureFunction> =
        entries(table).iter().filter_map(|(key, _)| MeasureFunction::of_name(key.value)).collect();
    if named.is_empty() {
        // A misspelt function is reported as a misspelt key.
        let meant = entries(table);
        let meant =
            meant.iter().find_map(|(key, _)| nearest(key.value, MeasureFunction::NAMES.iter().copied()));
        named.extend(meant.and_then(MeasureFunction::of_name));
    }
    let [function] = *named.as_slice() else {
        let message = format!("{owner}: name exactly one of {}", listed(MeasureFunction::NAMES));
        problems.report(ProblemCode::UnknownMeasureKind, name.at, message);
        return None;
    };
    let settings = SettingsTable::new(owner, name.at, table, function.settings(), problems);
    let when = context.pattern(&settings.owner, settings.get("when"));
    let problems = &mut *context.compiler.problems;
    match function {
        MeasureFunction::Count => {
            if settings.get("count").and_then(|value| value.get_ref().as_bool()) != Some(true) {
                let message = format!("{}: `count` must be true", settings.owner);
                problems.report(ProblemCode::UnknownMeasureKind, name.at, message);
            }
            Some(CompiledMeasure::new(name, function, Some(MeasureKind::Count), when))
        }
        MeasureFunction::Sum => {
            let kind = context.sum(&settings, name.at);
            Some(CompiledMeasure::new(name, function, Some(kind), when))
        }
        MeasureFunction::Max | MeasureFunction::Min => {
            let extreme = if function == MeasureFunction::Max { MeasureKind::Max } else { MeasureKind::Min };
            let (kind, is_number) = context.extreme(&settings, function, extreme)?;
            let compiled = CompiledMeasure::new(name, function, kind, when);
            Some(if is_number { CompiledMeasure { texts: Vec::new(), ..compiled } } else { compiled })
        }
        MeasureFunction::Latest => {
            let (kind, is_number) = context.latest(&settings, name.value)?;
            let [seen, value] = Latest::attributes(name.value);
            let texts =
                if is_number { vec![Arc::clone(&seen)] } else { vec![Arc::clone(&seen), Arc::clone(&value)] };
            let attributes = vec![seen, value];
            Some(CompiledMeasure { attributes, texts, ..CompiledMeasure::new(name, function, kind, when) })
        }
        MeasureFunction::Histogram => {
            settings.require("width", problems);
            settings.require("bins", problems);
            let width = settings.integer("width", 1..=i64::from(u32::MAX), problems);
            let bins = settings.integer("bins", 1..=i64::from(MAX_BINS), problems);
            let of = settings.required_text("histogram", problems)?;
            let width = width?;
            let labels = bin_labels(name.value, width, bins?);
            let of = context.number(&settings.owner, of, function);
            let kind = of.map(|of| MeasureKind::Histogram { of, width, labels: labels.clone() });
            Some(CompiledMeasure { attributes: labels, ..CompiledMeasure::new(name, function, kind, when) })
        }
        MeasureFunction::Average => average(&settings, name, when, problems),
        MeasureFunction::Percentiles => {
            let kind = context.percentiles(&settings, name);
            let labels = kind.as_ref().map(|(_, bins)| bins.labels.clone()).unwrap_or_default();
            let kind = kind.and_then(|(of, bins)| Some(MeasureKind::Percentiles { of: of?, bins }));
            Some(CompiledMeasure { attributes: labels, ..CompiledMeasure::new(name, function, kind, when) })
        }
        MeasureFunction::Distinct => {
            let of = settings.required_text("distinct", problems)?;
            let counted = CompiledMeasure::new(name, function, Some(MeasureKind::Count), when);
            Some(CompiledMeasure { attributes: Vec::new(), parts: ComputedParts::Distinct(of), ..counted })
        }
        MeasureFunction::Percentile => percentile(&settings, name, when, problems),
    }
}

/// One measure of the aggregate divided by another.
fn average<'d>(
    settings: &SettingsTable<'d>,
    name: Located<&'d str>,
    when: Option<Pattern>,
    problems: &mut ProblemCollector<'_>,
) -> Option<CompiledMeasure<'d>> {
    let function = MeasureFunction::Average;
    let sum = settings.required_text("avg", problems)?;
    if settings.get("over").is_none() {
        let message = format!(
            "{}: `over` is missing; an average needs a sum and a count, both measures of this aggregate: {{ avg = \"price_sum\", over = \"books\" }}",
            settings.owner
        );
        problems.report(ProblemCode::MissingKey, name.at, message);
        problems.mark_incomplete();
    }
    let over = settings.text("over", problems)?;
    let kind = MeasureKind::Average { sum: Arc::from(sum.value), count: Arc::from(over.value) };
    Some(CompiledMeasure {
        parts: ComputedParts::Average([sum, over]),
        ..CompiledMeasure::new(name, function, Some(kind), when)
    })
}

/// The estimate of a percentile from the bins of another measure.
fn percentile<'d>(
    settings: &SettingsTable<'d>,
    name: Located<&'d str>,
    when: Option<Pattern>,
    problems: &mut ProblemCollector<'_>,
) -> Option<CompiledMeasure<'d>> {
    let function = MeasureFunction::Percentile;
    let percent = settings.decimal("percentile", problems);
    let of = settings.required_text("of", problems)?;
    let percent = percent?;
    if percent.sign().is_le() || percent > Decimal::from(100) {
        let message = format!("{}: `percentile` must be above 0 and at most 100", settings.owner);
        problems.report(ProblemCode::NumberOutOfRange, name.at, message);
    }
    let kind = MeasureKind::Percentile { of: Arc::from(of.value), percent };
    Some(CompiledMeasure {
        parts: ComputedParts::Percentile(of),
        ..CompiledMeasure::new(name, function, Some(kind), when)
    })
}

/// The attributes of a histogram's bins: the name and the bin's lower bound, padded to one length.
fn bin_labels(name: &str, width: i64, bins: i64) -> Vec<Arc<str>> {
    let digits = (width * (bins - 1)).to_string().len();
    (0..bins).map(|bin| Arc::from(format!("{name}_{:0digits$}", bin * width))).collect()
}

impl EntityContext<'_, '_, '_> {
    fn sum(&mut self, settings: &SettingsTable<'_>, at: usize) -> MeasureKind {
        let problems = &mut *self.compiler.problems;
        let written = settings.factors("sum", problems);
        if settings.is_empty_list("sum") {
            let message = format!("{}: `sum` is empty; name an attribute", settings.owner);
            problems.report(ProblemCode::EmptySetting, at, message);
        }
        let (mut factors, mut constant) = (Vec::new(), None::<Decimal>);
        for factor in written {
            match factor {
                WrittenFactor::Name(name) => {
                    factors.extend(self.number(&settings.owner, name, MeasureFunction::Sum));
                }
                WrittenFactor::Number(number) => {
                    let product = constant.as_ref().map_or(Ok(number.clone()), |known| known.times(&number));
                    match product {
                        Ok(product) => constant = Some(product),
                        Err(_) => {
                            let message = format!(
                                "{}: the product of the constants exceeds 38 digits; use smaller ones",
                                settings.owner
                            );
                            self.report(ProblemCode::NumberOutOfRange, at, message);
                        }
                    }
                }
            }
        }
        MeasureKind::Sum { factors, constant }
    }

    /// The value of percentiles, and their bins.
    fn percentiles(
        &mut self,
        settings: &SettingsTable<'_>,
        name: Located<&str>,
    ) -> Option<(Option<Term>, Arc<PercentileBins>)> {
        let problems = &mut *self.compiler.problems;
        let of = settings.required_text("percentiles", problems);
        let mut number = |name| {
            settings.require(name, problems);
            settings.decimal(name, problems)
        };
        let [relative_error, from, to] = ["relative_error", "from", "to"].map(&mut number);
        let of = of.and_then(|of| self.number(&settings.owner, of, MeasureFunction::Percentiles));
        match PercentileBins::new(name.value, relative_error?, [from?, to?]) {
            Ok(bins) => Some((of, Arc::new(bins))),
            Err(problem) => {
                let message = format!("{}: {problem}", settings.owner);
                self.report(ProblemCode::UnusableBins, name.at, message);
                None
            }
        }
    }

    fn number(&mut self, owner: &str, name: Located<&str>, function: MeasureFunction) -> Option<Term> {
        let resolved = self.resolve(owner, name)?;
        let takes_ratios = function == MeasureFunction::Histogram;
        let fits =
            resolved.value_type.is_numeric() || (takes_ratios && resolved.value_type == ValueType::Ratio);
        if !fits {
            let (described, function) = (resolved.value_type.described(), function.name());
            let message = format!("{owner}: `{}` is {described}; a {function} is of numbers", name.value);
            self.report(ProblemCode::UnfitMeasureValue, name.at, message);
        } else if !resolved.format.is_plain() {
            let message = format!("{owner}: `{}`: numbers take no formats; leave it out", name.value);
            self.report(ProblemCode::UnusableFormat, name.at, message);
        }
        Some(resolved.term)
    }

    /// The largest or smallest value, and whether it is always a number.
    fn extreme(
        &mut self,
        settings: &SettingsTable<'_>,
        function: MeasureFunction,
        extreme: fn(Term, ValueFormat, MixedTypes) -> MeasureKind,
    ) -> Option<(Option<MeasureKind>, bool)> {
        let of = settings.required_text(function.name(), self.compiler.problems)?;
        let ordered = self.ordered(&settings.owner, of);
        let is_number = ordered.as_ref().is_some_and(|ordered| ordered.is_number);
        Some((
            ordered.map(|OrderedValue { term, format, mixed, .. }| extreme(term, format, mixed)),
            is_number,
        ))
    }

    /// The value of the item with the latest time, and whether it is always a number.
    fn latest(&mut self, settings: &SettingsTable<'_>, name: &str) -> Option<(Option<MeasureKind>, bool)> {
        let problems = &mut *self.compiler.problems;
        settings.require("by", problems);
        let [of, by] = ["latest", "by"].map(|key| settings.text(key, problems));
        let [of, by] = [of?, by?].map(|written| self.ordered(&settings.owner, written));
        let is_number = of.as_ref().is_some_and(|of| of.is_number);
        let kind = of.zip(by).map(|(of, by)| {
            let attributes = Latest::attributes(name);
            let (of, format, by, by_format) = (of.term, of.format, by.term, by.format);
            MeasureKind::Latest(Box::new(Latest { of, format, by, by_format, attributes }))
        });
        Some((kind, is_number))
    }

    fn ordered(&mut self, owner: &str, name: Located<&str>) -> Option<OrderedValue> {
        let resolved = self.resolve(owner, name)?;
        // With a format, texts of that format are compared.
        let fits = match resolved.format {
            ValueFormat::Plain => resolved.value_type.is_comparable(),
            ValueFormat::Time(_) => resolved.value_type.is_ordered(),
        };
        if !fits {
            let described = resolved.value_type.described();
            let message = format!(
                "{owner}: `{}` is {described}; {} are of numbers alone or of texts alone",
                name.value,
                listed(&MeasureFunction::names_of(MeasureFunction::is_extreme))
            );
            self.report(ProblemCode::UnfitMeasureValue, name.at, message);
        }
        if resolved.term.key_variable().is_some() && resolved.is_number(&self.scope) {
            let remedy = if self.scope.buckets.is_empty() {
                format!(
                    "declare the attribute of the key in `attributes`, and give the variable another name than `{}`",
                    name.value
                )
            } else {
                "name a measure of the rollup, such as the `max` of the number".to_owned()
            };
            let message = format!(
                "{owner}: `{0}` is a number in the text of a key, and texts are not in the order of numbers; {remedy}",
                name.value
            );
            self.report(ProblemCode::UnfitMeasureValue, name.at, message);
        }
        let is_number = resolved.value_type == ValueType::Number && resolved.format == ValueFormat::Plain;
        let is_open = resolved.value_type == ValueType::Any && resolved.format.is_plain();
        let mixed = if is_open { MixedTypes::NumbersFirst } else { MixedTypes::Replaced };
        Some(OrderedValue { term: resolved.term, format: resolved.format, is_number, mixed })
    }
}

/// A value of a `max`, `min` or `latest`.
struct OrderedValue {
    term: Term,
    format: ValueFormat,
    /// Whether it is always a number.
    is_number: bool,
    mixed: MixedTypes,
}
