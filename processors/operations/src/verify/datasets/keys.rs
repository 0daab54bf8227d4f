//! The keys of rows and of the items that they belong to.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_datasets::row_values::DatasetRows;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::table::Model;
use serde::{Deserialize, Serialize};

use crate::verify::finding::{FindingSubject, VerifyFinding};

/// An item in one dataset.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct DatasetKey {
    /// The dataset: an index into [`Model::datasets`].
    pub(crate) dataset: usize,
    table: usize,
    partition: String,
    sort: Option<String>,
}

/// A key whose item and rows may differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RowCandidate {
    pub(crate) key: DatasetKey,
    /// The days that have a row of the item, or should.
    pub(crate) days: BTreeSet<String>,
}

impl DatasetKey {
    /// The key of an item.
    pub(crate) fn of_item(dataset: usize, source: &SourceKey<'_>) -> Self {
        Self {
            dataset,
            table: source.table,
            partition: source.partition.to_string(),
            sort: source.sort.as_deref().map(str::to_owned),
        }
    }

    /// The key of a row's item. A row without a key has an empty one, which no item has.
    pub(crate) fn of_row(model: &Model, dataset: usize, rows: &DatasetRows<'_>, row: usize) -> Self {
        let entity = model.datasets.get(dataset).and_then(|dataset| model.entities.get(dataset.of));
        let table = entity.map_or(0, |entity| entity.table);
        let Some((entity, values)) = entity.zip(rows.key(row)) else {
            return Self { dataset, table, partition: String::new(), sort: None };
        };
        Self {
            dataset,
            table,
            partition: entity.key.partition.render(&values),
            sort: entity.key.sort.as_ref().map(|sort| sort.render(&values)),
        }
    }

    /// The key of the source item.
    pub(crate) fn source(&self) -> SourceKey<'static> {
        SourceKey {
            table: self.table,
            partition: self.partition.clone().into(),
            sort: self.sort.clone().map(Into::into),
        }
    }

    /// Whether the row had a key.
    pub(crate) fn is_known(&self) -> bool {
        !self.partition.is_empty()
    }

    /// The texts that a sample is chosen by.
    pub(crate) fn sampled_texts(&self) -> [&str; 2] {
        [&self.partition, self.sort.as_deref().unwrap_or("-")]
    }
}

/// The key and the day of a finding about a row; `None` for another finding, and if the model does not have the dataset or the item's entity.
fn known_row<'f>(model: &Model, finding: &'f VerifyFinding) -> Option<(DatasetKey, &'f str)> {
    let FindingSubject::Row(item, row) = &finding.subject else { return None };
    let dataset = model.datasets.iter().position(|dataset| *dataset.name == *row.dataset)?;
    Some((DatasetKey::of_item(dataset, &item.source(model)?), &row.day))
}

/// Whether a finding is about a row that the model does not know: another model has found it, and this one cannot judge it.
pub(crate) fn is_unknown_row(model: &Model, finding: &VerifyFinding) -> bool {
    finding.subject.row().is_some() && known_row(model, finding).is_none()
}

/// The candidates that findings are about. Findings of other places, and unknown rows, are ignored.
pub(crate) fn candidates_of<'f>(
    model: &Model,
    findings: impl IntoIterator<Item = &'f VerifyFinding>,
) -> Vec<RowCandidate> {
    let mut days: BTreeMap<DatasetKey, BTreeSet<String>> = BTreeMap::new();
    for (key, day) in findings.into_iter().filter_map(|finding| known_row(model, finding)) {
        days.entry(key).or_default().insert(day.to_owned());
    }
    days.into_iter().map(|(key, days)| RowCandidate { key, days }).collect()
}
