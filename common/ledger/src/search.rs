//! Lookups that are searched without being remembered: for programs that only read.

use std::sync::Arc;

use afterwrite_model::Result;
use afterwrite_model::effect::KeyAttribute;
use afterwrite_model::projection::{LookupKey, LookupOutputs, looked_up_item, shown_outputs};
use afterwrite_model::record::{AttributeValue, Decimal};
use afterwrite_model::table::{KeyType, Model, Template};

use crate::tables::{IndexQuery, Tables};

/// The items of one page of an index. Nearly always the first item has the outputs.
const INDEX_PAGE_ITEMS: u16 = 25;

/// Searches lookups as the ledger does, and remembers nothing.
#[derive(Clone, Debug)]
pub struct LookupSearch<T> {
    model: Arc<Model>,
    table_names: Vec<Arc<str>>,
    tables: T,
}

impl<T: Tables> LookupSearch<T> {
    /// A search in the application's tables. `table_names` has the deployed name of each of [`Model::tables`].
    pub fn new(model: Arc<Model>, table_names: Vec<Arc<str>>, tables: T) -> Self {
        Self { model, table_names, tables }
    }

    /// The outputs that a lookup finds now; `None` if it finds no item that has them.
    ///
    /// # Errors
    /// As [`Tables::read`] and [`Tables::query_index`].
    pub async fn outputs(&self, key: &LookupKey<'static>) -> Result<Option<Arc<LookupOutputs>>> {
        if let Some(source) = looked_up_item(&self.model, key) {
            let Some(item_key) = source.item_key(&self.model, &self.table_names) else {
                return Ok(None);
            };
            let item = self.tables.read(&[item_key]).await?.items.into_iter().next().flatten();
            return Ok(item.and_then(|item| shown_outputs(&self.model, key, &item)).map(Arc::from));
        }
        let mut next = index_query(&self.model, &self.table_names, key);
        while let Some(query) = next {
            let page = self.tables.query_index(&query).await?;
            let outputs = page.items.iter().find_map(|item| shown_outputs(&self.model, key, item));
            if let Some(outputs) = outputs {
                return Ok(Some(Arc::from(outputs)));
            }
            next = page.next;
        }
        Ok(None)
    }
}

/// The query of the index that finds a lookup's item; `None` if the item is read by its primary key.
pub(crate) fn index_query(
    model: &Model,
    table_names: &[Arc<str>],
    key: &LookupKey<'static>,
) -> Option<IndexQuery> {
    let lookup = model.lookups.get(key.lookup)?;
    let table = model.entities.get(lookup.of)?.table;
    let inputs = key.values(lookup.inputs.len());
    let attribute = |(name, template): &(Arc<str>, Template)| {
        let text = template.render(&inputs);
        let value = match lookup.key_type(model, name) {
            // A text that is not a number finds nothing: DynamoDB refuses the query.
            KeyType::Number => text.parse::<Decimal>().map_or_else(|_| text.into(), AttributeValue::N),
            KeyType::Text | KeyType::Binary => text.into(),
        };
        KeyAttribute { name: Arc::clone(name), value }
    };
    Some(IndexQuery {
        table: Arc::clone(table_names.get(table)?),
        index: Arc::clone(lookup.index()?),
        key: lookup.key.iter().map(attribute).collect(),
        page_items: INDEX_PAGE_ITEMS,
        start_after: None,
    })
}
