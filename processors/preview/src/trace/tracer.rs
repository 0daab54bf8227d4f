//! Traces records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use afterwrite_ledger::state::settled_name;
use afterwrite_ledger::tables::Tables;
use afterwrite_model::entity::{ItemCandidates, ItemIdentity, SourceKey};
use afterwrite_model::projection::{
    Event, EventChange, ItemContributions, LookupKey, RecordImages, RollupTargets, SecretAttributes,
    ShardAssignment, StaleCaches, contributions, datasets_of, decode_old_image, events_of, lookup_keys, rows,
};
use afterwrite_model::record::{AttributeValue, ChangeRecord, Decimal, Image, Operation, RecordDecoder};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::lookups::{RecordLookups, TraceLookups};
use super::summary::{RecordTrace, TracedEvent, TracedRollup, TracedRow};
use crate::recording::RecordCutter;

/// Traces the records of a model's tables.
#[derive(Debug)]
pub struct RecordTracer<T> {
    model: Arc<Model>,
    /// The deployed name of each of the model's tables.
    names: Vec<Arc<str>>,
    lookups: TraceLookups<T>,
    /// Removes the secrets from the shown items.
    cutter: RecordCutter,
    /// Removes the secrets from records that are events.
    secrets: SecretAttributes,
    shows_items: bool,
}

/// A record whose item is known.
struct IdentifiedChange<'c> {
    source: &'c SourceKey<'c>,
    candidates: &'c ItemCandidates<'c, 'c>,
    record: &'c ChangeRecord<'c>,
    old: Option<Image<'c>>,
}

/// A value for `max` or `min`: the rollup's key, the measure, and the value.
type TracedExtreme = ((String, String), String, String);

/// The differences of measures, by rollup.
type MeasureDifferences = BTreeMap<(String, String), BTreeMap<String, Decimal>>;

#[derive(Deserialize)]
struct ChangeJson<'j> {
    #[serde(borrow)]
    dynamodb: &'j RawValue,
}

impl<T: Tables> RecordTracer<T> {
    /// A tracer; `names` has the deployed name of each of [`Model::tables`].
    #[must_use]
    pub fn new(model: Arc<Model>, names: Vec<Arc<str>>, lookups: TraceLookups<T>) -> Self {
        let cutter = RecordCutter::new(Arc::clone(&model), names.clone());
        let secrets = SecretAttributes::new(&model);
        Self { model, names, lookups, cutter, secrets, shows_items: false }
    }

    /// Sets whether traces have the contents of items, without secrets.
    #[must_use]
    pub fn showing_items(mut self, shows_items: bool) -> Self {
        self.shows_items = shows_items;
        self
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Traces one record, as Lambda delivers it. A malformed record has a trace, too: with its problem.
    ///
    /// # Errors
    /// As [`afterwrite_ledger::RememberedLookups::read`].
    pub async fn trace(&self, json: &str) -> Result<RecordTrace> {
        let mut trace = match RecordDecoder::new(&self.model.attributes).record(json.as_bytes()) {
            Ok(record) => self.trace_record(&record, json).await?,
            Err(bad) => RecordTrace {
                table: bad.table.as_deref().unwrap_or_default().to_owned(),
                problem: Some(bad.error.to_string()),
                ..RecordTrace::default()
            },
        };
        if self.shows_items {
            // A record that cannot be searched for secrets is not shown.
            let line = self.cutter.line(json).unwrap_or_default();
            let change: Option<ChangeJson<'_>> = serde_json::from_str(&line).ok();
            trace.change = change.map(|change| change.dynamodb.to_owned());
        }
        Ok(trace)
    }

    async fn trace_record(&self, record: &ChangeRecord<'_>, json: &str) -> Result<RecordTrace> {
        let mut trace = RecordTrace {
            at: record.created_at.map(|time| time.to_string()),
            operation: operation_name(record, record.expired).to_owned(),
            table: record.table.to_string(),
            ..RecordTrace::default()
        };
        let Some(table) = self.model.table_deployed_as(&self.names, &record.table) else {
            let hint = self.model.deployed_name_hint(&record.table);
            trace.problem = Some(format!("the table is not in the model. {hint}"));
            return Ok(trace);
        };
        let Some(source) = SourceKey::of_keys(&self.model, table, &record.keys) else {
            trace.problem = Some("the key is not the key of the table in the model".to_owned());
            return Ok(trace);
        };
        trace.key = std::iter::once(&source.partition).chain(&source.sort).map(ToString::to_string).collect();
        let candidates = source.candidates(&self.model);
        if candidates.is_empty() {
            trace.entity = source.is_heartbeat().then(|| "(heartbeat)".to_owned());
            self.add_events(record, &source, json, &mut trace);
            return Ok(trace);
        }
        trace.entity = entities_of(&candidates, record);
        trace.operation = operation_name(record, candidates.is_expiry(record)).to_owned();
        let old = match record.old.decode(&self.model.attributes) {
            Ok(old) => old,
            Err(error) => {
                trace.problem = Some(error.to_string());
                return Ok(trace);
            }
        };
        let change = IdentifiedChange { source: &source, candidates: &candidates, record, old };
        let lookups = self.lookups.read(self.lookup_keys(&change)).await?;
        if let Err(error) = self.add_consequences(&change, &lookups, &mut trace) {
            self.add_error(&error, &change, &lookups, &mut trace);
        }
        self.add_events(record, &source, json, &mut trace);
        trace.rows = self.rows(table, json);
        Ok(trace)
    }

    /// Adds why nothing is counted. An error may come from the name of an output in place of its value, such as a time zone: then nothing is
    /// known.
    fn add_error(
        &self,
        error: &Error,
        change: &IdentifiedChange<'_>,
        lookups: &RecordLookups<'_>,
        trace: &mut RecordTrace,
    ) {
        let unread = lookups.unread(&self.model);
        if !unread.is_empty() {
            let names = unread.into_iter().collect::<Vec<_>>().join("`, `");
            trace.unknown = Some(format!(
                "the outputs of `{names}` are not read here. AFTERWRITE_STATE_TABLE names the table that remembers them"
            ));
        } else if error.kind() == ErrorKind::Unavailable {
            trace.waits = Some(error.to_string());
        } else if self.is_sound_after(change, lookups) {
            trace.problem_before = Some(error.without_hint().to_string());
        } else {
            trace.problem = Some(error.to_string());
        }
    }

    /// Whether nothing is wrong with the item after the change.
    fn is_sound_after(&self, change: &IdentifiedChange<'_>, lookups: &RecordLookups<'_>) -> bool {
        let Some(new) = &change.record.new else { return true };
        let measured =
            self.add_measures(change, new, lookups, Decimal::clone, &mut MeasureDifferences::new());
        measured.is_ok()
    }

    /// The events of one record, as Lambda delivers it; none of a malformed record, or of a table that the model does not have.
    ///
    /// # Errors
    /// As [`events_of`].
    pub fn events(&self, json: &str) -> Result<Vec<Event>> {
        let Ok(record) = RecordDecoder::new(&self.model.attributes).record(json.as_bytes()) else {
            return Ok(Vec::new());
        };
        let table = self.model.table_deployed_as(&self.names, &record.table);
        let source = table.and_then(|table| SourceKey::of_keys(&self.model, table, &record.keys));
        source.map_or_else(|| Ok(Vec::new()), |source| self.events_of(&record, &source, json))
    }

    fn add_events(
        &self,
        record: &ChangeRecord<'_>,
        source: &SourceKey<'_>,
        json: &str,
        trace: &mut RecordTrace,
    ) {
        match self.events_of(record, source, json) {
            Ok(events) => trace.events = events.iter().map(TracedEvent::of).collect(),
            Err(error) => trace.problem = trace.problem.take().or_else(|| Some(error.to_string())),
        }
    }

    fn events_of(&self, record: &ChangeRecord<'_>, source: &SourceKey<'_>, json: &str) -> Result<Vec<Event>> {
        let candidates = Some(source.candidates(&self.model)).filter(|known| !known.is_empty());
        let change = EventChange { source, candidates: candidates.as_ref(), record, json };
        events_of(&self.model, &change, &self.secrets)
    }

    /// The lookups that the images need. An image that lacks an input needs none: its problem is reported later.
    fn lookup_keys(&self, change: &IdentifiedChange<'_>) -> Vec<LookupKey<'static>> {
        let keys =
            change.images().filter_map(|image| lookup_keys(&self.model, change.candidates, image).ok());
        let keys: BTreeSet<LookupKey<'static>> = keys.flatten().map(LookupKey::into_owned).collect();
        keys.into_iter().collect()
    }

    fn add_consequences(
        &self,
        change: &IdentifiedChange<'_>,
        lookups: &RecordLookups<'_>,
        trace: &mut RecordTrace,
    ) -> Result<()> {
        let mut stale = StaleCaches::default();
        let images = (change.old.as_ref(), change.record.new.as_ref());
        stale.add(change.candidates, 0, images);
        trace.keys = stale.keys().map(|key| key.key).collect();
        trace.paths = stale.paths().keys().cloned().collect();
        let (mut differences, mut extremes) = (MeasureDifferences::new(), Vec::new());
        let is_settled = change.is_settled();
        if let Some(old) = images.0 {
            let signed = if is_settled { Decimal::clone } else { Decimal::negated };
            self.add_measures(change, old, lookups, signed, &mut differences)?;
        }
        if let Some(new) = images.1 {
            extremes = self.add_measures(change, new, lookups, Decimal::clone, &mut differences)?;
        }
        let mut rollups: BTreeMap<(String, String), BTreeMap<String, String>> = BTreeMap::new();
        for (key, measures) in differences {
            let measures = measures.into_iter().filter(|(_, number)| !number.is_zero());
            let signed = measures.map(|(name, number)| {
                let sign = if number.sign().is_gt() { "+" } else { "" };
                let name = if is_settled { settled_name(&name) } else { name };
                (name, format!("{sign}{number}"))
            });
            rollups.entry(key).or_default().extend(signed);
        }
        for (key, measure, value) in extremes {
            rollups.entry(key).or_default().insert(measure, value);
        }
        trace.rollups = rollups
            .into_iter()
            .filter(|(_, measures)| !measures.is_empty())
            .map(|((partition, sort), measures)| TracedRollup { partition, sort, measures })
            .collect();
        Ok(())
    }

    /// Adds the contributions of an image, with a sign; returns the values for `max` and `min`.
    fn add_measures(
        &self,
        change: &IdentifiedChange<'_>,
        image: &Image<'_>,
        lookups: &RecordLookups<'_>,
        signed: impl Fn(&Decimal) -> Decimal,
        differences: &mut MeasureDifferences,
    ) -> Result<Vec<TracedExtreme>> {
        let mut targets = RollupTargets::of(&self.model);
        let sharding = ShardAssignment { source: change.source, current: &ItemContributions::NOTHING };
        let projected =
            contributions(&self.model, change.candidates, (image, &[]), lookups, sharding, &mut targets)?;
        let key = |id| {
            let target = targets.get(id);
            (target.partition_key(), target.sort.to_string())
        };
        for contribution in &projected.contributions.by_aggregate {
            for target in &contribution.targets {
                let measures = differences.entry(key(*target)).or_default();
                for (name, number) in &contribution.measures {
                    let measure = measures.entry(name.to_string()).or_insert_with(|| Decimal::from(0));
                    *measure = measure.plus_unlimited(&signed(number));
                }
            }
        }
        let extremes = projected
            .extremes
            .iter()
            .map(|extreme| (key(extreme.target), extreme.measure.to_string(), value_text(&extreme.value)));
        Ok(extremes.collect())
    }

    /// The rows of a record in all datasets. Rows need attributes that nothing else needs, so the record is decoded for them.
    fn rows(&self, table: usize, json: &str) -> Vec<TracedRow> {
        let Ok(record) = RecordDecoder::new(&self.model.row_attributes).record(json.as_bytes()) else {
            return Vec::new();
        };
        let Some(source) = SourceKey::of_keys(&self.model, table, &record.keys) else { return Vec::new() };
        let candidates = source.candidates(&self.model);
        let old = decode_old_image(&candidates, &record).ok().flatten();
        let images = RecordImages { new: record.new.as_ref(), old: old.as_ref() };
        let of_dataset = datasets_of(&candidates).flat_map(|(_, dataset)| {
            rows(dataset, &candidates, &record, images).map(|row| TracedRow {
                dataset: dataset.name.to_string(),
                dt: row.day.to_string(),
                operation: row.operation.name().to_owned(),
            })
        });
        of_dataset.collect()
    }
}

impl IdentifiedChange<'_> {
    /// Whether the item has expired and stays counted: its measures are added to what is settled.
    fn is_settled(&self) -> bool {
        let Self { candidates, record, .. } = self;
        candidates.is_expiry(record)
            && candidates.before(record).is_some_and(|item| item.entity.keeps_what_expired())
    }

    fn images(&self) -> impl Iterator<Item = &Image<'_>> {
        self.record.new.iter().chain(&self.old)
    }
}

/// The entity of the item; `a → b` if the change moves it to another entity. `None` if it matches no entity.
fn entities_of(candidates: &ItemCandidates<'_, '_>, record: &ChangeRecord<'_>) -> Option<String> {
    if let Some(identity) = candidates.by_key() {
        return Some(identity.entity.name.to_string());
    }
    let name = |identity: &ItemIdentity<'_, '_>| identity.entity.name.to_string();
    let names = [candidates.before(record), candidates.after(record)].map(|state| state.map(name));
    match (names, record.operation) {
        ([before, _], Operation::Remove) => before,
        ([_, after], Operation::Insert) => after,
        ([None, None], Operation::Modify) => None,
        ([before, after], Operation::Modify) if before == after => after,
        ([before, after], Operation::Modify) => {
            let [before, after] = [before, after].map(|name| name.unwrap_or_else(|| "-".to_owned()));
            Some(format!("{before} → {after}"))
        }
    }
}

fn operation_name(record: &ChangeRecord<'_>, is_expiry: bool) -> &'static str {
    match record.operation {
        Operation::Insert => "INSERT",
        Operation::Modify => "MODIFY",
        Operation::Remove if is_expiry => "EXPIRE",
        Operation::Remove => "REMOVE",
    }
}

fn value_text(value: &AttributeValue<'_>) -> String {
    match (value.as_text(), value.as_number()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(number)) => number.to_string(),
        (None, None) => value.type_name().to_owned(),
    }
}
