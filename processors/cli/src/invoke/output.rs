//! The result of a stream event as text.

use afterwrite_operations::invocation::{FailureReport, InvocationReport};
use comfy_table::{ContentArrangement, Table};

use crate::print::new_table;

/// The changed items, the records and the failures.
pub(super) fn text(report: &InvocationReport) -> String {
    let mut text = String::new();
    let mut add = |title: &str, content: String| {
        if !content.is_empty() {
            let separator = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{separator}{title}\n\n{content}\n"));
        }
    };
    if report.items.is_empty() {
        add("Changed items", "none".to_owned());
    } else {
        add("Changed items", items_table(report).to_string());
    }
    let records: Vec<String> = report.records.iter().map(ToString::to_string).collect();
    add("Records", records.join("\n"));
    add("Lines for the archive", report.lines.join("\n"));
    add("Records that were not counted", failures(&report.failed));
    add("Parked records", failures(&report.parked));
    text
}

fn items_table(report: &InvocationReport) -> Table {
    let mut table = new_table(&["table", "type", "key", "attribute", "before", "after"]);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    for item in &report.items {
        let (partition, sort) = item.key_texts();
        let key = [Some(partition), sort].into_iter().flatten().collect::<Vec<_>>().join(" ");
        for (index, difference) in item.attributes().into_iter().enumerate() {
            let first = |text: &str| if index == 0 { text.to_owned() } else { String::new() };
            let value = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            table.add_row([
                first(&item.key.table),
                first(item.entity_type()),
                first(&key),
                difference.attribute,
                value(difference.before),
                value(difference.after),
            ]);
        }
    }
    table
}

fn failures(failed: &[FailureReport]) -> String {
    let line = |failed: &FailureReport| {
        format!("{}: {}", failed.sequence_number.as_deref().unwrap_or("-"), failed.error)
    };
    failed.iter().map(line).collect::<Vec<_>>().join("\n")
}
