//! A2: a resumed replay reads the inputs that it was planned for, wherever it is resumed.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use afterwrite_input::{InputObject, StoredInput, TimeRange, bucket_names};
use afterwrite_local::s3::EmbeddedS3;
use afterwrite_memory::MemoryTables;
use afterwrite_model::clock::SystemClock;
use afterwrite_operations::jobs::JobTask as _;
use afterwrite_operations::replay::{InputSource, NoTarget, ReplayTask};
use afterwrite_services::s3::S3Bucket;
use afterwrite_services::{Bucket as _, ObjectStore as _};

use super::deployment::Shop;

const REPLAY: [&str; 6] = ["replay", "records.jsonl", "--yes", "--without-recovery", "--rate", "200"];

fn write(shop: &Shop, orders: std::ops::Range<u64>) {
    std::fs::write(shop.path("records.jsonl"), Shop::records(orders)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a2_a_replay_is_resumed_in_another_folder_with_its_own_file() {
    let shop = Shop::with_orders(0).await;
    write(&shop, 0..3_000);
    let id = shop.paused_in(shop.folder.path(), &REPLAY);
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("records.jsonl"), Shop::records(0..10)).unwrap();
    let resumed = shop.run_in(elsewhere.path(), &["jobs", "resume", &id]);
    assert_eq!(resumed.status.code(), Some(0), "{}", String::from_utf8_lossy(&resumed.stderr));
    assert_eq!(shop.counted().await, 3_000);
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a2_another_content_is_refused_whatever_its_size() {
    let shop = Shop::with_orders(0).await;
    write(&shop, 0..3_000);
    let id = shop.paused_in(shop.folder.path(), &REPLAY);
    let planned = std::fs::read(shop.path("records.jsonl")).unwrap();
    for orders in [0..2_000, 0..4_000, 3_000..6_000, 0..0] {
        write(&shop, orders);
        let refused = shop.text(2, &["jobs", "resume", &id]);
        assert!(refused.contains("has changed since the job was planned"), "{refused}");
    }
    std::fs::remove_file(shop.path("records.jsonl")).unwrap();
    assert!(shop.text(2, &["jobs", "resume", &id]).contains("now: missing"));
    std::fs::write(shop.path("records.jsonl"), planned).unwrap();
    shop.text(0, &["jobs", "resume", &id]);
    assert_eq!(shop.counted().await, 3_000);
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a2_files_that_are_added_to_a_folder_belong_to_no_running_job() {
    let shop = Shop::with_orders(0).await;
    let folder = shop.path("records");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("b.jsonl"), Shop::records(0..3_000)).unwrap();
    let id = shop.paused_in(
        shop.folder.path(),
        &["replay", "records", "--yes", "--without-recovery", "--rate", "200"],
    );
    std::fs::write(folder.join("a.jsonl"), Shop::records(5_000..5_010)).unwrap();
    let done = shop.json(0, &["jobs", "resume", &id, "--json"]);
    assert_eq!((done["totals"]["records"].as_u64(), shop.counted().await), (Some(3_000), 3_000));
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a2_standard_input_and_pipes_are_not_resumed() {
    for input in ["-", "/dev/stdin"] {
        let shop = Shop::with_orders(0).await;
        let mut started = shop
            .command(shop.folder.path(), &["replay", input, "--yes", "--without-recovery", "--rate", "200"]);
        let mut started = started.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut standard_input = started.stdin.take().unwrap();
        let writer = std::thread::spawn(move || {
            // The process ends before it has read everything.
            let _ = standard_input.write_all(Shop::records(0..3_000).as_bytes());
        });
        let id = shop.pause(started);
        writer.join().unwrap();
        let shown = shop.json(0, &["jobs", "show", &id, "--json"]);
        assert!(!shown["next_steps"].to_string().contains("resume"), "{shown}");
        let refused = shop.text(2, &["jobs", "resume", &id]);
        assert!(refused.contains("cannot be read again"), "{refused}");
        shop.server.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a2_a_file_that_changes_while_the_job_runs_is_refused() {
    let shop = Shop::with_orders(0).await;
    let folder = shop.path("records");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("a.jsonl"), Shop::records(0..2_000)).unwrap();
    std::fs::write(folder.join("b.jsonl"), Shop::records(2_000..4_000)).unwrap();
    let arguments = ["replay", "records", "--yes", "--without-recovery", "--rate", "400"];
    let started = shop.start(&arguments);
    std::thread::sleep(Duration::from_secs(2));
    std::fs::write(folder.join("b.jsonl"), Shop::records(2_000..2_050)).unwrap();
    let ended = tokio::task::block_in_place(|| started.wait_with_output().unwrap());
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(
        ended.status.code() == Some(2) && text.contains("has changed since the job was planned"),
        "{text}"
    );
    shop.server.stop().await.unwrap();
}

#[tokio::test]
async fn a2_an_object_that_changes_while_the_job_runs_is_refused() {
    let s3 = EmbeddedS3::start().await.unwrap();
    s3.create_bucket("lake").await.unwrap();
    let bucket = Arc::new(S3Bucket::new(&s3.client(), "lake".into()));
    bucket.put("archive/a", b"three".to_vec()).await.unwrap();
    let (name, range) = (Arc::from("lake"), TimeRange::default());
    let object = InputObject::of_prefix(&bucket, &name, "archive/", &range).await.unwrap().remove(0);
    let stored = object.stored().unwrap();
    assert!(object.open_stored(&stored).await.is_ok());
    bucket.put("archive/a", b"two".to_vec()).await.unwrap();
    let refused = object.open_stored(&stored).await.unwrap_err().to_string();
    assert!(refused.contains("has changed since the job was planned"), "{refused}");
    s3.stop().await.unwrap();
}

#[tokio::test]
async fn a2_a_step_that_has_read_a_stream_is_not_repeated() {
    let (folder, now) = (tempfile::tempdir().unwrap(), SystemClock);
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // A pipe without a writer would be waited for; this end is held by the test.
    let held = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    (&held).write_all(Shop::records(0..20).as_bytes()).unwrap();
    let objects = vec![InputObject::<S3Bucket>::File(pipe), InputObject::File(folder.path().join("missing"))];
    let source = InputSource::of(objects);
    let task: ReplayTask<_, _, _, Arc<MemoryTables>, _> = ReplayTask::new(source, NoTarget, NoTarget, now);
    let unit = task.units().remove(0);
    let writer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(held);
    });
    let failed = task.step(&unit).await.unwrap_err().to_string();
    writer.join().unwrap();
    assert!(failed.contains("cannot be read"), "the second input: {failed}");
    let refused = task.step(&unit).await.unwrap_err().to_string();
    assert!(refused.contains("standard input and pipes can be read once"), "{refused}");
}

#[tokio::test]
async fn a2_objects_are_read_again_only_with_their_content_and_without_later_ones() {
    let s3 = EmbeddedS3::start().await.unwrap();
    s3.create_bucket("lake").await.unwrap();
    let bucket = Arc::new(S3Bucket::new(&s3.client(), "lake".into()));
    for key in ["archive/a", "archive/b"] {
        bucket.put(key, b"one".to_vec()).await.unwrap();
    }
    let (name, range) = (Arc::from("lake"), TimeRange::default());
    let listed = InputObject::of_prefix(&bucket, &name, "archive/", &range).await.unwrap();
    let stored: Vec<StoredInput> = listed.iter().map(|object| object.stored().unwrap()).collect();
    assert_eq!(bucket_names(&stored), ["lake"]);
    let buckets: BTreeMap<String, Arc<S3Bucket>> = [("lake".to_owned(), Arc::clone(&bucket))].into();
    let read = async || InputObject::of_stored(&stored, &buckets).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    bucket.put("archive/aa", b"later".to_vec()).await.unwrap();
    let names: Vec<String> = read().await.unwrap().iter().map(InputObject::name).collect();
    assert_eq!(names, ["s3://lake/archive/a", "s3://lake/archive/b"]);
    bucket.put("archive/b", b"two".to_vec()).await.unwrap();
    let refused = read().await.unwrap_err().to_string();
    assert!(refused.contains("has changed") && refused.contains("archive/b"), "{refused}");
    bucket.delete(&["archive/b".to_owned()]).await.unwrap();
    assert!(read().await.unwrap_err().to_string().contains("now: missing"));
    s3.stop().await.unwrap();
}
