//! The shares of an item: what the ledger has counted of it, what follows from it now, and the rollups' present totals; and the copies of
//! measures that it shows.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use afterwrite_ledger::state::{REV, stored_rollup_origin};
use afterwrite_model::Result;
use afterwrite_model::record::{AttributeValue, Decimal, Item};
use afterwrite_model::table::{Mirror, MirroredAttribute, Model};
use afterwrite_preview::explain::{Consequences, MirroredValue};

use super::reading::ItemReading;
use crate::links::rollup_link;
use crate::rollup::reads::RollupReads;
use crate::rollup::shape::value_text;
use crate::served::Served;
use crate::table::{Cell, PageTable, Verdict};

/// A rollup's key.
type Place = (String, String);

/// The shares of an item, by rollup and measure: as they are counted, and as they follow from the item.
#[derive(Debug, Default)]
struct ItemShares {
    counted: BTreeMap<(Place, String), Decimal>,
    /// A number, or a bound of `max` or `min`.
    now: BTreeMap<(Place, String), String>,
}

impl ItemShares {
    fn of(reading: &ItemReading) -> Self {
        let mut shares = Self::default();
        let counted = reading.entry.stored().map(|entry| &entry.contributions.by_aggregate);
        for contribution in counted.into_iter().flatten() {
            for id in &contribution.targets {
                let target = reading.targets.get(*id);
                let place = (target.partition_key(), target.sort.to_string());
                for (measure, number) in &contribution.measures {
                    let share = shares.counted.entry((place.clone(), measure.to_string()));
                    let share = share.or_insert(Decimal::ZERO);
                    *share = share.plus_unlimited(number);
                }
            }
        }
        for counted in reading.consequences.iter().flat_map(|found| &found.counted) {
            let place = (counted.partition.clone(), counted.sort.clone());
            for (measure, share) in counted.measures.iter() {
                add_share(&mut shares.now, (place.clone(), measure.clone()), share);
            }
        }
        shares
    }

    fn places(&self) -> BTreeSet<Place> {
        let keys = self.counted.keys().chain(self.now.keys());
        keys.map(|(place, _)| place.clone()).collect()
    }

    fn measures(&self) -> BTreeSet<(Place, String)> {
        self.counted.keys().chain(self.now.keys()).cloned().collect()
    }
}

/// Adds a share such as `+5` or `at least 7`. Two aggregates can count one item into one measure.
fn add_share(shares: &mut BTreeMap<(Place, String), String>, key: (Place, String), share: &str) {
    let number = |text: &str| text.trim_start_matches('+').parse::<Decimal>().ok();
    let text = share.trim_start_matches('+').to_owned();
    let known = shares.entry(key).or_default();
    *known = match (number(known), number(share)) {
        (Some(known), Some(number)) => known.plus_unlimited(&number).to_string(),
        _ => text,
    };
}

/// The rollups into which the item counts, with its shares and their present totals.
pub(super) async fn share_table(served: &Served, reading: &ItemReading) -> Result<PageTable> {
    let columns = ["PK", "SK", "measure", "counted", "of the item now", "total now", "comparison"];
    let if_empty = match (&reading.item, &reading.consequences) {
        (Some(_), Some(found)) if found.problems.is_empty() && found.left_out.is_empty() => {
            "The item counts into no rollup."
        }
        (Some(_), Some(found)) if found.problems.is_empty() => {
            "The item counts into no rollup. Left out, below, has the conditions that it does not meet."
        }
        _ => "Nothing of the item is counted.",
    };
    let mut table = PageTable::new("shares", &columns, if_empty);
    let shares = ItemShares::of(reading);
    let places: Vec<Place> = shares.places().into_iter().collect();
    let stored = RollupReads(&served.context).stored(&places).await?;
    let totals: BTreeMap<&Place, Option<Item>> = places.iter().zip(stored).collect();
    for key in shares.measures() {
        let (place, measure) = &key;
        let total = totals.get(place).and_then(Option::as_ref).and_then(|item| item.get(measure.as_str()));
        let (counted, now) = (shares.counted.get(&key), shares.now.get(&key));
        table.rows.push(vec![
            Cell::link(&place.0, rollup_link(&place.0, &place.1)),
            Cell::code(&place.1),
            Cell::code(measure),
            counted.map_or(Cell::Empty, Cell::number),
            now.map_or(Cell::Empty, |now| share_cell(now)),
            total.map_or(Cell::Empty, |total| share_cell(&value_text(total))),
            comparison(counted, now, totals.get(place).is_some_and(Option::is_some)),
        ]);
    }
    Ok(table)
}

fn share_cell(text: &str) -> Cell {
    if text.parse::<Decimal>().is_ok() { Cell::number(text) } else { Cell::text(text) }
}

/// How the counted share compares with that of the item now. A share of a rollup that is not stored is in no total.
fn comparison(counted: Option<&Decimal>, now: Option<&String>, is_stored: bool) -> Cell {
    let share = now.and_then(|now| now.parse::<Decimal>().ok());
    match (counted, now, share) {
        (Some(counted), _, Some(share)) if *counted == share && !is_stored && !share.is_zero() => {
            Cell::Verdict(
                Verdict::Warning,
                "counted, but the rollup is not stored: it has expired, or was deleted".to_owned(),
            )
        }
        (Some(counted), _, Some(share)) if *counted == share => {
            Cell::Verdict(Verdict::Good, "counted".to_owned())
        }
        // A value for `max` or `min` is not in the ledger.
        (None, Some(_), None) => Cell::Empty,
        (None, _, Some(_)) => Cell::Verdict(Verdict::Warning, "not counted yet".to_owned()),
        (Some(_), None, _) => Cell::Verdict(Verdict::Warning, "counted, and not of the item now".to_owned()),
        _ => Cell::Verdict(
            Verdict::Warning,
            "differs: a change is in flight, or see `afterwrite verify`".to_owned(),
        ),
    }
}

/// The copies of measures that the item shows, beside their rollups.
pub(super) async fn mirror_table(served: &Served, item: &Item, found: &Consequences) -> Result<PageTable> {
    let columns = [
        "attribute",
        "measure",
        "PK",
        "SK",
        "on the item",
        "of the rollup",
        "rev on the item",
        "rev of the rollup",
        "copy of",
        "comparison",
    ];
    let mut table = PageTable::new("mirrors", &columns, "The item shows no measure.");
    let places: BTreeSet<Place> =
        found.shows.iter().map(|shown| (shown.partition.clone(), shown.sort.clone())).collect();
    let places: Vec<Place> = places.into_iter().collect();
    let stored = RollupReads(&served.context).stored(&places).await?;
    let rollups: BTreeMap<&Place, Option<Item>> = places.iter().zip(stored).collect();
    for shown in &found.shows {
        let place = (shown.partition.clone(), shown.sort.clone());
        let rollup = rollups.get(&place).and_then(Option::as_ref);
        if let Some(copy) = mirrored(served.context.model(), found, &shown.attribute) {
            table.rows.push(mirror_row(served.context.model(), copy, (shown, item), rollup));
        }
    }
    Ok(table)
}

/// A copy beside its rollup. A count or a sum that is not stored is 0.
fn mirror_row(
    model: &Model,
    (mirror, attribute): (&Mirror, &MirroredAttribute),
    (shown, item): (&MirroredValue, &Item),
    rollup: Option<&Item>,
) -> Vec<Cell> {
    let declared = model.rollups.get(mirror.from);
    let is_sum = declared.is_some_and(|declared| !declared.has_computed(&attribute.measure));
    let of_rollup = rollup.and_then(|rollup| rollup.get(&*attribute.measure)).cloned();
    let of_rollup = of_rollup.or_else(|| is_sum.then_some(AttributeValue::N(Decimal::ZERO)));
    let of_item = attribute.path.read(item);
    let origin =
        CopyOrigin::of(attribute.of_path.read(item), &stored_rollup_origin(&shown.partition, &shown.sort));
    let number = |value: Option<&AttributeValue<'_>>| value.and_then(AttributeValue::as_number).cloned();
    let copied_at = number(attribute.revision_path.read(item));
    let revision = number(rollup.and_then(|rollup| rollup.get(REV))).unwrap_or(Decimal::ZERO);
    let (verdict, comparison) =
        copy_verdict(origin, of_item == of_rollup.as_ref(), (copied_at.as_ref(), &revision));
    let text = |value: Option<&AttributeValue<'_>>| {
        value.map_or(Cell::Empty, |value| share_cell(&value_text(value)))
    };
    vec![
        Cell::code(&shown.attribute),
        Cell::code(&shown.measure),
        Cell::link(&shown.partition, rollup_link(&shown.partition, &shown.sort)),
        Cell::code(&shown.sort),
        text(of_item),
        text(of_rollup.as_ref()),
        text(attribute.revision_path.read(item)),
        text(rollup.and_then(|rollup| rollup.get(REV))),
        Cell::text(origin.text()),
        Cell::Verdict(verdict, comparison.to_owned()),
    ]
}

/// The rollup that a copy names, in `<attribute>_of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyOrigin {
    /// The item has no copy yet, or a copy of no rollup.
    Nothing,
    /// The item's own rollup.
    Own,
    /// Another rollup: an application has copied the item with all of its attributes, or the key of its rollup has changed.
    Another,
}

impl CopyOrigin {
    fn of(stored: Option<&AttributeValue<'_>>, own: &str) -> Self {
        match stored.map(AttributeValue::as_text) {
            None => Self::Nothing,
            Some(Some(origin)) if origin == own => Self::Own,
            Some(Some(_) | None) => Self::Another,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Nothing => "no rollup",
            Self::Own => "this rollup",
            Self::Another => "another rollup",
        }
    }
}

/// How a copy compares with its rollup, of which `revision` was read after the item. The copy of a `max` or `min` keeps an older revision while
/// its value is equal.
fn copy_verdict(
    origin: CopyOrigin,
    is_equal: bool,
    (copied_at, revision): (Option<&Decimal>, &Decimal),
) -> (Verdict, &'static str) {
    match (origin, copied_at.map(|copied_at| copied_at.cmp(revision))) {
        (CopyOrigin::Nothing, _) | (CopyOrigin::Own, None) => {
            (Verdict::Warning, "not copied yet: the copy follows within seconds")
        }
        (CopyOrigin::Another, _) => {
            (Verdict::Warning, "of another rollup: the own copy follows within seconds")
        }
        (CopyOrigin::Own, Some(Ordering::Greater)) => (
            Verdict::Bad,
            "the rollup has not reached the copy's revision: it was deleted or restored, and its next change sets the copy",
        ),
        (CopyOrigin::Own, Some(Ordering::Less | Ordering::Equal)) if is_equal => (Verdict::Good, "equal"),
        (CopyOrigin::Own, Some(Ordering::Less)) => (
            Verdict::Warning,
            "differs: the copy is older. The new one follows within seconds, or `afterwrite verify` finds the difference",
        ),
        (CopyOrigin::Own, Some(Ordering::Equal)) => (
            Verdict::Bad,
            "differs at the same revision: another program has changed one of them. `afterwrite verify` shows which, `afterwrite repair` mends it",
        ),
    }
}

/// The mirror of the item's entity that sets an attribute.
fn mirrored<'m>(
    model: &'m Model,
    found: &Consequences,
    path: &str,
) -> Option<(&'m Mirror, &'m MirroredAttribute)> {
    let entity = model.entities.iter().find(|entity| *entity.name == *found.entity)?;
    let mirrors = entity.mirrors.iter().filter_map(|index| model.mirrors.get(*index));
    let attributes =
        mirrors.flat_map(|mirror| mirror.attributes.iter().map(move |attribute| (mirror, attribute)));
    attributes.into_iter().find(|(_, attribute)| attribute.path.to_string() == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counted_share_is_fine_only_if_its_rollup_is_stored() {
        let verdict = |counted: Option<i64>, now: &str, is_stored| {
            let compared = comparison(counted.map(Decimal::from).as_ref(), Some(&now.to_owned()), is_stored);
            if let Cell::Verdict(verdict, _) = compared { Some(verdict) } else { None }
        };
        assert_eq!(verdict(Some(1), "1", true), Some(Verdict::Good));
        assert_eq!(verdict(Some(1), "1", false), Some(Verdict::Warning), "no total has it");
        assert_eq!(verdict(Some(0), "0", false), Some(Verdict::Good), "0 needs no rollup");
        assert_eq!(verdict(None, "1", false), Some(Verdict::Warning));
    }

    #[test]
    fn a_copy_is_judged_by_its_rollup_its_revision_and_its_value() {
        let revision = |number: i64| Decimal::from(number);
        let verdict = |origin, is_equal, copied_at: Option<i64>| {
            copy_verdict(origin, is_equal, (copied_at.map(revision).as_ref(), &revision(5))).0
        };
        for (origin, is_equal, copied_at, expected) in [
            (CopyOrigin::Own, true, Some(5), Verdict::Good),
            (CopyOrigin::Own, true, Some(4), Verdict::Good),
            (CopyOrigin::Own, false, Some(4), Verdict::Warning),
            (CopyOrigin::Own, false, Some(5), Verdict::Bad),
            (CopyOrigin::Own, true, Some(6), Verdict::Bad),
            (CopyOrigin::Own, true, None, Verdict::Warning),
            (CopyOrigin::Another, true, Some(5), Verdict::Warning),
            (CopyOrigin::Nothing, false, None, Verdict::Warning),
        ] {
            assert_eq!(verdict(origin, is_equal, copied_at), expected, "{origin:?} {is_equal} {copied_at:?}");
        }
        let own = AttributeValue::text("a1");
        assert_eq!(CopyOrigin::of(Some(&own), "a1"), CopyOrigin::Own);
        assert_eq!(CopyOrigin::of(Some(&own), "b2"), CopyOrigin::Another);
        assert_eq!(CopyOrigin::of(None, "b2"), CopyOrigin::Nothing);
    }
}
