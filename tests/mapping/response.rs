//! Which responses are success, under `ReportBatchItemFailures`.

use std::time::Duration;

use afterwrite_mapping::{
    EventSourceMapping, MappingControl, MappingOptions, MappingProgress, MappingSettings, MemoryCheckpoints,
};

use super::simulated_stream::SimulatedStream;

/// How often a batch of two records is delivered if each response is this text.
async fn deliveries(response: &'static str) -> u64 {
    let stream = SimulatedStream::of(&["100", "101"]);
    let settings = MappingSettings::from_json(
        r#"{"FunctionResponseTypes": ["ReportBatchItemFailures"], "MaximumRetryAttempts": 1}"#,
    );
    let (settings, progress, checkpoints) =
        (settings.unwrap(), MappingProgress::default(), MemoryCheckpoints::default());
    let function = move |_: Vec<u8>, _: Duration| std::future::ready(Ok(response.as_bytes().to_vec()));
    let clock = stream.clock;
    let options = MappingOptions::new(&progress, &checkpoints);
    let mapping = EventSourceMapping::new(&stream, &function, &clock, &settings, options);
    mapping.run(&MappingControl::draining()).await.unwrap();
    progress.counts().batches
}

#[tokio::test(start_paused = true)]
async fn an_empty_or_null_list_or_response_is_success() {
    for response in
        [r#"{"batchItemFailures":[]}"#, r#"{"batchItemFailures":null}"#, "{}", "null", "", r#"{"other":1}"#]
    {
        assert_eq!(deliveries(response).await, 1, "{response}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_identifier_that_is_empty_null_unknown_misnamed_or_not_a_text_fails_the_batch() {
    for response in [
        r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#,
        r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#,
        r#"{"batchItemFailures":[{"itemIdentifier":"999"}]}"#,
        r#"{"batchItemFailures":[{"itemIdentifier":101}]}"#,
        r#"{"batchItemFailures":[{"wrong":"101"}]}"#,
        r#"{"batchItemFailures":"101"}"#,
        "not JSON",
    ] {
        assert_eq!(deliveries(response).await, 2, "{response}");
    }
}
