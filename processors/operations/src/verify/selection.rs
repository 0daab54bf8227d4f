//! The items and rollups that a verification judges: those of its sample, and of its tenant.

use afterwrite::Result;
use afterwrite::entity::SourceKey;
use afterwrite::projection::KnownLookups as _;
use afterwrite::sink::Tables;
use afterwrite::table::Model;

use super::VerifyArguments;
use super::items::ItemJudge;
use super::place::RollupPlace;
use crate::items::IdentifiedItem;
use crate::tenant::TenantMatch;

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

    /// Whether an entry is judged whose item does not exist: its key alone shows whether it is the tenant's.
    pub(super) fn judges_entry(&self, model: &Model, source: &SourceKey<'_>) -> bool {
        let is_of_tenant =
            self.only.as_ref().is_none_or(|tenant| tenant.matches_key(&source.candidates(model)));
        self.judges_source(source) && is_of_tenant
    }

    /// The items of the tenant. A lookup that is not remembered belongs to no tenant yet.
    pub(super) async fn of_tenant<'p, T: Tables>(
        &self,
        judge: &ItemJudge<T>,
        items: Vec<IdentifiedItem<'p>>,
    ) -> Result<Vec<IdentifiedItem<'p>>> {
        let Some(tenant) = &self.only else { return Ok(items) };
        let matches: Vec<TenantMatch> = items.iter().map(|item| tenant.matches(&judge.model, item)).collect();
        let keys = matches.iter().filter_map(|known| match known {
            TenantMatch::Lookup(key, _) => Some(key.clone()),
            TenantMatch::Inside | TenantMatch::Outside => None,
        });
        let outputs = judge.projector.read(keys.collect()).await?;
        let inside = items.into_iter().zip(matches).filter(|(_, known)| match known {
            TenantMatch::Inside => true,
            TenantMatch::Outside => false,
            TenantMatch::Lookup(key, output) => {
                outputs.outputs(key).is_some_and(|outputs| tenant.has_output(outputs, *output))
            }
        });
        Ok(inside.map(|(item, _)| item).collect())
    }
}
