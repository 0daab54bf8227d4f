//! Single writes and transactions.

use std::collections::HashMap;

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
use super::fault::{RequestFault, TableRequest, reason};
use super::tables_of;
use super::value::{item_from_sdk, item_to_sdk, key_to_sdk};
use crate::effect::{ItemKey, Write, WriteAction, WriteRefusal};
use crate::record::Item;
use crate::sink::{ConsumedUnits, TransactError, WriteError};
use crate::{Error, ErrorKind};

const ALL_OLD: ReturnValuesOnConditionCheckFailure = ReturnValuesOnConditionCheckFailure::AllOld;
/// The total holds the indexes' share.
const TOTAL: ReturnConsumedCapacity = ReturnConsumedCapacity::Total;

/// Carries out one write.
pub(super) async fn write(client: &Client, write: &Write) -> Result<ConsumedUnits, WriteError> {
    let WriteExpressions { condition, update, names, values } = WriteExpressions::of(write);
    let table = &*write.key.table;
    match &write.action {
        WriteAction::Put(item) => {
            let call = client
                .put_item()
                .table_name(table)
                .set_item(Some(keyed(item, &write.key)))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .return_values_on_condition_check_failure(ALL_OLD)
                .return_consumed_capacity(TOTAL);
            let answer = Box::pin(call.send()).await.map(|answer| answer.consumed_capacity);
            outcome(answer, request(write, "PutItem", "dynamodb:PutItem"), |error| {
                if let PutItemError::ConditionalCheckFailedException(failure) = error {
                    Some(failure)
                } else {
                    None
                }
            })
        }
        WriteAction::Update(_) => {
            let call = client
                .update_item()
                .table_name(table)
                .set_key(Some(key_to_sdk(&write.key)))
                .set_update_expression(update)
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .return_values_on_condition_check_failure(ALL_OLD)
                .return_consumed_capacity(TOTAL);
            let answer = Box::pin(call.send()).await.map(|answer| answer.consumed_capacity);
            outcome(answer, request(write, "UpdateItem", "dynamodb:UpdateItem"), |error| {
                if let UpdateItemError::ConditionalCheckFailedException(failure) = error {
                    Some(failure)
                } else {
                    None
                }
            })
        }
        WriteAction::Delete => {
            let call = client
                .delete_item()
                .table_name(table)
                .set_key(Some(key_to_sdk(&write.key)))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .return_values_on_condition_check_failure(ALL_OLD)
                .return_consumed_capacity(TOTAL);
            let answer = Box::pin(call.send()).await.map(|answer| answer.consumed_capacity);
            outcome(answer, request(write, "DeleteItem", "dynamodb:DeleteItem"), |error| {
                if let DeleteItemError::ConditionalCheckFailedException(failure) = error {
                    Some(failure)
                } else {
                    None
                }
            })
        }
    }
}

/// Carries out all writes or none.
pub(super) async fn transact(client: &Client, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
    let tables = tables_of(writes.iter().map(|write| &write.key));
    let request = TableRequest {
        action: "TransactWriteItems",
        permissions: "dynamodb:PutItem and dynamodb:UpdateItem",
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
        Ok(answer) => return Ok(consumed(answer.consumed_capacity.iter().flatten())),
        Err(error) => error,
    };
    let fault = request.fault(&error);
    if let TransactWriteItemsError::TransactionCanceledException(cancelled) = error.into_service_error() {
        Err(cancellation(cancelled, writes, &tables).unwrap_or_else(TransactError::Failed))
    } else {
        Err(TransactError::Failed(fault.into_error(request)))
    }
}

/// What a cancelled transaction says of each write, or an error that concerns the set-up instead.
fn cancellation(
    cancelled: TransactionCanceledException,
    writes: &[Write],
    tables: &str,
) -> Result<TransactError, Error> {
    let reasons = cancelled.cancellation_reasons.unwrap_or_default();
    if reasons.len() != writes.len() {
        let message = "TransactWriteItems: cancelled without a reason for each action";
        return Err(Error::new(ErrorKind::Unavailable, message).with("table", tables));
    }
    let refusals = reasons.into_iter().zip(writes).map(|(found, write)| {
        let item = found.item.filter(|item| !item.is_empty()).map(item_from_sdk).transpose()?;
        let (code, message) = (found.code.unwrap_or_default(), found.message.unwrap_or_default());
        reason(&code, &message, &write.key, item)
    });
    Ok(TransactError::Cancelled(refusals.collect::<Result<Vec<_>, Error>>()?))
}

fn transact_item(write: &Write) -> Result<TransactWriteItem, BuildError> {
    let WriteExpressions { condition, update, names, values } = WriteExpressions::of(write);
    let table = &*write.key.table;
    let item = TransactWriteItem::builder();
    let item = match &write.action {
        WriteAction::Put(put) => item.put(
            Put::builder()
                .table_name(table)
                .set_item(Some(keyed(put, &write.key)))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .return_values_on_condition_check_failure(ALL_OLD)
                .build()?,
        ),
        WriteAction::Update(_) => item.update(
            Update::builder()
                .table_name(table)
                .set_key(Some(key_to_sdk(&write.key)))
                .set_update_expression(update)
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .return_values_on_condition_check_failure(ALL_OLD)
                .build()?,
        ),
        WriteAction::Delete => item.delete(
            Delete::builder()
                .table_name(table)
                .set_key(Some(key_to_sdk(&write.key)))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .return_values_on_condition_check_failure(ALL_OLD)
                .build()?,
        ),
    };
    Ok(item.build())
}

/// The item with its key's attributes.
fn keyed(item: &Item, key: &ItemKey) -> HashMap<String, Sdk> {
    let mut item = item_to_sdk(item);
    item.extend(key_to_sdk(key));
    item
}

fn request<'w>(write: &'w Write, action: &'static str, permissions: &'static str) -> TableRequest<'w> {
    TableRequest { action, permissions, key: Some(&write.key), tables: &write.key.table }
}

/// What became of a single write.
fn outcome<E>(
    answer: Result<Option<ConsumedCapacity>, SdkError<E>>,
    request: TableRequest<'_>,
    condition_failure: impl FnOnce(E) -> Option<ConditionalCheckFailedException>,
) -> Result<ConsumedUnits, WriteError>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let error = match answer {
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
        RequestFault::Invalid(words) => WriteError::Refused(WriteRefusal::Invalid(words)),
        RequestFault::Failed(error) => WriteError::Failed(error),
    })
}

/// The units of all tables together; none, if the server does not say.
fn consumed<'c>(capacities: impl Iterator<Item = &'c ConsumedCapacity>) -> ConsumedUnits {
    let units: f64 = capacities.filter_map(|capacity| capacity.capacity_units).sum();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "write units are small whole numbers"
    )]
    let write_units = units as u64;
    ConsumedUnits { write_units }
}
