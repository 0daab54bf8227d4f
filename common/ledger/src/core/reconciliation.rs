//! Records that are counted by reading their item, and their end if the item cannot be counted either.

use afterwrite_model::Error;

use super::StepContext;
use super::decide::RecordDecision;
use super::item::{ItemState, LedgerItem, Reconciliation};
use crate::policy::CLOCK_TOLERANCE;
use crate::state::entry::LedgerEntry;

impl<'r> LedgerItem<'r> {
    /// Continues with the item's records, because the item cannot be counted as its table has it. The records that needed
    /// it have the error. An expiry that is too old to be settled has none: a marker for it would let it be settled later.
    pub(super) fn without_table(&mut self, error: &Error, context: StepContext<'_>) -> ItemState<'r> {
        if self.reconciliation != Reconciliation::Needed || !error.kind().is_poison() {
            return ItemState::Failed(error.restated());
        }
        let decision = self.decision(context);
        let mut unreadable = decision.needing_item.clone();
        unreadable.extend(self.healed_record(&decision));
        unreadable.retain(|index| !decision.too_old_expiries.contains(index));
        for index in unreadable {
            self.records.errors.entry(index).or_insert_with(|| error.restated());
        }
        self.peers.group = None;
        self.reconciliation = Reconciliation::Impossible;
        self.decide(context)
    }

    /// Whether a reconciliation, which keeps the position, may have counted the state that these records show.
    pub(super) fn may_be_counted_by_reconciliation(&self, entry: &LedgerEntry<'_>) -> bool {
        let Some(as_of) = entry.as_of else { return false };
        let latest = as_of.plus(CLOCK_TOLERANCE);
        self.records.changes.iter().any(|record| record.created_at.is_none_or(|created| created <= latest))
    }

    /// Counts a plan that reconciles an item whose entry follows a later stream, and a plan that ends or begins a life of the item, if its
    /// entity keeps what expired: see [`ReconciledLives`](crate::ReconciledLives).
    pub(super) fn note_life(&self, next: &LedgerEntry<'_>, context: StepContext<'_>) {
        let Some(entry) = self.entry.as_ref().filter(|_| self.must_reconcile()) else { return };
        if entry.position.label() > self.stream_label() {
            context.tally.of_later_stream.add(1);
        }
        if !entry.has_counted() || !self.may_settle() {
            return;
        }
        let counts = |entry: &LedgerEntry<'_>| !entry.current.by_aggregate.is_empty();
        match (entry.expires_at.is_some(), next.expires_at.is_some()) {
            (false, true) if counts(entry) => context.tally.vanished.add(1),
            (true, false) if counts(next) && entry.position.label() != self.stream_label() => {
                context.tally.revived.add(1);
            }
            (_, _) => {}
        }
    }

    /// The parked record, if it can be read now, and a reconciliation has counted a newer state. Another one removes the
    /// mark: only the table shows whether the item exists, so that its entry is a tombstone or is not.
    pub(super) fn healed_record(&self, decision: &RecordDecision) -> Option<usize> {
        let behind = self.entry.as_ref().and_then(|entry| entry.behind.as_ref())?;
        let missing = self.records.changes.iter().position(|record| record.position == behind.position)?;
        (!decision.uncounted.contains(&missing) && !self.records.errors.contains_key(&missing))
            .then_some(missing)
    }
}
