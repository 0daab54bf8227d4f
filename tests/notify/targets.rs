//! Standard targets: entries that fail are sent again alone, and a warm process sends nothing twice.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::ErrorKind;
use afterwrite_services::EventOrder;
use serde_json::Value;

use super::stand_ins::{NotifySetup, change, checkpoint, sequence_number, statuses};

/// Twenty-five orders; every fifth is paid.
fn records() -> Vec<Value> {
    let status = |number: usize| if number.is_multiple_of(5) { "PAID" } else { "SENT" };
    (0..25).map(|number| change(number, &format!("o{number}"), status(number))).collect()
}

#[tokio::test]
async fn each_event_goes_to_the_target_of_its_rule_in_requests_of_ten() {
    let setup = NotifySetup::new(EventOrder::Standard, false);
    let relayed = setup.deliver(&records()).await;
    assert_eq!(checkpoint(&relayed), None);
    let totals = relayed.notified.unwrap();
    assert_eq!((totals.sent, totals.failed, totals.queued, totals.requests), (30, 0, 0, 4));
    assert_eq!(totals.oldest, Some(std::time::Duration::ZERO));
    let lengths: Vec<usize> = setup.bus.requests().iter().map(Vec::len).collect();
    assert_eq!(lengths, [10, 10, 5]);
    let paid = setup.billing.events();
    assert!(paid.len() == 5 && paid.iter().all(|event| event.name == "order_paid"));
    let ids: BTreeSet<String> = setup.bus.events().into_iter().chain(paid).map(|event| event.id).collect();
    assert_eq!(ids.len(), 30);
}

#[tokio::test]
async fn entries_that_failed_are_sent_again_alone() {
    let setup = NotifySetup::new(EventOrder::Standard, false);
    let mut seen = BTreeSet::new();
    // Every entry of these three orders fails once.
    let refused: BTreeSet<usize> = [3, 11, 24].into();
    setup.bus.refuse(move |entry, _| {
        let envelope: Value = serde_json::from_str(entry.body).unwrap();
        let order = envelope["key"]["PK"].as_str().unwrap().strip_prefix("ORDER#o").unwrap().to_owned();
        let is_refused = refused.contains(&order.parse::<usize>().unwrap());
        (is_refused && seen.insert(entry.id.to_owned())).then_some(ErrorKind::Unavailable)
    });
    let relayed = setup.deliver(&records()).await;
    assert_eq!(checkpoint(&relayed), None);
    assert_eq!(setup.bus.requests().iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 5, 3]);
    let mut by_id: BTreeMap<String, usize> = BTreeMap::new();
    setup.bus.events().into_iter().for_each(|event| *by_id.entry(event.id).or_default() += 1);
    assert!(by_id.len() == 25 && by_id.values().all(|times| *times == 1), "{by_id:?}");
}

#[tokio::test]
async fn a_warm_process_sends_nothing_twice_because_another_target_failed() {
    let setup = NotifySetup::new(EventOrder::Standard, false);
    setup.billing.refuse(|_, _| Some(ErrorKind::Unavailable));
    let records = records();
    let relayed = setup.deliver(&records).await;
    assert_eq!(checkpoint(&relayed), Some(&*sequence_number(0)));
    assert_eq!(relayed.notified.unwrap().failed, 5);
    setup.billing.recover();
    let relayed = setup.deliver(&records).await;
    assert_eq!(checkpoint(&relayed), None);
    assert_eq!((setup.bus.events().len(), setup.billing.events().len()), (25, 5));
    assert_eq!(relayed.notified.unwrap().sent, 5, "only those that failed");
}

#[tokio::test]
async fn an_entry_that_is_refused_for_good_fails_its_record_alone() {
    let setup = NotifySetup::new(EventOrder::Standard, false);
    setup.billing.refuse(|entry, _| entry.body.contains("ORDER#o10").then_some(ErrorKind::Rejected));
    let relayed = setup.deliver(&records()).await;
    assert_eq!(checkpoint(&relayed), Some(&*sequence_number(10)));
    let [failure] = &relayed.failures[..] else { panic!("{:?}", relayed.failures) };
    assert_eq!(failure.error.kind(), ErrorKind::Rejected);
    // It was tried once, and no other event waited for it.
    assert_eq!((setup.billing.requests().len(), setup.billing.events().len()), (1, 4));
}

#[tokio::test]
async fn an_event_has_one_id_in_every_delivery_and_every_cut_of_a_batch() {
    let ids = async |size: usize| {
        let setup = NotifySetup::new(EventOrder::Standard, false);
        for batch in records().chunks(size) {
            setup.deliver(batch).await;
        }
        assert_eq!(statuses(&setup.bus.events()).len(), 25);
        let events = setup.bus.events().into_iter().chain(setup.billing.events());
        events.map(|event| (event.id, event.body)).collect::<BTreeSet<_>>()
    };
    let whole = ids(100).await;
    assert_eq!(ids(1).await, whole);
    assert_eq!(ids(7).await, whole);
}
