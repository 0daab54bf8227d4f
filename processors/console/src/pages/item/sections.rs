//! The sections of the page of one item.

use afterwrite_ledger::tables::item_bytes;
use afterwrite_model::Result;
use afterwrite_model::harmless::harmless;
use afterwrite_model::projection::attribute;
use afterwrite_model::record::{AttributeValue, Decimal, Image, Item, Timestamp};
use afterwrite_preview::explain::{Consequences, ItemProblem, LookupResult};
use maud::{Markup, html};

use super::contents::HIDDEN;
use super::reading::ItemReading;
use super::shares::{mirror_table, share_table};
use super::{contents, entities, entry};
use crate::incidents::{FailedBatches, prefix_of};
use crate::links::ITEM;
use crate::pages::health::failures::redrive_command;
use crate::query::PageQuery;
use crate::recount::COUNTING;
use crate::served::Served;
use crate::table::{Cell, PageTable, Verdict};
use crate::time::time;
use crate::view::View;

/// Adds the sections.
pub(super) async fn show(
    served: &Served,
    view: &mut View,
    reading: &ItemReading,
    query: &PageQuery,
) -> Result<()> {
    let model = served.context.model();
    let shows_items = served.context.options.shows_items;
    view.show(html! { h2 { (harmless(&key_text(reading))) } });
    view.table(facts(served, reading));
    let found = reading.consequences.as_ref();
    if found.is_none() {
        entities::show(view, model, (&reading.source, reading.item.as_ref()), shows_items);
    }
    let given_up = given_up(served, reading).await?;
    for problem in found.iter().flat_map(|found| &found.problems) {
        view.show(html! { div class="problem" role="alert" { pre { "It cannot be counted: " (problem_text(problem, given_up)) } } });
    }
    if given_up {
        view.show(given_up_note(served, reading));
    }
    view.show(html! { h2 { "Shares of rollups" } });
    view.table(share_table(served, reading).await?);
    entry::show(view, model, (&reading.entry, &reading.source), reading.item.is_some());
    if let (Some(item), Some(found)) = (&reading.item, found) {
        show_left_out(view, found, shows_items);
        view.show(html! { h2 { "Mirrors" } });
        view.table(mirror_table(served, item, found).await?);
        show_lookups(view, found, shows_items);
        show_effects(view, found);
    }
    show_events(served, view, reading);
    if let Some(item) = &reading.item {
        contents::show(served, view, reading.source.table, item);
    }
    let link = query.address(ITEM, [("format", Some("json"))]);
    view.show(
        html! { p class="quiet" { "All tables as " a href=(link) { "JSON" } ", with exact numbers." } },
    );
    Ok(())
}

/// A problem of the item. Its advice does not hold for a record that was given up: that record is not delivered again.
fn problem_text(problem: &ItemProblem, given_up: bool) -> String {
    let text = if given_up && problem.is_redelivered {
        format!("{}. Its record is not delivered again", problem.problem)
    } else {
        problem.to_string()
    };
    harmless(&text).into_owned()
}

/// Whether this process has given up a change of the item, and failed batches of its table are left.
async fn given_up(served: &Served, reading: &ItemReading) -> Result<bool> {
    let context = &served.context;
    let name = context.config.table_names.get(reading.source.table);
    let Some((board, name)) = context.board().zip(name) else { return Ok(false) };
    let streams = board.meters.streams_of(COUNTING);
    let of_table = streams.iter().find(|stream| *stream.table == **name);
    if !of_table.is_some_and(|stream| stream.has_given_up(key_parts(reading))) {
        return Ok(false);
    }
    Ok(FailedBatches::read(context).await?.of(COUNTING, name) > 0)
}

/// Where the record is that was given up, and the command that processes it again.
fn given_up_note(served: &Served, reading: &ItemReading) -> Markup {
    let context = &served.context;
    let name = context.config.table_names.get(reading.source.table);
    let command = name.and_then(|name| redrive_command(context, &prefix_of(COUNTING, name)));
    html! {
        p {
            "A change of this item was given up after its retries. Unless it was processed again since, it is in a failed batch: "
            a href="/health/failures" { "Failed batches" }
            @if command.is_some() { ". In a terminal:" } @else { "." }
        }
        @if let Some(command) = command { pre { (command) } }
    }
}

fn key_text(reading: &ItemReading) -> String {
    key_parts(reading).collect::<Vec<_>>().join(" / ")
}

/// The values of the item's key.
fn key_parts(reading: &ItemReading) -> impl Iterator<Item = &str> + Clone {
    let source = &reading.source;
    [Some(&*source.partition), source.sort.as_deref()].into_iter().flatten()
}

fn facts(served: &Served, reading: &ItemReading) -> PageTable {
    let model = served.context.model();
    let mut table = PageTable::new("item", &["fact", "value"], "");
    let mut fact = |name: &str, cell: Cell| table.rows.push(vec![Cell::text(name), cell]);
    let index = reading.source.table;
    let name = model.tables.get(index).map_or("", |table| &*table.name);
    fact("table", Cell::code(name));
    let deployed = served.context.config.table_names.get(index).filter(|deployed| ***deployed != *name);
    if let Some(deployed) = deployed {
        fact("deployed as", Cell::code(&**deployed));
    }
    fact(
        "exists",
        match reading.item {
            Some(_) => Cell::Verdict(Verdict::Good, "yes".to_owned()),
            None => Cell::Verdict(Verdict::Unknown, "no".to_owned()),
        },
    );
    if let Some(found) = &reading.consequences {
        fact("entity", Cell::text(&found.entity));
        for (variable, value) in found.key.iter() {
            fact(&format!("{{{variable}}}"), Cell::code(value));
        }
    }
    if let Some(item) = &reading.item {
        fact("bytes", Cell::number(item_bytes(item)));
        if let Some(expires) = expiry(served, reading, item) {
            fact("expires", Cell::Time(expires));
        }
    }
    for secret in reading.consequences.iter().flat_map(|found| &found.secret) {
        fact("never leaves the table", Cell::code(secret));
    }
    table
}

/// When TTL deletes the item.
fn expiry(served: &Served, reading: &ItemReading, item: &Item) -> Option<Timestamp> {
    let model = served.context.model();
    let found = reading.consequences.as_ref()?;
    let entity = model.entities.iter().find(|entity| *entity.name == *found.entity)?;
    let image = Image::from_item(item, &model.attributes);
    let seconds = attribute(&image, entity.ttl.as_ref()?).and_then(AttributeValue::as_number);
    seconds.and_then(Decimal::to_i64).map(Timestamp::from_epoch_seconds)
}

/// Adds the conditions that leave the item out.
fn show_left_out(view: &mut View, found: &Consequences, shows_items: bool) {
    let mut table = PageTable::new("left_out", &["part of the model", "needs", "the item"], "");
    for left in &found.left_out {
        let found = if shows_items || !left.shows_value { left.found.clone() } else { HIDDEN.to_owned() };
        table.rows.push(vec![Cell::text(&left.part), Cell::code(&left.needs), Cell::text(found)]);
    }
    if table.rows.is_empty() {
        return;
    }
    view.show(html! {
        h2 { "Left out" }
        p class="quiet" { "The parts of the model whose conditions the item does not meet, and the measures whose values it does not have." }
    });
    view.table(table);
}

/// Adds the lookups that the item uses, and those that find it.
fn show_lookups(view: &mut View, found: &Consequences, shows_items: bool) {
    let mut table = PageTable::new("lookups", &["use", "lookup", "key", "outputs"], "");
    let mut add = |used: &str, lookup: &LookupResult| {
        let outputs: Vec<String> =
            lookup.gives.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let outputs = match outputs.as_slice() {
            [] => "none".to_owned(),
            outputs if shows_items => outputs.join(", "),
            _ => HIDDEN.to_owned(),
        };
        table.rows.push(vec![
            Cell::text(used),
            Cell::text(&lookup.lookup),
            Cell::code(&lookup.by),
            Cell::text(outputs),
        ]);
    };
    found.asks.iter().for_each(|lookup| add("the item needs it", lookup));
    found.answers.iter().for_each(|lookup| add("it finds the item", lookup));
    if !table.rows.is_empty() {
        view.show(html! { h2 { "Lookups" } });
        view.table(table);
    }
}

/// Adds the cache keys, paths and rows that follow from a change of the item.
fn show_effects(view: &mut View, found: &Consequences) {
    let mut stale =
        PageTable::new("stale", &["key or path", "remedy"], "No cache key or path follows from it.");
    for key in &found.stale_keys {
        stale.rows.push(vec![Cell::code(&key.key), Cell::text(&key.remedy)]);
    }
    for path in &found.stale_paths {
        stale.rows.push(vec![Cell::code(path), Cell::text("CloudFront")]);
    }
    let mut rows =
        PageTable::new("rows", &["dataset", "dt", "rescued columns"], "It has no row in a dataset.");
    for row in &found.rows {
        let rescued: Vec<&str> = row.rescued.keys().map(String::as_str).collect();
        rows.rows.push(vec![Cell::text(&row.dataset), Cell::code(&row.dt), Cell::text(rescued.join(", "))]);
    }
    for (title, table) in [("Caches that a change makes stale", stale), ("Rows of datasets", rows)] {
        view.show(html! { h2 { (title) } });
        view.table(table);
    }
}

/// Adds the events of the item's newest change, if this process has counted it; otherwise the events of an insertion.
fn show_events(served: &Served, view: &mut View, reading: &ItemReading) {
    let context = &served.context;
    let name = context.config.table_names.get(reading.source.table);
    let newest =
        context.board().zip(name).and_then(|(board, name)| board.changes.newest_of(name, key_parts(reading)));
    if let Some(change) = newest {
        let events = change.trace.events.iter().map(|event| (event.name.as_str(), event.to.as_deref()));
        view.show(html! {
            h2 { "Events of its newest change" }
            p class="quiet" {
                (harmless(&change.trace.operation)) ", " (change.taken()) " " (time(change.counted_at)) ", number " (change.number) " of the page "
                a href="/play" { "Play" } "."
            }
        });
        view.table(event_table(events, "This change sent no event."));
    } else if let Some(found) = &reading.consequences {
        let events = found.events.iter().map(|event| (event.name.as_str(), event.to.as_deref()));
        view.show(html! {
            h2 { "Events that its creation sends" }
            p class="quiet" {
                "As if the item were inserted as it is now. The events of a change depend on the item before the change, too: "
                code { "afterwrite tail" } " shows the events of each record."
            }
        });
        view.table(event_table(events, "Its creation sends no event."));
    }
}

fn event_table<'e>(events: impl Iterator<Item = (&'e str, Option<&'e str>)>, if_empty: &str) -> PageTable {
    let mut table = PageTable::new("events", &["event", "to"], if_empty);
    let row = |(name, to): (&str, Option<&str>)| {
        vec![Cell::text(name), Cell::text(to.unwrap_or("the default target"))]
    };
    table.rows = events.map(row).collect();
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_a_problem_is_delivered_again_unless_it_was_given_up_or_is_parked() {
        let of = |problem: &str, is_redelivered| ItemProblem {
            problem: problem.to_owned(),
            advice: Some("Wait".to_owned()),
            is_redelivered,
        };
        let absent = of("lookup `depot` found no item", true);
        assert_eq!(problem_text(&absent, false), "lookup `depot` found no item. Wait");
        assert_eq!(
            problem_text(&absent, true),
            "lookup `depot` found no item. Its record is not delivered again"
        );
        assert_eq!(
            problem_text(&of("attribute at is not a time", false), true),
            "attribute at is not a time. Wait"
        );
    }
}
