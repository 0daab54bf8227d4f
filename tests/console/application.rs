//! The application of a built-in model, written into a running `dev`, with the demo's own recount of what must be derived from it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use afterwrite_demo::item::{SdkItem, TableItem};
use afterwrite_demo::recount::{Recount, WorkloadOutcome};
use afterwrite_demo::rollups::RollupSet;
use afterwrite_demo::script::has_expired;
use afterwrite_demo::verdict::compare;
use afterwrite_demo::workload::Workload;
use afterwrite_demo::workloads;
use afterwrite_tests::development::{Development, STATE};
use futures::stream::{self, StreamExt as _};

/// How long counting everything may take on a busy machine.
const COUNTED_WITHIN: Duration = Duration::from_secs(120);

/// A running `dev` whose tables have the items of a workload, all of them counted.
pub(super) struct CountedApplication {
    pub(super) development: Development,
    /// The items.
    pub(super) items: Vec<TableItem>,
    /// The values that must have been derived from them.
    pub(super) recount: Recount,
}

impl CountedApplication {
    pub(super) async fn start(model: &str, size: u64, arguments: &[&str]) -> Self {
        let workload = workloads::of(model).unwrap();
        let arguments = [&["--model", model], arguments].concat();
        let development = Development::start(&arguments);
        let now = jiff::Timestamp::now().as_second();
        let written = last_states(workload, size, now);
        let writes = stream::iter(&written).for_each_concurrent(16, |item| {
            let put = development.client.put_item().table_name(&item.table).set_item(Some(item.item.clone()));
            async move {
                put.send().await.unwrap();
            }
        });
        writes.await;
        let deadline = Instant::now() + COUNTED_WITHIN;
        loop {
            let items = stored(&development, workload).await;
            let outcome = WorkloadOutcome {
                now,
                images: written.clone(),
                items: items.clone(),
                ..WorkloadOutcome::default()
            };
            let recount = workload.recount(&outcome);
            let verdict = compare(&recount, &RollupSet::of(&scan(&development, STATE).await));
            if verdict.is_equal() {
                return Self { development, items, recount };
            }
            assert!(Instant::now() < deadline, "not counted: {:?}", verdict.differences.first());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// The last state of each item that the workload writes and that does not expire.
fn last_states(workload: &Workload, size: u64, now: i64) -> Vec<TableItem> {
    let tables = workload.tables();
    let mut last = BTreeMap::new();
    for image in workload.script(42, size, now).images(&tables, now) {
        if has_expired(&image, &tables, now + 3600) {
            continue;
        }
        let key = tables.iter().find(|table| table.name == image.table).unwrap();
        let key: Vec<_> = key.key.attributes().map(|name| format!("{:?}", image.item.get(name))).collect();
        last.insert((image.table.clone(), key), image);
    }
    last.into_values().collect()
}

async fn stored(development: &Development, workload: &Workload) -> Vec<TableItem> {
    let mut items = Vec::new();
    for table in workload.tables() {
        let scanned = scan(development, &table.name).await;
        items.extend(scanned.into_iter().map(|item| TableItem { table: table.name.clone(), item }));
    }
    items
}

async fn scan(development: &Development, table: &str) -> Vec<SdkItem> {
    let scan = development.client.scan().table_name(table).consistent_read(true);
    let pages = scan.into_paginator().items().send();
    pages.collect::<Result<Vec<_>, _>>().await.unwrap()
}
