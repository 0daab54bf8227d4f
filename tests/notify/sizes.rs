//! Events that are larger than their target takes.

use afterwrite_model::ErrorKind;
use afterwrite_services::{EventOrder, EventTarget as _};
use serde_json::Value;

use super::stand_ins::{NotifySetup, change, change_with_note, checkpoint};

#[tokio::test]
async fn an_event_that_is_too_large_is_sent_without_its_detail_and_counted() {
    let setup = NotifySetup::new(EventOrder::Standard, false);
    let note = "x".repeat(setup.bus.limits().bytes);
    let records =
        [change(0, "o0", "SENT"), change_with_note(1, "o1", "SENT", &note), change(2, "o2", "SENT")];
    let relayed = setup.deliver(&records).await;
    assert_eq!(checkpoint(&relayed), None);
    let totals = relayed.notified.unwrap();
    assert_eq!((totals.sent, totals.detail_omitted, totals.failed), (3, 1, 0));
    let envelopes: Vec<Value> =
        setup.bus.events().iter().map(|event| serde_json::from_str(&event.body).unwrap()).collect();
    let [first, second, _] = &envelopes[..] else { panic!("three events") };
    assert_eq!((&second["detail_omitted"], second.get("detail")), (&Value::Bool(true), None));
    assert_eq!(first.get("detail_omitted"), None);
    for member in ["id", "name", "key", "position", "changed_at"] {
        assert!(second.get(member).is_some(), "{member}");
    }
}

/// A queue can have a smaller limit than its service allows.
#[tokio::test]
async fn a_large_event_that_is_refused_is_sent_again_without_its_detail() {
    for order in [EventOrder::Standard, EventOrder::Fifo] {
        let setup = NotifySetup::new(order, false);
        let limit = 262_144;
        setup.bus.refuse(move |entry, _| (entry.body.len() > limit).then_some(ErrorKind::Rejected));
        let note = "x".repeat(limit);
        let records =
            [change(0, "o0", "SENT"), change_with_note(1, "o1", "SENT", &note), change(2, "o1", "LATER")];
        let relayed = setup.deliver(&records).await;
        assert_eq!(checkpoint(&relayed), None);
        let totals = relayed.notified.unwrap();
        assert_eq!((totals.sent, totals.detail_omitted, totals.failed), (3, 1, 0));
        assert_eq!(
            setup.bus.events().iter().filter(|event| event.body.contains("detail_omitted")).count(),
            1
        );
    }
}

#[tokio::test]
async fn events_share_a_request_up_to_its_size() {
    let setup = NotifySetup::new(EventOrder::Standard, false);
    let note = "x".repeat(setup.bus.limits().bytes / 3);
    let records: Vec<Value> =
        (0..5).map(|number| change_with_note(number, &format!("o{number}"), "SENT", &note)).collect();
    assert_eq!(checkpoint(&setup.deliver(&records).await), None);
    assert_eq!(setup.bus.requests().iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
}

/// SQS and SNS refuse two characters that JSON allows.
#[tokio::test]
async fn characters_that_queues_refuse_are_escaped() {
    let setup = NotifySetup::new(EventOrder::Standard, false);
    setup.deliver(&[change_with_note(0, "o0", "SENT", "a\u{FFFE}b\u{FFFF}c")]).await;
    let [event] = setup.bus.events().try_into().unwrap();
    assert!(!event.body.contains(['\u{FFFE}', '\u{FFFF}']));
    let envelope: Value = serde_json::from_str(&event.body).unwrap();
    assert_eq!(envelope["detail"]["note"], "a\u{FFFE}b\u{FFFF}c");
}
