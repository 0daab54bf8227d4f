//! The examples of `docs/MODEL.md` and of the README: the items of a page, written to its model, give the results that it shows.
//!
//! A `json` example has items that are written, a `json expired` example the key of an item that time to live deletes. A `text` example
//! lists all results up to there.

use afterwrite_model::record::AttributeValue;
use afterwrite_model::table::Model;
use afterwrite_tests::page::{self, PageExample};
use serde_json::Value;

use super::delivery::{DeliveredWorkload, DeliveryOrder};
use super::workload::TableWorkload;

const PAGE: &str = include_str!("../../docs/MODEL.md");
const README: &str = include_str!("../../README.md");

#[tokio::test]
async fn the_items_of_the_page_give_the_results_that_it_shows() {
    let compared = compare_results(PAGE, "docs/MODEL.md").await;
    assert!(compared >= 7, "the page shows results only {compared} times");
}

#[tokio::test]
async fn the_items_of_the_readme_give_the_numbers_that_it_shows() {
    assert_eq!(compare_results(README, "README.md").await, 1);
}

/// Writes the items of a page, and compares the results with each list on it. Returns the number of lists.
async fn compare_results(source: &str, name: &str) -> usize {
    let model = Model::parse(&page::model(source), name).unwrap_or_else(|errors| panic!("{errors}"));
    let mut workload = TableWorkload::of_model(model);
    let mut relayed = Vec::new();
    let mut compared = 0;
    for example in page::examples(source) {
        if let Some(how) = example.kind.strip_prefix("json") {
            relayed.extend(write_items(&mut workload, how, &example));
        } else if example.kind == "text" {
            let mut results =
                counted_lines(&workload.deliver(DeliveryOrder::OneByOne).await, &workload.model);
            results.append(&mut relayed);
            let results = aligned(&results);
            assert_eq!(example.text, results, "line {}: the results are\n{results}", example.line);
            compared += 1;
        }
    }
    compared
}

/// Writes the items of an example. Returns the stale keys, stale paths and rows of their changes, each once.
fn write_items(workload: &mut TableWorkload, how: &str, example: &PageExample) -> Vec<[String; 3]> {
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

/// The stale keys, stale paths and rows of the last change.
fn relayed_lines(workload: &TableWorkload) -> Vec<[String; 3]> {
    let line = |kind: &str, what: String| [kind.to_owned(), what, String::new()];
    let stale = workload.all_stale();
    let keys = stale.keys().map(|stale| line("stale key", stale.key));
    let paths = stale.paths().keys().map(|path| line("stale path", path.clone()));
    let rows = workload.rows().into_iter().map(|(row, _)| {
        let (dataset, what) = row.split_once(' ').unwrap_or((&row, ""));
        ["row".to_owned(), dataset.to_owned(), what.to_owned()]
    });
    keys.chain(paths).chain(rows).collect()
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
