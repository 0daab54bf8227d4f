//! Ledger entry = C(item), mirrors = rollups, extremes cover items: the judgement of a few items at one moment.
//!
//! The entry is read first, then the item, then the entry again. If its revision is unchanged, entry and item are of one moment, but
//! for records of the item that are in flight: see [`super::suspects`].

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_ledger::state::REV;
use afterwrite_ledger::tables::Tables;
use afterwrite_ledger::{StateItems, StoredEntry};
use afterwrite_model::effect::ItemKey;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::{
    ImageProjection, ImageScope, ItemContributions, LookupKey, RollupTargets,
};
use afterwrite_model::record::{Decimal, Image, Item, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};

use super::finding::{
    ExpectedValue, FindingSubject, FoundItem, UndecidedCause, UndecidedReason, VerifyFinding,
};
use super::item_rollups::{ItemRollups, JudgedParts, mirrors_of};
use super::life::FindingLife;
use super::sums::text_of;
use crate::DeploymentContext;
use crate::items::IdentifiedItem;
use crate::jobs::count;
use crate::projector::{ItemProjector, RememberedOutputs, contribute_equally, has_aggregate};

const NOT_REMEMBERED: &str = "a lookup of the item is not remembered: the looked-up item was deleted before it was counted, or its record is in flight; `afterwrite backfill --all` counts the items whose looked-up item exists";

/// Judges items.
#[derive(Debug)]
pub(crate) struct ItemJudge<T> {
    pub(crate) model: Arc<Model>,
    pub(crate) tables: T,
    pub(crate) state: StateItems,
    pub(crate) projector: ItemProjector<T>,
}

/// The judgement of one item at one moment.
#[derive(Debug, Default)]
pub(crate) struct ItemJudgement {
    /// The differences, each with the revision that it was seen at: of the entry, or of the rollup of a mirror or extreme.
    pub(crate) differences: Vec<VerifyFinding>,
    /// Why it cannot be judged, if so.
    pub(crate) undecided: Option<UndecidedCause>,
    /// The parts of it that were judged.
    pub(crate) parts: JudgedParts,
}

/// An item as it was read, with its entry.
struct ItemReading<'r> {
    source: &'r SourceKey<'r>,
    entry: Option<StoredEntry>,
    /// The finding about the entry, if it cannot be read.
    unreadable: Option<VerifyFinding>,
    item: Option<Item>,
    /// Whether the entry was the same before and after the item was read.
    is_steady: bool,
    /// When it was read.
    read_at: Timestamp,
}

impl<T: Tables + Clone> ItemJudge<T> {
    /// A judge of a deployment's items.
    pub(crate) fn new(context: &DeploymentContext<T, impl Clone>) -> Self {
        Self {
            model: Arc::clone(&context.model),
            tables: context.tables.clone(),
            state: context.state_items(),
            projector: ItemProjector::new(context),
        }
    }
}

impl<T: Tables> ItemJudge<T> {
    /// Judges source items at a moment: extremes of rollups that have expired by then are not judged.
    ///
    /// # Errors
    /// As [`Tables::read`].
    pub(crate) async fn judge(
        &self,
        sources: &[SourceKey<'_>],
        now: Timestamp,
    ) -> Result<Vec<ItemJudgement>> {
        let mut targets = RollupTargets::of(&self.model);
        let read = self.read((sources, now), &mut targets).await?;
        let empty = Item::new();
        let identified: Vec<Option<(IdentifiedItem<'_>, Image<'static>)>> = read
            .iter()
            .map(|read| {
                let candidates = read.source.candidates(&self.model);
                if candidates.is_empty() {
                    return None;
                }
                let item = IdentifiedItem {
                    source: read.source,
                    candidates,
                    item: read.item.as_ref().unwrap_or(&empty),
                };
                let image = item.image(&self.model);
                Some((item, image))
            })
            .collect();
        let outputs = self.remembered(&read, &identified).await?;
        let mut judgements = Vec::with_capacity(read.len());
        for (read, identified) in read.iter().zip(&identified) {
            let Some((item, image)) = identified else {
                let without_entity =
                    UndecidedCause::new(UndecidedReason::Foreign, "the model has no entity for the key");
                judgements.push(ItemJudgement::unknown(without_entity));
                continue;
            };
            let parts = self.parts_of(read, item, image);
            let judgement = self.judge_one(read, item, image, &outputs, &mut targets).await?;
            judgements.push(judgement.of_parts(parts));
        }
        Ok(judgements)
    }

    async fn read<'r>(
        &self,
        (sources, read_at): (&'r [SourceKey<'r>], Timestamp),
        targets: &mut RollupTargets,
    ) -> Result<Vec<ItemReading<'r>>> {
        let entry_keys =
            sources.iter().map(|source| self.state.entry_key(source)).collect::<Result<Vec<_>>>()?;
        let item_keys =
            sources.iter().map(|source| self.state.source_item_key(source)).collect::<Option<Vec<_>>>();
        let item_keys: Vec<ItemKey> = item_keys.ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "a key does not match the key schema of its table")
        })?;
        let before = self.tables.read(&entry_keys).await?.items;
        let items = self.tables.read(&item_keys).await?.items;
        let after = self.tables.read(&entry_keys).await?.items;
        let mut read = Vec::with_capacity(sources.len());
        for (((source, before), item), after) in sources.iter().zip(before).zip(items).zip(after) {
            let rev = |entry: &Option<Item>| entry.as_ref().and_then(|entry| entry.get(REV).cloned());
            let is_steady = rev(&before) == rev(&after);
            let rev = rev(&after).as_ref().map(text_of);
            let entry = after.map(|entry| self.state.decode_entry(&entry, targets)).transpose();
            let (entry, unreadable) = match entry {
                Ok(entry) => (entry, None),
                Err(error) if error.kind() == ErrorKind::Unreadable => {
                    (None, Some(self.unreadable_finding(source, rev, &error)))
                }
                Err(error) => return Err(error),
            };
            read.push(ItemReading { source, entry, unreadable, item, is_steady, read_at });
        }
        Ok(read)
    }

    /// The finding about an entry that cannot be read. Its item cannot be judged.
    fn unreadable_finding(
        &self,
        source: &SourceKey<'_>,
        rev: Option<String>,
        error: &Error,
    ) -> VerifyFinding {
        let item = FoundItem::of(&self.model, source);
        let mut finding = VerifyFinding::of(FindingSubject::UnreadableEntry(item));
        (finding.rev, finding.cause) = (rev, Some(error.to_string()));
        finding
    }

    /// The remembered lookups of items and of their mirrors.
    async fn remembered(
        &self,
        read: &[ItemReading<'_>],
        identified: &[Option<(IdentifiedItem<'_>, Image<'static>)>],
    ) -> Result<RememberedOutputs> {
        let mut keys: Vec<LookupKey<'static>> = Vec::new();
        for (read, identified) in read.iter().zip(identified) {
            let Some((item, image)) = identified.as_ref().filter(|_| read.item.is_some()) else { continue };
            let needed = afterwrite_model::projection::lookup_keys(&self.model, &item.candidates, image);
            keys.extend(needed.unwrap_or_default().into_iter().map(LookupKey::into_owned));
            let Some(identity) = item.candidates.in_state(image) else { continue };
            let scope = ImageScope::of(&self.model, identity, image);
            let used =
                mirrors_of(&self.model, identity).into_iter().filter_map(|mirror| mirror.lookup.as_ref());
            keys.extend(used.filter_map(|used| Some(scope.lookup_key(used).ok()?.into_owned())));
        }
        self.projector.read(keys).await
    }

    async fn judge_one(
        &self,
        read: &ItemReading<'_>,
        item: &IdentifiedItem<'_>,
        image: &Image<'static>,
        outputs: &RememberedOutputs,
        targets: &mut RollupTargets,
    ) -> Result<ItemJudgement> {
        if !read.is_steady {
            let changed = UndecidedCause::changed("the entry changed while the item was read");
            return Ok(ItemJudgement::unknown(changed));
        }
        if let Some(finding) = &read.unreadable {
            return Ok(ItemJudgement { differences: vec![finding.clone()], ..ItemJudgement::default() });
        }
        let projection = match &read.item {
            None => Ok(ImageProjection::default()),
            Some(_) => self.projector.project(item, image, read.entry.as_ref(), outputs, targets),
        };
        let projection = match projection {
            Ok(projection) => projection,
            Err(error) => return self.uncountable(item, image, outputs, error).map(ItemJudgement::unknown),
        };
        let mut differences: Vec<VerifyFinding> =
            self.ledger_difference(read, &projection, targets).into_iter().collect();
        let mut parts = JudgedParts { extremes_judged: 1, ..JudgedParts::default() };
        if read.item.is_some() {
            let rollups = ItemRollups {
                model: &self.model,
                state: &self.state,
                tables: &self.tables,
                item: FoundItem::of(&self.model, read.source),
                entry_rev: entry_rev(read),
            };
            if let Some(identity) = item.candidates.in_state(image) {
                let mirrors = rollups.judge_mirrors(identity, image, outputs).await?;
                parts.mirrors_judged = mirrors.judged;
                differences.extend(mirrors.differences);
            }
            if differences.is_empty() && read.entry.is_some() {
                let extremes = rollups.judge_extremes(&projection.extremes, targets, read.read_at);
                differences.extend(extremes.await?);
            }
        }
        Ok(ItemJudgement { differences, undecided: None, parts })
    }

    /// Why an item cannot be judged that cannot be projected.
    ///
    /// # Errors
    /// The error itself, if it concerns more than the item.
    fn uncountable(
        &self,
        item: &IdentifiedItem<'_>,
        image: &Image<'static>,
        outputs: &RememberedOutputs,
        error: Error,
    ) -> Result<UndecidedCause> {
        if error.kind().concerns_item() {
            // Errors of items name attributes, and no values.
            let text =
                format!("the item cannot be counted ({}): {}", error.kind().name(), error.without_hint());
            return Ok(UndecidedCause::new(UndecidedReason::Uncountable, text));
        }
        if error.is_retryable() {
            return Ok(UndecidedCause::new(UndecidedReason::LookupNotRemembered, NOT_REMEMBERED));
        }
        let needed = afterwrite_model::projection::lookup_keys(&self.model, &item.candidates, image);
        match outputs.lacking_output(&needed.unwrap_or_default()) {
            Some(lacking) => Ok(UndecidedCause::new(UndecidedReason::LookupLacksOutput, lacking.to_string())),
            None => Err(error),
        }
    }

    /// The parts of an item that can be judged.
    fn parts_of(
        &self,
        read: &ItemReading<'_>,
        item: &IdentifiedItem<'_>,
        image: &Image<'static>,
    ) -> JudgedParts {
        let identity = item.candidates.in_state(image).filter(|_| read.item.is_some());
        let Some(identity) = identity else { return JudgedParts::default() };
        let aggregates =
            identity.entity.aggregates.iter().filter_map(|index| self.model.aggregates.get(*index));
        let mut measures = aggregates.flat_map(|aggregate| &aggregate.measures);
        JudgedParts {
            mirrors: count(mirrors_of(&self.model, identity).len()),
            extremes: u64::from(measures.any(|measure| measure.kind.function().is_extreme())),
            ..JudgedParts::default()
        }
    }

    /// The difference between an entry and what its item contributes.
    fn ledger_difference(
        &self,
        read: &ItemReading<'_>,
        projection: &ImageProjection,
        targets: &RollupTargets,
    ) -> Option<VerifyFinding> {
        let nothing = ItemContributions::NOTHING;
        let counted = read.entry.as_ref().map_or(&nothing, |entry| &entry.contributions);
        let found = (read.entry.as_ref(), read.item.as_ref());
        let life = FindingLife::of(&self.model, read.source, found, read.read_at);
        // A lost record may have been a change after which the item counted.
        let may_have_counted = matches!(life, Some(FindingLife::Vanished | FindingLife::Expired));
        if contribute_equally(&self.model, &projection.contributions, counted) && !may_have_counted {
            return None;
        }
        let subject = FindingSubject::Entry(FoundItem::of(&self.model, read.source), life);
        let mut finding = VerifyFinding::of(subject);
        finding.rev = entry_rev(read);
        finding.cause = self.ledger_cause(read, life);
        if life == Some(FindingLife::Expired) {
            return Some(finding);
        }
        let expected = self.flat(&projection.contributions, targets);
        let found = self.flat(counted, targets);
        for name in expected.keys().chain(found.keys()) {
            let value =
                ExpectedValue { expected: expected.get(name).cloned(), found: found.get(name).cloned() };
            if value.expected != value.found {
                finding.values.insert(name.clone(), value);
            }
        }
        Some(finding)
    }

    fn ledger_cause(&self, read: &ItemReading<'_>, life: Option<FindingLife>) -> Option<String> {
        let Some(entry) = &read.entry else {
            return Some("the item has no ledger entry: it was written before the stream was read, or its record was lost".to_owned());
        };
        if let Some(reason) = &entry.parked {
            return Some(format!("the item is parked ({reason})"));
        }
        if let Some(life) = life {
            return Some(life.cause().to_owned());
        }
        if entry.fingerprint != *self.model.fingerprint() {
            return Some(format!(
                "another model counted the item (generation {}): run `afterwrite backfill`",
                entry.generation
            ));
        }
        read.item.is_none().then(|| "the item does not exist: the record of its deletion was lost".to_owned())
    }

    /// Contributions to the model's aggregates by `PK / SK / measure`.
    fn flat(&self, contributions: &ItemContributions, targets: &RollupTargets) -> BTreeMap<String, String> {
        let mut flat: BTreeMap<String, Decimal> = BTreeMap::new();
        let known =
            contributions.by_aggregate.iter().filter(|contribution| has_aggregate(&self.model, contribution));
        for contribution in known {
            for target in contribution.targets.iter().map(|id| targets.get(*id)) {
                for (measure, number) in &contribution.measures {
                    let name = format!("{} / {} / {measure}", target.partition_key(), target.sort);
                    let known = flat.entry(name).or_insert(Decimal::ZERO);
                    *known = known.plus_unlimited(number);
                }
            }
        }
        flat.into_iter().map(|(name, number)| (name, number.to_string())).collect()
    }
}

impl ItemJudgement {
    fn unknown(cause: UndecidedCause) -> Self {
        Self { undecided: Some(cause), ..Self::default() }
    }

    /// The judgement of an item with these parts.
    fn of_parts(self, all: JudgedParts) -> Self {
        Self { parts: self.parts.of(all), ..self }
    }

    /// Whether a record in flight may change it.
    pub(crate) fn awaits_records(&self) -> bool {
        self.undecided.as_ref().is_none_or(|cause| match cause.reason {
            UndecidedReason::Changed
            | UndecidedReason::OutOfTime
            | UndecidedReason::IncompleteLog
            | UndecidedReason::NoHeartbeat
            | UndecidedReason::LookupNotRemembered
            | UndecidedReason::UnreadableLedger => true,
            // It stays until the item, the model or the ledger is changed.
            UndecidedReason::LookupLacksOutput
            | UndecidedReason::Uncountable
            | UndecidedReason::UnseenValue
            | UndecidedReason::Foreign
            | UndecidedReason::NotComparable => false,
        })
    }

    /// Whether everything is right.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.differences.is_empty() && self.undecided.is_none()
    }
}

fn entry_rev(read: &ItemReading<'_>) -> Option<String> {
    read.entry.as_ref().map(|entry| entry.rev.to_string())
}
