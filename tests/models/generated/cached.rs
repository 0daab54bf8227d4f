//! Which cache keys hold a copy of an item: said a second time, by hand.

use afterwrite_demo::item::{SdkItem as Item, integer_of, text_of};

/// The cache keys under which a copy of the item in this state may lie.
pub(super) fn cached_under(model: &str, table: &str, item: &Item) -> Vec<String> {
    match model {
        "algoitny" => of_algoitny(item),
        "quiz" => of_quiz(table, item),
        "shop" => of_shop(item),
        "glad" => of_glad(item),
        other => panic!("no model {other}"),
    }
}

fn key(item: &Item) -> (&str, &str) {
    let of = |names: [&'static str; 2]| {
        names.map(|name| text_of(item, name)).into_iter().find(|text| !text.is_empty())
    };
    (of(["PK", "pk"]).unwrap_or(""), of(["SK", "sk"]).unwrap_or(""))
}

/// The key, if each of its parts is there.
fn with<const N: usize>(parts: [&str; N]) -> Option<String> {
    parts.iter().all(|part| !part.is_empty()).then(|| parts.join(":"))
}

fn all<const N: usize>(keys: [Option<String>; N]) -> Vec<String> {
    keys.into_iter().flatten().collect()
}

fn of_algoitny(item: &Item) -> Vec<String> {
    let (partition, sort) = key(item);
    let (kind, id) = partition.split_once('#').expect("a key");
    let of = |name| text_of(item, name);
    match (kind, sort.split('#').collect::<Vec<_>>().as_slice()) {
        ("USER", ["META"]) => {
            all([with(["user", id]), with(["user", "email", of("em")]), with(["user", "google", of("gid")])])
        }
        ("USER", ["USAGE", date, action, _]) => all([with(["rate_limit", action, id, date])]),
        ("PROB", ["META"]) => all([
            with(["problem", id]),
            with(["problems", "platform", of("pf")]),
            with(["problem", "alt", of("pf"), of("pid")]),
        ]),
        ("PROB", _) => all([with(["problem", id])]),
        ("HIST", _) => {
            let public = (integer_of(item, "icp") == Some(1)).then(|| "public_history".to_owned());
            all([with(["user_history", of("uid")]), public])
        }
        ("PLAN", _) => all([with(["plan", id]), Some("plans".to_owned())]),
        _ => Vec::new(),
    }
}

fn of_quiz(table: &str, item: &Item) -> Vec<String> {
    let of = |name| text_of(item, name);
    let user = of("userId");
    match table {
        "quiz-users" => all([with(["user", user]), with(["user", "email", of("email")])]),
        "quiz-questions" => {
            all([with(["question", of("questionId")]), with(["questions", of("category"), of("language")])])
        }
        "quiz-sessions" => all([with(["session", of("sessionId")]), with(["user", user, "sessions"])]),
        "quiz-progress" => all([with(["progress", user])]),
        "quiz-wrong-answers" => all([with(["wrong", user])]),
        other => panic!("no table {other}"),
    }
}

fn of_shop(item: &Item) -> Vec<String> {
    let (partition, sort) = key(item);
    let (kind, id) = partition.split_once('#').expect("a key");
    let customer = [text_of(item, "userId"), text_of(item, "user_identifier")];
    let customer = customer.into_iter().find(|name| !name.is_empty()).unwrap_or("");
    match (kind, sort.split('#').collect::<Vec<_>>().as_slice()) {
        ("USER", ["METADATA"]) => all([with(["user", id])]),
        ("USER", ["ORDER", _, order]) => all([with(["user", id, "orders"]), with(["order", order])]),
        ("ORDER", ["METADATA"]) => all([with(["user", customer, "orders"]), with(["order", id])]),
        ("ORDER", _) => all([with(["order", id])]),
        ("PRODUCT", ["METADATA"]) => {
            all([with(["product", id]), with(["category", text_of(item, "category")])])
        }
        ("PRODUCT", _) => all([with(["product", id, "reviews"])]),
        _ => Vec::new(),
    }
}

fn of_glad(item: &Item) -> Vec<String> {
    let (partition, sort) = key(item);
    let user = partition.strip_prefix("USER#").expect("a user's key");
    match sort.strip_prefix("SKILL#") {
        None => all([with(["user", user]), Some("users".to_owned())]),
        Some(skill) => all([with(["user", user, "skills"]), with(["skill", skill, "users"])]),
    }
}
