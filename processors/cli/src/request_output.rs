//! Requests that a service does not take for some seconds: a line on standard error, so that no command waits in silence.

use std::future::Future;
use std::io::IsTerminal as _;
use std::pin::pin;
use std::time::Duration;

use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_operations::jobs::{RepeatedRequest, repeated_request};
use futures::future::{Either, select};

use crate::job_output::TOLD_EVERY;
use crate::print::tell;

/// How long a request is repeated before a line is told.
const QUIET_FOR: Duration = Duration::from_secs(3);

/// Runs a command. While one of its requests is repeated, standard error has its error and its deadline, once and every 30 seconds.
pub(crate) async fn telling_of_requests<F: Future>(command: F) -> F::Output {
    let mut pace = RequestPace::default();
    let mut command = pin!(command);
    loop {
        match select(command.as_mut(), pin!(SystemClock.sleep(Duration::from_secs(1)))).await {
            Either::Left((output, _)) => return output,
            Either::Right(((), _)) => {
                let Some(line) = pace.line(repeated_request(), SystemClock.now()) else { continue };
                if std::io::stderr().is_terminal() {
                    // The line of a job's progress may be there.
                    eprint!("\r\u{1b}[K");
                }
                tell(&line);
            }
        }
    }
}

/// When a line was told last.
#[derive(Default)]
struct RequestPace {
    told: Option<Timestamp>,
}

impl RequestPace {
    /// The line about the repeated request, if it is to be told now.
    fn line(&mut self, request: Option<RepeatedRequest>, now: Timestamp) -> Option<String> {
        let request = request.filter(|request| now.since(request.since) >= QUIET_FOR)?;
        if self.told.is_some_and(|told| now.since(told) < TOLD_EVERY) {
            return None;
        }
        self.told = Some(now);
        Some(request.line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_told_after_three_seconds_and_every_thirty() {
        let at = |seconds: i64| Timestamp::from_epoch_ms(seconds * 1000);
        let repeated = |since| {
            Some(RepeatedRequest { since: at(since), until: at(since + 120), failure: "none".to_owned() })
        };
        let mut pace = RequestPace::default();
        let mut told = |now, request| pace.line(request, at(now)).is_some();
        let first = [told(2, repeated(0)), told(3, repeated(0)), told(4, repeated(0)), told(33, repeated(0))];
        assert_eq!(first, [false, true, false, true]);
        assert_eq!([told(40, None), told(64, repeated(62)), told(65, repeated(62))], [false, false, true]);
    }
}
