//! The requests of operators: pause, stop, and the rate of a job.

use afterwrite_model::{Error, ErrorKind, Result};

use super::state::{JobState, JobStatus};

/// A request of an operator, from any machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobControl {
    /// The process that runs it saves its cursors and ends.
    Pause,
    /// As [`JobControl::Pause`], and the job can never be resumed.
    Stop,
    /// Sets the most items a second; `None` for no limit.
    SetRate(Option<u64>),
}

impl JobControl {
    /// The command that does the same with a job.
    #[must_use]
    pub fn command(self, id: &str) -> String {
        match self {
            Self::Pause => format!("afterwrite jobs pause {id}"),
            Self::Stop => format!("afterwrite jobs stop {id}"),
            Self::SetRate(rate) => format!("afterwrite jobs set {id} rate={}", Self::rate_text(rate)),
        }
    }

    /// A rate as commands and forms have it.
    #[must_use]
    pub fn rate_text(rate: Option<u64>) -> String {
        rate.map_or_else(|| "none".to_owned(), |rate| rate.to_string())
    }

    /// A limit of the rate as commands and forms have it: a whole number from 1 that a stored job can have, or `none`.
    /// `None` if the text is neither.
    #[must_use]
    pub fn of_rate_text(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::SetRate(None));
        }
        let rate = text.parse().ok().filter(|rate: &i64| *rate > 0)?;
        Some(Self::SetRate(Some(rate.unsigned_abs())))
    }

    /// Refuses to control a job that has ended, and to pause a failed one: there is no process to pause.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`].
    pub(super) fn check(self, job: &JobState) -> Result<()> {
        let refused = |problem: &'static str| {
            Err(Error::new(ErrorKind::Configuration, problem).with("job", job.id.as_str()))
        };
        match (self, job.status) {
            (_, JobStatus::Done | JobStatus::Stopped) => refused("the job has ended"),
            (Self::Pause, JobStatus::Failed) => refused("no process runs the job: a step of it has failed"),
            (Self::Pause, JobStatus::Planned | JobStatus::Running | JobStatus::Paused)
            | (
                Self::Stop | Self::SetRate(_),
                JobStatus::Planned | JobStatus::Running | JobStatus::Paused | JobStatus::Failed,
            ) => Ok(()),
        }
    }
}
