//! How often each fault and each event occurred. A full run of seeds must have each of them, because the simulation
//! does not cover what never occurs.

use std::collections::BTreeMap;

use afterwrite_tests::faults::InjectedFaults;

/// The events that a full run of seeds must have, in addition to the counters of the injected faults.
const EXPECTED: [&str; 27] = [
    "consumer crashed",
    "invocation overtaken by a second delivery",
    "shard delayed",
    "batch delivered again",
    "batch redriven from the on-failure bucket",
    "batch given up",
    "stream created again",
    "days passed",
    "state table swept",
    "item reconciled",
    "model replaced while the other runs",
    "application: put",
    "application: touch",
    "application: overwrite",
    "application: delete",
    "application: expire",
    "application: transfer",
    "application: scribble",
    "old record replayed at the end",
    "record parked",
    "parked record redriven",
    "parked item reconciled",
    "relay: crashed",
    "relay: invocation timed out",
    "relay: call failed",
    "relay: response lost",
    "relay: batch delivered again",
];

#[derive(Clone, Debug, Default)]
pub(crate) struct FaultCoverage(BTreeMap<String, u64>);

impl FaultCoverage {
    pub(crate) fn record(&mut self, event: &str) {
        self.add(event, 1);
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
            unavailable,
            lost_answers,
            slow,
            index_lags,
            index_throttles,
        } = injected;
        let all = [
            ("conflict", conflicts),
            ("throttle", throttles),
            ("service unavailable", unavailable),
            ("response lost", lost_answers),
            ("call overtaken", slow),
            ("index lagging", index_lags),
            ("index throttled", index_throttles),
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
