//! `max` and `min` cover the items that count into them.

use afterwrite_ledger::StateItems;
use afterwrite_ledger::tables::Tables;
use afterwrite_model::Result;
use afterwrite_model::effect::ItemKey;
use afterwrite_model::projection::{ExtremeRule, ExtremeValue, RollupTargets};
use afterwrite_model::record::{AttributeValue, Timestamp};

use super::finding::{ExpectedValue, VerifyFinding};
use super::sums::text_of;

/// The values of an item that rollups must cover.
pub(super) struct ItemExtremes<'e> {
    /// The values.
    pub(super) values: &'e [ExtremeValue],
    /// The rollups. A rollup that has expired, or expires soon, is not judged.
    pub(super) targets: &'e RollupTargets,
    /// When the item was read.
    pub(super) read_at: Timestamp,
    /// The finding about one of them, without its values.
    pub(super) finding: VerifyFinding,
}

impl ItemExtremes<'_> {
    /// The values that the rollups do not cover.
    ///
    /// # Errors
    /// As [`Tables::read`].
    pub(super) async fn differences(
        &self,
        state: &StateItems,
        tables: &impl Tables,
    ) -> Result<Vec<VerifyFinding>> {
        let judged_until = self.read_at.plus(StateItems::CLOCK_TOLERANCE);
        let keyed = self.values.iter().filter_map(|extreme| {
            let target = self.targets.get(extreme.target);
            let is_live = target.expires_at.is_none_or(|expires_at| expires_at > judged_until);
            Some((extreme, state.rollup_key(target).filter(|_| is_live)?))
        });
        let keyed: Vec<(&ExtremeValue, ItemKey)> = keyed.collect();
        let keys: Vec<ItemKey> = keyed.iter().map(|(_, key)| key.clone()).collect();
        let stored = if keys.is_empty() { Vec::new() } else { tables.read(&keys).await?.items };
        let mut findings = Vec::new();
        for ((extreme, key), stored) in keyed.iter().zip(stored) {
            let found = stored.as_ref().and_then(|item| item.get(&*extreme.measure));
            if found.is_some_and(|found| covers(extreme, found)) {
                continue;
            }
            let name = format!("{} / {}", key_text(key), extreme.measure);
            let value = ExpectedValue { expected: Some(text_of(&extreme.value)), found: found.map(text_of) };
            findings.push(VerifyFinding { values: [(name, value)].into(), ..self.finding.clone() });
        }
        Ok(findings)
    }
}

/// Whether a stored `max` or `min` takes an item's value into account.
fn covers(extreme: &ExtremeValue, stored: &AttributeValue<'_>) -> bool {
    let order = match (extreme.value.as_number(), stored.as_number()) {
        (Some(new), Some(known)) => new.cmp(known),
        _ => match (extreme.value.as_text(), stored.as_text()) {
            (Some(new), Some(known)) => new.cmp(known),
            _ => return false,
        },
    };
    match extreme.rule {
        ExtremeRule::Largest => order.is_le(),
        ExtremeRule::Smallest => order.is_ge(),
    }
}

fn key_text(key: &ItemKey) -> String {
    let texts = std::iter::once(&key.partition).chain(&key.sort).map(|attribute| text_of(&attribute.value));
    texts.collect::<Vec<_>>().join(" / ")
}
