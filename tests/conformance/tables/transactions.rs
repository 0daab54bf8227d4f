//! Transactions: all or nothing, a reason for each action, limits.

use afterwrite_ledger::tables::TransactError;
use afterwrite_model::ErrorKind;
use afterwrite_model::effect::{ItemKey, Write, WriteAction, WriteCondition};
use afterwrite_model::record::Item;

use super::outcome::{RefusalReason, WriteOutcome, add, always, item, keyed, number, set, text};
use super::store::{BINARY, NUMBERED, PAIR, TableStore, attribute, pair};

pub(super) async fn suite(store: &impl TableStore) {
    carries_out_all(store).await;
    cancels_all_with_a_reason_each(store).await;
    a_condition_makes_it_repeatable(store).await;
    limits(store).await;
    wrong_configurations(store).await;
}

async fn get(store: &impl TableStore, key: &ItemKey) -> Option<Item> {
    store.read(std::slice::from_ref(key)).await.unwrap().items.remove(0)
}

async fn carries_out_all(store: &impl TableStore) {
    let (put, update, delete) = (pair("all", "put"), pair("all", "update"), pair("all", "delete"));
    let elsewhere = ItemKey { table: NUMBERED.into(), partition: attribute("ID", number("7")), sort: None };
    store.write(&always(delete.clone(), WriteAction::Put(Item::new()))).await.unwrap();
    let writes = [
        always(put.clone(), WriteAction::Put(item([("x", text("y"))]))),
        always(update.clone(), WriteAction::Update(vec![add("n", "1")])),
        always(delete.clone(), WriteAction::Delete),
        always(elsewhere.clone(), WriteAction::Update(vec![add("n", "2")])),
    ];
    assert_eq!(WriteOutcome::from(store.transact(&writes).await), WriteOutcome::Done(8));
    assert_eq!(get(store, &put).await, Some(keyed(item([("x", text("y"))]), &put)));
    assert_eq!(get(store, &update).await, Some(keyed(item([("n", number("1"))]), &update)));
    assert_eq!(get(store, &delete).await, None);
    assert_eq!(get(store, &elsewhere).await, Some(keyed(item([("n", number("2"))]), &elsewhere)));
}

async fn cancels_all_with_a_reason_each(store: &impl TableStore) {
    let stored = item([("s", text("x"))]);
    let keys = ["fine", "fails", "fails, absent", "invalid", "fine too"].map(|sort| pair("cancelled", sort));
    let [fine, fails, fails_absent, invalid, fine_too] = keys;
    for key in [&fails, &invalid] {
        store.write(&always(key.clone(), WriteAction::Put(stored.clone()))).await.unwrap();
    }
    let increment = || WriteAction::Update(vec![add("n", "1")]);
    let writes = [
        always(fine.clone(), increment()),
        Write { key: fails.clone(), condition: WriteCondition::ItemAbsent, action: increment() },
        Write {
            key: fails_absent.clone(),
            condition: WriteCondition::ItemExists,
            action: WriteAction::Delete,
        },
        always(invalid.clone(), WriteAction::Update(vec![add("s", "1")])),
        always(fine_too.clone(), WriteAction::Put(Item::new())),
    ];
    let reasons = vec![
        None,
        Some(RefusalReason::Condition(Some(keyed(stored.clone(), &fails)))),
        Some(RefusalReason::Condition(None)),
        Some(RefusalReason::Invalid),
        None,
    ];
    assert_eq!(WriteOutcome::from(store.transact(&writes).await), WriteOutcome::Refused(reasons));
    for (key, after) in [
        (&fine, None),
        (&fails, Some(keyed(stored.clone(), &fails))),
        (&fails_absent, None),
        (&invalid, Some(keyed(stored, &invalid))),
        (&fine_too, None),
    ] {
        assert_eq!(get(store, key).await, after, "{key:?}");
    }
}

/// The basis of the product: a repeated transaction is refused, and returns the result of the first one.
async fn a_condition_makes_it_repeatable(store: &impl TableStore) {
    let (entry, target) = (pair("repeated", "entry"), pair("repeated", "target"));
    let writes = [
        Write {
            key: entry.clone(),
            condition: WriteCondition::ItemAbsent,
            action: WriteAction::Put(item([("rev", number("1"))])),
        },
        always(target.clone(), WriteAction::Update(vec![add("count", "5"), add("rev", "1")])),
    ];
    assert_eq!(WriteOutcome::from(store.transact(&writes).await), WriteOutcome::Done(4));
    let existing = RefusalReason::Condition(Some(keyed(item([("rev", number("1"))]), &entry)));
    assert_eq!(
        WriteOutcome::from(store.transact(&writes).await),
        WriteOutcome::Refused(vec![Some(existing), None])
    );
    let counted = item([("count", number("5")), ("rev", number("1"))]);
    assert_eq!(get(store, &target).await, Some(keyed(counted, &target)));
}

async fn limits(store: &impl TableStore) {
    let numbered = |count: usize| -> Vec<Write> {
        let key = |number: usize| pair("limits", &number.to_string());
        (0..count).map(|number| always(key(number), WriteAction::Update(vec![add("n", "1")]))).collect()
    };
    let rejected = WriteOutcome::Failed(ErrorKind::Rejected);
    assert_eq!(WriteOutcome::from(store.transact(&[]).await), rejected);
    assert_eq!(WriteOutcome::from(store.transact(&numbered(101)).await), rejected);
    assert_eq!(WriteOutcome::from(store.transact(&numbered(100)).await), WriteOutcome::Done(200));

    let mut twice = numbered(2);
    twice.push(always(pair("limits", "0"), WriteAction::Delete));
    assert_eq!(WriteOutcome::from(store.transact(&twice).await), rejected);

    // Eleven items of 390,000 bytes exceed 4 MB; ten do not.
    assert_eq!(WriteOutcome::from(store.transact(&large_puts(11)).await), rejected);
    assert_eq!(WriteOutcome::from(store.transact(&large_puts(10)).await), WriteOutcome::Done(10 * 2 * 381));
}

fn large_puts(count: usize) -> Vec<Write> {
    let large = item([("x", text(&"x".repeat(390_000)))]);
    let put = |number: usize| always(pair("large", &number.to_string()), WriteAction::Put(large.clone()));
    (0..count).map(put).collect()
}

async fn wrong_configurations(store: &impl TableStore) {
    let fine = always(pair("set-up", "fine"), WriteAction::Update(vec![set("x", "y")]));
    let key = |table: &str, partition: &str, sort: Option<&str>| ItemKey {
        table: table.into(),
        partition: attribute(partition, text("p")),
        sort: sort.map(|sort| attribute(sort, text("s"))),
    };
    for (key, table) in [
        (key("nowhere", "PK", Some("SK")), "nowhere"),
        (key(PAIR, "PK", None), PAIR),
        (key(PAIR, "ID", Some("SK")), PAIR),
        (key(NUMBERED, "ID", None), NUMBERED),
        (key(BINARY, "ID", Some("AT")), BINARY),
    ] {
        for action in
            [WriteAction::Put(Item::new()), WriteAction::Update(vec![set("x", "y")]), WriteAction::Delete]
        {
            let writes = [fine.clone(), always(key.clone(), action)];
            let Err(TransactError::Failed(error)) = store.transact(&writes).await else {
                panic!("{key:?} was not refused");
            };
            assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
            assert!(
                error.to_string().contains(table) && error.to_string().contains("AFTERWRITE_"),
                "{error}"
            );
        }
    }
    for key in [pair("", "x"), pair("x", "")] {
        let writes = [fine.clone(), always(key, WriteAction::Delete)];
        assert_eq!(
            WriteOutcome::from(store.transact(&writes).await),
            WriteOutcome::Failed(ErrorKind::Rejected)
        );
    }
    assert_eq!(get(store, &fine.key).await, None);
}
