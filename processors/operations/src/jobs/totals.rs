//! The counters of a job.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// A counter of a job. Each task has an enum of its counters.
pub trait JobTotal {
    /// The name in stored jobs and in reports.
    fn name(&self) -> Cow<'static, str>;
}

/// A counter that another crate names: of the ledger, or of a function.
impl JobTotal for &'static str {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(self)
    }
}

/// A counter with a name that is made at run time.
impl JobTotal for String {
    fn name(&self) -> Cow<'static, str> {
        Cow::Owned(self.clone())
    }
}

/// Defines the counters of a task with their names.
macro_rules! job_totals {
    ($(#[$doc:meta])* $visibility:vis enum $Name:ident { $($(#[$text:meta])* $Total:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $Name { $(#[doc = concat!("`", $name, "`")] $(#[$text])* $Total,)* }

        impl $crate::jobs::JobTotal for $Name {
            fn name(&self) -> std::borrow::Cow<'static, str> {
                std::borrow::Cow::Borrowed(match self { $(Self::$Total => $name,)* })
            }
        }
    };
}
pub(crate) use job_totals;

/// Counters of a job by name, as a stored job has them: `reconciled`, `skipped`, `failed`, …
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobTotals(BTreeMap<String, u64>);

impl JobTotals {
    /// No counters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of a counter; 0 if it is absent.
    #[must_use]
    pub fn number(&self, total: impl JobTotal) -> u64 {
        self.get(&*total.name()).copied().unwrap_or(0)
    }

    /// Adds to a counter. A number of 0 does not add the counter.
    pub fn add(&mut self, total: impl JobTotal, number: u64) {
        if number > 0 {
            *self.0.entry(total.name().into_owned()).or_default() += number;
        }
    }

    /// Adds all counters of a step, including those with a number of 0.
    pub fn add_all(&mut self, others: &Self) {
        for (name, number) in others.iter() {
            if let Some(total) = self.0.get_mut(name) {
                *total += number;
            } else {
                self.0.insert(name.clone(), *number);
            }
        }
    }

    /// Subtracts from all of these counters that exist. Each becomes 0 at least.
    pub fn subtract_all(&mut self, others: &Self) {
        for (name, number) in others.iter() {
            if let Some(total) = self.0.get_mut(name) {
                *total = total.saturating_sub(*number);
            }
        }
    }

    /// Removes a counter.
    pub(crate) fn remove(&mut self, total: impl JobTotal) {
        self.0.remove(&*total.name());
    }
}

/// Counters with their numbers, including those with a number of 0.
impl<T: JobTotal, const N: usize> From<[(T, u64); N]> for JobTotals {
    fn from(totals: [(T, u64); N]) -> Self {
        Self(totals.into_iter().map(|(total, number)| (total.name().into_owned(), number)).collect())
    }
}

/// Counters that another crate has added up.
impl From<BTreeMap<String, u64>> for JobTotals {
    fn from(totals: BTreeMap<String, u64>) -> Self {
        Self(totals)
    }
}

impl Deref for JobTotals {
    type Target = BTreeMap<String, u64>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// A length as a number.
#[must_use]
pub(crate) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
