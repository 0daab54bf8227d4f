//! The conditional writes that set copies on an item.

use std::collections::BTreeMap;

use afterwrite_model::effect::{AttributeChange, Write, WriteAction, WriteCondition, WriteRefusal};
use afterwrite_model::record::{AttributePath, AttributeValue, Item};
use afterwrite_model::table::{Mirror, MirroredAttribute};
use afterwrite_model::{Error, ErrorKind, Result};

use super::super::core::LedgerCore;
use super::super::requests::Requests;
use super::places::{MirrorPlaces, PlacedCopies};
use crate::tables::WriteError;

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

/// Writes copies.
pub(super) struct CopyWriter<'l> {
    pub(super) core: &'l LedgerCore,
    pub(super) requests: &'l Requests<'l>,
}

impl CopyWriter<'_> {
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
        placed: &PlacedCopies<'_>,
        together: &[MirrorCopy<'_>],
        is_nested: bool,
    ) -> Result<()> {
        let map = together.first().filter(|_| is_nested).map(|copy| &copy.attribute.path);
        let Some(item) = self.set_unless(copies_write(placed, together), placed, map).await? else {
            return Ok(());
        };
        // The item has newer copies, unless their revisions are of another rollup of this key: a table that was restored next
        // to a new state table, or a rollup that expired. A revision that the rollup has not reached when it is read
        // after the copy is not its own.
        let may_be_of_another = together.iter().any(|copy| is_ahead(copy, &placed.revision, &item));
        if !may_be_of_another || !placed.guards_hold(&item) {
            return Ok(());
        }
        let current = self.read_again(placed).await?;
        let of_another: Vec<_> =
            together.iter().copied().filter(|copy| is_ahead(copy, &current.revision, &item)).collect();
        if of_another.is_empty() {
            return Ok(());
        }
        self.disown(&current, &of_another, &item).await?;
        // The rollup may have reached their revision meanwhile, and another writer may have found the copies right at that
        // revision. So the rollup is read after they were disowned.
        let current = self.read_again(placed).await?;
        let paths: Vec<_> = together.iter().map(|copy| &copy.attribute.path).collect();
        let all: Vec<_> =
            self.copies(&current).filter(|copy| paths.contains(&&copy.attribute.path)).collect();
        self.set_unless(copies_write(&current, &all), placed, map).await.map(drop)
    }

    /// The same copies with the values and the revision of the rollup as it is now.
    async fn read_again<'m>(&self, placed: &PlacedCopies<'m>) -> Result<PlacedCopies<'m>> {
        let rollup = self.requests.read_one(&placed.rollup).await?;
        Ok(placed.read_again(
            MirrorPlaces { core: self.core }.mirror_values(placed.mirror, rollup.as_ref()),
            rollup.as_ref(),
        ))
    }

    /// Makes copies those of no rollup, if they still have the revisions that this state of the item has. Every writer replaces
    /// such copies.
    async fn disown(&self, placed: &PlacedCopies<'_>, copies: &[MirrorCopy<'_>], item: &Item) -> Result<()> {
        let write = disowning_write(placed, copies, item);
        match self.requests.write(&write).await {
            Ok(()) => Ok(()),
            Err(WriteError::Refused(WriteRefusal::Condition(None))) => Ok(()),
            Err(WriteError::Refused(WriteRefusal::Condition(Some(_)))) => {
                let message = "the item keeps changing while its mirrors are set";
                Err(Error::new(ErrorKind::Conflict, message).with("table", placed.key.table.as_ref()))
            }
            Err(error) => Err(self.requests.write_error(&write, error)),
        }
    }

    /// Sends a write of copies. If its condition does not hold, returns the item; `None` if there is nothing more to set.
    async fn set_unless(
        &self,
        write: Write,
        placed: &PlacedCopies<'_>,
        map: Option<&AttributePath>,
    ) -> Result<Option<Item>> {
        let mut result = self.requests.write(&write).await;
        if let (Err(WriteError::Refused(WriteRefusal::Invalid(_))), Some(path)) = (&result, map) {
            self.create_maps(placed, path).await?;
            result = self.requests.write(&write).await;
        }
        match result {
            Ok(()) => {
                self.requests.tally.mirrors.add(1);
                Ok(None)
            }
            Err(WriteError::Refused(WriteRefusal::Condition(item))) => Ok(item),
            Err(error) => Err(self.requests.write_error(&write, error)),
        }
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
            is_extreme: rollup.is_some_and(|rollup| rollup.has_extreme(&attribute.measure)),
        })
    }

    /// Creates the missing maps around a nested copy, outermost first, if the item exists.
    async fn create_maps(&self, placed: &PlacedCopies<'_>, copy: &AttributePath) -> Result<()> {
        for path in copy.maps() {
            let is_missing =
                placed.with_guards(vec![WriteCondition::ItemExists, WriteCondition::Absent(path.clone())]);
            let change = AttributeChange::Set(path, AttributeValue::M(BTreeMap::new()));
            let action = WriteAction::Update(vec![change]);
            let write = Write { key: placed.key.clone(), condition: is_missing, action };
            match self.requests.write(&write).await {
                // An attribute that exists and is not a map is rejected again when the copies are set; that error is
                // returned.
                Ok(()) | Err(WriteError::Refused(WriteRefusal::Condition(_) | WriteRefusal::Invalid(_))) => {}
                Err(error) => return Err(self.requests.write_error(&write, error)),
            }
        }
        Ok(())
    }

    /// The report about a mirror that an item cannot take. `key` has the texts of a key that names it.
    pub(super) fn unwritable<'k>(
        &self,
        mirror: &Mirror,
        key: impl Iterator<Item = &'k str>,
        cause: Error,
    ) -> Error {
        self.requests.tally.unwritable_mirrors.add(1);
        let message = "a mirror cannot be written: its item is counted, but does not show it";
        let mut error = Error::new(ErrorKind::Rejected, message)
            .with("entity", self.core.model.entity_name(mirror.onto))
            .hint("Make the attribute's place a map, or the item smaller. The next change of the rollup tries again");
        if self.core.names_keys {
            error = error.with("key", key.collect::<Vec<_>>().join(", "));
        }
        error.caused_by(cause)
    }
}

/// Whether the item has a copy with a revision that is greater than this one, or no number.
fn is_ahead(copy: &MirrorCopy<'_>, revision: &AttributeValue<'_>, item: &Item) -> bool {
    let Some(stored) = copy.attribute.revision_path.read(item) else { return false };
    match (stored.as_number(), revision.as_number()) {
        (Some(stored), Some(revision)) => stored > revision,
        _ => true,
    }
}

/// Sets the copies if the item exists and at least one copy is of another rollup, absent, older, or has another value at
/// the same revision. A copy of a `max` or `min` must also have another value.
fn copies_write(placed: &PlacedCopies<'_>, copies: &[MirrorCopy<'_>]) -> Write {
    let origin = AttributeValue::text(&*placed.origin);
    let mut stale = Vec::new();
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
    }
    let condition = placed.with_guards(vec![WriteCondition::ItemExists, WriteCondition::Any(stale)]);
    Write { key: placed.key.clone(), condition, action: set_copies(placed, copies) }
}

/// Removes the name of the copies' rollup if the copies still have the revisions that this state of the item has.
fn disowning_write(placed: &PlacedCopies<'_>, copies: &[MirrorCopy<'_>], item: &Item) -> Write {
    let revisions = copies.iter().map(|copy| &copy.attribute.revision_path);
    let unchanged = revisions.map(|path| WriteCondition::unchanged(path, item));
    let condition =
        placed.with_guards(std::iter::once(WriteCondition::ItemExists).chain(unchanged).collect());
    let origins = copies.iter().map(|copy| AttributeChange::Remove(copy.attribute.of_path.clone()));
    Write { key: placed.key.clone(), condition, action: WriteAction::Update(origins.collect()) }
}

fn set_copies(placed: &PlacedCopies<'_>, copies: &[MirrorCopy<'_>]) -> WriteAction {
    let origin = AttributeValue::text(&*placed.origin);
    let changes = copies.iter().flat_map(|MirrorCopy { attribute, value, .. }| {
        let MirroredAttribute { path, revision_path, of_path, .. } = attribute;
        [
            match value {
                Some(value) => AttributeChange::Set(path.clone(), (*value).clone()),
                None => AttributeChange::Remove(path.clone()),
            },
            AttributeChange::Set(revision_path.clone(), placed.revision.clone()),
            AttributeChange::Set(of_path.clone(), origin.clone()),
        ]
    });
    WriteAction::Update(changes.collect())
}
