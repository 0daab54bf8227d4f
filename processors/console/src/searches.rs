//! The newest searches for the items that are counted into a rollup, so that a step goes on where the one before ended.

use std::sync::{Arc, Mutex, PoisonError};

use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::contributors::ContributorSearch;
use tokio::sync::Mutex as AsyncMutex;

/// The searches that are remembered.
const MAX_SEARCHES: usize = 16;

/// The newest searches, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct ContributorSearches(Mutex<Vec<(String, Arc<AsyncMutex<RunningSearch>>)>>);

/// A search, and the steps that were made.
#[derive(Debug)]
pub(crate) struct RunningSearch {
    /// The search.
    pub(crate) search: ContributorSearch,
    /// The steps.
    pub(crate) steps: u64,
}

impl ContributorSearches {
    /// A new search, with its id.
    pub(crate) fn start(&self, search: ContributorSearch) -> (String, Arc<AsyncMutex<RunningSearch>>) {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let running = Arc::new(AsyncMutex::new(RunningSearch { search, steps: 0 }));
        let mut searches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        searches.push((id.clone(), Arc::clone(&running)));
        if searches.len() > MAX_SEARCHES {
            searches.remove(0);
        }
        (id, running)
    }

    /// The search with this id.
    ///
    /// # Errors
    /// `Configuration` if it is not remembered.
    pub(crate) fn known(&self, id: &str) -> Result<Arc<AsyncMutex<RunningSearch>>> {
        let searches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = searches.iter().find(|(known, _)| known == id).map(|(_, search)| Arc::clone(search));
        known.ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "the console does not remember this search")
                .hint("Begin again on the page of the rollup")
        })
    }
}
