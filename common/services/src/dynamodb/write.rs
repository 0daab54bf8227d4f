//! Single writes and transactions.

use std::collections::HashMap;

use afterwrite_ledger::tables::{ConsumedUnits, TransactError, WriteError};
use afterwrite_model::effect::{ItemKey, Write, WriteAction, WriteRefusal};
use afterwrite_model::record::Item;
use afterwrite_model::{Error, ErrorKind};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{BuildError, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::error::{ConditionalCheckFailedException, TransactionCanceledException};
use aws_sdk_dynamodb::types::{
    AttributeValue as Sdk, ConsumedCapacity, Delete, Put, ReturnConsumedCapacity,
    ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};

use super::expression::WriteExpressions;
use super::fault::{RequestFault, TableRequest, cancellation_refusal};
use super::table_names;
use super::value::{item_from_sdk, item_to_sdk, key_to_sdk};

const ALL_OLD: ReturnValuesOnConditionCheckFailure = ReturnValuesOnConditionCheckFailure::AllOld;
/// The total includes the indexes' share.
const TOTAL: ReturnConsumedCapacity = ReturnConsumedCapacity::Total;

/// Sets what all kinds of writes have in common; in the SDK each kind has a builder of its own.
macro_rules! with_expressions {
    ($builder:expr, $table:expr, $expressions:expr) => {
        $builder
            .table_name($table)
            .set_condition_expression($expressions.condition)
            .set_expression_attribute_names($expressions.names)
            .set_expression_attribute_values($expressions.values)
            .return_values_on_condition_check_failure(ALL_OLD)
    };
}

/// Sends a single write and classifies its outcome; `$failed` is the variant of its failed condition.
macro_rules! send {
    ($call:expr, $table:expr, $expressions:expr, $request:expr, $failed:path) => {{
        let call = with_expressions!($call, $table, $expressions).return_consumed_capacity(TOTAL);
        let response = Box::pin(call.send()).await.map(|response| response.consumed_capacity);
        outcome(response, $request, |error| if let $failed(failure) = error { Some(failure) } else { None })
    }};
}

/// Carries out one write.
pub(super) async fn write(client: &Client, write: &Write) -> Result<ConsumedUnits, WriteError> {
    let mut expressions = WriteExpressions::of(write);
    let (table, update) = (&*write.key.table, expressions.update.take());
    match &write.action {
        WriteAction::Put(item) => {
            let request = request(write, "PutItem", "dynamodb:PutItem");
            let call = client.put_item().set_item(Some(keyed(item, &write.key)));
            send!(call, table, expressions, request, PutItemError::ConditionalCheckFailedException)
        }
        WriteAction::Update(_) => {
            let request = request(write, "UpdateItem", "dynamodb:UpdateItem");
            let call =
                client.update_item().set_key(Some(key_to_sdk(&write.key))).set_update_expression(update);
            send!(call, table, expressions, request, UpdateItemError::ConditionalCheckFailedException)
        }
        WriteAction::Delete => {
            let request = request(write, "DeleteItem", "dynamodb:DeleteItem");
            let call = client.delete_item().set_key(Some(key_to_sdk(&write.key)));
            send!(call, table, expressions, request, DeleteItemError::ConditionalCheckFailedException)
        }
    }
}

/// Carries out all writes, or no write.
pub(super) async fn transact(client: &Client, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
    let tables = table_names(writes.iter().map(|write| &write.key));
    let request = TableRequest {
        action: "TransactWriteItems",
        permission: "dynamodb:PutItem and dynamodb:UpdateItem",
        key: writes.first().map(|write| &write.key),
        tables: &tables,
    };
    let items = writes.iter().map(transact_item).collect::<Result<Vec<_>, _>>().map_err(|reason| {
        let error =
            Error::new(ErrorKind::Rejected, "a transaction could not be built").with("table", &*tables);
        TransactError::Failed(error.caused_by(reason))
    })?;
    let call = client.transact_write_items().set_transact_items(Some(items)).return_consumed_capacity(TOTAL);
    let error = match Box::pin(call.send()).await {
        Ok(response) => return Ok(consumed(response.consumed_capacity.iter().flatten())),
        Err(error) => error,
    };
    let fault = request.fault(&error);
    if let TransactWriteItemsError::TransactionCanceledException(cancelled) = error.into_service_error() {
        Err(cancellation(cancelled, writes, request).unwrap_or_else(TransactError::Failed))
    } else {
        Err(TransactError::Failed(fault.into_error(request)))
    }
}

/// The reasons of a cancelled transaction for each write, or an error that concerns a table instead.
fn cancellation(
    cancelled: TransactionCanceledException,
    writes: &[Write],
    request: TableRequest<'_>,
) -> Result<TransactError, Error> {
    let reasons = cancelled.cancellation_reasons.unwrap_or_default();
    if reasons.len() != writes.len() {
        let message = "TransactWriteItems: cancelled without a reason for each action";
        return Err(Error::new(ErrorKind::Unavailable, message).with("table", request.tables));
    }
    let mut refusals = Vec::with_capacity(writes.len());
    for (reason, write) in reasons.into_iter().zip(writes) {
        let item = reason.item.filter(|item| !item.is_empty()).map(item_from_sdk).transpose()?;
        let (code, message) = (reason.code.unwrap_or_default(), reason.message.unwrap_or_default());
        refusals.push(cancellation_refusal(request, &code, &message, &write.key, item)?);
    }
    Ok(TransactError::Cancelled(refusals))
}

fn transact_item(write: &Write) -> Result<TransactWriteItem, BuildError> {
    let mut expressions = WriteExpressions::of(write);
    let (table, update) = (&*write.key.table, expressions.update.take());
    let item = TransactWriteItem::builder();
    let item = match &write.action {
        WriteAction::Put(put) => {
            let put = Put::builder().set_item(Some(keyed(put, &write.key)));
            item.put(with_expressions!(put, table, expressions).build()?)
        }
        WriteAction::Update(_) => {
            let update =
                Update::builder().set_key(Some(key_to_sdk(&write.key))).set_update_expression(update);
            item.update(with_expressions!(update, table, expressions).build()?)
        }
        WriteAction::Delete => {
            let delete = Delete::builder().set_key(Some(key_to_sdk(&write.key)));
            item.delete(with_expressions!(delete, table, expressions).build()?)
        }
    };
    Ok(item.build())
}

/// The item with its key's attributes.
fn keyed(item: &Item, key: &ItemKey) -> HashMap<String, Sdk> {
    let mut item = item_to_sdk(item);
    item.extend(key_to_sdk(key));
    item
}

fn request<'w>(write: &'w Write, action: &'static str, permission: &'static str) -> TableRequest<'w> {
    TableRequest { action, permission, key: Some(&write.key), tables: &write.key.table }
}

/// The outcome of a single write.
fn outcome<E>(
    response: Result<Option<ConsumedCapacity>, SdkError<E>>,
    request: TableRequest<'_>,
    condition_failure: impl FnOnce(E) -> Option<ConditionalCheckFailedException>,
) -> Result<ConsumedUnits, WriteError>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let error = match response {
        Ok(capacity) => return Ok(consumed(capacity.iter())),
        Err(error) => error,
    };
    let fault = request.fault(&error);
    if let SdkError::ServiceError(service) = error
        && let Some(failure) = condition_failure(service.into_err())
    {
        let item = failure.item.filter(|item| !item.is_empty()).map(item_from_sdk).transpose();
        return Err(
            item.map_or_else(WriteError::Failed, |item| WriteError::Refused(WriteRefusal::Condition(item)))
        );
    }
    Err(match fault {
        RequestFault::Throttled(_) => WriteError::Refused(WriteRefusal::Throttled),
        RequestFault::Conflict => WriteError::Refused(WriteRefusal::Conflict),
        RequestFault::Invalid(reason) => WriteError::Refused(WriteRefusal::Invalid(reason)),
        RequestFault::Failed(error) => WriteError::Failed(error),
    })
}

/// The units of all tables together; zero if the response does not contain them.
fn consumed<'c>(capacities: impl Iterator<Item = &'c ConsumedCapacity>) -> ConsumedUnits {
    let units: f64 = capacities.filter_map(|capacity| capacity.capacity_units).sum();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "write units are small integers"
    )]
    let write_units = units as u64;
    ConsumedUnits { write_units }
}
