//! Queries of one partition of a table or an index, in the order of its sort key: for readers of rollups.

use std::sync::Arc;

use afterwrite_model::Error;
use afterwrite_model::effect::KeyAttribute;
use afterwrite_model::record::{AttributeValue, Item};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::Select;

use super::fault::TableRequest;
use super::query::index_fault;
use super::value::{item_from_sdk, item_to_sdk, to_sdk};

/// A query of one partition.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionQuery {
    /// The table's name in the account.
    pub table: Arc<str>,
    /// The index, if not the table itself is read. An index lags behind its table.
    pub index: Option<Arc<str>>,
    /// Name and value of the partition key.
    pub partition: KeyAttribute,
    /// The part of the partition.
    pub part: PartitionPart,
    /// Whether items come in ascending order of the sort key.
    pub is_ascending: bool,
    /// The most items of a page.
    pub page_items: u16,
    /// Whether items are counted only, and not returned.
    pub counts_only: bool,
    /// The key after which the page begins; `None` for the first page.
    pub start_after: Option<Item>,
}

/// A part of a partition, by the sort key.
#[derive(Clone, Debug, PartialEq)]
pub enum PartitionPart {
    /// All items.
    Whole,
    /// The items whose sort key begins with this text.
    Beginning(KeyAttribute),
    /// The items from this sort key to another value of it, both included.
    Between(KeyAttribute, AttributeValue<'static>),
    /// The items with a larger sort key.
    Above(KeyAttribute),
    /// The items with this sort key or a smaller one.
    UpTo(KeyAttribute),
}

/// A page of a partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionPage {
    /// The items; none if they are counted only.
    pub items: Vec<Item>,
    /// Their number.
    pub count: u64,
    /// The key after which the next page begins; `None` after the last page.
    pub next: Option<Item>,
}

impl PartitionPart {
    /// The condition on the sort key `#s`, its name and its values.
    fn condition(&self) -> Option<(&'static str, &Arc<str>, Vec<&AttributeValue<'static>>)> {
        match self {
            Self::Whole => None,
            Self::Beginning(key) => Some(("begins_with(#s, :a)", &key.name, vec![&key.value])),
            Self::Between(key, last) => Some(("#s BETWEEN :a AND :b", &key.name, vec![&key.value, last])),
            Self::Above(key) => Some(("#s > :a", &key.name, vec![&key.value])),
            Self::UpTo(key) => Some(("#s <= :a", &key.name, vec![&key.value])),
        }
    }
}

/// A page of the partition. A table is read strongly consistent.
pub(super) async fn query(client: &Client, query: &PartitionQuery) -> Result<PartitionPage, Error> {
    let request =
        TableRequest { action: "Query", permission: "dynamodb:Query", key: None, tables: &query.table };
    let mut call = client
        .query()
        .table_name(&*query.table)
        .set_index_name(query.index.as_ref().map(ToString::to_string))
        .consistent_read(query.index.is_none())
        .scan_index_forward(query.is_ascending)
        .limit(query.page_items.into())
        .set_select(query.counts_only.then_some(Select::Count))
        .set_exclusive_start_key(query.start_after.as_ref().map(item_to_sdk))
        .expression_attribute_names("#p", &*query.partition.name)
        .expression_attribute_values(":p", to_sdk(&query.partition.value));
    let mut condition = "#p = :p".to_owned();
    if let Some((part, name, values)) = query.part.condition() {
        condition = format!("{condition} AND {part}");
        call = call.expression_attribute_names("#s", &**name);
        for (placeholder, value) in [":a", ":b"].into_iter().zip(values) {
            call = call.expression_attribute_values(placeholder, to_sdk(value));
        }
    }
    let page = Box::pin(call.key_condition_expression(condition).send()).await.map_err(|error| {
        let of_index = query
            .index
            .as_ref()
            .and_then(|index| index_fault(error.as_service_error()?, &query.table, index));
        of_index.unwrap_or_else(|| request.fault(&error).into_error(request))
    })?;
    let count = u64::try_from(page.count).unwrap_or_default();
    let next = page.last_evaluated_key.filter(|key| !key.is_empty()).map(item_from_sdk).transpose()?;
    let items = page.items.unwrap_or_default().into_iter().map(item_from_sdk).collect::<Result<_, _>>()?;
    Ok(PartitionPage { items, count, next })
}
