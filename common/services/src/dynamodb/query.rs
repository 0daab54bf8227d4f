//! Queries of a global secondary index.

use afterwrite_ledger::tables::{IndexPage, IndexQuery};
use afterwrite_model::{Error, ErrorKind};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::query::QueryError;

use super::expression::WriteExpressions;
use super::fault::TableRequest;
use super::setup::missing_index;
use super::value::{item_from_sdk, item_to_sdk};

/// A page of the items of the index with the query's key values.
pub(super) async fn query(client: &Client, query: &IndexQuery) -> Result<IndexPage, Error> {
    let request =
        TableRequest { action: "Query", permission: "dynamodb:Query", key: None, tables: &query.table };
    let keys: Vec<_> = query.key.iter().map(|attribute| (&*attribute.name, &attribute.value)).collect();
    let expressions = WriteExpressions::of_keys(&keys);
    let call = client
        .query()
        .table_name(&*query.table)
        .index_name(&*query.index)
        .limit(query.page_items.into())
        .set_exclusive_start_key(query.start_after.as_ref().map(item_to_sdk))
        .set_key_condition_expression(expressions.condition)
        .set_expression_attribute_names(expressions.names)
        .set_expression_attribute_values(expressions.values);
    let page = Box::pin(call.send()).await.map_err(|error| {
        let of_index =
            error.as_service_error().and_then(|error| index_fault(error, &query.table, &query.index));
        of_index.unwrap_or_else(|| request.fault(&error).into_error(request))
    })?;
    let last = page.last_evaluated_key.filter(|key| !key.is_empty()).map(item_from_sdk).transpose()?;
    let next = last.map(|last| IndexQuery { start_after: Some(last), ..query.clone() });
    let items = page.items.unwrap_or_default().into_iter().map(item_from_sdk).collect::<Result<_, _>>()?;
    Ok(IndexPage { items, next })
}

/// The error of a query whose index is missing or is being filled.
pub(super) fn index_fault(error: &QueryError, table: &str, index: &str) -> Option<Error> {
    if is_missing_index(error) {
        Some(missing_index(table, index))
    } else {
        is_unfinished_index(error).then(|| unfinished_index(table, index))
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
    FRAGMENTS.iter().any(|fragment| is_validation_error(error, fragment))
}

/// A new index cannot be queried until DynamoDB has filled it.
fn is_unfinished_index(error: &QueryError) -> bool {
    is_validation_error(error, "backfilling")
}

fn is_validation_error(error: &QueryError, fragment: &str) -> bool {
    let message = error.meta().message().unwrap_or_default();
    error.meta().code() == Some("ValidationException") && message.contains(fragment)
}

fn unfinished_index(table: &str, index: &str) -> Error {
    Error::new(ErrorKind::Unavailable, "DynamoDB is still filling the index of a lookup")
        .with("table", table)
        .with("index", index)
        .hint("The records that need it are delivered again: wait until the index is ACTIVE")
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::error::ErrorMetadata;

    use super::*;

    #[test]
    fn an_index_that_is_being_filled_is_neither_missing_nor_rejects_the_query() {
        let message = "Cannot read from backfilling global secondary index: GSI1";
        let metadata = ErrorMetadata::builder().code("ValidationException").message(message).build();
        let error = QueryError::generic(metadata);
        assert!(is_unfinished_index(&error) && !is_missing_index(&error));
        let error = unfinished_index("exams", "GSI1");
        assert!(error.is_retryable(), "{error}");
    }
}
