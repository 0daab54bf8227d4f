//! Conditions and changes, evaluated as DynamoDB does.

use std::borrow::Cow;
use std::collections::BTreeMap;

use afterwrite::effect::{AttributeChange, WriteCondition};
use afterwrite::record::{AttributePath, AttributeValue, Item};

/// Whether a condition holds for the stored item.
pub(super) fn holds(condition: &WriteCondition, stored: Option<&Item>) -> bool {
    let read = |path: &AttributePath| stored.and_then(|item| path.read(item));
    match condition {
        WriteCondition::Always => true,
        WriteCondition::All(parts) => parts.iter().all(|part| holds(part, stored)),
        WriteCondition::Any(parts) => parts.iter().any(|part| holds(part, stored)),
        WriteCondition::ItemExists => stored.is_some(),
        WriteCondition::ItemAbsent => stored.is_none(),
        WriteCondition::Absent(path) => read(path).is_none(),
        WriteCondition::Equals(path, value) => read(path).is_some_and(|known| known == value),
        WriteCondition::Differs(path, value) => read(path).is_some_and(|known| known != value),
        WriteCondition::Less(path, value) => read(path).is_some_and(|known| is_less(known, value)),
    }
}

fn is_less(known: &AttributeValue<'_>, value: &AttributeValue<'_>) -> bool {
    match (known.as_number(), value.as_number()) {
        (Some(known), Some(value)) => known < value,
        _ => known.as_text().zip(value.as_text()).is_some_and(|(known, value)| known < value),
    }
}

/// The item after these changes, or why it cannot take them.
pub(super) fn apply_changes(mut item: Item, changes: &[AttributeChange]) -> Result<Item, &'static str> {
    for change in changes {
        match change {
            AttributeChange::Set(path, value) => set(&mut item, path, value.clone())?,
            AttributeChange::Add(path, number) => {
                let sum = match path.read(&item).map(AttributeValue::as_number) {
                    None => number.clone(),
                    Some(Some(known)) => {
                        known.plus(number).map_err(|_| "an ADD whose sum is beyond DynamoDB's numbers")?
                    }
                    Some(None) => return Err("an ADD to an attribute that is not a number"),
                };
                set(&mut item, path, sum.into())?;
            }
            AttributeChange::Remove(path) => {
                let (last, map) = map_of(&mut item, path)?;
                map.remove(last);
            }
        }
    }
    Ok(item)
}

fn set(item: &mut Item, path: &AttributePath, value: AttributeValue<'static>) -> Result<(), &'static str> {
    let (last, map) = map_of(item, path)?;
    map.insert(Cow::Owned(last.to_owned()), value);
    Ok(())
}

/// The map that holds the path's last name.
fn map_of<'i, 'p>(
    item: &'i mut Item,
    path: &'p AttributePath,
) -> Result<(&'p str, &'i mut Item), &'static str> {
    let (mut map, mut last): (&mut BTreeMap<_, _>, &str) = (item, path.root());
    for name in path.within() {
        let Some(AttributeValue::M(inner)) = map.get_mut(last) else {
            return Err("the document path of an update does not lead through maps that are there");
        };
        (map, last) = (inner, name);
    }
    Ok((last, map))
}
