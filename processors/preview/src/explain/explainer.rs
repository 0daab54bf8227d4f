//! Computes the consequences of an item whose entity is known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use afterwrite_datasets::export::preview::{PreviewedColumn, preview_row};
use afterwrite_model::entity::{ItemCandidates, ItemIdentity, SourceKey};
use afterwrite_model::projection::{
    DatasetRow as ProjectedRow, ExtremeRule, ImageScope, ItemContributions, LookupKey, LookupOutputs,
    RecordImages, RollupTargets, ShardAssignment, StaleCaches, TargetId, contributions, lookup_keys,
    offered_outputs, rows,
};
use afterwrite_model::record::{AttributeValue, ChangeRecord, Image, Timestamp, plain_json};
use afterwrite_model::table::{
    BoundPiece, Dataset, Latest, LookupUse, Measure, Mirror, Model, ModelNotation, NO_DAY, NamedList, Operand,
};
use afterwrite_model::{Error, ErrorKind, Result};

use super::consequences::{
    Consequences, DatasetRow, LookupResult, MirroredValue, RollupContribution, StaleCacheKey,
};
use super::lookups::ExplainedLookups;

/// Computes the consequences of an item whose entity is known.
pub(super) struct ItemExplainer<'e, L> {
    pub(super) model: &'e Arc<Model>,
    pub(super) source: &'e SourceKey<'e>,
    pub(super) candidates: &'e ItemCandidates<'e, 'e>,
    pub(super) identity: &'e ItemIdentity<'e, 'e>,
    pub(super) lookups: &'e L,
    /// The contributions that are counted now, which decide about shards.
    pub(super) counted_now: &'e ItemContributions,
}

/// The contributions of an item, as far as outputs of lookups are known.
pub(super) struct ExplainedCount {
    /// Its contributions, as far as they are known.
    pub(super) rollups: Vec<RollupContribution>,
    /// The number of aggregates that leave it out.
    pub(super) skipped: u64,
    /// Whether contributions depend on outputs of lookups that are not known.
    pub(super) is_unknown: bool,
}

impl<L: ExplainedLookups> ItemExplainer<'_, L> {
    pub(super) fn key(&self) -> NamedList<String> {
        let names = self.identity.entity.variables.iter().map(ToString::to_string);
        names.zip(self.identity.variables.iter().map(ToString::to_string)).collect()
    }

    pub(super) fn lookup_results(&self, image: &Image<'_>) -> Result<Vec<LookupResult>> {
        let mut keys = lookup_keys(self.model, self.candidates, image)?;
        keys.sort();
        keys.dedup();
        Ok(keys.iter().map(|key| self.lookup_result(key, self.lookups.outputs(key))).collect())
    }

    pub(super) fn offered_results(&self, image: &Image<'_>) -> Vec<LookupResult> {
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

    /// The item's contributions. An error that some values of unknown outputs do not cause is not reported: the contributions are not known.
    pub(super) fn explained_count(
        &self,
        image: &Image<'_>,
        targets: &mut RollupTargets,
    ) -> Result<ExplainedCount> {
        let counted = self.counted(image, targets);
        let skipped = counted.as_ref().map_or(u64::MAX, |(_, skipped)| *skipped);
        let guesses = if skipped == 0 { Vec::new() } else { self.guessed_counts(image) };
        match guesses.first().filter(|(guessed, ..)| *guessed < skipped) {
            Some((skipped, replaced, rollups)) => {
                // The names of all other outputs stand for their values, as without a guess.
                let alike = guesses.iter().take_while(|other| (other.0, other.1) == (*skipped, *replaced));
                let alike: Vec<_> = alike.collect();
                let is_known = |rollup: &&RollupContribution| {
                    alike.iter().all(|(_, _, rollups)| rollups.contains(rollup))
                };
                let rollups = rollups.iter().filter(is_known).cloned().collect();
                Ok(ExplainedCount { rollups, skipped: *skipped, is_unknown: true })
            }
            None => counted.map(|(rollups, skipped)| ExplainedCount { rollups, skipped, is_unknown: false }),
        }
    }

    /// The results with guessed outputs that cause no error: the number of aggregates that leave the item out, the number of guessed values, and the
    /// contributions. Those with the smallest numbers are the first.
    fn guessed_counts(&self, image: &Image<'_>) -> Vec<(u64, usize, Vec<RollupContribution>)> {
        let guesses = self.lookups.guesses();
        let counts = guesses.iter().filter_map(|guess| {
            let Self { model, source, candidates, identity, counted_now, .. } = *self;
            let lookups = &guess.values;
            let explained = ItemExplainer { model, source, candidates, identity, lookups, counted_now };
            let (rollups, skipped) = explained.counted(image, &mut RollupTargets::of(model)).ok()?;
            Some((skipped, guess.replaced, rollups))
        });
        let mut counts: Vec<_> = counts.collect();
        counts.sort_by_key(|(skipped, replaced, _)| (*skipped, *replaced));
        counts
    }

    /// The item's contributions, and the number of aggregates that leave it out.
    fn counted(
        &self,
        image: &Image<'_>,
        targets: &mut RollupTargets,
    ) -> Result<(Vec<RollupContribution>, u64)> {
        let sharding = ShardAssignment { source: self.source, current: self.counted_now };
        let projected =
            contributions(self.model, self.candidates, (image, &[]), self.lookups, sharding, targets)?;
        projected.check_keys(targets)?;
        let mut counted: BTreeMap<TargetId, Vec<(String, String)>> = BTreeMap::new();
        for share in &projected.contributions.by_aggregate {
            for target in &share.targets {
                let measures =
                    share.measures.iter().map(|(name, number)| (name.to_string(), format!("+{number}")));
                counted.entry(*target).or_default().extend(measures);
            }
        }
        for extreme in &projected.extremes {
            let measure = self.measure_of(&extreme.measure);
            let value = text(&extreme.value);
            let share = match extreme.rule {
                ExtremeRule::Largest(_) => format!("at least {value}"),
                ExtremeRule::Smallest(_) => format!("at most {value}"),
                ExtremeRule::Latest => {
                    let latest = Latest::value(&value).map_or(value, |latest| text(&latest));
                    format!("{latest}, unless a later one was seen")
                }
            };
            counted.entry(extreme.target).or_default().push((measure.to_string(), share));
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

    /// The measure that keeps this attribute of a rollup: a measure `latest` compares another attribute than its own.
    fn measure_of<'n>(&'n self, attribute: &'n str) -> &'n str {
        let keeps = |measure: &&Measure| measure.attributes().iter().any(|known| **known == *attribute);
        self.measures().find(keeps).map_or(attribute, |measure| &measure.name)
    }

    /// The measures of the entity's aggregates, in the order of the model file.
    fn measures(&self) -> impl Iterator<Item = &Measure> {
        let aggregates = self.identity.entity.aggregates.iter();
        let aggregates = aggregates.filter_map(|index| self.model.aggregates.get(*index));
        aggregates.flat_map(|aggregate| &aggregate.measures)
    }

    /// The place of a rollup's attribute in the model file.
    fn place_of(&self, attribute: &str) -> Option<usize> {
        self.measures().flat_map(Measure::attributes).position(|known| **known == *attribute)
    }

    /// The mirrored attributes of the item; those whose rollup cannot be found are left out.
    pub(super) fn shown(&self, image: &Image<'_>) -> Vec<MirroredValue> {
        let mirrors = self.identity.entity.mirrors.iter().filter_map(|index| self.model.mirrors.get(*index));
        mirrors.filter_map(|mirror| self.mirrored(mirror, image).ok()).flatten().collect()
    }

    /// The image without outputs of lookups.
    pub(super) fn scope_of<'s, 'a: 's>(&'s self, image: &'s Image<'a>) -> ImageScope<'s, 'a> {
        ImageScope::of(self.model, self.identity, image)
    }

    /// The outputs of lookups of the image.
    ///
    /// # Errors
    /// The image lacks an input, or a lookup has no outputs.
    fn outputs(&self, used: &[LookupUse], image: &Image<'_>) -> Result<Vec<&LookupOutputs>> {
        let scope = self.scope_of(image);
        let outputs = used.iter().map(|lookup| {
            let key = scope.lookup_key(lookup)?;
            let unknown = || Error::new(ErrorKind::Unavailable, "a lookup of the item is not remembered");
            self.lookups.outputs(&key).ok_or_else(unknown)
        });
        outputs.collect()
    }

    fn mirrored(&self, mirror: &Mirror, image: &Image<'_>) -> Result<Vec<MirroredValue>> {
        let Some(rollup) = self.model.rollups.get(mirror.from) else { return Ok(Vec::new()) };
        let outputs = self.outputs(mirror.lookup.as_slice(), image)?;
        let scope = self.scope_of(image);
        let scope = scope.with_outputs(mirror.lookup.as_slice(), &outputs);
        let (partition, sort) = scope.mirrored_key(mirror, rollup)?;
        let shown = mirror.attributes.iter().map(|attribute| MirroredValue {
            attribute: attribute.path.to_string(),
            measure: attribute.measure.to_string(),
            partition: partition.clone(),
            sort: sort.clone(),
        });
        Ok(shown.collect())
    }

    pub(super) fn stale(&self, image: &Image<'_>, found: &mut Consequences) {
        let mut stale = StaleCaches::default();
        stale.add(self.candidates, 0, (None, Some(image)));
        let keys =
            stale.keys().map(|stale| StaleCacheKey { key: stale.key, remedy: stale.remedy.describe() });
        found.stale_keys = keys.collect();
        found.stale_paths = stale.paths().keys().cloned().collect();
    }

    /// Values in paths that have slashes, and are not declared as paths.
    pub(super) fn slashes_in_paths(&self, image: &Image<'_>) -> Vec<String> {
        let scope = self.scope_of(image);
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

    pub(super) fn rows(&self, record: &ChangeRecord<'_>, image: &Image<'_>) -> Vec<DatasetRow> {
        let images = RecordImages { new: Some(image), old: None };
        let mut found = Vec::new();
        for (_, dataset) in self.model.datasets_of(self.identity.entity) {
            let outputs = self.outputs(&dataset.lookups, image).unwrap_or_default();
            for mut row in rows(dataset, self.candidates, record, images) {
                row.scope = row.scope.with_outputs(&dataset.lookups, &outputs);
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
            let output = column.from.output_lookup().filter(|_| self.lookups.is_placeholder(&column.source));
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
