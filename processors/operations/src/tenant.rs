//! One tenant: the items in which a variable has a value.

use afterwrite_ledger::RememberedLookups;
use afterwrite_ledger::tables::Tables;
use afterwrite_model::Result;
use afterwrite_model::entity::{ItemCandidates, ItemIdentity};
use afterwrite_model::projection::{ImageScope, LookupKey, LookupOutputs};
use afterwrite_model::record::{AttributeValue, Image};
use afterwrite_model::table::{Model, Rollup};
use serde::{Deserialize, Serialize};

use crate::items::IdentifiedItem;

/// Selects the items and rollups of one tenant: a variable's value, such as `admin_id=42`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantFilter {
    /// The variable: of a key, an attribute, or an output of a lookup.
    pub variable: String,
    /// Its value.
    pub value: String,
}

/// Whether an item belongs to a tenant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TenantMatch {
    /// It does.
    Inside,
    /// It does not, or nothing of it has the variable.
    Outside,
    /// The output of this lookup decides.
    Lookup(LookupKey<'static>, usize),
}

/// The items of the tenant; all items if no tenant is selected. An item whose lookup is not remembered belongs to no tenant.
pub(crate) async fn items_of_tenant<'p, T: Tables>(
    only: Option<&TenantFilter>,
    model: &Model,
    remembered: Option<&RememberedLookups<T>>,
    items: Vec<IdentifiedItem<'p>>,
) -> Result<Vec<IdentifiedItem<'p>>> {
    let Some(tenant) = only else { return Ok(items) };
    let (mut inside, mut open) = (Vec::new(), Vec::new());
    for item in items {
        match tenant.matches(model, &item) {
            TenantMatch::Inside => inside.push(item),
            TenantMatch::Outside => {}
            TenantMatch::Lookup(key, output) => open.push((item, key, output)),
        }
    }
    let keys: Vec<_> = open.iter().map(|(_, key, _)| key.clone()).collect();
    let found = match remembered {
        Some(remembered) if !keys.is_empty() => remembered.read(&keys).await?,
        Some(_) | None => Vec::new(),
    };
    for ((item, _, output), outputs) in open.into_iter().zip(found) {
        if outputs.is_some_and(|outputs| tenant.has_output(&outputs, output)) {
            inside.push(item);
        }
    }
    Ok(inside)
}

impl TenantFilter {
    /// Whether an item belongs to the tenant: by its key's variables, else by an attribute, else by a lookup.
    pub(crate) fn matches(&self, model: &Model, item: &IdentifiedItem<'_>) -> TenantMatch {
        // The ledger may still count an item that is of no entity any more: then its key decides.
        let identity = item.identity(model).or_else(|| item.candidates.iter().next().cloned());
        let Some(identity) = identity else { return TenantMatch::Outside };
        let variable = identity.entity.variables.iter().position(|name| **name == *self.variable);
        if let Some(value) = variable.and_then(|index| identity.variables.get(index)) {
            return Self::decided(**value == *self.value);
        }
        if let Some(value) = item.item.get(self.variable.as_str()) {
            return Self::decided(self.has_value(value));
        }
        let image = item.image(model);
        self.by_lookup(model, &identity, &image).unwrap_or(TenantMatch::Outside)
    }

    /// Whether a key alone shows that an item is the tenant's.
    pub(crate) fn matches_key(&self, candidates: &ItemCandidates<'_, '_>) -> bool {
        let mut variables =
            candidates.iter().flat_map(|identity| identity.entity.variables.iter().zip(&identity.variables));
        variables.any(|(name, value)| **name == *self.variable && **value == *self.value)
    }

    /// Whether the outputs of the lookup that decides have the tenant's value.
    pub(crate) fn has_output(&self, outputs: &LookupOutputs, output: usize) -> bool {
        outputs.get(output).is_some_and(|value| self.has_value(value))
    }

    /// Whether a rollup that is stored with this key is the tenant's alone: its key has the variable with this value.
    pub(crate) fn owns_rollup(&self, rollup: &Rollup, partition: &str, sort: &str) -> bool {
        let values = rollup.values(rollup.unsharded(partition), sort);
        let mut variables = rollup.variables.iter().zip(values.into_iter().flatten());
        variables.any(|(name, value)| **name == *self.variable && *value == *self.value)
    }

    fn by_lookup(
        &self,
        model: &Model,
        identity: &ItemIdentity<'_, '_>,
        image: &Image<'static>,
    ) -> Option<TenantMatch> {
        let scope = ImageScope::of(model, identity, image);
        let aggregates = identity.entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index));
        aggregates.flat_map(|aggregate| &aggregate.lookups).find_map(|used| {
            let outputs = &model.lookups.get(used.lookup)?.outputs;
            let output = outputs.iter().position(|name| **name == *self.variable)?;
            Some(TenantMatch::Lookup(scope.lookup_key(used).ok()?.into_owned(), output))
        })
    }

    fn has_value(&self, value: &AttributeValue<'_>) -> bool {
        value.as_text() == Some(&self.value)
            || value.as_number().is_some_and(|number| number.to_string() == self.value)
    }

    fn decided(is_inside: bool) -> TenantMatch {
        if is_inside { TenantMatch::Inside } else { TenantMatch::Outside }
    }
}
