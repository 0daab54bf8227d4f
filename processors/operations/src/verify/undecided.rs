//! Why a finding is undecided.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The kinds of causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndecidedReason {
    /// It changed while it was judged.
    Changed,
    /// There was no time to judge it again.
    OutOfTime,
    /// The log of a dataset is not complete yet, as far as is known.
    IncompleteLog,
    /// A lookup that it depends on is not remembered.
    LookupNotRemembered,
    /// A remembered lookup lacks an output that the model declares.
    LookupLacksOutput,
    /// The item cannot be counted as it is.
    Uncountable,
    /// Ledger entries that cannot be read may contain the difference.
    UnreadableLedger,
    /// The model has nothing with this key.
    Foreign,
    /// Only a comparison of all items can decide it.
    NotComparable,
}

impl UndecidedReason {
    /// Whether items of one entity have the cause because of what the ledger remembers, not because of what each of them is.
    #[must_use]
    pub fn is_of_lookup(self) -> bool {
        match self {
            Self::LookupNotRemembered | Self::LookupLacksOutput => true,
            Self::Changed
            | Self::OutOfTime
            | Self::IncompleteLog
            | Self::Uncountable
            | Self::UnreadableLedger
            | Self::Foreign
            | Self::NotComparable => false,
        }
    }
}

/// The cause of one undecided finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UndecidedCause {
    /// Its kind.
    pub(crate) reason: UndecidedReason,
    /// The cause in words, with what mends it.
    pub(crate) text: Cow<'static, str>,
}

impl UndecidedCause {
    pub(crate) fn new(reason: UndecidedReason, text: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, text: text.into() }
    }

    /// It changed while it was judged.
    pub(crate) fn changed(text: &'static str) -> Self {
        Self::new(UndecidedReason::Changed, text)
    }

    /// There was no time to judge it again.
    pub(crate) fn out_of_time() -> Self {
        Self::new(UndecidedReason::OutOfTime, "there was no time to judge the item again")
    }
}
