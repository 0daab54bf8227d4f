//! The policy of the ledger: how an invocation divides its time, what it tries first, which items share a transaction, and how long the
//! state table keeps what it knows. Pure. Each rule answers a fault that would hold up records of other items, or lose one.
//!
//! | fault | rule | place |
//! |---|---|---|
//! | A request hangs. | A read gets half of the time that is left, a write a quarter; at least 500 ms. | [`RequestKind::time`] |
//! | Many requests hang. | No further lookup or entry is begun after a quarter of the time, or 2 s. | [`begin_time`] |
//! | An item waits again and again: its partition is throttled, or other writers are busy with it. | The mirrors of the finished items are refreshed before every fourth wait, and each time that half of the time has passed. | [`RefreshSchedule`] |
//! | An index lags behind its table. | Three queries; the pause grows by 100 ms with each. | [`is_last_query`], [`query_pause`] |
//! | The same lookups hang, or find nothing, at each delivery. | The least tried ones are first; of more than 16, every second time a random one is. | [`first_lookup`] |
//! | A transaction hangs, and delays the transactions that share its rollups. | The least delayed transactions and entries are first. | [`TransactionPeers::delays`] |
//! | An item conflicts, or is throttled, again. | From the second time on, it shares no transaction with items that do not. | [`TransactionPeers::note_delay`] |
//! | A transaction fails as a whole for the second time. | Each eighth of its items gets transactions of its own. | [`SplitCause::Failure`] |
//! | A transaction is rejected, and its rollups do not show why. | Each half of its items gets transactions of its own; one item alone is rejected. | [`SplitCause::Rejection`] |
//! | Two causes are isolated at once. | The newest group is first: isolating one cause ends before the next begins. | [`PeerGroup`] |
//! | A parked record is delivered again, and is rejected again. | It shares transactions only with other parked records. These transactions follow all other transactions, and a rejection isolates no parked record. | [`WriteTurn`] |
//! | Very many items are rejected. | A round ends after 16 rejections, so that the marks of the found items are written long before the deadline. | [`MOST_ROUND_REJECTIONS`] |
//! | The deadline comes while mirrors are refreshed. | The first 1,000 items are finished first: the next delivery begins after them. | [`REFRESHED_AT_ONCE`] |
//! | Two clocks differ, or a stream's times and a clock. | Differences up to 15 minutes are tolerated. | [`CLOCK_TOLERANCE`] |
//! | Two times of DynamoDB are compared: of a stream's record and of a read. | Differences up to 5 seconds are tolerated: both are rounded, and a read that was repeated has its first time. | [`SERVICE_TIME_TOLERANCE`] |
//! | A record arrives after its item was deleted. | Tombstones and markers outlive (35 days) every record that can still be applied; the tombstone of a parked item lives 400 days. | [`TOMBSTONE_LIFETIME`], [`MARK_LIFETIME`] |

use std::cmp::Reverse;
use std::time::Duration;

/// The largest difference between two clocks, or between a stream's times and a clock.
pub(crate) const CLOCK_TOLERANCE: Duration = Duration::from_secs(15 * 60);
/// The largest difference between a time of a stream's record and the time of a read, of one moment: both are DynamoDB's.
pub(crate) const SERVICE_TIME_TOLERANCE: Duration = Duration::from_secs(5);
/// How long tombstones and expiry markers are kept.
pub(crate) const TOMBSTONE_LIFETIME: Duration = Duration::from_secs(35 * 24 * 60 * 60);
/// How long the tombstone of an item that is marked as parked is kept: an operator must have time to heal it.
pub(crate) const MARK_LIFETIME: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// The requests of an invocation that are sent at once. The DynamoDB client of `services` has the same limit (`MAX_CONCURRENT_REQUESTS`) for all
/// its callers. The ledger limits its own requests before, so that the time limit of a request begins when it is sent.
pub(crate) const CONCURRENCY: usize = 16;
/// A round ends after so many rejections. The next one marks the items that were found as parked, and continues with the newest halves.
pub(crate) const MOST_ROUND_REJECTIONS: usize = 16;
/// The most items of a batch whose copies are refreshed at once. The first items of a larger batch are finished first.
pub(crate) const REFRESHED_AT_ONCE: usize = 1000;

/// The time that a request gets at least: on a new connection it can take that long.
const LEAST_REQUEST_TIME: Duration = Duration::from_millis(500);
/// The longest time for which the lookups or the entries of a round are begun. Items without lookups wait as long.
const MOST_BEGIN_TIME: Duration = Duration::from_secs(2);
/// How often an index is queried, or the item is read, before the record fails. GSIs usually lag by less than a second.
const MAX_INDEX_QUERIES: u32 = 3;
/// The pause after the first index query; it grows by as much after each further one.
const INDEX_PAUSE: Duration = Duration::from_millis(100);
/// From so many lookups on, there may not be time for all.
const MANY_LOOKUPS: usize = 16;
/// After so many waits, an item holds the batch up.
const MANY_WAITS: u32 = 4;

/// A kind of request, by what it costs to cut it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// A read or a query. A read that is cut off has no effect, and takes as long when it is sent again.
    Read,
    /// A write. A write that is cut off may still take effect: its item is read again, and written again.
    Write,
}

impl RequestKind {
    /// The time that one request gets, of the time that is left.
    pub(crate) fn time(self, left: Duration) -> Duration {
        let parts = match self {
            Self::Read => 2,
            Self::Write => 4,
        };
        (left / parts).max(LEAST_REQUEST_TIME)
    }
}

/// The time for which the requests of a round are begun, of the time that is left.
pub(crate) fn begin_time(left: Duration) -> Duration {
    RequestKind::Write.time(left).min(MOST_BEGIN_TIME)
}

/// Whether a lookup that found nothing in so many queries is not tried again.
pub(crate) fn is_last_query(queries: u32) -> bool {
    queries >= MAX_INDEX_QUERIES
}

/// The pause before the next query, if a lookup has had this many queries, the most of all open lookups; `None` if none was queried.
pub(crate) fn query_pause(most_queries: Option<u32>) -> Option<Duration> {
    most_queries.filter(|queries| *queries > 0).map(|queries| INDEX_PAUSE * queries)
}

/// The lookup that is the first of so many equally tried ones. `permille` is a random number below 1000, drawn only if it matters.
pub(crate) fn first_lookup(lookups: usize, permille: impl FnOnce() -> u32) -> usize {
    let permille = if lookups > MANY_LOOKUPS { permille() as usize } else { 0 };
    if permille % 2 == 1 { lookups * permille / 1000 } else { 0 }
}

/// When the mirrors of the finished items are refreshed although other items are not finished.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefreshSchedule {
    /// How often the batch had to wait.
    waits: u32,
    /// The time that is left when the next refresh is due.
    refresh_below: Duration,
}

impl RefreshSchedule {
    /// The schedule of a batch that has this time.
    pub(crate) fn new(left: Duration) -> Self {
        Self { waits: 0, refresh_below: left / 2 }
    }

    /// How often the batch had to wait.
    pub(crate) fn waits(&self) -> u32 {
        self.waits
    }

    /// Notes the end of a round. Returns whether a refresh is due; then [`RefreshSchedule::note_refresh`] follows it.
    pub(crate) fn is_due(&mut self, must_wait: bool, left: Duration) -> bool {
        self.waits += u32::from(must_wait);
        let has_waited = must_wait && self.waits.is_multiple_of(MANY_WAITS);
        has_waited || left < self.refresh_below
    }

    /// Notes a refresh.
    pub(crate) fn note_refresh(&mut self, left: Duration) {
        self.refresh_below = left / 2;
    }
}

/// The items that may share a transaction with an item, and when its transactions are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TransactionPeers {
    pub(crate) group: PeerGroup,
    pub(crate) turn: WriteTurn,
    /// How often the item's transaction failed as a whole, or conflicted because of the item.
    pub(crate) delays: u32,
}

/// The items of one turn that may share a transaction. The order is the order of packing: items that may share with all are first, then the
/// items of the newest group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PeerGroup {
    /// All items without a group of their own.
    #[default]
    All,
    /// The items with the same number: a transaction of theirs was rejected or delayed, and the cause is unknown.
    Own(Reverse<u32>),
}

impl PeerGroup {
    pub(crate) fn numbered(number: u32) -> Self {
        Self::Own(Reverse(number))
    }
}

/// When the transactions of an item are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WriteTurn {
    #[default]
    First,
    /// After the transactions of all items whose turn is the first: the plan has a record that an earlier delivery has parked. DynamoDB may
    /// reject it again.
    ParkedAgain,
}

impl TransactionPeers {
    /// Notes that the item delayed its transaction. Returns whether it did before.
    pub(crate) fn note_delay(&mut self) -> bool {
        self.delays += 1;
        self.delays > 1
    }
}

/// Why the items of a transaction are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitCause {
    /// DynamoDB rejected the transaction, at once.
    Rejection,
    /// The transaction failed. That can take long: eighths isolate the cause in a third of the rounds that halves need.
    Failure,
}

impl SplitCause {
    /// The parts of these items that get transactions of their own.
    pub(crate) fn parts(self, indexes: &[usize]) -> std::slice::Chunks<'_, usize> {
        let parts = match self {
            Self::Rejection => 2,
            Self::Failure => 8,
        };
        indexes.chunks(indexes.len().div_ceil(parts).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_request_that_hangs_leaves_time_to_send_it_again() {
        assert_eq!(RequestKind::Read.time(8 * SECOND), 4 * SECOND);
        assert_eq!(RequestKind::Write.time(8 * SECOND), 2 * SECOND);
        assert_eq!(RequestKind::Write.time(SECOND), LEAST_REQUEST_TIME);
        assert_eq!(begin_time(4 * SECOND), SECOND);
        assert_eq!(begin_time(60 * SECOND), MOST_BEGIN_TIME);
    }

    #[test]
    fn an_index_is_queried_three_times_with_growing_pauses() {
        let pauses = [None, Some(0), Some(1), Some(2)].map(query_pause);
        assert_eq!(pauses, [None, None, Some(INDEX_PAUSE), Some(2 * INDEX_PAUSE)]);
        assert_eq!([1, 2, 3].map(is_last_query), [false, false, true]);
    }

    #[test]
    fn every_second_time_a_random_one_of_many_lookups_is_the_first() {
        assert_eq!(first_lookup(MANY_LOOKUPS, || panic!("there is time for all")), 0);
        assert_eq!([998, 999, 1].map(|permille| first_lookup(1000, || permille)), [0, 999, 1]);
        assert_eq!((0..1000).filter(|permille| first_lookup(20, || *permille) > 0).count(), 475);
    }

    #[test]
    fn mirrors_are_refreshed_before_every_fourth_wait_and_at_each_half_of_the_time() {
        let mut schedule = RefreshSchedule::new(10 * SECOND);
        let waits = [true, true, false, true, true, false, true];
        let due = waits.map(|must_wait| schedule.is_due(must_wait, 10 * SECOND));
        assert_eq!(due, [false, false, false, false, true, false, false]);
        assert_eq!(schedule.waits(), 5);
        assert!(!schedule.is_due(false, 5 * SECOND));
        assert!(schedule.is_due(false, 4 * SECOND));
        schedule.note_refresh(4 * SECOND);
        assert!(!schedule.is_due(false, 3 * SECOND));
        assert!(schedule.is_due(false, SECOND));
    }

    #[test]
    fn an_item_is_separated_when_it_delays_its_transaction_again() {
        let mut peers = TransactionPeers::default();
        assert_eq!([peers.note_delay(), peers.note_delay(), peers.note_delay()], [false, true, true]);
    }

    #[test]
    fn items_without_a_group_are_packed_first_and_then_the_newest_group() {
        let [first, second, third] = [1, 2, 3].map(PeerGroup::numbered);
        let mut groups = [first, third, PeerGroup::All, second];
        groups.sort();
        assert_eq!(groups, [PeerGroup::All, third, second, first]);
    }

    #[test]
    fn a_rejection_divides_in_halves_and_a_failure_in_eighths() {
        let indexes: Vec<usize> = (0..20).collect();
        let sizes = |cause: SplitCause, items: usize| {
            cause.parts(&indexes[..items]).map(<[usize]>::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(SplitCause::Rejection, 5), [3, 2]);
        assert_eq!(sizes(SplitCause::Failure, 20), [3, 3, 3, 3, 3, 3, 2]);
        assert_eq!(sizes(SplitCause::Failure, 3), [1, 1, 1]);
        assert_eq!(sizes(SplitCause::Failure, 0), [0; 0]);
    }
}
