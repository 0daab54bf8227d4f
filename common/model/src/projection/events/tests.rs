//! Given these images, expect these events.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::ErrorKind;
use crate::record::RecordDecoder;

const MODEL: &str = r##"
name = "shop"
generation = 1
[tables.shop]
key = ["PK", "SK"]
types = { SK = "N" }

[entities.order]
key = { PK = "CUSTOMER#{customer}", SK = "{number}" }
attributes = { status = "S", total = "N", paid_at = "S", address = "M", parts = "N", whole = "N", uses = "N", kind = "S", expires_at = "N" }
when.kind = [{ anything-but = "DRAFT" }, { exists = false }]
derive.share = { percent = ["parts", "whole"] }
ttl = "expires_at"
secret = ["card"]

[entities.draft]
key = { PK = "CUSTOMER#{customer}", SK = "{number}" }
attributes = { kind = "S" }

[rollups.customer]
key = { PK = "SPENT#{customer}", SK = "ROLLUP" }
[[aggregates]]
name = "orders"
of = "order"
into = "customer"
measures.orders = "count"
measures.spent = { sum = "total" }

[[events]]
name = "order_paid"
of = "order"
when.status = ["PAID"]
detail = ["customer", "number", "total", "paid_at:day", "share", "address", "uses"]

[[events]]
name = "order_reopened"
of = "order"
on = "leave"
when.status = ["PAID"]
detail = ["status"]
to = "audit"

[[events]]
name = "order_touched"
of = "order"
on = "change"

[[events]]
name = "draft_gone"
of = "draft"
on = "leave"

[[events]]
name = "good_customer"
of = "customer"
when.spent = [{ numeric = [">", 100] }]
detail = ["customer", "spent"]

[[events]]
name = "known_customer"
of = "customer"
detail = ["orders"]

[[events]]
name = "changes"
of = "*"
records = true
to = "search"
"##;

fn model() -> Model {
    Model::parse(MODEL, "shop.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

/// The record of a change of an item with this key between two images.
fn record(keys: &Value, position: u32, [old, new]: [Option<&Value>; 2]) -> Value {
    let name = match (old, new) {
        (None, _) => "INSERT",
        (_, None) => "REMOVE",
        _ => "MODIFY",
    };
    let mut change = json!({
        "ApproximateCreationDateTime": 1_770_336_000 + position,
        "Keys": keys,
        "SequenceNumber": position.to_string(),
        "StreamViewType": "NEW_AND_OLD_IMAGES",
    });
    for (name, image) in [("OldImage", old), ("NewImage", new)] {
        if let Some(image) = image {
            change[name] = image.clone();
        }
    }
    json!({
        "eventID": position.to_string(),
        "eventName": name,
        "eventSourceARN": "arn:aws:dynamodb:eu-west-1:1:table/shop/stream/2026-01-01T00:00:00.000",
        "dynamodb": change,
    })
}

fn try_events(model: &Model, table: usize, record: &str) -> Result<Vec<Event>> {
    let decoded = RecordDecoder::new(&model.attributes).record(record.as_bytes()).map_err(|bad| bad.error)?;
    let source = SourceKey::of_keys(model, table, &decoded.keys).unwrap();
    let candidates = Some(source.candidates(model)).filter(|candidates| !candidates.is_empty());
    let change =
        EventChange { source: &source, candidates: candidates.as_ref(), record: &decoded, json: record };
    events_of(model, &change, &SecretAttributes::new(model))
}

fn order_key() -> Value {
    json!({ "PK": { "S": "CUSTOMER#c1" }, "SK": { "N": "7" } })
}

/// The names of an order's events, without those of the rule that forwards records.
fn names(old: Option<&Value>, new: Option<&Value>) -> Vec<String> {
    let record = record(&order_key(), 1, [old, new]).to_string();
    let events = try_events(&model(), 0, &record).unwrap();
    let (forwarded, names): (Vec<_>, Vec<_>) =
        events.into_iter().map(|event| event.name.to_string()).partition(|name| name == "changes");
    assert_eq!(forwarded.len(), 1);
    names
}

fn status(status: &str) -> Value {
    json!({ "status": { "S": status } })
}

#[test]
fn an_item_enters_and_leaves_a_condition() {
    let (open, paid) = (status("OPEN"), status("PAID"));
    let touched = "order_touched";
    assert_eq!(names(None, Some(&open)), [touched]);
    assert_eq!(names(None, Some(&paid)), ["order_paid", touched]);
    assert_eq!(names(Some(&open), Some(&paid)), ["order_paid", touched]);
    assert_eq!(names(Some(&paid), Some(&paid)), [touched]);
    assert_eq!(names(Some(&paid), Some(&open)), ["order_reopened", touched]);
    assert_eq!(names(Some(&paid), None), ["order_reopened"]);
    assert_eq!(names(Some(&open), None), [""; 0]);
}

#[test]
fn an_item_that_moves_to_another_entity_leaves_the_first_one() {
    let (draft, paid) = (json!({ "kind": { "S": "DRAFT" }, "status": { "S": "PAID" } }), status("PAID"));
    assert_eq!(names(Some(&draft), Some(&paid)), ["order_paid", "order_touched", "draft_gone"]);
    assert_eq!(names(Some(&paid), Some(&draft)), ["order_reopened"]);
    assert_eq!(names(None, Some(&draft)), [""; 0]);
}

#[test]
fn an_event_is_an_envelope_with_exact_values() {
    let model = model();
    let paid = json!({
        "status": { "S": "PAID" }, "total": { "N": "12345678901234567890.123456789012345678" },
        "paid_at": { "S": "2026-02-06T09:30:00Z" }, "parts": { "N": "2" }, "whole": { "N": "3" },
        "address": { "M": { "city": { "S": "\"Zürich\"" }, "tags": { "SS": ["a"] } } }, "card": { "S": "4111" },
    });
    let written = record(&order_key(), 42, [None, Some(&paid)]).to_string();
    let events = try_events(&model, 0, &written).unwrap();
    let event = &events[0];
    let position = format!("2026-01-01T00:00:00.000#{:040}", 42);
    let head = format!(
        r#"{{"id":"{}","name":"order_paid","entity":"order","table":"shop","key":{{"PK":"CUSTOMER#c1","SK":7}}"#,
        event.id
    );
    let detail = r#"{"customer":"c1","number":"7","total":12345678901234567890.123456789012345678,"paid_at:day":"2026-02-06","share":66.666667,"address":{"city":"\"Zürich\"","tags":["a"]},"uses":null}"#;
    let tail = format!(r#""operation":"INSERT","changed_at":"2026-02-06T00:00:42Z","position":"{position}""#);
    assert_eq!(event.body(), format!(r#"{head},"detail":{detail},{tail}}}"#));
    assert_eq!(event.body_without_detail(), format!(r#"{head},{tail},"detail_omitted":true}}"#));
    assert_eq!(event.detail(), Some(detail));
    assert_eq!((event.to.as_deref(), event.id.len(), event.group.len()), (None, 32, 32));
    let forwarded = events.last().unwrap();
    assert_eq!(
        (&*forwarded.name, forwarded.to.as_deref(), &forwarded.group),
        ("changes", Some("search"), &event.group)
    );
    let body: Value = serde_json::from_str(&forwarded.body()).unwrap();
    assert_eq!(body["dynamodb"]["NewImage"]["status"], json!({ "S": "PAID" }));
    assert!(!forwarded.body().contains("4111") && !forwarded.body().contains('\n'), "{body}");
    let omitted: Value = serde_json::from_str(&forwarded.body_without_detail()).unwrap();
    assert_eq!(omitted["detail_omitted"], json!(true));
    assert_eq!(omitted["key"]["SK"], json!(7));
}

#[test]
fn an_event_states_the_values_after_the_change_or_the_last_ones() {
    let detail = |old: Option<&Value>, new: Option<&Value>| {
        let record = record(&order_key(), 1, [old, new]).to_string();
        let events = try_events(&model(), 0, &record).unwrap();
        let left = events.iter().find(|event| &*event.name == "order_reopened").unwrap();
        (left.detail().unwrap().to_owned(), left.body())
    };
    let (paid, open) = (status("PAID"), status("OPEN"));
    assert_eq!(detail(Some(&paid), Some(&open)).0, r#"{"status":"OPEN"}"#);
    let (stated, body) = detail(Some(&paid), None);
    assert_eq!(stated, r#"{"status":"PAID"}"#);
    assert!(body.contains(r#""operation":"REMOVE""#));
    let expired = json!({ "status": { "S": "PAID" }, "expires_at": { "N": "1770336000" } });
    assert!(detail(Some(&expired), None).1.contains(r#""operation":"EXPIRE""#), "by the attribute `ttl`");
}

#[test]
fn a_rollup_passes_a_limit_and_is_absent_at_zero() {
    let model = model();
    let table = model.state_source().unwrap();
    let key = json!({ "PK": { "S": "SPENT#c1" }, "SK": { "S": "ROLLUP" } });
    let spent =
        |orders: i64, spent: &str| json!({ "orders": { "N": orders.to_string() }, "spent": { "N": spent } });
    let names = |old: Option<&Value>, new: Option<&Value>| -> Vec<String> {
        let events = try_events(&model, table, &record(&key, 1, [old, new]).to_string()).unwrap();
        events.iter().map(|event| event.name.to_string()).collect()
    };
    assert_eq!(names(None, Some(&spent(1, "100"))), ["known_customer"]);
    assert_eq!(names(Some(&spent(1, "100")), Some(&spent(2, "100.01"))), ["good_customer"]);
    assert_eq!(names(Some(&spent(2, "100.01")), Some(&spent(3, "200"))), [""; 0], "it had passed before");
    assert_eq!(names(Some(&spent(1, "5")), Some(&spent(0, "0"))), [""; 0], "a rollup at zero is absent");
    assert_eq!(names(Some(&spent(0, "0")), Some(&spent(1, "200"))), ["good_customer", "known_customer"]);
}

#[test]
fn only_items_of_the_application_are_forwarded() {
    let model = model();
    let of =
        |key: Value| try_events(&model, 0, &record(&key, 1, [None, Some(&json!({}))]).to_string()).unwrap();
    assert_eq!(of(json!({ "PK": { "S": "UNKNOWN" }, "SK": { "N": "1" } })).len(), 1, "also of no entity");
    assert_eq!(of(json!({ "PK": { "S": "AFTERWRITE#HEARTBEAT" }, "SK": { "N": "0" } })).len(), 0);
    assert_eq!(of(json!({ "PK": { "S": "LEDGER#shop#CUSTOMER#c1" }, "SK": { "N": "1" } })).len(), 0);
}

#[test]
fn a_value_of_another_type_fails_no_record() {
    let odd = json!({ "status": { "N": "5" }, "total": { "S": "many" }, "parts": { "S": "x" }, "whole": { "N": "1" } });
    assert_eq!(names(None, Some(&odd)), ["order_touched"]);
    let odd = json!({ "status": { "S": "PAID" }, "total": { "S": "many" }, "parts": { "S": "x" }, "whole": { "N": "1" } });
    let written = record(&order_key(), 1, [None, Some(&odd)]).to_string();
    let detail: Value =
        serde_json::from_str(try_events(&model(), 0, &written).unwrap()[0].detail().unwrap()).unwrap();
    assert_eq!((&detail["total"], &detail["share"]), (&json!("many"), &Value::Null));
}

#[test]
fn a_stream_without_the_needed_images_is_an_error() {
    let model = model();
    let mut written = record(&order_key(), 1, [Some(&status("OPEN")), Some(&status("PAID"))]);
    written["dynamodb"]["StreamViewType"] = json!("NEW_IMAGE");
    written["dynamodb"].as_object_mut().unwrap().remove("OldImage");
    let error = try_events(&model, 0, &written.to_string()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stream);
    assert!(
        error.to_string().contains("NEW_AND_OLD_IMAGES") && error.to_string().contains("NEW_IMAGE"),
        "{error}"
    );
    written["dynamodb"]["Keys"] = json!({ "PK": { "S": "UNKNOWN" }, "SK": { "N": "1" } });
    assert_eq!(
        try_events(&model, 0, &written.to_string()).unwrap().len(),
        1,
        "a forwarded record needs no image"
    );
}

#[test]
fn the_targets_of_a_model_are_named_once() {
    let model = model();
    let targets: Vec<Option<Arc<str>>> = model.event_targets().into_iter().collect();
    assert_eq!(targets, [None, Some("audit".into()), Some("search".into())]);
    assert!(model.forwards_records());
}

proptest! {
    /// The statuses that an order has one after the other; `None` while it does not exist.
    #[test]
    fn each_transition_is_one_event_with_its_own_id(
        states in prop::collection::vec(prop::option::of(prop::sample::select(vec!["OPEN", "PAID", "SENT"])), 1..12),
    ) {
        let model = model();
        let (mut before, mut ids, mut entered) = (None, BTreeSet::new(), 0_i32);
        for (position, state) in (1..).zip(states) {
            if before.is_none() && state.is_none() {
                continue;
            }
            let [old, new] = [before, state].map(|state| state.map(status));
            let written = record(&order_key(), position, [old.as_ref(), new.as_ref()]).to_string();
            let events = try_events(&model, 0, &written).unwrap();
            prop_assert_eq!(&events, &try_events(&model, 0, &written).unwrap(), "a second delivery");
            for event in &events {
                prop_assert!(ids.insert(event.id.clone()), "two events have one id");
                prop_assert!(serde_json::from_str::<Value>(&event.body()).is_ok());
                prop_assert!(serde_json::from_str::<Value>(&event.body_without_detail()).is_ok());
            }
            let count = |name: &str| i32::try_from(events.iter().filter(|event| *event.name == *name).count()).unwrap();
            entered += count("order_paid") - count("order_reopened");
            prop_assert_eq!(entered, i32::from(state == Some("PAID")), "after {:?} → {:?}", before, state);
            prop_assert_eq!(count("order_touched"), i32::from(state.is_some()));
            before = state;
        }
    }
}
