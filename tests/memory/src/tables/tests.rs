//! Features of tables in memory beyond DynamoDB's own operations, which the conformance suite tests.

use super::*;

fn tables() -> MemoryTables {
    let tables = MemoryTables::new();
    tables.create_table(TableDefinition::new("t", "PK").streamed());
    tables.create_table(TableDefinition::new("quiet", "PK"));
    tables
}

fn key(table: &str, partition: &str) -> ItemKey {
    let partition = KeyAttribute { name: "PK".into(), value: partition.to_owned().into() };
    ItemKey { table: table.into(), partition, sort: None }
}

fn item(partition: &str, expires_at: i64) -> Item {
    let number = AttributeValue::N(expires_at.into());
    [("PK".into(), AttributeValue::text(partition)), ("expires_at".into(), number)].into()
}

fn increment(table: &str, partition: &str) -> Write {
    let action = WriteAction::Update(vec![AttributeChange::Add("n".into(), 1.into())]);
    Write { key: key(table, partition), condition: WriteCondition::Always, action }
}

#[test]
fn each_change_is_returned_once_in_commit_order() {
    let tables = tables();
    tables.set_time(Timestamp::from_epoch_ms(1_500));
    tables.put("t", item("a", 1)).unwrap();
    tables.transact_now(&[increment("t", "b"), increment("t", "a"), increment("quiet", "c")]).unwrap();
    let old = tables.delete(&key("t", "a")).unwrap();
    let changes = tables.take_changes("t");
    let shapes: Vec<_> = changes
        .iter()
        .map(|change| (change.key.clone(), change.old.is_some(), change.new.is_some()))
        .collect();
    let (a, b) = (key("t", "a"), key("t", "b"));
    assert_eq!(
        shapes,
        [(a.clone(), false, true), (b, false, true), (a.clone(), true, true), (a, true, false)]
    );
    assert_eq!(changes[3].old, old);
    assert_eq!(changes[2].new, changes[3].old);
    assert!(changes.iter().all(|change| change.time == tables.time() && !change.is_expiry));
    assert!(tables.take_changes("t").is_empty() && tables.take_changes("quiet").is_empty());
}

#[test]
fn a_sweep_deletes_expired_items_and_marks_the_changes() {
    let tables = tables();
    for (partition, expires_at) in [("earlier", 99), ("now", 100), ("later", 101)] {
        tables.put("t", item(partition, expires_at)).unwrap();
    }
    tables.put("t", [("PK".into(), AttributeValue::text("never"))].into()).unwrap();
    let before = tables.write_units();
    let _ = tables.take_changes("t");
    tables.set_time(Timestamp::from_epoch_ms(100_900));
    assert_eq!(tables.sweep("t", "expires_at").unwrap(), 1);
    let changes = tables.take_changes("t");
    assert_eq!(changes.len(), 1);
    assert_eq!((&changes[0].key, changes[0].is_expiry), (&key("t", "earlier"), true));
    assert_eq!(tables.scan("t").len(), 3);
    assert_eq!(tables.write_units(), before, "an expiry is free");
    assert_eq!(tables.expire(&key("t", "later")).unwrap(), Some(item("later", 101)));
    assert_eq!(tables.expire(&key("t", "later")).unwrap(), None);
}

#[test]
fn a_read_returns_the_time_in_whole_seconds() {
    let tables = tables();
    tables.set_time(Timestamp::from_epoch_ms(61_999));
    let snapshot = tables.read_now(&[key("t", "a")]).unwrap();
    assert_eq!((snapshot.items, snapshot.server_time), (vec![None], Timestamp::from_epoch_seconds(61)));
}

#[test]
fn a_failed_condition_consumes_write_units() {
    let tables = tables();
    let large = AttributeValue::text("x".repeat(2_500));
    tables.put("t", [("PK".into(), AttributeValue::text("a")), ("x".into(), large)].into()).unwrap();
    assert_eq!(tables.write_units(), 3);
    let refused = Write { condition: WriteCondition::ItemAbsent, ..increment("t", "a") };
    assert!(tables.write_now(&refused).is_err());
    assert_eq!(tables.write_units(), 6);
    assert!(tables.transact_now(&[refused, increment("t", "b")]).is_err());
    assert_eq!(tables.write_units(), 6 + 2 * (3 + 1));
    let invalid = Write { action: WriteAction::Update(Vec::new()), ..increment("t", "a") };
    assert!(tables.write_now(&invalid).is_err());
    assert_eq!(tables.write_units(), 14);
}
