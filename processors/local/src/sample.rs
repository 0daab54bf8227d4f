//! A random part of a stream: some records, each far from its neighbours. Delivered late, they are what a redrive or a
//! replay delivers.

use afterwrite::Result;
use fastrand::Rng;

use super::stream::{Page, ReadError, Record, Shard, StreamSource};

/// Some of the records of another stream; always the same ones for one seed.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a, Source> {
    inner: &'a Source,
    per_mille: u32,
    seed: u64,
}

impl<'a, Source: StreamSource> Sample<'a, Source> {
    /// So many of a thousand records of `inner`.
    #[must_use]
    pub fn new(inner: &'a Source, per_mille: u32, seed: u64) -> Self {
        Self { inner, per_mille, seed }
    }

    /// Decided by the record alone, so that a page read twice is the same twice.
    fn has(&self, record: &Record) -> bool {
        let seed = record
            .sequence_number
            .bytes()
            .fold(self.seed, |seed, digit| seed.wrapping_mul(31).wrapping_add(u64::from(digit)));
        Rng::with_seed(seed).u32(0..1000) < self.per_mille
    }
}

impl<Source: StreamSource> StreamSource for Sample<'_, Source> {
    async fn shards(&self) -> Result<Vec<Shard>> {
        self.inner.shards().await
    }

    async fn iterator(&self, shard: &str, after: Option<&str>) -> Result<String> {
        self.inner.iterator(shard, after).await
    }

    async fn read(&self, iterator: &str) -> Result<Page, ReadError> {
        let mut page = self.inner.read(iterator).await?;
        loop {
            let was_at_end = page.records.is_empty();
            page.records.retain(|record| self.has(record));
            // An empty page says "no more for now", so one that only we emptied is not given.
            match &page.next {
                Some(next) if page.records.is_empty() && !was_at_end => page = self.inner.read(next).await?,
                Some(_) | None => return Ok(page),
            }
        }
    }
}
