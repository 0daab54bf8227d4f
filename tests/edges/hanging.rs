//! Requests that hang or are slow: items that do not need them are counted long before the deadline.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use afterwrite_ledger::tables::IndexQuery;
use afterwrite_model::effect::Write;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::models::{ATTEMPTS, PROJECTS, READINGS, SHOP, put_project, reading};
use super::slow_tables::{NEVER_DONE, SlowRequest, SlowTables, deliver, deliver_at_random};
use super::world::{EdgeWorld, STATE, TABLE, key};

/// A world with attempts of unknown projects, and then 100 attempts of a project whose owner is remembered.
async fn world_of_attempts(unknown: usize) -> EdgeWorld {
    let mut world = EdgeWorld::new(ATTEMPTS);
    put_project(&mut world, "p1");
    world.put("CANDIDATE#c1", "ATTEMPT#t1", json!({ "project_id": { "S": "p1" } }));
    world.settle().await;
    world.records.clear();
    let projects = (0..unknown).map(|number| format!("u{number}"));
    for (number, project) in projects.chain(vec!["p1".to_owned(); 100]).enumerate() {
        world.put("CANDIDATE#c2", &format!("ATTEMPT#t{number}"), json!({ "project_id": { "S": project } }));
    }
    world.stream();
    world
}

#[tokio::test(start_paused = true)]
async fn items_that_need_no_query_are_counted_although_others_hang_or_are_many() {
    for (unknown, time, seconds) in [
        (520, NEVER_DONE, 60),
        (520, NEVER_DONE, 5),
        (520, NEVER_DONE, 2),
        (520, Duration::from_secs(2), 60),
        (4_000, Duration::from_millis(20), 5),
    ] {
        let world = world_of_attempts(unknown).await;
        let (begun, counted_after) = (Instant::now(), OnceLock::new());
        let tables = SlowTables {
            tables: Arc::clone(&world.tables),
            time: |request: SlowRequest<'_>| match request {
                SlowRequest::Query(_) => time,
                SlowRequest::Transact(_) => {
                    counted_after.get_or_init(|| begun.elapsed());
                    Duration::from_millis(5)
                }
                _ => Duration::from_millis(5),
            },
        };
        let handled = deliver(ATTEMPTS, &world.records, seconds, tables).await;
        let longest = if time == NEVER_DONE { Duration::from_secs(seconds) } else { Duration::from_secs(5) };
        assert!(counted_after.get().is_some_and(|after| *after < longest), "{counted_after:?}");
        let counted = world.measure("ADMIN#a1", "ROLLUP", "attempts");
        assert_eq!((counted, handled.failures.len()), (Some(101), unknown), "{unknown} in {seconds} s");
        if seconds == 2 {
            let mut errors = handled.failures.iter().map(|failed| failed.error.to_string());
            let is_named = errors.any(|error| error.contains("there was no time for a lookup"));
            assert!(is_named, "most of these lookups are not begun");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lookups_for_which_there_was_no_time_are_tried_before_those_that_hung() {
    let mut world = world_of_attempts(40).await;
    // The queries of these projects follow those that hang.
    for number in 0..40 {
        let project = format!("v{number}");
        put_project(&mut world, &project);
        world.put("CANDIDATE#c3", &format!("ATTEMPT#t{number}"), json!({ "project_id": { "S": project } }));
    }
    world.stream();
    let is_attempt = |record: &Value| record["dynamodb"]["Keys"]["PK"]["S"] != "ADMIN#a1";
    world.records.retain(is_attempt);
    let tables = SlowTables {
        tables: Arc::clone(&world.tables),
        time: |request: SlowRequest<'_>| match request {
            SlowRequest::Query(query) if is_unknown(query) => NEVER_DONE,
            _ => Duration::from_millis(15),
        },
    };
    let handled = deliver(ATTEMPTS, &world.records, 10, tables).await;
    let counted = world.measure("ADMIN#a1", "ROLLUP", "attempts");
    assert_eq!((counted, handled.failures.len()), (Some(141), 40));
}

fn is_unknown(query: &IndexQuery) -> bool {
    query.key.iter().any(|key| key.value.as_text().is_some_and(|text| text.starts_with("PROJECT#u")))
}

#[tokio::test(start_paused = true)]
async fn lookups_that_find_nothing_hold_back_no_others_for_more_than_some_deliveries() {
    let mut world = world_of_attempts(1_500).await;
    // Their keys follow those of the unknown projects.
    for number in 0..40 {
        let project = format!("v{number}");
        put_project(&mut world, &project);
        world.put("CANDIDATE#c3", &format!("ATTEMPT#t{number}"), json!({ "project_id": { "S": project } }));
    }
    world.stream();
    world.records.retain(|record| record["dynamodb"]["Keys"]["PK"]["S"] != "ADMIN#a1");
    for permille in [1, 619, 237, 855, 473, 91, 709] {
        let tables = SlowTables {
            tables: Arc::clone(&world.tables),
            time: |request: SlowRequest<'_>| match request {
                SlowRequest::Query(_) => Duration::from_millis(40),
                _ => Duration::from_millis(5),
            },
        };
        deliver_at_random(permille, ATTEMPTS, &world.records, 2, tables).await;
    }
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(141));
}

#[tokio::test(start_paused = true)]
async fn a_query_that_takes_a_third_of_the_time_is_waited_for() {
    let mut world = EdgeWorld::new(ATTEMPTS);
    put_project(&mut world, "p1");
    world.put("CANDIDATE#c1", "ATTEMPT#t1", json!({ "project_id": { "S": "p1" } }));
    world.stream();
    let tables = SlowTables {
        tables: Arc::clone(&world.tables),
        time: |request: SlowRequest<'_>| {
            Duration::from_millis(if matches!(request, SlowRequest::Query(_)) { 1_000 } else { 15 })
        },
    };
    let handled = deliver(ATTEMPTS, &world.records[1..], 3, tables).await;
    let counted = world.measure("ADMIN#a1", "ROLLUP", "attempts");
    assert_eq!((counted, handled.failures.len()), (Some(1), 0));
}

#[tokio::test(start_paused = true)]
async fn a_read_that_hangs_leaves_time_to_send_it_again() {
    for (seconds, most_failures) in [(2, 0), (1, 100)] {
        let mut world = EdgeWorld::new(READINGS);
        for number in 0..300 {
            world.put(&format!("SENSOR#s{number}"), "READING#r1", reading(1));
        }
        world.stream();
        let reads = AtomicUsize::new(0);
        let tables = SlowTables {
            tables: Arc::clone(&world.tables),
            time: move |request: SlowRequest<'_>| match request {
                SlowRequest::Read if reads.fetch_add(1, Ordering::Relaxed) == 1 => NEVER_DONE,
                _ => Duration::from_millis(15),
            },
        };
        let handled = deliver(READINGS, &world.records, seconds, tables).await;
        assert!(handled.failures.len() <= most_failures, "{} in {seconds} s", handled.failures.len());
    }
}

#[tokio::test(start_paused = true)]
async fn mirrors_are_refreshed_although_another_item_hangs_until_the_deadline() {
    let mut world = EdgeWorld::new(SHOP);
    for shop in ["s1", "s2"] {
        world.put(&format!("SHOP#{shop}"), "SHOP", json!({}));
    }
    world.settle().await;
    world.records.clear();
    for shop in ["s1", "s2"] {
        world.put(&format!("SHOP#{shop}"), "BOOK#b1", json!({ "price": { "N": "1" } }));
    }
    world.stream();
    let hangs = |write: &Write| write.key.partition.value.as_text() == Some("SHOP#s1");
    let tables = SlowTables {
        tables: Arc::clone(&world.tables),
        time: |request: SlowRequest<'_>| match request {
            SlowRequest::Transact(writes) if writes.iter().any(hangs) => NEVER_DONE,
            _ => Duration::from_millis(15),
        },
    };
    let handled = deliver(SHOP, &world.records, 2, tables).await;
    assert_eq!((world.shown("SHOP#s2", "SHOP", "stats.books"), handled.failures.len()), (Some(1), 1));
}

#[tokio::test(start_paused = true)]
async fn lookups_are_begun_although_reading_the_remembered_ones_takes_long() {
    let mut world = EdgeWorld::new(ATTEMPTS);
    put_project(&mut world, "p1");
    let project = world.item("ADMIN#a1", "PROJECT#p1").expect("a project");
    world.put("CANDIDATE#c1", "ATTEMPT#t1", json!({ "project_id": { "S": "p1" } }));
    world.stream();
    world.tables.delete(&key(TABLE, "ADMIN#a1", "PROJECT#p1")).expect("a key");
    let (queries, indexed) = (AtomicUsize::new(0), Arc::clone(&world.tables));
    let tables = SlowTables {
        tables: Arc::clone(&world.tables),
        time: move |request: SlowRequest<'_>| match request {
            SlowRequest::Read => Duration::from_millis(2_500),
            SlowRequest::Query(_) => {
                // The index has the project when it is queried for the second time.
                if queries.fetch_add(1, Ordering::Relaxed) == 1 {
                    indexed.put(TABLE, project.clone()).expect("an item");
                }
                Duration::from_millis(15)
            }
            _ => Duration::from_millis(15),
        },
    };
    let handled = deliver(ATTEMPTS, &world.records[1..], 20, tables).await;
    let counted = world.measure("ADMIN#a1", "ROLLUP", "attempts");
    assert_eq!((counted, handled.failures.len()), (Some(1), 0));
}

#[tokio::test(start_paused = true)]
async fn items_whose_rollups_are_writable_are_counted_although_others_hang() {
    for (hanging, seconds) in [(1, 3), (20, 5), (40, 10)] {
        let mut world = EdgeWorld::new(READINGS);
        for number in 0..hanging + 100 {
            world.put(&format!("SENSOR#s{number:03}"), "READING#r1", reading(1));
        }
        world.stream();
        let hangs = move |write: &Write| {
            let partition = write.key.partition.value.as_text().expect("a text");
            let sensor = partition.strip_prefix("TOTAL#s").and_then(|number| number.parse::<usize>().ok());
            sensor.is_some_and(|sensor| sensor % 3 == 1 && sensor / 3 < hanging)
        };
        let tables = SlowTables {
            tables: Arc::clone(&world.tables),
            time: move |request: SlowRequest<'_>| match request {
                SlowRequest::Transact(writes) if writes.iter().any(hangs) => NEVER_DONE,
                _ => Duration::from_millis(15),
            },
        };
        let handled = deliver(READINGS, &world.records, seconds, tables).await;
        assert_eq!(handled.failures.len(), hanging, "{hanging} in {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_items_that_moved_are_noted_within_the_deadline() {
    let mut world = EdgeWorld::new(PROJECTS);
    let put = |world: &mut EdgeWorld, owner: &str| {
        for number in 0..1_000 {
            let item = json!({ "GSI1PK": { "S": format!("PROJECT#p{number}") } });
            world.put("PROJECTS", &format!("OWNER#{owner}#PROJECT#p{number}"), item);
        }
    };
    put(&mut world, "ann");
    world.settle().await;
    world.records.clear();
    put(&mut world, "bob");
    world.stream();
    let slow = |request: SlowRequest<'_>| match request {
        SlowRequest::Write(write) => Duration::from_millis(if *write.key.table == *STATE { 15 } else { 5 }),
        _ => Duration::from_millis(15),
    };
    let tables = SlowTables { tables: Arc::clone(&world.tables), time: slow };
    let handled = deliver(PROJECTS, &world.records, 10, tables).await;
    assert_eq!(handled.failures.len(), 0);
}

/// A counted book in each shop, the number of records until then, and the records that follow: another book in each of ten healthy shops, then one for each book of a
/// shop that hangs, with this price.
async fn world_of_books(hanging: usize, price: &str) -> (EdgeWorld, usize) {
    let mut world = EdgeWorld::new(SHOP);
    let healthy = (0..10).map(|number| format!("SHOP#ok{number}"));
    let hanging = (0..hanging).map(|number| format!("SHOP#h{number}"));
    let shops: Vec<String> = healthy.chain(hanging).collect();
    for shop in &shops {
        world.put(shop, "SHOP", json!({}));
        world.put(shop, "BOOK#b1", json!({ "price": { "N": "1" } }));
    }
    world.settle().await;
    let counted = world.records.len();
    for shop in &shops {
        match shop.starts_with("SHOP#h") {
            true => world.put(shop, "BOOK#b1", json!({ "price": { "N": price }, "title": { "S": "new" } })),
            false => world.put(shop, "BOOK#b2", json!({ "price": { "N": "2" } })),
        }
    }
    world.stream();
    (world, counted)
}

fn healthy_copies(world: &EdgeWorld) -> usize {
    let is_set = |number: &i32| world.shown(&format!("SHOP#ok{number}"), "SHOP", "stats.books") == Some(2);
    (0..10).filter(is_set).count()
}

fn is_hanging(write: &Write) -> bool {
    write.key.partition.value.as_text().is_some_and(|partition| partition.contains("SHOP#h"))
}

#[tokio::test(start_paused = true)]
async fn entries_that_hang_hold_up_no_mirrors_of_other_items() {
    for (hanging, seconds) in [(150, 5), (300, 20)] {
        // Their contributions do not change, so that only their entries are written.
        let (world, counted) = world_of_books(hanging, "1").await;
        let tables = SlowTables {
            tables: Arc::clone(&world.tables),
            time: |request: SlowRequest<'_>| match request {
                SlowRequest::Write(write) if *write.key.table == *STATE && is_hanging(write) => NEVER_DONE,
                _ => Duration::from_millis(15),
            },
        };
        let handled = deliver(SHOP, &world.records[counted..], seconds, tables).await;
        assert_eq!((healthy_copies(&world), handled.failures.len()), (10, hanging), "{seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn entries_that_hang_hold_up_no_other_entries() {
    let mut world = EdgeWorld::new(READINGS);
    for number in 0..100 {
        world.put(&format!("SENSOR#s{number:02}"), "READING#r1", reading(1));
    }
    world.settle().await;
    let counted = world.records.len();
    for number in 0..100 {
        let note = json!({ "value": { "N": "1" }, "note": { "S": "new" } });
        world.put(&format!("SENSOR#s{number:02}"), "READING#r1", note);
    }
    world.stream();
    let hangs = |write: &Write| {
        let partition = write.key.partition.value.as_text();
        partition.is_some_and(|partition| partition < "LEDGER#app#SENSOR#s60")
    };
    let tables = SlowTables {
        tables: Arc::clone(&world.tables),
        time: |request: SlowRequest<'_>| match request {
            SlowRequest::Write(write) if hangs(write) => NEVER_DONE,
            _ => Duration::from_millis(15),
        },
    };
    let handled = deliver(READINGS, &world.records[counted..], 10, tables).await;
    assert_eq!(handled.failures.len(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_batch_with_more_lookups_than_there_is_time_for_advances() {
    let mut world = EdgeWorld::new(ATTEMPTS);
    // The order of the keys is not that of the records.
    let projects: Vec<String> = (0..400).map(|number| format!("p{:03}", number * 7 % 400)).collect();
    for project in &projects {
        put_project(&mut world, project);
    }
    world.stream();
    world.records.clear();
    for (number, project) in projects.iter().enumerate() {
        world.put(
            "CANDIDATE#c1",
            &format!("ATTEMPT#t{number:03}"),
            json!({ "project_id": { "S": project } }),
        );
    }
    world.stream();
    let tables = SlowTables {
        tables: Arc::clone(&world.tables),
        time: |request: SlowRequest<'_>| {
            Duration::from_millis(if matches!(request, SlowRequest::Query(_)) { 100 } else { 5 })
        },
    };
    let handled = deliver(ATTEMPTS, &world.records, 2, tables).await;
    let failed: BTreeMap<_, _> =
        handled.failures.iter().map(|failure| (failure.sequence_number.as_deref(), ())).collect();
    let counted = world
        .records
        .iter()
        .take_while(|record| !failed.contains_key(&record["dynamodb"]["SequenceNumber"].as_str()));
    assert_eq!(counted.count(), 400 - failed.len());
    assert!((1..400).contains(&failed.len()), "{} failed", failed.len());
}

#[tokio::test(start_paused = true)]
async fn sixteen_requests_are_sent_at_once() {
    let mut world = EdgeWorld::new(READINGS);
    for number in 0..200 {
        world.put(&format!("SENSOR#old{number}"), "READING#r1", reading(1));
    }
    world.settle().await;
    world.records.clear();
    for number in 0..200 {
        let note = json!({ "value": { "N": "1" }, "note": { "S": "new" } });
        world.put(&format!("SENSOR#old{number}"), "READING#r1", note);
        world.put(&format!("SENSOR#new{number}"), "READING#r1", reading(1));
    }
    world.stream();
    let (sent, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // Each request takes a moment of its own, so that those of one moment are those that are sent at once.
    let (begun, moment) = (Instant::now(), AtomicUsize::new(usize::MAX));
    let tables = SlowTables {
        tables: Arc::clone(&world.tables),
        time: |_: SlowRequest<'_>| {
            let now = usize::try_from(begun.elapsed().as_millis()).expect("a short test");
            if moment.swap(now, Ordering::Relaxed) != now {
                sent.store(0, Ordering::Relaxed);
            }
            most.fetch_max(sent.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            Duration::from_millis(15)
        },
    };
    let handled = deliver(READINGS, &world.records, 20, tables).await;
    assert_eq!((handled.failures.len(), most.into_inner()), (0, 16));
}
