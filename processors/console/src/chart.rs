//! Charts: bars as SVG, made on the server. The numbers are beside them in a table; here they only have a size.

use afterwrite_model::harmless::harmless;
use afterwrite_model::record::Decimal;
use maud::{Markup, html};

/// The digits of a bar's size behind the point: a thousandth of the chart cannot be seen.
const PLACES: u8 = 4;
/// The width of a bar's place, and of the bar.
const STEP: usize = 10;
const WIDTH: usize = 8;

/// A bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// The name of its place.
    pub(crate) label: String,
    /// Its value; `None` leaves its place empty.
    pub(crate) value: Option<Decimal>,
}

/// The smallest and the largest value of a chart, with zero between them.
struct ChartScale {
    low: Decimal,
    span: Decimal,
}

impl ChartScale {
    fn of(bars: &[Bar]) -> Option<Self> {
        let values = || bars.iter().filter_map(|bar| bar.value.as_ref());
        let low = values().min()?.clone().min(Decimal::ZERO);
        let high = values().max()?.clone().max(Decimal::ZERO);
        let span = high.minus(&low).ok()?;
        (!span.is_zero()).then_some(Self { low, span })
    }

    /// The percentage of the chart's height that a size takes.
    fn percent(&self, size: &Decimal) -> Decimal {
        let part = size.divided_by(&self.span, PLACES).unwrap_or(Decimal::ZERO);
        part.times(&Decimal::from(100)).unwrap_or(Decimal::ZERO)
    }

    /// The distance of a bar from the top of the chart, and its height.
    fn place(&self, value: &Decimal) -> (Decimal, Decimal) {
        let is_negative = value.sign().is_lt();
        let top = if is_negative { &Decimal::ZERO } else { value };
        let size = if is_negative { value.negated() } else { value.clone() };
        let above_low = top.minus(&self.low).unwrap_or(Decimal::ZERO);
        let from_top = Decimal::from(100).minus(&self.percent(&above_low)).unwrap_or(Decimal::ZERO);
        (from_top, self.percent(&size))
    }
}

/// The bars beside each other, with the names of the first and the last one; nothing if all values are absent or zero.
pub(crate) fn bars(about: &str, bars: &[Bar]) -> Markup {
    let Some(scale) = ChartScale::of(bars) else { return html! {} };
    let label = |bar: Option<&Bar>| bar.map(|bar| harmless(&bar.label).into_owned());
    let largest = bars.iter().filter_map(|bar| bar.value.as_ref()).max();
    html! {
        figure class="bars" {
            svg class="chart" viewBox={ "0 0 " (bars.len() * STEP) " 100" } preserveAspectRatio="none" role="img" aria-label=(about) {
                @for (index, bar) in bars.iter().enumerate() {
                    @if let Some(value) = &bar.value {
                        @let (top, height) = scale.place(value);
                        rect class="bar" x=(index * STEP + 1) y=(top.to_string()) width=(WIDTH) height=(height.to_string()) {
                            title { (harmless(&bar.label)) ": " (value.to_string()) }
                        }
                    }
                }
            }
            figcaption {
                span { (label(bars.first()).unwrap_or_default()) }
                span class="quiet" { (about) @if let Some(largest) = largest { ", at most " (largest.to_string()) } }
                span { (label(bars.last()).unwrap_or_default()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(values: &[Option<&str>]) -> String {
        let bar = |value: &Option<&str>| Bar {
            label: "<b>".to_owned(),
            value: value.map(|value| value.parse().expect("a number")),
        };
        bars("n", &values.iter().map(bar).collect::<Vec<_>>()).into_string()
    }

    #[test]
    fn bars_stand_on_zero() {
        let chart = drawn(&[Some("3"), None, Some("-1"), Some("99999999999999999999999999999999999998")]);
        assert!(chart.contains(r#"viewBox="0 0 40 100""#), "{chart}");
        assert_eq!(chart.matches("<rect").count(), 3, "a missing value has no bar");
        let chart = drawn(&[Some("3"), Some("-1")]);
        assert!(chart.contains(r#"x="1" y="0" width="8" height="75""#), "{chart}");
        assert!(chart.contains(r#"x="11" y="75" width="8" height="25""#), "{chart}");
        assert!(!chart.contains("<b>"), "{chart}");
        assert_eq!(drawn(&[Some("0"), None]), "");
    }
}
