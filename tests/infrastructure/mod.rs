//! The Terraform module in `infra/`: checked, tested and applied without AWS by `check.py`, and compared with the product here: the
//! descriptions of models, the alarms' paragraphs in the runbook, and the metrics that alarms and dashboard name.
//!
//! Each applied example is compared with the SAM template for the same model and parameters, so that both deploy the same.
//!
//! The state that an example's check applies is used: the functions run under event source mappings, queues and schedules with its settings.

#![expect(
    clippy::indexing_slicing,
    reason = "an index that is out of range, or a name that a state does not have, must fail the test"
)]

mod alarm_rules;
mod alarms;
mod applied;
mod cloud;
mod cost;
mod delivery;
mod events;
mod exam;
mod faults;
mod key_usage;
mod lambda;
mod metrics;
mod metrics_store;
mod permissions;
mod policies;
mod usage;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use afterwrite_deployment::stream_filters::DeploymentDescription;
use afterwrite_model::table::Model;
use afterwrite_tests::redis_server::RedisCluster;

use self::applied::AppliedState;
use self::usage::{LIMIT, UsedDeployment};

/// Names the interpreter that has moto and checkov; `tests/run` provides one and sets it.
const INTERPRETER: &str = "AFTERWRITE_TEST_INFRASTRUCTURE_PYTHON";

/// The text of a file of the repository.
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a check of `check.py` and shows its output if it fails.
fn assert_check(name: &str) {
    assert_check_with(name, &[]);
}

fn assert_check_with(name: &str, arguments: &[&str]) {
    let interpreter =
        std::env::var_os(INTERPRETER).unwrap_or_else(|| panic!("{INTERPRETER} is not set: run tests/run"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("infrastructure/check.py");
    // Compiled scripts would be left in the folder.
    let mut check = Command::new(interpreter);
    check.arg(script).arg(name).args(arguments).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = check.output().expect("the Python interpreter");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    println!("{}", text(&output.stdout));
    assert!(output.status.success(), "{name}: {}", text(&output.stderr));
}

#[test]
#[ignore = "needs terraform, moto and checkov: run tests/run"]
fn the_module_and_its_examples_are_formatted_and_valid() {
    assert_check("sources");
}

#[test]
#[ignore = "needs terraform, moto and checkov: run tests/run"]
fn every_limit_and_precondition_refuses_what_breaks_it() {
    assert_check("cases");
}

#[test]
#[ignore = "needs terraform: run tests/run"]
fn the_module_plans_what_each_variable_asks_for() {
    assert_check_with("cases", &["deployment"]);
}

/// Applies an example and destroys it; returns the state in between.
fn apply(example: &str) -> AppliedState {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("state.json");
    assert_check_with(example, &[file.to_str().expect("a path in UTF-8")]);
    AppliedState::parse(&fs::read_to_string(&file).expect("the applied state"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs terraform, moto, redis-server and the release binaries: run tests/run"]
async fn an_existing_table_is_deployed_and_used_with_caches_and_a_key() {
    let cache = RedisCluster::start().await;
    let state = apply("existing-table");
    let used = Box::pin(use_and_judge("existing-table", &state, Some(&cache)));
    tokio::time::timeout(LIMIT, used).await.expect("everything is processed in time");
}

/// Uses a deployment, compares its results, injects every fault, and judges its alarms and its permissions.
async fn use_and_judge(example: &str, state: &AppliedState, cache: Option<&RedisCluster>) {
    let mut used = UsedDeployment::start(state, cache).await;
    Box::pin(used.use_and_compare(cache)).await;
    let healthy = used.metrics().await;
    let faults = Box::pin(faults::provoke(&mut used)).await;
    used.redrive().await;
    let mut problems = alarms::problems(state, &healthy, &faults);
    problems.extend(cost::problems(state, &healthy, &faults));
    problems.extend(permissions::problems(example, state, &used.cloud.recorder.calls()));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
#[ignore = "needs terraform, moto and checkov: run tests/run"]
fn the_module_has_no_findings_but_those_that_are_waived() {
    assert_check("scan");
}

#[test]
#[ignore = "needs cfn-lint and the release binaries: run tests/run"]
fn the_sam_templates_of_all_models_have_no_findings() {
    assert_check("template");
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn a_release_is_reproducible_and_complete() {
    assert_check("release");
}

#[test]
fn the_descriptions_in_the_modules_tests_are_up_to_date() {
    let levels = concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/tests/levels.toml");
    let events = concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/tests/events.toml");
    let index_keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/tests/index-keys.toml");
    let day = "SK = \"DAY#{placed_at:day}\" }\n";
    let expires = "expires = { after = \"400 days\", of = \"placed_at\" }\n";
    let expiring = tempfile::tempdir().unwrap();
    let file = expiring.path().join("levels-expiring.toml");
    let text = read("infra/tests/levels.toml").replacen(day, &format!("{day}{expires}"), 1);
    std::fs::write(&file, text).unwrap();
    for (name, model) in [
        ("exambuddy", "exambuddy"),
        ("quiz", "quiz"),
        ("levels", levels),
        ("levels-expiring", file.to_str().unwrap()),
        ("events", events),
        ("index-keys", index_keys),
    ] {
        let description = DeploymentDescription::of(&Model::load(model).unwrap());
        let generated = serde_json::to_value(&description).unwrap();
        let stored: serde_json::Value =
            serde_json::from_str(&read(&format!("infra/tests/{name}.json"))).unwrap();
        assert!(
            stored == generated,
            "infra/tests/{name}.json is not the model's description: \
             cargo run --bin afterwrite -- model show {model} --json > infra/tests/{name}.json"
        );
    }
}

#[test]
fn every_alarm_has_a_paragraph_in_the_runbook_and_every_paragraph_an_alarm() {
    let alarms = read("infra/alarms.tf");
    let kinds: BTreeSet<&str> = alarms.lines().filter_map(|line| metrics::setting(line, "kind")).collect();
    let runbook = read("docs/RUNBOOK.md");
    // No alarm shows a restore.
    let (runbook, _) = runbook.split_once("\n# After a restore\n").unwrap();
    let paragraphs: BTreeSet<&str> = runbook.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(kinds, paragraphs);
    for paragraph in runbook.split("\n## ").skip(1) {
        let complete =
            ["**Meaning.** ", "**Look at** ", "**Mend.** "].iter().all(|part| paragraph.contains(part));
        assert!(complete, "a paragraph states the meaning, what to look at, and what mends it:\n{paragraph}");
    }
}

#[test]
fn every_metric_of_an_alarm_or_a_panel_is_emitted_by_a_function() {
    let emitted = metrics::emitted();
    let named = metrics::named(&read("infra/alarms.tf"), &read("infra/dashboard.tf"));
    assert!(named.len() > 30, "{} metrics are named", named.len());
    let unknown: Vec<&String> = named.difference(&emitted).collect();
    assert!(unknown.is_empty(), "no function emits {unknown:?}");
}

/// `tests/run --full` alone runs these: each applies the module once more.
mod full {
    use super::{LIMIT, apply, assert_check, events, use_and_judge};

    #[test]
    #[ignore = "needs terraform, moto and the release binaries: run tests/run --full"]
    fn rollups_as_sources_are_deployed_and_a_missing_stream_is_found() {
        assert_check("levels");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs terraform, moto and the release binaries: run tests/run --full"]
    async fn events_of_an_applied_deployment_are_sent_and_their_failures_provoke_the_alarm() {
        let state = apply("events");
        let used = Box::pin(events::use_and_judge(&state));
        tokio::time::timeout(LIMIT, used).await.expect("everything is processed in time");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs terraform, moto and the release binaries: run tests/run --full"]
    async fn a_new_table_is_deployed_used_and_destroyed() {
        let state = apply("new-table");
        let used = Box::pin(use_and_judge("new-table", &state, None));
        tokio::time::timeout(LIMIT, used).await.expect("everything is processed in time");
    }

    #[test]
    #[ignore = "needs terraform, moto and the release binaries: run tests/run --full"]
    fn a_global_table_is_deployed_with_one_reader() {
        assert_check("global-table");
    }
}
