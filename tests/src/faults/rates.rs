//! The kinds of faults: how often each is drawn, and how often each was injected.

use crate::random::SeededRandom;

/// The probability of each fault per call, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// A write is refused because of another request, or a transaction is cancelled with some actions refused for that reason.
    pub conflict: u64,
    /// The same for throttling.
    pub throttle: u64,
    /// A transaction or the put of a ledger entry is rejected as invalid, although it is valid when it is sent again.
    pub rejected: u64,
    /// A call fails before it takes effect.
    pub unavailable: u64,
    /// A write takes effect (or is refused), but its caller gets an error that the service could not be reached.
    pub lost_answer: u64,
    /// The service still has a write when its caller gets an error or gives up; the write takes effect later, if its condition holds by
    /// then.
    pub late: u64,
    /// A call is never answered. A write may have taken effect.
    pub hang: u64,
    /// Other calls overtake a call.
    pub slow: u64,
    /// A read of several items reads some of them later than others.
    pub torn_read: u64,
    /// A read of several items leaves some of them unread.
    pub partial_read: u64,
    /// An index query finds nothing, because the index lags behind the table.
    pub index_lag: u64,
    /// An index is throttled while its table is not.
    pub index_throttle: u64,
    /// An index returns an earlier version of an item.
    pub index_stale: u64,
    /// An index returns an earlier version of an item next to the current one.
    pub index_double: u64,
}

impl FaultRates {
    /// No faults.
    pub const NONE: Self = Self {
        conflict: 0,
        throttle: 0,
        rejected: 0,
        unavailable: 0,
        lost_answer: 0,
        late: 0,
        hang: 0,
        slow: 0,
        torn_read: 0,
        partial_read: 0,
        index_lag: 0,
        index_throttle: 0,
        index_stale: 0,
        index_double: 0,
    };

    /// Every fault that a caller overcomes by trying again, each in about one of twenty calls.
    pub const SOME: Self = Self {
        conflict: 50,
        throttle: 50,
        unavailable: 50,
        lost_answer: 50,
        slow: 50,
        index_lag: 50,
        index_throttle: 50,
        ..Self::NONE
    };
}

/// The number of injected faults by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InjectedFaults {
    /// Writes and transactions refused because of a conflict.
    pub conflicts: u64,
    /// Throttled writes and transactions.
    pub throttles: u64,
    /// Ledger entries and transactions rejected as invalid.
    pub rejected: u64,
    /// Calls that failed without effect.
    pub unavailable: u64,
    /// Writes whose response was lost.
    pub lost_answers: u64,
    /// Writes that the service still had when their caller stopped waiting.
    pub late: u64,
    /// Calls without an answer.
    pub hangs: u64,
    /// Overtaken calls.
    pub slow: u64,
    /// Reads at more than one moment.
    pub torn_reads: u64,
    /// Reads that left items unread.
    pub partial_reads: u64,
    /// Index queries that found nothing because of the lag.
    pub index_lags: u64,
    /// Throttled index queries.
    pub index_throttles: u64,
    /// Index queries that returned an earlier version of an item only.
    pub index_stale: u64,
    /// Index queries that returned an earlier version of an item next to the current one.
    pub index_doubles: u64,
}

/// Draws faults at these rates, and counts them.
pub(crate) struct FaultDraws {
    pub(crate) random: SeededRandom,
    pub(crate) rates: FaultRates,
    pub(crate) injected: InjectedFaults,
}

impl FaultDraws {
    pub(crate) fn new(rates: FaultRates, seed: u64) -> Self {
        Self { random: SeededRandom::new(seed), rates, injected: InjectedFaults::default() }
    }

    /// Draws a fault at one of the rates, and counts it if it occurs.
    pub(crate) fn occurs(
        &mut self,
        rate: impl Fn(&FaultRates) -> u64,
        count: impl Fn(&mut InjectedFaults) -> &mut u64,
    ) -> bool {
        let occurs = self.random.chance(rate(&self.rates));
        if occurs {
            *count(&mut self.injected) += 1;
        }
        occurs
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let drawn = self.random.below(u64::try_from(end).unwrap_or(u64::MAX));
        usize::try_from(drawn).unwrap_or(0)
    }
}
