//! algoitny: histories and usage logs are rows.

use afterwrite_demo::item::{SdkItem as Item, integer_of, text_of};

use super::{ExpectedRow, key, present};

pub(super) fn cache_keys(_: &str, item: &Item) -> Vec<String> {
    let (partition, sort) = (text_of(item, "pk"), text_of(item, "sk"));
    let (kind, id) = partition.split_once('#').expect("a key");
    let of = |name| text_of(item, name);
    match (kind, sort.split('#').collect::<Vec<_>>().as_slice()) {
        ("USER", ["META"]) => {
            present([key(["user", id]), key(["user", "email", of("em")]), key(["user", "google", of("gid")])])
        }
        ("USER", ["USAGE", date, action, _]) => present([key(["rate_limit", action, id, date])]),
        ("PROB", ["META"]) => present([
            key(["problem", id]),
            key(["problems", "platform", of("pf")]),
            key(["problem", "alt", of("pf"), of("pid")]),
        ]),
        ("PROB", _) => present([key(["problem", id])]),
        ("HIST", _) => {
            let public = (integer_of(item, "icp") == Some(1)).then(|| "public_history".to_owned());
            present([key(["user_history", of("uid")]), public])
        }
        ("PLAN", _) => present([key(["plan", id]), Some("plans".to_owned())]),
        _ => Vec::new(),
    }
}

pub(super) fn row<'i>(_: &str, item: &'i Item) -> Option<ExpectedRow<'i>> {
    let (partition, sort) = (text_of(item, "pk"), text_of(item, "sk"));
    if let Some(history) = partition.strip_prefix("HIST#") {
        let columns = ExpectedRow::of("history", item, "ca")
            .text("history_id", Some(history))
            .text("user_id", text_of(item, "uid").strip_prefix("USER#"))
            .text("problem_id", text_of(item, "pid").strip_prefix("PROB#"))
            .scalar("platform", "pf")
            .scalar("problem_number", "pnum")
            .scalar("problem_name", "pnm")
            .scalar("language", "lg")
            .scalar("status", "rs.status")
            .scalar("passed", "pc")
            .scalar("failed", "fc")
            .scalar("total", "tc")
            .scalar("is_public", "icp")
            .instant("created_at", "ca");
        return Some(columns);
    }
    let usage: Vec<&str> = sort.strip_prefix("USAGE#")?.split('#').collect();
    let columns = ExpectedRow::of("usage", item, "ca")
        .text("user_id", partition.strip_prefix("USER#"))
        .text("used_on", Some(usage[0]))
        .text("action", Some(usage[1]))
        .text("logged_at", Some(usage[2]))
        .scalar("problem", "pid")
        .scalar("language", "md.language")
        .instant("created_at", "ca");
    Some(columns)
}
