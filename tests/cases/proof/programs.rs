//! The release binaries: samples, exit codes, and the progress that another machine sees.

use std::collections::BTreeSet;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use afterwrite_tests::archive::{BUCKET, EmbeddedArchive};
use afterwrite_tests::deployment::{FunctionDeployment, STATE};
use afterwrite_tests::programs::{embedded_afterwrite, program};
use afterwrite_tests::runtime_api::InvocationResult;
use serde_json::{Value, json};

fn command(deployment: &FunctionDeployment, arguments: &[&str]) -> Command {
    let mut command = embedded_afterwrite(&deployment.endpoint(), STATE);
    command.args(arguments);
    command
}

fn run(deployment: &FunctionDeployment, arguments: &[&str]) -> (i32, Value, String) {
    let Output { status, stdout, stderr } =
        tokio::task::block_in_place(|| command(deployment, arguments).output().unwrap());
    let errors = String::from_utf8(stderr).unwrap();
    (status.code().unwrap(), serde_json::from_slice(&stdout).unwrap_or_default(), errors)
}

/// A project with 100 attempts that are counted.
async fn counted() -> FunctionDeployment {
    let deployment = FunctionDeployment::new().await;
    deployment.put_project("p1").await;
    for attempt in 0..100 {
        deployment.put_attempt("p1", &format!("t{attempt}")).await;
    }
    let (code, _, errors) = run(&deployment, &["backfill", "--yes", "--without-recovery"]);
    assert_eq!(code, 0, "{errors}");
    deployment
}

fn keys(report: &Value) -> BTreeSet<String> {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["key"].to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn b1_each_sample_is_another_one_and_its_report_repeats_it() {
    let deployment = counted().await;
    for attempt in 100..140 {
        deployment.put_attempt("p1", &format!("unseen{attempt}")).await;
    }
    let sample = ["verify", "--tolerance", "1", "--sample", "0.2", "--json"];
    let (code, first, errors) = run(&deployment, &sample);
    assert_eq!(code, 1, "{errors}");
    let (_, second, _) = run(&deployment, &sample);
    assert_ne!((first["seed"].as_u64(), keys(&first)), (second["seed"].as_u64(), keys(&second)));
    assert!(first["findings"][0]["seed"] == first["seed"] && first["sample"] == json!(0.2), "{first}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    std::fs::write(&file, first.to_string()).unwrap();
    let recheck = ["verify", "--tolerance", "1", "--json", "--recheck", file.to_str().unwrap()];
    let (code, again, errors) = run(&deployment, &recheck);
    assert_eq!((code, &again["seed"], keys(&again)), (1, &first["seed"], keys(&first)), "{errors}");
    let seed = first["seed"].to_string();
    let (_, again, _) = run(&deployment, &[&sample[..], &["--seed", &seed]].concat());
    assert_eq!(keys(&again), keys(&first));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn b1_the_verifier_judges_the_other_half_in_its_second_run() {
    let deployment = counted().await;
    for attempt in 100..120 {
        deployment.put_attempt("p1", &format!("unseen{attempt}")).await;
    }
    let archive = Box::pin(EmbeddedArchive::start()).await;
    let s3 = archive.s3.endpoint();
    let settings = [("AFTERWRITE_BUCKET", BUCKET), ("AWS_ENDPOINT_URL_S3", &*s3)];
    let (api, verifier) = deployment.function(&program("verifier"), &settings).await;
    let request = json!({ "verify": { "sample": 0.5, "tolerance_seconds": 1, "datasets": false } });
    let mut drifted = Vec::new();
    for _ in 0..3 {
        let result = api.invoke(request.to_string(), Duration::from_secs(150)).await;
        let InvocationResult::Response(response) = result else {
            panic!("{result:?}\n{}", verifier.output());
        };
        let report: Value = serde_json::from_slice(&response).unwrap();
        drifted.push(report["drifted_targets"].as_u64().unwrap());
        if drifted.len() == 2 {
            let last = &report["rotation"]["last_round"];
            assert_eq!((&last["items"], &last["runs"]), (&json!(1.0), &json!(2)), "{report}");
        }
    }
    assert!(drifted[0] > 0 && drifted[1] > 0, "{drifted:?}");
    assert_eq!((drifted[0] + drifted[1], drifted[2]), (20, drifted[0]), "each item once in a round");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn b2_a_verification_that_judges_nothing_ends_with_3_and_the_cause() {
    let deployment = FunctionDeployment::new().await;
    let verify = ["verify", "--tolerance", "1", "--json"];
    let (code, report, errors) = run(&deployment, &verify);
    assert!(code == 3 && errors.contains("no items"), "{report} {errors}");
    // Attempts of a project that does not exist: their owner is unknown.
    for attempt in 0..20 {
        deployment.put_attempt("gone", &format!("t{attempt}")).await;
    }
    let (code, report, errors) = run(&deployment, &verify);
    assert_eq!(
        (code, &report["undecided"], &report["unjudged"][0]["part"]),
        (3, &json!(20), &json!("items"))
    );
    assert!(errors.contains("20 looked at") && errors.contains("lookup"), "{errors}");
    let (code, _, errors) = run(&deployment, &[&verify[..], &["--only", "admin_id=nobody"]].concat());
    assert!(code == 3 && errors.contains("lookup"), "an unknown owner may be this one: {errors}");
    let backfill = ["backfill", "--yes", "--without-recovery", "--json", "--only", "admin_id=nobody"];
    let (code, _, errors) = run(&deployment, &backfill);
    assert!(code == 1 && errors.contains("admin_id=nobody"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn b4_items_that_stay_undecided_end_with_1_and_a_report_that_was_cut_is_refused() {
    let deployment = counted().await;
    // Attempts of a project that does not exist: no later verification can decide them.
    for attempt in 0..3 {
        deployment.put_attempt("gone", &format!("t{attempt}")).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("drift.jsonl");
    let name = file.to_str().unwrap();
    let (code, report, errors) =
        run(&deployment, &["verify", "--tolerance", "1", "--json", "--report", name]);
    let found =
        ["drift", "undecided", "undecided_until_mended"].map(|number| report[number].as_u64().unwrap());
    assert_eq!((code, found), (1, [0, 3, 3]), "{report} {errors}");

    let whole = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    assert!(lines.len() == 3 && lines[0].ends_with(r#","findings":3}"#), "{whole}");
    let recheck = ["verify", "--tolerance", "1", "--json", "--recheck", name];
    std::fs::write(&file, lines[..2].join("\n") + "\n").unwrap();
    for command in [&recheck[..], &["repair", name, "--dry-run"], &["doctor", "--report", name]] {
        let (code, _, errors) = run(&deployment, command);
        assert!(code == 2 && errors.contains("the report is not whole"), "{command:?}: {code} {errors}");
    }
    // A report of an earlier version does not name the number.
    std::fs::write(&file, whole.replace(r#","findings":3"#, "")).unwrap();
    let (code, _, errors) = run(&deployment, &recheck);
    assert!(
        code == 3 && errors.contains("not known to be whole") && errors.contains("3 looked at"),
        "{errors}"
    );
    // Nothing was found, and the file is whole.
    std::fs::write(&file, "").unwrap();
    let (code, _, errors) = run(&deployment, &recheck);
    assert!(code == 0 && !errors.contains("whole"), "{code} {errors}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn b3_an_older_model_is_refused_with_exit_code_2() {
    let deployment = FunctionDeployment::new().await;
    deployment.put_project("p1").await;
    deployment.put_attempt("p1", "t1").await;
    let folder = tempfile::tempdir().unwrap();
    let source = afterwrite_model::table::Model::built_in("exambuddy").unwrap();
    let newer = source.replacen("generation = 1", "generation = 8", 1);
    assert_ne!(newer, source);
    let file = folder.path().join("newer.toml");
    std::fs::write(&file, newer).unwrap();
    let file = file.to_str().unwrap();
    let (code, _, errors) = run(&deployment, &["backfill", "--yes", "--without-recovery", "--model", file]);
    assert_eq!(code, 0, "{errors}");
    let (code, _, errors) = run(&deployment, &["verify", "--tolerance", "1"]);
    assert!(code == 2 && errors.contains("generation: 8"), "{code} {errors}");
    let (code, _, errors) = run(&deployment, &["verify", "--tolerance", "1", "--model", file]);
    assert_eq!(code, 0, "{errors}");
}

/// Ends a process that a failed test leaves behind.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c7_a_job_that_waits_shows_what_for_and_until_when() {
    let deployment = counted().await;
    deployment.put_attempt("p1", "unseen").await;
    let mut verify = command(&deployment, &["verify", "--tolerance", "600"]);
    let mut verify = Running(verify.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (_, jobs, _) = run(&deployment, &["jobs", "list", "--json"]);
        let Some(job) = jobs.as_array().and_then(|jobs| jobs.iter().find(|job| job["kind"] == "verify"))
        else {
            continue;
        };
        let waiting = &job["waiting"];
        if waiting["reason"] == "tolerance" {
            assert!(waiting["until"].as_str().is_some_and(|until| until.ends_with('Z')), "{job}");
            // A pause does not wait for the tolerance.
            let (code, _, errors) = run(&deployment, &["jobs", "pause", job["id"].as_str().unwrap()]);
            assert_eq!(code, 0, "{errors}");
            tokio::time::sleep(Duration::from_secs(15)).await;
            let ended = verify.0.try_wait().unwrap().expect("the process has ended");
            assert_eq!(ended.code(), Some(1), "a paused job");
            return;
        }
    }
    panic!("the job shows no wait");
}
