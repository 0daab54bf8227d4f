//! A remembered lookup: the first outputs of a lookup, and the other keys at which the looked-up item has been seen.

use std::borrow::Cow;
use std::sync::Arc;

use afterwrite_model::effect::{AttributeChange, ItemKey, Write, WriteAction, WriteCondition};
use afterwrite_model::projection::{LookupKey, LookupOutputs, MAX_PARTITION_KEY};
use afterwrite_model::record::{AttributePath, AttributeValue, Item};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};

use super::{LOOKUP_PREFIX, LOOKUP_TYPE, NO_SORT_KEY, StateKeys, item_of_type, natural_key, not_in_model};

/// The outputs, by name.
pub const OUTPUTS: &str = "gives";
/// The prefix of the attributes that note another key of the looked-up item.
const SEEN_AT: &str = "seen_at#";

/// The outputs of a lookup, shared by the items that need them.
pub(crate) type SharedOutputs = Arc<LookupOutputs>;

/// A lookup, as far as its result is remembered.
#[derive(Clone, Debug, PartialEq)]
pub enum RememberedLookup {
    /// It is not remembered.
    Nothing,
    /// An earlier model has remembered it, without these outputs that the model declares.
    Lacking(Vec<Arc<str>>),
    /// Its outputs.
    Outputs(Arc<LookupOutputs>),
}

impl RememberedLookup {
    /// The key of a remembered lookup.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if the model has no such lookup.
    pub(crate) fn key(keys: &StateKeys, model: &Model, lookup_key: &LookupKey<'_>) -> Result<ItemKey> {
        let lookup = model.lookups.get(lookup_key.lookup).ok_or_else(|| not_in_model("lookup"))?;
        let partition = [LOOKUP_PREFIX, &lookup.name, "#", &lookup_key.key].concat();
        Ok(keys.key(natural_key(partition, MAX_PARTITION_KEY), NO_SORT_KEY.to_owned()))
    }

    /// Reads the stored item of a lookup.
    pub(crate) fn decode(model: &Model, key: &LookupKey<'_>, stored: Option<&Item>) -> Self {
        match stored.map(|item| stored_outputs(model, key, item)) {
            None => Self::Nothing,
            Some(Ok(outputs)) => Self::Outputs(outputs),
            Some(Err(lacking)) => Self::Lacking(lacking),
        }
    }

    /// The outputs of a stored lookup.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if it lacks an output that the model declares.
    pub(crate) fn outputs(model: &Model, key: &LookupKey<'_>, item: &Item) -> Result<SharedOutputs> {
        stored_outputs(model, key, item).map_err(|lacking| lacking_outputs(model, key, &lacking))
    }

    /// The write that remembers the outputs of a lookup, unless it is remembered already.
    ///
    /// # Errors
    /// As [`RememberedLookup::key`].
    pub(crate) fn write(
        keys: &StateKeys,
        model: &Model,
        lookup_key: &LookupKey<'_>,
        outputs: &[AttributeValue<'static>],
    ) -> Result<Write> {
        let mut item = item_of_type(LOOKUP_TYPE);
        item.insert(Cow::Borrowed(OUTPUTS), outputs_by_name(model, lookup_key, outputs));
        Ok(Write {
            key: Self::key(keys, model, lookup_key)?,
            condition: WriteCondition::ItemAbsent,
            action: WriteAction::Put(item),
        })
    }

    /// The write that replaces remembered outputs which differ from these.
    ///
    /// # Errors
    /// As [`RememberedLookup::key`].
    pub(crate) fn replacement(
        keys: &StateKeys,
        model: &Model,
        lookup_key: &LookupKey<'_>,
        outputs: &[AttributeValue<'static>],
    ) -> Result<Write> {
        let by_name = outputs_by_name(model, lookup_key, outputs);
        let path = AttributePath::from(OUTPUTS);
        Ok(Write {
            key: Self::key(keys, model, lookup_key)?,
            condition: WriteCondition::Differs(path.clone(), by_name.clone()),
            action: WriteAction::Update(vec![AttributeChange::Set(path, by_name)]),
        })
    }

    /// The write that notes another key of the looked-up item: its texts, at most two.
    pub(crate) fn place_note(key: ItemKey, place: &[&str]) -> Write {
        let name = format!("{SEEN_AT}{}", place.join("#"));
        let texts = place.iter().map(|text| AttributeValue::text(*text)).collect();
        let note = AttributeChange::Set(AttributePath::from(name.as_str()), AttributeValue::L(texts));
        Write { key, condition: WriteCondition::ItemExists, action: WriteAction::Update(vec![note]) }
    }

    /// The noted keys of the looked-up item: partition, and sort key if there is one.
    pub(crate) fn noted_places(item: &Item) -> impl Iterator<Item = (&str, Option<&str>)> {
        item.iter().filter(|(name, _)| name.starts_with(SEEN_AT)).filter_map(|(_, value)| {
            let AttributeValue::L(place) = value else { return None };
            let mut texts = place.iter().filter_map(AttributeValue::as_text);
            Some((texts.next()?, texts.next()))
        })
    }
}

/// The outputs of a stored lookup.
///
/// # Errors
/// The outputs that the model declares and the stored lookup lacks.
fn stored_outputs(model: &Model, key: &LookupKey<'_>, item: &Item) -> Result<SharedOutputs, Vec<Arc<str>>> {
    let by_name = match item.get(OUTPUTS) {
        Some(AttributeValue::M(by_name)) => Some(by_name),
        Some(_) | None => None,
    };
    let declared = model.lookups.get(key.lookup).map_or(&[][..], |lookup| &lookup.outputs);
    let (mut outputs, mut lacking) = (Vec::with_capacity(declared.len()), Vec::new());
    for name in declared {
        match by_name.and_then(|by_name| by_name.get(name.as_ref())) {
            Some(output) => outputs.push(output.clone()),
            None => lacking.push(Arc::clone(name)),
        }
    }
    if lacking.is_empty() { Ok(outputs.into()) } else { Err(lacking) }
}

/// The outputs as they are stored.
fn outputs_by_name(
    model: &Model,
    key: &LookupKey<'_>,
    outputs: &[AttributeValue<'static>],
) -> AttributeValue<'static> {
    let names = model.lookups.get(key.lookup).map_or(&[][..], |lookup| &lookup.outputs);
    let by_name = names.iter().map(|name| Cow::Owned(name.to_string())).zip(outputs.iter().cloned());
    AttributeValue::M(by_name.collect())
}

/// The error about a remembered lookup that lacks these outputs.
pub(crate) fn lacking_outputs(model: &Model, key: &LookupKey<'_>, lacking: &[Arc<str>]) -> Error {
    let name = model.lookups.get(key.lookup).map_or("?", |lookup| &lookup.name);
    Error::new(ErrorKind::State, "a remembered lookup lacks an output that the model declares")
        .with("lookup", name)
        .with("output", lacking.join(", "))
        .hint("Run `afterwrite backfill --reattribute`, which remembers what the looked-up items show now; an item that lacks the attribute must get it first")
}

#[cfg(test)]
mod tests {
    use afterwrite_model::effect::update::updated;
    use proptest::prelude::*;

    use super::*;

    const MODEL: &str = r#"
name = "shelves"
generation = 1
tables.t.key = ["pk"]
[entities.book]
key = { pk = "BOOK#{book}" }
attributes = { shelf = "S", room = "S" }
[lookups.shelf]
of = "book"
key = { pk = "BOOK#{book}" }
gives = ["shelf", "room"]
"#;

    proptest! {
        #[test]
        fn outputs_and_places_read_as_they_were_written(
            shelf in ".{0,12}", room in ".{0,12}", other in ".{1,12}",
            place in ("[^#]{1,12}", proptest::option::of("[^#]{1,12}")),
        ) {
            let model = Model::parse(MODEL, "m.toml").unwrap_or_else(|errors| panic!("{errors}"));
            let keys = StateKeys::new(Arc::from("state"));
            let key = LookupKey { lookup: 0, key: "a".into() };
            let outputs = [shelf, room].map(AttributeValue::text);
            let write = RememberedLookup::write(&keys, &model, &key, &outputs).unwrap();
            let WriteAction::Put(mut stored) = write.action else { panic!("a remembered lookup is put") };
            prop_assert_eq!(
                RememberedLookup::decode(&model, &key, Some(&stored)),
                RememberedLookup::Outputs(outputs.to_vec().into())
            );
            let noted: Vec<&str> = std::iter::once(&*place.0).chain(place.1.as_deref()).collect();
            let changed = [AttributeValue::text(other.clone()), AttributeValue::text(other)];
            let replacement = RememberedLookup::replacement(&keys, &model, &key, &changed).unwrap();
            for write in [RememberedLookup::place_note(write.key, &noted), replacement] {
                let WriteAction::Update(changes) = write.action else { panic!("a remembered lookup is updated") };
                stored = updated(stored, &changes).unwrap();
            }
            let places: Vec<_> = RememberedLookup::noted_places(&stored).collect();
            prop_assert_eq!(places, [(&*place.0, place.1.as_deref())]);
            prop_assert_eq!(
                RememberedLookup::decode(&model, &key, Some(&stored)),
                RememberedLookup::Outputs(changed.to_vec().into())
            );
        }
    }
}
