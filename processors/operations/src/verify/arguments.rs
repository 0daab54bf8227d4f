//! The arguments of a verification: what is judged, by sample, tenant and datasets, and what that costs.

use std::time::Duration;

use afterwrite_ledger::StoredEntry;
use afterwrite_ledger::tables::Tables;
use afterwrite_model::Result;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::{KnownLookups as _, RollupTargets};
use afterwrite_model::table::Model;
use serde::{Deserialize, Serialize};

use super::finding::RollupPlace;
use super::sample::KeySample;
use super::three_way::ThreeWayCheck;
use crate::items::IdentifiedItem;
use crate::jobs::JobPlan;
use crate::projector::ItemProjector;
use crate::tenant::TenantFilter;

/// The longest time that a record is in flight, unless the arguments set another.
pub const DEFAULT_TOLERANCE: Duration = Duration::from_secs(300);

/// The arguments of a verification, as its job keeps them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerifyArguments {
    /// The segments of each scan.
    pub segments: u32,
    /// The share of items and rollups that are judged, from 0 to 1.
    pub sample: f64,
    /// Which of them are judged: see [`KeySample`].
    #[serde(default)]
    pub seed: u32,
    /// The tenant, if only one is judged. Of rollups those are judged whose key has the variable.
    #[serde(default)]
    pub only: Option<TenantFilter>,
    /// A counter of the application, to compare with a measure and a recount of the items.
    #[serde(default)]
    pub three_way: Option<ThreeWayCheck>,
    /// The longest time that a record is in flight, in seconds.
    pub tolerance_seconds: u64,
    /// Whether datasets are compared with items.
    #[serde(default)]
    pub datasets: DatasetCoverage,
    /// The bucket of the datasets, if they are compared.
    #[serde(default)]
    pub bucket: Option<String>,
}

impl VerifyArguments {
    /// The items and rollups that are judged.
    #[must_use]
    pub fn key_sample(&self) -> KeySample {
        KeySample { share: self.sample, seed: self.seed }
    }
}

impl Default for VerifyArguments {
    fn default() -> Self {
        Self {
            segments: 8,
            sample: 1.0,
            seed: 0,
            only: None,
            three_way: None,
            tolerance_seconds: DEFAULT_TOLERANCE.as_secs(),
            datasets: DatasetCoverage::NoDatasets,
            bucket: None,
        }
    }
}

/// Whether a verification compares datasets with items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatasetCoverage {
    /// It does.
    Compared,
    /// The model has no datasets.
    #[default]
    NoDatasets,
    /// It does not, because no bucket is configured.
    NoBucket,
    /// It does not, because the arguments exclude them.
    Excluded,
}

impl DatasetCoverage {
    /// The coverage of a verification that compares datasets if it can, unless they are excluded.
    #[must_use]
    pub fn of(model: &Model, is_excluded: bool, has_bucket: bool) -> Self {
        match (model.datasets.is_empty(), is_excluded, has_bucket) {
            (true, ..) => Self::NoDatasets,
            (false, true, _) => Self::Excluded,
            (false, false, false) => Self::NoBucket,
            (false, false, true) => Self::Compared,
        }
    }

    /// The coverage in words.
    #[must_use]
    pub fn described(self) -> &'static str {
        match self {
            Self::Compared => "compared",
            Self::NoDatasets => "not compared: the model has none",
            Self::NoBucket => "not compared: no bucket is set",
            Self::Excluded => "not compared: excluded by an option",
        }
    }
}

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

    /// The items of the tenant. An item whose lookup through an index is not remembered may be the tenant's: it is judged, and undecided.
    pub(super) async fn of_tenant<'p, T: Tables>(
        &self,
        (model, projector): (&Model, &ItemProjector<T>),
        items: Vec<IdentifiedItem<'p>>,
    ) -> Result<Vec<IdentifiedItem<'p>>> {
        let Some(tenant) = &self.only else { return Ok(items) };
        let items = tenant.items(model, items);
        let outputs = projector.read(items.lookups()).await?;
        Ok(items.inside(|key, output| match outputs.outputs(key) {
            Some(outputs) => tenant.has_output(outputs, output),
            None => !outputs.is_nothing(model, key),
        }))
    }
}

/// The plan of a verification: it reads the state table three times, and each item with its entry.
#[must_use]
pub fn plan_verify(state: (u64, u64), sources: (u64, u64), arguments: &VerifyArguments) -> JobPlan {
    let ((state_items, state_bytes), (items, bytes)) = (state, sources);
    let judged = |number: u64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an estimate from a share of at most 1"
        )]
        let judged = (number as f64 * arguments.sample.clamp(0.0, 1.0)).ceil() as u64;
        judged
    };
    let page_units = |bytes: u64| bytes.div_ceil(4096);
    let readings = if arguments.datasets == DatasetCoverage::Compared { 2 } else { 1 };
    let mut notes = vec!["nothing is written, except the state of the job".to_owned()];
    notes.push(format!("datasets: {}", arguments.datasets.described()));
    JobPlan {
        items,
        paced: 3 * state_items + readings * items,
        bytes: 3 * state_bytes + readings * bytes,
        changes: 0,
        read_units: page_units(state_bytes) * 2
            + readings * page_units(bytes).div_ceil(2)
            + judged(items) * 3
            + judged(state_items) * 2,
        write_units: 0,
        storage_bytes: 0,
        put_requests: 0,
        import_bytes: 0,
        searched: None,
        notes,
    }
}
