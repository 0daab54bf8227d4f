//! Everything that follows from one item, by the very code that every record goes through.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite::entity::{ItemIdentity, SourceKey};
use afterwrite::projection::{
    ExtremeRule, ImageScope, ItemContributions, LookupAnswers, LookupKey, LookupOutputs, RecordImages,
    RollupTargets, ShardAssignment, StaleCaches, TargetId, contributions, lookup_keys, offered_outputs, rows,
};
use afterwrite::record::{AttributeValue, ChangeRecord, Image, RecordDecoder, Timestamp};
use afterwrite::table::{Measure, Mirror, Model, NamedList, Operand};
use afterwrite::{Error, Result};
use afterwrite_datasets::export::plain_json;
use serde::Serialize;

use super::item::WrittenItem;

/// What follows from an item of one table.
#[derive(Debug, Default, Serialize)]
pub(super) struct Consequences {
    pub(super) table: String,
    pub(super) entity: String,
    /// What its key says.
    pub(super) key: NamedList<String>,
    pub(super) counted: Vec<Counted>,
    pub(super) asks: Vec<Asked>,
    /// What other items that look it up learn.
    pub(super) answers: Vec<Asked>,
    pub(super) shows: Vec<Shown>,
    pub(super) stale_keys: Vec<StaleKey>,
    pub(super) stale_paths: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// Attributes that leave the table in no way.
    pub(super) secret: Vec<String>,
    /// Why a record of it would fail.
    pub(super) problems: Vec<String>,
}

/// What it adds to one rollup.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Counted {
    #[serde(rename = "PK")]
    pub(super) partition: String,
    #[serde(rename = "SK")]
    pub(super) sort: String,
    pub(super) measures: NamedList<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<i64>,
}

/// A question to a lookup, and what it gives.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Asked {
    pub(super) lookup: String,
    pub(super) by: String,
    pub(super) gives: NamedList<String>,
}

/// An attribute that the item shows.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Shown {
    pub(super) attribute: String,
    pub(super) measure: String,
    #[serde(rename = "PK")]
    pub(super) partition: String,
    #[serde(rename = "SK")]
    pub(super) sort: String,
}

/// A cache key.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct StaleKey {
    pub(super) key: String,
    pub(super) remedy: String,
}

/// A row of a dataset.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) dataset: String,
    pub(super) dt: String,
    /// Columns that the item has no value for are null.
    pub(super) columns: NamedList<Option<String>>,
}

/// What lookups give here, by lookup: what was said on the command line, or the output's name in brackets.
#[derive(Debug)]
pub(super) struct Given(Vec<Vec<AttributeValue<'static>>>);

impl Given {
    pub(super) fn of(model: &Model, given: &BTreeMap<String, String>) -> Self {
        let output = |name: &Arc<str>| {
            AttributeValue::text(given.get(&**name).cloned().unwrap_or_else(|| format!("<{name}>")))
        };
        Self(model.lookups.iter().map(|lookup| lookup.outputs.iter().map(output).collect()).collect())
    }
}

impl LookupAnswers for Given {
    fn outputs(&self, question: &LookupKey<'_>) -> Option<&LookupOutputs> {
        self.0.get(question.lookup).map(Vec::as_slice)
    }
}

/// What follows from the item in this table; `None` if there it is of no entity.
///
/// # Errors
/// The item is none that a stream could carry.
pub(super) fn consequences(
    model: &Arc<Model>,
    table: usize,
    item: &WrittenItem,
    given: &Given,
) -> Result<Option<Consequences>> {
    let Some(line) = model.tables.get(table).and_then(|table| item.record(table)) else { return Ok(None) };
    let decode = |vocabulary| RecordDecoder::new(vocabulary).record(line.as_bytes()).map_err(|bad| bad.error);
    let (record, row_record) = (decode(&model.attributes)?, decode(&model.row_attributes)?);
    let Some(source) = SourceKey::of_keys(model, table, &record.keys) else { return Ok(None) };
    let Some(identity) = source.identify(model) else { return Ok(None) };
    let (Some(image), Some(row_image)) = (&record.new, &row_record.new) else { return Ok(None) };
    let explained = Explained { model, source: &source, identity: &identity, given };
    let mut found = Consequences {
        table: model.tables.get(table).map(|table| table.name.to_string()).unwrap_or_default(),
        entity: identity.entity.name.to_string(),
        key: explained.key(),
        secret: identity.entity.secrets.iter().map(ToString::to_string).collect(),
        answers: explained.answers(image),
        shows: explained.shown(image),
        rows: explained.rows(&row_record, row_image),
        ..Consequences::default()
    };
    let mut problems = Vec::new();
    let mut note = |error: Error| problems.push(error.to_string());
    explained.asked(image).map(|asks| found.asks = asks).unwrap_or_else(&mut note);
    explained.counted(image).map(|counted| found.counted = counted).unwrap_or_else(&mut note);
    explained.stale(image, &mut found).unwrap_or_else(&mut note);
    problems.dedup();
    found.problems = problems;
    Ok(Some(found))
}

/// An item whose entity is known.
struct Explained<'e> {
    model: &'e Arc<Model>,
    source: &'e SourceKey<'e>,
    identity: &'e ItemIdentity<'e, 'e>,
    given: &'e Given,
}

impl Explained<'_> {
    fn key(&self) -> NamedList<String> {
        let names = self.identity.entity.variables.iter().map(ToString::to_string);
        names.zip(self.identity.variables.iter().map(ToString::to_string)).collect()
    }

    fn asked(&self, image: &Image<'_>) -> Result<Vec<Asked>> {
        let mut questions = lookup_keys(self.model, self.identity, image)?;
        questions.sort();
        questions.dedup();
        Ok(questions.iter().map(|question| self.told(question, self.given.outputs(question))).collect())
    }

    fn answers(&self, image: &Image<'_>) -> Vec<Asked> {
        let answers = offered_outputs(self.model, self.identity, image);
        answers.iter().map(|(question, outputs)| self.told(question, Some(outputs))).collect()
    }

    fn told(&self, question: &LookupKey<'_>, outputs: Option<&LookupOutputs>) -> Asked {
        let lookup = self.model.lookups.get(question.lookup);
        let names = lookup.into_iter().flat_map(|lookup| &lookup.outputs).map(ToString::to_string);
        Asked {
            lookup: lookup.map(|lookup| lookup.name.to_string()).unwrap_or_default(),
            by: question.key.to_string(),
            gives: names.zip(outputs.into_iter().flatten().map(text)).collect(),
        }
    }

    fn counted(&self, image: &Image<'_>) -> Result<Vec<Counted>> {
        let mut targets = RollupTargets::of(self.model);
        let sharding = ShardAssignment { source: self.source, current: &ItemContributions::NOTHING };
        let projected = contributions(self.model, self.identity, image, self.given, sharding, &mut targets)?;
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
            let told = format!("{bound} {}", text(&extreme.value));
            counted.entry(extreme.target).or_default().push((extreme.measure.to_string(), told));
        }
        let told = counted.into_iter().map(|(id, mut measures)| {
            let target = targets.get(id);
            measures.sort_by_key(|(name, _)| self.place_of(name));
            let measures = measures.into_iter().collect();
            Counted {
                partition: target.partition_key(),
                sort: target.sort.to_string(),
                measures,
                expires_at: target.expires_at.map(Timestamp::epoch_seconds),
            }
        });
        Ok(told.collect())
    }

    /// The place of a rollup's attribute in the model file.
    fn place_of(&self, attribute: &str) -> Option<usize> {
        let aggregates = self.identity.entity.aggregates.iter();
        let aggregates = aggregates.filter_map(|index| self.model.aggregates.get(*index));
        let measures = aggregates.flat_map(|aggregate| &aggregate.measures);
        measures.flat_map(Measure::attributes).position(|known| **known == *attribute)
    }

    /// Where the item shows a measure, as far as what its key depends on is there.
    fn shown(&self, image: &Image<'_>) -> Vec<Shown> {
        let mirrors = self.identity.entity.mirrors.iter().filter_map(|index| self.model.mirrors.get(*index));
        mirrors.filter_map(|mirror| self.mirrored(mirror, image).ok()).flatten().collect()
    }

    fn mirrored(&self, mirror: &Mirror, image: &Image<'_>) -> Result<Vec<Shown>> {
        let Some(rollup) = self.model.rollups.get(mirror.from) else { return Ok(Vec::new()) };
        let outputs = mirror.lookup.as_ref().and_then(|key| self.given.0.get(key.lookup));
        let outputs: Vec<&LookupOutputs> = outputs.into_iter().map(Vec::as_slice).collect();
        let scope = ImageScope { outputs: &outputs, ..ImageScope::of(self.model, self.identity, image) };
        let mut values = Vec::with_capacity(mirror.rollup_variables.len());
        for (term, format) in &mirror.rollup_variables {
            let mut value = String::new();
            scope.render_value(term, *format, &mut value)?;
            values.push(value);
        }
        let shown = mirror.attributes.iter().map(|attribute| Shown {
            attribute: attribute.path.to_string(),
            measure: attribute.measure.to_string(),
            partition: rollup.partition.render(&values),
            sort: rollup.sort.render(&values),
        });
        Ok(shown.collect())
    }

    fn stale(&self, image: &Image<'_>, found: &mut Consequences) -> Result<()> {
        let mut stale = StaleCaches::default();
        stale.add(self.model, self.identity, 0, (None, Some(image)))?;
        let keys = stale.keys().map(|stale| StaleKey { key: stale.key, remedy: stale.remedy.describe() });
        found.stale_keys = keys.collect();
        found.stale_paths = stale.paths().map(|stale| stale.path).collect();
        Ok(())
    }

    fn rows(&self, record: &ChangeRecord<'_>, image: &Image<'_>) -> Vec<Row> {
        let images = RecordImages { new: Some(image), old: None };
        let mut told = Vec::new();
        for (_, dataset) in self.model.datasets_of(self.identity.entity) {
            let outputs = dataset.lookups.iter().filter_map(|key| self.given.0.get(key.lookup));
            let outputs: Vec<&LookupOutputs> = outputs.map(Vec::as_slice).collect();
            for mut row in rows(self.model, dataset, self.identity, record, images) {
                row.scope.outputs = &outputs;
                let columns = dataset.columns.iter().map(|column| {
                    (column.name.to_string(), row.value(&column.from).map(|value| operand(&value)))
                });
                let (columns, dt) = (columns.collect(), row.day.to_string());
                told.push(Row { dataset: dataset.name.to_string(), dt, columns });
            }
        }
        told
    }
}

fn operand(value: &Operand<'_>) -> String {
    match value {
        Operand::Text(value) => value.to_string(),
        Operand::Value(value) => text(value),
        Operand::Ratio { numerator, denominator } => format!("{numerator}/{denominator}"),
    }
}

/// A text as it is, anything else as JSON.
fn text(value: &AttributeValue<'_>) -> String {
    value.as_text().map_or_else(|| plain_json(value), str::to_owned)
}
