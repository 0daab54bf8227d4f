//! Controls of a job beside a deployment: the page offers the steps that the job can take, each after its plan.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::deployed::DeployedShop;
use super::health::{after_command, run};
use super::http::ConsoleClient;

/// How long a job may take to do what it was told, on a busy machine.
const OBEYED_WITHIN: Duration = Duration::from_secs(60);

/// The page of a job, once it has `wanted`.
fn page_with(console: &ConsoleClient, id: &str, wanted: &str) -> String {
    let deadline = Instant::now() + OBEYED_WITHIN;
    loop {
        let page = console.get(&format!("/health/job?id={id}")).body;
        if page.contains(wanted) {
            return page;
        }
        assert!(Instant::now() < deadline, "no {wanted}: {page}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The newest job, once a process runs it.
fn running_job(console: &ConsoleClient) -> String {
    let deadline = Instant::now() + OBEYED_WITHIN;
    loop {
        let jobs = console.json("/health")["jobs"].clone();
        let is_running = |job: &&Value| job["status"]["text"] == "running";
        if let Some(job) = jobs.as_array().unwrap().iter().find(is_running) {
            return job["job"].as_str().unwrap().to_owned();
        }
        assert!(Instant::now() < deadline, "no job runs: {jobs}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn post(console: &ConsoleClient, id: &str, control: &str) -> u16 {
    let token = console.token(&format!("/health/job?id={id}&{control}"));
    console.post("/health/job", &format!("token={token}&id={id}&{control}")).status
}

/// One item a second, so that the job runs until it is paused.
fn slow_backfill(shop: &DeployedShop) -> Child {
    let arguments =
        ["backfill", "--yes", "--without-recovery", "--segments", "4", "--workers", "1", "--rate", "1"];
    shop.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and moto: run tests/run"]
async fn a_job_is_paused_resumed_and_never_offered_what_it_cannot_do() {
    let shop = DeployedShop::new().await;
    let running = shop.console(&["--listen", "127.0.0.1:0", "--allow-writes"]);
    let console = ConsoleClient::at(&running.url);
    let mut backfill = slow_backfill(&shop);
    let id = running_job(&console);

    let page = page_with(&console, &id, ">running<");
    assert!(
        page.contains("Pause …") && page.contains("Set the rate …") && !page.contains("Resume …"),
        "{page}"
    );
    // Without the token of the session, nothing changes.
    assert_eq!(console.post("/health/job", &format!("id={id}&do=pause")).status, 403);
    let plan = console.get(&format!("/health/job?id={id}&do=pause")).body;
    assert!(
        plan.contains(&format!("afterwrite jobs pause {id}")) && plan.contains("can be resumed"),
        "{plan}"
    );
    assert_eq!(post(&console, &id, "do=pause"), 303);
    let ended = tokio::task::block_in_place(|| backfill.wait().unwrap());
    assert_eq!(ended.code(), Some(1), "a paused job");

    let paused = page_with(&console, &id, ">paused<");
    assert!(paused.contains("Resume …") && paused.contains("Stop for good …"), "{paused}");
    assert!(!paused.contains("Pause …"), "a paused job is not paused again: {paused}");
    // The address of a step that makes no sense any more shows the steps that do.
    let late = console.get(&format!("/health/job?id={id}&do=pause")).body;
    assert!(late.contains("Resume …") && !late.contains("jobs pause"), "{late}");
    let refused = console.get(&format!("/health/job?id={id}&do=rate&rate=0")).body;
    assert!(
        refused.contains("the rate is not a number of items") && refused.contains("Resume …"),
        "{refused}"
    );
    assert_eq!(post(&console, &id, "do=rate&rate=none"), 303);

    resume_to_its_end(&console, &id).await;
}

async fn resume_to_its_end(console: &ConsoleClient, id: &str) {
    let resume = format!("jobs resume {id}");
    assert_eq!(run(console, &resume).status, 303);
    let resumed = after_command(console, &resume).await;
    assert!(resumed.contains("exit code 0"), "{resumed}");
    let done = page_with(console, id, ">done<");
    assert!(done.contains("it cannot be controlled") && !done.contains("Stop for good …"), "{done}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and moto: run tests/run"]
async fn a_stopped_job_is_never_resumed_and_a_reader_sees_commands() {
    let shop = DeployedShop::new().await;
    let running = shop.console(&["--listen", "127.0.0.1:0", "--allow-writes"]);
    let reading = shop.console(&["--listen", "127.0.0.1:0"]);
    let [console, reader] = [&running, &reading].map(|running| ConsoleClient::at(&running.url));
    let mut backfill = slow_backfill(&shop);
    let id = running_job(&console);

    let page = page_with(&reader, &id, ">running<");
    assert!(page.contains(&format!("afterwrite jobs pause {id}")) && !page.contains("Pause …"), "{page}");
    assert_eq!(post(&console, &id, "do=stop"), 303);
    tokio::task::block_in_place(|| backfill.wait().unwrap());
    for console in [&console, &reader] {
        let stopped = page_with(console, &id, ">stopped<");
        assert!(stopped.contains("it cannot be controlled") && !stopped.contains("resume"), "{stopped}");
    }
    let refused = console.post(
        "/health/job",
        &format!("token={}&id={id}&do=pause", console.token("/health/run?command=verify")),
    );
    assert!(refused.status == 400 && refused.body.contains("the job has ended"), "{}", refused.body);
}
