//! What `docs/MODEL.md` says follows from its items does follow from its model.
//!
//! A `json` example is an item that is written, a `json expired` one the key of an item that time to live deletes; a `text` example
//! is all that there is then.

use afterwrite::record::AttributeValue;
use afterwrite::table::Model;
use afterwrite_tests::page::{self, Example};
use serde_json::Value;

use super::workload::{Delivered, Workload};

const PAGE: &str = include_str!("../../docs/MODEL.md");

#[tokio::test]
async fn what_the_page_says_follows_from_its_items() {
    let model = Model::parse(&page::model(PAGE), "docs/MODEL.md").unwrap_or_else(|errors| panic!("{errors}"));
    let mut workload = Workload::of_model(model);
    let mut since_last_told = Vec::new();
    let mut told = 0;
    for Example { kind, line, text } in page::examples(PAGE) {
        if let Some(how) = kind.strip_prefix("json") {
            let item: Value =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("line {line}: {error}"));
            let table = table_of(&workload.model, &item).to_owned();
            match how {
                "" => workload.put(&table, item),
                " expired" => workload.expire(&table, item),
                other => panic!("line {line}: nobody knows what {other} does to an item"),
            };
            since_last_told.extend(passed_on(&workload));
        } else if kind == "text" {
            let mut follows = counted(&workload.deliver("one by one").await, &workload.model);
            follows.append(&mut since_last_told);
            let follows = aligned(&follows);
            assert_eq!(text, follows, "line {line}: what follows is\n{follows}");
            told += 1;
        }
    }
    assert!(told >= 7, "the page tells {told} times only what follows");
}

/// The table whose key attributes an item has.
fn table_of<'m>(model: &'m Model, item: &Value) -> &'m str {
    let table = model.tables.iter().find(|table| table.key().all(|key| item.get(&*key.name).is_some()));
    table.map_or_else(|| panic!("{item} has the key of no table"), |table| &*table.name)
}

/// What the last change makes stale, and the rows that it becomes.
fn passed_on(workload: &Workload) -> Vec<[String; 3]> {
    let line = |kind: &str, what: String| [kind.to_owned(), what, String::new()];
    let stale = workload.all_stale();
    let keys = stale.keys().map(|stale| line("stale key", stale.key));
    let paths = stale.paths().map(|stale| line("stale path", stale.path));
    let rows = workload.rows().into_iter().map(|(row, _)| {
        let (dataset, what) = row.split_once(' ').unwrap_or((&row, ""));
        ["row".to_owned(), dataset.to_owned(), what.to_owned()]
    });
    keys.chain(paths).chain(rows).collect()
}

/// The rollups, and what the items of tables show of them.
fn counted(delivered: &Delivered, model: &Model) -> Vec<[String; 3]> {
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
        (None, None) => panic!("{value:?} is neither a text nor a number"),
    }
}

/// Lines in columns.
fn aligned(lines: &[[String; 3]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let line = |[kind, what, more]: &[String; 3]| format!("{kind:first$}  {what:second$}  {more}");
    lines.iter().map(|parts| format!("{}\n", line(parts).trim_end())).collect()
}
