//! The items and rollups that a verification judges, by its sample and its tenant.

use afterwrite_ledger::StoredEntry;
use afterwrite_ledger::tables::Tables;
use afterwrite_model::Result;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::{KnownLookups as _, RollupTargets};
use afterwrite_model::table::{Entity, Model};

use super::VerifyArguments;
use super::items::ItemJudge;
use super::place::RollupPlace;
use crate::items::IdentifiedItem;

impl VerifyArguments {
    /// Whether a rollup is judged.
    pub(super) fn judges_rollup(&self, model: &Model, place: &RollupPlace) -> bool {
        self.key_sample().has(&[&place.0, &place.1])
            && self.only.as_ref().is_none_or(|tenant| {
                model.rollups.iter().any(|rollup| tenant.owns_rollup(rollup, &place.0, &place.1))
            })
    }

    /// Whether an item is in the sample.
    pub(super) fn judges_source(&self, source: &SourceKey<'_>) -> bool {
        self.key_sample().has(&[&source.partition, source.sort.as_deref().unwrap_or("-")])
    }

    /// Whether an entry is judged whose item may not exist: its key shows that it is the tenant's, or it counts into a rollup of the tenant.
    pub(super) fn judges_entry(
        &self,
        model: &Model,
        source: &SourceKey<'_>,
        (entry, targets): (Option<&StoredEntry>, &RollupTargets),
    ) -> bool {
        let mut tenant = self.only.iter();
        let is_of_tenant = tenant.all(|tenant| tenant.has_entry(model, source, (entry, targets)));
        self.judges_source(source) && is_of_tenant
    }

    /// Of these entries' items, those that the reading of the source tables has not judged: they do not exist, or are not the tenant's any
    /// more.
    pub(super) async fn unseen<T: Tables>(
        &self,
        judge: &ItemJudge<T>,
        sources: Vec<SourceKey<'static>>,
    ) -> Result<Vec<SourceKey<'static>>> {
        let keyed =
            sources.into_iter().filter_map(|source| Some((judge.state.source_item_key(&source)?, source)));
        let (keys, sources): (Vec<_>, Vec<_>) = keyed.unzip();
        let items = judge.tables.read(&keys).await?.items;
        if self.only.is_none() {
            let gone = sources.into_iter().zip(items).filter(|(_, item)| item.is_none());
            return Ok(gone.map(|(source, _)| source).collect());
        }
        let existing = sources.iter().zip(&items).filter_map(|(source, item)| {
            let candidates = source.candidates(&judge.model);
            let item = item.as_ref().filter(|_| candidates.any(Entity::is_used))?;
            Some(IdentifiedItem { source, candidates, item })
        });
        let seen = self.of_tenant(judge, existing.collect()).await?;
        let unseen = sources.iter().filter(|source| !seen.iter().any(|item| item.source == *source));
        Ok(unseen.cloned().collect())
    }

    /// The items of the tenant. An item whose lookup through an index is not remembered may be the tenant's: it is judged, and undecided.
    pub(super) async fn of_tenant<'p, T: Tables>(
        &self,
        judge: &ItemJudge<T>,
        items: Vec<IdentifiedItem<'p>>,
    ) -> Result<Vec<IdentifiedItem<'p>>> {
        let Some(tenant) = &self.only else { return Ok(items) };
        let items = tenant.items(&judge.model, items);
        let outputs = judge.projector.read(items.lookups()).await?;
        Ok(items.inside(|key, output| match outputs.outputs(key) {
            Some(outputs) => tenant.has_output(outputs, output),
            None => !outputs.is_nothing(&judge.model, key),
        }))
    }
}
