//! Scans of whole tables: every item in exactly one segment and on exactly one page; descriptions of tables.

use std::collections::BTreeSet;

use afterwrite_ledger::tables::{ScanRequest, TableScan, Tables};
use afterwrite_model::ErrorKind;
use afterwrite_model::effect::WriteAction;
use afterwrite_model::record::{AttributeValue, Item};

use super::outcome::{always, item, text};
use super::store::{PAIR, pair};

pub(super) async fn suite(store: &(impl Tables + TableScan)) {
    let mut expected = BTreeSet::new();
    for index in 0..60 {
        let (partition, sort) = (format!("scan{}", index % 17), format!("{index}"));
        let attributes = item([("x", text(&"x".repeat(500)))]);
        store.write(&always(pair(&partition, &sort), WriteAction::Put(attributes))).await.unwrap();
        expected.insert((partition, sort));
    }
    for (segments, page_items) in [(1, None), (1, Some(7)), (4, Some(5)), (16, Some(100)), (3, None)] {
        let mut seen = Vec::new();
        for segment in 0..segments {
            seen.extend(segment_keys(store, segment, segments, page_items).await);
        }
        assert_eq!(seen.len(), expected.len(), "{segments} segments, pages of {page_items:?}");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected);
    }
    a_page_goes_on_after_a_deleted_item(store).await;
    descriptions(store).await;
}

async fn segment_keys(
    store: &(impl Tables + TableScan),
    segment: u32,
    segments: u32,
    page_items: Option<u32>,
) -> Vec<(String, String)> {
    let mut request =
        ScanRequest { segment, segments, page_items, is_consistent: true, ..ScanRequest::whole(PAIR.into()) };
    let mut keys = Vec::new();
    loop {
        let page = store.scan(&request).await.unwrap();
        assert!(page_items.is_none_or(|limit| page.items.len() <= limit as usize));
        assert!(page.items.is_empty() || page.read_units > 0);
        keys.extend(page.items.iter().map(key_texts).filter(|(partition, _)| partition.starts_with("scan")));
        match page.next {
            Some(next) => request.start_after = Some(next),
            None => return keys,
        }
    }
}

fn key_texts(item: &Item) -> (String, String) {
    let text = |name: &str| item.get(name).and_then(AttributeValue::as_text).unwrap().to_owned();
    (text("PK"), text("SK"))
}

async fn a_page_goes_on_after_a_deleted_item(store: &(impl Tables + TableScan)) {
    let request = ScanRequest { page_items: Some(5), ..ScanRequest::whole(PAIR.into()) };
    let first = store.scan(&request).await.unwrap();
    let (partition, sort) = key_texts(first.items.last().unwrap());
    store.write(&always(pair(&partition, &sort), WriteAction::Delete)).await.unwrap();
    let rest =
        store.scan(&ScanRequest { page_items: None, start_after: first.next, ..request }).await.unwrap();
    assert_eq!(first.items.len() + rest.items.len(), 60);
    assert!(rest.items.iter().all(|item| !first.items.contains(item)));
}

async fn descriptions(store: &(impl Tables + TableScan)) {
    let summary = store.describe(PAIR).await.unwrap();
    assert_eq!(summary.items, 59);
    assert!(summary.bytes > 59 * 500, "{} bytes", summary.bytes);
    let missing = ScanRequest::whole("nowhere".into());
    for error in [store.describe("nowhere").await.unwrap_err(), store.scan(&missing).await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains("nowhere"), "{error}");
    }
}
