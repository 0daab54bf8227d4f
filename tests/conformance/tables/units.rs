//! The write units of writes: one per started kilobyte of the larger image, twice that in a transaction, and those of the indexes.

use afterwrite_model::effect::{AttributeChange, WriteAction};
use afterwrite_model::record::{AttributeValue, Item};

use super::outcome::{WriteOutcome, add, always, item, map, remove, set, text};
use super::store::{TableStore, pair};

/// An item, a write to it, and the write units of the table and of the indexes.
struct WriteCost {
    name: &'static str,
    stored: Option<Item>,
    action: WriteAction,
    table: u64,
    indexes: u64,
}

/// The key of an item, "PK" + "units" + "SK" + one letter.
const KEY_BYTES: usize = 10;

/// Attributes of an item with this many bytes.
fn sized(bytes: usize) -> Item {
    item([("x", text(&"x".repeat(bytes - KEY_BYTES - 1)))])
}

fn indexed(bytes: usize) -> Item {
    let mut keys = item([("GSI1PK", text("a")), ("GSI1SK", text("b")), ("GSI2PK", text("c"))]);
    keys.extend(sized(bytes - 21));
    keys
}

fn cost(
    name: &'static str,
    stored: Option<Item>,
    action: WriteAction,
    table: u64,
    indexes: u64,
) -> WriteCost {
    WriteCost { name, stored, action, table, indexes }
}

fn put(name: &'static str, stored: Option<usize>, bytes: usize, table: u64) -> WriteCost {
    cost(name, stored.map(sized), WriteAction::Put(sized(bytes)), table, 0)
}

fn update(name: &'static str, stored: Option<usize>, change: AttributeChange, table: u64) -> WriteCost {
    cost(name, stored.map(sized), WriteAction::Update(vec![change]), table, 0)
}

fn delete(name: &'static str, stored: Option<usize>, table: u64) -> WriteCost {
    cost(name, stored.map(sized), WriteAction::Delete, table, 0)
}

fn without_indexes() -> Vec<WriteCost> {
    let list = AttributeValue::L(vec![map([]); 250]);
    vec![
        put("a small item", None, 100, 1),
        put("a kilobyte", None, 1024, 1),
        put("a byte more", None, 1025, 2),
        put("over a larger one", Some(2049), 100, 3),
        put("over a smaller one", Some(100), 2049, 3),
        put("over the same", Some(2000), 2000, 2),
        update("to a kilobyte", Some(1024 - 3), set("y", "zz"), 1),
        update("over a kilobyte", Some(1024 - 2), set("y", "zz"), 2),
        update("shrinks", Some(1025), remove("x"), 2),
        update("creates one", None, add("n", "1"), 1),
        update("a number of two digits a byte", Some(1024 - 4), add("n", "1234"), 1),
        update("and a byte for the sign", Some(1024 - 4), add("n", "-1234"), 2),
        update("a fraction rounds up separately", Some(1024 - 4), add("n", "12.5"), 1),
        update("a fraction of a digit more", Some(1024 - 4), add("n", "12.345"), 2),
        update("a list of 250 maps of four bytes and three", Some(1024 - 1 - 3 - 1000), set("l", list), 1),
        update("changes nothing", Some(1500), remove("nowhere"), 2),
        delete("a missing item", None, 1),
        delete("two kilobytes", Some(2048), 2),
    ]
}

fn with_indexes() -> Vec<WriteCost> {
    let update = |change| WriteAction::Update(vec![change]);
    vec![
        cost("into two indexes", None, WriteAction::Put(indexed(100)), 1, 2),
        cost("into two indexes, by kilobytes", None, WriteAction::Put(indexed(1500)), 2, 4),
        cost("out of two indexes", Some(indexed(1500)), WriteAction::Delete, 2, 4),
        cost("out of one index", Some(indexed(100)), update(remove("GSI1SK")), 1, 2),
        cost("a projected attribute", Some(indexed(100)), update(set("y", "z")), 1, 2),
        cost("the same value again", Some(indexed(100)), update(set("GSI1PK", "a")), 1, 0),
        cost("another key of one index", Some(indexed(100)), update(set("GSI1SK", "z")), 1, 3),
        cost("another key, by kilobytes", Some(indexed(1500)), update(set("GSI2PK", "z")), 2, 6),
        cost("put the same again", Some(indexed(1500)), WriteAction::Put(indexed(1500)), 2, 0),
        cost(
            "an incomplete key is not an entry",
            None,
            WriteAction::Put(item([("GSI1PK", text("a"))])),
            1,
            0,
        ),
    ]
}

pub(super) async fn suite(store: &impl TableStore) {
    for cost in without_indexes().into_iter().chain(with_indexes()) {
        for is_transacted in [false, true] {
            let key = pair("units", "1");
            let start = cost.stored.clone().map_or(WriteAction::Delete, WriteAction::Put);
            store.write(&always(key.clone(), start)).await.unwrap();
            let write = always(key, cost.action.clone());
            let (outcome, table) = if is_transacted {
                (WriteOutcome::from(store.transact(&[write]).await), 2 * cost.table)
            } else {
                (WriteOutcome::from(store.write(&write).await), cost.table)
            };
            assert_eq!(
                outcome,
                WriteOutcome::Done(table + cost.indexes),
                "{}, transacted: {is_transacted}",
                cost.name
            );
        }
    }
}
