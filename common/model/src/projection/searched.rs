//! Lookups that were searched before items are counted: for operations, which count many items at once.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{
    ItemContributions, KnownLookups, LookupKey, LookupOutputs, RollupTargets, ShardAssignment, contributions,
};
use crate::entity::{ItemCandidates, SourceKey};
use crate::record::Image;
use crate::table::Model;
use crate::{Error, ErrorKind};

/// Lookups that were searched, with the result of each.
#[derive(Debug, Default)]
pub struct SearchedLookups(HashMap<LookupKey<'static>, SearchResult>);

#[derive(Debug)]
enum SearchResult {
    Found(Arc<LookupOutputs>),
    Nothing,
    /// The lookup cannot be used. The error names the remedy.
    Failed(Error),
}

impl SearchedLookups {
    /// Notes the result of a search: the outputs, or that it found nothing.
    pub fn note(&mut self, key: LookupKey<'static>, outputs: Option<Arc<LookupOutputs>>) {
        self.0.insert(key, outputs.map_or(SearchResult::Nothing, SearchResult::Found));
    }

    /// Notes a lookup that cannot be used. [`KnownLookups::failure`] restates the error.
    pub fn note_failure(&mut self, key: LookupKey<'static>, error: Error) {
        self.0.insert(key, SearchResult::Failed(error));
    }

    /// Whether a lookup was searched.
    #[must_use]
    pub fn has(&self, key: &LookupKey<'static>) -> bool {
        self.0.contains_key(key)
    }

    /// Forgets the outputs that were found. Lookups that found nothing need no second search.
    pub fn forget_found(&mut self) {
        self.0.retain(|_, result| !matches!(result, SearchResult::Found(_)));
    }

    fn result(&self, key: &LookupKey<'_>) -> Option<&SearchResult> {
        let key = key.clone().into_owned();
        self.0.get(&key)
    }
}

impl KnownLookups for SearchedLookups {
    fn outputs(&self, key: &LookupKey<'_>) -> Option<&LookupOutputs> {
        if let Some(SearchResult::Found(outputs)) = self.result(key) { Some(outputs) } else { None }
    }

    fn is_absent(&self, key: &LookupKey<'_>) -> bool {
        matches!(self.result(key), Some(SearchResult::Nothing))
    }

    fn failure(&self, key: &LookupKey<'_>) -> Option<Error> {
        if let Some(SearchResult::Failed(error)) = self.result(key) { Some(error.restated()) } else { None }
    }
}

/// Whether the functions would deliver the record of this image again and again, because a lookup through an index finds nothing, or one
/// that is remembered cannot be used. Every other item is counted, left out of an aggregate or parked: [`contributions()`] decides, as for a
/// record.
#[must_use]
pub fn awaits_lookup(
    model: &Model,
    (source, candidates): (&SourceKey<'_>, &ItemCandidates<'_, '_>),
    image: &Image<'_>,
    lookups: &SearchedLookups,
    targets: &mut RollupTargets,
) -> bool {
    let sharding = ShardAssignment { source, current: const { &ItemContributions::NOTHING } };
    contributions(model, candidates, (image, &[]), lookups, sharding, targets)
        .is_err_and(|error| matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::State))
}
