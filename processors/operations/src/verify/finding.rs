//! The findings of a verification, as lines of JSON: key, place, expected and found values, and nothing else of an item.

use std::collections::BTreeMap;

use afterwrite_model::entity::SourceKey;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::life::FindingLife;
use super::place::{RollupPlace, is_rollup};
use super::sample::KeySample;
use super::undecided::{UndecidedCause, UndecidedReason};

/// Where a difference was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingPlace {
    /// A ledger entry differs from what its item contributes.
    Ledger,
    /// A ledger entry cannot be read: something else has changed it.
    UnreadableEntry,
    /// A rollup differs from the sum of the ledger, or an average from its parts.
    Rollup,
    /// A `max` or `min` does not cover an item.
    Extreme,
    /// An attribute of an application's item differs from its rollup.
    Mirror,
    /// The application's own counter differs from the rollup or from a recount of the items.
    ThreeWay,
    /// A row of a dataset differs from its item.
    Dataset,
}

/// How a dataset differs from an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowDifference {
    /// The item has no row.
    Missing,
    /// The row belongs to no item, or to one of another day.
    Foreign,
    /// The row has other values than the item.
    Different,
}

/// A row of a dataset, by its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RowLocation {
    /// The dataset.
    pub dataset: String,
    /// The day of its partition.
    pub day: String,
    /// How it differs.
    pub difference: RowDifference,
}

/// How certain a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingVerdict {
    /// It is wrong: nothing that was in flight explains it.
    Drift,
    /// It kept changing while it was looked at, or cannot be computed.
    Undecided,
}

/// An expected and a found value; `None` is an absent attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedValue {
    /// The value that follows from the items.
    pub expected: Option<String>,
    /// The stored value.
    pub found: Option<String>,
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyFinding {
    /// Where it was found.
    pub place: FindingPlace,
    /// How certain it is.
    pub verdict: FindingVerdict,
    /// The table of the key, as the model names it; `None` for the state table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The partition key, and the sort key if there is one.
    pub key: Vec<String>,
    /// The row, for a finding about a dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<RowLocation>,
    /// The values that differ, by name. Those of a ledger entry are named `PK / SK / measure` of the rollup.
    pub values: BTreeMap<String, ExpectedValue>,
    /// The revision of the entry or rollup that was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rev: Option<String>,
    /// Whether only the archive shows what is right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life: Option<FindingLife>,
    /// Why it differs, or why it cannot be decided, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The kind of cause of an undecided finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<UndecidedReason>,
    /// The generation of the model that has found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// The sample in which it was found; `None` if everything was judged.
    #[serde(flatten)]
    pub sample: Option<KeySample>,
}

impl VerifyFinding {
    /// Whether both are of one place of one item, at one revision.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        (self.place, &self.table, &self.key, &self.rev) == (other.place, &other.table, &other.key, &other.rev)
    }

    /// Whether a later finding is about the same difference: of one place of one item, and of one measure if it is about `max` or `min`. A
    /// finding that was stored without its values is about each of them.
    pub(crate) fn is_repeated_by(&self, later: &Self) -> bool {
        let has_measure = match self.place {
            FindingPlace::Extreme => {
                self.values.is_empty() || self.values.keys().any(|name| later.values.contains_key(name))
            }
            FindingPlace::Ledger
            | FindingPlace::UnreadableEntry
            | FindingPlace::Rollup
            | FindingPlace::Mirror
            | FindingPlace::ThreeWay
            | FindingPlace::Dataset => true,
        };
        self.place == later.place && self.has_item_of(later) && has_measure
    }

    /// Whether both are about one item.
    pub(crate) fn has_item_of(&self, other: &Self) -> bool {
        (&self.table, &self.key) == (&other.table, &other.key)
    }

    /// A finding about an item of a source table.
    pub(crate) fn of_source(place: FindingPlace, model: &Model, source: &SourceKey<'_>) -> Self {
        let table = model.tables.get(source.table).map(|table| table.name.to_string());
        let key = std::iter::once(&source.partition).chain(&source.sort);
        Self { table, key: key.map(ToString::to_string).collect(), ..Self::of_state(place, Vec::new()) }
    }

    /// A finding about an item of the state table.
    pub(crate) fn of_state(place: FindingPlace, key: Vec<String>) -> Self {
        Self {
            place,
            verdict: FindingVerdict::Drift,
            table: None,
            key,
            row: None,
            values: BTreeMap::new(),
            rev: None,
            life: None,
            cause: None,
            undecided: None,
            generation: None,
            sample: None,
        }
    }

    /// The same as this model's finding.
    pub(crate) fn of_model(self, model: &Model) -> Self {
        Self { generation: Some(model.generation), ..self }
    }

    /// The same without the values: what a repair needs.
    #[must_use]
    pub fn without_values(&self) -> Self {
        Self { values: BTreeMap::new(), ..self.clone() }
    }

    pub(crate) fn undecided(self, UndecidedCause { reason, text }: UndecidedCause) -> Self {
        let (verdict, undecided) = (FindingVerdict::Undecided, Some(reason));
        Self { verdict, undecided, cause: Some(text.into_owned()), ..self }
    }

    /// The source item; `None` for a finding about the state table, and for a key that no entity of the model has.
    pub(crate) fn source(&self, model: &Model) -> Option<SourceKey<'static>> {
        let name = self.table.as_deref()?;
        let table = model.tables.iter().position(|table| *table.name == *name)?;
        let mut key = self.key.iter();
        let partition = key.next()?.clone().into();
        let source = SourceKey { table, partition, sort: key.next().map(|sort| sort.clone().into()) };
        (!source.candidates(model).is_empty()).then_some(source)
    }

    /// The rollup's `PK` and `SK`; `None` for any other finding, and for a key that no rollup of the model has.
    pub(crate) fn rollup(&self, model: &Model) -> Option<RollupPlace> {
        let (None, None, [partition, sort]) = (&self.table, &self.row, self.key.as_slice()) else {
            return None;
        };
        Some((partition.clone(), sort.clone())).filter(|place| is_rollup(model, place))
    }
}

/// Refuses findings of a newer model: this model does not know what they are about, and would take them for right.
///
/// # Errors
/// [`ErrorKind::Configuration`], with the generation of the findings.
pub(crate) fn check_generation<'f>(
    model: &Model,
    findings: impl IntoIterator<Item = &'f VerifyFinding>,
) -> Result<()> {
    let newest = findings.into_iter().filter_map(|finding| finding.generation).max();
    let Some(newer) = newest.filter(|newest| *newest > model.generation) else { return Ok(()) };
    Err(Error::new(ErrorKind::Configuration, "a newer table model has found the differences")
        .with("the differences' generation", newer.to_string())
        .with("this model's generation", model.generation.to_string())
        .with("model", &*model.name)
        .hint("Use the model that the functions have: pass --model, or set AFTERWRITE_MODEL"))
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
