//! Faults on demand.

use std::collections::BTreeMap;
use std::time::Duration;

use afterwrite_mapping::FaultPlan;
use serde_json::json;

use super::harness::{MappingRun, RunOutcome, fails_with};
use super::simulated_stream::SimulatedStream;

fn stream() -> SimulatedStream {
    let stream = SimulatedStream::of(&[]);
    (0..300).for_each(|number| stream.write("s", &format!("{number:03}")));
    stream
}

async fn run_with(faults: &str) -> RunOutcome {
    let stream = stream();
    let mut run = MappingRun::new(&stream, json!({ "BatchSize": 3 }));
    run.faults = FaultPlan::parse(faults).unwrap().into();
    run.duration = Duration::from_millis(20);
    run.drain().await
}

#[tokio::test(start_paused = true)]
async fn duplicates_repeat_accepted_records_and_follow_their_seed() {
    let outcome = run_with("duplicate=0.5,seed=7").await;
    let mut times = BTreeMap::<String, u64>::new();
    for number in outcome.numbers() {
        *times.entry(number).or_default() += 1;
    }
    assert_eq!(times.len(), 300);
    let repeated: u64 = times.values().map(|times| times - 1).sum();
    assert!(repeated > 50, "{repeated}");
    assert_eq!((outcome.counts.redelivered, outcome.counts.accepted), (repeated, 300));
    assert_eq!(outcome.batches(), run_with("duplicate=0.5,seed=7").await.batches());
    assert_ne!(outcome.batches(), run_with("duplicate=0.5,seed=8").await.batches());
}

#[tokio::test(start_paused = true)]
async fn a_crash_redelivers_the_batch_and_loses_nothing() {
    let outcome = run_with("crash=0.3,seed=1").await;
    assert!(outcome.counts.retries > 10, "{}", outcome.counts.retries);
    assert_eq!((outcome.counts.accepted, outcome.counts.skipped), (300, 0));
    assert_eq!(
        outcome.counts.failed, outcome.counts.retries,
        "a killed function and a lost response are failures"
    );
    let mut numbers = outcome.numbers();
    numbers.dedup();
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_delay_makes_deliveries_late() {
    let started = tokio::time::Instant::now();
    run_with("delay=2s").await;
    let delayed = started.elapsed();
    assert!(delayed > Duration::from_secs(60), "100 batches of about 1 s: {delayed:?}");
}

#[tokio::test(start_paused = true)]
async fn faults_are_switched_while_a_mapping_runs() {
    let stream = stream();
    let mut run = MappingRun::new(&stream, json!({ "BatchSize": 3 }));
    run.duration = Duration::from_millis(20);
    // Nothing passes while every invocation crashes.
    run.faults = FaultPlan { crash: 1.0, ..FaultPlan::default() }.into();
    let switched = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        run.faults.set(FaultPlan::default());
    };
    let outcome = run.while_running(switched).await;
    assert_eq!((outcome.counts.accepted, outcome.counts.skipped), (300, 0));
    assert!(outcome.counts.retries > 5, "{}", outcome.counts.retries);
    assert_eq!(outcome.counts.redelivered, 0);
}

#[tokio::test(start_paused = true)]
async fn a_crash_uses_up_no_retry_and_an_error_of_the_function_does() {
    let stream = stream();
    let script = fails_with("007");
    let mut run = MappingRun::new(&stream, json!({ "BatchSize": 3, "MaximumRetryAttempts": 1 }));
    run.faults = FaultPlan::parse("crash=0.7,seed=5").unwrap().into();
    run.duration = Duration::from_millis(20);
    let outcome = run.script(&script).drain().await;
    let skipped: Vec<&str> = outcome.skipped.iter().map(|record| record.sequence_number.as_str()).collect();
    assert_eq!((outcome.counts.accepted, outcome.counts.skipped), (297, 3), "{skipped:?}");
}

#[test]
fn a_fault_that_cannot_be_injected_is_refused() {
    let plan = FaultPlan::parse("duplicate=0.1, crash=0.01,delay=50ms,conflict=0.05,seed=3").unwrap();
    assert_eq!(
        (plan.crash, plan.conflict, plan.delay, plan.seed),
        (0.01, 0.05, Duration::from_millis(50), 3)
    );
    for wrong in ["crash", "crash=2", "crash=-1", "delay=5", "fire=0.1", "seed=x"] {
        let error = FaultPlan::parse(wrong).unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{wrong}` is not a fault that can be injected")), "{error}");
    }
}
