//! Measures, the numbers that an aggregate counts: `measures.<name>` of an aggregate.

use std::sync::Arc;

use toml::de::DeValue;

use super::load::compiler::EntityContext;
use super::load::problem::ProblemCode;
use super::load::reader::{self, Located, RawValue, SettingsTable, WrittenFactor, entries};
use super::load::suggestion::{listed, nearest};
use super::named::{NamedValue as _, meant, named_values};
use super::percentile::PercentileBins;
use super::value_type::ValueType;
use super::{ModelNotation, Pattern, Term, ValueFormat};
use crate::record::Decimal;

/// More bins than this make an item that nobody reads.
pub(super) const MAX_BINS: i64 = 200;

/// The contribution of an item to one attribute of a rollup.
#[derive(Debug)]
pub struct Measure {
    /// The rollup's attribute; of a measure with bins, the beginning of their names.
    pub name: Arc<str>,
    /// The condition on the item.
    pub when: Option<Pattern>,
    /// How much.
    pub kind: MeasureKind,
}

/// How much an item contributes.
#[derive(Debug)]
pub enum MeasureKind {
    /// One.
    Count,
    /// The product of some numbers; nothing if one is absent.
    Sum {
        /// The numbers of the item.
        factors: Vec<Term>,
        /// The product of the constants, if there are any.
        constant: Option<Decimal>,
    },
    /// The largest value ever seen, number or formatted text. Does not retract.
    Max(Term, ValueFormat),
    /// The smallest value ever seen, number or formatted text. Does not retract.
    Min(Term, ValueFormat),
    /// One, in the bin that the value lies in: bin `i` holds values from `i·width` up; the last has no upper end, and below
    /// the first nothing is counted.
    Histogram {
        /// The value.
        of: Term,
        /// The width of a bin.
        width: i64,
        /// The attributes of the bins, lowest first.
        labels: Vec<Arc<str>>,
    },
    /// Nothing: the rollup computes it from these two of its measures. See [`super::ComputedMeasure`].
    Average {
        /// The measure that is divided.
        sum: Arc<str>,
        /// The measure that it is divided by.
        count: Arc<str>,
    },
    /// One, in the bin that the value lies in: see [`PercentileBins`].
    Percentiles {
        /// The value.
        of: Term,
        /// The bins.
        bins: Arc<PercentileBins>,
    },
    /// Nothing: the rollup computes it from the bins of another measure. See [`super::ComputedMeasure`].
    Percentile {
        /// The measure with the bins.
        of: Arc<str>,
        /// Which percentile: above 0, at most 100.
        percent: Decimal,
    },
}

named_values! {
    /// The aggregate function of a measure, by the setting that names it.
    pub enum MeasureFunction {
        /// How many items there are.
        Count = "count",
        /// The sum of a value.
        Sum = "sum",
        /// The largest value ever seen.
        Max = "max",
        /// The smallest value ever seen.
        Min = "min",
        /// How many items there are in each range of a value.
        Histogram = "histogram",
        /// One measure divided by another.
        Average = "avg",
        /// How many items there are in each range of a value; the ranges grow with the value.
        Percentiles = "percentiles",
        /// The value that a part of the items do not exceed.
        Percentile = "percentile",
    }
}

impl MeasureFunction {
    /// Whether items add to it, and subtract theirs when they change or go; it starts at 0.
    #[must_use]
    pub fn is_additive(self) -> bool {
        match self {
            Self::Count | Self::Sum | Self::Histogram | Self::Percentiles => true,
            Self::Max | Self::Min | Self::Average | Self::Percentile => false,
        }
    }

    /// Whether it keeps the most extreme value it has seen and never goes back.
    #[must_use]
    pub fn is_extreme(self) -> bool {
        match self {
            Self::Max | Self::Min => true,
            Self::Count
            | Self::Sum
            | Self::Histogram
            | Self::Average
            | Self::Percentiles
            | Self::Percentile => false,
        }
    }

    /// Whether items contribute to it; otherwise the rollup computes it from other measures.
    #[must_use]
    pub fn is_contributed(self) -> bool {
        self.is_additive() || self.is_extreme()
    }

    /// Whether an average can be computed from it: it is one number that is added to.
    fn can_be_averaged(self) -> bool {
        match self {
            Self::Count | Self::Sum => true,
            Self::Max
            | Self::Min
            | Self::Histogram
            | Self::Average
            | Self::Percentiles
            | Self::Percentile => false,
        }
    }

    /// The settings of a measure with this function.
    pub(super) fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Count => &["count", "when"],
            Self::Sum => &["sum", "when"],
            Self::Max => &["max", "when"],
            Self::Min => &["min", "when"],
            Self::Histogram => &["histogram", "width", "bins", "when"],
            Self::Average => &["avg", "over"],
            Self::Percentiles => &["percentiles", "relative_error", "from", "to", "when"],
            Self::Percentile => &["percentile", "of"],
        }
    }
}

impl MeasureKind {
    /// Its aggregate function.
    #[must_use]
    pub fn function(&self) -> MeasureFunction {
        match self {
            Self::Count => MeasureFunction::Count,
            Self::Sum { .. } => MeasureFunction::Sum,
            Self::Max(..) => MeasureFunction::Max,
            Self::Min(..) => MeasureFunction::Min,
            Self::Histogram { .. } => MeasureFunction::Histogram,
            Self::Average { .. } => MeasureFunction::Average,
            Self::Percentiles { .. } => MeasureFunction::Percentiles,
            Self::Percentile { .. } => MeasureFunction::Percentile,
        }
    }

    /// The terms of the item that it is computed from.
    pub(super) fn terms(&self) -> &[Term] {
        match self {
            Self::Count | Self::Average { .. } | Self::Percentile { .. } => &[],
            Self::Sum { factors, .. } => factors,
            Self::Max(term, _)
            | Self::Min(term, _)
            | Self::Histogram { of: term, .. }
            | Self::Percentiles { of: term, .. } => std::slice::from_ref(term),
        }
    }

    /// The value that `max` or `min` compares, and its format.
    pub(super) fn ordered(&self) -> Option<(&Term, ValueFormat)> {
        match self {
            Self::Max(term, format) | Self::Min(term, format) => Some((term, *format)),
            Self::Count
            | Self::Sum { .. }
            | Self::Histogram { .. }
            | Self::Average { .. }
            | Self::Percentiles { .. }
            | Self::Percentile { .. } => None,
        }
    }

    /// How much is counted, in words: `count`, `sum of quantity · price`, `max of started_at:day`.
    #[must_use]
    pub fn describe(&self, notation: &ModelNotation<'_>) -> String {
        let function = self.function().name();
        match self {
            Self::Count => function.to_owned(),
            Self::Sum { factors, constant } => {
                let factors = factors.iter().map(|factor| notation.term(factor));
                let factors: Vec<String> =
                    factors.chain(constant.as_ref().map(ToString::to_string)).collect();
                format!("{function} of {}", factors.join(" · "))
            }
            Self::Max(term, format) | Self::Min(term, format) => {
                format!("{function} of {}", notation.formatted(term, *format))
            }
            Self::Histogram { of, width, labels } => {
                format!("{function} of {}, {} bins of {width}", notation.term(of), labels.len())
            }
            Self::Average { sum, count } => format!("{sum} ÷ {count}"),
            Self::Percentiles { of, bins } => {
                let [from, to] =
                    bins.range().map_or_else(Default::default, |range| range.map(ToString::to_string));
                let (count, error) = (bins.labels.len(), &bins.relative_error);
                format!(
                    "{function} of {}, {count} bins from {from} to {to}, relative error {error}",
                    notation.term(of)
                )
            }
            Self::Percentile { of, percent } => format!("{function} {percent} of {of}"),
        }
    }
}

impl Measure {
    /// The rollup's attributes that hold it: one, or one for each bin.
    #[must_use]
    pub fn attributes(&self) -> &[Arc<str>] {
        match &self.kind {
            MeasureKind::Histogram { labels, .. } => labels,
            MeasureKind::Percentiles { bins, .. } => &bins.labels,
            MeasureKind::Count
            | MeasureKind::Sum { .. }
            | MeasureKind::Max(..)
            | MeasureKind::Min(..)
            | MeasureKind::Average { .. }
            | MeasureKind::Percentile { .. } => std::slice::from_ref(&self.name),
        }
    }

    /// The bins of percentiles.
    pub(super) fn percentile_bins(&self) -> Option<&Arc<PercentileBins>> {
        match &self.kind {
            MeasureKind::Percentiles { bins, .. } => Some(bins),
            MeasureKind::Count
            | MeasureKind::Sum { .. }
            | MeasureKind::Max(..)
            | MeasureKind::Min(..)
            | MeasureKind::Histogram { .. }
            | MeasureKind::Average { .. }
            | MeasureKind::Percentile { .. } => None,
        }
    }

    /// The measure in words: the quantity that it counts, and of which items.
    pub(super) fn describe(&self, notation: &ModelNotation<'_>) -> MeasureDescription {
        let when = self.when.as_ref().map(|when| format!(" when {}", notation.condition(when)));
        let text = format!("{}{}", self.kind.describe(notation), when.unwrap_or_default());
        MeasureDescription { function: self.kind.function(), text }
    }
}

/// A measure in words.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(into = "String")]
pub struct MeasureDescription {
    /// Its aggregate function.
    pub function: MeasureFunction,
    /// The quantity that it counts, and of which items.
    pub text: String,
}

impl From<MeasureDescription> for String {
    fn from(measure: MeasureDescription) -> Self {
        measure.text
    }
}

/// A measure as an aggregate's rollups hold it.
pub(super) struct CompiledMeasure<'d> {
    pub(super) name: Located<&'d str>,
    pub(super) function: MeasureFunction,
    /// The rollup's attributes of it.
    pub(super) attributes: Vec<Arc<str>>,
    /// The measures that it is computed from.
    pub(super) parts: ComputedParts<'d>,
    /// `None` if a name in it is not defined.
    pub(super) measure: Option<Measure>,
}

/// The measures of the same aggregate that a measure is computed from.
pub(super) enum ComputedParts<'d> {
    /// Items contribute to it.
    None,
    /// The measure that an average divides, and by which.
    Average([Located<&'d str>; 2]),
    /// The bins of a percentile.
    Percentile(Located<&'d str>),
}

impl<'d> CompiledMeasure<'d> {
    fn new(
        name: Located<&'d str>,
        function: MeasureFunction,
        kind: Option<MeasureKind>,
        when: Option<Pattern>,
    ) -> Self {
        let attribute: Arc<str> = Arc::from(name.value);
        let measure = kind.map(|kind| Measure { name: Arc::clone(&attribute), when, kind });
        Self { name, function, attributes: vec![attribute], parts: ComputedParts::None, measure }
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
    context.compiler.check_name(&kind, name);
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
            let of = settings.required_text(function.name(), problems)?;
            let extreme = if function == MeasureFunction::Max { MeasureKind::Max } else { MeasureKind::Min };
            let kind = context.ordered(&settings.owner, of).map(|(term, format)| extreme(term, format));
            Some(CompiledMeasure::new(name, function, kind, when))
        }
        MeasureFunction::Histogram => {
            settings.require("width", problems);
            settings.require("bins", problems);
            let width = settings.integer("width", 1..=i64::from(u32::MAX), problems);
            let bins = settings.integer("bins", 1..=MAX_BINS, problems);
            let of = settings.required_text("histogram", problems)?;
            let width = width?;
            let labels = bin_labels(name.value, width, bins?);
            let of = context.number(&settings.owner, of, function);
            let kind = of.map(|of| MeasureKind::Histogram { of, width, labels: labels.clone() });
            Some(CompiledMeasure { attributes: labels, ..CompiledMeasure::new(name, function, kind, when) })
        }
        MeasureFunction::Average => {
            let sum = settings.required_text("avg", problems)?;
            let over = settings.required_text("over", problems)?;
            let kind = MeasureKind::Average { sum: Arc::from(sum.value), count: Arc::from(over.value) };
            Some(CompiledMeasure {
                parts: ComputedParts::Average([sum, over]),
                ..CompiledMeasure::new(name, function, Some(kind), when)
            })
        }
        MeasureFunction::Percentiles => {
            let kind = context.percentiles(&settings, name);
            let labels = kind.as_ref().map(|(_, bins)| bins.labels.clone()).unwrap_or_default();
            let kind = kind.and_then(|(of, bins)| Some(MeasureKind::Percentiles { of: of?, bins }));
            Some(CompiledMeasure { attributes: labels, ..CompiledMeasure::new(name, function, kind, when) })
        }
        MeasureFunction::Percentile => {
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
    }
}

/// The names of the measures of an aggregate that an average can be computed from.
pub(super) fn averaged<'d>(measures: &[CompiledMeasure<'d>]) -> Vec<&'d str> {
    let measures = measures.iter().filter(|measure| measure.function.can_be_averaged());
    measures.map(|measure| measure.name.value).collect()
}

/// The measures of an aggregate that have bins of percentiles.
pub(super) fn with_percentiles<'d>(measures: &[CompiledMeasure<'d>]) -> Vec<&'d str> {
    let measures = measures.iter().filter(|measure| measure.function == MeasureFunction::Percentiles);
    measures.map(|measure| measure.name.value).collect()
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
        } else if resolved.format != ValueFormat::Plain {
            let message = format!("{owner}: `{}`: numbers take no formats; leave it out", name.value);
            self.report(ProblemCode::UnusableFormat, name.at, message);
        }
        Some(resolved.term)
    }

    fn ordered(&mut self, owner: &str, name: Located<&str>) -> Option<(Term, ValueFormat)> {
        let resolved = self.resolve(owner, name)?;
        if !resolved.value_type.is_ordered() {
            let described = resolved.value_type.described();
            let message =
                format!("{owner}: `{}` is {described}; `max` and `min` are of numbers or texts", name.value);
            self.report(ProblemCode::UnfitMeasureValue, name.at, message);
        }
        Some((resolved.term, resolved.format))
    }
}
