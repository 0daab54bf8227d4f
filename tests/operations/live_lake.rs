//! A bucket whose exporter, heartbeat and compactor run between any two requests of a job.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use afterwrite_memory::MemoryObjects;
use afterwrite_model::Result;
use afterwrite_services::{Bucket, ListedObject, ObjectBody, ObjectChunks, ObjectStore, PutOutcome};
use afterwrite_tests::random::SeededRandom;

use super::lake::{compact, export_archive, store_heartbeat};
use super::world::OperationWorld;

/// A bucket that is written to while it is read.
#[derive(Clone)]
pub(crate) struct LiveLake {
    world: Arc<OperationWorld>,
    pub(crate) objects: Arc<MemoryObjects>,
    random: Arc<Mutex<SeededRandom>>,
    exports: Arc<AtomicUsize>,
}

impl LiveLake {
    pub(crate) fn new(world: &Arc<OperationWorld>, objects: Arc<MemoryObjects>, seed: u64) -> Self {
        let random = Arc::new(Mutex::new(SeededRandom::new(seed)));
        Self { world: Arc::clone(world), objects, random, exports: Arc::default() }
    }

    /// How often the archive was exported.
    pub(crate) fn exports(&self) -> usize {
        self.exports.load(Ordering::Relaxed)
    }

    fn chance(&self, permille: u64) -> bool {
        self.random.lock().unwrap().chance(permille)
    }

    async fn tick(&self) {
        if self.chance(60) {
            let until = self.world.delivered_until();
            let number = self.exports.fetch_add(1, Ordering::Relaxed);
            Box::pin(export_archive(&self.world, &self.objects, &format!("live-{number}"))).await;
            store_heartbeat(&self.objects, until).await;
        }
        if self.chance(30) {
            Box::pin(compact(&self.world, &self.objects)).await;
        }
    }
}

impl ObjectStore for LiveLake {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<()> {
        self.objects.put(key, body).await
    }
}

impl Bucket for LiveLake {
    async fn get(&self, key: &str) -> Result<Option<ObjectChunks>> {
        // The runtime of a test has one thread, and writers in memory never wait.
        futures::executor::block_on(self.tick());
        self.objects.get(key).await
    }

    async fn put_new(&self, key: &str, body: ObjectBody) -> Result<PutOutcome> {
        self.objects.put_new(key, body).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ListedObject>> {
        self.objects.list(prefix).await
    }

    async fn delete(&self, keys: &[String]) -> Result<()> {
        self.objects.delete(keys).await
    }
}
