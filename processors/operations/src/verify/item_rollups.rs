//! An item and its rollups: the mirrors on the item equal their rollups, and `max` and `min` cover the item.

use std::sync::Arc;

use afterwrite_ledger::StateItems;
use afterwrite_ledger::state::REV;
use afterwrite_ledger::tables::Tables;
use afterwrite_model::Result;
use afterwrite_model::effect::ItemKey;
use afterwrite_model::entity::ItemIdentity;
use afterwrite_model::projection::{
    ExtremeValue, ImageScope, KnownLookups as _, RollupTargets, TargetKey, attribute,
};
use afterwrite_model::record::{Decimal, Image, Timestamp};
use afterwrite_model::table::{Mirror, Model, Rollup};

use super::finding::{ExpectedValue, FindingSubject, FoundItem, VerifyFinding};
use super::sums::text_of;
use crate::projector::RememberedOutputs;

/// The mirrors and extremes of items, and how many of them could be judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JudgedParts {
    pub(crate) mirrors: u64,
    pub(crate) mirrors_judged: u64,
    /// Items of entities with `max` or `min`.
    pub(crate) extremes: u64,
    pub(crate) extremes_judged: u64,
}

impl JudgedParts {
    /// The parts that were judged, of all parts of an item.
    pub(crate) fn of(self, JudgedParts { mirrors, extremes, .. }: Self) -> Self {
        Self {
            mirrors,
            mirrors_judged: self.mirrors_judged.min(mirrors),
            extremes,
            extremes_judged: self.extremes_judged.min(extremes),
        }
    }

    /// The same together with the parts of another item.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            mirrors: self.mirrors + other.mirrors,
            mirrors_judged: self.mirrors_judged + other.mirrors_judged,
            extremes: self.extremes + other.extremes,
            extremes_judged: self.extremes_judged + other.extremes_judged,
        }
    }
}

/// Judges the rollups of one item.
pub(super) struct ItemRollups<'j, T> {
    pub(super) model: &'j Arc<Model>,
    pub(super) state: &'j StateItems,
    pub(super) tables: &'j T,
    /// The item.
    pub(super) item: FoundItem,
    /// The revision of its ledger entry.
    pub(super) entry_rev: Option<String>,
}

/// The judgement of the mirrors of one item.
#[derive(Debug, Default)]
pub(super) struct JudgedMirrors {
    pub(super) differences: Vec<VerifyFinding>,
    /// How many could be judged.
    pub(super) judged: u64,
}

/// The rollup that a mirror shows.
enum MirroredRollup {
    /// Its key.
    Key(ItemKey),
    /// None: the item lacks a variable of the key.
    None,
    /// The key depends on a lookup that is not remembered.
    UnknownLookup,
}

/// The mirrors of an entity.
pub(super) fn mirrors_of<'m>(model: &'m Model, identity: &ItemIdentity<'_, '_>) -> Vec<&'m Mirror> {
    identity.entity.mirrors.iter().filter_map(|index| model.mirrors.get(*index)).collect()
}

impl<T: Tables> ItemRollups<'_, T> {
    /// Compares the copies on an item with their rollups. A rollup is read after the item.
    pub(super) async fn judge_mirrors(
        &self,
        identity: &ItemIdentity<'_, '_>,
        image: &Image<'static>,
        outputs: &RememberedOutputs,
    ) -> Result<JudgedMirrors> {
        let mut judged = JudgedMirrors::default();
        for mirror in mirrors_of(self.model, identity) {
            let Some(rollup) = self.model.rollups.get(mirror.from) else { continue };
            let key = match self.mirrored_rollup((mirror, rollup), identity, image, outputs) {
                MirroredRollup::Key(key) => key,
                MirroredRollup::None => {
                    judged.judged += 1;
                    continue;
                }
                MirroredRollup::UnknownLookup => continue,
            };
            judged.judged += 1;
            let stored = self.tables.read(std::slice::from_ref(&key)).await?.items.pop().flatten();
            let mut finding = VerifyFinding::of(FindingSubject::Mirror(self.item.clone()));
            // A copy also changes with the item itself, which its entry shows.
            let rev = stored.as_ref().and_then(|item| item.get(REV)).map(text_of);
            let revs = [rev, self.entry_rev.clone()];
            finding.rev = Some(revs.map(Option::unwrap_or_default).join("/"));
            for shown in &mirror.attributes {
                let expected = stored.as_ref().and_then(|item| item.get(&*shown.measure)).cloned();
                let expected = expected
                    .or_else(|| (!rollup.has_computed(&shown.measure)).then_some(Decimal::ZERO.into()));
                let found = attribute(image, &shown.image);
                if expected.as_ref() != found {
                    let value =
                        ExpectedValue { expected: expected.as_ref().map(text_of), found: found.map(text_of) };
                    finding.values.insert(shown.path.to_string(), value);
                }
            }
            if !finding.values.is_empty() {
                judged.differences.push(finding);
            }
        }
        Ok(judged)
    }

    /// The rollup that an item shows.
    fn mirrored_rollup(
        &self,
        (mirror, rollup): (&Mirror, &Rollup),
        identity: &ItemIdentity<'_, '_>,
        image: &Image<'static>,
        outputs: &RememberedOutputs,
    ) -> MirroredRollup {
        let without_outputs = ImageScope::of(self.model, identity, image);
        let known: Vec<_> = match &mirror.lookup {
            Some(used) => {
                let Ok(lookup) = without_outputs.lookup_key(used) else { return MirroredRollup::None };
                let Some(known) = outputs.outputs(&lookup) else { return MirroredRollup::UnknownLookup };
                vec![known]
            }
            None => Vec::new(),
        };
        let scope = without_outputs.with_outputs(mirror.lookup.as_slice(), &known);
        let Ok((partition, sort)) = scope.mirrored_key(mirror, rollup) else { return MirroredRollup::None };
        let mut targets = RollupTargets::of(self.model);
        let key = TargetKey { partition: &partition, sort: &sort, shard: None };
        let id = targets.intern(mirror.from, key, None);
        self.state.rollup_key(targets.get(id)).map_or(MirroredRollup::None, MirroredRollup::Key)
    }

    /// The values that the rollups of an item do not cover. A rollup that has expired when the item is read, or expires soon after, is not
    /// judged.
    pub(super) async fn judge_extremes(
        &self,
        values: &[ExtremeValue],
        targets: &RollupTargets,
        read_at: Timestamp,
    ) -> Result<Vec<VerifyFinding>> {
        let judged_until = read_at.plus(StateItems::CLOCK_TOLERANCE);
        let keyed = values.iter().filter_map(|extreme| {
            let target = targets.get(extreme.target);
            let is_live = target.expires_at.is_none_or(|expires_at| expires_at > judged_until);
            Some((extreme, self.state.rollup_key(target).filter(|_| is_live)?))
        });
        let keyed: Vec<(&ExtremeValue, ItemKey)> = keyed.collect();
        let keys: Vec<ItemKey> = keyed.iter().map(|(_, key)| key.clone()).collect();
        let stored = if keys.is_empty() { Vec::new() } else { self.tables.read(&keys).await?.items };
        let mut findings = Vec::new();
        for ((extreme, key), stored) in keyed.iter().zip(stored) {
            let found = stored.as_ref().and_then(|item| item.get(&*extreme.measure));
            if found.is_some_and(|found| !extreme.rule.prefers(&extreme.value, found)) {
                continue;
            }
            let name = format!("{} / {}", key_text(key), extreme.measure);
            let value = ExpectedValue { expected: Some(text_of(&extreme.value)), found: found.map(text_of) };
            let mut finding = VerifyFinding::of(FindingSubject::Extreme(self.item.clone()));
            (finding.rev, finding.values) = (self.entry_rev.clone(), [(name, value)].into());
            findings.push(finding);
        }
        Ok(findings)
    }
}

fn key_text(key: &ItemKey) -> String {
    let texts = key.attributes().map(|attribute| text_of(&attribute.value));
    texts.collect::<Vec<_>>().join(" / ")
}
