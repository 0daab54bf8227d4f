//! The outcomes of the reconciliations of a backfill: totals of its steps, and results of all steps together.

use std::sync::{Mutex, PoisonError};

use afterwrite_ledger::CommitOutcome;
use afterwrite_model::{ErrorKind, Result};

use super::BackfillTotal;
use crate::dropped::UnreportedDrops;
use crate::jobs::{JobTotals, count};

/// The unwritable mirrors that are named.
const NAMED_MIRRORS: usize = 100;

/// The outcomes of all reconciliations of this process.
#[derive(Debug, Default)]
pub(super) struct ReconcileOutcomes {
    unwritable_mirrors: Mutex<Vec<String>>,
    dropped: UnreportedDrops,
}

impl ReconcileOutcomes {
    /// The first mirrors that could not be written, each with its item and the reason.
    pub(super) fn unwritable_mirrors(&self) -> Vec<String> {
        self.unwritable_mirrors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds the dropped contributions of all reconciliations since the last call.
    pub(super) fn report_dropped(&self, totals: &mut JobTotals) {
        self.dropped.report(totals);
    }

    /// Adds what a reconciliation did. An error that a later attempt can heal fails the step, which is then repeated.
    pub(super) fn add(&self, totals: &mut JobTotals, outcome: CommitOutcome) -> Result<()> {
        let CommitOutcome { failures, parked: _, unwritable_mirrors, totals: done } = outcome;
        self.dropped.add(&done);
        let mut named = self.unwritable_mirrors.lock().unwrap_or_else(PoisonError::into_inner);
        let room = NAMED_MIRRORS.saturating_sub(named.len());
        named.extend(unwritable_mirrors.iter().map(ToString::to_string).take(room));
        drop(named);
        if let Some(failure) = failures.iter().find(|failure| failure.error.is_retryable()) {
            return Err(failure.error.restated());
        }
        // An older model, for example, would fail on every item.
        if let Some(failure) = failures.iter().find(|failure| failure.error.kind() == ErrorKind::State) {
            return Err(failure.error.restated());
        }
        totals.add(BackfillTotal::Reconciled, done.reconciled);
        totals.add(BackfillTotal::WriteUnits, done.write_units);
        totals.add(BackfillTotal::Mirrors, done.mirrors);
        totals.add(BackfillTotal::Conflicts, done.conflicts);
        totals.add(BackfillTotal::UnwritableMirrors, count(unwritable_mirrors.len()));
        totals.add(BackfillTotal::Failed, count(failures.len()));
        for failure in &failures {
            totals.add(format!("failed_{}", failure.error.kind().name()), 1);
        }
        Ok(())
    }
}
