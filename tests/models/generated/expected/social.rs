//! social: photos, comments and follows are rows.

use afterwrite_demo::item::{SdkItem as Item, text_of};

use super::{ExpectedRow, key, present};

pub(super) fn cache_keys(_: &str, item: &Item) -> Vec<String> {
    let [(kind, first), (_, second)] = parts(item);
    match kind {
        "USER" => present([key(["user", first])]),
        "UP" => present([key(["user", first, "photos"]), key(["photo", second])]),
        "PL" | "PC" => present([key(["photo", first])]),
        _ => present([key(["user", first, "followers"]), key(["user", second, "following"])]),
    }
}

pub(super) fn row<'i>(_: &str, item: &'i Item) -> Option<ExpectedRow<'i>> {
    let [(kind, first), (_, second)] = parts(item);
    let columns = match kind {
        "UP" => ExpectedRow::of("photos", item, "created_at")
            .text("photo_id", Some(second))
            .text("username", Some(first))
            .scalar("url", "url"),
        "PC" => ExpectedRow::of("comments", item, "created_at")
            .text("comment_id", Some(second))
            .text("photo_id", Some(first))
            .scalar("commenting_username", "commenting_username")
            .scalar("content", "content"),
        "FOLLOW" => ExpectedRow::of("follows", item, "created_at")
            .text("followed", Some(first))
            .text("follower", Some(second)),
        _ => return None,
    };
    Some(columns.instant("created_at", "created_at"))
}

/// The kinds and the ids in both key attributes.
fn parts(item: &Item) -> [(&str, &str); 2] {
    ["PK", "SK"].map(|name| text_of(item, name).split_once('#').expect("a key"))
}
