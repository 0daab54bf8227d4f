//! The time of DynamoDB's responses.

use std::sync::{Arc, Mutex, PoisonError};

use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use aws_sdk_dynamodb::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;

use crate::clock_check::response_date;

/// The earliest time that the server put on a response.
///
/// A response without the header (a proxy may drop it) counts as sent when its request began, by the local clock. That is too early,
/// which is the safe side for a caller that depends on the result of a read.
#[derive(Clone, Debug)]
pub struct ServerClock {
    begun: Timestamp,
    earliest: Arc<Mutex<Option<Timestamp>>>,
}

impl Default for ServerClock {
    fn default() -> Self {
        Self { begun: SystemClock.now(), earliest: Arc::default() }
    }
}

impl ServerClock {
    /// The earliest time; of no response, when the clock was created.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        self.earliest.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or(self.begun)
    }
}

impl Intercept for ServerClock {
    fn name(&self) -> &'static str {
        "ServerClock"
    }

    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _configuration: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let time = response_date(context).unwrap_or(self.begun);
        let mut earliest = self.earliest.lock().unwrap_or_else(PoisonError::into_inner);
        *earliest = Some(earliest.map_or(time, |earliest| earliest.min(time)));
        Ok(())
    }
}
