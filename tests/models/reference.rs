//! The examples of `docs/MODEL.md`, of `docs/COOKBOOK.md` and of the README: the items of a page, written to its model, give the results that it shows.
//!
//! A `json` example has items that are written, a `json expired` example the key of an item that time to live deletes. A `text` example
//! lists all results up to there, or in recipes the results of the recipe. A `json event` example is the message of one of the events.

use std::collections::BTreeSet;

use afterwrite_model::projection::Event;
use afterwrite_model::record::AttributeValue;
use afterwrite_model::table::Model;
use afterwrite_tests::page::{self, PageExample};
use serde_json::Value;

use super::delivery::{DeliveredWorkload, DeliveryOrder};
use super::workload::TableWorkload;

const PAGE: &str = include_str!("../../docs/MODEL.md");
const COOKBOOK: &str = include_str!("../../docs/COOKBOOK.md");
const README: &str = include_str!("../../README.md");

#[tokio::test]
async fn the_items_of_the_page_give_the_results_that_it_shows() {
    let compared = compare_results(PAGE, "docs/MODEL.md", ListedTotals::All).await;
    assert!(compared >= 7, "the page shows results only {compared} times");
}

#[tokio::test]
async fn the_recipes_for_events_give_the_events_that_they_show() {
    assert_eq!(compare_results(COOKBOOK, "docs/COOKBOOK.md", ListedTotals::New).await, 3);
}

#[tokio::test]
async fn the_items_of_the_readme_give_the_numbers_that_it_shows() {
    assert_eq!(compare_results(README, "README.md", ListedTotals::All).await, 1);
}

/// The rollups and mirrors in a list of results.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListedTotals {
    /// All of them.
    All,
    /// Those that differ from the lists before.
    New,
}

/// Writes the items of a page, and compares the results with each list on it. Returns the number of lists.
async fn compare_results(source: &str, name: &str, totals: ListedTotals) -> usize {
    let model = Model::parse(&page::model(source), name).unwrap_or_else(|errors| panic!("{errors}"));
    let mut workload = TableWorkload::of_model(model);
    let (mut relayed, mut messages, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    let (mut compared, mut told, mut listed) = (0, BTreeSet::new(), BTreeSet::new());
    for example in page::examples(source) {
        if example.kind == "json event" {
            shown.push(example);
        } else if let Some(how) = example.kind.strip_prefix("json") {
            relayed.extend(write_items(&mut workload, how, &example, &mut messages));
        } else if example.kind == "text" {
            let delivered = workload.deliver(DeliveryOrder::OneByOne).await;
            let mut results = counted_lines(&delivered, &workload.model);
            results.retain(|total| listed.insert(total.clone()) || totals == ListedTotals::All);
            results.append(&mut relayed);
            let of_rollups = rollup_events(&workload, &delivered).into_iter();
            results.extend(of_rollups.filter(|event| told.insert(event.id.clone())).filter_map(event_line));
            let results = aligned(&results);
            assert_eq!(example.text, results, "line {}: the results are\n{results}", example.line);
            compared += 1;
        }
    }
    for PageExample { line, text, .. } in shown {
        let message: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("line {line}: {error}"));
        assert!(messages.contains(&message), "line {line}: the messages are\n{messages:#?}");
    }
    compared
}

/// Writes the items of an example. Returns the stale keys, stale paths, events and rows of their changes, each once.
/// Adds the messages of the events.
fn write_items(
    workload: &mut TableWorkload,
    how: &str,
    example: &PageExample,
    messages: &mut Vec<Value>,
) -> Vec<[String; 3]> {
    let line = example.line;
    let mut relayed = Vec::new();
    for item in serde_json::Deserializer::from_str(&example.text).into_iter::<Value>() {
        let item = item.unwrap_or_else(|error| panic!("line {line}: {error}"));
        let table = table_of(&workload.model, &item).to_owned();
        match how {
            "" => workload.put(&table, item),
            " expired" => workload.expire(&table, item),
            other => panic!("line {line}: `json{other}` is neither an item nor an expiry"),
        };
        let bodies = workload.events().into_iter().map(|event| event.body());
        messages.extend(bodies.map(|body| serde_json::from_str::<Value>(&body).expect("JSON")));
        for result in relayed_lines(workload) {
            if !relayed.contains(&result) {
                relayed.push(result);
            }
        }
    }
    relayed
}

/// The table whose key attributes an item has.
fn table_of<'m>(model: &'m Model, item: &Value) -> &'m str {
    let table = model.tables.iter().find(|table| table.key().all(|key| item.get(&*key.name).is_some()));
    table.map_or_else(|| panic!("{item} has the key of no table"), |table| &*table.name)
}

/// The stale keys, stale paths, events and rows of the last change. The record itself, which can be an event too, is left out.
fn relayed_lines(workload: &TableWorkload) -> Vec<[String; 3]> {
    let line = |kind: &str, what: String| [kind.to_owned(), what, String::new()];
    let stale = workload.all_stale();
    let keys = stale.keys().map(|stale| line("stale key", stale.key));
    let paths = stale.paths().keys().map(|path| line("stale path", path.clone()));
    let events = workload.events().into_iter().filter_map(event_line);
    let rows = workload.rows().into_iter().map(|(row, _)| {
        let (dataset, what) = row.split_once(' ').unwrap_or((&row, ""));
        ["row".to_owned(), dataset.to_owned(), what.to_owned()]
    });
    keys.chain(paths).chain(events).chain(rows).collect()
}

/// The events of rollups that are sources. Delivering the same changes again gives the same events.
fn rollup_events(workload: &TableWorkload, delivered: &DeliveredWorkload) -> Vec<Event> {
    let Some(table) = workload.model.state_source() else { return Vec::new() };
    delivered.rollup_records().iter().flat_map(|record| workload.events_of(table, record)).collect()
}

/// An event; `None` if it is the change record.
fn event_line(event: Event) -> Option<[String; 3]> {
    Some(["event".to_owned(), event.name.to_string(), event.detail()?.to_owned()])
}

/// The rollups, and the attributes of items that mirror them.
fn counted_lines(delivered: &DeliveredWorkload, model: &Model) -> Vec<[String; 3]> {
    let rollups = delivered.rollups().into_iter().map(|((partition, sort), measures)| {
        let measures: Vec<String> =
            measures.iter().map(|(name, value)| format!("{name} = {}", plain(value))).collect();
        ["rollup".to_owned(), format!("{partition} {sort}"), measures.join(", ")]
    });
    let mut lines: Vec<[String; 3]> = rollups.collect();
    for mirror in &model.mirrors {
        let table = &model.tables[model.entities[mirror.onto].table];
        for item in delivered.tables().scan(&table.name) {
            let key: Vec<&AttributeValue<'_>> = table.key().map(|key| &item[&*key.name]).collect();
            let names = table.key().map(|key| key.name.to_string());
            let pointer: Value = names.zip(key.iter().map(|value| Value::String(plain(value)))).collect();
            let shown = mirror.attributes.iter().filter_map(|attribute| {
                let path = attribute.path.to_string();
                let value = delivered.shown(&table.name, &pointer, &path)?;
                Some(format!("{path} = {}", plain(&value)))
            });
            let shown: Vec<String> = shown.collect();
            if !shown.is_empty() {
                let key: Vec<String> = key.into_iter().map(plain).collect();
                lines.push(["shown".to_owned(), key.join(" "), shown.join(", ")]);
            }
        }
    }
    lines
}

fn plain(value: &AttributeValue<'_>) -> String {
    match (value.as_text(), value.as_number()) {
        (Some(text), _) => text.to_owned(),
        (_, Some(number)) => number.to_string(),
        (None, None) => panic!("{value:?} is neither text nor a number"),
    }
}

/// The lines in aligned columns.
fn aligned(lines: &[[String; 3]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let line = |[kind, what, more]: &[String; 3]| format!("{kind:first$}  {what:second$}  {more}");
    lines.iter().map(|parts| format!("{}\n", line(parts).trim_end())).collect()
}
