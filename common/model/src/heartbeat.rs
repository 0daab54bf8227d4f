//! The heartbeat: an item of each source table that is written again every minute, and of the state table if its rollups are sources. Its change passes through every stage like any
//! other, and each stage reports its age as the metric `FreshnessSeconds`. So a path that is dead while its processes live is
//! noticed within minutes.
//!
//! ```text
//! heartbeat item ─▶ stream ─▶ aggregator: counted
//!                      └────▶ relay: archived ─▶ exporter: exported ─▶ compactor: queryable
//! ```
//!
//! The item's key is reserved ([`HEARTBEAT_KEY`]): it matches no entity, even if an entity's key pattern would match it, so that
//! nothing is derived from it. It is not counted as unmatched.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::effect::{AttributeChange, ItemKey, KeyAttribute, Write, WriteAction, WriteCondition};
pub use crate::entity::HEARTBEAT_KEY;
use crate::entity::heartbeat_value;
use crate::record::{AttributePath, AttributeValue, Decimal, Timestamp};
use crate::table::{KeySchema, KeyType, Table};

/// The attribute with the time of the write, in milliseconds since 1970.
pub const HEARTBEAT_AT: &str = "heartbeat_at";

/// A stage that reports the age of the heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatStage {
    /// `aggregator` has counted everything up to it.
    Counted,
    /// `relay` has archived it.
    Archived,
    /// `exporter` has exported its line's object to the logs of the datasets.
    Exported,
    /// `compactor` has derived the current rows from it.
    Queryable,
}

impl HeartbeatStage {
    /// The value of the metric's dimension `stage`. Users build alarms on these names: they never change.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Archived => "archived",
            Self::Exported => "exported",
            Self::Queryable => "queryable",
        }
    }
}

/// The write of the heartbeat to a source table that is deployed as `deployed`; `None` if all of the table's key attributes are
/// numbers, because a number cannot be reserved.
#[must_use]
pub fn heartbeat_write(table: &Table, deployed: Arc<str>, now: Timestamp) -> Option<Write> {
    let is_number = |key: &KeySchema| match key.key_type {
        KeyType::Number => true,
        KeyType::Text | KeyType::Binary => false,
    };
    if table.key().all(is_number) {
        return None;
    }
    let attribute =
        |key: &KeySchema| KeyAttribute { name: Arc::clone(&key.name), value: heartbeat_value(key.key_type) };
    let key = ItemKey {
        table: deployed,
        partition: attribute(&table.partition_key),
        sort: table.sort_key.as_ref().map(attribute),
    };
    let time = AttributeValue::N(Decimal::from(now.epoch_ms()));
    let change = AttributeChange::Set(AttributePath::from(HEARTBEAT_AT), time);
    Some(Write { key, condition: WriteCondition::Always, action: WriteAction::Update(vec![change]) })
}

/// When a heartbeat was written, from the JSON of its change record; `None` if the record does not have the time.
#[must_use]
pub fn heartbeat_time(record: &str) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct HeartbeatRecord<'r> {
        #[serde(borrow)]
        dynamodb: HeartbeatChange<'r>,
    }
    #[derive(Deserialize)]
    struct HeartbeatChange<'r> {
        #[serde(borrow, rename = "NewImage")]
        new_image: HeartbeatImage<'r>,
    }
    #[derive(Deserialize)]
    struct HeartbeatImage<'r> {
        #[serde(borrow)]
        heartbeat_at: &'r RawValue,
    }
    #[derive(Deserialize)]
    struct HeartbeatNumber {
        #[serde(rename = "N")]
        number: String,
    }
    let record: HeartbeatRecord<'_> = serde_json::from_str(record).ok()?;
    let number: HeartbeatNumber = serde_json::from_str(record.dynamodb.new_image.heartbeat_at.get()).ok()?;
    number.number.parse().ok().map(Timestamp::from_epoch_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::SourceKey;
    use crate::record::Item;
    use crate::table::Model;

    /// A model whose entities would match every key.
    fn model(tables: &str) -> Model {
        let source = format!("name = \"m\"\ngeneration = 1\n{tables}");
        Model::parse(&source, "m.toml").unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn the_heartbeat_of_a_table_matches_no_entity_even_if_a_pattern_does() {
        for (key, types, entity) in [
            (r#"["a"]"#, "", r#"{ a = "{x}" }"#),
            (r#"["a", "b"]"#, "", r#"{ a = "{x}", b = "{y}" }"#),
            (r#"["a", "b"]"#, r#"types = { b = "N" }"#, r#"{ a = "{x}", b = "{y}" }"#),
            (r#"["a", "b"]"#, r#"types = { a = "N" }"#, r#"{ a = "{x}", b = "{y}" }"#),
            (r#"["a"]"#, r#"types = { a = "B" }"#, r#"{ a = "{x}" }"#),
        ] {
            let model = model(&format!("[tables.T]\nkey = {key}\n{types}\n[entities.e]\nkey = {entity}\n"));
            let write = heartbeat_write(&model.tables[0], "T".into(), Timestamp::from_epoch_ms(1)).unwrap();
            let item = write.key.keyed(Item::new());
            let source = SourceKey::of_item(&model, 0, &item).unwrap();
            assert!(source.is_heartbeat(), "{source:?}");
            assert!(source.candidates(&model).is_empty(), "{source:?}");
            let other = SourceKey { partition: "1".into(), ..source };
            assert!(!other.is_heartbeat() && !other.candidates(&model).is_empty(), "{other:?}");
        }
    }

    #[test]
    fn a_table_whose_keys_are_numbers_has_no_heartbeat() {
        let model = model("[tables.T]\nkey = [\"a\"]\ntypes = { a = \"N\" }\n");
        assert_eq!(heartbeat_write(&model.tables[0], "T".into(), Timestamp::from_epoch_ms(1)), None);
    }

    #[test]
    fn the_time_is_read_from_the_new_image() {
        let record = r#"{"eventName":"MODIFY","dynamodb":{"NewImage":{"PK":{"S":"x"},"heartbeat_at":{"N":"1770372000123"}}}}"#;
        assert_eq!(heartbeat_time(record), Some(Timestamp::from_epoch_ms(1_770_372_000_123)));
        assert_eq!(heartbeat_time(r#"{"dynamodb":{"NewImage":{}}}"#), None);
    }
}
