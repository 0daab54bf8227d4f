//! Processes that are killed (`kill -9`) under load: the consumers of the stream, the exporter, the compactor, a backfill and a
//! verification. The database, the bucket, the delivery stream and the bus live in this process and survive, as AWS's do.
//!
//! At the end every rollup is exact, every change is archived, every completed attempt is an event under one id, every current row is right, and `verify` finds nothing.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected must fail at once"
)]

mod checks;
mod consumers;
mod killer;
mod platform;
mod services;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use afterwrite_demo::recount::WorkloadOutcome;
use afterwrite_demo::workloads;
use afterwrite_demo::writer::ScriptWriter;
use afterwrite_mapping::MappingControl;
use afterwrite_tests::random::SeededRandom;
use afterwrite_tests::size::size;
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::sleep;

use self::consumers::{deliver, export};
use self::killer::kill_one;
use self::platform::Platform;
use self::services::Service;

/// Kills of every test run: two of each program.
const KILLS: usize = 14;
/// Kills of `tests/run --full`.
const KILLS_IN_FULL: usize = 50;
/// The programs that are killed, each several times.
const VICTIMS: [&str; 7] = ["aggregator", "relay", "exporter", "run", "compact", "backfill", "verify"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the release binaries: run tests/run"]
async fn kills_under_load_lose_and_repeat_nothing() {
    let platform = Platform::start().await;
    let workload = workloads::of("exambuddy").unwrap();
    let started = Timestamp::now().as_second();
    let script = workload.script(7, 1_500, started);
    let writer = ScriptWriter::new(platform.dynamodb.client(), workload.tables());

    let (counting, archiving) = (MappingControl::default(), MappingControl::default());
    let (is_archived, is_over) = (Notify::new(), AtomicBool::new(false));
    let archive = async {
        deliver(&platform, "relay", &archiving).await;
        platform.firehose.flush().await.unwrap();
        is_archived.notify_one();
    };
    let count = async {
        deliver(&platform, "aggregator", &counting).await;
        // The aggregator's own writes to the table are archived, too.
        archiving.drain();
    };
    let load = async {
        let written =
            tokio::join!(async { writer.play(&script, &platform.dynamodb).await.unwrap() }, kills());
        is_over.store(true, Ordering::Relaxed);
        written
    };
    let operate = async {
        let ((expired, kills), ..) = tokio::join!(
            load,
            Service::Run.repeat(&platform, &is_over),
            Service::Compact.repeat(&platform, &is_over),
            Service::Backfill.repeat(&platform, &is_over),
            Service::Verify.repeat(&platform, &is_over),
        );
        println!("killed: {kills:?}");
        assert!(
            VICTIMS.iter().all(|victim| kills.get(*victim).is_some_and(|kills| *kills >= 2)),
            "{kills:?}"
        );
        let outcome = WorkloadOutcome {
            now: started,
            items: writer.items().await.unwrap(),
            expired,
            images: script.images(&workload.tables(), started),
        };
        // A consumer that was killed between a commit and a mirror owes the mirror until it runs again.
        let mut run = Service::Run.start(&platform);
        checks::rollups_become_exact(&platform, workload, outcome.clone()).await;
        run.kill().await.unwrap();
        counting.drain();
        outcome
    };
    let (outcome, ..) = tokio::join!(operate, count, archive, export(&platform, &is_archived));

    checks::every_change_is_relayed(&platform).await;
    assert!(Service::Compact.start(&platform).wait().await.unwrap().success());
    checks::current_attempts_are_exact(&platform, &outcome).await;
    checks::nothing_has_drifted(&platform).await;
}

/// Kills programs at random moments; returns how often each was killed.
async fn kills() -> BTreeMap<&'static str, usize> {
    let mut random = SeededRandom::new(50);
    let mut kills = BTreeMap::new();
    while kills.values().sum::<usize>() < size(KILLS, KILLS_IN_FULL) || kills.len() < VICTIMS.len() {
        sleep(Duration::from_millis(100 + random.below(400))).await;
        // Each in its turn: a program that lives long would be found most often. One that does not run at the moment keeps its turn.
        let mut victims = VICTIMS;
        victims.sort_by_cached_key(|victim| (kills.get(*victim).copied().unwrap_or(0), random.number()));
        if let Some(victim) = victims.into_iter().find(|victim| kill_one(victim)) {
            *kills.entry(victim).or_default() += 1;
        }
    }
    kills
}
