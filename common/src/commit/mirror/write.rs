//! The conditional writes that set copies on an item.

use std::collections::BTreeMap;

use super::super::{InvocationContext, Ledger};
use crate::Result;
use crate::clock::Clock;
use crate::effect::{AttributeChange, ItemKey, Write, WriteAction, WriteCondition, WriteRefusal};
use crate::record::{AttributePath, AttributeValue};
use crate::sink::{Tables, WriteError};
use crate::table::{Mirror, MirroredAttribute};

/// A copy: the mirrored attribute, and its value unless it must be absent.
type MirrorCopy<'c> = (&'c MirroredAttribute, Option<&'c AttributeValue<'static>>);

impl<T: Tables, C: Clock> Ledger<T, C> {
    /// Sets the copies of one mirror on one item, unless the item does not exist or has newer copies.
    pub(super) async fn set_copies(
        &self,
        key: &ItemKey,
        mirror: &Mirror,
        values: &[Option<AttributeValue<'static>>],
        revision: &AttributeValue<'static>,
        invocation: &InvocationContext,
    ) -> Result<()> {
        let mut by_parent: BTreeMap<_, Vec<MirrorCopy<'_>>> = BTreeMap::new();
        for (shown, value) in mirror.attributes.iter().zip(values) {
            by_parent.entry(shown.path.parent()).or_default().push((shown, value.as_ref()));
        }
        for (parent, copies) in by_parent {
            let write = copies_write(key, &copies, revision);
            let mut result = self.write_retrying(&write, invocation).await;
            let nested = copies.first().filter(|_| parent.is_some()).map(|(shown, _)| &shown.path);
            if let (Err(WriteError::Refused(WriteRefusal::Invalid(_))), Some(path)) = (&result, nested) {
                self.create_maps(key, path, invocation).await?;
                result = self.write_retrying(&write, invocation).await;
            }
            match result {
                Ok(()) => invocation.tally.mirrors.add(1),
                Err(WriteError::Refused(WriteRefusal::Condition(_))) => {}
                Err(error) => return Err(self.write_error(&write, error)),
            }
        }
        Ok(())
    }

    /// Creates the missing maps around a nested copy, outermost first, if the item exists.
    async fn create_maps(
        &self,
        key: &ItemKey,
        copy: &AttributePath,
        invocation: &InvocationContext,
    ) -> Result<()> {
        for path in copy.maps() {
            let is_missing =
                WriteCondition::All(vec![WriteCondition::ItemExists, WriteCondition::Absent(path.clone())]);
            let change = AttributeChange::Set(path, AttributeValue::M(BTreeMap::new()));
            let action = WriteAction::Update(vec![change]);
            let write = Write { key: key.clone(), condition: is_missing, action };
            match self.write_retrying(&write, invocation).await {
                // An attribute that exists and is not a map is rejected again when the copies are set; that error is
                // returned.
                Ok(()) | Err(WriteError::Refused(WriteRefusal::Condition(_) | WriteRefusal::Invalid(_))) => {}
                Err(error) => return Err(self.write_error(&write, error)),
            }
        }
        Ok(())
    }
}

/// Sets the copies if the item exists and at least one copy is absent, older, or has another value at the same revision.
fn copies_write(key: &ItemKey, copies: &[MirrorCopy<'_>], revision: &AttributeValue<'static>) -> Write {
    let (mut stale, mut changes) = (Vec::new(), Vec::new());
    for (shown, value) in copies {
        let (path, revision_path) = (shown.path.clone(), shown.revision_path.clone());
        stale.push(WriteCondition::Absent(revision_path.clone()));
        stale.push(WriteCondition::Less(revision_path.clone(), revision.clone()));
        let differs = match value {
            Some(value) => WriteCondition::Any(vec![
                WriteCondition::Absent(path.clone()),
                WriteCondition::Differs(path.clone(), (*value).clone()),
            ]),
            // A copy is never NULL, so every present value differs.
            None => WriteCondition::Differs(path.clone(), AttributeValue::Null),
        };
        stale.push(WriteCondition::All(vec![
            WriteCondition::Equals(revision_path.clone(), revision.clone()),
            differs,
        ]));
        changes.push(match value {
            Some(value) => AttributeChange::Set(path, (*value).clone()),
            None => AttributeChange::Remove(path),
        });
        changes.push(AttributeChange::Set(revision_path, revision.clone()));
    }
    let condition = WriteCondition::All(vec![WriteCondition::ItemExists, WriteCondition::Any(stale)]);
    Write { key: key.clone(), condition, action: WriteAction::Update(changes) }
}
