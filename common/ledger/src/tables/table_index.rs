//! The indexes of a table, as far as they decide what a write costs.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::table::Model;

use super::item_size::{item_bytes, write_units};

/// A global secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableIndex {
    /// The names of its key attributes. An item that lacks one of them is not in the index.
    pub keys: Vec<Arc<str>>,
    /// The attributes that it copies.
    pub projection: IndexProjection,
}

/// The attributes that an index copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexProjection {
    /// All.
    All,
    /// These, the keys of the table and of the index included.
    Attributes(BTreeSet<Arc<str>>),
}

impl TableIndex {
    /// The indexes of a model's ranks, which the state table has.
    #[must_use]
    pub fn of_ranks(model: &Model) -> Vec<Self> {
        let keys = model.rank_indexes().into_iter().map(|index| vec![index.attribute, index.measure]);
        keys.map(|keys| Self { keys, projection: IndexProjection::All }).collect()
    }

    /// The write units of the index if an item changes from `old` to `new`: none if its entry stays as it is, one write if the entry is
    /// new, deleted or changed, two writes if it moves to another key.
    #[must_use]
    pub fn write_units(&self, old: Option<&Item>, new: Option<&Item>) -> u64 {
        let entry = |item: &Item| self.entry(item);
        match (old.and_then(entry), new.and_then(entry)) {
            (None, None) => 0,
            (None, Some(entry)) | (Some(entry), None) => entry.units(),
            (Some(old), Some(new)) if old == new => 0,
            (Some(old), Some(new)) if old.key == new.key => old.units().max(new.units()),
            (Some(old), Some(new)) => old.units() + new.units(),
        }
    }

    /// The bytes of the copy of an item; 0 if the item is not in the index.
    #[must_use]
    pub fn entry_bytes(&self, item: &Item) -> usize {
        self.entry(item).map_or(0, |entry| item_bytes(&entry.copied))
    }

    /// The copy of an item; `None` if the item is not in the index.
    fn entry(&self, item: &Item) -> Option<IndexEntry> {
        let key = self.keys.iter().map(|name| item.get(&**name).cloned()).collect::<Option<Vec<_>>>()?;
        let copied = match &self.projection {
            IndexProjection::All => item.clone(),
            IndexProjection::Attributes(names) => {
                let copied = item.iter().filter(|(name, _)| names.contains(&***name));
                copied.map(|(name, value)| (name.clone(), value.clone())).collect()
            }
        };
        Some(IndexEntry { key, copied })
    }
}

/// The copy of an item in an index.
#[derive(PartialEq)]
struct IndexEntry {
    key: Vec<AttributeValue<'static>>,
    copied: Item,
}

impl IndexEntry {
    fn units(&self) -> u64 {
        write_units(item_bytes(&self.copied))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(attributes: &[(&'static str, &'static str)]) -> Item {
        attributes.iter().map(|(name, value)| ((*name).into(), AttributeValue::text(*value))).collect()
    }

    fn index(projection: IndexProjection) -> TableIndex {
        TableIndex { keys: vec!["K".into()], projection }
    }

    #[test]
    fn an_entry_costs_when_it_appears_changes_moves_or_disappears() {
        let index = index(IndexProjection::All);
        let (a, b) =
            (item(&[("PK", "1"), ("K", "a"), ("n", "1")]), item(&[("PK", "1"), ("K", "a"), ("n", "2")]));
        let (moved, outside) = (item(&[("PK", "1"), ("K", "z")]), item(&[("PK", "1")]));
        for (old, new, units) in [
            (None, Some(&a), 1),
            (Some(&a), Some(&a), 0),
            (Some(&a), Some(&b), 1),
            (Some(&a), Some(&moved), 2),
            (Some(&a), Some(&outside), 1),
            (Some(&outside), None, 0),
            (Some(&a), None, 1),
        ] {
            assert_eq!(index.write_units(old, new), units, "{old:?} {new:?}");
        }
    }

    #[test]
    fn an_attribute_that_the_index_does_not_copy_costs_nothing() {
        let names = ["PK", "K"].map(Arc::from).into_iter().collect();
        let index = index(IndexProjection::Attributes(names));
        let (a, b) =
            (item(&[("PK", "1"), ("K", "a"), ("n", "1")]), item(&[("PK", "1"), ("K", "a"), ("n", "2")]));
        assert_eq!(index.write_units(Some(&a), Some(&b)), 0);
    }
}
