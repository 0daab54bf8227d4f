//! How often each fault and each event occurred. A full run of seeds must have each of them, because the simulation
//! does not cover what never occurs.

use std::collections::BTreeMap;

use afterwrite_tests::faults::InjectedFaults;

/// The events that a full run of seeds must have, in addition to the counters of the injected faults.
const EXPECTED: [&str; 86] = [
    "consumer crashed",
    "consumer crashed after a crash",
    "consumer crashed after an item left a rollup",
    "invocation overtaken by a second delivery",
    "invocation answered after its deadline passed in a call",
    "request took effect after its author stopped waiting",
    "shard delayed",
    "shard split",
    "batch delivered again",
    "batch with an expiry delivered twice at a time",
    "batches of all shards delivered in step",
    "malformed record read by a corrected decoder",
    "batch of hundreds of records",
    "batch of thousands of records",
    "batch of 10,000 records",
    "batch of more than 99 images of one item",
    "batch of more than 50 expiries of one item",
    "batch redriven from the on-failure bucket",
    "batch given up",
    "stream created again",
    "days passed",
    "state table swept",
    "item reconciled",
    "model replaced while the other runs",
    "measure overwritten by text",
    "measure mended",
    "mirror could not be written",
    "application: put",
    "application: touch",
    "application: overwrite",
    "application: delete",
    "application: expire",
    "application: transfer",
    "application: scribble",
    "application: clone",
    "application: break",
    "application: vanish",
    "application: meet",
    "application: odd-key",
    "application: flood",
    "application: flicker",
    "application: expire-often",
    "hashed key written",
    "entry whose key is like a marker's",
    "entry with a binary and a number key",
    "old record replayed at the end",
    "record parked",
    "parked record redriven",
    "parked item reconciled",
    "parked item healed by its next change",
    "source rollup changed",
    "source rollup of a higher level changed",
    "source rollup returned to zero",
    "source rollup left zero again",
    "source rollup expired and kept",
    "source rollup expired and subtracted",
    "source rollup expired at zero",
    "new source backfilled that has an entry",
    "new source backfilled that has no entry",
    "new source read by an old model",
    "consumer stopped between two levels",
    "rank of different values",
    "relay: crashed",
    "relay: invocation timed out",
    "relay: call failed",
    "relay: response lost",
    "relay: batch delivered again",
    "event: item enters",
    "event: item leaves",
    "event: item changes",
    "event: of an expiry",
    "event: of a mirrored attribute",
    "event: threshold of a rollup crossed",
    "event: threshold of a rollup crossed back",
    "event: request failed",
    "event: target busy",
    "event: entry failed",
    "event: response lost",
    "event: request took effect after its author stopped waiting",
    "event: queued",
    "event: queue refused a message",
    "event: message stays in the queue",
    "event: message delivered again",
    "event: invalidator crashed",
    "event: record forwarded",
    "event: record damaged",
];

#[derive(Clone, Debug, Default)]
pub(crate) struct FaultCoverage(BTreeMap<String, u64>);

impl FaultCoverage {
    pub(crate) fn record(&mut self, event: &str) {
        self.add(event, 1);
    }

    /// Whether an event has occurred.
    pub(crate) fn has(&self, event: &str) -> bool {
        self.0.contains_key(event)
    }

    fn add(&mut self, event: &str, times: u64) {
        match self.0.get_mut(event) {
            Some(count) => *count += times,
            None => {
                self.0.insert(event.to_owned(), times);
            }
        }
    }

    pub(crate) fn record_injected(&mut self, injected: InjectedFaults) {
        let InjectedFaults {
            conflicts,
            throttles,
            rejected,
            unavailable,
            lost_answers,
            late,
            hangs,
            slow,
            torn_reads,
            partial_reads,
            index_lags,
            index_throttles,
            index_stale,
            index_doubles,
        } = injected;
        let all = [
            ("conflict", conflicts),
            ("throttle", throttles),
            ("valid write rejected", rejected),
            ("service unavailable", unavailable),
            ("response lost", lost_answers),
            ("write still in flight when its author stopped waiting", late),
            ("call without an answer", hangs),
            ("call overtaken", slow),
            ("read at two moments", torn_reads),
            ("read left items unread", partial_reads),
            ("index lagging", index_lags),
            ("index throttled", index_throttles),
            ("index answered with an earlier version", index_stale),
            ("index answered with two versions", index_doubles),
        ];
        all.into_iter().for_each(|(event, times)| self.add(event, times));
    }

    pub(crate) fn merge(&mut self, others: &Self) {
        others.0.iter().for_each(|(event, times)| self.add(event, *times));
    }

    /// The faults and events that never occurred.
    pub(crate) fn missing(&self) -> Vec<&str> {
        let expected = EXPECTED.into_iter().filter(|event| !self.0.contains_key(*event));
        expected
            .chain(self.0.iter().filter(|(_, times)| **times == 0).map(|(event, _)| event.as_str()))
            .collect()
    }
}

impl std::fmt::Display for FaultCoverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|(event, times)| writeln!(f, "{times:>9}  {event}"))
    }
}
