//! The lookups of a page.

use afterwrite_ledger::Ledger;
use afterwrite_ledger::tables::Tables;
use afterwrite_model::clock::Clock;
use afterwrite_model::projection::{LookupKey, SearchedLookups};
use afterwrite_model::record::Timestamp;
use afterwrite_model::{ErrorKind, Result};

use crate::jobs::{JobTotals, LACKING_OUTPUT};
use crate::projector::ItemProjector;

/// The results of lookups. A lookup that an earlier model has remembered without an output of this model has failed; `totals` counts such
/// lookups. The remembered results are read by themselves only if the ledger reports such a lookup.
pub(super) async fn searched<T: Tables + Clone, C: Clock>(
    ledger: &Ledger<T, C>,
    projector: &ItemProjector<T>,
    mut wanted: Vec<LookupKey<'static>>,
    deadline: Timestamp,
    totals: &mut JobTotals,
) -> Result<SearchedLookups> {
    let mut searched = SearchedLookups::default();
    let found = match ledger.look_up(&wanted, deadline).await {
        Err(error) if error.kind() == ErrorKind::State => {
            let lacking = projector.read(wanted.clone()).await?.lacking();
            if lacking.is_empty() {
                return Err(error);
            }
            *totals.entry(LACKING_OUTPUT.to_owned()).or_default() +=
                u64::try_from(lacking.len()).unwrap_or(u64::MAX);
            wanted.retain(|key| !lacking.contains_key(key));
            lacking.into_iter().for_each(|(key, error)| searched.note_failure(key, error));
            ledger.look_up(&wanted, deadline).await?
        }
        found => found?,
    };
    wanted.into_iter().zip(found).for_each(|(key, outputs)| searched.note(key, outputs));
    Ok(searched)
}
