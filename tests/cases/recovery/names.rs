//! A table with several deployed names.

use std::sync::Arc;

use afterwrite_services::config::{EnvironmentSettings, FunctionConfig};

use super::shop::OrderChange::Put;
use super::world::{RecoveryWorld, TABLE};

const TABLES: &str = "Orders=Orders-restored,Orders=Orders";

#[test]
fn c4_a_model_table_may_have_several_deployed_names() {
    let resolve = |tables: &str| {
        let settings = EnvironmentSettings {
            model: Some("quiz".to_owned()),
            tables: Some(tables.to_owned()),
            state_table: Some("state".to_owned()),
            ..EnvironmentSettings::default()
        };
        FunctionConfig::resolve(&settings)
    };
    let plain = resolve("").unwrap();
    let [one, other, ..] = &plain.table_names[..] else { panic!("two tables") };
    let config = resolve(&format!("{one}=new,{one}=old,{one}=older")).unwrap();
    assert_eq!(config.table_names[..2], [Arc::from("new"), Arc::clone(other)]);
    for name in ["new", "old", "older"] {
        assert_eq!(config.model.table_deployed_as(&config.table_names, name), Some(0), "{name}");
    }
    // A name that is not given is not read.
    assert_eq!(config.model.table_deployed_as(&config.table_names, one), None);
    for wrong in [
        format!("{one}=new,{one}=new"),
        format!("{one}=new,{one}={other}"),
        format!("{one}=new,{other}=new2,{one}=new2"),
        format!("{one}=new,{one}=state"),
    ] {
        assert!(resolve(&wrong).is_err(), "{wrong}");
    }
}

/// Changes of the old table, then of the restored one.
async fn restored() -> RecoveryWorld {
    let mut world = RecoveryWorld::start().await;
    let before = world.hours_ago(3);
    world.change(before, "o1", Put(1)).await;
    world.change(before, "o2", Put(2)).await;
    world.archive(before).await;
    let copy = world.source_copy().await;
    world.restore_source(copy, Some("Orders-restored")).await;
    let after = world.hours_ago(1);
    world.change(after, "o2", Put(20)).await;
    world.change(after, "o3", Put(3)).await;
    world.archive(after).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c4_every_reader_takes_records_of_both_names() {
    let mut world = restored().await;
    let stopped = world.run(3, "afterwrite replay s3://lake/archive/ --yes --tables Orders=Orders-restored");
    assert!(stopped.contains("Orders=CURRENT,Orders=Orders"), "{stopped}");
    world.variables.insert("AFTERWRITE_TABLES".to_owned(), TABLES.to_owned());
    world.variables.insert("AFTERWRITE_BUCKET".to_owned(), "lake".to_owned());
    world.run(0, "afterwrite replay s3://lake/archive/ --yes");
    assert_eq!(world.totals().await, world.truth());
    let exported = world.run(0, "afterwrite export --missing --json");
    assert!(exported.contains("\"rejected\": 0") && exported.contains("\"rows\": 4"), "{exported}");
    world.run(0, "afterwrite record s3://lake/archive/ --out records.jsonl");
    let traced = world.run(0, "afterwrite tail --file records.jsonl --json");
    assert!(!traced.contains("not in the model") && traced.lines().count() == 4, "{traced}");
    world.run(0, "afterwrite heartbeat --json");
    let beats = |rows: Vec<super::shop::StoredItem>| {
        rows.iter().filter(|row| row.contains_key("heartbeat_at")).count()
    };
    assert_eq!((beats(world.rows("Orders-restored").await), beats(world.rows(TABLE).await)), (1, 0));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c4_an_object_with_lines_of_both_names_is_exported_again_as_a_whole() {
    let mut world = RecoveryWorld::start().await;
    world.change(world.hours_ago(2), "o1", Put(1)).await;
    let copy = world.source_copy().await;
    world.restore_source(copy, Some("Orders-restored")).await;
    world.change(world.hours_ago(1), "o2", Put(2)).await;
    world.archive(world.hours_ago(1)).await;
    world.variables.insert("AFTERWRITE_BUCKET".to_owned(), "lake".to_owned());
    for (tables, rejected, rows) in [("Orders=Orders-restored", 1, 1), (TABLES, 0, 2)] {
        world.variables.insert("AFTERWRITE_TABLES".to_owned(), tables.to_owned());
        // The second export of the same settings finds the file of the first.
        for (files, existing) in [(1, 0), (0, 1)] {
            let exported = world.run(0, "afterwrite export --from 2020-01-01 --json");
            for (name, number) in
                [("rejected", rejected), ("rows", rows), ("files", files), ("existing_files", existing)]
            {
                assert!(exported.contains(&format!("\"{name}\": {number}")), "{tables}: {exported}");
            }
        }
    }
    world.stop().await;
}
