//! A bucket that breaks when told to, lets others go first, and is looked at after every operation.

use std::sync::Mutex;

use afterwrite::sink::{ListedObject, ObjectBody, ObjectChunks, ObjectStore, PutOutcome};

use super::*;

/// What must hold of a bucket at any moment.
pub(super) type Check = dyn Fn(&MemoryObjects, &[String]) + Send + Sync;

/// A bucket in memory, watched.
pub(super) struct Watched {
    inner: Arc<MemoryObjects>,
    /// Which operation breaks, counted from 0, and whether it takes effect all the same. All later ones break too.
    breaks_at: Option<(usize, bool)>,
    operations: Mutex<usize>,
    /// How often others go first.
    patience: Option<Mutex<Random>>,
    /// Looks at the bucket before keys are removed and after every other operation.
    check: Arc<Check>,
}

impl Watched {
    pub(super) fn new(
        inner: &Arc<MemoryObjects>,
        breaks_at: Option<(usize, bool)>,
        patience: Option<Random>,
        check: &Arc<Check>,
    ) -> Self {
        Self {
            inner: Arc::clone(inner),
            breaks_at,
            operations: Mutex::new(0),
            patience: patience.map(Mutex::new),
            check: Arc::clone(check),
        }
    }

    /// How many operations there were.
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
        let fails = self.breaks_at.is_some_and(|(at, _)| number >= at);
        if !fails || self.breaks_at == Some((number, true)) {
            (self.check)(&self.inner, removed);
            let done = operation.await;
            (self.check)(&self.inner, &[]);
            if !fails {
                return done;
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "the bucket broke"))
    }
}

impl ObjectStore for Watched {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<()> {
        self.operate(&[], self.inner.put(key, body)).await
    }
}

impl Bucket for Watched {
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
