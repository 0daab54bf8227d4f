//! The measures of rollups, exact: of one item, of the shards of a rollup, or of several rollups together.

use std::cmp::Ordering;
use std::sync::Arc;

use afterwrite_client::{ReaderMeasure, ReaderValue};
use afterwrite_ledger::state::settled_name;
use afterwrite_model::record::{AttributeValue, Decimal, Item};
use afterwrite_model::table::{ComputedValue, PercentileBins};
use maud::{Markup, html};

use super::shape::{RollupShape, value_text};
use crate::chart::{Bar, bars};
use crate::table::{Cell, PageTable};
use crate::view::View;

/// The percentiles that are estimated of every measure with such bins.
const PERCENTS: [i64; 6] = [50, 75, 90, 95, 99, 100];

/// The most bins whose numbers are shown at once.
const SHOWN_BINS: usize = 20;

/// Items that are read as one rollup.
#[derive(Clone, Debug)]
pub(crate) struct MeasureTotals<'i> {
    items: Vec<&'i Item>,
    /// Whether they are several rollups: then numbers of different values and latest values do not add up.
    are_several: bool,
}

impl<'i> MeasureTotals<'i> {
    /// The measures of one rollup: its item, or its shards.
    pub(crate) fn of_one(items: Vec<&'i Item>) -> Self {
        Self { items, are_several: false }
    }

    /// The measures of several rollups together.
    pub(crate) fn of_several(items: Vec<&'i Item>) -> Self {
        Self { items, are_several: true }
    }

    fn stored(&self, attribute: &str) -> impl Iterator<Item = &'i AttributeValue<'static>> {
        self.items.iter().filter_map(move |item| item.get(attribute))
    }

    /// The sum of an attribute; `None` if no item has it as a number.
    pub(crate) fn sum(&self, attribute: &str) -> Option<Decimal> {
        let numbers = self.stored(attribute).filter_map(AttributeValue::as_number);
        numbers.cloned().reduce(|sum, number| sum.plus_unlimited(&number))
    }

    /// The settled part of a measure: what items that expired leave counted.
    pub(crate) fn settled(&self, attribute: &str) -> Option<Decimal> {
        self.sum(&settled_name(attribute))
    }

    /// The value of a measure; `None` if it has none. A number of bins is that of the values in all bins.
    pub(crate) fn value(&self, shape: &RollupShape<'_>, measure: &ReaderMeasure) -> Option<MeasureValue> {
        if self.are_several && !measure.value.adds_up() {
            return None;
        }
        let zero = || Decimal::ZERO;
        match &measure.value {
            ReaderValue::Count | ReaderValue::Sum | ReaderValue::Distinct => {
                Some(MeasureValue::Number(self.sum(&measure.name).unwrap_or_else(zero)))
            }
            ReaderValue::Max(_) => self.extreme(&measure.name, Ordering::Greater),
            ReaderValue::Min(_) => self.extreme(&measure.name, Ordering::Less),
            ReaderValue::Latest(_) => self.stored(&measure.name).next().map(MeasureValue::of),
            ReaderValue::Histogram(bins) | ReaderValue::Percentiles(bins) => {
                let counts = bins.iter().filter_map(|[bin, _]| self.sum(bin));
                Some(MeasureValue::Values(counts.fold(zero(), |sum, count| sum.plus_unlimited(&count))))
            }
            ReaderValue::Average { .. } | ReaderValue::Percentile { .. } => match self.items.as_slice() {
                [item] => item.get(&*measure.name).map(MeasureValue::of),
                _ => self.computed(shape, &measure.name),
            },
        }
    }

    /// The description of a measure; of several items, with the reason why a count of different values is missing.
    fn about(&self, measure: &ReaderMeasure) -> String {
        let about = measure.about.replace('`', "");
        if self.are_several && measure.value.is_distinct() {
            return format!(
                "{about}; of several rollups it cannot be added up, because a value can be in each"
            );
        }
        about
    }

    /// A measure that follows from others, of several items.
    fn computed(&self, shape: &RollupShape<'_>, name: &str) -> Option<MeasureValue> {
        let computed = shape.rollup.computed.iter().find(|computed| *computed.name == *name)?;
        let total = |part: &Arc<str>| Some(self.sum(part).unwrap_or(Decimal::ZERO));
        match computed.value(total, |_| None) {
            ComputedValue::Present(value) => Some(MeasureValue::of(&value)),
            ComputedValue::Absent | ComputedValue::Unseen(_) => None,
        }
    }

    /// The value that another one does not exceed; numbers and texts have no order.
    fn extreme(&self, name: &str, wanted: Ordering) -> Option<MeasureValue> {
        let kept = self.stored(name).reduce(|kept, value| {
            let order = match (value.as_number(), kept.as_number()) {
                (Some(value), Some(kept)) => value.cmp(kept),
                _ => value.as_text().cmp(&kept.as_text()),
            };
            if order == wanted { value } else { kept }
        });
        kept.map(MeasureValue::of)
    }
}

/// The value of a measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MeasureValue {
    /// A number.
    Number(Decimal),
    /// The number of values in the bins of a measure. It is none of the values.
    Values(Decimal),
    /// A text, of `max`, `min` and `latest`.
    Text(String),
}

impl MeasureValue {
    fn of(value: &AttributeValue<'_>) -> Self {
        value.as_number().map_or_else(|| Self::Text(value_text(value)), |number| Self::Number(number.clone()))
    }

    /// The value in a table.
    pub(crate) fn cell(&self) -> Cell {
        match self {
            Self::Number(number) => Cell::number(number),
            Self::Values(number) => Cell::Values(number.to_string()),
            Self::Text(text) => Cell::text(text.clone()),
        }
    }

    /// The value, if it is a number.
    pub(crate) fn number(&self) -> Option<&Decimal> {
        match self {
            Self::Number(number) | Self::Values(number) => Some(number),
            Self::Text(_) => None,
        }
    }
}

/// A value in a table, or nothing.
pub(crate) fn cell_of(value: Option<&MeasureValue>) -> Cell {
    value.map_or(Cell::Empty, MeasureValue::cell)
}

/// Adds the measures of some rollups with the same items to a page: each with its kind, its bins as bars, and the percentiles of bins.
pub(crate) fn show_measures(view: &mut View, shapes: &[RollupShape<'_>], totals: &MeasureTotals<'_>) {
    let columns = ["rollup", "measure", "value", "settled", "kind", "about"];
    let mut measures = PageTable::new("measures", &columns, "The rollup has no measures.");
    let mut charts: Vec<Markup> = Vec::new();
    let mut bins =
        PageTable::new("bins", &["rollup", "measure", "bin", "begins or is estimated at", "count"], "");
    let mut percentiles = PageTable::new("percentiles", &["rollup", "measure", "percent", "estimate"], "");
    for shape in shapes {
        let rollup = &*shape.rollup.name;
        for measure in &shape.reader.measures {
            measures.rows.push(vec![
                Cell::code(rollup),
                Cell::code(&measure.name),
                cell_of(totals.value(shape, measure).as_ref()),
                totals.settled(&measure.name).map_or(Cell::Empty, Cell::number),
                Cell::text(measure.value.kind()),
                Cell::text(totals.about(measure)),
            ]);
            if let Some(chart) = add_bins(&mut bins, (rollup, measure), totals) {
                charts.push(chart);
            }
            add_percentiles(&mut percentiles, (shape, measure), totals);
        }
    }
    view.show(html! { h2 { "Measures" } });
    view.table(measures);
    if !bins.rows.is_empty() {
        view.show(html! { h3 { "Bins" } @for chart in &charts { (chart) } });
        if !percentiles.rows.is_empty() {
            view.table(percentiles);
        }
        show_bins(view, bins);
    }
}

/// Adds the numbers of the bins. Many of them are opened by a click: the bars above have them all.
fn show_bins(view: &mut View, bins: PageTable) {
    const TITLE: &str = "Values in each bin";
    if bins.rows.len() <= SHOWN_BINS {
        view.show(html! { h3 { (TITLE) } });
        view.table(bins);
        return;
    }
    view.show(html! { details { summary { (TITLE) ": " (bins.rows.len()) " bins" } (bins.markup()) } });
    view.data(bins);
}

/// Adds the bins of a measure, and returns their bars.
fn add_bins(
    table: &mut PageTable,
    (rollup, measure): (&str, &ReaderMeasure),
    totals: &MeasureTotals<'_>,
) -> Option<Markup> {
    let bins = measure.value.bins();
    let counts = bins.iter().map(|[bin, edge]| (bin, edge, totals.sum(bin).unwrap_or(Decimal::ZERO)));
    let counts: Vec<(&String, &String, Decimal)> = counts.collect();
    for (bin, edge, count) in &counts {
        table.rows.push(vec![
            Cell::code(rollup),
            Cell::code(&measure.name),
            Cell::code(bin.as_str()),
            Cell::number(edge),
            Cell::number(count),
        ]);
    }
    let bar = |(_, edge, count): &(&String, &String, Decimal)| Bar {
        label: (*edge).clone(),
        value: (!count.is_zero()).then(|| count.clone()),
    };
    let about = format!("{} by value", measure.name);
    (!counts.is_empty()).then(|| bars(&about, &counts.iter().map(bar).collect::<Vec<_>>()))
}

/// Adds the percentiles of a measure's bins, by the rule of the product.
fn add_percentiles(
    table: &mut PageTable,
    (shape, measure): (&RollupShape<'_>, &ReaderMeasure),
    totals: &MeasureTotals<'_>,
) {
    let Some(bins) = percentile_bins(shape, &measure.name) else { return };
    for percent in PERCENTS {
        let count = |bin: &Arc<str>| Some(totals.sum(bin).unwrap_or(Decimal::ZERO));
        let Some(estimate) = bins.percentile(&Decimal::from(percent), count) else { continue };
        table.rows.push(vec![
            Cell::code(&*shape.rollup.name),
            Cell::code(&measure.name),
            Cell::number(percent),
            Cell::number(estimate),
        ]);
    }
}

/// The bins of a measure of percentiles.
fn percentile_bins<'m>(shape: &RollupShape<'m>, name: &str) -> Option<&'m PercentileBins> {
    let mut measures = shape.aggregates().flat_map(|aggregate| &aggregate.measures);
    let measure = measures.find(|measure| *measure.name == *name)?;
    measure.percentile_bins().map(Arc::as_ref)
}

#[cfg(test)]
mod tests {
    use afterwrite_model::table::Model;

    use super::*;
    use crate::frame::Page;
    use crate::view::ViewPart;

    /// A page with a table of so many bins.
    fn page_of_bins(number: usize) -> View {
        let mut bins = PageTable::new("bins", &["bin"], "");
        bins.rows.extend((0..number).map(|bin| vec![Cell::number(bin)]));
        let mut view = View::new(Page::Rollups, "Bins");
        show_bins(&mut view, bins);
        view
    }

    #[test]
    fn many_bins_are_folded_and_machines_read_them_all() {
        for (number, is_folded) in [(SHOWN_BINS, false), (SHOWN_BINS + 1, true)] {
            let view = page_of_bins(number);
            let html = view.contents().into_string();
            assert_eq!(html.contains("<details><summary>Values in each bin: 21 bins"), is_folded, "{html}");
            assert_eq!(html.matches("<td").count(), number, "{html}");
            let rows = view.parts.iter().map(|part| match part {
                ViewPart::Table(table) | ViewPart::Data(table) => table.rows.len(),
                ViewPart::Shown(_) => 0,
            });
            assert_eq!(rows.sum::<usize>(), number);
        }
    }

    const VISITS: &str = r##"
name = "visits"
generation = 1
tables.t.key = ["pk", "sk"]
[entities.visit]
key = { pk = "SHOP#{shop}", sk = "VISIT#{visit}" }
attributes = { visitor = "S" }
[rollups.shop]
key = { PK = "SHOP#{shop}", SK = "TOTAL" }
[[aggregates]]
name = "visits"
of = "visit"
into = "shop"
measures.visitors = { distinct = "visitor" }
"##;

    #[test]
    fn several_rollups_have_no_count_of_different_values_and_say_why() {
        let model = Model::parse(VISITS, "visits.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let shape = RollupShape::named(&model, "shop").unwrap_or_else(|error| panic!("{error}"));
        let [visitors] = shape.reader.measures.as_slice() else { panic!("{:?}", shape.reader.measures) };
        let item = Item::from([("visitors".to_owned().into(), AttributeValue::N(Decimal::from(3)))]);
        let one = MeasureTotals::of_one(vec![&item]);
        assert_eq!(one.value(&shape, visitors), Some(MeasureValue::Number(Decimal::from(3))));
        let note = "of several rollups it cannot be added up, because a value can be in each";
        assert!(!one.about(visitors).contains(note));
        let several = MeasureTotals::of_several(vec![&item, &item]);
        assert_eq!(several.value(&shape, visitors), None);
        assert!(several.about(visitors).ends_with(note), "{}", several.about(visitors));
    }
}
