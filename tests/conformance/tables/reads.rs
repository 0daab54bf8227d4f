//! Reads of many items, queries of indexes, and the errors of wrong configurations.

use afterwrite_ledger::tables::{IndexQuery, WriteError};
use afterwrite_model::ErrorKind;
use afterwrite_model::effect::{ItemKey, WriteAction};
use afterwrite_model::record::{Item, Timestamp};

use super::outcome::{RefusalReason, WriteOutcome, always, bytes, item, keyed, number, set, text};
use super::store::{BINARY, NUMBERED, PAIR, TableStore, attribute, pair};

pub(super) async fn suite(store: &impl TableStore) {
    many_keys(store).await;
    keys_of_other_types(store).await;
    wrong_configurations(store).await;
    indexes(store).await;
    an_index_of_several_pages(store).await;
}

/// More than two batches, with repeated keys and missing items, from two tables.
async fn many_keys(store: &impl TableStore) {
    let mut keys = Vec::new();
    let mut expected = Vec::new();
    for index in 0..250 {
        let key = if index % 7 == 0 {
            let partition = attribute("ID", number(&format!("{index}.5")));
            ItemKey { table: NUMBERED.into(), partition, sort: None }
        } else {
            pair("many", &index.to_string())
        };
        let attributes = item([("index", number(&index.to_string()))]);
        let exists = index % 3 != 0;
        if exists {
            store.write(&always(key.clone(), WriteAction::Put(attributes.clone()))).await.unwrap();
        }
        expected.push(exists.then(|| keyed(attributes, &key)));
        keys.push(key);
    }
    for index in [249, 0, 100, 100, 3] {
        keys.push(keys[index].clone());
        expected.push(expected[index].clone());
    }
    let snapshot = store.read(&keys).await.unwrap();
    assert_eq!(snapshot.items, expected);
    assert_eq!(snapshot.server_time, Timestamp::from_epoch_seconds(snapshot.server_time.epoch_seconds()));
    assert!(store.read(&[]).await.unwrap().items.is_empty());
}

async fn keys_of_other_types(store: &impl TableStore) {
    let binary = |id: &[u8], at: &str| ItemKey {
        table: BINARY.into(),
        partition: attribute("ID", bytes(id)),
        sort: Some(attribute("AT", number(at))),
    };
    for (key, same, other) in [
        (binary(&[1], "1.50"), binary(&[1], "15E-1"), binary(&[1, 0], "1.5")),
        (binary(&[0, 255], "-0"), binary(&[0, 255], "0"), binary(&[0, 255], "1E-100")),
    ] {
        store.write(&always(key.clone(), WriteAction::Update(vec![set("x", "y")]))).await.unwrap();
        let found = store.read(&[key.clone(), same, other]).await.unwrap().items;
        let stored = Some(keyed(item([("x", text("y"))]), &key));
        assert_eq!(found, [stored.clone(), stored, None]);
    }
}

async fn wrong_configurations(store: &impl TableStore) {
    let key = |table: &str, partition: &str, sort: Option<&str>| ItemKey {
        table: table.into(),
        partition: attribute(partition, text("secret")),
        sort: sort.map(|sort| attribute(sort, text("s"))),
    };
    for (key, words) in [
        (key("nowhere", "PK", Some("SK")), ["nowhere", "AFTERWRITE_STATE_TABLE"]),
        (key(PAIR, "PK", None), ["pair", "PK (S)"]),
        (key(PAIR, "ID", Some("SK")), ["pair", "ID (S), SK (S)"]),
        (key(NUMBERED, "ID", None), ["numbered", "ID (S)"]),
    ] {
        let mut errors = vec![store.read(std::slice::from_ref(&key)).await.unwrap_err()];
        for action in
            [WriteAction::Put(Item::new()), WriteAction::Update(vec![set("x", "y")]), WriteAction::Delete]
        {
            match store.write(&always(key.clone(), action)).await {
                Err(WriteError::Failed(error)) => errors.push(error),
                other => panic!("{key:?}: {other:?}"),
            }
        }
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
            let shown = format!("{error} {error:?}");
            assert!(words.iter().all(|word| shown.contains(word)), "{shown}");
            assert!(!shown.contains("secret"), "{shown}");
        }
    }
    for key in [pair("", "x"), pair("x", ""), pair(&"x".repeat(2049), "x"), pair("x", &"x".repeat(1025))] {
        let error = store.read(std::slice::from_ref(&key)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        for action in
            [WriteAction::Put(Item::new()), WriteAction::Update(vec![set("x", "y")]), WriteAction::Delete]
        {
            let outcome = WriteOutcome::from(store.write(&always(key.clone(), action)).await);
            assert_eq!(outcome, WriteOutcome::Refused(vec![Some(RefusalReason::Invalid)]));
        }
    }
}

fn query(index: &str, partition: (&str, &str), sort: Option<(&str, &str)>) -> IndexQuery {
    IndexQuery {
        table: PAIR.into(),
        index: index.into(),
        key: std::iter::once(partition)
            .chain(sort)
            .map(|(name, value)| attribute(name, text(value)))
            .collect(),
        page_items: 100,
        start_after: None,
    }
}

/// The items of all pages, and the number of pages.
async fn all_pages(store: &impl TableStore, query: IndexQuery) -> (Vec<Item>, usize) {
    let (mut items, mut pages, mut next) = (Vec::new(), 0, Some(query));
    while let Some(query) = next {
        let page = store.query_index(&query).await.unwrap();
        assert!(page.items.len() <= usize::from(query.page_items), "{} items", page.items.len());
        items.extend(page.items);
        pages += 1;
        next = page.next;
    }
    (items, pages)
}

async fn indexes(store: &impl TableStore) {
    let put = async |sort: &str, attributes: Item| {
        let key = pair("indexed", sort);
        store.write(&always(key.clone(), WriteAction::Put(attributes.clone()))).await.unwrap();
        keyed(attributes, &key)
    };
    let late = put("1", item([("GSI1PK", text("a")), ("GSI1SK", text("9")), ("x", text("late"))])).await;
    let early = put("2", item([("GSI1PK", text("a")), ("GSI1SK", text("10")), ("GSI2PK", text("b"))])).await;
    put("3", item([("GSI1PK", text("a"))])).await;
    put("4", item([("GSI1PK", text("other")), ("GSI1SK", text("9"))])).await;

    let found = async |index, partition, sort| all_pages(store, query(index, partition, sort)).await.0;
    let a = ("GSI1PK", "a");
    assert_eq!(found("GSI1", a, None).await, [early.clone(), late.clone()]);
    assert_eq!(found("GSI1", a, Some(("GSI1SK", "9"))).await, [late]);
    assert_eq!(found("GSI1", a, Some(("GSI1SK", "8"))).await, []);
    assert_eq!(found("GSI1", ("GSI1PK", "z"), None).await, []);
    assert_eq!(found("GSI2", ("GSI2PK", "b"), None).await, [early]);

    store
        .write(&always(pair("indexed", "1"), WriteAction::Update(vec![set("GSI1PK", "moved")])))
        .await
        .unwrap();
    store.write(&always(pair("indexed", "2"), WriteAction::Delete)).await.unwrap();
    assert_eq!(found("GSI1", a, None).await, []);
    assert_eq!(found("GSI1", ("GSI1PK", "moved"), None).await.len(), 1);

    for (wrong, word) in [
        (query("GSI9", a, None), "GSI9"),
        (query("GSI1", ("PK", "a"), None), "GSI1"),
        (query("GSI2", ("GSI2PK", "b"), Some(("GSI1SK", "9"))), "GSI2"),
    ] {
        let error = store.query_index(&wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    let nowhere = IndexQuery { table: "nowhere".into(), ..query("GSI1", a, None) };
    assert_eq!(store.query_index(&nowhere).await.unwrap_err().kind(), ErrorKind::Configuration);
}

/// A page of an index has at most 1 MB, and at most the requested number of items.
async fn an_index_of_several_pages(store: &impl TableStore) {
    let mut expected = Vec::new();
    for place in 0..5 {
        let key = pair("pages", &place.to_string());
        let attributes = item([("GSI2PK", text("pages")), ("x", text(&"x".repeat(390_000)))]);
        store.write(&always(key.clone(), WriteAction::Put(attributes.clone()))).await.unwrap();
        expected.push(keyed(attributes, &key));
    }
    let place = |item: &Item| item.get("SK").and_then(|place| place.as_text()).unwrap().to_owned();
    for page_items in [1, 2, 5, 100] {
        let query = IndexQuery { page_items, ..query("GSI2", ("GSI2PK", "pages"), None) };
        let (mut items, pages) = all_pages(store, query.clone()).await;
        items.sort_by_cached_key(place);
        assert!(items == expected, "pages of {page_items}: {} items", items.len());
        assert!(pages * usize::from(page_items) >= items.len(), "{pages} pages of {page_items}");
    }
    // A page begins after a position, whether or not the item at this position still exists.
    let query = IndexQuery { page_items: 2, ..query("GSI2", ("GSI2PK", "pages"), None) };
    let first = store.query_index(&query).await.unwrap();
    let mut rest = expected;
    rest.retain(|item| !first.items.contains(item));
    let last = pair("pages", &place(first.items.last().unwrap()));
    store.write(&always(last, WriteAction::Delete)).await.unwrap();
    let (mut items, _) = all_pages(store, first.next.unwrap()).await;
    items.sort_by_cached_key(place);
    assert!(items == rest, "{} items after the first page", items.len());
}
