//! The import of a run's results into a new state table, by DynamoDB itself.

use std::time::Duration;

use afterwrite_ledger::state::{BEHIND, EXPIRES_AT};
use afterwrite_model::clock::Clock;
use afterwrite_model::table::RankIndex;
use afterwrite_model::{Error, ErrorKind, Result};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, ImportStatus, ImportTableDescription,
    InputCompressionType, InputFormat, KeySchemaElement, KeyType, PointInTimeRecoverySpecification,
    Projection, ProjectionType, S3BucketSource, ScalarAttributeType, TableCreationParameters,
    TimeToLiveSpecification,
};
use serde_json::Value;

use crate::jobs::{JobTotals, StepOutcome, WorkUnit, job_totals};

/// The time between two looks at an import.
const POLL_TIME: Duration = Duration::from_secs(2);

job_totals! {
    /// The counters of the import.
    pub enum ImportTotal {
        Items = "imported_items",
        Errors = "import_errors",
    }
}

/// Imports the results of a run into a new table.
#[derive(Debug)]
pub struct TableImporter<C> {
    /// DynamoDB.
    pub client: Client,
    /// The source of time.
    pub clock: C,
    /// The bucket of the run.
    pub bucket: String,
    /// The prefix of the objects that are imported.
    pub prefix: String,
    /// The new table.
    pub table: String,
    /// Identifies the import: a request that is repeated starts no second one. At most 36 characters.
    pub token: String,
    /// The indexes of the model's ranks.
    pub ranks: Vec<RankIndex>,
    /// Whether the table is left without point-in-time recovery.
    pub without_recovery: bool,
}

impl<C: Clock> TableImporter<C> {
    /// Starts the import, or looks at it; the unit is done when the table is ready.
    pub(super) async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        let arn = match unit.cursor.as_ref().and_then(Value::as_str) {
            None => self.start().await?,
            Some(arn) => {
                self.clock.sleep(POLL_TIME).await;
                arn.to_owned()
            }
        };
        let described = Box::pin(self.client.describe_import().import_arn(&arn).send()).await;
        let described = described.map_err(|error| self.error("DescribeImport", &error))?;
        let description = described.import_table_description;
        match description.as_ref().and_then(|import| import.import_status.as_ref()) {
            Some(ImportStatus::InProgress) => {
                Ok(StepOutcome { cursor: Some(arn.into()), ..StepOutcome::default() })
            }
            Some(ImportStatus::Completed) => {
                let totals = description.as_ref().map(imported).unwrap_or_default();
                self.complete(&totals).await?;
                Ok(StepOutcome { totals, ..StepOutcome::default() })
            }
            Some(_) | None => Err(self.failed(&arn, description.as_ref())),
        }
    }

    async fn start(&self) -> Result<String> {
        let source = S3BucketSource::builder().s3_bucket(&self.bucket).s3_key_prefix(&self.prefix).build();
        let request = self
            .client
            .import_table()
            .client_token(&self.token)
            .s3_bucket_source(source.map_err(unbuilt)?)
            .input_format(InputFormat::DynamodbJson)
            .input_compression_type(InputCompressionType::Gzip)
            .table_creation_parameters(state_table(&self.table, &self.ranks).map_err(unbuilt)?);
        let started = Box::pin(request.send()).await.map_err(|error| self.error("ImportTable", &error))?;
        started.import_table_description.and_then(|import| import.import_arn).ok_or_else(|| {
            Error::new(ErrorKind::Unavailable, "ImportTable: the response names no import")
                .with("table", self.table.as_str())
        })
    }

    /// Sets what an import cannot set: time to live and point-in-time recovery.
    async fn complete(&self, totals: &JobTotals) -> Result<()> {
        if totals.number(ImportTotal::Errors) > 0 {
            return Err(Error::new(ErrorKind::State, "DynamoDB did not import every item")
                .with("table", self.table.as_str())
                .hint("The log group /aws-dynamodb/imports has the reasons. Delete the table before another run"));
        }
        let ttl = TimeToLiveSpecification::builder().attribute_name(EXPIRES_AT).enabled(true).build();
        let ttl = self
            .client
            .update_time_to_live()
            .table_name(&self.table)
            .time_to_live_specification(ttl.map_err(unbuilt)?);
        match Box::pin(ttl.send()).await {
            Ok(_) => {}
            // An earlier step has set it.
            Err(error) if error.meta().code() == Some("ValidationException") && self.has_ttl().await? => {}
            Err(error) => return Err(self.error("UpdateTimeToLive", &error)),
        }
        if self.without_recovery {
            return Ok(());
        }
        let recovery =
            PointInTimeRecoverySpecification::builder().point_in_time_recovery_enabled(true).build();
        let recovery = self
            .client
            .update_continuous_backups()
            .table_name(&self.table)
            .point_in_time_recovery_specification(recovery.map_err(unbuilt)?);
        let enabled = Box::pin(recovery.send()).await;
        enabled.map(drop).map_err(|error| self.error("UpdateContinuousBackups", &error))
    }

    async fn has_ttl(&self) -> Result<bool> {
        let described = Box::pin(self.client.describe_time_to_live().table_name(&self.table).send()).await;
        let described = described.map_err(|error| self.error("DescribeTimeToLive", &error))?;
        let attribute = described.time_to_live_description.and_then(|ttl| ttl.attribute_name);
        Ok(attribute.as_deref() == Some(EXPIRES_AT))
    }

    fn failed(&self, arn: &str, description: Option<&ImportTableDescription>) -> Error {
        let code = description.and_then(|import| import.failure_code.clone());
        Error::new(ErrorKind::Configuration, "the import of the new state table has failed")
            .with("import", arn)
            .with("code", code.unwrap_or_else(|| "unknown".to_owned()))
            .hint("The log group /aws-dynamodb/imports has the reasons. Delete the table before another run")
    }

    /// The error of a request. The service's message is left out: it may quote items.
    fn error<E>(
        &self,
        action: &'static str,
        error: &SdkError<E, aws_sdk_dynamodb::config::http::HttpResponse>,
    ) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let code = error.as_service_error().and_then(|error| error.meta().code().map(str::to_owned));
        let (kind, hint) = match code.as_deref() {
            None
            | Some(
                "ThrottlingException"
                | "LimitExceededException"
                | "InternalServerError"
                | "ResourceInUseException",
            ) if action != "ImportTable" || code.as_deref() != Some("ResourceInUseException") => {
                (ErrorKind::Unavailable, "Resume the job")
            }
            Some("ResourceInUseException") => {
                (ErrorKind::Configuration, "An import creates its table: name a table that does not exist")
            }
            _ => (
                ErrorKind::Configuration,
                "Allow dynamodb:ImportTable, DescribeImport, CreateTable, UpdateTimeToLive and UpdateContinuousBackups, and reading the bucket",
            ),
        };
        Error::new(kind, format!("{action}: {}", code.as_deref().unwrap_or("no response")))
            .with("table", self.table.as_str())
            .hint(hint)
    }
}

fn imported(description: &ImportTableDescription) -> JobTotals {
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    JobTotals::from([
        (ImportTotal::Items, number(description.imported_item_count)),
        (ImportTotal::Errors, number(description.error_count)),
    ])
}

/// A state table as `infra/` creates it, except for what an import cannot set.
fn state_table(
    name: &str,
    ranks: &[RankIndex],
) -> Result<TableCreationParameters, aws_sdk_dynamodb::error::BuildError> {
    let key =
        |name: &str, role: KeyType| KeySchemaElement::builder().attribute_name(name).key_type(role).build();
    let mut parameters = TableCreationParameters::builder()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest)
        .key_schema(key("PK", KeyType::Hash)?)
        .key_schema(key("SK", KeyType::Range)?);
    let texts = ["PK", "SK", BEHIND].into_iter().chain(ranks.iter().map(|index| &*index.attribute));
    let texts = texts.map(|name| (name, ScalarAttributeType::S));
    let numbers = ranks.iter().map(|index| (&*index.measure, ScalarAttributeType::N));
    for (name, kind) in texts.chain(numbers) {
        let definition = AttributeDefinition::builder().attribute_name(name).attribute_type(kind);
        parameters = parameters.attribute_definitions(definition.build()?);
    }
    for RankIndex { attribute, measure } in ranks {
        let rank = GlobalSecondaryIndex::builder()
            .index_name(&**attribute)
            .key_schema(key(attribute, KeyType::Hash)?)
            .key_schema(key(measure, KeyType::Range)?)
            .projection(Projection::builder().projection_type(ProjectionType::All).build());
        parameters = parameters.global_secondary_indexes(rank.build()?);
    }
    let parked = GlobalSecondaryIndex::builder()
        .index_name("parked")
        .key_schema(key(BEHIND, KeyType::Hash)?)
        .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build());
    parameters.global_secondary_indexes(parked.build()?).build()
}

fn unbuilt(error: aws_sdk_dynamodb::error::BuildError) -> Error {
    Error::new(ErrorKind::State, "a request of the import cannot be built").caused_by(error)
}
