//! Looks at tables.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what was not found is judged alike, whatever the reason"
)]

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use afterwrite_ledger::state::{PARTITION_KEY, SORT_KEY};
use afterwrite_ledger::tables::Tables as _;
use afterwrite_model::Result;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::effect::ItemKey;
use afterwrite_model::heartbeat::{HEARTBEAT_AT, heartbeat_write};
use afterwrite_model::record::{AttributeValue, Timestamp};
use afterwrite_model::table::{KeyType, Lookup, Model, Table};
use afterwrite_operations::redrive::PARKED_INDEX;
use afterwrite_services::config::dynamodb_client_of;
use afterwrite_services::dynamodb::DynamoDb;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{
    AttributeValue as SdkValue, ConditionCheck, GlobalSecondaryIndexDescription, KeySchemaElement,
    KeyType as KeyRole, KeysAndAttributes, PointInTimeRecoveryStatus, ProjectionType, ReturnConsumedCapacity,
    Select, TableDescription, TimeToLiveStatus, TransactWriteItem,
};

use super::outcome::{looked, mapped, required};
use crate::doctor::{DryCall, FreshnessFacts, IndexFacts, Looked, LookedAge, ParkedFacts, TableFacts};

/// The key of an item that never exists: its partition key is reserved.
const ABSENT: &str = "AFTERWRITE#DOCTOR";

/// The pages of the index of parked items that are counted, of 1 MB each: some ten thousand items.
const PARKED_PAGES: usize = 5;

/// Reads descriptions of tables.
pub(super) struct TableLook {
    tables: aws_sdk_dynamodb::Client,
}

impl TableLook {
    pub(super) fn new(sdk: &SdkConfig) -> Self {
        Self { tables: dynamodb_client_of(sdk) }
    }

    /// A table.
    pub(super) async fn table(&self, name: &str) -> Result<Looked<TableFacts>> {
        Ok(Box::pin(self.streamed_table(name)).await?.0)
    }

    /// A table, and the ARN of its stream.
    pub(super) async fn streamed_table(&self, name: &str) -> Result<(Looked<TableFacts>, Option<String>)> {
        let described = Box::pin(self.tables.describe_table().table_name(name).send()).await;
        let described = required(described.map(|output| output.table), "dynamodb:DescribeTable", name)?;
        let Looked::Found(Some(description)) = described else {
            return Ok((mapped(described, |_| TableFacts::default()), None));
        };
        let stream = description.latest_stream_arn.clone();
        let facts = TableFacts {
            ttl: Box::pin(self.time_to_live(name)).await?,
            is_recoverable: Box::pin(self.recovery(name)).await?,
            ..table_facts(&description)
        };
        Ok((Looked::Found(facts), stream))
    }

    async fn time_to_live(&self, name: &str) -> Result<Option<Looked<String>>> {
        let described = Box::pin(self.tables.describe_time_to_live().table_name(name).send()).await;
        let described = looked(described, "dynamodb:DescribeTimeToLive");
        let Looked::Found(described) = described else {
            return Ok(Some(mapped(described, |_| String::new())));
        };
        let description = described.time_to_live_description;
        let enabled = description.filter(|description| {
            let status = description.time_to_live_status.as_ref();
            status.is_some_and(|status| {
                [TimeToLiveStatus::Enabled, TimeToLiveStatus::Enabling].contains(status)
            })
        });
        Ok(enabled.map(|description| Looked::Found(description.attribute_name.unwrap_or_default())))
    }

    async fn recovery(&self, name: &str) -> Result<Option<bool>> {
        let described = Box::pin(self.tables.describe_continuous_backups().table_name(name).send()).await;
        let described = looked(described, "dynamodb:DescribeContinuousBackups");
        let Looked::Found(described) = described else { return Ok(None) };
        let backups = described.continuous_backups_description;
        let recovery = backups.and_then(|backups| backups.point_in_time_recovery_description);
        let status = recovery.and_then(|recovery| recovery.point_in_time_recovery_status);
        Ok(Some(status == Some(PointInTimeRecoveryStatus::Enabled)))
    }

    /// The number of parked items, by the index of the state table that lists them: of its first pages, because nobody asked to read all of it.
    pub(super) async fn parked(&self, state_table: &str, facts: &Looked<TableFacts>) -> Looked<ParkedFacts> {
        let described = match facts {
            Looked::Found(table) => table,
            other => return mapped(other.clone(), |_| ParkedFacts::default()),
        };
        if !described.indexes.iter().any(|index| index.name == PARKED_INDEX) {
            return Looked::Missing;
        }
        let scan = self.tables.scan().table_name(state_table).index_name(PARKED_INDEX).select(Select::Count);
        let mut pages = scan.into_paginator().send();
        let mut parked = ParkedFacts { items: 0, has_more: true };
        for _ in 0..PARKED_PAGES {
            let Some(page) = Box::pin(pages.next()).await else {
                return Looked::Found(ParkedFacts { has_more: false, ..parked });
            };
            match looked(page, "dynamodb:Scan on the index `parked`") {
                Looked::Found(page) => {
                    parked.items += u64::try_from(page.count()).unwrap_or(0);
                    parked.has_more = page.last_evaluated_key().is_some();
                }
                other => return mapped(other, |_| ParkedFacts::default()),
            }
        }
        Looked::Found(parked)
    }

    /// Requests to the state table that change nothing.
    pub(super) async fn dry_calls(&self, state_table: &str) -> Result<Vec<DryCall>> {
        let key = || {
            HashMap::from(
                [PARTITION_KEY, SORT_KEY].map(|name| (name.to_owned(), absent_value(KeyType::Text))),
            )
        };
        let get = self.tables.get_item().table_name(state_table).set_key(Some(key()));
        let get = looked(Box::pin(get.send()).await, "dynamodb:GetItem");
        let check = ConditionCheck::builder()
            .table_name(state_table)
            .set_key(Some(key()))
            .condition_expression(format!("attribute_not_exists({PARTITION_KEY})"));
        let mut calls = Vec::new();
        // A key that the table does not have is reported by the check of its key.
        calls.extend(dry_call("dynamodb:GetItem", state_table, &get));
        if let Ok(check) = check.build() {
            let check = TransactWriteItem::builder().condition_check(check).build();
            let transact = self.tables.transact_write_items().transact_items(check);
            let transact = transact.return_consumed_capacity(ReturnConsumedCapacity::None);
            let outcome = looked(Box::pin(transact.send()).await, "dynamodb:ConditionCheckItem");
            calls.extend(dry_call("dynamodb:ConditionCheckItem", state_table, &outcome));
        }
        Ok(calls)
    }

    /// Requests to the source tables that change nothing: an item by its key, and a query of each index that lookups use.
    pub(super) async fn source_dry_calls(&self, model: &Model, names: &[Arc<str>]) -> Vec<DryCall> {
        let mut calls = Vec::new();
        for (index, table) in model.application_tables() {
            let Some(name) = names.get(index) else { continue };
            calls.extend(Box::pin(self.batch_get(table, name)).await);
            let mut queried = BTreeSet::new();
            for lookup in model.lookups.iter().filter(|lookup| table_of(model, lookup) == Some(index)) {
                if let Some(index) = lookup.index().filter(|index| queried.insert(Arc::clone(index))) {
                    calls.extend(Box::pin(self.query((model, name), index, lookup)).await);
                }
            }
        }
        calls
    }

    async fn batch_get(&self, table: &Table, name: &str) -> Option<DryCall> {
        let key = table.key().map(|key| (key.name.to_string(), absent_value(key.key_type))).collect();
        let keys = KeysAndAttributes::builder().keys(key).build().ok()?;
        let get = self.tables.batch_get_item().request_items(name, keys);
        let outcome = looked(Box::pin(get.send()).await, "dynamodb:BatchGetItem");
        dry_call("dynamodb:BatchGetItem", name, &outcome)
    }

    async fn query(&self, (model, table): (&Model, &str), index: &str, lookup: &Lookup) -> Option<DryCall> {
        let (mut names, mut values, mut conditions) = (HashMap::new(), HashMap::new(), Vec::new());
        for (place, (name, _)) in lookup.key.iter().enumerate() {
            conditions.push(format!("#key{place} = :key{place}"));
            names.insert(format!("#key{place}"), name.to_string());
            values.insert(format!(":key{place}"), absent_value(lookup.key_type(model, name)));
        }
        let query = self
            .tables
            .query()
            .table_name(table)
            .index_name(index)
            .key_condition_expression(conditions.join(" AND "))
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values))
            .limit(1);
        let outcome = looked(Box::pin(query.send()).await, "dynamodb:Query");
        dry_call("dynamodb:Query", &format!("{table}/{index}"), &outcome)
    }

    /// The ages of the heartbeats.
    pub(super) async fn heartbeats(&self, model: &Model, names: &[Arc<str>]) -> FreshnessFacts {
        let tables = DynamoDb::retrying(self.tables.clone());
        let mut facts = FreshnessFacts::default();
        for (table, name) in model.tables.iter().zip(names) {
            let now = SystemClock.now();
            let Some(write) = heartbeat_write(table, Arc::clone(name), now) else { continue };
            let key: ItemKey = write.key;
            let age = match Box::pin(tables.read(&[key])).await {
                Ok(snapshot) => {
                    let item = snapshot.items.into_iter().next().flatten();
                    let written = item.and_then(|item| heartbeat_at(item.get(HEARTBEAT_AT)?));
                    written.map_or(LookedAge::Never, |written| LookedAge::Known(now.since(written)))
                }
                Err(error) => LookedAge::NotRead(error.to_string()),
            };
            facts.heartbeats.push((name.to_string(), age));
        }
        facts
    }
}

fn dry_call<T>(permission: &'static str, subject: &str, outcome: &Looked<T>) -> Option<DryCall> {
    let is_allowed = match outcome {
        Looked::Found(_) => true,
        Looked::NotAllowed(_) => false,
        Looked::Missing | Looked::NotNamed(_) | Looked::NotRead(_) => return None,
    };
    Some(DryCall { permission, subject: subject.to_owned(), is_allowed })
}

/// The table of the item that a lookup finds: an index into the model's tables.
fn table_of(model: &Model, lookup: &Lookup) -> Option<usize> {
    model.entities.get(lookup.of).map(|entity| entity.table)
}

/// The value of a key attribute of this type, of an item that does not exist.
fn absent_value(kind: KeyType) -> SdkValue {
    match kind {
        KeyType::Text => SdkValue::S(ABSENT.to_owned()),
        KeyType::Number => SdkValue::N("0".to_owned()),
        KeyType::Binary => SdkValue::B(Blob::new(ABSENT)),
    }
}

fn heartbeat_at(value: &AttributeValue<'_>) -> Option<Timestamp> {
    value.as_number()?.to_string().parse().ok().map(Timestamp::from_epoch_ms)
}

fn table_facts(table: &TableDescription) -> TableFacts {
    let stream = table.stream_specification().filter(|stream| stream.stream_enabled());
    let indexes = table.global_secondary_indexes().iter();
    TableFacts {
        key: table
            .key_schema()
            .iter()
            .map(|key| (key.attribute_name().to_owned(), type_of(table, key)))
            .collect(),
        stream_view: stream.and_then(|stream| stream.stream_view_type()).map(|view| view.as_str().to_owned()),
        indexes: indexes.map(|index| index_facts(table, index)).collect(),
        created: table
            .creation_date_time()
            .and_then(|time| time.to_millis().ok())
            .map(Timestamp::from_epoch_ms),
        replicas: table.replicas().len(),
        ..TableFacts::default()
    }
}

fn type_of(table: &TableDescription, key: &KeySchemaElement) -> String {
    let mut attributes = table.attribute_definitions().iter();
    let attribute = attributes.find(|attribute| attribute.attribute_name() == key.attribute_name());
    attribute.map(|attribute| attribute.attribute_type().as_str().to_owned()).unwrap_or_default()
}

fn index_facts(table: &TableDescription, index: &GlobalSecondaryIndexDescription) -> IndexFacts {
    let projection = index.projection();
    let copies = projection.filter(|projection| projection.projection_type() != Some(&ProjectionType::All));
    let (partition, sort): (Vec<_>, Vec<_>) =
        index.key_schema().iter().partition(|key| *key.key_type() == KeyRole::Hash);
    let in_partition = partition.len();
    let keys = [partition, sort].concat();
    IndexFacts {
        name: index.index_name().unwrap_or_default().to_owned(),
        keys: keys.iter().map(|key| key.attribute_name().to_owned()).collect(),
        in_partition,
        types: keys.iter().map(|key| type_of(table, key)).collect(),
        copies: copies.map(|projection| projection.non_key_attributes().to_vec()),
    }
}
