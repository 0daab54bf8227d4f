//! A cluster of three masters: a migrating slot, a dead master, the wrong mode.

use std::collections::BTreeSet;

use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::redis::{CacheTopology, RedisCache};
use afterwrite_tests::redis_server::{RedisCluster, RedisServer};

use super::delivery::{deadline, deliver, model, of_cache, question};

/// The number of keys on these masters.
async fn count_keys(masters: impl IntoIterator<Item = &RedisServer>) -> usize {
    let mut keys = 0;
    for master in masters {
        keys += master.run::<usize>(&["DBSIZE"]).await;
    }
    keys
}

async fn put(cluster: &RedisCluster, keys: impl IntoIterator<Item = String>) {
    for key in keys {
        cluster.masters[cluster.home(&key).await].run::<()>(&["SET", &key, "cached"]).await;
    }
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn keys_of_all_masters_are_deleted_while_a_slot_migrates() {
    let cluster = RedisCluster::start().await;
    let masters = &cluster.masters;
    let invalidator = of_cache(&cluster.url(), CacheTopology::Cluster);
    let model = model();
    // Questions with the same hash tag share a slot, the one that migrates.
    let ids: Vec<String> =
        (0..40).map(|id| if id % 2 == 0 { format!("{{tag}}{id}") } else { id.to_string() }).collect();
    let records: Vec<_> = ids.iter().map(|id| question("p", id)).collect();
    let cached = || ids.iter().map(|id| format!("question:{id}")).chain(["project:p:questions".to_owned()]);
    let others = || (0..20).map(|id| format!("other:{{tag}}{id}"));
    put(&cluster, cached().chain(others())).await;
    let outcome = deliver(&invalidator, &model, &records, deadline(20)).await;
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    assert_eq!(count_keys(masters).await, others().count());

    // The migration has started: some of the slot's keys are on the new node (an `ASK` redirection), some are not.
    put(&cluster, cached()).await;
    let from = cluster.home("{tag}").await;
    let to = (from + 1) % masters.len();
    let slot = masters[0].run::<u16>(&["CLUSTER", "KEYSLOT", "{tag}"]).await.to_string();
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
    assert_eq!(count_keys(masters).await, others().count());

    // The migration is complete, and the invalidator's slot map is outdated (MOVED).
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
    assert_eq!(count_keys(masters).await, others().count());
}

#[tokio::test]
#[ignore = "needs redis-server: run tests/run"]
async fn a_cluster_configured_as_a_single_node_is_reported_with_the_setting() {
    let cluster = RedisCluster::start().await;
    let invalidator = of_cache(&cluster.url(), CacheTopology::Single);
    let records: Vec<_> = (0..10).map(|id| question("p", &id.to_string())).collect();
    let outcome = deliver(&invalidator, &model(), &records, deadline(5)).await;
    let error = outcome.failures.values().next().expect("other nodes have some of the keys");
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("AFTERWRITE_CACHE_CLUSTER"), "{error}");
}

#[test]
fn a_cluster_address_with_a_database_number_is_refused() {
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
async fn a_dead_master_fails_only_the_records_of_its_own_keys() {
    for dead in 0..3 {
        let mut cluster = RedisCluster::start().await;
        let at = |master: usize| of_cache(&cluster.masters[master].url(), CacheTopology::Cluster);
        let alive = (dead + 1) % 3;
        let (connected, configured_dead, fresh) = (at(alive), at(dead), at(alive));
        for invalidator in [&connected, &configured_dead] {
            let outcome = deliver(invalidator, &model(), &[question("p", "q")], deadline(20)).await;
            assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        }
        let ids: Vec<String> = (0..60).map(|id| id.to_string()).collect();
        let records: Vec<_> = ids.iter().map(|id| question(id, id)).collect();
        let (mut cached, mut must_fail) = (Vec::new(), BTreeSet::new());
        for (record, id) in ids.iter().enumerate() {
            for key in [format!("question:{id}"), format!("project:{id}:questions")] {
                let master = cluster.home(&key).await;
                if master == dead {
                    must_fail.insert(record);
                } else {
                    cached.push((master, key));
                }
            }
        }
        assert!((1..ids.len()).contains(&must_fail.len()));
        cluster.masters[dead].kill();
        let masters = &cluster.masters;
        let all = [
            (&connected, "connected before"),
            (&connected, "connected before, second delivery"),
            (&configured_dead, "connected before, configured with the dead master"),
            (&configured_dead, "configured with the dead master, second delivery"),
            (&fresh, "connecting afterwards"),
        ];
        for (invalidator, what) in all {
            for (master, key) in &cached {
                masters[*master].run::<()>(&["SET", key, "cached"]).await;
            }
            let outcome = deliver(invalidator, &model(), &records, deadline(2)).await;
            let failed: BTreeSet<usize> = outcome.failures.keys().copied().collect();
            assert_eq!(failed, must_fail, "master {dead} is dead, {what}: {:?}", outcome.failures);
            let are_retryable = outcome.failures.values().all(Error::is_retryable);
            assert!(are_retryable, "master {dead} is dead, {what}: {:?}", outcome.failures);
            let living = masters.iter().enumerate().filter(|(master, _)| *master != dead);
            assert_eq!(
                count_keys(living.map(|(_, master)| master)).await,
                0,
                "master {dead} is dead, {what}"
            );
        }
    }
}
