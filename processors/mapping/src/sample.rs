//! A random subset of a stream: some records, each far from its neighbours. Delivered late, they are like the records of a
//! redrive or a replay.

use afterwrite_model::Result;
use fastrand::Rng;

use crate::stream::{RecordPage, ShardPage, ShardPosition, StreamReadError, StreamRecord, StreamSource};

/// Some of the records of another stream; always the same records for one seed.
#[derive(Clone, Copy, Debug)]
pub struct StreamSample<'a, Source> {
    source: &'a Source,
    per_mille: u32,
    seed: u64,
}

impl<'a, Source: StreamSource> StreamSample<'a, Source> {
    /// Keeps `per_mille` of a thousand records of `source`.
    #[must_use]
    pub fn new(source: &'a Source, per_mille: u32, seed: u64) -> Self {
        Self { source, per_mille, seed }
    }

    /// Depends on the record alone, so that a page that is read twice is the same twice.
    fn includes(&self, record: &StreamRecord) -> bool {
        derived_random(self.seed, &record.sequence_number).u32(0..1000) < self.per_mille
    }
}

impl<Source: StreamSource> StreamSource for StreamSample<'_, Source> {
    fn arn(&self) -> &str {
        self.source.arn()
    }

    async fn describe(&self, after: Option<&str>) -> Result<ShardPage> {
        self.source.describe(after).await
    }

    async fn iterator(&self, shard: &str, position: &ShardPosition) -> Result<String, StreamReadError> {
        self.source.iterator(shard, position).await
    }

    async fn read(&self, iterator: &str) -> Result<RecordPage, StreamReadError> {
        let mut page = self.source.read(iterator).await?;
        page.records.retain(|record| self.includes(record));
        Ok(page)
    }
}

/// A generator whose seed depends on a name, too.
pub(crate) fn derived_random(seed: u64, name: &str) -> Rng {
    let mix = |seed: u64, byte: u8| seed.wrapping_mul(31).wrapping_add(u64::from(byte));
    Rng::with_seed(name.bytes().fold(seed, mix))
}
