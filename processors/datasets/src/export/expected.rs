//! The rows that items should have, to compare datasets with: computed as rows of a backfill are, and not written.

use afterwrite_ledger::tables::Tables;
use afterwrite_model::clock::Clock;
use afterwrite_model::projection::snapshot_row;
use afterwrite_model::record::{Image, Position};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::Bucket;
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use super::ArchiveExporter;
use super::object::{dataset_lookup_keys, lookup_outputs};
use super::row_builder::RowBuilder;
use super::snapshot::ReadItem;
use crate::row_values::DatasetRows;
use crate::schema::arrow_schema;

/// The rows that some items should have in one dataset.
#[derive(Clone, Debug)]
pub struct ExpectedRows {
    /// The dataset: an index into [`afterwrite_model::table::Model::datasets`].
    pub dataset: usize,
    /// Of each row, which of the items it belongs to.
    pub items: Vec<usize>,
    /// Of each row, the day of its partition.
    pub days: Vec<String>,
    rows: RecordBatch,
}

impl<B: Bucket, T: Tables, C: Clock> ArchiveExporter<B, T, C> {
    /// The rows that items should have, with the lookups that are remembered now.
    ///
    /// # Errors
    /// As [`Tables::read`].
    pub async fn expected_rows(&self, items: &[ReadItem<'_>]) -> Result<Vec<ExpectedRows>> {
        let images: Vec<Image<'static>> =
            items.iter().map(|read| Image::from_item(read.item, &self.model.row_attributes)).collect();
        let lookups = self.remembered_lookups(items, &images).await?;
        let position = Position::start_of("");
        let mut expected = Vec::new();
        for (dataset_index, dataset) in self.model.datasets.iter().enumerate() {
            let mut builder = RowBuilder::new(&self.model, dataset, &arrow_schema(dataset));
            let (mut of_items, mut days) = (Vec::new(), Vec::new());
            for (index, (read, image)) in items.iter().zip(&images).enumerate() {
                let Some(mut row) = snapshot_row(dataset, &read.candidates, image) else { continue };
                let outputs = lookup_outputs(&lookups, dataset_lookup_keys(dataset, row.scope));
                row.scope = row.scope.with_outputs(&dataset.lookups, &outputs);
                builder.append(dataset, &row, &position, None);
                of_items.push(index);
                days.push(row.day.to_string());
            }
            if let Some(rows) = builder.finish().map_err(uncollected)? {
                expected.push(ExpectedRows { dataset: dataset_index, items: of_items, days, rows });
            }
        }
        Ok(expected)
    }

    /// The values of expected rows.
    ///
    /// # Errors
    /// As [`ArchiveExporter::expected_rows`].
    pub fn values_of<'e>(&'e self, expected: &'e ExpectedRows) -> Result<DatasetRows<'e>> {
        let dataset = self.model.datasets.get(expected.dataset);
        let dataset = dataset.ok_or_else(|| Error::new(ErrorKind::State, "the model has no such dataset"))?;
        DatasetRows::new(dataset, &expected.rows)
    }
}

fn uncollected(error: ArrowError) -> Error {
    Error::new(ErrorKind::State, "cannot collect rows").caused_by(error)
}
