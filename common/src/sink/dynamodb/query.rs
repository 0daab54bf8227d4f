//! Queries of a global secondary index.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::query::QueryError;

use super::expression::WriteExpressions;
use super::fault::TableRequest;
use super::setup::missing_index;
use super::value::item_from_sdk;
use crate::Error;
use crate::record::Item;
use crate::sink::IndexQuery;

/// All items of the index with the query's key values.
pub(super) async fn query(client: &Client, query: &IndexQuery) -> Result<Vec<Item>, Error> {
    let request =
        TableRequest { action: "Query", permission: "dynamodb:Query", key: None, tables: &query.table };
    let keys = [Some(&query.partition), query.sort.as_ref()].into_iter().flatten();
    let keys: Vec<_> = keys.map(|attribute| (&*attribute.name, &attribute.value)).collect();
    let expressions = WriteExpressions::of_keys(&keys);
    let call = client
        .query()
        .table_name(&*query.table)
        .index_name(&*query.index)
        .set_key_condition_expression(expressions.condition)
        .set_expression_attribute_names(expressions.names)
        .set_expression_attribute_values(expressions.values);
    let mut items = Vec::new();
    let mut start = None;
    loop {
        let page = call.clone().set_exclusive_start_key(start);
        let page = Box::pin(page.send()).await.map_err(|error| {
            if error.as_service_error().is_some_and(is_missing_index) {
                missing_index(&query.table, &query.index)
            } else {
                request.fault(&error).into_error(request)
            }
        })?;
        for item in page.items.unwrap_or_default() {
            items.push(item_from_sdk(item)?);
        }
        start = page.last_evaluated_key.filter(|key| !key.is_empty());
        if start.is_none() {
            return Ok(items);
        }
    }
}

/// DynamoDB reports a missing index, or one with other keys, as a validation error that only its message distinguishes.
fn is_missing_index(error: &QueryError) -> bool {
    const FRAGMENTS: [&str; 5] = [
        "specified index",
        "key schema element",
        "number of query conditions",
        "Condition parameter type does not match",
        "key condition not supported",
    ];
    let message = error.meta().message().unwrap_or_default();
    error.meta().code() == Some("ValidationException")
        && FRAGMENTS.iter().any(|fragment| message.contains(fragment))
}
