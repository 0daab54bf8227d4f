//! Creating tables: what a test, the demo or a developer needs, in one value.

use std::time::Duration;

use afterwrite::{Error, ErrorKind, Result};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType, StreamSpecification, StreamViewType, TableDescription, TableStatus,
    TimeToLiveSpecification,
};

/// How long a table may take to become active.
const ACTIVE_WITHIN: Duration = Duration::from_secs(60);
const ASK_EVERY: Duration = Duration::from_millis(50);

/// A table to create. All its key attributes hold text; it is billed by request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDefinition {
    /// Its name.
    pub name: String,
    /// Its primary key.
    pub key: KeyDefinition,
    /// Its global secondary indexes, by name; they project all attributes.
    pub indexes: Vec<(String, KeyDefinition)>,
    /// Whether it has a stream of new and old images.
    pub stream: bool,
    /// The attribute that holds the epoch second after which DynamoDB may delete an item.
    pub ttl_attribute: Option<String>,
}

/// The attributes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDefinition {
    /// The partition key.
    pub partition: String,
    /// The sort key, if there is one.
    pub sort: Option<String>,
}

impl KeyDefinition {
    /// A key of a partition and a sort key.
    #[must_use]
    pub fn new(partition: &str, sort: &str) -> Self {
        Self { partition: partition.to_owned(), sort: Some(sort.to_owned()) }
    }

    fn attributes(&self) -> impl Iterator<Item = (&String, KeyType)> {
        let sort = self.sort.iter().map(|name| (name, KeyType::Range));
        std::iter::once((&self.partition, KeyType::Hash)).chain(sort)
    }

    fn schema(&self) -> Result<Vec<KeySchemaElement>> {
        let element = |(name, role): (&String, KeyType)| {
            KeySchemaElement::builder().attribute_name(name).key_type(role).build().map_err(incomplete)
        };
        self.attributes().map(element).collect()
    }
}

/// Creates a table and waits until it and its indexes can be used.
///
/// # Errors
/// `Configuration` if it exists already or is refused, `Unavailable` if it does not become active.
pub async fn create_table(client: &Client, table: &TableDefinition) -> Result<()> {
    let indexes = table.indexes.iter().map(|(name, key)| index(name, key)).collect::<Result<Vec<_>>>()?;
    let stream = StreamSpecification::builder()
        .stream_enabled(true)
        .stream_view_type(StreamViewType::NewAndOldImages)
        .build()
        .map_err(incomplete)?;
    let created = client
        .create_table()
        .table_name(&table.name)
        .billing_mode(BillingMode::PayPerRequest)
        .set_key_schema(Some(table.key.schema()?))
        .set_attribute_definitions(Some(attributes(table)?))
        .set_global_secondary_indexes((!indexes.is_empty()).then_some(indexes))
        .set_stream_specification(table.stream.then_some(stream))
        .send()
        .await;
    created.map_err(|error| refused("creating a table", &table.name, error.into_service_error()))?;
    wait_until_active(client, &table.name).await?;
    if let Some(attribute) = &table.ttl_attribute {
        let specification = TimeToLiveSpecification::builder().enabled(true).attribute_name(attribute);
        client
            .update_time_to_live()
            .table_name(&table.name)
            .time_to_live_specification(specification.build().map_err(incomplete)?)
            .send()
            .await
            .map_err(|error| {
                refused("setting a table's time to live", &table.name, error.into_service_error())
            })?;
    }
    Ok(())
}

fn index(name: &str, key: &KeyDefinition) -> Result<GlobalSecondaryIndex> {
    GlobalSecondaryIndex::builder()
        .index_name(name)
        .set_key_schema(Some(key.schema()?))
        .projection(Projection::builder().projection_type(ProjectionType::All).build())
        .build()
        .map_err(incomplete)
}

/// Each attribute that a key names, once.
fn attributes(table: &TableDefinition) -> Result<Vec<AttributeDefinition>> {
    let keys = std::iter::once(&table.key).chain(table.indexes.iter().map(|(_, key)| key));
    let names: std::collections::BTreeSet<&String> =
        keys.flat_map(|key| key.attributes().map(|(name, _)| name)).collect();
    let definition = |name: &String| {
        AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::S)
            .build()
            .map_err(incomplete)
    };
    names.into_iter().map(definition).collect()
}

async fn wait_until_active(client: &Client, table: &str) -> Result<()> {
    let active = async {
        loop {
            let described = client.describe_table().table_name(table).send().await;
            let described = described
                .map_err(|error| refused("describing a table", table, error.into_service_error()))?;
            if described.table.is_some_and(|table| is_active(&table)) {
                return Ok(());
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    };
    tokio::time::timeout(ACTIVE_WITHIN, active).await.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Unavailable, "the table does not become active").with("table", table))
    })
}

fn is_active(table: &TableDescription) -> bool {
    use aws_sdk_dynamodb::types::IndexStatus;
    table.table_status == Some(TableStatus::Active)
        && table
            .global_secondary_indexes()
            .iter()
            .all(|index| index.index_status == Some(IndexStatus::Active))
}

fn incomplete(cause: aws_sdk_dynamodb::error::BuildError) -> Error {
    Error::new(ErrorKind::Rejected, "a request to DynamoDB is incomplete").caused_by(cause)
}

fn refused(doing: &str, table: &str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::Configuration, format!("{doing} failed")).with("table", table).caused_by(cause)
}
