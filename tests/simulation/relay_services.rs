//! The services outside of the relay's process: cache, delivery stream, bucket, targets of events and queue. Calls fail, and responses are lost.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use afterwrite_model::projection::StaleKey;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::{
    Cache, DeliveryStream, Distribution, DistributionError, InvalidatedKeys, ObjectStore,
};
use afterwrite_tests::random::SeededRandom;

use super::coverage::FaultCoverage;
use super::events::state::EventState;

/// The state outside the process: cache, delivery stream, bucket, targets of events and queue.
#[derive(Debug)]
pub(crate) struct ExternalState {
    pub(crate) random: SeededRandom,
    /// Calls per thousand that fail, and whose response is lost.
    pub(crate) faults: u64,
    /// The number of records in the streams so far.
    pub(crate) records: usize,
    /// By key: the number of records when it was last invalidated.
    pub(crate) invalidated: BTreeMap<String, usize>,
    /// Every line of the archive.
    pub(crate) lines: BTreeSet<String>,
    pub(crate) events: EventState,
    pub(crate) coverage: FaultCoverage,
}

#[derive(Clone, Debug)]
pub(crate) struct ExternalServices(Arc<Mutex<ExternalState>>);

impl ExternalServices {
    pub(crate) fn new(random: SeededRandom, faults: u64) -> Self {
        Self(Arc::new(Mutex::new(ExternalState {
            random,
            faults,
            records: 0,
            invalidated: BTreeMap::new(),
            lines: BTreeSet::new(),
            events: EventState::default(),
            coverage: FaultCoverage::default(),
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ExternalState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Yields to other tasks.
    pub(crate) async fn yield_turns(&self) {
        let mut turns = { 1 + self.lock().random.below(3) };
        poll_fn(|context| {
            turns -= 1;
            if turns == 0 {
                return Poll::Ready(());
            }
            // Of requests that are sent concurrently, only those are polled that were woken.
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Yields to other tasks, then draws whether the call fails, and whether its response is lost.
    async fn draw_faults(&self) -> (bool, bool) {
        self.yield_turns().await;
        let mut outside = self.lock();
        let (fails, is_lost) = outside.draw_faults();
        if fails {
            outside.coverage.record("relay: call failed");
        } else if is_lost {
            outside.coverage.record("relay: response lost");
        }
        (fails, is_lost)
    }
}

impl ExternalState {
    /// Draws whether a call fails, and whether its response is lost.
    pub(crate) fn draw_faults(&mut self) -> (bool, bool) {
        (self.random.chance(self.faults), self.random.chance(self.faults))
    }
}

pub(crate) fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "injected")
}

impl Cache for ExternalServices {
    async fn invalidate(&self, keys: &[StaleKey], _: Duration) -> InvalidatedKeys {
        let mut results = Vec::new();
        for key in keys {
            let (fails, is_lost) = self.draw_faults().await;
            if !fails {
                let mut outside = self.lock();
                let records = outside.records;
                outside.invalidated.insert(key.key.clone(), records);
            }
            results.push(if fails || is_lost { Err(unavailable()) } else { Ok(()) });
        }
        InvalidatedKeys { results, commands: 0 }
    }
}

impl Distribution for ExternalServices {
    async fn invalidate(&self, _: &[String], _: &str, _: Duration) -> Result<(), DistributionError> {
        Ok(())
    }
}

impl DeliveryStream for ExternalServices {
    async fn put_batch(&self, records: &[&[u8]]) -> Result<Vec<Result<(), Error>>, Error> {
        let (fails, is_lost) = self.draw_faults().await;
        if fails {
            return Err(unavailable());
        }
        let mut results = Vec::new();
        for record in records {
            let (fails, is_lost) = self.draw_faults().await;
            if !fails {
                let text = std::str::from_utf8(record).unwrap();
                assert!(text.ends_with('\n'), "a record has complete lines");
                self.lock().lines.extend(text.lines().map(str::to_owned));
            }
            results.push(if fails || is_lost { Err(unavailable()) } else { Ok(()) });
        }
        if is_lost { Err(unavailable()) } else { Ok(results) }
    }
}

impl ObjectStore for ExternalServices {
    async fn put(&self, _: &str, _: Vec<u8>) -> Result<(), Error> {
        panic!("the simulation's records fit into the delivery stream")
    }
}
