//! Measures, the numbers that an aggregate counts: `measures.<name>` of an aggregate.

use std::sync::Arc;

use super::latest::Latest;
use super::load::reader::Located;
use super::named::{NamedValue as _, named_values};
use super::percentile::PercentileBins;
use super::value_type::MixedTypes;
use super::{ModelNotation, Pattern, Term, ValueFormat};
use crate::record::Decimal;

/// The contribution of an item to one attribute of a rollup.
#[derive(Clone, Debug)]
pub struct Measure {
    /// The rollup's attribute; of a measure with bins, the beginning of their names.
    pub name: Arc<str>,
    /// The condition on the item.
    pub when: Option<Pattern>,
    /// How much.
    pub kind: MeasureKind,
}

/// How much an item contributes.
#[derive(Clone, Debug)]
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
    Max(Term, ValueFormat, MixedTypes),
    /// The smallest value ever seen, number or formatted text. Does not retract.
    Min(Term, ValueFormat, MixedTypes),
    /// The value of the item with the latest time ever seen. Does not retract.
    Latest(Box<Latest>),
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
        /// The value of the item with the latest time ever seen.
        Latest = "latest",
        /// How many items there are in each range of a value.
        Histogram = "histogram",
        /// One measure divided by another.
        Average = "avg",
        /// How many items there are in each range of a value; the ranges grow with the value.
        Percentiles = "percentiles",
        /// The value that a part of the items do not exceed.
        Percentile = "percentile",
        /// How many different values there are. The loader makes two counts of it: of items by value, and of values.
        Distinct = "distinct",
    }
}

impl MeasureFunction {
    /// Whether items add to it, and subtract theirs when they change or go; it starts at 0.
    #[must_use]
    pub fn is_additive(self) -> bool {
        match self {
            Self::Count | Self::Sum | Self::Histogram | Self::Percentiles => true,
            Self::Max | Self::Min | Self::Latest | Self::Average | Self::Percentile | Self::Distinct => false,
        }
    }

    /// Whether it keeps the most extreme value it has seen and never goes back.
    #[must_use]
    pub fn is_extreme(self) -> bool {
        match self {
            Self::Max | Self::Min | Self::Latest => true,
            Self::Count
            | Self::Sum
            | Self::Histogram
            | Self::Average
            | Self::Percentiles
            | Self::Percentile
            | Self::Distinct => false,
        }
    }

    /// Whether its value follows from the whole rollup, so that a sharded rollup cannot have it.
    pub(super) fn needs_whole_rollup(self) -> bool {
        match self {
            Self::Max | Self::Min | Self::Latest | Self::Average | Self::Percentile => true,
            Self::Count | Self::Sum | Self::Histogram | Self::Percentiles | Self::Distinct => false,
        }
    }

    /// The names of the functions for which this holds.
    pub(super) fn names_of(holds: impl Fn(Self) -> bool) -> Vec<&'static str> {
        let functions = Self::NAMES.iter().filter_map(|name| Self::of_name(name));
        functions.filter(|function| holds(*function)).map(|function| function.name()).collect()
    }

    /// Whether items contribute to it; otherwise the rollup computes it from other measures.
    #[must_use]
    pub fn is_contributed(self) -> bool {
        self.is_additive() || self.is_extreme()
    }

    /// The attributes of a rollup in which a measure with this function and this name is stored, without the bins of histograms and percentiles.
    #[must_use]
    pub fn attributes(self, name: &str) -> Vec<Arc<str>> {
        match self {
            Self::Latest => Latest::attributes(name).to_vec(),
            Self::Count
            | Self::Sum
            | Self::Max
            | Self::Min
            | Self::Histogram
            | Self::Average
            | Self::Percentiles
            | Self::Percentile
            | Self::Distinct => vec![Arc::from(name)],
        }
    }

    /// Whether an average can be computed from it: it is one number that is added to.
    fn can_be_averaged(self) -> bool {
        match self {
            Self::Count | Self::Sum => true,
            Self::Max
            | Self::Min
            | Self::Latest
            | Self::Histogram
            | Self::Average
            | Self::Percentiles
            | Self::Percentile
            | Self::Distinct => false,
        }
    }

    /// The settings of a measure with this function.
    pub(super) fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Count => &["count", "when"],
            Self::Sum => &["sum", "when"],
            Self::Max => &["max", "when"],
            Self::Min => &["min", "when"],
            Self::Latest => &["latest", "by", "when"],
            Self::Histogram => &["histogram", "width", "bins", "when"],
            Self::Average => &["avg", "over"],
            Self::Percentiles => &["percentiles", "relative_error", "from", "to", "when"],
            Self::Percentile => &["percentile", "of"],
            Self::Distinct => &["distinct", "when"],
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
            Self::Latest(_) => MeasureFunction::Latest,
            Self::Histogram { .. } => MeasureFunction::Histogram,
            Self::Average { .. } => MeasureFunction::Average,
            Self::Percentiles { .. } => MeasureFunction::Percentiles,
            Self::Percentile { .. } => MeasureFunction::Percentile,
        }
    }

    /// Calls `visit` with every term of the item that it is computed from.
    pub(super) fn each_term(&self, visit: &mut impl FnMut(&Term)) {
        match self {
            Self::Count | Self::Average { .. } | Self::Percentile { .. } => {}
            Self::Sum { factors, .. } => factors.iter().for_each(visit),
            Self::Max(..) | Self::Min(..) | Self::Latest(_) => {
                for (term, format) in self.ordered() {
                    visit(term);
                    format.zone_term().into_iter().for_each(&mut *visit);
                }
            }
            Self::Histogram { of: term, .. } | Self::Percentiles { of: term, .. } => visit(term),
        }
    }

    /// The values that `max`, `min` or `latest` keeps or compares, and their formats.
    pub(super) fn ordered(&self) -> impl Iterator<Item = (&Term, &ValueFormat)> {
        let ordered = match self {
            Self::Max(term, format, _) | Self::Min(term, format, _) => [Some((term, format)), None],
            Self::Latest(latest) => {
                [Some((&latest.of, &latest.format)), Some((&latest.by, &latest.by_format))]
            }
            Self::Count
            | Self::Sum { .. }
            | Self::Histogram { .. }
            | Self::Average { .. }
            | Self::Percentiles { .. }
            | Self::Percentile { .. } => [None, None],
        };
        ordered.into_iter().flatten()
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
            Self::Max(term, format, _) | Self::Min(term, format, _) => {
                format!("{function} of {}", notation.formatted(term, format))
            }
            Self::Latest(latest) => {
                let [of, by] = [(&latest.of, &latest.format), (&latest.by, &latest.by_format)];
                let [of, by] = [of, by].map(|(term, format)| notation.formatted(term, format));
                format!("{function} of {of} by {by}")
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
    /// The rollup's attributes that hold it: one, or one for each bin, or two of `latest`.
    #[must_use]
    pub fn attributes(&self) -> &[Arc<str>] {
        match &self.kind {
            MeasureKind::Histogram { labels, .. } => labels,
            MeasureKind::Percentiles { bins, .. } => &bins.labels,
            MeasureKind::Latest(latest) => &latest.attributes,
            MeasureKind::Count
            | MeasureKind::Sum { .. }
            | MeasureKind::Max(..)
            | MeasureKind::Min(..)
            | MeasureKind::Average { .. }
            | MeasureKind::Percentile { .. } => std::slice::from_ref(&self.name),
        }
    }

    /// The bins of percentiles.
    #[must_use]
    pub fn percentile_bins(&self) -> Option<&Arc<PercentileBins>> {
        match &self.kind {
            MeasureKind::Percentiles { bins, .. } => Some(bins),
            MeasureKind::Count
            | MeasureKind::Sum { .. }
            | MeasureKind::Max(..)
            | MeasureKind::Min(..)
            | MeasureKind::Latest(_)
            | MeasureKind::Histogram { .. }
            | MeasureKind::Average { .. }
            | MeasureKind::Percentile { .. } => None,
        }
    }

    /// The measure in words: the quantity, and the items that count.
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
    /// The quantity, and the items that count.
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
    /// The attributes that are or can be texts: the value of a `max`, `min` or `latest` that is not always a number, and the text by which `latest`
    /// is found.
    pub(super) texts: Vec<Arc<str>>,
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
    /// No measures: the name whose values are counted.
    Distinct(Located<&'d str>),
}

impl<'d> CompiledMeasure<'d> {
    pub(super) fn new(
        name: Located<&'d str>,
        function: MeasureFunction,
        kind: Option<MeasureKind>,
        when: Option<Pattern>,
    ) -> Self {
        let attribute: Arc<str> = Arc::from(name.value);
        let measure = kind.map(|kind| Measure { name: Arc::clone(&attribute), when, kind });
        let (attributes, parts) = (vec![attribute], ComputedParts::None);
        let texts = if function.is_extreme() { attributes.clone() } else { Vec::new() };
        Self { name, function, attributes, texts, parts, measure }
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
