//! The items that are counted into a rollup: a search that reads the tables of the entities that can count into it, some pages for each step.
//! The console remembers the newest searches, so that a step goes on where the one before ended.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_ledger::state::settled_name;
use afterwrite_model::Result;
use afterwrite_model::record::{AttributeValue, Decimal, Item};
use afterwrite_operations::contributors::{Contributor, ContributorSearch, FoundContributors};
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::at::stored_key;
use crate::context::ConsolePlace;
use crate::frame::Page;
use crate::links::{contributors_link, item_link, rollup_link};
use crate::pages::answer;
use crate::query::{PageQuery, address};
use crate::rollup::reads::RollupReads;
use crate::rollup::shape::value_text;
use crate::served::Served;
use crate::table::{Cell, PageTable, Verdict};
use crate::view::{View, ViewResult, loaded_later};

/// The items of a page of a table.
const PAGE_ITEMS: u32 = 500;
/// The pages of a step: on this machine, reading costs nothing.
const STEP_PAGES: usize = 1;
const DEV_STEP_PAGES: usize = 40;
/// The most contributors that the page shows.
const SHOWN: usize = 200;

/// `GET` of the page: makes the step that it names, unless it was made before. A page for people that names none makes the first step after its
/// first paint.
pub(crate) async fn contributors(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let view = view(&served, &query).await;
    answer(&served, Page::Rollups, &query, view)
}

async fn view(served: &Served, query: &PageQuery) -> ViewResult {
    let (partition, sort) = stored_key(query)?;
    let is_part = query.get("part").is_some();
    let names_search = ["search", "step"].iter().any(|name| query.get(name).is_some());
    if !names_search && !is_part && !query.asks_for_data() {
        let first_step = address(&contributors_link(partition, sort), [("step", "1")]);
        let mut view = titled((partition, sort), is_part);
        view.show(loaded_later(&first_step, None));
        return Ok(view);
    }
    let context = &served.context;
    let (id, running) = match query.get("search") {
        Some(id) => (id.to_owned(), served.searches.known(id)?),
        None => served.searches.start(ContributorSearch::new(context.model(), partition, sort)),
    };
    let step = query.get("step").and_then(|step| step.parse::<u64>().ok()).unwrap_or(1);
    let mut running = running.lock().await;
    while running.steps < step && !running.search.is_complete() {
        make_step(served, &mut running.search).await?;
        running.steps += 1;
    }
    let stored =
        RollupReads(context).stored(&[(partition.to_owned(), sort.to_owned())]).await?.pop().flatten();
    let mut view = titled((partition, sort), is_part);
    let next = address(
        &contributors_link(partition, sort),
        [("search", id.as_str()), ("step", &(running.steps + 1).to_string())],
    );
    let found = running.search.found();
    let is_complete = running.search.is_complete();
    view.show(progress(found, (!is_complete).then_some((next.as_str(), is_part))));
    view.table(sums(found, stored.as_ref(), is_complete));
    view.table(contributor_table(served, found));
    if found.contributors.len() > SHOWN {
        view.show(html! { p class="quiet" { "The first " (SHOWN) " shares are shown; the sums have all of them." } });
    }
    view.data(progress_table(found, is_complete));
    Ok(view)
}

/// The page with the rollup; a part of another page has nothing above the search.
fn titled((partition, sort): (&str, &str), is_part: bool) -> View {
    let mut view = View::new(Page::Rollups, "Contributors of a rollup");
    if !is_part {
        let text = format!("{partition} / {sort}");
        view.show(html! { p { "Of " a href=(rollup_link(partition, sort)) { (afterwrite_model::harmless::harmless(&text)) } } });
    }
    view
}

async fn make_step(served: &Served, search: &mut ContributorSearch) -> Result<()> {
    let pages = match served.context.place {
        ConsolePlace::Deployed => STEP_PAGES,
        ConsolePlace::Dev(_) => DEV_STEP_PAGES,
    };
    let deployment = served.context.deployment();
    for _ in 0..pages {
        if search.is_complete() {
            break;
        }
        search.read_page(&deployment, PAGE_ITEMS).await?;
    }
    Ok(())
}

/// How far the search is, and a link that goes on. On a part of a page, the next step replaces the part.
fn progress(found: &FoundContributors, next: Option<(&str, bool)>) -> Markup {
    html! {
        p {
            (found.items_read) " items read, " (found.count) " of them are counted into the rollup"
            @if found.uncountable > 0 { ", " (found.uncountable) " cannot be counted" }
            @match next {
                None => ". All tables were read.",
                Some((next, is_part)) => {
                    ". "
                    a href=(next) hx-get=[is_part.then(|| address(next, [("part", "1")]))] hx-target=[is_part.then_some("closest .later")] {
                        "Read on"
                    }
                }
            }
        }
        @if let Some(problem) = &found.problem {
            p class="quiet" { "The first that cannot be counted: " (afterwrite_model::harmless::harmless(problem)) }
        }
    }
}

fn progress_table(found: &FoundContributors, is_complete: bool) -> PageTable {
    let mut table =
        PageTable::new("progress", &["items_read", "contributors", "uncountable", "complete"], "");
    table.rows.push(vec![
        Cell::number(found.items_read),
        Cell::number(found.count),
        Cell::number(found.uncountable),
        Cell::text(if is_complete { "yes" } else { "no" }),
    ]);
    table
}

/// The sum of the shares of each measure, beside the measure as it is stored.
fn sums(found: &FoundContributors, stored: Option<&Item>, is_complete: bool) -> PageTable {
    let columns = ["measure", "sum of the shares", "settled", "stored", "comparison"];
    let mut table = PageTable::new("sums", &columns, "No share of a count or a sum was found.");
    let number = |name: &str| stored.and_then(|item| item.get(name)).and_then(AttributeValue::as_number);
    let measures: BTreeSet<&str> = found.sums.keys().map(|measure| &**measure).collect();
    for measure in measures {
        let sum = found.sums.get(measure).cloned().unwrap_or(Decimal::ZERO);
        let settled = number(&settled_name(measure)).cloned().unwrap_or(Decimal::ZERO);
        let total = sum.plus_unlimited(&settled);
        let of_rollup = number(measure).cloned().unwrap_or(Decimal::ZERO);
        let comparison = if !is_complete {
            Cell::Verdict(Verdict::Unknown, "not all items were read".to_owned())
        } else if total == of_rollup {
            Cell::Verdict(Verdict::Good, "equal".to_owned())
        } else {
            let text = "differs: a change is in flight, or `afterwrite verify` finds the reason";
            Cell::Verdict(Verdict::Warning, text.to_owned())
        };
        table.rows.push(vec![
            Cell::code(measure),
            Cell::number(sum),
            Cell::number(settled),
            Cell::number(of_rollup),
            comparison,
        ]);
    }
    table
}

fn contributor_table(served: &Served, found: &FoundContributors) -> PageTable {
    let columns = ["item", "table", "entity", "measure", "share"];
    let mut table = PageTable::new("contributors", &columns, "No item that was read is counted into it.");
    for contributor in found.contributors.iter().take(SHOWN) {
        add_shares(served, &mut table, contributor);
    }
    table
}

fn add_shares(served: &Served, table: &mut PageTable, contributor: &Contributor) {
    let source = &contributor.source;
    let name = served.context.model().tables.get(source.table).map_or("", |table| &*table.name);
    let link = item_link(name, &source.partition, source.sort.as_deref());
    let text = [Some(&*source.partition), source.sort.as_deref()];
    let text = text.into_iter().flatten().collect::<Vec<_>>().join(" / ");
    let mut add = |measure: &str, share: Cell| {
        table.rows.push(vec![
            Cell::link(text.clone(), link.clone()),
            Cell::code(name),
            Cell::text(&*contributor.entity),
            Cell::code(measure),
            share,
        ]);
    };
    for (measure, share) in &contributor.shares {
        add(measure, Cell::number(share));
    }
    for (measure, value) in &contributor.extremes {
        add(measure, Cell::text(format!("the value {}", value_text(value))));
    }
}
