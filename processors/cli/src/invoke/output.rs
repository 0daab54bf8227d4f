//! The result of a stream event as text.

use afterwrite_model::harmless::harmless;
use afterwrite_preview::invocation::{FailureReport, InvocationReport};

use crate::item_table::difference_text;

/// The changed items, the records and the failures; after failures, `note`.
pub(super) fn text(report: &InvocationReport, note: Option<&str>) -> String {
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
        add("Changed items", difference_text(&report.items));
    }
    let records: Vec<String> = report.records.iter().map(ToString::to_string).collect();
    add("Records", records.join("\n"));
    add("Lines for the archive", report.lines.join("\n"));
    add("Events", report.events.join("\n"));
    add("Records that were not counted", failures(&report.failed));
    add("Parked records", failures(&report.parked));
    if let Some(note) = note.filter(|_| !report.is_counted()) {
        add("Note", note.to_owned());
    }
    text
}

fn failures(failed: &[FailureReport]) -> String {
    let line = |failed: &FailureReport| {
        let number = failed.sequence_number.as_deref().unwrap_or("-");
        harmless(&format!("{number}: {}", failed.error)).into_owned()
    };
    failed.iter().map(line).collect::<Vec<_>>().join("\n")
}
