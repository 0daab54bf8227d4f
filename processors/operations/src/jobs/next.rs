//! The next steps of a job: one list, for the commands of `jobs show` and for the controls of a page.

use super::control::JobControl;
use super::state::{JobState, JobStatus};

/// The counter of remembered lookups that lack an output of the model. A job that has it is repeated with another option.
pub(crate) const LACKING_OUTPUT: &str = "lookups_lacking_output";

/// The rate in a command that an operator copies, in items a second.
const EXAMPLE_RATE: u64 = 100;

/// A next step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// The process that runs the job ends; the job can be resumed.
    Pause,
    /// A process continues the job.
    Resume,
    /// The job ends for good.
    Stop,
    /// The rate of the job is limited.
    SetRate,
    /// The job is planned again: nothing states what the job runs on, or its input cannot be read again.
    PlanAgain,
    /// The job is repeated with an option that reads the lookups again: some lookups lack an output of the model.
    Reattribute,
}

impl NextStep {
    /// The next steps of a job, the usual one first.
    #[must_use]
    pub fn all_of(job: &JobState) -> Vec<Self> {
        if !job.status.can_run() {
            let lacks_output = job.status == JobStatus::Done && job.totals.contains_key(LACKING_OUTPUT);
            return lacks_output.then_some(Self::Reattribute).into_iter().collect();
        }
        match (job.has_process(), job.can_be_continued()) {
            (true, true) if job.status == JobStatus::Running => vec![Self::Pause, Self::Stop, Self::SetRate],
            // A paused job can be resumed once its process has saved its progress, or the lease of a killed one has ended.
            (true, _) => vec![Self::Stop, Self::SetRate],
            (false, true) => vec![Self::Resume, Self::Stop, Self::SetRate],
            (false, false) => vec![Self::PlanAgain, Self::Stop],
        }
    }

    /// The command of the step.
    #[must_use]
    pub fn command(self, job: &JobState) -> String {
        let id = &job.id;
        match self {
            Self::Pause => JobControl::Pause.command(id),
            Self::Resume => format!("afterwrite jobs resume {id}"),
            Self::Stop => JobControl::Stop.command(id),
            Self::SetRate => JobControl::SetRate(Some(EXAMPLE_RATE)).command(id),
            Self::PlanAgain if job.reads_stream() => format!("afterwrite {} FILE", job.kind.name()),
            Self::PlanAgain => format!("afterwrite {}", job.kind.name()),
            Self::Reattribute => "afterwrite backfill --reattribute".to_owned(),
        }
    }
}
