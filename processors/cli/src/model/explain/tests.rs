use afterwrite_model::ErrorKind;
use serde_json::json;

use super::*;

/// The explanation of an item by a model of this text.
fn explained(model: &str, item: &serde_json::Value) -> Explanation {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.toml");
    std::fs::write(&file, model).unwrap();
    explain(&file.display().to_string(), item, &[])
}

fn explain(model: &str, item: &serde_json::Value, given: &[(&str, &str)]) -> Explanation {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("item.json");
    std::fs::write(&file, item.to_string()).unwrap();
    let model = Arc::new(Model::load(model).unwrap());
    let arguments = ExplainArguments {
        model: ModelArgument { model: None },
        item: file.display().to_string(),
        table: None,
        given: given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        json: false,
    };
    let item = ItemFile::read(&arguments.item).unwrap();
    arguments.explain(&model, &item).unwrap()
}

fn attempt() -> serde_json::Value {
    json!({
        "PK": "CANDIDATE#c-1", "SK": "ATTEMPT#a-1", "candidate_id": "c-1", "attempt_id": "a-1", "project_id": "p-1",
        "status": "COMPLETED", "started_at": "2026-02-06T10:00:00Z", "completed_at": "2026-02-06T10:30:00Z",
        "score": 8, "total_questions": 10, "time_taken_seconds": 1800,
    })
}

#[test]
fn an_attempt_has_contributions_cache_keys_and_a_row() {
    let explanation = explain("exambuddy", &attempt(), &[("admin_id", "adm-9")]);
    let [item] = explanation.items.as_slice() else { panic!("{explanation:?}") };
    assert_eq!((&*item.entity, &item.problems), ("attempt", &Vec::new()));
    let keys: Vec<&str> = item.counted.iter().map(|counted| &*counted.sort).collect();
    assert_eq!(item.counted.len(), 4, "{keys:?}");
    assert!(item.counted.iter().all(|counted| counted.partition == "ADMIN#adm-9"), "{:?}", item.counted);
    assert!(keys.contains(&"ROLLUP#PROJECT#p-1#DAY#2026-02-06"), "{keys:?}");
    assert_eq!(item.counted[0].measures.get("passed").unwrap(), "+1");
    assert_eq!(item.counted[0].measures.get("score_sum").unwrap(), "+8");
    assert!(item.stale_keys.iter().any(|stale| stale.key == "attempt:a-1" && stale.remedy == "delete"));
    let [row] = item.rows.as_slice() else { panic!("{:?}", item.rows) };
    assert_eq!(
        (&*row.dataset, &*row.dt, row.columns.get("score").unwrap().as_deref()),
        ("attempts", "2026-02-06", Some("8"))
    );
}

#[test]
fn an_output_that_is_not_given_is_shown_by_its_name() {
    let explanation = explain("exambuddy", &attempt(), &[]);
    let text = explanation.to_string();
    assert!(text.contains("ADMIN#<admin_id>") && text.contains("admin_id = <admin_id>"), "{text}");
}

#[test]
fn an_output_that_a_zone_needs_is_asked_for() {
    let order = json!({
        "PK": "CUSTOMER#c-1", "SK": "ORDER#o-1", "restaurant": "r-1", "status": "placed",
        "total": "12.50", "placed_at": "2026-02-06T10:00:00Z",
    });
    let explanation = explain("marketplace", &order, &[]);
    // The item is good: nothing is known of its contributions, and nothing is wrong.
    let [item] = explanation.items.as_slice() else { panic!("{explanation:?}") };
    assert_eq!((&item.problems, item.skipped), (&Vec::new(), 0), "{item:?}");
    // The total of the restaurant has no time, and the day is that of the zone.
    let partitions: Vec<&str> = item.counted.iter().map(|counted| &*counted.partition).collect();
    assert!(partitions.contains(&"RESTAURANT#r-1"), "{partitions:?}");
    assert!(!partitions.iter().any(|partition| partition.starts_with("CITY#")), "{partitions:?}");
    let text = explanation.to_string();
    assert!(
        text.contains("Not known here") && text.contains("--given city=VALUE --given time_zone=VALUE"),
        "{text}"
    );
    // Of another wrong value of the item, no output is the cause.
    let mut wrong = order.clone();
    wrong["total"] = json!("a lot");
    let [item] = &explain("marketplace", &wrong, &[]).items[..] else { panic!("an order") };
    assert!(!item.problems.is_empty() && item.unknown_outputs.is_empty(), "{item:?}");
    let given = [("city", "lisbon"), ("time_zone", "Europe/Lisbon")];
    let text = explain("marketplace", &order, &given).to_string();
    assert!(text.contains("DAY#2026-02-06") && !text.contains("--given"), "{text}");
}

#[test]
fn an_item_that_matches_no_entity_is_shown_with_the_known_keys() {
    let explanation = explain("exambuddy", &json!({ "PK": "NOBODY#1", "SK": "NOTHING" }), &[]);
    assert!(explanation.items.is_empty());
    let text = explanation.to_string();
    assert!(text.contains("matches no entity") && text.contains("attempt"), "{text}");
}

#[test]
fn the_error_of_a_record_is_shown_next_to_what_still_follows() {
    let mut item = attempt();
    item["score"] = json!("eight");
    let explanation = explain("exambuddy", &item, &[]);
    let [item] = explanation.items.as_slice() else { panic!("{explanation:?}") };
    let [problem] = item.problems.as_slice() else { panic!("{:?}", item.problems) };
    let problem = problem.to_string();
    assert!(problem.contains("score") && !problem.contains("eight"), "{problem}");
    assert!(!item.stale_keys.is_empty() && !item.rows.is_empty());
}

#[test]
fn unknown_tables_and_outputs_are_rejected() {
    let model = Arc::new(Model::load("exambuddy").unwrap());
    let arguments = |table: Option<&str>, given: &[&str]| ExplainArguments {
        model: ModelArgument { model: None },
        item: "-".to_owned(),
        table: table.map(str::to_owned),
        given: given.iter().map(|given| pair(given).unwrap()).collect(),
        json: false,
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("item.json");
    std::fs::write(&file, attempt().to_string()).unwrap();
    let item = ItemFile::read(&file.display().to_string()).unwrap();
    for arguments in [arguments(Some("Other"), &[]), arguments(None, &["admin=1"])] {
        let error = arguments.explain(&model, &item).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    }
    assert!(pair("no value").is_err());
}

#[test]
fn a_follow_counts_on_the_users_that_the_bindings_name() {
    let model = r##"
        name = "follows"
        generation = 1
        tables.Social.key = ["PK", "SK"]
        entities.follow.key = { PK = "USER#{follower}", SK = "FOLLOW#{followed}" }
        rollups.user.key = { PK = "USER#{username}", SK = "ROLLUP" }
        [[aggregates]]
        name = "following"
        of = "follow"
        into = "user"
        bind = { username = "follower" }
        measures.following = "count"
        [[aggregates]]
        name = "followers"
        of = "follow"
        into = "user"
        bind = { username = "followed" }
        measures.followers = "count"
    "##;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("follows.toml");
    std::fs::write(&file, model).unwrap();
    let follow = json!({ "PK": "USER#ann", "SK": "FOLLOW#ben" });
    let explanation = explain(&file.display().to_string(), &follow, &[]);
    let [item] = explanation.items.as_slice() else { panic!("{explanation:?}") };
    let counted: Vec<(&str, &str)> = item
        .counted
        .iter()
        .flat_map(|counted| counted.measures.names().map(|measure| (&*counted.partition, &**measure)))
        .collect();
    assert_eq!(counted, [("USER#ann", "following"), ("USER#ben", "followers")]);
}

#[test]
fn the_events_of_an_item_are_shown_with_their_values_and_the_others_with_what_they_need() {
    let model = r##"
        name = "shop"
        generation = 1
        tables.Shop.key = ["PK", "SK"]
        entities.order.key = { PK = "CUSTOMER#{customer}", SK = "ORDER#{order}" }
        entities.order.attributes = { status = "S", total = "N" }
        [[events]]
        name = "order_paid"
        of = "order"
        when.status = ["PAID"]
        detail = ["order", "total"]
        to = "billing"
        [[events]]
        name = "order_sent"
        of = "order"
        when.status = ["SENT"]
        [[events]]
        name = "order_reopened"
        of = "order"
        on = "leave"
        when.status = ["CLOSED"]
        [[events]]
        name = "changes"
        of = "*"
        records = true
    "##;
    let order = json!({ "PK": "CUSTOMER#c1", "SK": "ORDER#o1", "status": "PAID", "total": 5 });
    let explanation = explained(model, &order);
    let [item] = explanation.items.as_slice() else { panic!("{explanation:?}") };
    let names: Vec<(&str, Option<&str>)> =
        item.events.iter().map(|event| (&*event.name, event.to.as_deref())).collect();
    assert_eq!(names, [("order_paid", Some("billing")), ("changes", None)]);
    // An item that is not in the state of a `leave` rule is not left out by it.
    assert_eq!((item.left_out.len(), &*item.left_out[0].part), (1, "event order_sent"));
    let text = explanation.to_string();
    assert!(text.contains(r#"{"order":"o1","total":5}"#) && text.contains("the change record"), "{text}");
}

/// The text that `latest` compares is no value of the item.
#[test]
fn a_latest_value_is_shown_as_the_value_of_its_measure() {
    let model = r##"
        name = "pets"
        generation = 1
        tables.Pets.key = ["PK", "SK"]
        entities.visit.key = { PK = "PET#{pet}", SK = "VISIT#{visit}" }
        entities.visit.attributes = { status = "S", at = "N" }
        rollups.pet.key = { PK = "PET#{pet}", SK = "TOTAL" }
        [[aggregates]]
        name = "pets"
        of = "visit"
        into = "pet"
        measures.status = { latest = "status", by = "at" }
    "##;
    let visit = json!({ "PK": "PET#p1", "SK": "VISIT#v1", "status": "booked", "at": 1_770_400_000 });
    let explanation = explained(model, &visit);
    let measures: Vec<_> = explanation.items[0].counted[0].measures.iter().collect();
    let [(name, share)] = measures.as_slice() else { panic!("{measures:?}") };
    assert_eq!((&***name, &***share), ("status", "booked, unless a later one was seen"));
}

#[test]
fn an_item_of_no_entity_has_the_nearest_key_and_the_part_that_does_not_fit() {
    let item = json!({ "PK": "CANDIDATE#c-1", "SK": "ATTEMPTS#a-1" });
    let explanation = explain("exambuddy", &item, &[]);
    let nearest = "`SK` of attempt: it does not begin with `ATTEMPT#`";
    assert_eq!(explanation.nearest, [nearest]);
    assert!(explanation.to_string().contains(&format!("The nearest key does not fit in {nearest}")));
}
