//! Where the embedded DynamoDB is known to differ from AWS. Each test states what AWS does and the memory with it, and what
//! the embedded one does instead; when that changes, the test fails and the quirk can go.

use afterwrite::ErrorKind;
use afterwrite::effect::{Write, WriteAction, WriteCondition};
use afterwrite::record::{AttributeValue, Item};
use afterwrite::sink::Tables;

use super::outcome::{RefusalReason, WriteOutcome, always, item, path, set, text};
use super::store::{PAIR, embedded, in_memory, pair};

/// AWS refuses a comparison by order with a value that has none; the embedded one takes it for false.
#[tokio::test]
async fn a_comparison_by_order_with_what_has_none() {
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
        let false_there = WriteOutcome::Refused(vec![Some(RefusalReason::Condition(None))]);
        assert_eq!(WriteOutcome::from(server.write(&write).await), false_there);
        assert_eq!(WriteOutcome::from(server.transact(writes).await), false_there);
    }
}

/// AWS refuses an update of a key attribute wherever it stands; the embedded one carries it out in a transaction, and leaves
/// an item whose key is not the one it is found under.
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

/// On AWS a write that changes nothing does not show in the stream; in the embedded one's it does.
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
