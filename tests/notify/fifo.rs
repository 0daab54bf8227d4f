//! FIFO targets: the events of an item keep their order over retries, redeliveries and restarts.

use std::collections::BTreeMap;

use afterwrite_model::ErrorKind;
use afterwrite_services::EventOrder;
use afterwrite_tests::random::SeededRandom;
use serde_json::{Value, json};

use super::stand_ins::{NotifySetup, change, checkpoint, sequence_number, statuses};

const CHANGES: usize = 60;
const ORDERS: usize = 7;

/// Each order goes through states that are numbered: the order of events can be read from them.
fn records() -> Vec<Value> {
    (0..CHANGES)
        .map(|number| change(number, &format!("o{}", number % ORDERS), &format!("{number:04}")))
        .collect()
}

/// By group: the statuses in order of arrival.
fn by_group(setup: &NotifySetup) -> BTreeMap<String, Vec<String>> {
    let events = setup.bus.events();
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (event, status) in events.iter().zip(statuses(&events)) {
        groups.entry(event.group.clone()).or_default().push(status);
    }
    groups
}

/// Delivers records as Lambda does: after a failure, the rest of the batch from the lowest failure on.
async fn deliver_all(setup: &NotifySetup, records: &[Value], size: usize) {
    let mut from = 0;
    let mut deliveries = 0;
    while from < records.len() {
        let until = records.len().min(from + size);
        let relayed = setup.deliver(&records[from..until]).await;
        let index_of = |number: &str| (0..records.len()).position(|index| sequence_number(index) == number);
        from = checkpoint(&relayed).map_or(until, |number| index_of(number).unwrap());
        deliveries += 1;
        assert!(deliveries < 1_000, "no progress");
    }
}

#[tokio::test]
async fn the_events_of_an_item_keep_their_order_over_retries_and_redeliveries() {
    for seed in 0..40 {
        let setup = NotifySetup::new(EventOrder::Fifo, true);
        let mut random = SeededRandom::new(seed);
        let share = [0, 100, 500, 900][usize::try_from(seed % 4).unwrap()];
        setup.bus.refuse(move |_, _| random.chance(share).then_some(ErrorKind::Unavailable));
        deliver_all(&setup, &records(), [1, 7, 25, 60][usize::try_from(seed / 4 % 4).unwrap()]).await;
        let groups = by_group(&setup);
        assert_eq!(groups.len(), ORDERS, "seed {seed}");
        for statuses in groups.values() {
            assert!(statuses.is_sorted(), "seed {seed}: {statuses:?}");
        }
        let statuses: Vec<String> = groups.into_values().flatten().collect();
        assert_eq!(statuses.len(), CHANGES, "seed {seed}: each event once");
        assert!(setup.queue.messages().is_empty(), "an event of a FIFO target never goes through the queue");
    }
}

#[tokio::test]
async fn a_request_has_at_most_one_event_of_an_item() {
    let setup = NotifySetup::new(EventOrder::Fifo, false);
    setup.deliver(&records()).await;
    for request in setup.bus.inner.requests() {
        let mut groups: Vec<&str> = request.iter().map(|event| event.group.as_str()).collect();
        groups.sort_unstable();
        groups.dedup();
        assert_eq!(groups.len(), request.len());
    }
}

#[tokio::test]
async fn later_events_of_an_item_wait_and_other_items_do_not() {
    let setup = NotifySetup::new(EventOrder::Fifo, false);
    setup.bus.refuse(|entry, _| entry.body.contains("ORDER#o3").then_some(ErrorKind::Unavailable));
    let relayed = setup.deliver(&records()).await;
    assert_eq!(checkpoint(&relayed), Some(&*sequence_number(3)));
    let groups = by_group(&setup);
    assert_eq!(groups.len(), ORDERS - 1);
    assert_eq!(groups.values().map(Vec::len).sum::<usize>(), CHANGES - CHANGES.div_ceil(ORDERS));
    setup.bus.recover();
    deliver_all(&setup, &records()[3..], 100).await;
    let groups = by_group(&setup);
    assert!(groups.values().all(|statuses| statuses.is_sorted()));
    assert_eq!(setup.bus.events().len(), CHANGES, "nothing is sent twice");
}

/// The events of a malformed record are unknown until it is delivered again, so the later ones of its item wait.
#[tokio::test]
async fn events_wait_for_an_earlier_record_of_the_item_that_failed() {
    let mut malformed = change(1, "o1", "0001");
    malformed["dynamodb"].as_object_mut().unwrap().remove("OldImage");
    let batch = [change(0, "o0", "0000"), malformed, change(2, "o1", "0002"), change(3, "o2", "0003")];
    let fifo = NotifySetup::new(EventOrder::Fifo, false);
    let relayed = fifo.deliver(&batch).await;
    assert_eq!(checkpoint(&relayed), Some(&*sequence_number(1)));
    assert_eq!(statuses(&fifo.bus.events()), ["0000", "0003"]);
    let standard = NotifySetup::new(EventOrder::Standard, false);
    standard.deliver(&batch).await;
    assert_eq!(statuses(&standard.bus.events()), ["0000", "0002", "0003"]);
    let repaired = [change(1, "o1", "0001"), change(2, "o1", "0002"), change(3, "o2", "0003")];
    assert_eq!(checkpoint(&fifo.deliver(&repaired).await), None);
    assert_eq!(statuses(&fifo.bus.events()), ["0000", "0003", "0001", "0002"]);
}

/// A cold process sends events again that another process had sent: the target drops them by their ids.
#[tokio::test]
async fn a_repeated_event_has_the_same_deduplication_id() {
    let (first, second) =
        (NotifySetup::new(EventOrder::Fifo, false), NotifySetup::new(EventOrder::Fifo, false));
    first.deliver(&records()).await;
    second.deliver(&records()).await;
    let ids = |setup: &NotifySetup| {
        setup.bus.events().into_iter().map(|event| (event.id, event.group)).collect::<Vec<_>>()
    };
    assert_eq!(ids(&first), ids(&second));
    assert_eq!(json!(ids(&first)).as_array().unwrap().len(), CHANGES);
}
