//! A finding ⇄ its line of JSON: key, place, expected and found values, and nothing else of an item.

use std::collections::BTreeMap;

use afterwrite_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::finding::{
    ExpectedValue, FindingPlace, FindingSubject, FindingVerdict, FoundItem, RowLocation, UndecidedReason,
    VerifyFinding,
};
use super::life::FindingLife;
use super::sample::KeySample;

/// A line. Fields that a finding does not have are left out.
#[derive(Serialize, Deserialize)]
pub(super) struct FindingLine {
    place: FindingPlace,
    verdict: LineVerdict,
    /// The table of the key, as the model names it; `None` for the state table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    /// The partition key, and the sort key if there is one.
    key: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    row: Option<RowLocation>,
    values: BTreeMap<String, ExpectedValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rev: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    life: Option<FindingLife>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    /// The reason of the verdict `undecided`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    undecided: Option<UndecidedReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    #[serde(flatten)]
    sample: Option<KeySample>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LineVerdict {
    Drift,
    Undecided,
}

impl From<VerifyFinding> for FindingLine {
    fn from(finding: VerifyFinding) -> Self {
        let VerifyFinding { subject, verdict, values, rev, cause, generation, sample } = finding;
        let (verdict, undecided) = match verdict {
            FindingVerdict::Drift => (LineVerdict::Drift, None),
            FindingVerdict::Undecided(reason) => (LineVerdict::Undecided, reason),
        };
        let (table, key) = subject.key();
        Self {
            place: subject.place(),
            verdict,
            table: table.map(str::to_owned),
            key: key.into_iter().map(str::to_owned).collect(),
            row: subject.row().cloned(),
            values,
            rev,
            life: subject.life(),
            cause,
            undecided,
            generation,
            sample,
        }
    }
}

impl TryFrom<FindingLine> for VerifyFinding {
    type Error = &'static str;

    fn try_from(line: FindingLine) -> std::result::Result<Self, &'static str> {
        let FindingLine { verdict, values, rev, cause, undecided, generation, sample, .. } = line;
        let subject = subject(line.place, (line.table, line.key), line.row, line.life)?;
        let verdict = match verdict {
            LineVerdict::Drift => FindingVerdict::Drift,
            LineVerdict::Undecided => FindingVerdict::Undecided(undecided),
        };
        Ok(Self { subject, verdict, values, rev, cause, generation, sample })
    }
}

fn subject(
    place: FindingPlace,
    (table, key): (Option<String>, Vec<String>),
    row: Option<RowLocation>,
    life: Option<FindingLife>,
) -> std::result::Result<FindingSubject, &'static str> {
    let mut parts = key.into_iter();
    let (partition, sort, more) = (parts.next(), parts.next(), parts.next());
    let (Some(partition), None) = (partition, more) else { return Err("a key has one or two parts") };
    let is_rollup = table.is_none();
    let item = table.map(|table| FoundItem { table, partition: partition.clone(), sort: sort.clone() });
    let item = item.ok_or("the key of an item has a table");
    Ok(match place {
        FindingPlace::Ledger => FindingSubject::Entry(item?, life),
        FindingPlace::UnreadableEntry => FindingSubject::UnreadableEntry(item?),
        FindingPlace::Rollup => match sort.filter(|_| is_rollup) {
            Some(sort) => FindingSubject::Rollup((partition, sort)),
            None => return Err("the key of a rollup has two parts and no table"),
        },
        FindingPlace::Extreme => FindingSubject::Extreme(item?),
        FindingPlace::Mirror => FindingSubject::Mirror(item?),
        FindingPlace::ThreeWay => FindingSubject::ThreeWay(item?),
        FindingPlace::Dataset => {
            FindingSubject::Row(item?, row.ok_or("a finding about a dataset has a row")?)
        }
    })
}

/// Reads findings, one a line.
///
/// # Errors
/// [`ErrorKind::Configuration`] if a line is not a finding.
pub fn parse_findings(text: &str) -> Result<Vec<VerifyFinding>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let findings = lines.map(|(number, line)| {
        serde_json::from_str(line).map_err(|error| {
            Error::new(ErrorKind::Configuration, "a line is not a finding of `afterwrite verify`")
                .with("line", (number + 1).to_string())
                .caused_by(error)
        })
    });
    findings.collect()
}

/// Findings as text, one a line.
#[must_use]
pub fn finding_lines(findings: &[VerifyFinding]) -> String {
    let lines = findings.iter().filter_map(|finding| serde_json::to_string(finding).ok());
    lines.map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [&str; 7] = [
        r#"{"place":"ledger","verdict":"drift","table":"Shop","key":["ORDER#1","-"],"values":{},"rev":"7","life":"vanished","generation":2}"#,
        r#"{"place":"unreadable_entry","verdict":"drift","table":"Shop","key":["ORDER#1"],"values":{}}"#,
        r#"{"place":"rollup","verdict":"undecided","key":["COUNTRY#NO","ROLLUP"],"values":{"orders":{"expected":"2","found":null}},"cause":"it changed","undecided":"changed"}"#,
        r#"{"place":"extreme","verdict":"drift","table":"Shop","key":["ORDER#1"],"values":{},"sample":0.5,"seed":7}"#,
        r#"{"place":"mirror","verdict":"undecided","table":"Shop","key":["ORDER#1"],"values":{}}"#,
        r#"{"place":"three_way","verdict":"drift","table":"Shop","key":["ORDER#1"],"values":{}}"#,
        r#"{"place":"dataset","verdict":"drift","table":"Shop","key":["ORDER#1"],"row":{"dataset":"orders","day":"2026-02-06","difference":"missing"},"values":{}}"#,
    ];

    #[test]
    fn a_line_of_every_place_is_read_and_written_unchanged() {
        for line in LINES {
            let findings = parse_findings(line).unwrap();
            assert_eq!(finding_lines(&findings), format!("{line}\n"));
        }
    }

    #[test]
    fn a_line_without_a_part_of_its_key_is_refused() {
        for line in [
            LINES[0].replace(r#""table":"Shop","#, ""),
            LINES[1].replace(r#"["ORDER#1"]"#, "[]"),
            LINES[2].replace(r#","ROLLUP""#, ""),
            LINES[6].replace(r#""row""#, r#""place_of_row""#),
        ] {
            assert_eq!(parse_findings(&line).unwrap_err().kind(), ErrorKind::Configuration, "{line}");
        }
    }
}
