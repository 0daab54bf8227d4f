//! The targets of a model's events.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_model::Result;
use afterwrite_model::table::Model;

use super::{EVENTS, EnvironmentSettings, required};
use crate::events::{AwsEventTarget, EventArn};

/// The beginning of the variables for the targets that rules name.
pub(super) const EVENTS_TO: &str = "AFTERWRITE_EVENTS_";

/// The variable that holds a target's ARN. `to` is the target that a rule names; `None` for the default target.
#[must_use]
pub fn event_setting(to: Option<&str>) -> String {
    to.map_or_else(|| EVENTS.to_owned(), |to| format!("{EVENTS_TO}{}", to.to_uppercase()))
}

impl EnvironmentSettings {
    /// The variables of the targets of events that are set, by name.
    #[must_use]
    pub fn event_settings(&self) -> BTreeMap<String, String> {
        let default = self.events.iter().map(|arn| (EVENTS.to_owned(), arn.clone()));
        self.events_to.clone().into_iter().chain(default).collect()
    }

    /// The ARNs of the targets that the model's event rules name.
    ///
    /// # Errors
    /// [`afterwrite_model::ErrorKind::Configuration`] if the variable of a target is unset or is not an ARN of a bus, a queue or a topic.
    pub fn event_arns(&self, model: &Model) -> Result<BTreeMap<Option<Arc<str>>, EventArn>> {
        let arn = |to: Option<Arc<str>>| {
            let setting = event_setting(to.as_deref());
            let value = match &to {
                None => self.events.as_ref(),
                Some(_) => self.events_to.get(&setting),
            };
            let hint = "Set it to the ARN of the EventBridge bus, SQS queue or SNS topic that takes the model's events";
            let arn = EventArn::parse(required(value.map(String::as_str), &setting, hint)?, &setting)?;
            Ok((to, arn))
        };
        model.event_targets().into_iter().map(arn).collect()
    }

    /// The targets that the model's event rules name. A model without events needs none.
    ///
    /// # Errors
    /// [`afterwrite_model::ErrorKind::Configuration`] as [`EnvironmentSettings::event_arns`], or if no region is set.
    pub async fn event_targets(&self, model: &Model) -> Result<BTreeMap<Option<Arc<str>>, AwsEventTarget>> {
        let source = format!("afterwrite.{}", model.name);
        let mut targets = BTreeMap::new();
        for (to, arn) in self.event_arns(model)? {
            let sdk = self.event_sdk_config(arn.service).await?;
            targets.insert(to, AwsEventTarget::new(sdk, arn, &source));
        }
        Ok(targets)
    }
}
