//! The effect of an action on a stored item, by DynamoDB's rules for update expressions and values.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::AttributeChange;
use super::condition::attribute;
use crate::record::{AttributePath, AttributeValue, Item};

/// DynamoDB's limit on the nesting of maps and lists.
const MAX_NESTING: usize = 32;

/// Why an update can never succeed on the stored item; the text contains nothing of the item.
pub type InvalidUpdate = &'static str;

const PATH: InvalidUpdate = "the document path of an update does not lead through maps that are there";
const OVERLAP: InvalidUpdate = "two paths of one update overlap";
const NOT_A_NUMBER: InvalidUpdate = "an ADD to an attribute that is not a number";
const OVERFLOW: InvalidUpdate = "an ADD whose sum is beyond DynamoDB's numbers";
const EMPTY_SET: InvalidUpdate = "a set without members";
const DUPLICATE: InvalidUpdate = "a set with a repeated member";
const NESTING: InvalidUpdate = "maps and lists more than 32 levels deep";
const EMPTY_NAME: InvalidUpdate = "an attribute without a name";

/// Rejects an update that is invalid for every item.
///
/// # Errors
/// A path without a name, or two paths that overlap.
pub fn check_paths(changes: &[AttributeChange]) -> Result<(), InvalidUpdate> {
    let paths: Vec<&AttributePath> = changes.iter().map(path_of).collect();
    if paths.iter().any(|path| path.names().iter().any(|name| name.is_empty())) {
        return Err(EMPTY_NAME);
    }
    for (position, one) in paths.iter().enumerate() {
        if paths.iter().skip(position + 1).any(|other| one.overlaps(other)) {
            return Err(OVERLAP);
        }
    }
    Ok(())
}

/// The path that a change concerns.
#[must_use]
pub fn path_of(change: &AttributeChange) -> &AttributePath {
    match change {
        AttributeChange::Set(path, _) | AttributeChange::Add(path, _) | AttributeChange::Remove(path) => path,
    }
}

/// The values that the changes set, as an item, so that they can be checked like one.
#[must_use]
pub fn values(changes: &[AttributeChange]) -> Item {
    let set = changes.iter().enumerate().filter_map(|(position, change)| match change {
        AttributeChange::Set(_, value) => Some((Cow::Owned(position.to_string()), value.clone())),
        AttributeChange::Add(..) | AttributeChange::Remove(_) => None,
    });
    set.collect()
}

/// The item after the changes, each of which sees the item as it was before the update.
///
/// # Errors
/// A path that does not lead through maps, an `ADD` to another type than a number, a sum that is beyond DynamoDB's numbers.
pub fn updated(mut item: Item, changes: &[AttributeChange]) -> Result<Item, InvalidUpdate> {
    for change in changes {
        match change {
            AttributeChange::Set(path, value) => place(&mut item, path, value.clone())?,
            AttributeChange::Add(path, addend) => {
                let sum = match attribute(Some(&item), path) {
                    None => addend.clone(),
                    Some(AttributeValue::N(number)) => number.plus(addend).map_err(|_| OVERFLOW)?,
                    Some(_) => return Err(NOT_A_NUMBER),
                };
                place(&mut item, path, AttributeValue::N(sum))?;
            }
            AttributeChange::Remove(path) => remove(&mut item, path)?,
        }
    }
    Ok(item)
}

fn place(item: &mut Item, path: &AttributePath, value: AttributeValue<'static>) -> Result<(), InvalidUpdate> {
    let (last, parent) = parent_of(item, path)?;
    parent.insert(Cow::Owned(last.to_string()), value);
    Ok(())
}

fn remove(item: &mut Item, path: &AttributePath) -> Result<(), InvalidUpdate> {
    let (last, parent) = parent_of(item, path)?;
    parent.remove(&**last);
    Ok(())
}

/// The map that contains the path's last name: the item itself, or an existing map in it.
fn parent_of<'i, 'p>(
    item: &'i mut Item,
    path: &'p AttributePath,
) -> Result<(&'p Arc<str>, &'i mut Item), InvalidUpdate> {
    let mut parent: &mut BTreeMap<_, _> = item;
    let mut last = path.root();
    for name in path.within() {
        let Some(AttributeValue::M(map)) = parent.get_mut(&**last) else { return Err(PATH) };
        parent = map;
        last = name;
    }
    Ok((last, parent))
}

/// Rejects what DynamoDB cannot store, and sorts sets: they have no order, and equal sets then compare equal.
///
/// # Errors
/// An attribute without a name, an empty set or one with a repeated member, maps and lists that are nested too deeply.
pub fn normalized(item: &mut Item) -> Result<(), InvalidUpdate> {
    if item.keys().any(|name| name.is_empty()) {
        return Err(EMPTY_NAME);
    }
    item.values_mut().try_for_each(|value| normalize(value, 0))
}

fn normalize(value: &mut AttributeValue<'static>, depth: usize) -> Result<(), InvalidUpdate> {
    match value {
        AttributeValue::M(map) => {
            if depth >= MAX_NESTING {
                return Err(NESTING);
            }
            map.values_mut().try_for_each(|value| normalize(value, depth + 1))
        }
        AttributeValue::L(list) => {
            if depth >= MAX_NESTING {
                return Err(NESTING);
            }
            list.iter_mut().try_for_each(|value| normalize(value, depth + 1))
        }
        AttributeValue::Ss(set) => normalize_set(set),
        AttributeValue::Ns(set) => normalize_set(set),
        AttributeValue::Bs(set) => normalize_set(set),
        AttributeValue::S(_)
        | AttributeValue::N(_)
        | AttributeValue::B(_)
        | AttributeValue::Bool(_)
        | AttributeValue::Null => Ok(()),
    }
}

fn normalize_set<T: Ord>(set: &mut [T]) -> Result<(), InvalidUpdate> {
    set.sort_unstable();
    if set.is_empty() {
        return Err(EMPTY_SET);
    }
    if set.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
        return Err(DUPLICATE);
    }
    Ok(())
}
