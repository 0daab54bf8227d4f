//! Requests to the stream, repeated while that can help.

use std::pin::pin;

use afterwrite_model::clock::Clock;
use afterwrite_model::{Error, Result};
use futures::future::select;

use crate::context::MappingContext;
use crate::control::RunMode;

/// Requests to a stream that fails again and again, before the mapping ends with the error.
const MAX_ATTEMPTS: u32 = 20;

/// A request to the stream, repeated with back-off while that can help and the mapping is not stopped.
pub(crate) async fn retrying<T, Function, C: Clock, Request>(
    context: &MappingContext<'_, Function, C>,
    request: impl Fn() -> Request,
) -> Result<T>
where
    Request: Future<Output = Result<T, Error>>,
{
    let mut attempt = 1;
    loop {
        match request().await {
            Err(error)
                if error.is_retryable()
                    && attempt < MAX_ATTEMPTS
                    && context.control.mode() < RunMode::Stopping =>
            {
                let pause = context.clock.sleep(context.pace.pause_before(attempt));
                select(pin!(pause), pin!(context.control.stopped())).await;
                attempt += 1;
            }
            done => return done,
        }
    }
}
