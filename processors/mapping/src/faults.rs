//! Faults on demand: what Lambda, the network and DynamoDB may do at any time, as often as a test needs it.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use afterwrite_model::{Error, ErrorKind, Result};
use fastrand::Rng;

/// How often faults are injected. The same seed gives the same decisions for the same batches.
///
/// ```
/// use afterwrite_mapping::FaultPlan;
///
/// let plan = FaultPlan::parse("duplicate=0.1,crash=0.01,delay=50ms,conflict=0.05").unwrap();
/// assert_eq!((plan.duplicate, plan.delay.as_millis()), (0.1, 50));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// The share of accepted batches that are delivered once more, as a whole or in part, 0–1.
    pub duplicate: f64,
    /// The share of invocations whose function is killed, or whose response is lost, 0–1. The redelivery uses up no retry: a limit of
    /// retries is for records that a function cannot take.
    pub crash: f64,
    /// The longest delay before an invocation; each is delayed by a random part of it.
    pub delay: Duration,
    /// The share of transactions that DynamoDB cancels with `TransactionConflict`, 0–1. It applies to the embedded DynamoDB.
    pub conflict: f64,
    /// The random seed of all decisions.
    pub seed: u64,
}

/// The plan of a running mapping. Clones share it, so that it can be switched from elsewhere; the seed is that of the first plan.
///
/// ```
/// use afterwrite_mapping::{FaultPlan, FaultSwitch};
///
/// let faults = FaultSwitch::from(FaultPlan::default());
/// faults.clone().set(FaultPlan { duplicate: 0.5, ..FaultPlan::default() });
/// assert_eq!(faults.current().duplicate, 0.5);
/// ```
#[derive(Clone, Debug, Default)]
pub struct FaultSwitch(Arc<RwLock<FaultPlan>>);

impl From<FaultPlan> for FaultSwitch {
    fn from(plan: FaultPlan) -> Self {
        Self(Arc::new(RwLock::new(plan)))
    }
}

impl FaultSwitch {
    /// The plan now.
    #[must_use]
    pub fn current(&self) -> FaultPlan {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the plan. It applies from the next decision on.
    pub fn set(&self, plan: FaultPlan) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = plan;
    }
}

/// The treatment of one invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvocationFate {
    Handled,
    /// The function is killed after this time.
    Killed(Duration),
    /// The function finishes, and its response is lost.
    ResponseLost,
}

/// The longest time after which a function is killed.
const MAX_KILL_DELAY_MS: u64 = 50;

impl FaultPlan {
    /// Reads `duplicate=0.1,crash=0.01,delay=50ms,conflict=0.05,seed=7`; each part is optional.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] for an unknown fault, or a value that is not a share or a time.
    pub fn parse(written: &str) -> Result<Self> {
        let mut plan = Self::default();
        for part in written.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| invalid(part))?;
            match name {
                "duplicate" => plan.duplicate = share(part, value)?,
                "crash" => plan.crash = share(part, value)?,
                "conflict" => plan.conflict = share(part, value)?,
                "delay" => plan.delay = time(value).ok_or_else(|| invalid(part))?,
                "seed" => plan.seed = value.parse().map_err(|_| invalid(part))?,
                _ => return Err(invalid(part)),
            }
        }
        Ok(plan)
    }

    pub(crate) fn duplicates(&self, random: &mut Rng) -> bool {
        random.f64() < self.duplicate
    }

    pub(crate) fn invocation_delay(&self, random: &mut Rng) -> Duration {
        self.delay.mul_f64(random.f64())
    }

    pub(crate) fn invocation_fate(&self, random: &mut Rng) -> InvocationFate {
        if random.f64() >= self.crash {
            InvocationFate::Handled
        } else if random.bool() {
            InvocationFate::ResponseLost
        } else {
            InvocationFate::Killed(Duration::from_millis(random.u64(0..=MAX_KILL_DELAY_MS)))
        }
    }
}

fn share(part: &str, value: &str) -> Result<f64> {
    let share: Option<f64> = value.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| invalid(part))
}

/// `50ms` or `2s`.
fn time(value: &str) -> Option<Duration> {
    if let Some(milliseconds) = value.strip_suffix("ms") {
        return milliseconds.parse().ok().map(Duration::from_millis);
    }
    value.strip_suffix('s')?.parse().ok().map(Duration::from_secs)
}

fn invalid(part: &str) -> Error {
    Error::new(ErrorKind::Configuration, format!("`{part}` is not a fault that can be injected"))
        .hint("Write duplicate=0.1,crash=0.01,delay=50ms,conflict=0.05,seed=7: shares from 0 to 1, a delay in ms or s")
}
