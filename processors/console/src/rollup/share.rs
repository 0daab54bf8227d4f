//! The share of a count in another one, in percent: a rate that the model does not declare, such as passed attempts of completed ones.

use afterwrite_client::{ReaderMeasure, ReaderValue};
use afterwrite_model::record::Decimal;

use super::measures::MeasureTotals;
use super::shape::RollupShape;
use crate::query::PageQuery;

/// The parameters with the names of the two counts.
pub(crate) const SHARE: &str = "share";
pub(crate) const SHARE_OF: &str = "share_of";

/// The decimal places of a percentage.
const PLACES: u8 = 2;

/// A number of a rollup that can be a part or a whole: a measure that adds up, or the values in some bins of a measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharePart {
    /// The name in the page and in its address: `passed`, `pct from 60`.
    pub(crate) name: String,
    /// The attributes, which are added up.
    attributes: Vec<String>,
}

/// Two counts of which the first is divided by the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MeasureShare {
    pub(crate) part: SharePart,
    pub(crate) whole: SharePart,
}

impl SharePart {
    /// The numbers of a rollup that can be divided.
    pub(crate) fn all(shape: &RollupShape<'_>) -> Vec<Self> {
        shape.reader.measures.iter().flat_map(Self::of_measure).collect()
    }

    fn of_measure(measure: &ReaderMeasure) -> Vec<Self> {
        let name = &measure.name;
        match &measure.value {
            ReaderValue::Count | ReaderValue::Sum => {
                vec![Self { name: name.clone(), attributes: vec![name.clone()] }]
            }
            ReaderValue::Histogram(bins) => {
                let named = |bins: &[[String; 2]]| bins.iter().map(|[bin, _]| bin.clone()).collect();
                let from = |(index, [_, edge]): (usize, &[String; 2])| Self {
                    name: format!("{name} from {edge}"),
                    attributes: named(bins.get(index..).unwrap_or_default()),
                };
                let all = Self { name: format!("{name}, all values"), attributes: named(bins) };
                std::iter::once(all).chain(bins.iter().enumerate().skip(1).map(from)).collect()
            }
            // A bin of percentiles has an estimate, not an edge.
            ReaderValue::Percentiles(_)
            // Numbers of different values do not add up.
            | ReaderValue::Distinct
            | ReaderValue::Max(_)
            | ReaderValue::Min(_)
            | ReaderValue::Latest(_)
            | ReaderValue::Average { .. }
            | ReaderValue::Percentile { .. } => Vec::new(),
        }
    }

    /// The number of some items.
    pub(crate) fn count(&self, totals: &MeasureTotals<'_>) -> Decimal {
        let numbers = self.attributes.iter().filter_map(|attribute| totals.sum(attribute));
        numbers.fold(Decimal::ZERO, |sum, number| sum.plus_unlimited(&number))
    }
}

impl MeasureShare {
    /// The share that a query names; `None` unless it names two numbers of the rollup.
    pub(crate) fn of(shape: &RollupShape<'_>, query: &PageQuery) -> Option<Self> {
        let parts = SharePart::all(shape);
        let named = |parameter: &str| {
            let name = query.get(parameter)?;
            parts.iter().find(|part| part.name == name).cloned()
        };
        Some(Self { part: named(SHARE)?, whole: named(SHARE_OF)? })
    }

    /// The percentage with two decimal places, rounded half to even; `None` if the whole is 0.
    pub(crate) fn percent(&self, totals: &MeasureTotals<'_>) -> Option<Decimal> {
        let hundredfold = self.part.count(totals).times(&Decimal::from(100)).ok()?;
        hundredfold.divided_by(&self.whole.count(totals), PLACES)
    }
}

/// A percentage with both of its decimal places, so that percentages of a column are aligned.
pub(crate) fn percent_text(percent: &Decimal) -> String {
    let text = percent.to_string();
    let (whole, places) = text.split_once('.').unwrap_or((&text, ""));
    format!("{whole}.{places:0<2}")
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use afterwrite_model::record::{AttributeValue, Item};
    use afterwrite_model::table::Model;

    use super::*;

    fn item(counts: &[(&'static str, i64)]) -> Item {
        let number = |(name, count): &(&'static str, i64)| {
            (Cow::Borrowed(*name), AttributeValue::N(Decimal::from(*count)))
        };
        counts.iter().map(number).collect()
    }

    fn share(part: &str, whole: &str, items: &[&Item]) -> Option<Option<String>> {
        let model = Model::load("exambuddy").unwrap_or_else(|error| panic!("{error}"));
        let shape = RollupShape::named(&model, "project_day").unwrap_or_else(|error| panic!("{error}"));
        let query = PageQuery::default().with(SHARE, part).with(SHARE_OF, whole);
        let share = MeasureShare::of(&shape, &query)?;
        Some(share.percent(&MeasureTotals::of_several(items.to_vec())).as_ref().map(percent_text))
    }

    #[test]
    fn a_share_is_of_sums_and_has_two_decimal_places() {
        let (monday, tuesday) = (
            item(&[("passed", 1), ("completed", 3), ("pct_60", 2), ("pct_90", 1)]),
            item(&[("passed", 5), ("completed", 5), ("pct_50", 1), ("pct_60", 4)]),
        );
        let percent = |text: &str| Some(Some(text.to_owned()));
        assert_eq!(share("passed", "completed", &[&monday]), percent("33.33"));
        assert_eq!(
            share("passed", "completed", &[&monday, &tuesday]),
            percent("75.00"),
            "not a mean of shares"
        );
        assert_eq!(share("pct from 60", "pct, all values", &[&monday, &tuesday]), percent("87.50"));
        assert_eq!(share("pct from 60", "pct, all values", &[&tuesday]), percent("80.00"));
    }

    #[test]
    fn nothing_is_divided_by_zero_or_by_a_measure_that_does_not_add_up() {
        assert_eq!(share("passed", "completed", &[&item(&[])]), Some(None));
        assert_eq!(share("passed", "nothing", &[&item(&[])]), None);
    }

    #[test]
    fn a_percentage_has_both_places() {
        let text = |number: &str| number.parse().map(|number| percent_text(&number)).unwrap_or_default();
        assert_eq!(["100", "0", "33.3", "-12.25"].map(text), ["100.00", "0.00", "33.30", "-12.25"]);
    }
}
