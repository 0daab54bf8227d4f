//! How often each evil happened. A simulation that has lost one of them proves less than it says, so a whole run of seeds
//! must have met them all.

use std::collections::BTreeMap;

use afterwrite_tests::faults::InjectedFaults;

/// What the seeds of a whole run must have met, besides what [`InjectedFaults`] counts.
const EXPECTED: [&str; 24] = [
    "consumer crashed",
    "invocation overtaken by a second delivery",
    "shard delayed",
    "batch delivered once more",
    "batch redriven from the on-failure bucket",
    "batch given up",
    "stream created anew",
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
    "old record alone, last of all",
    "relay: crashed",
    "relay: invocation timed out",
    "relay: call failed",
    "relay: answer lost",
    "relay: batch delivered once more",
];

#[derive(Clone, Debug, Default)]
pub(crate) struct Evils(BTreeMap<String, u64>);

impl Evils {
    pub(crate) fn happened(&mut self, evil: &str) {
        self.add(evil, 1);
    }

    fn add(&mut self, evil: &str, times: u64) {
        match self.0.get_mut(evil) {
            Some(count) => *count += times,
            None => {
                self.0.insert(evil.to_owned(), times);
            }
        }
    }

    pub(crate) fn injected(&mut self, injected: InjectedFaults) {
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
            ("answer lost", lost_answers),
            ("call overtaken", slow),
            ("index lagging", index_lags),
            ("index throttled", index_throttles),
        ];
        all.into_iter().for_each(|(evil, times)| self.add(evil, times));
    }

    pub(crate) fn take_in(&mut self, others: &Self) {
        others.0.iter().for_each(|(evil, times)| self.add(evil, *times));
    }

    /// What never happened.
    pub(crate) fn missing(&self) -> Vec<&str> {
        let expected = EXPECTED.into_iter().filter(|evil| !self.0.contains_key(*evil));
        expected
            .chain(self.0.iter().filter(|(_, times)| **times == 0).map(|(evil, _)| evil.as_str()))
            .collect()
    }
}

impl std::fmt::Display for Evils {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|(evil, times)| writeln!(f, "{times:>9}  {evil}"))
    }
}
