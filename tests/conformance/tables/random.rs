//! Random sequences of writes: both implementations return the same results and hold the same items in the end.

use std::borrow::Cow;

use afterwrite_ledger::tables::Tables as _;
use afterwrite_model::effect::{AttributeChange, ItemKey, Write, WriteAction, WriteCondition};
use afterwrite_model::record::{AttributeValue, Decimal, Item};
use afterwrite_tests::random::SeededRandom;

use super::outcome::{WriteOutcome, decimal, map, path, text};
use super::store::{PAIR, TableStore, embedded, in_memory, pair};

const SEEDS: u64 = 3;
const STEPS: usize = 300;

#[tokio::test]
async fn both_implementations_return_the_same_results() {
    for seed in 0..SEEDS {
        let (memory, server) = (in_memory(), embedded().await);
        let mut random = SeededRandom::new(seed);
        let (mut done, mut refused, mut failed) = (0, 0, 0);
        for step in 0..STEPS {
            let writes = writes(&mut random);
            let (one, other) = match writes.as_slice() {
                [write] if random.chance(700) => (
                    WriteOutcome::from(memory.write(write).await),
                    WriteOutcome::from(server.write(write).await),
                ),
                writes => (
                    WriteOutcome::from(memory.transact(writes).await),
                    WriteOutcome::from(server.transact(writes).await),
                ),
            };
            assert_eq!(one, other, "seed {seed}, step {step}: {writes:#?}");
            match one {
                WriteOutcome::Done(_) => done += 1,
                WriteOutcome::Refused(_) => refused += 1,
                WriteOutcome::Failed(_) => failed += 1,
            }
        }
        let (in_memory, on_server) = (TableStore::scan(&memory, PAIR).await, server.scan(PAIR).await);
        // A sequence with nearly equal outcomes would prove little.
        assert!(done > 60 && refused > 60 && failed > 10, "seed {seed}: {done} {refused} {failed}");
        assert!(!in_memory.is_empty());
        assert_eq!(in_memory, on_server, "seed {seed}");
    }
}

/// One to five writes, occasionally two to the same item.
fn writes(random: &mut SeededRandom) -> Vec<Write> {
    let count = if random.chance(500) { 1 } else { 1 + random.below(5) };
    let mut writes: Vec<Write> = Vec::new();
    for _ in 0..count {
        let key = key(random);
        if writes.iter().all(|write| write.key != key) || random.chance(20) {
            let condition = if random.chance(600) { WriteCondition::Always } else { condition(random, 0) };
            writes.push(Write { key, condition, action: action(random) });
        }
    }
    writes
}

fn key(random: &mut SeededRandom) -> ItemKey {
    pair(&format!("p{}", random.below(3)), &format!("s{}", random.below(3)))
}

fn action(random: &mut SeededRandom) -> WriteAction {
    match random.below(10) {
        0 => WriteAction::Delete,
        1..=3 => WriteAction::Put(attributes(random)),
        _ => {
            let count = 1 + random.below(4);
            WriteAction::Update((0..count).map(|_| change(random)).collect())
        }
    }
}

fn attributes(random: &mut SeededRandom) -> Item {
    let count = random.below(6);
    (0..count).map(|_| (Cow::Owned(name(random).to_owned()), value(random))).collect()
}

/// A top-level attribute name.
fn name(random: &mut SeededRandom) -> &'static str {
    random.pick(&["a", "b", "n", "m", "l", "set", "GSI1PK", "GSI1SK", "GSI2PK"]).unwrap()
}

fn random_path(random: &mut SeededRandom) -> afterwrite_model::record::AttributePath {
    const NESTED: [&str; 6] = ["m/a", "m/n", "m/m", "m/m/n", "a/n", "nowhere/n"];
    if random.chance(300) { path(random.pick(&NESTED).unwrap()) } else { path(name(random)) }
}

fn change(random: &mut SeededRandom) -> AttributeChange {
    match random.below(6) {
        0 | 1 => AttributeChange::Set(random_path(random), value(random)),
        2 => AttributeChange::Remove(random_path(random)),
        // Mostly to a number, so that there are many sums.
        3 => AttributeChange::Add(random_path(random), number(random)),
        _ => AttributeChange::Add(path("n"), number(random)),
    }
}

fn condition(random: &mut SeededRandom, depth: u64) -> WriteCondition {
    let parts =
        |random: &mut SeededRandom| (0..random.below(3)).map(|_| condition(random, depth + 1)).collect();
    match random.below(if depth < 2 { 12 } else { 8 }) {
        0..=2 => WriteCondition::Always,
        3 => WriteCondition::ItemExists,
        4 => WriteCondition::Absent(random_path(random)),
        5 => WriteCondition::Equals(random_path(random), value(random)),
        6 => WriteCondition::Differs(random_path(random), value(random)),
        7 => WriteCondition::Less(random_path(random), AttributeValue::N(number(random))),
        8 => WriteCondition::ItemAbsent,
        9 => WriteCondition::All(parts(random)),
        _ => WriteCondition::Any(parts(random)),
    }
}

fn number(random: &mut SeededRandom) -> Decimal {
    let numbers =
        ["0", "1", "-1", "2.5", "-0.001", "1E+30", "99999999999999999999999999999999999999", "1E-38"];
    decimal(random.pick(&numbers).unwrap())
}

fn value(random: &mut SeededRandom) -> AttributeValue<'static> {
    match random.below(12) {
        0 | 1 => AttributeValue::N(number(random)),
        2 | 3 => text(random.pick(&["", "a", "b", "a longer text"]).unwrap()),
        4 => text(&"x".repeat(usize::try_from(random.below(3000)).unwrap())),
        5 => AttributeValue::B(Cow::Owned(vec![0, 255])),
        6 => AttributeValue::Bool(random.chance(500)),
        7 => AttributeValue::L(vec![AttributeValue::Null, AttributeValue::N(number(random))]),
        8 => AttributeValue::Ss(vec!["b".into(), "a".into()]),
        9 => AttributeValue::Ns(vec![Decimal::from(10), Decimal::from(9)]),
        10 => map([("n", AttributeValue::N(number(random))), ("m", map([]))]),
        _ => map([]),
    }
}
