//! Rows that end an item in a partition where it does not belong: a `SNAPSHOT` row and a `REMOVE` row, both dated with the time at which
//! the item was looked at.
//!
//! ```text
//! the wrong row       stream row or snapshot, more than 15 minutes old
//! SNAPSHOT, now       outdates it: rows of the stream that are older than the snapshot by 15 minutes do not count
//! REMOVE, now         counts, and wins over the snapshot: the item is gone
//! a later change      has a greater position than both, and wins
//! ```
//!
//! The `REMOVE` row has the first position of the stream, so it would lose to the wrong row without the snapshot.

use afterwrite_ledger::tables::Tables;
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::entity::ItemIdentity;
use afterwrite_model::projection::{DatasetRow, ImageScope, RowOperation};
use afterwrite_model::record::{Image, Position, Timestamp};
use afterwrite_services::Bucket;
use hashbrown::hash_map::Entry;
use sha2::{Digest as _, Sha256};

use super::partition_writer::PartitionWriter;
use super::snapshot::{ChunkPartitions, TableReading};
use super::{ArchiveExporter, ExportTotals};
use crate::schema::arrow_schema;
use afterwrite_model::hex;

/// A row that does not belong where it is.
#[derive(Clone, Debug)]
pub struct ForeignRow<'p> {
    /// The entity of the dataset, and the variables of the row's key.
    pub identity: ItemIdentity<'p, 'p>,
    /// The dataset: an index into [`afterwrite_model::table::Model::datasets`].
    pub dataset: usize,
    /// The day of the partition that has the row.
    pub day: String,
}

impl<B: Bucket, T: Tables, C: Clock> ArchiveExporter<B, T, C> {
    /// Adds rows to the logs that end these items in these partitions. Repeating it changes nothing.
    ///
    /// # Errors
    /// As [`ArchiveExporter::add_snapshot`].
    pub async fn add_removals(
        &self,
        reading: &TableReading<'_>,
        foreign: &[ForeignRow<'_>],
        deadline: Timestamp,
    ) -> Result<ExportTotals> {
        let mut totals = ExportTotals::default();
        let mut partitions = ChunkPartitions::new();
        let position = Position::start_of(reading.stream_label);
        let empty = Image::empty();
        let mut hash = Sha256::new();
        for row in foreign {
            let Some(dataset) = self.model.datasets.get(row.dataset) else { continue };
            let partition = match partitions.entry((row.dataset, row.day.clone())) {
                Entry::Occupied(occupied) => occupied.into_mut(),
                Entry::Vacant(vacant) => {
                    vacant.insert(PartitionWriter::new(&self.model, dataset, &arrow_schema(dataset))?)
                }
            };
            let scope = ImageScope::of(&self.model, &row.identity, &empty);
            for operation in [RowOperation::Snapshot, RowOperation::Remove] {
                let written = DatasetRow { day: row.day.as_str().into(), operation, scope };
                partition.rows.append(dataset, &written, &position, Some(reading.read_at));
                totals.rows += 1;
            }
            for text in row.identity.variables.iter().map(AsRef::as_ref).chain([row.day.as_str()]) {
                hash.update(text.as_bytes());
                hash.update([0]);
            }
        }
        let source_key = format!("{}/{}", reading.source, hex(&hash.finalize(), 16));
        let files = self.upload_chunk(&source_key, partitions, &mut totals).await?;
        self.commit_chunk(&files, deadline).await?;
        Ok(totals)
    }
}
