//! A function, as the mapping calls it.

use std::future::Future;
use std::time::Duration;

use afterwrite_model::Result;

/// A Lambda function: an event's bytes and the remaining time, to the response's JSON.
///
/// If the future is dropped before it is ready, the function must stop where it is, as a process that is killed.
pub trait EventHandler {
    /// Handles one event.
    ///
    /// # Errors
    /// The invocation failed as a whole. An error of the kinds `Event`, `Stream`, `Model` and `Configuration` ends the mapping,
    /// because no redelivery can help; any other is retried as Lambda does.
    fn handle(&self, event: Vec<u8>, remaining: Duration) -> impl Future<Output = Result<Vec<u8>>>;
}

impl<F, Handling> EventHandler for F
where
    F: Fn(Vec<u8>, Duration) -> Handling,
    Handling: Future<Output = Result<Vec<u8>>>,
{
    fn handle(&self, event: Vec<u8>, remaining: Duration) -> impl Future<Output = Result<Vec<u8>>> {
        self(event, remaining)
    }
}
