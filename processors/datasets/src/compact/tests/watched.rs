//! A bucket whose operations fail on purpose, let other compactors go first, and are checked.

use std::sync::Mutex;

use afterwrite_services::{ListedObject, ObjectBody, ObjectChunks, ObjectStore, PutOutcome};

use super::*;

/// A condition that a bucket meets at any moment; the second argument has the keys that are about to be removed.
pub(super) type BucketCheck = dyn Fn(&MemoryObjects, &[String]) + Send + Sync;

/// A bucket in memory that is checked.
pub(super) struct WatchedBucket {
    inner: Arc<MemoryObjects>,
    /// Which operation fails, counted from 0, and whether it takes effect nevertheless. All later ones fail, too.
    fails_at: Option<(usize, bool)>,
    operations: Mutex<usize>,
    /// Decides how often other compactors go first.
    patience: Option<Mutex<SeededRandom>>,
    /// Runs before and after every operation.
    check: Arc<BucketCheck>,
}

impl WatchedBucket {
    pub(super) fn new(
        inner: &Arc<MemoryObjects>,
        fails_at: Option<(usize, bool)>,
        patience: Option<SeededRandom>,
        check: &Arc<BucketCheck>,
    ) -> Self {
        Self {
            inner: Arc::clone(inner),
            fails_at,
            operations: Mutex::new(0),
            patience: patience.map(Mutex::new),
            check: Arc::clone(check),
        }
    }

    /// The number of operations so far.
    pub(super) fn operations(&self) -> usize {
        *self.operations.lock().unwrap()
    }

    async fn operate<T>(
        &self,
        removed: &[String],
        operation: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let others_first = self.patience.as_ref().map_or(0, |random| random.lock().unwrap().below(4));
        for _ in 0..others_first {
            tokio::task::yield_now().await;
        }
        let number = {
            let mut operations = self.operations.lock().unwrap();
            *operations += 1;
            *operations - 1
        };
        let fails = self.fails_at.is_some_and(|(at, _)| number >= at);
        if !fails || self.fails_at == Some((number, true)) {
            (self.check)(&self.inner, removed);
            let done = operation.await;
            (self.check)(&self.inner, &[]);
            if !fails {
                return done;
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "injected"))
    }
}

impl ObjectStore for WatchedBucket {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<()> {
        self.operate(&[], self.inner.put(key, body)).await
    }
}

impl Bucket for WatchedBucket {
    async fn get(&self, key: &str) -> Result<Option<ObjectChunks>> {
        self.operate(&[], self.inner.get(key)).await
    }

    async fn put_new(&self, key: &str, body: ObjectBody) -> Result<PutOutcome> {
        self.operate(&[], self.inner.put_new(key, body)).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ListedObject>> {
        self.operate(&[], self.inner.list(prefix)).await
    }

    async fn delete(&self, keys: &[String]) -> Result<()> {
        self.operate(keys, self.inner.delete(keys)).await
    }
}
