//! The objects of the archive that have not been exported with a model.

use std::collections::HashMap;

use afterwrite_model::Result;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_services::{Bucket, ListedObject};

use crate::paths::{ARCHIVE, export_mark, export_marks};
use crate::schema::model_fingerprint;

/// The range of an export: the days of arrival (UTC), both included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveRange {
    /// The first day, `yyyy-mm-dd`.
    pub from: Option<String>,
    /// The last day, `yyyy-mm-dd`.
    pub to: Option<String>,
}

impl ArchiveRange {
    /// Whether an object of the archive arrived in the range. An object whose key names no day is in a range without bounds only.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        let day = key.strip_prefix(ARCHIVE).and_then(|name| name.strip_prefix("dt=")?.split('/').next());
        match day {
            Some(day) => {
                self.from.as_deref().is_none_or(|from| from <= day)
                    && self.to.as_deref().is_none_or(|to| day <= to)
            }
            None => self.from.is_none() && self.to.is_none(),
        }
    }
}

/// The keys of the archive's objects in a range, in order; with `only_missing` those without a mark of an export with this model, or
/// with a mark that is not newer than the object: the object was rewritten, or, as S3 states times in whole seconds, it may have been. An
/// object that is exported again has its files already, and gets a newer mark.
///
/// # Errors
/// The bucket's.
pub async fn archive_objects<B: Bucket>(
    bucket: &B,
    model: &Model,
    range: &ArchiveRange,
    only_missing: bool,
) -> Result<Vec<String>> {
    let mut objects = bucket.list(ARCHIVE).await?;
    objects.retain(|object| range.contains(&object.key));
    if only_missing {
        let fingerprint = model_fingerprint(model);
        let marks = bucket.list(&export_marks(&fingerprint)).await?;
        let marks: HashMap<String, Timestamp> =
            marks.into_iter().map(|mark| (mark.key, mark.modified)).collect();
        let is_exported = |object: &ListedObject| {
            let marked = marks.get(&export_mark(&fingerprint, &object.key));
            marked.is_some_and(|marked| object.modified < *marked)
        };
        objects.retain(|object| !is_exported(object));
    }
    Ok(objects.into_iter().map(|object| object.key).collect())
}
