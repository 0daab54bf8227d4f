//! Mirrors = rollups: the judgement of the copies on an item.

use afterwrite_ledger::tables::Tables;
use afterwrite_model::Result;
use afterwrite_model::effect::ItemKey;
use afterwrite_model::entity::ItemIdentity;
use afterwrite_model::projection::{ImageScope, KnownLookups as _, RollupTargets, TargetKey, attribute};
use afterwrite_model::record::{Decimal, Image};
use afterwrite_model::table::{Mirror, Rollup};

use super::finding::{ExpectedValue, FindingPlace, VerifyFinding};
use super::items::{ItemJudge, ReadItem, entry_rev};
use super::sums::text_of;
use crate::items::IdentifiedItem;
use crate::projector::RememberedOutputs;

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

impl<T: Tables> ItemJudge<T> {
    /// Compares the copies on an item with their rollups. A rollup is read before and after the item's copy is compared.
    pub(super) async fn judge_mirrors(
        &self,
        read: &ReadItem<'_>,
        item: &IdentifiedItem<'_>,
        image: &Image<'static>,
        outputs: &RememberedOutputs,
    ) -> Result<JudgedMirrors> {
        let mut judged = JudgedMirrors::default();
        let Some(identity) = item.candidates.in_state(image) else { return Ok(judged) };
        for mirror in self.mirrors_of(identity) {
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
            let mut finding = VerifyFinding::of_source(FindingPlace::Mirror, &self.model, read.source);
            // A copy also changes with the item itself, which its entry shows.
            let revs = [stored.as_ref().and_then(|item| item.get("rev")).map(text_of), entry_rev(read)];
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

    pub(super) fn mirrors_of(&self, identity: &ItemIdentity<'_, '_>) -> Vec<&Mirror> {
        let indexes = &identity.entity.mirrors;
        indexes.iter().filter_map(|index| self.model.mirrors.get(*index)).collect()
    }

    /// The rollup that an item shows.
    fn mirrored_rollup(
        &self,
        (mirror, rollup): (&Mirror, &Rollup),
        identity: &ItemIdentity<'_, '_>,
        image: &Image<'static>,
        outputs: &RememberedOutputs,
    ) -> MirroredRollup {
        let without_outputs = ImageScope::of(&self.model, identity, image);
        let known: Vec<_> = match &mirror.lookup {
            Some(used) => {
                let Ok(lookup) = without_outputs.lookup_key(used) else { return MirroredRollup::None };
                let Some(known) = outputs.outputs(&lookup) else { return MirroredRollup::UnknownLookup };
                vec![known]
            }
            None => Vec::new(),
        };
        let scope = ImageScope { outputs: &known, ..without_outputs };
        let Ok((partition, sort)) = scope.mirrored_key(mirror, rollup) else { return MirroredRollup::None };
        let mut targets = RollupTargets::of(&self.model);
        let key = TargetKey { partition: &partition, sort: &sort, shard: None };
        let id = targets.intern(mirror.from, key, None);
        self.state.rollup_key(targets.get(id)).map_or(MirroredRollup::None, MirroredRollup::Key)
    }
}
