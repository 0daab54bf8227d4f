//! Looks at the bucket: its notifications, the layout of the archive, the age of the datasets, the newest report of the verifier.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what was not found is judged alike, whatever the reason"
)]

use std::sync::Arc;
use std::time::Duration;

use afterwrite_datasets::freshness::dataset_freshness;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::s3::S3Bucket;
use aws_sdk_s3::types::FilterRuleName;

use super::outcome::{looked, mapped};
use crate::doctor::{
    ArchiveFacts, BucketFacts, DriftCounts, DriftReport, DryCall, FAILED_RECORDS, FailureFacts, Looked,
    LookedAge, REPORTS,
};

const ARCHIVE: &str = "archive/";
/// The prefixes whose objects operations read.
const READ: [&str; 2] = [ARCHIVE, "datasets/"];
/// The name of an object that never exists.
const ABSENT: &str = "AFTERWRITE-DOCTOR";
/// The most pages of a list, of 1,000 keys or prefixes each.
const MAX_PAGES: usize = 50;
/// How many objects outside the layout are named.
const NAMED: usize = 3;

/// Reads the bucket.
pub(super) struct BucketLook {
    objects: aws_sdk_s3::Client,
    bucket: String,
}

/// The keys below a prefix.
#[derive(Default)]
struct ObjectList {
    /// The prefixes up to the next `/`.
    folders: Vec<String>,
    /// The other keys, each with the time of its object in seconds.
    objects: Vec<(String, i64)>,
    /// Whether there are more, which were not read.
    is_cut: bool,
}

/// How deep a list goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListDepth {
    /// To the next `/`.
    Folder,
    All,
}

impl BucketLook {
    pub(super) fn new(objects: aws_sdk_s3::Client, bucket: String) -> Self {
        Self { objects, bucket }
    }

    /// The bucket, its notifications and its archive.
    pub(super) async fn facts(&self) -> Result<Looked<BucketFacts>> {
        let archive = match Box::pin(self.archive()).await? {
            Looked::Found(archive) => Some(archive),
            Looked::Missing => return Ok(Looked::Missing),
            Looked::NotRead(reason) => return Ok(Looked::NotRead(reason)),
            Looked::NotAllowed(_) | Looked::NotNamed(_) => None,
        };
        let configuration = self.objects.get_bucket_notification_configuration().bucket(&self.bucket);
        let configuration = looked(Box::pin(configuration.send()).await, "s3:GetBucketNotification");
        let notifications = configuration.found().map(|configuration| {
            let queues = configuration.queue_configurations().iter();
            queues.map(|queue| (queue.queue_arn().to_owned(), prefix_of(queue.filter()))).collect()
        });
        Ok(Looked::Found(BucketFacts { name: self.bucket.clone(), notifications, archive }))
    }

    async fn archive(&self) -> Result<Looked<ArchiveFacts>> {
        let days = match Box::pin(self.list(ARCHIVE, ListDepth::Folder)).await? {
            Looked::Found(days) => days,
            other => return Ok(mapped(other, |_| ArchiveFacts::default())),
        };
        let mut facts = ArchiveFacts::default();
        let newest = sort_out(&mut facts, ARCHIVE, days, "dt=0000-00-00/");
        if let Some(day) = newest
            && let Looked::Found(hours) = Box::pin(self.list(&day, ListDepth::Folder)).await?
        {
            facts.newest = sort_out(&mut facts, &day, hours, "hh=00/");
        }
        Ok(Looked::Found(facts))
    }

    async fn list(&self, prefix: &str, depth: ListDepth) -> Result<Looked<ObjectList>> {
        let list = self.objects.list_objects_v2().bucket(&self.bucket).prefix(prefix);
        let list = if depth == ListDepth::Folder { list.delimiter("/") } else { list };
        let mut pages = list.into_paginator().send();
        let mut found = ObjectList { is_cut: true, ..ObjectList::default() };
        for _ in 0..MAX_PAGES {
            let Some(page) = Box::pin(pages.next()).await else {
                found.is_cut = false;
                break;
            };
            let page = match looked(page, "s3:ListBucket") {
                Looked::Found(page) => page,
                other => return Ok(mapped(other, |_| ObjectList::default())),
            };
            let folders = page.common_prefixes().iter().filter_map(|folder| folder.prefix());
            found.folders.extend(folders.map(str::to_owned));
            let objects = page.contents().iter();
            found.objects.extend(objects.filter_map(|object| {
                Some((object.key()?.to_owned(), object.last_modified().map_or(0, |time| time.secs())))
            }));
        }
        Ok(Looked::Found(found))
    }

    /// Reads of objects that do not exist. The response is conclusive for those who may list the bucket.
    pub(super) async fn dry_calls(&self) -> Result<Vec<DryCall>> {
        let mut calls = Vec::new();
        for prefix in READ {
            let get = self.objects.get_object().bucket(&self.bucket).key(format!("{prefix}{ABSENT}"));
            let outcome = looked(Box::pin(get.send()).await, "s3:GetObject");
            if let Looked::NotRead(_) = outcome {
                continue;
            }
            calls.push(DryCall {
                permission: "s3:GetObject",
                subject: format!("{}/{prefix}", self.bucket),
                is_allowed: !matches!(outcome, Looked::NotAllowed(_)),
            });
        }
        Ok(calls)
    }

    /// The failed records in the bucket. Their keys are `aws/lambda/<id of the mapping>/…`.
    pub(super) async fn failures(&self) -> Result<Looked<FailureFacts>> {
        let list = match Box::pin(self.list(FAILED_RECORDS, ListDepth::All)).await? {
            Looked::Found(list) => list,
            other => return Ok(mapped(other, |_| FailureFacts::default())),
        };
        let mut facts = FailureFacts { has_more: list.is_cut, ..FailureFacts::default() };
        for (key, seconds) in list.objects {
            let mapping = key.strip_prefix(FAILED_RECORDS).and_then(|rest| Some(rest.split_once('/')?.0));
            *facts.objects.entry(mapping.unwrap_or_default().to_owned()).or_default() += 1;
            let written = Timestamp::from_epoch_ms(seconds.saturating_mul(1000));
            facts.oldest = facts.oldest.max(SystemClock.now().since(written));
        }
        Ok(Looked::Found(facts))
    }

    /// The newest report of the verifier.
    pub(super) async fn drift(&self) -> Result<Looked<DriftReport>> {
        let reports = match Box::pin(self.list(REPORTS, ListDepth::All)).await? {
            Looked::Found(list) => list.objects,
            other => return Ok(mapped(other, |_| never())),
        };
        // Keys have the time of the run.
        let newest = reports.into_iter().filter(|(key, _)| key.ends_with(".json")).max();
        let Some((key, seconds)) = newest else { return Ok(Looked::Missing) };
        let get = self.objects.get_object().bucket(&self.bucket).key(&key);
        let object = match looked(Box::pin(get.send()).await, "s3:GetObject") {
            Looked::Found(object) => object,
            other => return Ok(mapped(other, |_| never())),
        };
        let json = object.body.collect().await.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "a report of the verifier cannot be read")
                .with("object", &key)
                .caused_by(error)
        })?;
        let written = Timestamp::from_epoch_ms(seconds.saturating_mul(1000));
        let counts = DriftCounts::parse(&key, &json.into_bytes())?;
        Ok(Looked::Found(DriftReport { age: SystemClock.now().since(written), counts }))
    }

    /// The age of each dataset's current rows.
    pub(super) async fn dataset_ages(&self, model: &Model) -> Vec<(String, LookedAge)> {
        let bucket = S3Bucket::retrying(self.objects.clone(), Arc::from(self.bucket.as_str()));
        let now = SystemClock.now();
        let age = |ms: i64| LookedAge::Known(now.since(Timestamp::from_epoch_ms(ms)));
        match Box::pin(dataset_freshness(bucket, model)).await {
            Ok(all) => {
                all.into_iter().map(|one| (one.dataset, one.as_of.map_or(LookedAge::Never, age))).collect()
            }
            Err(error) => {
                let not_read = LookedAge::NotRead(error.to_string());
                let datasets = model.datasets.iter();
                datasets.map(|dataset| (dataset.name.to_string(), not_read.clone())).collect()
            }
        }
    }
}

/// Notes everything in a folder of the archive that is not a folder of this form; returns the newest folder of the form.
fn sort_out(facts: &mut ArchiveFacts, folder: &str, list: ObjectList, form: &str) -> Option<String> {
    let is_of_form = |path: &String| path.strip_prefix(folder).is_some_and(|name| has_form(name, form));
    let (fitting, others): (Vec<_>, Vec<_>) = list.folders.into_iter().partition(is_of_form);
    // Consoles create an empty object with the name of a folder.
    let objects = list.objects.into_iter().map(|(key, _)| key).filter(|key| key != folder);
    let room = NAMED.saturating_sub(facts.foreign.len());
    facts.foreign.extend(others.into_iter().chain(objects).take(room));
    fitting.into_iter().max()
}

/// Whether a text has digits where the form has zeros, and is the same elsewhere.
fn has_form(text: &str, form: &str) -> bool {
    let fits = |(letter, wanted): (char, char)| match wanted {
        '0' => letter.is_ascii_digit(),
        wanted => letter == wanted,
    };
    text.len() == form.len() && text.chars().zip(form.chars()).all(fits)
}

/// Of a report that was not found.
fn never() -> DriftReport {
    DriftReport { age: Duration::ZERO, counts: DriftCounts::default() }
}

fn prefix_of(filter: Option<&aws_sdk_s3::types::NotificationConfigurationFilter>) -> String {
    let rules = filter.and_then(|filter| filter.key()).map(|key| key.filter_rules()).unwrap_or_default();
    let prefix = rules.iter().find(|rule| rule.name() == Some(&FilterRuleName::Prefix));
    prefix.and_then(|rule| rule.value()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(folders: &[&str], objects: &[&str]) -> ObjectList {
        ObjectList {
            folders: folders.iter().map(|folder| (*folder).to_owned()).collect(),
            objects: objects.iter().map(|key| ((*key).to_owned(), 0)).collect(),
            is_cut: false,
        }
    }

    #[test]
    fn the_newest_folder_of_the_layout_is_found_and_the_others_are_named() {
        let mut facts = ArchiveFacts::default();
        let days = list(
            &["archive/2026/", "archive/dt=2026-02-05/", "archive/dt=2026-02-06/", "archive/dt=today/"],
            &["archive/", "archive/lines.gz"],
        );
        let newest = sort_out(&mut facts, ARCHIVE, days, "dt=0000-00-00/");
        assert_eq!(newest.as_deref(), Some("archive/dt=2026-02-06/"));
        assert_eq!(facts.foreign, ["archive/2026/", "archive/dt=today/", "archive/lines.gz"]);
        // Three are enough.
        let more = list(&["archive/dt=2026-02-06/10/"], &[]);
        assert_eq!(sort_out(&mut facts, "archive/dt=2026-02-06/", more, "hh=00/"), None);
        assert_eq!(facts.foreign.len(), NAMED);
    }
}
