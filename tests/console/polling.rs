//! Pages that follow a running job, in Chromium: its progress appears without a click, nothing that the reader has focused, opened or typed is lost,
//! and the page asks no more once the job has ended.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use afterwrite_tests::development::{Development, SHOP, model_file, number};
use afterwrite_tests::programs::program;
use serde_json::{Value, json};

use super::browser::walk;
use super::health::{after_command, run};
use super::http::{ConsoleClient, encoded};

const ORDERS: usize = 90;
/// How long the job may take to begin, and the page to open, on a busy machine.
const BEGUN_WITHIN: Duration = Duration::from_secs(80);
/// The row of the job.
const ROW: &str = "#jobs tr:has(a[href*='id=backfill'])";

/// A command in the environment of a running `dev`.
fn command(development: &Development, arguments: &[&str]) -> Command {
    let mut command = Command::new(program("afterwrite"));
    command.args(arguments).env_clear().envs(development.environment());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The id of the backfill, once it runs.
async fn running_job(console: &ConsoleClient) -> String {
    let deadline = Instant::now() + BEGUN_WITHIN;
    loop {
        let page = console.json("/health");
        let job = page["jobs"].as_array().and_then(|jobs| {
            jobs.iter().find_map(|job| {
                let id = job["job"].as_str().filter(|id| id.starts_with("backfill"))?;
                (job["status"]["text"] == "running").then(|| id.to_owned())
            })
        });
        if let Some(job) = job {
            return job;
        }
        assert!(Instant::now() < deadline, "{page}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Runs a command once a file exists.
fn once_exists(file: PathBuf, mut command: Command) -> JoinHandle<()> {
    spawn(move || {
        let deadline = Instant::now() + BEGUN_WITHIN;
        while !file.exists() && Instant::now() < deadline {
            sleep(Duration::from_millis(100));
        }
        assert!(command.status().expect("a process").success());
    })
}

/// The steps of an operator: the page of the job, and then *Health*. The image is written while the job runs.
fn operator(job: &str, image: &Path) -> Value {
    let (row, progress) = (format!("{ROW} a"), format!("{ROW} td:nth-child(3)"));
    let page = format!("/health/job?id={}", encoded(job));
    json!([
        { "open": page },
        { "type": "input[name=rate]", "text": "7" },
        { "read": "#job", "as": "job" },
        { "differs": "#job", "from": "job" },
        { "field": "input[name=rate]", "as": "typed" },
        { "active": "typing" },
        { "open": "/health" },
        { "click": "#commands summary" },
        { "focus": row },
        { "read": progress, "as": "first" },
        { "differs": progress, "from": "first" },
        { "count": "#commands details[open]", "as": "open" },
        { "active": "focused" },
        { "image": image },
        { "wait": format!("{ROW} .verdict::-p-text(done)"), "within": 60_000 },
        { "wait": "#commands:not([hx-get])", "within": 60_000 },
        { "read": progress, "as": "last" },
        { "count": "#commands details[open]", "as": "open at the end" },
        { "active": "focused at the end" },
        { "judge": true },
        { "requests": "/health/running", "as": "requests" },
        { "pause": 5_000 },
        { "requests": "/health/running", "as": "requests later" },
        { "open": page },
        { "count": "#job[hx-get], #controls form", "as": "controls" },
    ])
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and Chromium: run tests/run"]
async fn a_page_follows_a_job_to_its_end_and_keeps_what_its_reader_has_opened() {
    let (folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    let console = ConsoleClient::of(&development);
    for order in 0..ORDERS {
        development.put_order(&order.to_string(), number("1")).await;
    }
    development.spent(&ORDERS.to_string()).await;
    // A command whose output the reader closes.
    assert_eq!(run(&console, "verify").status, 303);
    after_command(&console, "verify").await;
    let backfill =
        ["backfill", "--all", "--yes", "--without-recovery", "--rate=1", "--workers=1", "--segments=32"];
    let mut backfill = command(&development, &backfill).spawn().expect("a process");
    let job = running_job(&console).await;
    let image = folder.path().join("running.png");
    let faster = once_exists(image.clone(), command(&development, &["jobs", "set", &job, "rate=none"]));
    let texts = walk(development.announced["console"].as_str().unwrap(), &operator(&job, &image));
    faster.join().expect("the job is faster");
    assert!(tokio::task::block_in_place(|| backfill.wait()).expect("an end").success());

    let read = |name: &str| texts[name].as_str().unwrap();
    assert_eq!(read("typed"), "7");
    assert!(read("typing").contains("name=\"rate\""), "{texts:?}");
    for focused in ["focused", "focused at the end"] {
        assert!(read(focused).contains(&encoded_id(&job)), "{texts:?}");
    }
    assert_eq!([read("open"), read("open at the end")], ["0", "0"]);
    assert!(read("last").contains(&format!("{ORDERS} items")), "{texts:?}");
    let requests: u32 = read("requests").parse().unwrap();
    assert!(requests > 1 && read("requests later") == read("requests"), "{texts:?}");
    assert_eq!(read("controls"), "0");
    development.stop();
}

/// The id of a job, as links of the console have it.
fn encoded_id(job: &str) -> String {
    job.replace('-', "%2D")
}
