//! The conditional writes that set copies on an item.

use std::collections::BTreeMap;

use super::super::requests::write_error;
use super::places::PlacedCopies;
use super::{MirrorRefresher, is_extreme_measure};
use crate::Result;
use crate::clock::Clock;
use crate::effect::{AttributeChange, ItemKey, Write, WriteAction, WriteCondition, WriteRefusal};
use crate::record::{AttributePath, AttributeValue, Item};
use crate::sink::{Tables, WriteError};
use crate::table::MirroredAttribute;

/// The most copies in one write. DynamoDB limits a condition to 300 operators and 4 KB; a copy has 19 operators.
const COPIES_AT_ONCE: usize = 10;
/// The most copies in one write, times the maps around them: each map makes their paths in the condition longer.
const DEEPEST_COPIES: usize = 80;

/// A copy: the mirrored attribute, its value unless it must be absent, and whether its value never returns.
#[derive(Clone, Copy)]
struct MirrorCopy<'c> {
    attribute: &'c MirroredAttribute,
    value: Option<&'c AttributeValue<'static>>,
    is_extreme: bool,
}

impl<T: Tables, C: Clock> MirrorRefresher<'_, T, C> {
    /// Sets the copies of one mirror on one item, unless the item does not exist or has newer copies.
    pub(super) async fn set_copies(&self, copies: &PlacedCopies<'_>) -> Result<()> {
        let mut by_parent: BTreeMap<_, Vec<MirrorCopy<'_>>> = BTreeMap::new();
        for copy in self.copies(copies) {
            by_parent.entry(copy.attribute.path.parent()).or_default().push(copy);
        }
        for (parent, nested) in by_parent {
            let at_once =
                parent.map_or(COPIES_AT_ONCE, |maps| COPIES_AT_ONCE.min(DEEPEST_COPIES / maps.len()));
            for together in nested.chunks(at_once.max(1)) {
                self.set_together(copies, together, parent.is_some()).await?;
            }
        }
        Ok(())
    }

    /// Sets copies that one write has room for, in one map.
    async fn set_together(
        &self,
        copies: &PlacedCopies<'_>,
        together: &[MirrorCopy<'_>],
        is_nested: bool,
    ) -> Result<()> {
        let write = copies_write(copies, together);
        let mut result = self.requests.write_retrying(&write).await;
        let path = together.first().filter(|_| is_nested).map(|copy| &copy.attribute.path);
        if let (Err(WriteError::Refused(WriteRefusal::Invalid(_))), Some(path)) = (&result, path) {
            self.create_maps(&copies.key, path).await?;
            result = self.requests.write_retrying(&write).await;
        }
        match result {
            Ok(()) => self.requests.tally.mirrors.add(1),
            Err(WriteError::Refused(WriteRefusal::Condition(_))) => {}
            Err(error) => return Err(write_error(&write, error)),
        }
        Ok(())
    }

    /// Whether the item shows these copies already.
    ///
    /// A sum of an older revision may be that of a writer who has not finished yet: even if the values are equal, the
    /// revision must be set, or that writer could put an older value over this one. An extreme never returns to an older
    /// value.
    pub(super) fn is_right(&self, copies: &PlacedCopies<'_>, item: &Item) -> bool {
        self.copies(copies).all(|MirrorCopy { attribute, value, is_extreme }| {
            let origin = attribute.of_path.read(item).and_then(AttributeValue::as_text);
            attribute.path.read(item) == value
                && origin == Some(&*copies.origin)
                && (is_extreme || attribute.revision_path.read(item) == Some(&copies.revision))
        })
    }

    fn copies<'c>(&'c self, copies: &'c PlacedCopies<'_>) -> impl Iterator<Item = MirrorCopy<'c>> {
        let rollup = self.core.model.rollups.get(copies.mirror.from);
        copies.mirror.attributes.iter().zip(&copies.values).map(move |(attribute, value)| MirrorCopy {
            attribute,
            value: value.as_ref(),
            is_extreme: rollup.is_some_and(|rollup| is_extreme_measure(rollup, &attribute.measure)),
        })
    }

    /// Creates the missing maps around a nested copy, outermost first, if the item exists.
    async fn create_maps(&self, key: &ItemKey, copy: &AttributePath) -> Result<()> {
        for path in copy.maps() {
            let is_missing =
                WriteCondition::All(vec![WriteCondition::ItemExists, WriteCondition::Absent(path.clone())]);
            let change = AttributeChange::Set(path, AttributeValue::M(BTreeMap::new()));
            let action = WriteAction::Update(vec![change]);
            let write = Write { key: key.clone(), condition: is_missing, action };
            match self.requests.write_retrying(&write).await {
                // An attribute that exists and is not a map is rejected again when the copies are set; that error is
                // returned.
                Ok(()) | Err(WriteError::Refused(WriteRefusal::Condition(_) | WriteRefusal::Invalid(_))) => {}
                Err(error) => return Err(write_error(&write, error)),
            }
        }
        Ok(())
    }
}

/// Sets the copies if the item exists and at least one copy is of another rollup, absent, older, or has another value at
/// the same revision. A copy of a `max` or `min` must also have another value.
fn copies_write(placed: &PlacedCopies<'_>, copies: &[MirrorCopy<'_>]) -> Write {
    let origin = AttributeValue::text(&*placed.origin);
    let (mut stale, mut changes) = (Vec::new(), Vec::new());
    for MirrorCopy { attribute, value, is_extreme } in copies {
        let MirroredAttribute { path, revision_path, of_path, .. } = attribute;
        let differs = match value {
            Some(value) => WriteCondition::Any(vec![
                WriteCondition::Absent(path.clone()),
                WriteCondition::Differs(path.clone(), (*value).clone()),
            ]),
            // A copy is never NULL, so every present value differs.
            None => WriteCondition::Differs(path.clone(), AttributeValue::Null),
        };
        stale.push(WriteCondition::Absent(of_path.clone()));
        stale.push(WriteCondition::Differs(of_path.clone(), origin.clone()));
        stale.push(WriteCondition::Absent(revision_path.clone()));
        let older = WriteCondition::Less(revision_path.clone(), placed.revision.clone());
        let same = WriteCondition::Equals(revision_path.clone(), placed.revision.clone());
        if *is_extreme {
            stale.push(WriteCondition::All(vec![WriteCondition::Any(vec![older, same]), differs]));
        } else {
            stale.extend([older, WriteCondition::All(vec![same, differs])]);
        }
        changes.push(match value {
            Some(value) => AttributeChange::Set(path.clone(), (*value).clone()),
            None => AttributeChange::Remove(path.clone()),
        });
        changes.push(AttributeChange::Set(revision_path.clone(), placed.revision.clone()));
        changes.push(AttributeChange::Set(of_path.clone(), origin.clone()));
    }
    let condition = WriteCondition::All(vec![WriteCondition::ItemExists, WriteCondition::Any(stale)]);
    Write { key: placed.key.clone(), condition, action: WriteAction::Update(changes) }
}
