//! A record's key + the model → which item changed, what it is, and what its key says.

use std::borrow::Cow;

use crate::record::{AttributeValue, Item, Keys};
use crate::table::{Entity, Model};

/// The identity of a source item: its table and the texts of its primary key.
///
/// Text stands as it is, a number as its digits, bytes as base64. A table's key attributes each have one type, so two
/// items never share a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceKey<'r> {
    /// The table: an index into [`Model::tables`].
    pub table: usize,
    /// The partition key.
    pub partition: Cow<'r, str>,
    /// The sort key, if the table has one.
    pub sort: Option<Cow<'r, str>>,
}

impl<'r> SourceKey<'r> {
    /// The identity of the item with these key attributes; `None` if they are not those of the table.
    pub fn of_keys(model: &Model, table: usize, keys: &'r Keys<'_>) -> Option<Self> {
        Self::new(model, table, |name| keys.get(name))
    }

    /// The identity of an item that was read from the table.
    pub fn of_item(model: &Model, table: usize, item: &'r Item) -> Option<Self> {
        Self::new(model, table, |name| item.get(name))
    }

    fn new<'v: 'r>(
        model: &Model,
        table: usize,
        attribute: impl Fn(&str) -> Option<&'r AttributeValue<'v>>,
    ) -> Option<Self> {
        let schema = model.tables.get(table)?;
        let partition = key_text(attribute(&schema.partition_key)?)?;
        let sort = match &schema.sort_key {
            Some(name) => Some(key_text(attribute(name)?)?),
            None => None,
        };
        Some(Self { table, partition, sort })
    }

    /// What the model says an item with this key is, and the values of its key's variables.
    pub fn identify<'m, 'k>(&'k self, model: &'m Model) -> Option<Identity<'m, 'k>> {
        model.entities.iter().filter(|entity| entity.table == self.table).find_map(|entity| {
            let mut variables = vec![None; entity.variables.len()];
            let matches = entity.key.partition.parse(&self.partition, &mut variables)
                && match (&entity.key.sort, &self.sort) {
                    (Some(template), Some(text)) => template.parse(text, &mut variables),
                    (None, None) => true,
                    (Some(_), None) | (None, Some(_)) => false,
                };
            let variables = matches.then(|| variables.into_iter().collect::<Option<Vec<_>>>())??;
            Some(Identity { entity, variables })
        })
    }
}

/// What an item is.
#[derive(Clone, Debug)]
pub struct Identity<'m, 'k> {
    /// The entity.
    pub entity: &'m Entity,
    /// The values of its key's variables, aligned with [`Entity::variables`].
    pub variables: Vec<&'k str>,
}

fn key_text<'r>(value: &'r AttributeValue<'_>) -> Option<Cow<'r, str>> {
    match value {
        AttributeValue::S(text) => Some(Cow::Borrowed(text)),
        AttributeValue::N(number) => Some(Cow::Owned(number.to_string())),
        AttributeValue::B(bytes) => {
            use base64::Engine as _;
            Some(Cow::Owned(base64::engine::general_purpose::STANDARD.encode(bytes)))
        }
        AttributeValue::Bool(_)
        | AttributeValue::Null
        | AttributeValue::M(_)
        | AttributeValue::L(_)
        | AttributeValue::Ss(_)
        | AttributeValue::Ns(_)
        | AttributeValue::Bs(_) => None,
    }
}
