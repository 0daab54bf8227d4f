//! The things that all parts of a running mapping share.

use uuid::Uuid;

use crate::control::MappingControl;
use crate::faults::FaultSwitch;
use crate::on_failure::FailureDestination;
use crate::progress::MappingProgress;
use crate::settings::{MappingPace, MappingSettings};

/// The function and the settings of a mapping.
pub(crate) struct MappingContext<'a, Function, C> {
    pub(crate) id: Uuid,
    pub(crate) function: &'a Function,
    pub(crate) clock: &'a C,
    pub(crate) settings: &'a MappingSettings,
    pub(crate) pace: MappingPace,
    pub(crate) faults: &'a FaultSwitch,
    pub(crate) progress: &'a MappingProgress,
    pub(crate) control: &'a MappingControl,
    pub(crate) on_failure: Option<&'a dyn FailureDestination>,
    pub(crate) stream_arn: &'a str,
}

impl<Function, C> Clone for MappingContext<'_, Function, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Function, C> Copy for MappingContext<'_, Function, C> {}
