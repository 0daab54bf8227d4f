//! Everything that follows from one item, computed by the code that processes every record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use afterwrite_datasets::export::preview::{PreviewedColumn, preview_row};
use afterwrite_model::entity::{ItemCandidates, ItemIdentity, SourceKey};
use afterwrite_model::projection::{
    DatasetRow as ProjectedRow, EventChange, ExtremeRule, INVALID_ROLLUP_KEY, ImageScope, ItemContributions,
    KnownLookups, LookupKey, LookupOutputs, RecordImages, RollupTargets, ShardAssignment, StaleCaches,
    TargetId, contributions, lookup_keys, offered_outputs, rows,
};
use afterwrite_model::record::{AttributeValue, ChangeRecord, Image, RecordDecoder, Timestamp, plain_json};
use afterwrite_model::table::{
    BoundPiece, Dataset, Measure, Mirror, Model, ModelNotation, NO_DAY, NamedList, Operand,
};
use afterwrite_model::{Error, ErrorKind, Result};
use serde::Serialize;

use super::events::{ItemEvent, events_of_creation};
use super::item::ItemFile;

/// The consequences of an item in one table.
#[derive(Debug, Default, Serialize)]
pub(super) struct Consequences {
    pub(super) table: String,
    pub(super) entity: String,
    /// The values of its key's variables.
    pub(super) key: NamedList<String>,
    pub(super) counted: Vec<RollupContribution>,
    pub(super) asks: Vec<LookupResult>,
    /// Its outputs for other items that look it up.
    pub(super) answers: Vec<LookupResult>,
    pub(super) shows: Vec<MirroredValue>,
    pub(super) stale_keys: Vec<StaleCacheKey>,
    pub(super) stale_paths: Vec<String>,
    /// The events of its creation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) events: Vec<ItemEvent>,
    pub(super) rows: Vec<DatasetRow>,
    /// The parts of the model whose conditions leave the item out.
    pub(super) left_out: Vec<LeftOut>,
    /// Values that make stale paths which nobody requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
    /// The number of aggregates that leave the item out, because it does not fit them.
    pub(super) skipped: u64,
    /// Attributes that never leave the table.
    pub(super) secret: Vec<String>,
    /// Why it cannot be counted, or has no rows or stale keys.
    pub(super) problems: Vec<String>,
}

/// The item's contribution to one rollup.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct RollupContribution {
    #[serde(rename = "PK")]
    pub(super) partition: String,
    #[serde(rename = "SK")]
    pub(super) sort: String,
    pub(super) measures: NamedList<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<i64>,
}

/// The key of a lookup, and its outputs.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct LookupResult {
    pub(super) lookup: String,
    pub(super) by: String,
    pub(super) gives: NamedList<String>,
}

/// A mirrored attribute of the item.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct MirroredValue {
    pub(super) attribute: String,
    pub(super) measure: String,
    #[serde(rename = "PK")]
    pub(super) partition: String,
    #[serde(rename = "SK")]
    pub(super) sort: String,
}

/// A cache key.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct StaleCacheKey {
    pub(super) key: String,
    pub(super) remedy: String,
}

/// A row of a dataset.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct DatasetRow {
    pub(super) dataset: String,
    pub(super) dt: String,
    /// Whether the item has no day: all such rows are in one partition.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_no_day: bool,
    /// The name of the value that the day is taken from.
    #[serde(skip)]
    pub(super) day_of: String,
    /// The values of the row. A column is null if the item has no value for it, or a value that does not fit.
    pub(super) columns: NamedList<Option<String>>,
    /// The content of `_rescued`: values that do not fit their columns, in DynamoDB's JSON, and `null` for a required value that is missing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) rescued: BTreeMap<String, String>,
}

/// A part that leaves the item out.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct LeftOut {
    /// `aggregate orders`, `aggregate orders: measure paid`, `dataset orders`, `cache of order`.
    pub(super) part: String,
    /// The condition that does not hold, as the model has it; or the values that are missing.
    pub(super) needs: String,
    /// The item's value, if it has one.
    pub(super) found: String,
}

/// The outputs of lookups, by lookup: values of the command line, or the output's name in angle brackets.
#[derive(Debug)]
pub(super) struct LookupValues {
    /// Of each lookup.
    outputs: Vec<Vec<AttributeValue<'static>>>,
    /// The names of outputs that the command line has.
    given: BTreeSet<String>,
}

impl LookupValues {
    pub(super) fn of(model: &Model, given: &BTreeMap<String, String>) -> Self {
        let output = |name: &Arc<str>| {
            AttributeValue::text(given.get(&**name).cloned().unwrap_or_else(|| format!("<{name}>")))
        };
        let outputs = model.lookups.iter().map(|lookup| lookup.outputs.iter().map(output).collect());
        Self { outputs: outputs.collect(), given: given.keys().cloned().collect() }
    }
}

impl KnownLookups for LookupValues {
    fn outputs(&self, key: &LookupKey<'_>) -> Option<&LookupOutputs> {
        self.outputs.get(key.lookup).map(Vec::as_slice)
    }
}

/// The consequences of the item in this table; `None` if it matches no entity there.
///
/// # Errors
/// The item could not be in a stream.
pub(super) fn consequences(
    model: &Arc<Model>,
    table: usize,
    item: &ItemFile,
    lookup_values: &LookupValues,
) -> Result<Option<Consequences>> {
    let Some(line) = model.tables.get(table).and_then(|table| item.record(table)) else { return Ok(None) };
    let decode = |vocabulary| RecordDecoder::new(vocabulary).record(line.as_bytes()).map_err(|bad| bad.error);
    let (record, row_record) = (decode(&model.attributes)?, decode(&model.row_attributes)?);
    let Some(source) = SourceKey::of_keys(model, table, &record.keys) else { return Ok(None) };
    let candidates = source.candidates(model);
    let (Some(image), Some(row_image)) = (&record.new, &row_record.new) else { return Ok(None) };
    let Some(identity) = candidates.in_state(image) else { return Ok(None) };
    let explained =
        ItemExplainer { model, source: &source, candidates: &candidates, identity, lookup_values };
    let mut found = Consequences {
        table: model.tables.get(table).map(|table| table.name.to_string()).unwrap_or_default(),
        entity: identity.entity.name.to_string(),
        key: explained.key(),
        secret: identity.entity.secrets.iter().map(ToString::to_string).collect(),
        answers: explained.offered_results(image),
        shows: explained.shown(image),
        rows: explained.rows(&row_record, row_image),
        left_out: explained.left_out(image, row_image),
        notes: explained.slashes_in_paths(image),
        ..Consequences::default()
    };
    let mut problems = Vec::new();
    let mut report = |error: Error| problems.push(error.to_string());
    explained.lookup_results(image).map(|results| found.asks = results).unwrap_or_else(&mut report);
    let counted = explained.counted(image);
    counted.map(|counted| (found.counted, found.skipped) = counted).unwrap_or_else(&mut report);
    explained.stale(image, &mut found).unwrap_or_else(&mut report);
    let change = EventChange { source: &source, candidates: Some(&candidates), record: &record, json: &line };
    events_of_creation(model, &change).map(|events| found.events = events).unwrap_or_else(&mut report);
    problems.dedup();
    found.problems = problems;
    Ok(Some(found))
}

/// Computes the consequences of an item whose entity is known.
pub(super) struct ItemExplainer<'e> {
    pub(super) model: &'e Arc<Model>,
    source: &'e SourceKey<'e>,
    candidates: &'e ItemCandidates<'e, 'e>,
    pub(super) identity: &'e ItemIdentity<'e, 'e>,
    pub(super) lookup_values: &'e LookupValues,
}

impl ItemExplainer<'_> {
    fn key(&self) -> NamedList<String> {
        let names = self.identity.entity.variables.iter().map(ToString::to_string);
        names.zip(self.identity.variables.iter().map(ToString::to_string)).collect()
    }

    fn lookup_results(&self, image: &Image<'_>) -> Result<Vec<LookupResult>> {
        let mut keys = lookup_keys(self.model, self.candidates, image)?;
        keys.sort();
        keys.dedup();
        Ok(keys.iter().map(|key| self.lookup_result(key, self.lookup_values.outputs(key))).collect())
    }

    fn offered_results(&self, image: &Image<'_>) -> Vec<LookupResult> {
        let offered = offered_outputs(self.model, self.candidates, image);
        offered.iter().map(|(key, outputs)| self.lookup_result(key, Some(outputs))).collect()
    }

    fn lookup_result(&self, key: &LookupKey<'_>, outputs: Option<&LookupOutputs>) -> LookupResult {
        let lookup = self.model.lookups.get(key.lookup);
        let names = lookup.into_iter().flat_map(|lookup| &lookup.outputs).map(ToString::to_string);
        LookupResult {
            lookup: lookup.map(|lookup| lookup.name.to_string()).unwrap_or_default(),
            by: key.key.to_string(),
            gives: names.zip(outputs.into_iter().flatten().map(text)).collect(),
        }
    }

    /// The item's contributions, and the number of aggregates that leave it out.
    fn counted(&self, image: &Image<'_>) -> Result<(Vec<RollupContribution>, u64)> {
        let mut targets = RollupTargets::of(self.model);
        let sharding = ShardAssignment { source: self.source, current: &ItemContributions::NOTHING };
        let projected =
            contributions(self.model, self.candidates, image, self.lookup_values, sharding, &mut targets)?;
        let mut counted: BTreeMap<TargetId, Vec<(String, String)>> = BTreeMap::new();
        for share in &projected.contributions.by_aggregate {
            for target in &share.targets {
                let measures =
                    share.measures.iter().map(|(name, number)| (name.to_string(), format!("+{number}")));
                counted.entry(*target).or_default().extend(measures);
            }
        }
        for extreme in &projected.extremes {
            let bound = match extreme.rule {
                ExtremeRule::Largest => "at least",
                ExtremeRule::Smallest => "at most",
            };
            let bounded = format!("{bound} {}", text(&extreme.value));
            counted.entry(extreme.target).or_default().push((extreme.measure.to_string(), bounded));
        }
        if let Some(target) = counted.keys().map(|id| targets.get(*id)).find(|target| !target.has_valid_key())
        {
            let message = format!("rollup `{}`: {INVALID_ROLLUP_KEY}", target.name);
            return Err(Error::new(ErrorKind::Record, message));
        }
        let counted = counted.into_iter().map(|(id, mut measures)| {
            let target = targets.get(id);
            measures.sort_by_key(|(name, _)| self.place_of(name));
            let measures = measures.into_iter().collect();
            RollupContribution {
                partition: target.partition_key(),
                sort: target.sort.to_string(),
                measures,
                expires_at: target.expires_at.map(Timestamp::epoch_seconds),
            }
        });
        Ok((counted.collect(), projected.skipped))
    }

    /// The place of a rollup's attribute in the model file.
    fn place_of(&self, attribute: &str) -> Option<usize> {
        let aggregates = self.identity.entity.aggregates.iter();
        let aggregates = aggregates.filter_map(|index| self.model.aggregates.get(*index));
        let measures = aggregates.flat_map(|aggregate| &aggregate.measures);
        measures.flat_map(Measure::attributes).position(|known| **known == *attribute)
    }

    /// The mirrored attributes of the item; those whose rollup cannot be found are left out.
    fn shown(&self, image: &Image<'_>) -> Vec<MirroredValue> {
        let mirrors = self.identity.entity.mirrors.iter().filter_map(|index| self.model.mirrors.get(*index));
        mirrors.filter_map(|mirror| self.mirrored(mirror, image).ok()).flatten().collect()
    }

    fn mirrored(&self, mirror: &Mirror, image: &Image<'_>) -> Result<Vec<MirroredValue>> {
        let Some(rollup) = self.model.rollups.get(mirror.from) else { return Ok(Vec::new()) };
        let outputs = mirror.lookup.as_ref().and_then(|key| self.lookup_values.outputs.get(key.lookup));
        let outputs: Vec<&LookupOutputs> = outputs.into_iter().map(Vec::as_slice).collect();
        let scope = ImageScope { outputs: &outputs, ..ImageScope::of(self.model, self.identity, image) };
        let (partition, sort) = scope.mirrored_key(mirror, rollup)?;
        let shown = mirror.attributes.iter().map(|attribute| MirroredValue {
            attribute: attribute.path.to_string(),
            measure: attribute.measure.to_string(),
            partition: partition.clone(),
            sort: sort.clone(),
        });
        Ok(shown.collect())
    }

    fn stale(&self, image: &Image<'_>, found: &mut Consequences) -> Result<()> {
        let mut stale = StaleCaches::default();
        stale.add(self.candidates, 0, (None, Some(image)))?;
        let keys =
            stale.keys().map(|stale| StaleCacheKey { key: stale.key, remedy: stale.remedy.describe() });
        found.stale_keys = keys.collect();
        found.stale_paths = stale.paths().keys().cloned().collect();
        Ok(())
    }

    /// Values in paths that have slashes, and are not declared as paths.
    fn slashes_in_paths(&self, image: &Image<'_>) -> Vec<String> {
        let scope = ImageScope::of(self.model, self.identity, image);
        let rules = self.identity.entity.caches.iter().filter_map(|index| self.model.caches.get(*index));
        let mut notes = BTreeSet::new();
        for (rule, path) in rules.flat_map(|rule| rule.paths.iter().map(move |path| (rule, path))) {
            let notation = ModelNotation::of(self.model, rule.of, &[]);
            let terms = path.template.pieces.iter().filter_map(|piece| match piece {
                BoundPiece::Literal(_) => None,
                BoundPiece::Value(term, _) => Some(term),
            });
            for (_, term) in terms.enumerate().filter(|(place, _)| !path.is_path(*place)) {
                let value = scope.read(term).ok().flatten().map(|value| operand(&value));
                if value.is_some_and(|value| value.contains('/')) {
                    let name = notation.term(term);
                    notes.insert(format!("{name} has a `/`, which its path has as %2F: write {{{name}:path}} in the model if it is a path"));
                }
            }
        }
        notes.into_iter().collect()
    }

    fn rows(&self, record: &ChangeRecord<'_>, image: &Image<'_>) -> Vec<DatasetRow> {
        let images = RecordImages { new: Some(image), old: None };
        let mut found = Vec::new();
        for (_, dataset) in self.model.datasets_of(self.identity.entity) {
            let outputs = dataset.lookups.iter().filter_map(|key| self.lookup_values.outputs.get(key.lookup));
            let outputs: Vec<&LookupOutputs> = outputs.map(Vec::as_slice).collect();
            for mut row in rows(dataset, self.candidates, record, images) {
                row.scope.outputs = &outputs;
                found.push(self.row(dataset, &row));
            }
        }
        found
    }

    /// A row as the exporter writes it.
    fn row(&self, dataset: &Dataset, row: &ProjectedRow<'_, '_>) -> DatasetRow {
        let (mut columns, mut rescued) = (Vec::new(), BTreeMap::new());
        for (column, previewed) in dataset.columns.iter().zip(preview_row(dataset, row)) {
            let PreviewedColumn { name, value, rescued: left } = previewed;
            // An output that is not given is shown by its name: whether the real one fits is not known.
            let output =
                column.from.output_lookup().filter(|_| !self.lookup_values.given.contains(&*column.source));
            let placeholder = output.and_then(|_| row.value(&column.from)).map(|value| operand(&value));
            if placeholder.is_none() {
                rescued.extend(left.map(|left| (name.clone(), left)));
            }
            columns.push((name, placeholder.or(value)));
        }
        let notation = ModelNotation::of(self.model, dataset.of, &dataset.lookups);
        DatasetRow {
            dataset: dataset.name.to_string(),
            dt: row.day.to_string(),
            has_no_day: *row.day == *NO_DAY,
            day_of: notation.term(&dataset.partition.0),
            columns: columns.into_iter().collect(),
            rescued,
        }
    }
}

pub(super) fn operand(value: &Operand<'_>) -> String {
    match value {
        Operand::Text(value) => value.to_string(),
        Operand::Value(value) => text(value),
        Operand::Number(number) => number.to_string(),
        Operand::Ratio { numerator, denominator } => format!("{numerator}/{denominator}"),
    }
}

/// Text unchanged, other values as JSON.
fn text(value: &AttributeValue<'_>) -> String {
    value.as_text().map_or_else(|| plain_json(value), str::to_owned)
}
