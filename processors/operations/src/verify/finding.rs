//! The findings of a verification: what differs, how certain that is, and why. [`super::finding_line`] has their JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;

use afterwrite_model::entity::SourceKey;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::life::FindingLife;
use super::sample::KeySample;

/// `PK` and `SK` of a rollup.
pub type RollupPlace = (String, String);

/// Whether a rollup of the model has this key.
pub(crate) fn is_rollup(model: &Model, (partition, sort): &RollupPlace) -> bool {
    model.rollups.iter().any(|rollup| rollup.has_stored_key(partition, sort))
}

/// An item of an application, by its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundItem {
    /// The table, as the model names it.
    pub table: String,
    /// The partition key.
    pub partition: String,
    /// The sort key, if there is one.
    pub sort: Option<String>,
}

impl FoundItem {
    /// The item with this key.
    pub(crate) fn of(model: &Model, source: &SourceKey<'_>) -> Self {
        let table = model.tables.get(source.table);
        Self {
            table: table.map_or_else(String::new, |table| table.name.to_string()),
            partition: source.partition.to_string(),
            sort: source.sort.as_deref().map(str::to_owned),
        }
    }

    /// The key; `None` if no entity of the model has it.
    pub(crate) fn source(&self, model: &Model) -> Option<SourceKey<'static>> {
        let table = model.tables.iter().position(|table| *table.name == *self.table)?;
        let (partition, sort) = (self.partition.clone().into(), self.sort.clone().map(Into::into));
        let source = SourceKey { table, partition, sort };
        (!source.candidates(model).is_empty()).then_some(source)
    }
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

/// A row of a dataset, by its partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RowLocation {
    /// The dataset.
    pub dataset: String,
    /// The day of its partition.
    pub day: String,
    /// How it differs.
    pub difference: RowDifference,
}

/// The subject of a finding, with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindingSubject {
    /// A ledger entry differs from what its item contributes. For some differences, only the archive shows which one is right.
    Entry(FoundItem, Option<FindingLife>),
    /// A ledger entry cannot be read: something else has changed it.
    UnreadableEntry(FoundItem),
    /// A rollup differs from the sum of the ledger, or an average from its parts.
    Rollup(RollupPlace),
    /// A `max` or `min` does not cover an item.
    Extreme(FoundItem),
    /// An attribute of an application's item differs from its rollup.
    Mirror(FoundItem),
    /// The application's own counter differs from the rollup or from a recount of the items.
    ThreeWay(FoundItem),
    /// A row of a dataset differs from its item.
    Row(FoundItem, RowLocation),
}

/// The kind of data that differs, in the order of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingPlace {
    /// See [`FindingSubject::Entry`].
    Ledger,
    /// See [`FindingSubject::UnreadableEntry`].
    UnreadableEntry,
    /// See [`FindingSubject::Rollup`].
    Rollup,
    /// See [`FindingSubject::Extreme`].
    Extreme,
    /// See [`FindingSubject::Mirror`].
    Mirror,
    /// See [`FindingSubject::ThreeWay`].
    ThreeWay,
    /// See [`FindingSubject::Row`].
    Dataset,
}

impl FindingPlace {
    /// Whether it belongs to an item and its ledger entry.
    #[must_use]
    pub fn is_of_item(self) -> bool {
        match self {
            Self::Ledger | Self::UnreadableEntry | Self::Extreme | Self::Mirror => true,
            Self::Rollup | Self::ThreeWay | Self::Dataset => false,
        }
    }
}

impl FindingSubject {
    /// The kind of data that differs.
    #[must_use]
    pub fn place(&self) -> FindingPlace {
        match self {
            Self::Entry(..) => FindingPlace::Ledger,
            Self::UnreadableEntry(_) => FindingPlace::UnreadableEntry,
            Self::Rollup(_) => FindingPlace::Rollup,
            Self::Extreme(_) => FindingPlace::Extreme,
            Self::Mirror(_) => FindingPlace::Mirror,
            Self::ThreeWay(_) => FindingPlace::ThreeWay,
            Self::Row(..) => FindingPlace::Dataset,
        }
    }

    /// The item; `None` for a rollup.
    #[must_use]
    pub fn item(&self) -> Option<&FoundItem> {
        match self {
            Self::Entry(item, _) | Self::Row(item, _) => Some(item),
            Self::UnreadableEntry(item) | Self::Extreme(item) | Self::Mirror(item) | Self::ThreeWay(item) => {
                Some(item)
            }
            Self::Rollup(_) => None,
        }
    }

    /// The row, for a finding about a dataset.
    #[must_use]
    pub fn row(&self) -> Option<&RowLocation> {
        if let Self::Row(_, row) = self { Some(row) } else { None }
    }

    /// Whether only the archive shows what is right.
    #[must_use]
    pub fn life(&self) -> Option<FindingLife> {
        if let Self::Entry(_, life) = self { *life } else { None }
    }

    /// The table of the key, as the model names it, or `None` for the state table; and the key.
    #[must_use]
    pub fn key(&self) -> (Option<&str>, Vec<&str>) {
        match self {
            Self::Rollup((partition, sort)) => (None, vec![partition, sort]),
            Self::Entry(item, _)
            | Self::UnreadableEntry(item)
            | Self::Extreme(item)
            | Self::Mirror(item)
            | Self::ThreeWay(item)
            | Self::Row(item, _) => {
                let FoundItem { table, partition, sort } = item;
                (Some(table), std::iter::once(partition).chain(sort).map(String::as_str).collect())
            }
        }
    }
}

/// How certain a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingVerdict {
    /// The stored value is wrong: no record in flight explains the difference.
    Drift,
    /// The stored value kept changing while it was judged, or the expected value cannot be computed. Earlier versions named no reason.
    Undecided(Option<UndecidedReason>),
}

/// The kinds of causes of undecided findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndecidedReason {
    /// It changed while it was judged.
    Changed,
    /// There was no time to judge it again.
    OutOfTime,
    /// The log of a dataset is not complete yet, as far as is known.
    IncompleteLog,
    /// It is unknown up to when the log of a dataset is complete: no heartbeat has been exported.
    NoHeartbeat,
    /// A lookup that it depends on is not remembered.
    LookupNotRemembered,
    /// A remembered lookup lacks an output that the model declares.
    LookupLacksOutput,
    /// The item cannot be counted as it is.
    Uncountable,
    /// Ledger entries that cannot be read may contain the difference.
    UnreadableLedger,
    /// A `latest` has a value, and the attribute that shows of which item it is does not exist.
    UnseenValue,
    /// The model has nothing with this key.
    Foreign,
    /// Only a comparison of all items can decide it.
    NotComparable,
}

impl UndecidedReason {
    /// Whether items of one entity have the cause because of what the ledger remembers, not because of what each of them is.
    #[must_use]
    pub fn is_of_lookup(self) -> bool {
        match self {
            Self::LookupNotRemembered | Self::LookupLacksOutput => true,
            Self::Changed
            | Self::OutOfTime
            | Self::IncompleteLog
            | Self::NoHeartbeat
            | Self::Uncountable
            | Self::UnreadableLedger
            | Self::UnseenValue
            | Self::Foreign
            | Self::NotComparable => false,
        }
    }

    /// Whether a later verification can decide it although nothing is mended meanwhile. All records that were in flight have arrived by the time
    /// that a lookup is reported as not remembered. A new deployment exports its first heartbeat by its schedule; `doctor` names a deployment that
    /// exports none.
    #[must_use]
    pub fn ends_by_itself(self) -> bool {
        match self {
            Self::Changed | Self::OutOfTime | Self::IncompleteLog | Self::NoHeartbeat => true,
            Self::LookupNotRemembered
            | Self::LookupLacksOutput
            | Self::Uncountable
            | Self::UnreadableLedger
            | Self::UnseenValue
            | Self::Foreign
            | Self::NotComparable => false,
        }
    }
}

/// The cause of one undecided finding: its kind, and the cause in words, with what mends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UndecidedCause {
    pub(crate) reason: UndecidedReason,
    pub(crate) text: Cow<'static, str>,
}

impl UndecidedCause {
    pub(crate) fn new(reason: UndecidedReason, text: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, text: text.into() }
    }

    /// It changed while it was judged.
    pub(crate) fn changed(text: &'static str) -> Self {
        Self::new(UndecidedReason::Changed, text)
    }

    /// There was no time to judge it again.
    pub(crate) fn out_of_time() -> Self {
        Self::new(UndecidedReason::OutOfTime, "there was no time to judge the item again")
    }
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
#[serde(into = "super::finding_line::FindingLine", try_from = "super::finding_line::FindingLine")]
pub struct VerifyFinding {
    /// The data that differs, with its key.
    pub subject: FindingSubject,
    /// How certain it is.
    pub verdict: FindingVerdict,
    /// The values that differ, by name. Those of a ledger entry are named `PK / SK / measure` of the rollup.
    pub values: BTreeMap<String, ExpectedValue>,
    /// The revision of the entry or rollup that was judged.
    pub rev: Option<String>,
    /// Why it differs, or why it cannot be decided, if known.
    pub cause: Option<String>,
    /// The generation of the model that has found it.
    pub generation: Option<u64>,
    /// The sample in which it was found; `None` if everything was judged.
    pub sample: Option<KeySample>,
}

impl VerifyFinding {
    /// A difference, without its values.
    pub(crate) fn of(subject: FindingSubject) -> Self {
        Self {
            subject,
            verdict: FindingVerdict::Drift,
            values: BTreeMap::new(),
            rev: None,
            cause: None,
            generation: None,
            sample: None,
        }
    }

    /// The same finding, which cannot be decided.
    pub(crate) fn undecided(self, UndecidedCause { reason, text }: UndecidedCause) -> Self {
        let verdict = FindingVerdict::Undecided(Some(reason));
        Self { verdict, cause: Some(text.into_owned()), ..self }
    }

    /// The kind of data that differs.
    #[must_use]
    pub fn place(&self) -> FindingPlace {
        self.subject.place()
    }

    /// Whether the stored value is wrong.
    #[must_use]
    pub fn is_drift(&self) -> bool {
        match self.verdict {
            FindingVerdict::Drift => true,
            FindingVerdict::Undecided(_) => false,
        }
    }

    /// Whether it is undecided for a cause that does not end by itself.
    #[must_use]
    pub fn needs_remedy(&self) -> bool {
        match self.verdict {
            FindingVerdict::Drift => false,
            FindingVerdict::Undecided(reason) => reason.is_some_and(|reason| !reason.ends_by_itself()),
        }
    }

    /// Whether both are about one kind of data of one item, at one revision.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        (self.place(), self.subject.key(), &self.rev) == (other.place(), other.subject.key(), &other.rev)
    }

    /// Whether a later finding is about the same difference: one kind of data of one item, and one measure if it is about `max` or `min`. A
    /// finding that was stored without its values is about each of them.
    pub(crate) fn is_repeated_by(&self, later: &Self) -> bool {
        let has_measure = match self.subject {
            FindingSubject::Extreme(_) => {
                self.values.is_empty() || self.values.keys().any(|name| later.values.contains_key(name))
            }
            FindingSubject::Entry(..)
            | FindingSubject::UnreadableEntry(_)
            | FindingSubject::Rollup(_)
            | FindingSubject::Mirror(_)
            | FindingSubject::ThreeWay(_)
            | FindingSubject::Row(..) => true,
        };
        self.place() == later.place() && self.subject.key() == later.subject.key() && has_measure
    }

    /// The same without the values: what a repair needs.
    #[must_use]
    pub fn without_values(&self) -> Self {
        Self { values: BTreeMap::new(), ..self.clone() }
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
