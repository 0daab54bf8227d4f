//! Tests of the faults.

use super::*;
use afterwrite_memory::{MemoryTables, TableDefinition};
use afterwrite_model::effect::{AttributeChange, KeyAttribute, WriteAction, WriteCondition};
use afterwrite_model::record::Item;
use std::pin::pin;
use std::task::Waker;

fn tables(rates: FaultRates, seed: u64) -> FaultyTables<MemoryTables> {
    let memory = MemoryTables::new();
    memory.create_table(TableDefinition::new("t", "PK"));
    FaultyTables::new(memory, rates, seed)
}

fn increment(key: &str) -> Write {
    let partition = KeyAttribute { name: "PK".into(), value: key.to_owned().into() };
    let key = ItemKey { table: "t".into(), partition, sort: None };
    Write {
        key,
        condition: WriteCondition::Always,
        action: WriteAction::Update(vec![AttributeChange::Add("n".into(), 1.into())]),
    }
}

/// Runs a future to completion; returns its output and how often it was pending.
fn run<F: Future>(future: F) -> (F::Output, usize) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let mut pending = 0;
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return (output, pending),
            Poll::Pending => pending += 1,
        }
    }
}

#[test]
fn every_call_is_pending_exactly_once() {
    let tables = tables(FaultRates::NONE, 1);
    let write = increment("a");
    assert_eq!(run(tables.write(&write)).1, 1);
    assert_eq!(run(tables.transact(std::slice::from_ref(&write))).1, 1);
    assert_eq!(run(tables.read(std::slice::from_ref(&write.key))).1, 1);
    assert_eq!(tables.injected(), InjectedFaults::default());
}

#[test]
fn a_write_dropped_while_pending_has_no_effect() {
    let tables = tables(FaultRates::NONE, 1);
    let write = increment("a");
    let mut future = Box::pin(tables.write(&write));
    assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(future);
    assert!(tables.inner().scan("t").is_empty());
}

#[test]
fn a_call_with_a_lost_response_took_effect_and_an_unavailable_one_did_not() {
    let write = increment("a");
    for (rates, items) in [
        (FaultRates { lost_answer: 1000, ..FaultRates::NONE }, 1),
        (FaultRates { unavailable: 1000, ..FaultRates::NONE }, 0),
    ] {
        let tables = tables(rates, 1);
        let (result, _) = run(tables.write(&write));
        assert!(matches!(result, Err(WriteError::Failed(error)) if error.is_retryable()));
        assert_eq!(tables.inner().scan("t").len(), items);
    }
}

#[test]
fn a_conflict_has_no_effect_and_refuses_at_least_one_action() {
    for seed in 0..50 {
        let tables = tables(FaultRates { conflict: 1000, ..FaultRates::NONE }, seed);
        let (result, _) = run(tables.transact(&[increment("a"), increment("b")]));
        let Err(TransactError::Cancelled(reasons)) = result else { panic!("not cancelled") };
        assert_eq!(reasons.len(), 2);
        assert!(reasons.contains(&Some(WriteRefusal::Conflict)));
        assert!(tables.inner().scan("t").is_empty());
    }
}

/// The results of 200 writes with this seed, the injected faults and the items.
fn trace(seed: u64) -> (Vec<String>, InjectedFaults, Vec<Item>) {
    let tables = tables(FaultRates::SOME, seed);
    let write = increment("a");
    let results = (0..200).map(|_| format!("{:?}", run(tables.write(&write)))).collect();
    (results, tables.injected(), tables.inner().scan("t"))
}

#[test]
fn a_seed_reproduces_its_faults() {
    assert_eq!(trace(5), trace(5));
    assert_ne!(trace(5).0, trace(6).0);
    let (_, injected, _) = trace(5);
    assert!(injected.conflicts > 0 && injected.throttles > 0 && injected.unavailable > 0);
    assert!(injected.lost_answers > 0 && injected.slow > 0);
}

#[test]
fn a_late_write_takes_effect_when_it_lands() {
    let tables = tables(FaultRates { late: 1000, ..FaultRates::NONE }, 1);
    let write = increment("a");
    tables.set_author(7);
    let mut future = Box::pin(tables.write(&write));
    let mut context = Context::from_waker(Waker::noop());
    // Its author gives up, with an error or without an answer.
    for _ in 0..5 {
        if future.as_mut().poll(&mut context).is_ready() {
            break;
        }
    }
    drop(future);
    assert!(tables.inner().scan("t").is_empty() && tables.has_late_requests());
    assert_eq!(run(tables.land()).0, Some(7));
    assert_eq!(tables.inner().scan("t").len(), 1);
    assert!(!tables.has_late_requests());
    assert_eq!(run(tables.land()).0, None);
}

#[test]
fn a_call_that_hangs_is_never_ready() {
    let tables = tables(FaultRates { hang: 1000, ..FaultRates::NONE }, 1);
    let write = increment("a");
    let mut future = Box::pin(tables.write(&write));
    let mut context = Context::from_waker(Waker::noop());
    assert!((0..100).all(|_| future.as_mut().poll(&mut context).is_pending()));
    assert_eq!(tables.inner().scan("t").len(), 1, "it took effect");
}

#[test]
fn a_torn_read_sees_a_later_write_in_its_second_part_only() {
    let tables = tables(FaultRates { torn_read: 1000, ..FaultRates::NONE }, 1);
    let keys = [increment("a").key, increment("b").key];
    let mut future = Box::pin(tables.read(&keys));
    let mut context = Context::from_waker(Waker::noop());
    // The first poll yields, the second reads the first item.
    assert!((0..2).all(|_| future.as_mut().poll(&mut context).is_pending()));
    for key in ["a", "b"] {
        tables.inner().write_now(&increment(key)).unwrap();
    }
    let items = run(future).0.unwrap().items;
    assert!(items[0].is_none() && items[1].is_some());
}

#[test]
fn a_rejected_transaction_has_no_effect_and_can_be_sent_again() {
    let tables = tables(FaultRates { rejected: 1000, ..FaultRates::NONE }, 3);
    let writes = [increment("a"), increment("b")];
    assert!(run(tables.transact(&writes)).0.is_err());
    assert!(tables.inner().scan("t").is_empty());
    tables.set_rates(FaultRates::NONE);
    assert!(run(tables.transact(&writes)).0.is_ok());
}
