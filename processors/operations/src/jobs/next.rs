//! The next steps of a job: one list, for the commands of `jobs show` and for the controls of a page.

use super::state::{JobState, JobStatus};

/// The counter of remembered lookups that lack an output of the model. A job that has it is repeated with another option.
pub(crate) const LACKING_OUTPUT: &str = "lookups_lacking_output";

/// A next step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Its process ends; the job can be resumed.
    Pause,
    /// A process continues it.
    Resume,
    /// It ends for good.
    Stop,
    /// Its rate is limited.
    SetRate,
    /// It is planned again: nothing states what it runs on, or its input cannot be read again.
    PlanAgain,
    /// It is repeated with an option that reads the lookups again: some lack an output of the model.
    Reattribute,
}

impl NextStep {
    /// The next steps of a job, the usual one first.
    #[must_use]
    pub fn all_of(job: &JobState) -> Vec<Self> {
        if job.is_running() {
            return vec![Self::Pause, Self::Stop, Self::SetRate];
        }
        match job.status {
            JobStatus::Planned | JobStatus::Running | JobStatus::Paused | JobStatus::Failed
                if job.basis.is_none() || job.reads_stream() =>
            {
                vec![Self::PlanAgain, Self::Stop]
            }
            JobStatus::Planned | JobStatus::Running | JobStatus::Paused | JobStatus::Failed => {
                vec![Self::Resume, Self::Stop, Self::SetRate]
            }
            JobStatus::Done if job.totals.contains_key(LACKING_OUTPUT) => vec![Self::Reattribute],
            JobStatus::Stopped | JobStatus::Done => Vec::new(),
        }
    }

    /// The command of the step.
    #[must_use]
    pub fn command(self, job: &JobState) -> String {
        let id = &job.id;
        match self {
            Self::Pause => format!("afterwrite jobs pause {id}"),
            Self::Resume => format!("afterwrite jobs resume {id}"),
            Self::Stop => format!("afterwrite jobs stop {id}"),
            Self::SetRate => format!("afterwrite jobs set {id} rate=100"),
            Self::PlanAgain => format!("afterwrite {}", job.kind.name()),
            Self::Reattribute => "afterwrite backfill --reattribute".to_owned(),
        }
    }
}
