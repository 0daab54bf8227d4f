//! Refuses to work by a clock that is not DynamoDB's.
//!
//! Expiries, the lifetimes of tombstones and leases are judged by this machine's clock, corrected by small differences to DynamoDB's. With a clock that is hours
//! ahead, contributions to rollups that have not expired would be dropped, and `verify` would judge by the same clock. So every response of
//! DynamoDB is compared, and the first one ends the work: a command reads before it writes, and so does a batch of a function.

use std::fmt;
use std::time::Duration;

use afterwrite_ledger::StateItems;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use aws_smithy_types::config_bag::{Storable, StoreReplace};

/// From so many minutes on, a difference is stated in hours.
const MANY_MINUTES: u64 = 120;

/// A difference between this machine's clock and DynamoDB's that is beyond the tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockDifference {
    /// This machine's clock is ahead by at least this time.
    Ahead(Duration),
    /// It is behind by at least this time.
    Behind(Duration),
}

impl ClockDifference {
    /// How an operator ends the difference.
    pub const HINT: &str = "Set the clock of this machine, and run it again: nothing is counted by a wrong clock. DynamoDB's time is the Date header of its responses; \
         behind the endpoint of an emulator, it is the clock of the emulator's machine";

    /// The difference that a response shows: DynamoDB wrote `date` on it after this machine's clock showed `begun`, and before it showed `ended`. `None` within
    /// the tolerance: a slow response, or a machine that was suspended while it waited, is no difference.
    fn shown(begun: Timestamp, date: Timestamp, ended: Timestamp) -> Option<Self> {
        let (ahead, behind) = (begun.since(date), date.since(ended));
        if ahead > StateItems::CLOCK_TOLERANCE {
            Some(Self::Ahead(ahead))
        } else {
            (behind > StateItems::CLOCK_TOLERANCE).then_some(Self::Behind(behind))
        }
    }

    /// The difference that ended a request, if one did.
    #[must_use]
    pub fn of_error(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(difference) = error.downcast_ref::<Self>() {
                return Some(*difference);
            }
            cause = error.source();
        }
        None
    }
}

impl fmt::Display for ClockDifference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (difference, direction) = match self {
            Self::Ahead(difference) => (difference, "ahead of"),
            Self::Behind(difference) => (difference, "behind"),
        };
        let minutes = difference.as_secs() / 60;
        let (number, unit) =
            if minutes < MANY_MINUTES { (minutes, "minutes") } else { (minutes / 60, "hours") };
        write!(formatter, "the clock of this machine is {number} {unit} {direction} DynamoDB's")
    }
}

impl std::error::Error for ClockDifference {}

/// Compares this machine's clock with the time on each response of a client. A response without a time (an emulator, a proxy) shows no difference.
#[derive(Debug)]
pub(crate) struct ClockCheck {
    now: fn() -> Timestamp,
}

impl Default for ClockCheck {
    fn default() -> Self {
        Self { now: || SystemClock.now() }
    }
}

/// When a request was sent.
#[derive(Debug)]
struct SentAt(Timestamp);

impl Storable for SentAt {
    type Storer = StoreReplace<Self>;
}

impl Intercept for ClockCheck {
    fn name(&self) -> &'static str {
        "ClockCheck"
    }

    fn read_before_transmit(
        &self,
        _context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        configuration: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        configuration.interceptor_state().store_put(SentAt((self.now)()));
        Ok(())
    }

    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        configuration: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(date) = response_date(context) else { return Ok(()) };
        let Some(SentAt(begun)) = configuration.load::<SentAt>() else { return Ok(()) };
        match ClockDifference::shown(*begun, date, (self.now)()) {
            Some(difference) => Err(difference.into()),
            None => Ok(()),
        }
    }
}

/// The time that the server put on a response; `None` without a readable header.
pub(crate) fn response_date(context: &BeforeDeserializationInterceptorContextRef<'_>) -> Option<Timestamp> {
    let date = context.response().headers().get("date")?;
    let date = DateTime::from_str(date, DateTimeFormat::HttpDate).ok()?;
    Some(Timestamp::from_epoch_seconds(date.secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_beyond_the_tolerance_is_stated_and_a_slow_response_shows_no_difference() {
        let shown = |begun: i64, date: i64, ended: i64| {
            let [begun, date, ended] = [begun, date, ended].map(Timestamp::from_epoch_seconds);
            ClockDifference::shown(begun, date, ended).map(|difference| difference.to_string())
        };
        let day = 1_770_336_000;
        let text = |text: &str| Some(format!("the clock of this machine is {text} DynamoDB's"));
        assert_eq!(shown(day + 7_200, day, day + 7_201), text("2 hours ahead of"));
        assert_eq!(shown(day - 1_200, day, day - 1_199), text("19 minutes behind"));
        assert_eq!(shown(day + 901, day, day + 902), text("15 minutes ahead of"));
        for (begun, ended) in [(day + 900, day + 901), (day - 901, day - 900), (day - 1, day + 90_000)] {
            assert_eq!(shown(begun, day, ended), None);
        }
    }
}
