//! Events that the ledger does not cause: a rollup's measure is overwritten by text and mended later, and requests take
//! effect after their author stopped waiting for them.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use afterwrite_model::record::{AttributeValue, Item};

use super::run::SimulationRun;
use super::source_rollups::SourceRollup;
use super::state::{OverwrittenMeasure, StateKind, state_kind};
use super::store::{STATE, Store, key_of_item};

/// The measures that are overwritten: only counted, and neither shown nor counted further.
const OVERWRITABLE: [&str; 8] =
    ["projects_open", "tasks", "events", "open_days", "users", "cities", "kinds_visited", "meters"];

impl<S: Store + 'static> SimulationRun<S> {
    /// Overwrites a measure by text, or mends the one that is.
    pub(crate) fn overwrite_or_mend(&mut self) {
        if self.overwritten.is_some() {
            return self.mend_measure();
        }
        let rollups = self.tables.inner().scan(STATE);
        let is_own = |item: &Item| {
            let [partition, sort] = ["PK", "SK"].map(|name| super::store::text(item, name));
            let is_used =
                sort.starts_with("ROLLUP#PROJECT#") || SourceRollup::of_key(partition, sort).is_some();
            state_kind(item) == StateKind::Rollup && !is_used
        };
        let measure_of = |rollup: Item| {
            let measure = OVERWRITABLE.into_iter().find(|measure| rollup.contains_key(*measure))?;
            Some(OverwrittenMeasure { rollup, measure })
        };
        let mut candidates: Vec<_> = rollups.into_iter().filter(is_own).filter_map(measure_of).collect();
        if candidates.is_empty() {
            return;
        }
        let chosen = self.below(candidates.len());
        let chosen = candidates.swap_remove(chosen);
        let mut spoiled = chosen.rollup.clone();
        spoiled.insert(chosen.measure.into(), AttributeValue::text("many"));
        self.coverage.record("measure overwritten by text");
        self.note(&[30], || format!("{chosen:?} is overwritten by text"));
        self.put_state(spoiled);
        self.overwritten = Some(chosen);
    }

    /// Restores the measure that is overwritten: nothing has been added to it since.
    pub(crate) fn mend_measure(&mut self) {
        let Some(OverwrittenMeasure { rollup, measure }) = self.overwritten.take() else { return };
        // TTL may have deleted the rollup.
        if let Some(mut spoiled) = self.tables.inner().get(&key_of_item(STATE, &rollup)) {
            spoiled.extend(rollup.get(measure).map(|value| (measure.into(), value.clone())));
            self.coverage.record("measure mended");
            self.note(&[31], || format!("{measure} of {spoiled:?} is mended"));
            self.put_state(spoiled);
        }
    }

    /// Puts an item of the state table, unseen by the watcher.
    fn put_state(&mut self, item: Item) {
        self.tables.inner().put(STATE, item);
        drop(self.tables.inner().take_changes(STATE));
    }

    /// Lets the oldest request take effect whose author stopped waiting for it.
    pub(crate) fn land_request(&mut self) {
        let landed = {
            let landing = pin!(self.tables.land());
            let Poll::Ready(landed) = landing.poll(&mut Context::from_waker(Waker::noop())) else {
                panic!("the tables answer at once")
            };
            landed
        };
        if let Some(generation) = landed {
            self.coverage.record("request took effect after its author stopped waiting");
            self.note(&[32], || "a late request takes effect, or is refused".to_owned());
            self.collect_changes(generation);
            self.unrefreshed.extend(self.watcher.left.drain(..));
        }
    }

    /// Lets all such requests take effect.
    pub(crate) fn land_requests(&mut self) {
        while self.tables.has_late_requests() {
            self.land_request();
        }
    }
}
