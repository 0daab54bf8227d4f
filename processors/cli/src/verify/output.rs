//! The result of a verification, for people.

use afterwrite_model::harmless::harmless;
use afterwrite_operations::verify::{
    FindingVerdict, KeySample, RowDifference, RowLocation, UnjudgedPart, VerifyFinding, VerifyReport,
    VerifySummary,
};

use crate::print::{align_right, new_table};

pub(super) fn report_text(report: &VerifyReport) -> String {
    let mut table = new_table(&[]);
    for (name, value) in rows(&report.summary) {
        table.add_row([name.to_owned(), value]);
    }
    align_right(&mut table, 1..2);
    let findings: String = report.findings.iter().map(finding_text).collect();
    format!("{table}\n{findings}{}", unjudged_text(&report.summary.unjudged))
}

fn rows(summary: &VerifySummary) -> Vec<(&'static str, String)> {
    let VerifySummary {
        sample,
        items_confirmed,
        items,
        rollups_confirmed,
        rollups,
        rollups_expired,
        hashed_entries,
        datasets,
        dataset_keys,
        dataset_keys_confirmed,
        dataset_keys_unjudged,
        drift,
        undecided,
        undecided_until_mended,
        unrecorded_lives,
        drift_upper_bound,
        unjudged: _,
    } = summary;
    vec![
        ("sample", sample_text(sample)),
        ("items judged", items.to_string()),
        ("items confirmed", items_confirmed.to_string()),
        ("rollups judged", rollups.to_string()),
        ("rollups confirmed", rollups_confirmed.to_string()),
        ("rollups that have expired", rollups_expired.to_string()),
        ("entries with hashed keys", hashed_entries.to_string()),
        ("datasets", datasets.described().to_owned()),
        ("items and rows of datasets compared", dataset_keys.to_string()),
        ("items and rows of datasets confirmed", dataset_keys_confirmed.to_string()),
        ("items and rows of datasets not judged", dataset_keys_unjudged.to_string()),
        ("drift", drift.to_string()),
        ("undecided", undecided.to_string()),
        ("undecided until the cause is mended", undecided_until_mended.to_string()),
        ("items that ended or began without a record", unrecorded_lives.to_string()),
        ("upper bound of the share of wrong items, 95 %", format!("{:.4} %", drift_upper_bound * 100.0)),
    ]
}

fn unjudged_text(parts: &[UnjudgedPart]) -> String {
    parts.iter().map(|part| format!("\nnot judged: {}\n", part.line())).collect()
}

fn sample_text(sample: &KeySample) -> String {
    if sample.is_all() {
        return "everything".to_owned();
    }
    format!("--sample {} --seed {}", sample.share, sample.seed)
}

pub(crate) fn finding_text(finding: &VerifyFinding) -> String {
    let verdict = match finding.verdict {
        FindingVerdict::Drift => "drift",
        FindingVerdict::Undecided(_) => "undecided",
    };
    let place = serde_json::to_value(finding.place()).ok();
    let place = place.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
    let (_, key) = finding.subject.key();
    let mut text = format!("\n{verdict}: {place} {}", harmless(&key.join(" / ")));
    if let Some(RowLocation { dataset, day, difference }) = finding.subject.row() {
        let difference = match difference {
            RowDifference::Missing => "row missing",
            RowDifference::Foreign => "row without item",
            RowDifference::Different => "row differs",
        };
        text.push_str(&format!(" in {dataset} dt={}: {difference}", harmless(day)));
    }
    if let Some(cause) = &finding.cause {
        text.push_str(&format!("\n    {}", harmless(cause)));
    }
    for (name, value) in &finding.values {
        let shown = |value: &Option<String>| harmless(value.as_deref().unwrap_or("absent")).into_owned();
        text.push_str(&format!(
            "\n    {}: expected {}, found {}",
            harmless(name),
            shown(&value.expected),
            shown(&value.found)
        ));
    }
    text + "\n"
}
