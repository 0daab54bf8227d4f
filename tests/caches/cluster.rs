//! Three masters, and a slot on its way from one to another.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use afterwrite::sink::INVALIDATION_CHANNEL;
use afterwrite::sink::redis::{CacheTopology, RedisCache};
use afterwrite::{Error, ErrorKind};
use afterwrite_tests::redis_server::{RedisServer, free_port};
use futures::StreamExt as _;
use tokio::time::timeout;

use super::delivery::{deadline, deliver, model, of_cache, question};

const SLOTS: [(u16, u16); 3] = [(0, 5_460), (5_461, 10_922), (10_923, 16_383)];

/// Three masters that agree on who has which slots. Each serves its own, whatever becomes of the others.
async fn masters() -> Vec<RedisServer> {
    let mut masters = Vec::new();
    let mut buses = Vec::new();
    for _ in SLOTS {
        let bus = free_port().to_string();
        let arguments = [
            ["--cluster-enabled", "yes"],
            ["--cluster-port", &bus],
            ["--cluster-node-timeout", "2000"],
            ["--cluster-require-full-coverage", "no"],
        ]
        .concat();
        masters.push(RedisServer::start_on(free_port(), &arguments).await);
        buses.push(bus);
    }
    for (master, (first, last)) in masters.iter().zip(SLOTS) {
        let (first, last) = (first.to_string(), last.to_string());
        master.run::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await;
    }
    for (index, master) in masters.iter().enumerate() {
        let epoch = (index + 1).to_string();
        master.run::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await;
    }
    for (master, bus) in masters.iter().zip(&buses).skip(1) {
        masters[0].run::<()>(&["CLUSTER", "MEET", "127.0.0.1", &master.port.to_string(), bus]).await;
    }
    let limit = Instant::now() + Duration::from_secs(30);
    for master in &masters {
        loop {
            let info: String = master.run(&["CLUSTER", "INFO"]).await;
            let nodes: String = master.run(&["CLUSTER", "NODES"]).await;
            // What is published passes only between nodes that are connected.
            let is_connected = !nodes.contains("handshake") && !nodes.contains("disconnected");
            if info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3") && is_connected {
                break;
            }
            assert!(Instant::now() < limit, "the cluster does not come together: {info}{nodes}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    masters
}

/// The master that has a key's slot, by its index.
async fn home(masters: &[RedisServer], key: &str) -> (usize, u16) {
    let slot: u16 = masters[0].run(&["CLUSTER", "KEYSLOT", key]).await;
    (SLOTS.iter().position(|(first, last)| (*first..=*last).contains(&slot)).unwrap(), slot)
}

async fn count(masters: impl IntoIterator<Item = &RedisServer>) -> usize {
    let mut keys = 0;
    for master in masters {
        keys += master.run::<usize>(&["DBSIZE"]).await;
    }
    keys
}

async fn put(masters: &[RedisServer], keys: impl IntoIterator<Item = String>) {
    for key in keys {
        let (master, _) = home(masters, &key).await;
        masters[master].run::<()>(&["SET", &key, "cached"]).await;
    }
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn keys_of_all_masters_go_while_a_slot_migrates() {
    let masters = masters().await;
    let invalidator = of_cache(&masters[0].url(), CacheTopology::Cluster);
    let model = model();
    // Questions of one hash tag share a slot: the one that migrates.
    let ids: Vec<String> =
        (0..40).map(|id| if id % 2 == 0 { format!("{{tag}}{id}") } else { id.to_string() }).collect();
    let records: Vec<_> = ids.iter().map(|id| question("p", id)).collect();
    let cached = || ids.iter().map(|id| format!("question:{id}")).chain(["project:p:questions".to_owned()]);
    let others = || (0..20).map(|id| format!("other:{{tag}}{id}"));
    put(&masters, cached().chain(others())).await;
    let outcome = deliver(&invalidator, &model, &records, deadline(20)).await;
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    assert_eq!(count(&masters).await, others().count());

    // The slot begins to move: some of its keys are there already (ASK), some are not.
    put(&masters, cached()).await;
    let (from, slot) = home(&masters, "{tag}").await;
    let to = (from + 1) % masters.len();
    let slot = slot.to_string();
    let from_id: String = masters[from].run(&["CLUSTER", "MYID"]).await;
    let to_id: String = masters[to].run(&["CLUSTER", "MYID"]).await;
    masters[to].run::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).await;
    masters[from].run::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).await;
    let port = masters[to].port.to_string();
    for key in ["question:{tag}0", "question:{tag}2", "other:{tag}0"] {
        masters[from].run::<()>(&["MIGRATE", "127.0.0.1", &port, key, "0", "1000"]).await;
    }
    let outcome = deliver(&invalidator, &model, &records, deadline(20)).await;
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    assert_eq!(count(&masters).await, others().count());

    // It has moved, and the connection does not know yet (MOVED).
    let rest: Vec<String> = masters[from].run(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]).await;
    for key in &rest {
        masters[from].run::<()>(&["MIGRATE", "127.0.0.1", &port, key, "0", "1000"]).await;
    }
    for master in [to, from] {
        masters[master].run::<()>(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).await;
    }
    masters[to].run::<()>(&["SET", "question:{tag}0", "cached"]).await;
    let outcome = deliver(&invalidator, &model, &records, deadline(20)).await;
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    assert_eq!(count(&masters).await, others().count());
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn listeners_at_any_master_are_told_which_keys_of_all_masters_went() {
    let masters = masters().await;
    let mut listeners = Vec::new();
    for master in &masters {
        let client = redis::Client::open(master.url()).unwrap();
        let mut listener = client.get_async_pubsub().await.unwrap();
        listener.subscribe(INVALIDATION_CHANNEL).await.unwrap();
        listeners.push(listener);
    }
    let ids: Vec<String> = (0..200).map(|id| id.to_string()).collect();
    let went: BTreeSet<String> =
        ids.iter().flat_map(|id| [format!("question:{id}"), format!("project:{id}:questions")]).collect();
    let mut homes = BTreeSet::new();
    for key in &went {
        homes.insert(home(&masters, key).await.0);
    }
    assert_eq!(homes.len(), masters.len());
    let records: Vec<_> = ids.iter().map(|id| question(id, id)).collect();
    let invalidator = of_cache(&masters[0].url(), CacheTopology::Cluster);
    let outcome = deliver(&invalidator, &model(), &records, deadline(20)).await;
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    for mut listener in listeners {
        let mut messages = listener.on_message();
        let mut told = Vec::new();
        while told.len() < went.len() {
            let message = timeout(Duration::from_secs(5), messages.next()).await;
            let message = message.unwrap_or_else(|_| panic!("told of {} keys only", told.len())).unwrap();
            let message: String = message.get_payload().unwrap();
            told.extend(serde_json::from_str::<Vec<String>>(&message).unwrap());
        }
        told.sort_unstable();
        assert!(told.iter().eq(&went), "{told:?}");
    }
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_cluster_given_as_a_single_node_is_named_by_its_variable() {
    let masters = masters().await;
    let invalidator = of_cache(&masters[0].url(), CacheTopology::Single);
    let records: Vec<_> = (0..10).map(|id| question("p", &id.to_string())).collect();
    let outcome = deliver(&invalidator, &model(), &records, deadline(5)).await;
    let error = outcome.failures.values().next().expect("other nodes have some of the keys");
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("AFTERWRITE_CACHE_CLUSTER"), "{error}");
}

#[test]
fn a_cluster_has_no_numbered_database() {
    let error = RedisCache::new("redis://127.0.0.1:6379/3", CacheTopology::Cluster, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("database"), "{error}");
    for (url, topology) in [
        ("redis://127.0.0.1:6379/0", CacheTopology::Cluster),
        ("redis://127.0.0.1:6379/3", CacheTopology::Single),
    ] {
        RedisCache::new(url, topology, None).unwrap();
    }
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_dead_master_fails_the_records_of_its_own_keys_only() {
    for dead in 0..SLOTS.len() {
        let mut masters = masters().await;
        let at = |master: usize| of_cache(&masters[master].url(), CacheTopology::Cluster);
        let alive = (dead + 1) % SLOTS.len();
        let (connected, by_the_dead, fresh) = (at(alive), at(dead), at(alive));
        for invalidator in [&connected, &by_the_dead] {
            let outcome = deliver(invalidator, &model(), &[question("p", "q")], deadline(20)).await;
            assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        }
        let ids: Vec<String> = (0..60).map(|id| id.to_string()).collect();
        let records: Vec<_> = ids.iter().map(|id| question(id, id)).collect();
        let (mut cached, mut must_fail) = (Vec::new(), BTreeSet::new());
        for (record, id) in ids.iter().enumerate() {
            for key in [format!("question:{id}"), format!("project:{id}:questions")] {
                let (master, _) = home(&masters, &key).await;
                if master == dead {
                    must_fail.insert(record);
                } else {
                    cached.push((master, key));
                }
            }
        }
        assert!((1..ids.len()).contains(&must_fail.len()));
        masters[dead].kill();
        let all = [
            (&connected, "connected before"),
            (&connected, "the same once more"),
            (&by_the_dead, "connected before, at the dead one"),
            (&by_the_dead, "the same once more"),
            (&fresh, "connecting afterwards"),
        ];
        for (invalidator, what) in all {
            for (master, key) in &cached {
                masters[*master].run::<()>(&["SET", key, "cached"]).await;
            }
            let outcome = deliver(invalidator, &model(), &records, deadline(2)).await;
            let failed: BTreeSet<usize> = outcome.failures.keys().copied().collect();
            assert_eq!(failed, must_fail, "master {dead} is dead, {what}: {:?}", outcome.failures);
            let come_again = outcome.failures.values().all(Error::is_retryable);
            assert!(come_again, "master {dead} is dead, {what}: {:?}", outcome.failures);
            let living = masters.iter().enumerate().filter(|(master, _)| *master != dead);
            assert_eq!(count(living.map(|(_, master)| master)).await, 0, "master {dead} is dead, {what}");
        }
    }
}
