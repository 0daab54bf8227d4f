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
use crate::jobs::count;

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

/// The first line of a report: with the number of its findings, because a report that was cut has fewer.
#[derive(Serialize)]
struct FirstLine<'f> {
    #[serde(flatten)]
    finding: &'f VerifyFinding,
    findings: u64,
}

/// The number of findings that a line names.
#[derive(Deserialize)]
struct NamedNumber {
    findings: Option<u64>,
}

/// The findings of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingsReport {
    /// The findings.
    pub findings: Vec<VerifyFinding>,
    /// Whether they are all findings of the run.
    pub extent: ReportExtent,
}

/// Whether a report has all findings of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportExtent {
    /// It has as many findings as it names, or is the empty report of a run without findings.
    Whole,
    /// It does not name their number: an earlier version has written it, or it was cut or edited.
    Unknown,
}

/// The content of a report until its verification is done. It is no finding: no command takes it for the report of a run without drift.
pub const UNFINISHED_REPORT: &str = "This verification has not finished.\n";

/// Reads findings, one a line, and their number. Reports may be joined.
///
/// # Errors
/// [`ErrorKind::Configuration`] if a line is not a finding, or if there are other than the named number of findings.
pub fn parse_findings(text: &str) -> Result<FindingsReport> {
    if text == UNFINISHED_REPORT {
        return Err(Error::new(
            ErrorKind::Configuration,
            "the verification of these findings has not finished",
        )
        .hint("Resume its job: `afterwrite jobs list` shows it"));
    }
    let (mut findings, mut named) = (Vec::new(), None);
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        if let Ok(NamedNumber { findings: Some(of_report) }) = serde_json::from_str(line) {
            named = Some(named.unwrap_or(0) + of_report);
        }
        let finding: VerifyFinding = serde_json::from_str(line).map_err(|error| {
            Error::new(ErrorKind::Configuration, "a line is not a finding of `afterwrite verify`")
                .with("line", (number + 1).to_string())
                .caused_by(error)
        })?;
        findings.push(finding);
    }
    match named {
        None if findings.is_empty() => Ok(FindingsReport { findings, extent: ReportExtent::Whole }),
        None => Ok(FindingsReport { findings, extent: ReportExtent::Unknown }),
        Some(named) if named == count(findings.len()) => {
            Ok(FindingsReport { findings, extent: ReportExtent::Whole })
        }
        Some(named) => Err(Error::new(
            ErrorKind::Configuration,
            "the report is not whole: it has other than the number of findings that its first line names",
        )
        .with("findings named", named.to_string())
        .with("findings", findings.len().to_string())
        .hint("Run `afterwrite verify --report FILE` again. To use only the findings that the file has, remove `findings` from its first line")),
    }
}

/// Findings as text, one a line; without findings, no line. The first line has their number, too.
#[must_use]
pub fn finding_lines(findings: &[VerifyFinding]) -> String {
    let Some((first, others)) = findings.split_first() else { return String::new() };
    let first = FirstLine { finding: first, findings: count(findings.len()) };
    let others = others.iter().map(serde_json::to_string);
    let lines = std::iter::once(serde_json::to_string(&first)).chain(others);
    lines.filter_map(|line| Some(line.ok()? + "\n")).collect()
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
            let FindingsReport { findings, extent } = parse_findings(line).unwrap();
            assert_eq!(extent, ReportExtent::Unknown, "an earlier version");
            let written = finding_lines(&findings);
            assert_eq!(written, format!("{},\"findings\":1}}\n", line.strip_suffix('}').unwrap()));
            assert_eq!(
                parse_findings(&written).unwrap(),
                FindingsReport { findings, extent: ReportExtent::Whole }
            );
        }
    }

    #[test]
    fn b4_a_report_that_was_cut_between_two_lines_is_refused() {
        let report = finding_lines(&parse_findings(&LINES.join("\n")).unwrap().findings);
        let ends: Vec<usize> = report.match_indices('\n').map(|(end, _)| end + 1).collect();
        for end in &ends[..ends.len() - 1] {
            let error = parse_findings(&report[..*end]).unwrap_err();
            assert!(
                error.kind() == ErrorKind::Configuration && error.report().contains("not whole"),
                "{error}"
            );
        }
        let without_first = parse_findings(&report[ends[0]..]).unwrap();
        assert_eq!(
            (without_first.findings.len(), without_first.extent),
            (LINES.len() - 1, ReportExtent::Unknown)
        );
        let joined = parse_findings(&format!("{report}{report}")).unwrap();
        assert_eq!((joined.findings.len(), joined.extent), (2 * LINES.len(), ReportExtent::Whole));
        assert_eq!(finding_lines(&[]), "");
        assert_eq!(parse_findings("").unwrap().extent, ReportExtent::Whole, "a run without findings");
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
