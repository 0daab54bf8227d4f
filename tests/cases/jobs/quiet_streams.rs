//! A2: a replay of a stream that stays open and quiet obeys its operator, and keeps its lease.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::deployment::Shop;

/// The running job of the shop, once it is as it is expected.
fn running_job(shop: &Shop, is_expected: impl Fn(&Value) -> bool) -> Value {
    let begin = Instant::now();
    loop {
        let jobs = shop.json(0, &["jobs", "list", "--json"]);
        let mut running = jobs.as_array().unwrap().iter().filter(|job| job["status"] == "running");
        if let Some(job) = running.find(|job| is_expected(job)) {
            return job.clone();
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{jobs}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The exit code of a process that ends although its input stays open.
fn exit_code(mut process: Child) -> Option<i32> {
    let begin = Instant::now();
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            return status.code();
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "the process waits for its input");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a2_a_replay_of_a_quiet_stream_keeps_its_lease_and_obeys_its_operator() {
    for (input, control, status) in [("-", "stop", "stopped"), ("pipe", "pause", "paused")] {
        let shop = Shop::with_orders(0).await;
        let pipe = shop.path("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // The test holds both ends: the pipe stays open, and can be written when the process has ended.
        let mut held = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        held.write_all(Shop::records(0..20).as_bytes()).unwrap();
        let arguments = ["replay", input, "--yes", "--without-recovery", "--rate", "1000"];
        let mut command = shop.command(shop.folder.path(), &arguments);
        let process = command.stdin(File::open(&pipe).unwrap()).stdout(Stdio::null()).spawn().unwrap();
        let delivered = running_job(&shop, |job| job["progress"]["items"] == 20);
        let renewed = running_job(&shop, |job| job["lease_until"] != delivered["lease_until"]);
        let steps = renewed["next_steps"].to_string();
        assert!(
            steps.contains("jobs stop") && !steps.contains("jobs pause"),
            "nothing can resume it: {steps}"
        );
        let id = renewed["id"].as_str().unwrap();
        shop.text(0, &["jobs", control, id]);
        assert_eq!(exit_code(process), Some(1), "{control}");
        held.write_all(Shop::records(20..40).as_bytes()).unwrap();
        drop(held);
        assert_eq!(shop.json(0, &["jobs", "show", id, "--json"])["status"], status);
        assert_eq!(shop.counted().await, 20);
        shop.server.stop().await.unwrap();
    }
}
