//! Batches that fail.

use std::sync::Mutex;
use std::time::Duration;

use afterwrite_mapping::{MappingControl, MappingEnd, ShardCheckpoint};
use afterwrite_model::clock::Clock as _;
use afterwrite_model::{Error, ErrorKind};
use serde_json::{Value, json};

use super::harness::{MappingRun, accept, fails_with, failures, function_error};
use super::simulated_stream::SimulatedStream;

const REPORT: [&str; 1] = ["ReportBatchItemFailures"];

#[tokio::test(start_paused = true)]
async fn a_batch_is_redelivered_from_its_lowest_failed_record() {
    let stream = SimulatedStream::of(&["1", "2", "3"]);
    let once =
        |delivery: usize, _: &[String]| Ok(if delivery == 1 { failures(&["3", "2"]) } else { failures(&[]) });
    let run =
        MappingRun::new(&stream, json!({ "FunctionResponseTypes": REPORT })).script(&once).drain().await;
    assert_eq!(run.batches(), ["1 2 3", "2 3"]);
    assert_eq!((run.counts.accepted, run.counts.retries, run.counts.skipped), (3, 1, 0));
    assert_eq!(run.counts.failed, 1, "a batch that failed in part");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_delivered_again_is_known_until_it_is_accepted() {
    let stream = SimulatedStream::of(&["1", "2", "3", "4"]);
    let is_written = Mutex::new(false);
    let waits = |_: usize, numbers: &[String]| {
        let waits = !*is_written.lock().unwrap() && numbers.iter().any(|number| number == "3");
        Ok(if waits { failures(&["3"]) } else { failures(&[]) })
    };
    let settings = json!({ "FunctionResponseTypes": REPORT, "BisectBatchOnFunctionError": true });
    let run = MappingRun::new(&stream, settings).script(&waits);
    let began = tokio::time::Instant::now();
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        let retried = run.progress.retried();
        let [batch] = retried.as_slice() else { panic!("{retried:?}") };
        assert_eq!(
            (batch.first.as_str(), batch.reason.as_str()),
            ("3", "the response names the record as failed")
        );
        assert!((1..=2).contains(&batch.records) && batch.invocations > 2, "{batch:?}");
        let waiting = stream.clock.now().since(batch.since);
        assert!(waiting >= Duration::from_secs(15) && waiting <= began.elapsed(), "{batch:?}");
        *is_written.lock().unwrap() = true;
    };
    let outcome = run.while_running(meanwhile).await;
    assert_eq!((outcome.counts.accepted, outcome.counts.skipped), (4, 0));
    assert!(outcome.counts.failed > 3, "{:?}", outcome.counts);
    assert_eq!(run.progress.retried(), []);
}

#[tokio::test(start_paused = true)]
async fn without_report_batch_item_failures_the_response_is_not_read() {
    let stream = SimulatedStream::of(&["1", "2"]);
    let names_one = |_: usize, _: &[String]| Ok(failures(&["2"]));
    let run = MappingRun::new(&stream, json!({})).script(&names_one).drain().await;
    assert_eq!(run.batches(), ["1 2"]);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_response_fails_the_whole_batch() {
    for identifier in [json!(""), json!(null), json!(2), json!("99")] {
        let stream = SimulatedStream::of(&["1", "2"]);
        let response = json!({ "batchItemFailures": [{ "itemIdentifier": identifier }] });
        let once =
            |delivery: usize, _: &[String]| Ok(if delivery == 1 { response.clone() } else { Value::Null });
        let run = MappingRun::new(&stream, json!({ "FunctionResponseTypes": REPORT }));
        assert_eq!(run.script(&once).drain().await.batches(), ["1 2", "1 2"], "{identifier}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_function_error_fails_the_whole_batch_and_the_shard_waits() {
    let stream = SimulatedStream::of(&["1", "2", "3"]);
    let twice = |delivery: usize, _: &[String]| {
        if delivery < 3 { Err(function_error()) } else { Ok(Value::Null) }
    };
    let run = MappingRun::new(&stream, json!({ "BatchSize": 2 })).script(&twice).drain().await;
    assert_eq!(run.batches(), ["1 2", "1 2", "1 2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_discarded_after_its_retries() {
    for (retries, deliveries) in [(0, 1), (1, 2), (5, 6)] {
        let stream = SimulatedStream::of(&["1", "2", "3"]);
        let settings = json!({ "BatchSize": 2, "MaximumRetryAttempts": retries });
        let poison = fails_with("2");
        let run = MappingRun::new(&stream, settings).script(&poison).drain().await;
        let mut expected = vec!["1 2"; deliveries];
        expected.push("3");
        assert_eq!(run.batches(), expected);
        assert_eq!((run.counts.accepted, run.counts.skipped), (1, 2));
        assert_eq!(run.skipped[0].reason, "the function failed");
    }
}

#[tokio::test(start_paused = true)]
async fn by_default_a_poison_record_blocks_its_shard_until_it_is_trimmed() {
    let stream = SimulatedStream::of(&["1", "2"]);
    let poison = fails_with("1");
    let run = MappingRun::new(&stream, json!({ "BatchSize": 1 })).script(&poison);
    let control = MappingControl::default();
    let outcome = run
        .run(&control, async {
            tokio::time::sleep(Duration::from_secs(20 * 60 * 60)).await;
            control.stop();
        })
        .await;
    assert!(outcome.deliveries.len() > 1000);
    assert!(outcome.batches().iter().all(|batch| batch == "1"));
    assert_eq!(outcome.end.unwrap(), MappingEnd::Stopped);
}

#[tokio::test(start_paused = true)]
async fn bisecting_isolates_the_failing_record_and_does_not_use_up_retries() {
    let stream = SimulatedStream::of(&["1", "2", "3", "4"]);
    let settings = json!({ "BisectBatchOnFunctionError": true, "MaximumRetryAttempts": 1 });
    let poison = fails_with("3");
    let run = MappingRun::new(&stream, settings).script(&poison).drain().await;
    assert_eq!(run.batches(), ["1 2 3 4", "1 2", "3 4", "3", "3", "4"]);
    assert_eq!((run.counts.accepted, run.counts.skipped), (3, 1));
    assert_eq!(run.skipped[0].sequence_number, "3");
}

#[tokio::test(start_paused = true)]
async fn with_reported_failures_the_batch_is_cut_at_the_returned_number() {
    let stream = SimulatedStream::of(&["1", "2", "3", "4", "5", "6"]);
    let settings = json!({
        "BisectBatchOnFunctionError": true, "MaximumRetryAttempts": 0, "FunctionResponseTypes": REPORT,
    });
    let once =
        |delivery: usize, _: &[String]| Ok(if delivery == 1 { failures(&["3"]) } else { failures(&[]) });
    let run = MappingRun::new(&stream, settings).script(&once).drain().await;
    assert_eq!(run.batches(), ["1 2 3 4 5 6", "3 4 5 6"], "the cut used up no retry");
    assert_eq!(run.counts.skipped, 0);
}

#[tokio::test(start_paused = true)]
async fn an_invocation_error_is_bisected_whatever_the_response_type() {
    let stream = SimulatedStream::of(&["1", "2", "3", "4"]);
    let settings = json!({
        "BisectBatchOnFunctionError": true, "MaximumRetryAttempts": 0, "FunctionResponseTypes": REPORT,
    });
    let poison = fails_with("1");
    let run = MappingRun::new(&stream, settings).script(&poison).drain().await;
    assert_eq!(run.batches(), ["1 2 3 4", "1 2", "1", "2", "3 4"]);
}

#[tokio::test(start_paused = true)]
async fn a_reported_record_that_always_fails_is_isolated_and_discarded_alone() {
    let stream = SimulatedStream::of(&["1", "2", "3"]);
    let settings = json!({
        "BisectBatchOnFunctionError": true, "MaximumRetryAttempts": 2, "FunctionResponseTypes": REPORT,
    });
    let poison = |_: usize, numbers: &[String]| {
        Ok(if numbers.iter().any(|number| number == "2") { failures(&["2"]) } else { failures(&[]) })
    };
    let run = MappingRun::new(&stream, settings).script(&poison).drain().await;
    assert_eq!(run.batches(), ["1 2 3", "2 3", "2", "2", "2", "3"]);
    assert_eq!((run.counts.accepted, run.counts.skipped), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn records_that_are_too_old_are_discarded_without_a_retry() {
    let stream = SimulatedStream::of(&["1", "2"]);
    tokio::time::advance(Duration::from_secs(100)).await;
    stream.write("s", "3");
    let run = MappingRun::new(&stream, json!({ "MaximumRecordAgeInSeconds": 60 })).drain().await;
    assert_eq!(run.batches(), ["3"]);
    assert_eq!((run.counts.accepted, run.counts.skipped), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_record_is_retried_until_it_is_too_old() {
    let stream = SimulatedStream::of(&["1"]);
    let poison = fails_with("1");
    let run = MappingRun::new(&stream, json!({ "MaximumRecordAgeInSeconds": 60 })).script(&poison);
    let outcome = run.drain().await;
    assert!(outcome.deliveries.len() > 3);
    let (first, last) = (outcome.deliveries[0].0, outcome.deliveries.last().unwrap().0);
    assert!(last.since(first) <= Duration::from_secs(61));
    assert_eq!(outcome.counts.skipped, 1);
}

#[tokio::test(start_paused = true)]
async fn an_invocation_that_exceeds_its_timeout_is_repeated() {
    let stream = SimulatedStream::of(&["1"]);
    let mut run = MappingRun::new(&stream, json!({ "MaximumRetryAttempts": 2 }));
    run.duration = Duration::from_secs(61);
    let outcome = run.drain().await;
    assert_eq!((outcome.counts.batches, outcome.counts.skipped), (3, 1));
    assert_eq!(outcome.skipped[0].reason, "the invocation exceeded its timeout");
}

#[tokio::test(start_paused = true)]
async fn pauses_between_retries_grow() {
    let stream = SimulatedStream::of(&["1"]);
    let poison = fails_with("1");
    let run = MappingRun::new(&stream, json!({ "MaximumRetryAttempts": 6 })).script(&poison).drain().await;
    let times: Vec<_> = run.deliveries.iter().map(|(at, _)| *at).collect();
    let pauses: Vec<Duration> = times.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    assert!(pauses.windows(2).all(|pair| pair[1] > pair[0]), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_set_up_ends_the_mapping() {
    let stream = SimulatedStream::of(&["1"]);
    let wrong = |_: usize, _: &[String]| Err(Error::new(ErrorKind::Configuration, "no such table"));
    let run = MappingRun::new(&stream, json!({})).script(&wrong).drain().await;
    assert_eq!(run.end.unwrap_err().kind(), ErrorKind::Configuration);
    assert_eq!(run.deliveries.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_finishes_the_batch_and_leaves_a_checkpoint() {
    let stream = SimulatedStream::of(&["1", "2", "3", "4"]);
    let control = MappingControl::default();
    let stopper = Mutex::new(Some(&control));
    let stop_in_the_first = |delivery: usize, numbers: &[String]| {
        if let Some(control) = stopper.lock().unwrap().take() {
            control.stop();
        }
        accept(delivery, numbers)
    };
    let run = MappingRun::new(&stream, json!({ "BatchSize": 2 })).script(&stop_in_the_first);
    let outcome = run.run(&control, async {}).await;
    assert_eq!(outcome.batches(), ["1 2"]);
    assert_eq!(outcome.end.unwrap(), MappingEnd::Stopped);
    assert_eq!(run.checkpoints.stored().shards["s"], ShardCheckpoint::After("2".to_owned()));
}
