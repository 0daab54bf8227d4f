//! The examples of `docs/MODEL.md`: its items, written to its model, give the results that it shows.
//!
//! A `json` example is an item that is written, a `json expired` example the key of an item that time to live deletes. A `text` example
//! lists all results up to there.

use afterwrite::record::AttributeValue;
use afterwrite::table::Model;
use afterwrite_tests::page::{self, PageExample};
use serde_json::Value;

use super::delivery::{DeliveredWorkload, DeliveryOrder};
use super::workload::TableWorkload;

const PAGE: &str = include_str!("../../docs/MODEL.md");

#[tokio::test]
async fn the_items_of_the_page_give_the_results_that_it_shows() {
    let model = Model::parse(&page::model(PAGE), "docs/MODEL.md").unwrap_or_else(|errors| panic!("{errors}"));
    let mut workload = TableWorkload::of_model(model);
    let mut relayed = Vec::new();
    let mut compared = 0;
    for PageExample { kind, line, text } in page::examples(PAGE) {
        if let Some(how) = kind.strip_prefix("json") {
            let item: Value =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("line {line}: {error}"));
            let table = table_of(&workload.model, &item).to_owned();
            match how {
                "" => workload.put(&table, item),
                " expired" => workload.expire(&table, item),
                other => panic!("line {line}: `json{other}` is neither an item nor an expiry"),
            };
            relayed.extend(relayed_lines(&workload));
        } else if kind == "text" {
            let mut results =
                counted_lines(&workload.deliver(DeliveryOrder::OneByOne).await, &workload.model);
            results.append(&mut relayed);
            let results = aligned(&results);
            assert_eq!(text, results, "line {line}: the results are\n{results}");
            compared += 1;
        }
    }
    assert!(compared >= 7, "the page shows results only {compared} times");
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
