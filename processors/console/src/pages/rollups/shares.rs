//! The share of a count in another one: percentages with their counts beside them, as bars and as a table.

use maud::{Markup, html};

use crate::chart::{Bar, bars};
use crate::query::PageQuery;
use crate::rollup::measures::MeasureTotals;
use crate::rollup::shape::RollupShape;
use crate::rollup::share::{MeasureShare, SHARE, SHARE_OF, SharePart, percent_text};
use crate::table::{Cell, PageTable};
use crate::view::View;

/// The fields of a form that choose the two counts; nothing if the rollup has none.
pub(super) fn share_fields(shape: &RollupShape<'_>, query: &PageQuery) -> Markup {
    let parts = SharePart::all(shape);
    let field = |parameter: &str, label: &str| {
        let chosen = query.get(parameter);
        html! {
            label {
                (label)
                select name=(parameter) {
                    option value="" { "–" }
                    @for part in &parts {
                        option value=(part.name) selected[chosen == Some(part.name.as_str())] { (part.name) }
                    }
                }
            }
        }
    };
    html! {
        @if parts.len() > 1 {
            (field(SHARE, "percent: share of"))
            (field(SHARE_OF, "in"))
        }
    }
}

/// Adds the share of each rollup, by its cell and its name, and of all of them together if they are several.
pub(super) fn show_share(
    view: &mut View,
    share: &MeasureShare,
    title: &str,
    rollups: Vec<(Cell, MeasureTotals<'_>)>,
    together: Option<MeasureTotals<'_>>,
) {
    let MeasureShare { part, whole } = share;
    let about = format!("{} in {}, in percent", part.name, whole.name);
    let columns = [title, part.name.as_str(), whole.name.as_str(), "percent"];
    let mut table = PageTable::new("shares", &columns, "Nothing is counted here.");
    let row = |first: Cell, totals: &MeasureTotals<'_>| {
        let percent = share.percent(totals).map(|percent| Cell::number(percent_text(&percent)));
        let counts = [part, whole].map(|count| Cell::number(count.count(totals)));
        std::iter::once(first).chain(counts).chain([percent.unwrap_or(Cell::Empty)]).collect::<Vec<_>>()
    };
    let drawn: Vec<Bar> = rollups
        .iter()
        .map(|(cell, totals)| Bar { label: cell.plain(), value: share.percent(totals) })
        .collect();
    table.rows.extend(rollups.into_iter().map(|(cell, totals)| row(cell, &totals)));
    table.rows.extend(together.map(|totals| row(Cell::text("together"), &totals)));
    view.show(html! {
        h2 { "Share of " (part.name) " in " (whole.name) }
        @if drawn.len() > 1 { (bars(&about, &drawn)) }
    });
    view.table(table);
}
