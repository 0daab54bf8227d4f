//! The Lambda function `aggregator`: a table's stream in, its rollups, counters and mirrors right.

use std::time::{Duration, Instant};

use afterwrite::commit::{Clock as _, Ledger, SystemClock};
use afterwrite::config::{Config, Projection, Settings, dynamodb_client, state_table};
use afterwrite::record::Timestamp;
use afterwrite::sink::dynamodb::DynamoDb;
use afterwrite_functions::{Aggregator, Response, metrics};
use lambda_runtime::{Error, LambdaEvent, service_fn, tracing};
use serde_json::value::RawValue;

/// What is kept back of the invocation's time, to answer in.
const TO_ANSWER: Duration = Duration::from_millis(500);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    tracing::init_default_subscriber();
    let settings = Settings::from_env();
    let Config { model, table_names, .. } = Config::resolve(&settings, &[Projection::Aggregate])?;
    let state_table = state_table(&settings)?;
    let tables = DynamoDb::new(dynamodb_client().await?);
    let aggregator = Aggregator::new(Ledger::new(model, table_names, state_table, tables, SystemClock));
    lambda_runtime::run(service_fn(|event| handle(&aggregator, event))).await
}

async fn handle(
    aggregator: &Aggregator<DynamoDb, SystemClock>,
    event: LambdaEvent<Box<RawValue>>,
) -> Result<Response, Error> {
    let begun = Instant::now();
    let deadline = Timestamp::from_epoch_ms(event.context.deadline.try_into()?).minus(TO_ANSWER);
    let handled = aggregator.handle(event.payload.get().as_bytes(), deadline).await?;
    for failed in &handled.failures {
        tracing::warn!(sequence_number = failed.sequence_number, error = %failed.error, "a record was not counted");
    }
    let model = &aggregator.ledger().model().name;
    println!("{}", metrics::line("aggregator", model, &handled, begun.elapsed(), SystemClock.now()));
    Ok(handled.response)
}
