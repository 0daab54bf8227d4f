//! The targets of replayed records, and the settings of the environment by which they are found.

use std::collections::BTreeMap;

use afterwrite_operations::jobs::text_digest;
use afterwrite_services::config::EnvironmentSettings;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A target of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReplayProjection {
    /// Counters, rollups and mirrors.
    Aggregate,
    /// Cache keys and paths.
    Invalidate,
    /// The delivery stream of the archive.
    Archive,
    /// The events of the model's rules, under the ids that they had before.
    Notify,
    /// The logs of the datasets, from objects of the archive in AFTERWRITE_BUCKET.
    Export,
}

impl ReplayProjection {
    /// The targets of a failed batch whose settings the environment has. Records are counted in any case.
    pub(crate) fn configured(settings: &EnvironmentSettings, has_events: bool) -> Vec<Self> {
        let targets = [
            (Self::Aggregate, true),
            (Self::Invalidate, settings.cache_url.is_some() || settings.distribution.is_some()),
            (Self::Archive, settings.firehose_stream.is_some() && settings.bucket.is_some()),
            (Self::Notify, has_events && settings.events.is_some()),
        ];
        targets.into_iter().filter(|(_, is_configured)| *is_configured).map(|(target, _)| target).collect()
    }

    /// Whether it takes the records of a failed batch. `Export` reads objects of the archive.
    pub(crate) fn takes_failed_records(self) -> bool {
        match self {
            Self::Aggregate | Self::Invalidate | Self::Archive | Self::Notify => true,
            Self::Export => false,
        }
    }

    /// The names of targets, as `--only` takes them.
    pub(crate) fn names(targets: &[Self]) -> String {
        let values = targets.iter().filter_map(ValueEnum::to_possible_value);
        values.map(|value| value.get_name().to_owned()).collect::<Vec<_>>().join(",")
    }

    /// The settings by which the target is found, by variable. A cache's address may have a password: a hash stands for it.
    fn settings(self, settings: &EnvironmentSettings) -> Vec<(&'static str, Option<String>)> {
        let secret = |text: &Option<String>| text.as_deref().map(text_digest);
        match self {
            Self::Aggregate => vec![("AFTERWRITE_ON_POISON", settings.on_poison.clone())],
            Self::Invalidate => vec![
                ("AFTERWRITE_CACHE_URL", secret(&settings.cache_url)),
                ("AFTERWRITE_CACHE_SECRET", secret(&settings.cache_secret)),
                ("AFTERWRITE_CLOUDFRONT_DISTRIBUTION", settings.distribution.clone()),
                ("AFTERWRITE_CDN_QUEUE", settings.cdn_queue.clone()),
            ],
            Self::Archive => vec![
                ("AFTERWRITE_FIREHOSE_STREAM", settings.firehose_stream.clone()),
                ("AFTERWRITE_BUCKET", settings.bucket.clone()),
            ],
            Self::Notify => vec![
                ("AFTERWRITE_EVENTS", settings.events.clone()),
                ("AFTERWRITE_CDN_QUEUE", settings.cdn_queue.clone()),
            ],
            Self::Export => vec![("AFTERWRITE_BUCKET", settings.bucket.clone())],
        }
    }
}

/// The settings of the environment by which these targets are found, by variable.
pub(crate) fn target_settings(
    settings: &EnvironmentSettings,
    targets: &[ReplayProjection],
) -> BTreeMap<String, String> {
    let used = targets.iter().flat_map(|target| target.settings(settings));
    used.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_batch_goes_to_each_target_that_the_environment_names() {
        let mut settings = EnvironmentSettings::default();
        assert_eq!(ReplayProjection::names(&ReplayProjection::configured(&settings, true)), "aggregate");
        settings.distribution = Some("E1".to_owned());
        settings.events = Some("arn".to_owned());
        settings.firehose_stream = Some("stream".to_owned());
        assert_eq!(
            ReplayProjection::names(&ReplayProjection::configured(&settings, true)),
            "aggregate,invalidate,notify"
        );
        settings.bucket = Some("lake".to_owned());
        assert_eq!(
            ReplayProjection::names(&ReplayProjection::configured(&settings, false)),
            "aggregate,invalidate,archive"
        );
    }

    #[test]
    fn the_settings_of_a_job_are_those_of_its_targets_without_passwords() {
        let settings = EnvironmentSettings {
            firehose_stream: Some("stream".to_owned()),
            bucket: Some("lake".to_owned()),
            cache_url: Some("rediss://user:password@cache".to_owned()),
            ..EnvironmentSettings::default()
        };
        assert_eq!(target_settings(&settings, &[ReplayProjection::Aggregate]), BTreeMap::new());
        let of_archive = target_settings(&settings, &[ReplayProjection::Archive]);
        assert_eq!(of_archive["AFTERWRITE_FIREHOSE_STREAM"], "stream");
        let of_cache = target_settings(&settings, &[ReplayProjection::Invalidate]);
        assert_eq!(of_cache.len(), 1);
        assert!(!of_cache["AFTERWRITE_CACHE_URL"].contains("password"), "{of_cache:?}");
    }
}
