//! One tenant: the items in which a variable has a value.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use afterwrite_ledger::tables::Tables;
use afterwrite_ledger::{RememberedLookups, StoredEntry};
use afterwrite_model::Result;
use afterwrite_model::entity::{ItemCandidates, ItemIdentity, SourceKey};
use afterwrite_model::projection::{ImageScope, KeyValue, LookupKey, LookupOutputs, RollupTargets};
use afterwrite_model::record::{AttributePath, AttributeValue};
use afterwrite_model::table::{Model, Rollup, Term, ValueFormat, ValueName};
use serde::{Deserialize, Serialize};

use crate::items::IdentifiedItem;

/// Selects the items and rollups of one tenant: a variable's value, such as `admin_id=42`. The name is written as in the model:
/// `details.tenant=42`, `'admin.id'=42`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredTenant", into = "StoredTenant")]
pub struct TenantFilter {
    /// The variable: of a key of items or rollups, an attribute, a derived value, or an output of a lookup.
    pub(crate) variable: ValueName,
    /// Its value.
    pub(crate) value: String,
}

/// A tenant, as the arguments of jobs and reports of runs have it.
#[derive(Serialize, Deserialize)]
struct StoredTenant {
    variable: String,
    value: String,
}

impl From<StoredTenant> for TenantFilter {
    fn from(StoredTenant { variable, value }: StoredTenant) -> Self {
        // Earlier versions stored any text: one that models cannot write is the name of a top-level attribute.
        let name = variable.parse::<ValueName>().unwrap_or_else(|_| AttributePath::from(&*variable).into());
        Self { variable: name, value }
    }
}

impl From<TenantFilter> for StoredTenant {
    fn from(TenantFilter { variable, value }: TenantFilter) -> Self {
        Self { variable: variable.to_string(), value }
    }
}

/// Reads `NAME=VALUE`.
impl FromStr for TenantFilter {
    type Err = String;

    fn from_str(written: &str) -> std::result::Result<Self, String> {
        let (name, value) = ValueName::split_value(written)
            .ok_or("write a name, `=` and a value; a name that begins with a quote ends with one")?;
        let variable = name.parse::<ValueName>();
        let variable =
            variable.map_err(|problem| format!("`{name}` is not the name of a value; {problem}"))?;
        Ok(Self { variable, value: value.to_owned() })
    }
}

impl fmt::Display for TenantFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.variable, self.value)
    }
}

/// An output of a lookup.
type OutputPlace = (LookupKey<'static>, usize);

/// Whether an item belongs to a tenant.
#[derive(Clone, Debug, PartialEq)]
enum TenantMatch {
    /// It does.
    Inside,
    /// It does not, unless one of these outputs has the value.
    Outputs(Vec<OutputPlace>),
}

/// Items of which lookups decide whether they are the tenant's.
#[derive(Debug)]
pub(crate) struct TenantItems<'p> {
    items: Vec<(IdentifiedItem<'p>, TenantMatch)>,
}

impl<'p> TenantItems<'p> {
    /// The lookups that decide.
    pub(crate) fn lookups(&self) -> Vec<LookupKey<'static>> {
        let outputs = self.items.iter().flat_map(|(_, known)| match known {
            TenantMatch::Inside => &[],
            TenantMatch::Outputs(outputs) => outputs.as_slice(),
        });
        let mut keys: Vec<_> = outputs.map(|(key, _)| key.clone()).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// The items of the tenant by these outputs, which align with [`Self::lookups`]. `unknown` says whether an output that is not known may
    /// have the tenant's value.
    pub(crate) fn inside_by(
        self,
        tenant: &TenantFilter,
        (keys, found): (&[LookupKey<'static>], &[Option<Arc<LookupOutputs>>]),
        unknown: bool,
    ) -> Vec<IdentifiedItem<'p>> {
        self.inside(|key, output| {
            let place = keys.binary_search(key).ok();
            let outputs = place.and_then(|place| found.get(place)?.as_ref());
            outputs.map_or(unknown, |outputs| tenant.has_output(outputs, output))
        })
    }

    /// The items of the tenant: an output of a lookup decides by `may_have_value`.
    pub(crate) fn inside(
        self,
        may_have_value: impl Fn(&LookupKey<'static>, usize) -> bool,
    ) -> Vec<IdentifiedItem<'p>> {
        let inside = self.items.into_iter().filter(|(_, known)| match known {
            TenantMatch::Inside => true,
            TenantMatch::Outputs(outputs) => outputs.iter().any(|(key, output)| may_have_value(key, *output)),
        });
        inside.map(|(item, _)| item).collect()
    }
}

/// The items of the tenant; all items if no tenant is selected. An item whose lookup is not remembered may be the tenant's.
pub(crate) async fn items_of_tenant<'p, T: Tables>(
    only: Option<&TenantFilter>,
    model: &Model,
    remembered: Option<&RememberedLookups<T>>,
    items: Vec<IdentifiedItem<'p>>,
) -> Result<Vec<IdentifiedItem<'p>>> {
    let Some(tenant) = only else { return Ok(items) };
    let items = tenant.items(model, items);
    let keys = items.lookups();
    let found = match remembered {
        Some(remembered) if !keys.is_empty() => remembered.read(&keys).await?,
        Some(_) | None => Vec::new(),
    };
    Ok(items.inside_by(tenant, (&keys, &found), true))
}

impl TenantFilter {
    /// Items, with the lookups that decide about them.
    pub(crate) fn items<'p>(&self, model: &Model, items: Vec<IdentifiedItem<'p>>) -> TenantItems<'p> {
        let matched = items.into_iter().map(|item| {
            let known = self.matches(model, &item);
            (item, known)
        });
        TenantItems { items: matched.collect() }
    }

    /// Whether an item belongs to the tenant: one of its own values is the tenant's, or the key of a rollup that it may count into or shows.
    fn matches(&self, model: &Model, item: &IdentifiedItem<'_>) -> TenantMatch {
        // The ledger may still count an item that is of no entity any more: then its key decides.
        let identity = item.identity(model).or_else(|| item.candidates.iter().next().cloned());
        let Some(identity) = identity else { return TenantMatch::Outputs(Vec::new()) };
        let image = item.image(model);
        let scope = ImageScope::of(model, &identity, &image);
        let attribute = self.variable.attribute().and_then(|path| path.read(item.item));
        if attribute.is_some_and(|value| self.has_value(value)) || self.is_own_value(&identity, &scope) {
            return TenantMatch::Inside;
        }
        let mut outputs = self.outputs(model, &identity, &scope);
        for value in scope.rollup_key_values(self.variable.as_str()) {
            match value {
                KeyValue::Text(text) if text == self.value => return TenantMatch::Inside,
                KeyValue::Text(_) => {}
                KeyValue::Output { key, output, format: ValueFormat::Plain } => outputs.push((key, output)),
                // The time that is written of an output is not known here.
                KeyValue::Output { format: ValueFormat::Time(_), .. } => return TenantMatch::Inside,
            }
        }
        TenantMatch::Outputs(outputs)
    }

    /// Whether a variable of an item's key, or a derived value, is the tenant's.
    fn is_own_value(&self, identity: &ItemIdentity<'_, '_>, scope: &ImageScope<'_, '_>) -> bool {
        if self.is_key_value(identity) {
            return true;
        }
        let mut derivations = identity.entity.derivations.iter();
        let derived = derivations.position(|derived| *derived.name == *self.variable.as_str());
        derived.is_some_and(|index| {
            let mut text = String::new();
            let is_text = scope.render_value(&Term::Derived(index), &ValueFormat::Plain, &mut text).is_ok();
            is_text && text == self.value
        })
    }

    /// The outputs of lookups that have the variable's name.
    fn outputs(
        &self,
        model: &Model,
        identity: &ItemIdentity<'_, '_>,
        scope: &ImageScope<'_, '_>,
    ) -> Vec<OutputPlace> {
        let aggregates = identity.entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index));
        let outputs = aggregates.flat_map(|aggregate| &aggregate.lookups).filter_map(|used| {
            let outputs = &model.lookups.get(used.lookup)?.outputs;
            let output = outputs.iter().position(|name| **name == *self.variable.as_str())?;
            Some((scope.lookup_key(used).ok()?.into_owned(), output))
        });
        outputs.collect()
    }

    /// Whether an entry is the tenant's, whose item may not exist: its key shows it, or it counts into a rollup of the tenant.
    pub(crate) fn has_entry(
        &self,
        model: &Model,
        source: &SourceKey<'_>,
        (entry, targets): (Option<&StoredEntry>, &RollupTargets),
    ) -> bool {
        self.matches_key(&source.candidates(model))
            || entry.is_some_and(|entry| self.owns_counts_of(model, entry, targets))
    }

    fn matches_key(&self, candidates: &ItemCandidates<'_, '_>) -> bool {
        candidates.iter().any(|identity| self.is_key_value(identity))
    }

    /// Whether a variable of an item's key is the tenant's.
    fn is_key_value(&self, identity: &ItemIdentity<'_, '_>) -> bool {
        let mut variables = identity.entity.variables.iter().zip(&identity.variables);
        variables.any(|(name, value)| **name == *self.variable.as_str() && **value == *self.value)
    }

    fn owns_counts_of(&self, model: &Model, entry: &StoredEntry, targets: &RollupTargets) -> bool {
        let counted = entry.contributions.by_aggregate.iter().flat_map(|contribution| &contribution.targets);
        counted.map(|id| targets.get(*id)).any(|target| {
            let partition = target.partition_key();
            model.rollups.iter().any(|rollup| self.owns_rollup(rollup, &partition, &target.sort))
        })
    }

    /// Whether the outputs of a lookup have the tenant's value.
    pub(crate) fn has_output(&self, outputs: &LookupOutputs, output: usize) -> bool {
        outputs.get(output).is_some_and(|value| self.has_value(value))
    }

    /// Whether a rollup that is stored with this key may be the tenant's alone: its key may have the variable with this value.
    pub(crate) fn owns_rollup(&self, rollup: &Rollup, partition: &str, sort: &str) -> bool {
        rollup.may_have((self.variable.as_str(), &self.value), (partition, sort))
    }

    fn has_value(&self, value: &AttributeValue<'_>) -> bool {
        value.as_text() == Some(&self.value)
            || value.as_number().is_some_and(|number| number.to_string() == self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_stored_with_the_name_as_models_have_it() {
        for (written, stored) in [
            ("admin_id=42", "admin_id"),
            ("'admin_id'=42", "admin_id"),
            ("details.tenant=42", "details.tenant"),
            ("'the=tenant'=42", "the=tenant"),
            ("'am.ount'=42", "'am.ount'"),
        ] {
            let tenant: TenantFilter = written.parse().unwrap();
            let json = serde_json::to_value(&tenant).unwrap();
            assert_eq!(json, serde_json::json!({ "variable": stored, "value": "42" }), "{written}");
            assert_eq!(serde_json::from_value::<TenantFilter>(json).unwrap(), tenant, "{written}");
        }
        for wrong in ["tenant", "'a=b", "a..b=1", "=1"] {
            assert!(wrong.parse::<TenantFilter>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_stored_text_that_models_cannot_write_is_the_name_of_an_attribute() {
        let stored = serde_json::json!({ "variable": "price[0]", "value": "42" });
        let tenant: TenantFilter = serde_json::from_value(stored).unwrap();
        assert_eq!(tenant.to_string(), "'price[0]'=42");
    }
}
