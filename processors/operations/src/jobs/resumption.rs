//! Whether a job may be resumed.

use afterwrite_model::{Error, ErrorKind, Result};

use super::basis::JobBasis;
use super::state::{JobKind, JobState};

impl JobState {
    /// Refuses to continue the job on anything but what it was planned for.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] with the difference.
    pub fn check_basis(&self, now: &JobBasis) -> Result<()> {
        let Some(planned) = &self.basis else {
            return Err(Error::new(
                ErrorKind::Configuration,
                "the job was created by an earlier version, which did not store what the job runs on",
            )
            .with("job", self.id.as_str())
            .hint(self.plan_again()));
        };
        let Some((words, before, present)) = planned.difference(now) else { return Ok(()) };
        Err(Error::new(ErrorKind::Configuration, format!("the job was planned for {words}"))
            .with("job", self.id.as_str())
            .with("planned for", before)
            .with("now", present)
            .hint(self.plan_again()))
    }

    /// How to plan the job again.
    #[must_use]
    pub fn plan_again(&self) -> String {
        let again = match self.kind {
            JobKind::Backfill => "items that are counted already are skipped",
            JobKind::Replay | JobKind::Redrive => "records that are counted already are skipped",
            JobKind::Verify | JobKind::Repair => "everything is judged again",
        };
        format!(
            "Plan it again: run `afterwrite {}` with the arguments that `afterwrite jobs show {id} --json` prints; {again}. Then end this job: `afterwrite jobs stop {id}`",
            self.kind.name(),
            id = self.id
        )
    }
}
