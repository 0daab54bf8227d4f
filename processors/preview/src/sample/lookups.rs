//! The items that a sample looks up.

use std::collections::BTreeMap;

use afterwrite_model::record::Timestamp;
use afterwrite_model::table::{Aggregate, BoundPiece, LookupUse, Term};
use serde_json::Value;

use super::fields::SampleFields;
use super::summary::ItemSummary;
use super::values::TIME_ZONE;

/// The items that the aggregates of a sample look up, one for each lookup.
#[derive(Clone)]
pub(super) struct LookedUpItems<'m>(pub(super) Vec<LookedUpItem<'m>>);

/// A sample of an item that a lookup of another sample finds.
#[derive(Clone)]
pub(super) struct LookedUpItem<'m> {
    /// The lookup in the scope of the sample that uses it.
    needed: &'m LookupUse,
    /// The lookup in the scope of the looked-up item.
    offer: &'m LookupUse,
    pub(super) fields: SampleFields<'m>,
}

impl<'m> LookedUpItems<'m> {
    /// A sample of each item that the aggregates of the sample's entity look up. Where a key is in the zone of a value, that value is a time
    /// zone, also if it is the sample's own.
    pub(super) fn of(sample: &mut SampleFields<'m>, now: Timestamp) -> Self {
        let (model, entity) = (sample.model, sample.entity);
        let mut items = Self(Vec::new());
        for aggregate in entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index)) {
            for needed in &aggregate.lookups {
                items.add(sample, needed, now);
            }
            for zone in zones(aggregate) {
                match zone.output_lookup().and_then(|place| aggregate.lookups.get(place)) {
                    None => sample.prefer(zone, TIME_ZONE),
                    Some(used) => items.prefer_zone(zone, used.lookup),
                }
            }
        }
        items
    }

    /// Adds a sample of the item that a lookup finds, unless it is known.
    fn add(&mut self, sample: &SampleFields<'m>, needed: &'m LookupUse, now: Timestamp) {
        if self.0.iter().any(|known| known.needed.lookup == needed.lookup) {
            return;
        }
        let of = sample.model.lookups.get(needed.lookup).map(|lookup| lookup.of);
        let Some(entity) = of.and_then(|of| sample.model.entities.get(of)) else { return };
        let Some(offer) = entity.offers.iter().find(|offer| offer.lookup == needed.lookup) else { return };
        self.0.push(LookedUpItem { needed, offer, fields: SampleFields::new(sample.model, entity, now) });
    }

    /// Makes the value that gives an output a time zone.
    fn prefer_zone(&mut self, output: &Term, lookup: usize) {
        let Some(item) = self.0.iter_mut().find(|item| item.needed.lookup == lookup) else { return };
        if let Some(given) = output.output().and_then(|output| item.offer.outputs.get(output)) {
            item.fields.prefer(given, TIME_ZONE);
        }
    }

    /// The items with the keys by which the sample finds them.
    pub(super) fn found_by(&self, sample: &SampleFields<'_>) -> Vec<SampleFields<'m>> {
        let found = self.0.iter().map(|LookedUpItem { needed, offer, fields }| {
            let mut fields = fields.clone();
            for (wanted, given) in needed.inputs.iter().zip(&offer.inputs) {
                if let Some(text) = sample.text_of(wanted) {
                    fields.set(given, &text);
                }
            }
            fields
        });
        found.collect()
    }

    /// The outputs that the items give to the sample, by name.
    pub(super) fn given(&self, sample: &SampleFields<'_>) -> BTreeMap<String, String> {
        let found = self.found_by(sample);
        let given = found.iter().filter_map(|found| {
            let item = Value::Object(found.item()).to_string();
            Some(ItemSummary::of(found.model, found.entity.table, &item, &BTreeMap::new())?.gives)
        });
        given.flatten().collect()
    }
}

/// The values that state the zones of an aggregate's keys.
fn zones(aggregate: &Aggregate) -> impl Iterator<Item = &Term> {
    let keys = aggregate.into.iter().flat_map(|into| [&into.partition, &into.sort]);
    let formats = keys.flat_map(|key| &key.pieces).filter_map(|piece| match piece {
        BoundPiece::Literal(_) => None,
        BoundPiece::Value(_, format) => format.time(),
    });
    formats.filter_map(|format| format.zone.of_item()?.term.as_ref())
}
