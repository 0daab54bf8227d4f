//! Items that were read from their table → `SNAPSHOT` rows in the log of their datasets.
//!
//! The files of a chunk of items are named by a hash of the items, so a chunk that is written again after a kill finds its files. If
//! items of it have changed in between, or the chunk ends elsewhere, it is another chunk with other files; the rows of both are right for
//! the time at which each was read, and the newest snapshot of an item counts.

use std::fmt::Write as _;

use afterwrite_ledger::tables::Tables;
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::entity::ItemCandidates;
use afterwrite_model::projection::{LookupKey, datasets_of, snapshot_row};
use afterwrite_model::record::{Image, Item, Position, Timestamp};
use afterwrite_model::table::NO_DAY;
use afterwrite_services::Bucket;
use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};
use sha2::{Digest as _, Sha256};

use super::commit::{LogAddition, add_to_log};
use super::object::{FinishedPartition, ReadOutputs, dataset_lookup_keys, lookup_outputs};
use super::partition_writer::PartitionWriter;
use super::source::RowSource;
use super::upload::upload_files;
use super::{ArchiveExporter, ExportTotals};
use crate::schema::arrow_schema;
use afterwrite_model::hex;

/// An item that was read.
#[derive(Clone, Debug)]
pub struct ReadItem<'p> {
    /// The entities that its key allows. It has rows in the datasets of the entity that it matches.
    pub candidates: ItemCandidates<'p, 'p>,
    /// The item.
    pub item: &'p Item,
}

/// A reading of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableReading<'r> {
    /// The job and its unit; a part of what names the files.
    pub source: &'r str,
    /// The label of the table's current stream.
    pub stream_label: &'r str,
    /// A server's time, not after the first request of the reading.
    pub read_at: Timestamp,
}

/// The partitions of a chunk, by dataset and day.
pub(super) type ChunkPartitions = HashMap<(usize, String), PartitionWriter>;

impl<B: Bucket, T: Tables, C: Clock> ArchiveExporter<B, T, C> {
    /// Adds a chunk of items to the logs of their datasets, with one commit for each dataset. Repeating it changes nothing.
    ///
    /// # Errors
    /// As [`Bucket`], [`Tables::read`] and [`DeltaTable::update`](crate::delta::DeltaTable::update): repeating it completes it.
    pub async fn add_snapshot(
        &self,
        reading: &TableReading<'_>,
        items: &[ReadItem<'_>],
        deadline: Timestamp,
    ) -> Result<ExportTotals> {
        let mut totals = ExportTotals::default();
        if items.is_empty() {
            return Ok(totals);
        }
        let images: Vec<Image<'static>> =
            items.iter().map(|read| Image::from_item(read.item, &self.model.row_attributes)).collect();
        let lookups = self.remembered_lookups(items, &images).await?;
        let mut partitions = ChunkPartitions::new();
        let position = Position::start_of(reading.stream_label);
        for (read, image) in items.iter().zip(&images) {
            for (index, dataset) in datasets_of(&read.candidates) {
                let Some(mut row) = snapshot_row(dataset, &read.candidates, image) else { continue };
                totals.undated += usize::from(row.day == NO_DAY);
                let outputs = lookup_outputs(&lookups, dataset_lookup_keys(dataset, row.scope));
                row.scope = row.scope.with_outputs(&dataset.lookups, &outputs);
                let partition = match partitions.entry((index, row.day.to_string())) {
                    Entry::Occupied(occupied) => occupied.into_mut(),
                    Entry::Vacant(vacant) => {
                        vacant.insert(PartitionWriter::new(&self.model, dataset, &arrow_schema(dataset))?)
                    }
                };
                let is_rescued = partition.rows.append(dataset, &row, &position, Some(reading.read_at));
                totals.rescued += usize::from(is_rescued);
                totals.rows += 1;
            }
        }
        let source_key = format!("{}/{}", reading.source, content_hash(items));
        let files = self.upload_chunk(&source_key, partitions, &mut totals).await?;
        self.commit_chunk(&files, deadline).await?;
        Ok(totals)
    }

    pub(super) async fn remembered_lookups(
        &self,
        items: &[ReadItem<'_>],
        images: &[Image<'static>],
    ) -> Result<ReadOutputs> {
        let Some(remembered) = &self.remembered else { return Ok(ReadOutputs::new()) };
        let mut keys: HashSet<LookupKey<'static>> = HashSet::new();
        for (read, image) in items.iter().zip(images) {
            for (_, dataset) in datasets_of(&read.candidates) {
                let Some(row) = snapshot_row(dataset, &read.candidates, image) else { continue };
                keys.extend(dataset_lookup_keys(dataset, row.scope).flatten().map(LookupKey::into_owned));
            }
        }
        let keys: Vec<_> = keys.into_iter().collect();
        let outputs = if keys.is_empty() { Vec::new() } else { remembered.read(&keys).await? };
        Ok(keys.into_iter().zip(outputs).collect())
    }

    pub(super) async fn upload_chunk(
        &self,
        source_key: &str,
        partitions: ChunkPartitions,
        totals: &mut ExportTotals,
    ) -> Result<Vec<LogAddition>> {
        let partitions = partitions.into_iter();
        let partitions =
            partitions.map(|((dataset, day), writer)| FinishedPartition { dataset, day, writer });
        let finished = partitions.collect();
        let mut source = RowSource::of_items(source_key);
        Box::pin(upload_files(&self.model, &self.logs, &self.clock, &mut source, finished, totals)).await
    }

    pub(super) async fn commit_chunk(&self, files: &[LogAddition], deadline: Timestamp) -> Result<()> {
        for (index, (dataset, log)) in self.model.datasets.iter().zip(&self.logs).enumerate() {
            let of_dataset: Vec<_> = files.iter().filter(|file| file.dataset == index).cloned().collect();
            if !of_dataset.is_empty() {
                Box::pin(add_to_log(dataset, log, &self.clock, deadline, &of_dataset)).await?;
            }
        }
        Ok(())
    }
}

/// A hash of the items of a chunk. It is the same in every process of one version of this program; another version may write the files
/// of a chunk again, which changes nothing for readers.
fn content_hash(items: &[ReadItem<'_>]) -> String {
    let mut hash = HashedText(Sha256::new());
    for read in items {
        // Hashing cannot fail.
        let _ = writeln!(hash, "{:?}", read.item);
    }
    hex(&hash.0.finalize(), 16)
}

/// Text that is hashed instead of kept.
struct HashedText(Sha256);

impl std::fmt::Write for HashedText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.update(text);
        Ok(())
    }
}
