//! Writes that stay in memory have the effect that the tables would give them.

use std::borrow::Cow;
use std::sync::Arc;

use afterwrite_ledger::tables::{Tables, TransactError, WriteError};
use afterwrite_memory::{MemoryTables, TableDefinition, item_key};
use afterwrite_model::effect::{AttributeChange, ItemKey, Write, WriteAction, WriteCondition};
use afterwrite_model::record::{AttributePath, AttributeValue, Decimal, Item};
use afterwrite_preview::tables::OverlayTables;
use afterwrite_tests::random::SeededRandom;

fn memory() -> MemoryTables {
    let tables = MemoryTables::new();
    tables.create_table(TableDefinition::new("T", "PK").sort("SK"));
    tables
}

fn key(random: &mut SeededRandom) -> ItemKey {
    let (partition, sort) = (format!("p{}", random.below(2)), format!("s{}", random.below(3)));
    item_key("T", &partition, &sort)
}

fn value(random: &mut SeededRandom) -> AttributeValue<'static> {
    match random.below(4) {
        0 => AttributeValue::text("x"),
        1 => AttributeValue::M(Item::new()),
        _ => AttributeValue::N(Decimal::from(i64::try_from(random.below(3)).unwrap())),
    }
}

fn path(random: &mut SeededRandom) -> AttributePath {
    random.pick(&["a", "b", "n", "m.n"]).unwrap().parse().unwrap()
}

fn write(random: &mut SeededRandom) -> Write {
    let condition = match random.below(6) {
        0 => WriteCondition::ItemAbsent,
        1 => WriteCondition::ItemExists,
        2 => WriteCondition::Less(path(random), AttributeValue::N(Decimal::from(2))),
        3 => WriteCondition::Any(vec![
            WriteCondition::Absent(path(random)),
            WriteCondition::Equals(path(random), value(random)),
        ]),
        _ => WriteCondition::Always,
    };
    let action = match random.below(5) {
        0 => WriteAction::Delete,
        1 => WriteAction::Put(
            [(Cow::Borrowed("a"), value(random)), (Cow::Borrowed("n"), value(random))].into(),
        ),
        2 => WriteAction::Update(vec![AttributeChange::Remove(path(random))]),
        3 => WriteAction::Update(vec![AttributeChange::Set(path(random), value(random))]),
        _ => WriteAction::Update(vec![AttributeChange::Add(path(random), Decimal::from(1))]),
    };
    Write { key: key(random), condition, action }
}

/// The outcome without the consumed units, which a dry run does not have.
fn of_write(outcome: Result<impl Sized, WriteError>) -> String {
    match outcome {
        Ok(_) => "done".to_owned(),
        Err(error) => format!("{error:?}"),
    }
}

fn of_transaction(outcome: Result<impl Sized, TransactError>) -> String {
    match outcome {
        Ok(_) => "done".to_owned(),
        Err(error) => format!("{error:?}"),
    }
}

#[tokio::test]
async fn random_writes_have_the_same_outcome_in_memory_and_over_tables_that_are_not_written() {
    for seed in 0..20 {
        let mut random = SeededRandom::new(seed);
        let (written, beneath) = (memory(), Arc::new(memory()));
        // Both begin with the same items.
        for _ in 0..5 {
            let write = Write { condition: WriteCondition::Always, ..write(&mut random) };
            let (one, other) = (written.write(&write).await, beneath.write(&write).await);
            assert_eq!(of_write(one), of_write(other));
        }
        let before = beneath.scan("T");
        let overlay = OverlayTables::new(Arc::clone(&beneath));
        let mut done = 0;
        for _ in 0..200 {
            let first = write(&mut random);
            let second = write(&mut random);
            let (one, other) = if random.chance(500) || first.key == second.key {
                (of_write(written.write(&first).await), of_write(overlay.write(&first).await))
            } else {
                let both = [first, second];
                (of_transaction(written.transact(&both).await), of_transaction(overlay.transact(&both).await))
            };
            assert_eq!(one, other, "seed {seed}");
            done += u32::from(one == "done");
        }
        assert!((20..200).contains(&done), "seed {seed}: {done} of 200 writes had an effect");
        assert_eq!(beneath.scan("T"), before, "the tables beneath were written");
        let mut shown: Vec<Item> = before;
        for difference in overlay.differences() {
            shown.retain(|item| Some(item) != difference.before.as_ref());
            shown.extend(difference.after);
        }
        shown.sort_by_key(|item| format!("{:?}{:?}", item.get("PK"), item.get("SK")));
        assert_eq!(shown, written.scan("T"), "seed {seed}");
    }
}
