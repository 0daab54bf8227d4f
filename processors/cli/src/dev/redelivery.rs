//! Records that the console wants to have delivered once more, each as a batch of its own.

use std::time::Duration;

use afterwrite_console::board::{RedeliveredTo, Redelivery};
use afterwrite_mapping::EventHandler as _;
use tokio::sync::mpsc;

use super::functions::{AGGREGATOR, DevFunction, RELAY};

/// The functions' timeout.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Delivers the queued records to the functions that read streams. It never ends: without a console, no record is queued.
pub(super) async fn deliver_again(
    mut queue: mpsc::Receiver<Redelivery>,
    functions: &[(String, DevFunction)],
) {
    while let Some(Redelivery { change, reply }) = queue.recv().await {
        let event = format!(r#"{{"Records":[{}]}}"#, change.record);
        let mut responses = Vec::new();
        for (name, function) in functions.iter().filter(|(name, _)| name == AGGREGATOR || name == RELAY) {
            let handled = Box::pin(function.handle(event.clone().into_bytes(), TIMEOUT)).await;
            let outcome = match handled {
                Ok(response) => Ok(String::from_utf8_lossy(&response).into_owned()),
                Err(error) => Err(error.report()),
            };
            responses.push(RedeliveredTo { function: name.clone(), outcome });
        }
        // The reader of the page may have gone.
        let _ = reply.send(responses);
    }
    std::future::pending().await
}
