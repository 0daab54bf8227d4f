//! Items that move: entities share keys, a condition tells them apart, and changes make other conditions hold. The results are compared
//! with a recount of its own, in every order of delivery.

use std::collections::BTreeMap;

use afterwrite_model::table::Model;
use afterwrite_tests::random::SeededRandom;
use serde_json::{Value, json};

use super::delivery::DeliveryOrder;
use super::values::plain_value;
use super::workload::TableWorkload;

const MODEL: &str = r##"
name = "accounts"
generation = 1

[tables.app]
key = ["PK", "SK"]

[entities.organization]
key = { PK = "ACCOUNT#{org}", SK = "ACCOUNT#{org}" }
when.Type = ["Organization"]
attributes = { Type = "S", plan = "S", seats = "N" }
secret = ["tax_number"]

[entities.user]
key = { PK = "ACCOUNT#{account}", SK = "ACCOUNT#{account}" }
when.Type = ["User"]
attributes = { Type = "S", member_of = "S", born = "S" }
derive.org = { first = ["member_of"] }
on_expiry = "subtract"
secret = ["password"]

# Takes what is left: robots, and accounts without a type.
[entities.account]
key = { PK = "ACCOUNT#{account}", SK = "ACCOUNT#{account}" }
attributes = { Type = "any" }

# A draft is of no entity.
[entities.open_ticket]
key = { PK = "ACCOUNT#{account}", SK = "TICKET#{ticket}" }
when.state = ["OPEN"]
attributes = { state = "S", hours = "N" }

[entities.closed_ticket]
key = { PK = "ACCOUNT#{account}", SK = "TICKET#{ticket}" }
when.state = ["CLOSED", "REJECTED"]
attributes = { state = "S", hours = "N", opened = "S" }

# More literal than a ticket.
[entities.summary]
key = { PK = "ACCOUNT#{account}", SK = "TICKET#SUMMARY" }

[rollups.plan]
key = { PK = "PLAN#{plan}", SK = "ROLLUP" }
[rollups.org]
key = { PK = "ORG#{org}", SK = "ROLLUP" }
[rollups.all]
key = { PK = "ALL", SK = "ROLLUP" }
[rollups.tickets]
key = { PK = "TICKETS#{account}", SK = "ROLLUP" }

[[aggregates]]
name = "organizations"
of = "organization"
into = "plan"
measures = { organizations = "count", seats = { sum = "seats" } }

[[aggregates]]
name = "users"
of = "user"
into = "org"
when.org = [{ exists = true }]
measures = { users = "count" }

[[aggregates]]
name = "others"
of = "account"
into = "all"
measures = { others = "count" }

[[aggregates]]
name = "open"
of = "open_ticket"
into = "tickets"
measures = { open = "count", open_hours = { sum = "hours" } }

[[aggregates]]
name = "closed"
of = "closed_ticket"
into = "tickets"
measures = { closed = "count", hours = { sum = "hours" } }

[[aggregates]]
name = "summaries"
of = "summary"
into = "all"
measures = { summaries = "count" }

[[mirrors]]
onto = "organization"
from = "org"
attributes = { users = "users" }

[[caches]]
of = "organization"
keys = ["organization:{org}"]

[[caches]]
of = "user"
keys = ["user:{account}", "members:{member_of}"]
depends_on = ["member_of"]

[datasets.users]
of = "user"
partition = "born:day"
columns = { account = "string", born = "string" }

[datasets.organizations]
of = "organization"
when.plan = [{ anything-but = "TRIAL" }]
partition = "founded:day"
columns = { org = "string", plan = "string", founded = "string" }
"##;

fn workload() -> TableWorkload {
    TableWorkload::of_model(Model::parse(MODEL, "accounts.toml").unwrap_or_else(|errors| panic!("{errors}")))
}

fn key(account: &str) -> Value {
    json!({ "PK": format!("ACCOUNT#{account}"), "SK": format!("ACCOUNT#{account}") })
}

fn with(mut item: Value, attributes: Value) -> Value {
    for (name, value) in attributes.as_object().expect("attributes") {
        item[name] = value.clone();
    }
    item
}

fn organization(id: &str, plan: &str) -> Value {
    let attributes = json!({ "Type": "Organization", "plan": plan, "seats": 5, "founded": "2026-02-01", "tax_number": "t" });
    with(key(id), attributes)
}

fn user(id: &str, member_of: &str) -> Value {
    let attributes = json!({ "Type": "User", "member_of": member_of, "born": "2026-02-03", "password": "p" });
    with(key(id), attributes)
}

#[tokio::test]
async fn an_item_that_becomes_another_entity_is_subtracted_there_and_added_here() {
    let mut workload = workload();
    workload
        .put("app", organization("acme", "GOLD"))
        .put("app", user("ann", "acme"))
        .put("app", user("bob", "acme"))
        .put("app", organization("bob", "GOLD"))
        .put("app", with(key("eve"), json!({ "Type": "Robot" })))
        .put("app", key("eve"))
        .put("app", user("eve", "acme"));
    let rollups = [
        ("PLAN#GOLD", "ROLLUP", json!({ "organizations": 2, "seats": 10 })),
        ("ORG#acme", "ROLLUP", json!({ "users": 2 })),
    ];
    let shown = [
        ("app", key("acme"), "users", Some(json!(2))),
        ("app", key("bob"), "users", Some(json!(0))),
        ("app", key("eve"), "users", None),
    ];
    workload.assert_derived(&rollups, &shown).await;
}

#[test]
fn a_move_makes_stale_what_both_entities_cache() {
    let mut workload = workload();
    workload.put("app", user("ann", "acme"));
    assert_eq!(workload.stale(), ["members:acme", "user:ann"]);
    workload.put("app", with(user("ann", "acme"), json!({ "born": "2026-02-04" })));
    assert!(workload.stale().is_empty(), "nothing that the keys depend on has changed");
    workload.put("app", organization("ann", "GOLD"));
    assert_eq!(workload.stale(), ["members:acme", "organization:ann", "user:ann"]);
    workload.put("app", key("ann"));
    assert_eq!(workload.stale(), ["organization:ann"]);
}

#[test]
fn a_move_leaves_one_dataset_and_enters_another() {
    let rows = |workload: &TableWorkload| -> Vec<String> {
        workload.rows().into_iter().map(|(row, _)| row).collect()
    };
    let mut workload = workload();
    workload.put("app", user("ann", "acme"));
    assert_eq!(rows(&workload), ["users 2026-02-03 INSERT"]);
    workload.put("app", organization("ann", "GOLD"));
    assert_eq!(rows(&workload), ["organizations 2026-02-01 MODIFY", "users 2026-02-03 REMOVE"]);
    workload.put("app", key("ann"));
    assert_eq!(rows(&workload), ["organizations 2026-02-01 REMOVE"]);
    workload.put("app", user("ann", "acme"));
    assert_eq!(rows(&workload), ["users 2026-02-03 MODIFY"]);
    workload.expire("app", key("ann"));
    assert_eq!(rows(&workload), ["users 2026-02-03 EXPIRE"]);
}

#[test]
fn an_item_that_stops_meeting_the_condition_leaves_the_dataset() {
    let mut workload = workload();
    workload.put("app", organization("acme", "TRIAL"));
    assert!(workload.rows().is_empty(), "it does not meet the condition yet");
    workload.put("app", organization("acme", "GOLD"));
    workload.assert_row("organizations 2026-02-01 MODIFY");
    workload.put("app", with(organization("acme", "TRIAL"), json!({ "seats": 9 })));
    workload.assert_row("organizations 2026-02-01 REMOVE");
    workload.put("app", organization("acme", "TRIAL"));
    assert!(workload.rows().is_empty());
    workload.remove("app", key("acme"));
    assert!(workload.rows().is_empty(), "it left before");
}

#[tokio::test]
async fn an_expiry_follows_the_entity_that_expired() {
    let mut workload = workload();
    workload
        .put("app", user("kept", "acme"))
        .put("app", organization("kept", "GOLD"))
        .expire("app", key("kept"))
        .put("app", organization("gone", "GOLD"))
        .put("app", user("gone", "acme"))
        .expire("app", key("gone"))
        .put("app", user("back", "acme"))
        .put("app", organization("back", "GOLD"))
        .expire("app", key("back"))
        .put("app", user("back", "acme"));
    let rollups = [
        ("PLAN#GOLD", "ROLLUP", json!({ "organizations": 2, "seats": 10 })),
        ("ORG#acme", "ROLLUP", json!({ "users": 1 })),
    ];
    workload.assert_derived(&rollups, &[]).await;
}

/// The numbers by rollup and measure, recounted from the changes themselves.
#[derive(Default)]
struct RecountedSums(BTreeMap<(String, String), i64>);

impl RecountedSums {
    fn add(&mut self, partition: &str, measure: &str, number: i64) {
        *self.0.entry((partition.to_owned(), measure.to_owned())).or_default() += number;
    }

    fn add_item(&mut self, item: &Value) {
        let text = |name: &str| item[name].as_str().unwrap_or("");
        let account = text("PK").trim_start_matches("ACCOUNT#").to_owned();
        let hours = item["hours"].as_i64().unwrap_or(0);
        match (text("SK").split_once('#'), text("Type"), text("state")) {
            (Some(("ACCOUNT", _)), "Organization", _) => {
                let partition = format!("PLAN#{}", text("plan"));
                self.add(&partition, "organizations", 1);
                self.add(&partition, "seats", item["seats"].as_i64().unwrap_or(0));
            }
            (Some(("ACCOUNT", _)), "User", _) if !text("member_of").is_empty() => {
                self.add(&format!("ORG#{}", text("member_of")), "users", 1);
            }
            (Some(("ACCOUNT", _)), "User", _) => {}
            (Some(("ACCOUNT", _)), _, _) => self.add("ALL", "others", 1),
            (Some(("TICKET", "SUMMARY")), ..) => self.add("ALL", "summaries", 1),
            (Some(("TICKET", _)), _, "OPEN") => {
                self.add(&format!("TICKETS#{account}"), "open", 1);
                self.add(&format!("TICKETS#{account}"), "open_hours", hours);
            }
            (Some(("TICKET", _)), _, "CLOSED" | "REJECTED") => {
                self.add(&format!("TICKETS#{account}"), "closed", 1);
                self.add(&format!("TICKETS#{account}"), "hours", hours);
            }
            _ => {}
        }
    }

    /// The rollups with the measures that are not zero.
    fn rollups(&self) -> super::delivery::ItemsByKey {
        let mut rollups = super::delivery::ItemsByKey::new();
        for ((partition, measure), number) in self.0.iter().filter(|(_, number)| **number != 0) {
            let rollup = rollups.entry((partition.clone(), "ROLLUP".to_owned())).or_default();
            rollup.insert(measure.clone(), plain_value(&json!(number)));
        }
        rollups
    }
}

/// An item of a random entity, under one of few keys.
fn random_item(random: &mut SeededRandom) -> Value {
    let account = ["a", "b", "c"][usize::try_from(random.below(3)).expect("small")];
    if random.below(3) == 0 {
        let ticket = ["1", "2", "SUMMARY"][usize::try_from(random.below(3)).expect("small")];
        let states =
            [json!("OPEN"), json!("CLOSED"), json!("REJECTED"), json!("DRAFT"), json!(7), Value::Null];
        let state = &states[usize::try_from(random.below(6)).expect("small")];
        let key = json!({ "PK": format!("ACCOUNT#{account}"), "SK": format!("TICKET#{ticket}") });
        return with(key, json!({ "state": state, "hours": random.below(9) }));
    }
    let other = ["a", "b"][usize::try_from(random.below(2)).expect("small")];
    match random.below(5) {
        0 | 1 => with(organization(account, "GOLD"), json!({ "seats": random.below(9) })),
        2 => user(account, other),
        3 => with(key(account), json!({ "Type": "User" })),
        _ => with(key(account), json!({ "Type": ["Robot"] })),
    }
}

/// Whether TTL deletes an item of an entity that keeps what expired.
fn is_kept(item: &Value) -> bool {
    let is_account = item["SK"].as_str().is_some_and(|key| key.starts_with("ACCOUNT#"));
    !(is_account && item["Type"] == "User")
}

#[tokio::test]
async fn random_moves_are_counted_as_the_recount_has_them() {
    for seed in 0..60 {
        let mut random = SeededRandom::new(seed);
        let (mut workload, mut settled) = (workload(), RecountedSums::default());
        let mut items: BTreeMap<String, Value> = BTreeMap::new();
        for _ in 0..25 {
            let item = random_item(&mut random);
            let id = format!("{}{}", item["PK"], item["SK"]);
            match (random.below(6), items.get(&id).cloned()) {
                (0, Some(stored)) => {
                    workload.remove("app", json!({ "PK": stored["PK"], "SK": stored["SK"] }));
                    items.remove(&id);
                }
                (1, Some(stored)) => {
                    workload.expire("app", json!({ "PK": stored["PK"], "SK": stored["SK"] }));
                    if is_kept(&stored) {
                        settled.add_item(&stored);
                    }
                    items.remove(&id);
                }
                _ => {
                    workload.put("app", item.clone());
                    items.insert(id, item);
                }
            }
        }
        let users_of = |org: &str, sums: &RecountedSums| {
            sums.0.get(&(format!("ORG#{org}"), "users".to_owned())).copied().unwrap_or(0)
        };
        items.values().for_each(|item| settled.add_item(item));
        for order in DeliveryOrder::ALL {
            let delivered = workload.deliver_moving(order).await;
            assert_eq!(delivered.rollups(), settled.rollups(), "seed {seed}, {order:?}");
            for item in items
                .values()
                .filter(|item| item["SK"].as_str().is_some_and(|key| key.starts_with("ACCOUNT")))
            {
                let account = item["PK"].as_str().unwrap_or("").trim_start_matches("ACCOUNT#");
                let is_organization = item["Type"] == "Organization";
                let expected = is_organization.then(|| plain_value(&json!(users_of(account, &settled))));
                let shown = delivered.shown("app", &key(account), "users");
                assert_eq!(shown, expected, "seed {seed}, {order:?}: {account}");
            }
        }
    }
}
