//! Known differences between the embedded DynamoDB and AWS. Each test states what AWS and the in-memory tables do, and what the embedded
//! DynamoDB does instead. When that changes, the test fails and the quirk can be removed.

use afterwrite_ledger::tables::Tables;
use afterwrite_model::ErrorKind;
use afterwrite_model::effect::{Write, WriteAction, WriteCondition};
use afterwrite_model::record::{AttributeValue, Item};

use super::outcome::{RefusalReason, WriteOutcome, always, item, path, set, text};
use super::store::{PAIR, embedded, in_memory, pair};

/// AWS refuses a comparison by order with a value of a type without an order; the embedded DynamoDB evaluates it as false.
#[tokio::test]
async fn a_comparison_by_order_with_an_unordered_value() {
    let (memory, server) = (in_memory(), embedded().await);
    for operand in [AttributeValue::Bool(true), AttributeValue::Null, AttributeValue::L(Vec::new())] {
        let write = Write {
            key: pair("quirk", "order"),
            condition: WriteCondition::Less(path("x"), operand),
            action: WriteAction::Update(vec![set("x", "y")]),
        };
        let writes = std::slice::from_ref(&write);
        let invalid = WriteOutcome::Refused(vec![Some(RefusalReason::Invalid)]);
        assert_eq!(WriteOutcome::from(memory.write(&write).await), invalid);
        assert_eq!(
            WriteOutcome::from(memory.transact(writes).await),
            WriteOutcome::Failed(ErrorKind::Rejected)
        );
        let evaluated_as_false = WriteOutcome::Refused(vec![Some(RefusalReason::Condition(None))]);
        assert_eq!(WriteOutcome::from(server.write(&write).await), evaluated_as_false);
        assert_eq!(WriteOutcome::from(server.transact(writes).await), evaluated_as_false);
    }
}

/// AWS refuses an update of a key attribute; the embedded DynamoDB carries it out in a transaction, and leaves an item whose key
/// differs from the key it is stored under.
#[tokio::test]
async fn an_update_of_a_key_attribute() {
    let (memory, server) = (in_memory(), embedded().await);
    for name in ["PK", "SK"] {
        let key = pair("quirk", name);
        let write = always(key.clone(), WriteAction::Update(vec![set(name, "other")]));
        let invalid = WriteOutcome::Refused(vec![Some(RefusalReason::Invalid)]);
        let writes = std::slice::from_ref(&write);
        assert_eq!(WriteOutcome::from(memory.write(&write).await), invalid);
        assert_eq!(WriteOutcome::from(memory.transact(writes).await), invalid);
        assert_eq!(WriteOutcome::from(server.write(&write).await), invalid);
        assert_eq!(WriteOutcome::from(server.transact(writes).await), WriteOutcome::Done(2));
    }
}

/// On AWS a write that changes nothing does not appear in the stream; in the stream of the embedded DynamoDB it does.
#[tokio::test]
async fn a_write_that_changes_nothing() {
    let memory = in_memory();
    let key = pair("quirk", "same");
    let put = always(key.clone(), WriteAction::Put(item([("x", text("y"))])));
    memory.write(&put).await.unwrap();
    let changes = memory.take_changes(PAIR);
    assert_eq!(changes.len(), 1);
    assert_eq!((&changes[0].key, changes[0].old.as_ref()), (&key, None::<&Item>));
    memory.write(&put).await.unwrap();
    memory.transact(&[always(key, WriteAction::Update(vec![set("x", "y")]))]).await.unwrap();
    assert_eq!(memory.take_changes(PAIR), []);
}
