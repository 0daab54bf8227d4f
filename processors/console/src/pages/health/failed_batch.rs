//! A failed batch as its object has it: the items of its records, and why the mapping gave them up.

use afterwrite_model::Result;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::RecordDecoder;
use afterwrite_services::Bucket;
use futures::TryStreamExt as _;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::parked::source_link;
use crate::context::ConsoleContext;
use crate::table::Cell;

/// An object that is longer is not read: a failed batch has at most 6 MB, and a page reads many.
const MAX_BYTES: u64 = 1024 * 1024;

/// The items and the reason of a failed batch.
#[derive(Default)]
pub(super) struct FailedBatch {
    /// The item of its first record, and the number of its other records.
    pub(super) item: Option<(Cell, usize)>,
    /// Why it was given up.
    pub(super) reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FailureObject<'o> {
    request_context: Option<RequestContext>,
    #[serde(rename = "DDBStreamBatchInfo")]
    batch: Option<BatchInfo>,
    /// The event, as a text.
    #[serde(borrow)]
    payload: Option<&'o RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestContext {
    condition: Option<String>,
    approximate_invoke_count: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BatchInfo {
    start_sequence_number: Option<String>,
}

#[derive(Deserialize)]
struct PayloadEvent<'p> {
    #[serde(rename = "Records", borrow)]
    records: Vec<&'p RawValue>,
}

impl FailedBatch {
    /// Reads the object of a failed batch of `function`. Nothing is known of an object that has another form.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub(super) async fn read(
        context: &ConsoleContext,
        bucket: &impl Bucket,
        (key, size): (&str, u64),
        function: Option<&str>,
    ) -> Result<Self> {
        if size > MAX_BYTES {
            return Ok(Self::default());
        }
        let Some(chunks) = bucket.get(key).await? else { return Ok(Self::default()) };
        let chunks: Vec<_> = chunks.try_collect().await?;
        Ok(Self::of_object(context, &chunks.concat(), function))
    }

    fn of_object(context: &ConsoleContext, object: &[u8], function: Option<&str>) -> Self {
        let Ok(object) = serde_json::from_slice::<FailureObject<'_>>(object) else { return Self::default() };
        let first = object.batch.and_then(|batch| batch.start_sequence_number);
        // The function names the reason while it runs in this process.
        let known = function.zip(first).zip(context.board());
        let known = known.and_then(|((function, first), board)| board.meters.reason_of(function, &first));
        let payload = object.payload.and_then(|payload| serde_json::from_str::<String>(payload.get()).ok());
        Self {
            item: payload.and_then(|payload| first_item(context, &payload)),
            reason: known.or_else(|| object.request_context.and_then(|request| request.described())),
        }
    }
}

impl RequestContext {
    /// `RetryAttemptsExhausted after 11 invocations`.
    fn described(self) -> Option<String> {
        let condition = self.condition?;
        Some(match self.approximate_invoke_count {
            Some(invocations) => format!("{condition} after {invocations} invocations"),
            None => condition,
        })
    }
}

/// The item of the first record of an event, and the number of its other records.
fn first_item(context: &ConsoleContext, event: &str) -> Option<(Cell, usize)> {
    let PayloadEvent { records } = serde_json::from_str(event).ok()?;
    let first = records.first()?;
    let model = context.model();
    let record = RecordDecoder::new(&model.attributes).record(first.get().as_bytes()).ok()?;
    let table = model.table_deployed_as(&context.config.table_names, &record.table)?;
    let source = SourceKey::of_keys(model, table, &record.keys)?;
    Some((source_link(context, &source)?, records.len() - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_is_the_reason_of_a_batch_that_no_function_of_this_process_has_seen() {
        let described = |text: &str| {
            let object: FailureObject<'_> = serde_json::from_str(text).unwrap();
            object.request_context.and_then(RequestContext::described)
        };
        let object = r#"{"requestContext":{"condition":"RetryAttemptsExhausted","approximateInvokeCount":11},"payload":"{}"}"#;
        assert_eq!(described(object).as_deref(), Some("RetryAttemptsExhausted after 11 invocations"));
        assert_eq!(described(r#"{"requestContext":{}}"#), None);
        assert_eq!(described("{}"), None);
    }
}
