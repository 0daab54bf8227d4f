//! A sample of one entity, whose values are improved one after the other.

use std::cmp::Reverse;
use std::sync::Arc;

use afterwrite_model::record::Timestamp;
use afterwrite_model::table::{Entity, Model, Pattern};
use serde_json::Value;

use super::fields::{SampleFields, SampleValue};
use super::lookups::LookedUpItems;
use super::summary::ItemSummary;

/// Passes over all values; mostly the second changes nothing.
const MAX_PASSES: usize = 4;
/// A value of a sample, or of an item that it looks up, which the first number names.
type ValuePlace = (Option<usize>, usize);

/// How good a sample is: it is of the wanted entity, has no problems, contributes to measures, needs no lookups, and its rows have a day.
pub(super) type SampleScore = (bool, Reverse<usize>, usize, Reverse<usize>, Reverse<usize>);

/// A sample of one entity that is being improved.
#[derive(Clone)]
pub(super) struct SampleDraft<'m> {
    pub(super) fields: SampleFields<'m>,
    /// The items that its lookups find.
    pub(super) looked_up: LookedUpItems<'m>,
}

impl<'m> SampleDraft<'m> {
    /// The samples to improve: the likeliest values; then, for each measure, values near the values in its conditions. If a measure counts
    /// only with several such values together, changes of one value at a time do not find them.
    pub(super) fn starts(model: &'m Arc<Model>, entity: &'m Entity, now: Timestamp) -> Vec<Self> {
        let mut fields = SampleFields::new(model, entity, now);
        let looked_up = LookedUpItems::of(&mut fields, now);
        let likeliest = Self { fields, looked_up };
        let mut starts = vec![likeliest.clone()];
        for aggregate in entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index)) {
            for measure in &aggregate.measures {
                let conditions: Vec<&Pattern> =
                    entity.when.iter().chain(&aggregate.when).chain(&measure.when).collect();
                for difference in [0, 1, -1] {
                    let mut start = likeliest.clone();
                    conditions.iter().for_each(|condition| start.fields.approach(condition, difference));
                    starts.push(start);
                }
            }
        }
        starts
    }

    /// Replaces values while that makes the sample better; returns its score.
    pub(super) fn improve(&mut self) -> SampleScore {
        let mut best = self.score();
        for _ in 0..MAX_PASSES {
            let before = best;
            let looked_up = self.looked_up.0.iter().enumerate().flat_map(|(found, looked_up)| {
                (0..looked_up.fields.values.len()).map(move |index| (Some(found), index))
            });
            let places: Vec<_> =
                (0..self.fields.values.len()).map(|index| (None, index)).chain(looked_up).collect();
            for place in places {
                best = self.improve_value(place, best);
            }
            if best == before {
                break;
            }
        }
        best
    }

    fn improve_value(&mut self, place: ValuePlace, mut best: SampleScore) -> SampleScore {
        let Some((candidates, mut chosen)) =
            self.value_at(place).map(|value| (value.candidates.len(), value.chosen))
        else {
            return best;
        };
        for candidate in 0..candidates {
            self.choose(place, candidate);
            let score = self.score();
            if score > best {
                (best, chosen) = (score, candidate);
            }
        }
        self.choose(place, chosen);
        best
    }

    fn value_at(&mut self, (found, index): ValuePlace) -> Option<&mut SampleValue> {
        let values = match found {
            None => &mut self.fields.values,
            Some(found) => &mut self.looked_up.0.get_mut(found)?.fields.values,
        };
        values.get_mut(index)
    }

    fn choose(&mut self, place: ValuePlace, candidate: usize) {
        if let Some(value) = self.value_at(place) {
            value.chosen = candidate;
        }
    }

    fn score(&self) -> SampleScore {
        let SampleFields { model, entity, .. } = &self.fields;
        let item = Value::Object(self.fields.item()).to_string();
        match ItemSummary::of(model, entity.table, &item, &self.looked_up.given(&self.fields)) {
            Some(found) => (
                *found.entity == *entity.name,
                Reverse(found.problems),
                found.measures,
                Reverse(found.lookups),
                Reverse(found.undated_rows),
            ),
            None => (false, Reverse(usize::MAX), 0, Reverse(0), Reverse(0)),
        }
    }
}
