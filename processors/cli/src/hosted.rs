//! A Lambda function of this process, as the handler of an event source mapping.

use std::time::Duration;

use afterwrite_lambda::{Invocation, LambdaFunction};
use afterwrite_mapping::EventHandler;
use afterwrite_model::Result;
use afterwrite_model::clock::{Clock as _, SystemClock};

/// A function of this process.
#[derive(Debug)]
pub(crate) struct HostedFunction<F>(pub(crate) F);

impl<F: LambdaFunction> EventHandler for HostedFunction<F> {
    async fn handle(&self, event: Vec<u8>, remaining: Duration) -> Result<Vec<u8>> {
        let invocation = Invocation::new(&event, SystemClock.now().plus(remaining))?;
        let response = self.0.handle(invocation).await?;
        Ok(response.get().as_bytes().to_vec())
    }
}
