//! `afterwrite demo`, as a stranger runs it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a report that is otherwise must fail the test at once"
)]

use std::process::{Command, Output};

use afterwrite_demo::workloads;
use serde_json::Value;

/// Runs it with datasets of its own: the tests run side by side.
fn afterwrite(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_afterwrite"));
    command.args(arguments);
    if let Some(&"demo") = arguments.first() {
        command.arg("--datasets").arg(folder.path());
    }
    command.output().unwrap_or_else(|error| panic!("{error}"))
}

/// Plays a model in small, and gives the report; everything in it is right.
fn played(model: &str) -> Value {
    let done = afterwrite(&["demo", "--model", model, "--seed", "5", "--attempts", "60", "--json"]);
    let errors = String::from_utf8_lossy(&done.stderr);
    let printed = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{model}: {errors} {printed}");
    assert_eq!(errors, "", "quiet in a pipe");
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["right"], true);
    assert_eq!((&report["model"], &report["seed"], &report["size"]), (&model.into(), &5.into(), &60.into()));
    let verdicts = report["verdicts"].as_array().unwrap();
    assert_eq!(verdicts.len(), 2);
    for verdict in verdicts {
        assert_eq!(verdict["differences"], Value::Array(Vec::new()));
        assert!(verdict["values"].as_u64().unwrap() > 100, "{model}: {verdict}");
    }
    let archive = &report["archive"];
    assert_eq!(archive["changes"], archive["expected"]);
    assert!(
        archive["objects"].as_u64() > Some(0) && archive["lines"].as_u64() >= archive["changes"].as_u64()
    );
    // Cache and event rules of two models read rollups, whose changes are archived as well.
    let (expected, records) = (archive["expected"].as_u64(), report["cost"]["records"].as_u64());
    let archives_rollups = ["leaderboard", "marketplace"].contains(&model);
    assert_eq!(expected > records, archives_rollups, "{model}: {archive}");
    assert!(expected >= records, "{model}: {archive}");
    for figure in ["records", "batches", "transactions", "write_units"] {
        assert!(report["cost"][figure].as_u64() > Some(0), "{model}: {figure}");
    }
    assert!(report["delivered_again"].as_u64() > Some(0));
    let datasets = &report["datasets"];
    assert!(datasets["rows"].as_u64() > Some(0), "{datasets}");
    assert_eq!((&datasets["rejected"], &datasets["rescued"]), (&0.into(), &0.into()));
    for chart in report["charts"].as_array().unwrap() {
        assert!(!chart["rows"].as_array().unwrap().is_empty(), "{model}: {chart}");
    }
    report
}

#[test]
fn every_model_is_counted_to_the_last_digit() {
    for workload in workloads::ALL {
        let report = played(workload.model);
        let shows = report["verdicts"][1]["mirrored"].as_u64() > Some(0);
        // Nothing of what glad derives is shown on its own items.
        assert_eq!(shows, workload.model != "glad", "{}", workload.model);
        assert_eq!(report["cost"]["mirrors"].as_u64() > Some(0), shows);
    }
}

#[test]
fn tables_and_a_verdict_are_printed() {
    let done = afterwrite(&["demo", "--attempts", "20"]);
    let printed = String::from_utf8(done.stdout).unwrap();
    for part in [
        "question_count",
        "█",
        "write units per record",
        "a recount of the base tables confirms all",
        "The archive holds all",
        "The Parquet is in",
        "query --datasets",
    ] {
        assert!(printed.contains(part), "{part} in {printed}");
    }
    for question in
        ["How many of the completed attempts passed", "The 20 questions that are answered right least"]
    {
        assert_eq!(printed.contains(question), cfg!(feature = "sql"), "{question} in {printed}");
    }
    assert_eq!(done.status.code(), Some(0));
}

#[test]
fn the_environment_names_the_model_if_it_has_a_demo() {
    let played = |model: &str| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_afterwrite"));
        let command = command.args(["demo", "--attempts", "20", "--json", "--datasets"]).arg(folder.path());
        let done = command.env("AFTERWRITE_MODEL", model).output().unwrap();
        let report: Value = serde_json::from_slice(&done.stdout).unwrap();
        (report["model"].as_str().unwrap().to_owned(), String::from_utf8(done.stderr).unwrap())
    };
    let (model, told) = played("glad");
    assert_eq!((&*model, told.contains("AFTERWRITE_MODEL")), ("glad", false), "{told}");
    let (model, told) = played("my-model.toml");
    assert_eq!(model, "exambuddy");
    assert!(told.contains("AFTERWRITE_MODEL is not a built-in model with a demo"), "{told}");
}

#[test]
fn help_has_an_example_and_wrong_usage_has_its_own_exit_code() {
    let help = afterwrite(&["help", "demo"]);
    assert_eq!(help.status.code(), Some(0));
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("afterwrite demo --seed 7") && help.contains("afterwrite demo --model shop"));
    for workload in workloads::ALL {
        assert!(help.contains(workload.model), "{}", workload.model);
    }
    for wrong in [&["demo", "--attempts", "none"][..], &["demo", "--model", "cinema"], &["dance"], &[]] {
        let refused = afterwrite(wrong);
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
        assert!(refused.stdout.is_empty());
    }
}

#[test]
fn with_json_a_model_that_cannot_be_read_is_reported_as_json() {
    let refused = afterwrite(&["model", "check", "glda", "--json"]);
    assert_eq!(refused.status.code(), Some(2));
    let report: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!((&report["file"], &report["problems"]), (&"glda".into(), &Value::Array(Vec::new())));
    let error = report["error"].as_str().unwrap();
    assert!(error.contains("Did you mean `glad`?"), "{error}");
    assert!(String::from_utf8(refused.stderr).unwrap().contains(error));
}

#[test]
fn checking_a_model_warns_of_variables_that_nothing_reads() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_afterwrite"));
    let checked = command.args(["model", "check", "glad"]).env("AFTERWRITE_MODLE", "shop").output().unwrap();
    assert_eq!(checked.status.code(), Some(0));
    let warnings = String::from_utf8(checked.stderr).unwrap();
    assert!(warnings.contains("did you mean AFTERWRITE_MODEL?"), "{warnings}");
}

#[test]
fn compaction_checks_its_arguments_before_it_needs_a_region() {
    let refused = afterwrite(&["compact", "--bucket", "b", "--dataset", "atempts"]);
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.contains("Did you mean attempts?"), "{error}");
}
