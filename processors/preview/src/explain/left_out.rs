//! The parts of a model that leave an item out, and why.

use afterwrite_model::projection::LookupOutputs;
use afterwrite_model::record::{AttributeValue, Image};
use afterwrite_model::table::{
    Aggregate, EventTrigger, ForEach, LookupUse, MeasureKind, ModelNotation, Operand, Pattern, Term,
};

use super::consequences::LeftOut;
use super::explainer::{ItemExplainer, operand};
use super::lookups::ExplainedLookups;

/// A condition of a part, in its scope.
struct ConditionScope<'c> {
    part: String,
    notation: ModelNotation<'c>,
    lookups: &'c [LookupUse],
}

impl<L: ExplainedLookups> ItemExplainer<'_, L> {
    /// The aggregates, measures, datasets, cache rules and event rules that leave the item out, and the values that measures miss. `image` has the attributes that are counted, `row_image`
    /// the attributes of rows.
    pub(super) fn left_out(&self, image: &Image<'_>, row_image: &Image<'_>) -> Vec<LeftOut> {
        let entity = self.identity.entity;
        let mut all = Vec::new();
        for aggregate in entity.aggregates.iter().filter_map(|index| self.model.aggregates.get(*index)) {
            all.extend(self.aggregate_left_out(aggregate, image));
        }
        for (_, dataset) in self.model.datasets_of(entity) {
            let lookups = dataset.lookups.as_slice();
            let notation = ModelNotation::of(self.model, dataset.of, lookups);
            let scope = ConditionScope { part: format!("dataset {}", dataset.name), notation, lookups };
            all.extend(self.unmet(&scope, dataset.when.as_ref(), row_image));
        }
        for rule in entity.caches.iter().filter_map(|index| self.model.caches.get(*index)) {
            let notation = ModelNotation::of(self.model, rule.of, &[]);
            let part = format!("cache of {}", entity.name);
            let scope = ConditionScope { part, notation, lookups: &[] };
            all.extend(self.unmet(&scope, rule.when.as_ref(), image));
        }
        for rule in entity.events.iter().filter_map(|index| self.model.events.get(*index)) {
            let Some(items) = rule.items() else { continue };
            match items.on {
                EventTrigger::Enter | EventTrigger::Change => {}
                // An item that does not meet the condition is not left out: it can have left.
                EventTrigger::Leave => continue,
            }
            let notation = ModelNotation::of(self.model, items.of, &[]);
            let scope = ConditionScope { part: format!("event {}", rule.name), notation, lookups: &[] };
            all.extend(self.unmet(&scope, items.when.as_ref(), image));
        }
        all
    }

    fn aggregate_left_out(&self, aggregate: &Aggregate, image: &Image<'_>) -> Vec<LeftOut> {
        let lookups = aggregate.lookups.as_slice();
        let notation = ModelNotation::of(self.model, aggregate.of, lookups);
        let part = format!("aggregate {}", aggregate.name);
        let scope = ConditionScope { part: part.clone(), notation, lookups };
        let mut left_out = self.unmet(&scope, aggregate.when.as_ref(), image);
        if !left_out.is_empty() {
            return left_out;
        }
        if let Some(elements) = &aggregate.for_each
            && self.has_no_element(elements, image)
        {
            let needs = format!("an element of {}", notation.term(&elements.of));
            return vec![LeftOut { part, needs, found: "the item has none".to_owned(), shows_value: false }];
        }
        for measure in &aggregate.measures {
            let part = format!("aggregate {}: measure {}", aggregate.name, measure.name);
            let scope = ConditionScope { part, notation, lookups };
            let unmet = self.unmet(&scope, measure.when.as_ref(), image);
            if unmet.is_empty() && aggregate.for_each.is_none() {
                left_out.extend(self.missing_values(&scope, &measure.kind, image));
            }
            left_out.extend(unmet);
        }
        let image_scope = self.scope_of(image);
        for destination in &aggregate.into {
            let rollup = self.model.rollups.get(destination.rollup).map_or("", |rollup| &*rollup.name);
            let is_absent =
                |term: &&Term| image_scope.read(term).ok().flatten().is_none_or(|value| value.is_null());
            left_out.extend(destination.optional.iter().filter(is_absent).map(|term| LeftOut {
                part: format!("aggregate {} in rollup {rollup}", aggregate.name),
                needs: notation.term(term),
                found: "the item has none".to_owned(),
                shows_value: false,
            }));
        }
        left_out
    }

    /// The values of a measure that the item does not have: it counts the item without them, or adds nothing.
    fn missing_values(
        &self,
        scope: &ConditionScope<'_>,
        kind: &MeasureKind,
        image: &Image<'_>,
    ) -> Vec<LeftOut> {
        let values: &[Term] = match kind {
            MeasureKind::Sum { factors, .. } => factors,
            MeasureKind::Max(of, ..)
            | MeasureKind::Min(of, ..)
            | MeasureKind::Histogram { of, .. }
            | MeasureKind::Percentiles { of, .. } => std::slice::from_ref(of),
            MeasureKind::Count
            | MeasureKind::Latest(_)
            | MeasureKind::Average { .. }
            | MeasureKind::Percentile { .. } => &[],
        };
        let Some(outputs) = self.outputs_of(scope, image) else { return Vec::new() };
        let read_in = self.scope_of(image).with_outputs(scope.lookups, &outputs);
        let is_missing = |value: &&Term| match read_in.read(value) {
            Ok(found) => found.is_none_or(|found| found.is_null()),
            // A value that does not fit is a problem of its own.
            Err(_) => false,
        };
        let missing = values.iter().filter(is_missing).map(|value| {
            let name = scope.notation.term(value);
            LeftOut {
                part: scope.part.clone(),
                found: format!("the item has no {name}"),
                needs: name,
                shows_value: false,
            }
        });
        missing.collect()
    }

    /// The outputs of the lookups; `None` if one is unknown, which is a problem of its own.
    fn outputs_of(&self, scope: &ConditionScope<'_>, image: &Image<'_>) -> Option<Vec<&LookupOutputs>> {
        let bare = self.scope_of(image);
        let outputs = scope.lookups.iter().map(|used| {
            let key = bare.lookup_key(used).ok()?;
            self.lookups.outputs(&key)
        });
        outputs.collect()
    }

    fn has_no_element(&self, elements: &ForEach, image: &Image<'_>) -> bool {
        match self.scope_of(image).read(&elements.of) {
            Ok(None | Some(Operand::Value(AttributeValue::Null))) => true,
            Ok(Some(Operand::Value(AttributeValue::L(list)))) => list.is_empty(),
            Ok(Some(Operand::Value(AttributeValue::M(map)))) => map.is_empty(),
            // A set is never empty; another value is a problem of its own.
            Ok(Some(_)) | Err(_) => false,
        }
    }

    /// The parts of a condition that do not hold.
    fn unmet(&self, scope: &ConditionScope<'_>, when: Option<&Pattern>, image: &Image<'_>) -> Vec<LeftOut> {
        let Some(when) = when else { return Vec::new() };
        let Some(outputs) = self.outputs_of(scope, image) else { return Vec::new() };
        let read_in = self.scope_of(image).with_outputs(scope.lookups, &outputs);
        let mut read = |term: &Term| read_in.read(term).ok().flatten();
        let unmet = when.unmet(&mut read);
        let part = |condition: &Pattern| {
            let found = condition.field().map(|term| {
                let name = scope.notation.term(term);
                match read_in.read(term) {
                    Ok(Some(value)) => (format!("{name} is {}", operand(&value)), true),
                    Ok(None) => (format!("the item has no {name}"), false),
                    Err(_) => (format!("{name} does not fit the model"), false),
                }
            });
            let (found, shows_value) = found.unwrap_or_else(|| ("none of these holds".to_owned(), false));
            LeftOut {
                part: scope.part.clone(),
                needs: scope.notation.condition(condition),
                found,
                shows_value,
            }
        };
        unmet.iter().map(part).collect()
    }
}
