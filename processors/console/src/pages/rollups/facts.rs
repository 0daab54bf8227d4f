//! The parts of pages that describe a rollup: of the model, or as it is stored.

use std::sync::Arc;

use afterwrite_ledger::state::{EXPIRES_AT, REV, SORT_KEY, UPDATED_AT};
use afterwrite_model::harmless::harmless;
use afterwrite_model::record::{AttributeValue, Decimal, Item, Timestamp};
use maud::{Markup, html};

use super::downloads::downloads;
use super::shares::show_share;
use crate::links::{ROLLUPS_OF, item_link, rank_link, ranks_link, rollup_link, series_link};
use crate::prose::prose;
use crate::query::PageQuery;
use crate::rollup::asked::{FROM, TO, parameter};
use crate::rollup::counted::CountedChanges;
use crate::rollup::measures::{MeasureTotals, cell_of, show_measures};
use crate::rollup::reads::StoredRollup;
use crate::rollup::shape::RollupShape;
use crate::rollup::share::MeasureShare;
use crate::table::{Cell, PageTable, Verdict};
use crate::view::View;

/// The buckets of a link to a series.
const SERIES_BUCKETS: i64 = 30;

/// The page of a rollup: of its item, or of the sum of its shards.
pub(super) fn stored_link(shape: &RollupShape<'_>, rollup: &StoredRollup) -> String {
    if shape.rollup.shards <= 1 {
        return rollup_link(&rollup.partition, &rollup.sort);
    }
    let values = shape.rollup.values(&rollup.partition, &rollup.sort).unwrap_or_default();
    let values = values.iter().map(|value| &**value);
    series_link(&shape.rollup.name, shape.rollup.variables.iter().zip(values), &[])
}

/// The rollup as the model declares it. The links to its ranks have the values that the query has chosen.
pub(super) fn about(shape: &RollupShape<'_>, query: &PageQuery) -> Markup {
    let sources: Vec<&str> = shape.sources().iter().map(|entity| &*entity.name).collect();
    let mirrors = shape.rollup.mirrors.iter().filter_map(|index| shape.model.mirrors.get(*index));
    let mut shown: Vec<String> = mirrors.map(|mirror| shape.model.entity_name(mirror.onto)).collect();
    shown.dedup();
    let chosen = |fields: &[usize]| -> Vec<(String, &str)> {
        let names = fields.iter().map(|index| parameter(shape.variable(*index)));
        names.filter_map(|name| query.get(&name).map(|value| (name, value))).collect()
    };
    html! {
        p class="quiet" {
            @for sentence in &shape.reader.about { (prose(sentence)) " " }
            "It counts items of " (sources.join(", ")) "."
            @if !shown.is_empty() { " Items of " (shown.join(", ")) " show copies of its measures." }
            @for rank in &shape.reader.ranks {
                " " a href=(ranks_link(&shape.rollup.name, &rank.measure, &chosen(&rank.fields))) { "Its items in the order of " (harmless(&rank.measure)) } "."
            }
        }
    }
}

/// The newest of some times in items, in seconds since 1970 or as text.
fn newest<'i>(items: &[&'i Item], name: &str) -> Option<&'i AttributeValue<'static>> {
    let values = items.iter().filter_map(|item| item.get(name));
    values.max_by(|one, other| match (one.as_number(), other.as_number()) {
        (Some(one), Some(other)) => one.cmp(other),
        _ => one.as_text().cmp(&other.as_text()),
    })
}

/// The facts that every rollup has, of its items.
pub(super) fn stored_facts(items: &[&Item], counted: &CountedChanges) -> Vec<Vec<Cell>> {
    let fact = |name: &str, cell: Cell| vec![Cell::text(name), cell];
    let updated = newest(items, UPDATED_AT).and_then(AttributeValue::as_text);
    let updated =
        updated.map_or(Cell::Empty, |at| Timestamp::parse(at).map_or_else(|| Cell::text(at), Cell::Time));
    let expires = newest(items, EXPIRES_AT).and_then(AttributeValue::as_number).and_then(Decimal::to_i64);
    let expires = expires
        .map_or_else(|| Cell::text("never"), |seconds| Cell::Time(Timestamp::from_epoch_seconds(seconds)));
    let rev = MeasureTotals::of_one(items.to_vec()).sum(REV).unwrap_or(Decimal::ZERO);
    let state = if items.is_empty() {
        Cell::Verdict(Verdict::Unknown, "not stored".to_owned())
    } else {
        Cell::Verdict(Verdict::Good, "stored".to_owned())
    };
    let mut facts = vec![
        fact("state", state),
        fact(REV, Cell::number(rev)),
        fact(UPDATED_AT, updated),
        fact(EXPIRES_AT, expires),
    ];
    facts.extend(counted.facts().into_iter().map(|(name, cell)| fact(&name, cell)));
    facts
}

/// Adds a rollup that was asked for by its values: the sum of its shards, if it is sharded.
pub(super) fn show_one(
    view: &mut View,
    shape: &RollupShape<'_>,
    (rollup, counted): (&StoredRollup, &CountedChanges),
    query: &PageQuery,
) {
    let items = rollup.stored();
    let mut facts = PageTable::new("facts", &["fact", "value"], "");
    let key = format!("{} / {}", rollup.partition, rollup.sort);
    let key = match shape.rollup.shards {
        0 | 1 => Cell::link(key, rollup_link(&rollup.partition, &rollup.sort)),
        _ => Cell::code(key),
    };
    facts.rows.push(vec![Cell::text("key"), key]);
    facts.rows.extend(stored_facts(&items, counted));
    view.show(html! { h2 { "The rollup" } });
    if items.is_empty() {
        view.show(html! {
            p class="empty" { "No such rollup is stored: nothing was counted into it, or it has expired. Its counts and sums are 0." }
        });
    }
    view.table(facts);
    view.show(counted.note());
    if let Some(share) = MeasureShare::of(shape, query) {
        show_share(
            view,
            &share,
            SORT_KEY,
            vec![(Cell::code(&rollup.sort), MeasureTotals::of_one(items.clone()))],
            None,
        );
    }
    show_measures(view, std::slice::from_ref(shape), &MeasureTotals::of_one(items));
    show_shards(view, shape, rollup);
    show_links(view, shape, (&rollup.partition, &rollup.sort));
    view.show(downloads(query, ROLLUPS_OF));
}

/// Adds the shards of a rollup, which are added up.
fn show_shards(view: &mut View, shape: &RollupShape<'_>, rollup: &StoredRollup) {
    if shape.rollup.shards <= 1 {
        return;
    }
    let measures = &shape.reader.measures;
    let names = measures.iter().map(|measure| measure.name.as_str());
    let columns: Vec<&str> = ["shard"].into_iter().chain(names).chain([REV]).collect();
    let mut table = PageTable::new("shards", &columns, "No shard is stored.");
    for (partition, item) in &rollup.items {
        let totals = MeasureTotals::of_one(vec![item]);
        let mut row = vec![Cell::link(partition, rollup_link(partition, &rollup.sort))];
        row.extend(measures.iter().map(|measure| cell_of(totals.value(shape, measure).as_ref())));
        row.push(totals.sum(REV).map_or(Cell::Empty, Cell::number));
        table.rows.push(row);
    }
    view.show(html! {
        details { summary { (rollup.items.len()) " of " (shape.rollup.shards) " shards are stored" } (table.markup()) }
    });
    view.data(table);
}

/// Adds the links from a rollup to what it belongs to: its series, its partition, the members of its distinct counts, its ranks, and the items
/// that show it. The key has no shard.
pub(super) fn show_links(view: &mut View, shape: &RollupShape<'_>, (partition, sort): (&str, &str)) {
    let Some(values) = shape.rollup.values(partition, sort) else { return };
    let values: Vec<&str> = values.iter().map(|value| &**value).collect();
    let name = &*shape.rollup.name;
    let given = |wanted: &dyn Fn(usize) -> bool| -> Vec<(&Arc<str>, &str)> {
        let pairs = shape.rollup.variables.iter().zip(values.iter().copied()).enumerate();
        pairs.filter(|(index, _)| wanted(*index)).map(|(_, pair)| pair).collect()
    };
    let series = shape.bucket().and_then(|(bucket, format)| {
        let to = values.get(bucket).copied()?;
        let from = format.bucket.shifted(to, -SERIES_BUCKETS)?;
        Some(series_link(name, given(&|index| index != bucket), &[(FROM, &from), (TO, to)]))
    });
    let in_partition = |index: usize| shape.reader.fields.get(index).is_some_and(|field| field.is_partition);
    let neighbours = series_link(name, given(&in_partition), &[]);
    let distinct = shape.reader.measures.iter().filter(|measure| measure.value.kind() == "distinct");
    let members: Vec<(String, String)> = distinct
        .map(|measure| {
            let members = format!("{name}.{}", measure.name);
            let link = series_link(&members, given(&|_| true), &[]);
            (format!("the different values of {}", measure.name), link)
        })
        .collect();
    view.show(html! {
        ul class="links" {
            @if let Some(series) = series { li { a href=(series) { "The " (SERIES_BUCKETS) " buckets before it, and this one" } } }
            li { a href=(neighbours) { "Rollups of the same partition" } }
            @for (text, link) in &members { li { a href=(link) { (harmless(text)) } } }
            @for rank in &shape.reader.ranks {
                li { a href=(rank_link(name, &rank.measure, partition, sort)) { "Its rank by " (harmless(&rank.measure)) } }
            }
        }
    });
    show_mirrors(view, shape, (partition, sort));
}

/// Adds the items that show copies of a rollup's measures.
fn show_mirrors(view: &mut View, shape: &RollupShape<'_>, (partition, sort): (&str, &str)) {
    let columns = ["entity", "attribute", "measure", "item"];
    let mut table = PageTable::new("mirrors", &columns, "");
    for mirror in shape.rollup.mirrors.iter().filter_map(|index| shape.model.mirrors.get(*index)) {
        let values = mirror.item_values(shape.rollup, partition, sort);
        let (Some(entity), Some(values)) = (shape.model.entities.get(mirror.onto), values) else { continue };
        let written: Vec<_> = values.iter().map(|value| entity.key_values.written(value)).collect();
        let item_partition = entity.key.partition.render(&written);
        let item_sort = entity.key.sort.as_ref().map(|template| template.render(&written));
        let table_name = shape.model.tables.get(entity.table).map_or("", |table| &*table.name);
        let link = item_link(table_name, &item_partition, item_sort.as_deref());
        let text = [Some(item_partition.as_str()), item_sort.as_deref()];
        let text = text.into_iter().flatten().collect::<Vec<_>>().join(" / ");
        for attribute in &mirror.attributes {
            table.rows.push(vec![
                Cell::text(&*entity.name),
                Cell::code(attribute.path.to_string()),
                Cell::code(&*attribute.measure),
                Cell::link(text.clone(), link.clone()),
            ]);
        }
    }
    if !table.rows.is_empty() {
        view.show(html! { h2 { "Shown by" } });
        view.table(table);
    }
}
