//! `C(item)` by what is remembered now, and its comparison with a ledger entry. Nothing is written and no index is queried.
//!
//! A lookup by primary key that is not remembered is searched as the ledger searches it, in the looked-up item: it finds nothing only if that
//! item does not exist or lacks an output.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_ledger::tables::Tables;
use afterwrite_ledger::{RememberedLookup, RememberedLookups, StateItems, StoredEntry};
use afterwrite_model::effect::ItemKey;
use afterwrite_model::projection::{
    Contribution, ImageProjection, ItemContributions, KnownLookups, LookupKey, LookupOutputs, RollupTargets,
    ShardAssignment, contributions, looked_up_item, lookup_keys, shown_outputs,
};
use afterwrite_model::record::Image;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, Result};
use hashbrown::HashMap;

use crate::DeploymentContext;
use crate::items::IdentifiedItem;

/// Projects items with the lookups that the state table remembers.
#[derive(Debug)]
pub struct ItemProjector<T> {
    model: Arc<Model>,
    state: StateItems,
    remembered: RememberedLookups<T>,
    tables: T,
}

/// The lookups of some items, as they are remembered, or would be if the items were counted now.
#[derive(Debug, Default)]
pub struct RememberedOutputs {
    known: HashMap<LookupKey<'static>, Arc<LookupOutputs>>,
    /// Lookups that an earlier model has remembered without an output of this model, each with the error that states it.
    lacking: HashMap<LookupKey<'static>, Error>,
}

impl RememberedOutputs {
    /// Why an output that one of these lookups needs is not known although the lookup is remembered.
    pub(crate) fn lacking_output(&self, keys: &[LookupKey<'_>]) -> Option<&Error> {
        keys.iter().find_map(|key| self.lacking.get(&key.clone().into_owned()))
    }

    /// Whether a lookup without outputs finds nothing: it reads the looked-up item, which does not exist or lacks an output.
    pub(crate) fn is_nothing(&self, model: &Model, key: &LookupKey<'static>) -> bool {
        !self.lacking.contains_key(key) && looked_up_item(model, key).is_some()
    }

    /// The lookups that are remembered without an output of the model, each with the error that states it.
    pub(crate) fn lacking(self) -> HashMap<LookupKey<'static>, Error> {
        self.lacking
    }
}

impl KnownLookups for RememberedOutputs {
    fn outputs(&self, key: &LookupKey<'_>) -> Option<&LookupOutputs> {
        let key = key.clone().into_owned();
        self.known.get(&key).map(AsRef::as_ref)
    }

    /// A lookup by primary key that is not remembered has been searched.
    fn is_absent(&self, key: &LookupKey<'_>) -> bool {
        self.outputs(key).is_none()
    }

    fn failure(&self, key: &LookupKey<'_>) -> Option<Error> {
        self.lacking.get(&key.clone().into_owned()).map(Error::restated)
    }
}

impl<T: Tables + Clone> ItemProjector<T> {
    /// A projector of a deployment's items.
    #[must_use]
    pub fn new(context: &DeploymentContext<T, impl Clone>) -> Self {
        Self {
            model: Arc::clone(&context.model),
            state: context.state_items(),
            remembered: context.remembered(),
            tables: context.tables.clone(),
        }
    }
}

impl<T: Tables> ItemProjector<T> {
    /// The remembered lookups that the contributions of these items depend on.
    pub(crate) async fn remembered(
        &self,
        items: &[(&IdentifiedItem<'_>, Image<'static>)],
    ) -> Result<RememberedOutputs> {
        let mut keys: Vec<LookupKey<'static>> = Vec::new();
        for (item, image) in items {
            // An item whose keys cannot be made cannot be counted either; its projection reports that.
            let needed = lookup_keys(&self.model, &item.candidates, image).unwrap_or_default();
            keys.extend(needed.into_iter().map(LookupKey::into_owned));
        }
        self.read(keys).await
    }

    /// The outputs of these lookups.
    ///
    /// # Errors
    /// As [`Tables::read`].
    pub async fn read(&self, mut keys: Vec<LookupKey<'static>>) -> Result<RememberedOutputs> {
        keys.sort();
        keys.dedup();
        let remembered = self.remembered.read_each(&keys).await?;
        let mut outputs = RememberedOutputs::default();
        let mut unremembered = Vec::new();
        for (key, remembered) in keys.into_iter().zip(remembered) {
            match remembered {
                RememberedLookup::Nothing => unremembered.push(key),
                RememberedLookup::Lacking(lacking) => {
                    let error = self.remembered.lacking(&key, &lacking);
                    outputs.lacking.insert(key, error);
                }
                RememberedLookup::Outputs(found) => {
                    outputs.known.insert(key, found);
                }
            }
        }
        outputs.known.extend(self.search(unremembered).await?);
        Ok(outputs)
    }

    /// The outputs of the lookups by primary key whose items exist and have the outputs. Counting an item would remember them.
    async fn search(
        &self,
        keys: Vec<LookupKey<'static>>,
    ) -> Result<Vec<(LookupKey<'static>, Arc<LookupOutputs>)>> {
        let (mut searched, mut item_keys) = (Vec::new(), Vec::<ItemKey>::new());
        for key in keys {
            let source = looked_up_item(&self.model, &key);
            if let Some(item_key) = source.and_then(|source| self.state.source_item_key(&source)) {
                searched.push(key);
                item_keys.push(item_key);
            }
        }
        if searched.is_empty() {
            return Ok(Vec::new());
        }
        let items = self.tables.read(&item_keys).await?.items;
        let found = searched.into_iter().zip(items).filter_map(|(key, item)| {
            let outputs: Arc<LookupOutputs> = shown_outputs(&self.model, &key, &item?)?.into();
            Some((key, outputs))
        });
        Ok(found.collect())
    }

    /// `C(item)`; the entry decides about the shards.
    ///
    /// # Errors
    /// [`Record`](afterwrite_model::ErrorKind::Record) if the item cannot be counted, also because a rollup's key would be too long; [`Unavailable`](afterwrite_model::ErrorKind::Unavailable)
    /// if a lookup is not remembered; [`State`](afterwrite_model::ErrorKind::State) if it is remembered without an output of the model.
    pub(crate) fn project(
        &self,
        item: &IdentifiedItem<'_>,
        image: &Image<'static>,
        entry: Option<&StoredEntry>,
        outputs: &RememberedOutputs,
        targets: &mut RollupTargets,
    ) -> Result<ImageProjection> {
        let current = entry.map_or(const { &ItemContributions::NOTHING }, |entry| &entry.contributions);
        let sharding = ShardAssignment { source: item.source, current };
        let projected =
            contributions(&self.model, &item.candidates, (image, &[]), outputs, sharding, targets)?;
        projected.check_keys(targets).map(|()| projected)
    }
}

/// Whether two states of an item contribute the same to the aggregates of the model.
pub(crate) fn contribute_equally(model: &Model, one: &ItemContributions, other: &ItemContributions) -> bool {
    let known = |contribution: &&Contribution| has_aggregate(model, contribution);
    let mut left: Vec<&Contribution> = one.by_aggregate.iter().filter(known).collect();
    let mut right: Vec<&Contribution> = other.by_aggregate.iter().filter(known).collect();
    // An aggregate that counts elements has a contribution for each rollup.
    left.sort_by_key(|contribution| (&contribution.aggregate, &contribution.targets));
    right.sort_by_key(|contribution| (&contribution.aggregate, &contribution.targets));
    left.len() == right.len() && left.iter().zip(&right).all(|(one, other)| are_equal(one, other))
}

/// Whether the model has the aggregate of a contribution.
pub(crate) fn has_aggregate(model: &Model, contribution: &Contribution) -> bool {
    model.aggregates.iter().any(|aggregate| aggregate.name == contribution.aggregate)
}

fn are_equal(one: &Contribution, other: &Contribution) -> bool {
    let sorted = |contribution: &Contribution| {
        let mut targets = contribution.targets.to_vec();
        targets.sort_unstable();
        let measures = contribution.measures.iter().filter(|(_, number)| !number.is_zero());
        (targets, measures.cloned().collect::<BTreeMap<_, _>>())
    };
    one.aggregate == other.aggregate && sorted(one) == sorted(other)
}
