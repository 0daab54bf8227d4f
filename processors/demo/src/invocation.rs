//! The steps around an invocation of the demo's functions.

use std::time::Duration;

use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use serde::Serialize;

/// The part of an invocation's time that is reserved for its response.
const RESPONSE_TIME: Duration = Duration::from_millis(500);

/// The time at which the work of an invocation must end.
pub(crate) fn deadline(remaining: Duration) -> Timestamp {
    SystemClock.now().plus(remaining.saturating_sub(RESPONSE_TIME))
}

pub(crate) fn response_json(response: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(response)
        .map_err(|error| Error::new(ErrorKind::State, "the response cannot be serialized").caused_by(error))
}
