//! metering: calls are rows.

use afterwrite_demo::item::{SdkItem as Item, text_of};

use super::{ExpectedRow, key, present};

pub(super) fn cache_keys(_: &str, item: &Item) -> Vec<String> {
    let tenant = tenant(item);
    match text_of(item, "SK").split_once('#') {
        None => present([key(["tenant", tenant])]),
        Some(("QUOTA", _)) => present([key(["tenant", tenant, "quotas"])]),
        Some(_) => Vec::new(),
    }
}

pub(super) fn row<'i>(_: &str, item: &'i Item) -> Option<ExpectedRow<'i>> {
    let (api, id) = text_of(item, "SK").strip_prefix("CALL#")?.split_once('#')?;
    let columns = ExpectedRow::of("calls", item, "at")
        .text("tenant", Some(tenant(item)))
        .text("api", Some(api))
        .text("call_id", Some(id))
        .instant("called_at", "at")
        .scalar("status", "status")
        .scalar("latency_ms", "latency_ms")
        .scalar("bytes_out", "bytes_out")
        .scalar("region", "region");
    Some(columns)
}

fn tenant(item: &Item) -> &str {
    text_of(item, "PK").strip_prefix("TENANT#").expect("a tenant's key")
}
