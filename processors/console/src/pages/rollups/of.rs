//! The rollups of a name: one, those from one bucket of time to another, or those of a partition.

use std::sync::Arc;

use afterwrite_model::{Error, ErrorKind};
use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};

use super::choice::choice;
use super::facts::{about, show_one};
use super::known::known_partitions;
use super::{buckets, listing};
use crate::frame::Page;
use crate::pages::answer;
use crate::query::PageQuery;
use crate::rollup::asked::{AskedRollups, asked};
use crate::rollup::counted::CountedChanges;
use crate::rollup::reads::RollupReads;
use crate::rollup::shape::RollupShape;
use crate::served::Served;
use crate::table::{Cell, PageTable};
use crate::view::{View, ViewResult, problem};

/// `GET` of the page with the name as a parameter.
pub(crate) async fn of(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let view = view(&served, &query).await;
    answer(&served, Page::Rollups, &query, view)
}

/// `GET` of the page with the name in its path.
pub(crate) async fn of_name(
    State(served): State<Arc<Served>>,
    Path(name): Path<String>,
    query: PageQuery,
) -> Response {
    let query = query.with("name", &name);
    let view = view(&served, &query).await;
    answer(&served, Page::Rollups, &query, view)
}

async fn view(served: &Served, query: &PageQuery) -> ViewResult {
    let no_name = || incomplete("no rollup is named").hint("Choose one on the page Rollups");
    let name = query.get("name").ok_or_else(no_name)?;
    let shape = RollupShape::named(served.context.model(), name)?;
    let mut view = View::new(Page::Rollups, format!("Rollup {name}"));
    view.show(about(&shape, query));
    view.show(choice(&shape, query));
    let asked = match asked(&shape, query) {
        Err(error) if !query.asks_for_data() => {
            view.show(problem(&error));
            return Ok(view.refused());
        }
        asked => asked?,
    };
    let shapes = std::slice::from_ref(&shape);
    match asked {
        AskedRollups::Nothing => view.show(nothing_asked(served, &shape)),
        AskedRollups::Incomplete(missing) if query.asks_for_data() => return Err(incomplete(missing)),
        AskedRollups::Incomplete(missing) => view.show(html! { p class="empty" { (missing) "." } }),
        AskedRollups::One(values) => {
            let key = shape.checked_key(&values)?;
            let reads = RollupReads(&served.context);
            let rollups = reads.rollups(&shape, vec![key]);
            let (counted, rollups) = CountedChanges::with_rollups(&served.context, shapes, rollups).await?;
            for rollup in &rollups {
                show_one(&mut view, &shape, (rollup, &counted), query);
            }
        }
        AskedRollups::Buckets(asked) => {
            let shown = buckets::show(served, &mut view, &shape, &asked, query);
            let (counted, ()) = CountedChanges::with_rollups(&served.context, shapes, shown).await?;
            show_counted(&mut view, &counted);
        }
        AskedRollups::Listed { partition, beginning } => {
            let shown = listing::show(served, &mut view, &shape, (&partition, &beginning), query);
            let (counted, ()) = CountedChanges::with_rollups(&served.context, shapes, shown).await?;
            show_counted(&mut view, &counted);
        }
    }
    Ok(view)
}

/// The error of a query that lacks a value.
fn incomplete(missing: impl Into<String>) -> Error {
    Error::new(ErrorKind::Configuration, missing)
}

/// How a rollup is asked for.
fn nothing_asked(served: &Served, shape: &RollupShape<'_>) -> Markup {
    html! {
        @if let Some(board) = served.context.board() { (known_partitions(board, shape)) }
        p class="empty" {
            "Write the values of a key. With the values of PK alone, the rollups of the partition are listed"
            @if shape.bucket().is_some() { "; with all but the last bucket, and where it begins and ends, its buckets are shown as bars" }
            "."
        }
    }
}

/// Adds how far the changes are counted that several rollups are made of.
fn show_counted(view: &mut View, counted: &CountedChanges) {
    let mut facts = PageTable::new("counted", &["fact", "value"], "");
    facts.rows = counted.facts().into_iter().map(|(name, cell)| vec![Cell::text(name), cell]).collect();
    view.show(html! { h2 { "Counted" } });
    view.table(facts);
    view.show(counted.note());
}
