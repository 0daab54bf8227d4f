//! Everything that requests share.

use std::fmt;

use crate::commands::CommandRuns;
use crate::context::ConsoleContext;
use crate::facts::FactsCache;
use crate::findings::FindingsFolder;
use crate::searches::ContributorSearches;
use crate::units::PlannedUnits;

/// The field of forms, and the parameter of the first address, that holds a token.
pub(crate) const TOKEN: &str = "token";

/// Everything that requests share.
pub(crate) struct Served {
    pub(crate) context: ConsoleContext,
    pub(crate) tokens: Tokens,
    /// The commands that this console has started.
    pub(crate) runs: CommandRuns,
    /// The findings of verifications.
    pub(crate) findings: FindingsFolder,
    /// The newest searches for the items that are counted into a rollup.
    pub(crate) searches: ContributorSearches,
    /// The newest look at the deployment.
    pub(crate) facts: FactsCache,
    /// The write units that changes of the model need.
    pub(crate) planned: PlannedUnits,
    /// The names by which the console may be reached, beside addresses and `localhost`.
    pub(crate) hosts: Vec<String>,
}

impl fmt::Debug for Served {
    /// Without the tokens.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Served").field("context", &self.context).finish_non_exhaustive()
    }
}

impl Served {
    pub(crate) fn new(context: ConsoleContext, tokens: Tokens, hosts: Vec<String>) -> Self {
        Self {
            context,
            tokens,
            runs: CommandRuns::default(),
            findings: FindingsFolder::default(),
            searches: ContributorSearches::default(),
            facts: FactsCache::default(),
            planned: PlannedUnits::default(),
            hosts,
        }
    }
}

/// The tokens of a session: random, and never in a log.
pub(crate) struct Tokens {
    /// Of everything that writes: a field of every form.
    pub(crate) writes: String,
    /// Of every request, if the console listens beyond this machine.
    pub(crate) access: Option<String>,
}

impl Tokens {
    pub(crate) fn new(needs_access: bool) -> Self {
        let random =
            || [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()].map(|id| id.simple().to_string()).concat();
        Self { writes: random(), access: needs_access.then(random) }
    }
}
