//! The CloudFront invalidations of a batch: within the limits, and the same again when the same changes are sent again.
//!
//! A distribution processes at most 3,000 paths and 15 wildcards at once. Wildcards beyond that limit are replaced by their parents'
//! wildcards, which cover more than needed but never less.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::hex;
use afterwrite_model::projection::RecordsByPath;
use sha2::{Digest as _, Sha256};

/// CloudFront's limit on the paths in progress for one distribution.
pub const MAX_PATHS: usize = 3_000;
/// CloudFront's limit on the wildcards among them.
pub const MAX_WILDCARDS: usize = 15;
/// CloudFront's limit on the characters of a path.
const MAX_LENGTH: usize = 4_000;

/// The event id of each record, or the id of each message, by its index.
pub(super) type EventIds<'e> = BTreeMap<usize, &'e str>;

/// One invalidation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathInvalidation {
    /// The paths, sorted, and for each the records that need it.
    pub(super) paths: Vec<(String, BTreeSet<usize>)>,
    /// The caller reference: the same for the same paths and events, so that CloudFront recognises a repetition.
    pub(super) reference: String,
}

/// The invalidations for these paths.
pub(super) fn invalidations(stale: &RecordsByPath, event_ids: &EventIds<'_>) -> Vec<PathInvalidation> {
    let mut paths = RecordsByPath::new();
    for (path, records) in stale {
        paths.entry(shortened(path)).or_default().extend(records);
    }
    coalesce_wildcards(&mut paths);
    drop_covered_paths(&mut paths);
    // Wildcards first, so that one request holds all of them.
    let mut paths: Vec<_> = paths.into_iter().collect();
    paths.sort_by_key(|(path, _)| !path.ends_with('*'));
    paths.chunks(MAX_PATHS).map(|chunk| PathInvalidation::new(chunk.to_vec(), event_ids)).collect()
}

impl PathInvalidation {
    fn new(mut paths: Vec<(String, BTreeSet<usize>)>, event_ids: &EventIds<'_>) -> Self {
        paths.sort_unstable();
        let mut invalidation = Self { paths, reference: String::new() };
        let events: BTreeSet<&str> = invalidation
            .records()
            .iter()
            .map(|record| event_ids.get(record).copied().unwrap_or_default())
            .collect();
        let mut hash = Sha256::new();
        // Neither an encoded path nor an event id contains a newline.
        for text in invalidation.paths.iter().map(|(path, _)| path.as_str()).chain(events) {
            hash.update(text);
            hash.update("\n");
        }
        invalidation.reference = format!("afterwrite-{}", hex(&hash.finalize(), 16));
        invalidation
    }

    /// The records that need any of the paths.
    pub(super) fn records(&self) -> BTreeSet<usize> {
        self.paths.iter().flat_map(|(_, records)| records).copied().collect()
    }

    /// The two halves of a refused invalidation; `None` if it has one path.
    pub(super) fn halves(&self, event_ids: &EventIds<'_>) -> Option<[Self; 2]> {
        let (first, second) = self.paths.split_at(self.paths.len() / 2);
        (!first.is_empty()).then(|| [first, second].map(|half| Self::new(half.to_vec(), event_ids)))
    }
}

/// A path that exceeds CloudFront's limit is replaced by a wildcard on the longest possible prefix of it.
pub(super) fn shortened(path: &str) -> String {
    if path.len() <= MAX_LENGTH {
        return path.to_owned();
    }
    // Paths are ASCII. A percent sign and its two digits stay together.
    let end = MAX_LENGTH - 1;
    let tail = path.get(end - 2..end).unwrap_or_default();
    let end = tail.rfind('%').map_or(end, |position| end - 2 + position);
    format!("{}*", path.get(..end).unwrap_or_default())
}

/// Whether invalidating `path` invalidates `other`.
fn covers(path: &str, other: &str) -> bool {
    path == other || path.strip_suffix('*').is_some_and(|prefix| other.starts_with(prefix))
}

/// The wildcard of the folder that contains a wildcard's folder or name prefix; `None` for `/*`.
fn parent(wildcard: &str) -> Option<String> {
    let prefix = wildcard.strip_suffix('*')?;
    let folder = prefix.strip_suffix('/').unwrap_or(prefix);
    folder.rfind('/').and_then(|slash| folder.get(..=slash)).map(|folder| format!("{folder}*"))
}

fn depth(path: &str) -> usize {
    path.matches('/').count()
}

/// Replaces wildcards by the wildcard of their folder until the limit is met: the deepest first, and of these the folder with the most.
fn coalesce_wildcards(paths: &mut RecordsByPath) {
    loop {
        let wildcards: Vec<&String> = paths.keys().filter(|path| path.ends_with('*')).collect();
        let mut count = wildcards.len();
        if count <= MAX_WILDCARDS {
            return;
        }
        let deepest = wildcards.iter().map(|path| depth(path)).max().unwrap_or(0);
        let mut children_by_parent: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for wildcard in wildcards.into_iter().filter(|path| depth(path) == deepest) {
            if let Some(parent) = parent(wildcard) {
                children_by_parent.entry(parent).or_default().push(wildcard.clone());
            }
        }
        if children_by_parent.is_empty() {
            return;
        }
        let mut families: Vec<(String, Vec<String>)> = children_by_parent.into_iter().collect();
        families.sort_by_key(|(_, children)| std::cmp::Reverse(children.len()));
        for (parent, children) in families {
            if count <= MAX_WILDCARDS {
                return;
            }
            count = (count - children.len()) + usize::from(!paths.contains_key(&parent));
            for child in children {
                move_records(paths, &child, &parent);
            }
        }
    }
}

/// Drops every path that a wildcard among them covers.
fn drop_covered_paths(paths: &mut RecordsByPath) {
    let wildcards: Vec<String> = paths.keys().filter(|path| path.ends_with('*')).cloned().collect();
    for wildcard in wildcards {
        if !paths.contains_key(&wildcard) {
            continue;
        }
        let is_covered = |path: &&String| **path != wildcard && covers(&wildcard, path);
        let covered: Vec<String> = paths.keys().filter(is_covered).cloned().collect();
        for path in covered {
            move_records(paths, &path, &wildcard);
        }
    }
}

/// Removes a path and adds its records to the path that replaces it.
fn move_records(paths: &mut RecordsByPath, from: &str, to: &str) {
    let records = paths.remove(from).unwrap_or_default();
    paths.entry(to.to_owned()).or_default().extend(records);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths that one record each makes stale.
    fn stale(paths: impl IntoIterator<Item = String>) -> RecordsByPath {
        paths.into_iter().enumerate().map(|(record, path)| (path, BTreeSet::from([record]))).collect()
    }

    fn requests(paths: &RecordsByPath) -> Vec<PathInvalidation> {
        requests_for_events("event", paths)
    }

    fn requests_for_events(prefix: &str, paths: &RecordsByPath) -> Vec<PathInvalidation> {
        let ids: Vec<String> = (0..paths.len()).map(|record| format!("{prefix}-{record}")).collect();
        invalidations(paths, &ids.iter().map(String::as_str).enumerate().collect())
    }

    fn texts(request: &PathInvalidation) -> Vec<&str> {
        request.paths.iter().map(|(path, _)| path.as_str()).collect()
    }

    #[test]
    fn wildcards_within_the_limit_are_kept() {
        let paths = stale((0..MAX_WILDCARDS).map(|id| format!("/api/projects/{id}/*")));
        let [request] = requests(&paths).try_into().unwrap();
        assert_eq!(request.paths.len(), MAX_WILDCARDS);
    }

    #[test]
    fn wildcards_beyond_the_limit_become_their_parents() {
        let mut paths: Vec<String> = (0..20).map(|id| format!("/api/projects/{id}/*")).collect();
        paths.extend(["/api/users/*", "/api/projects/7", "/other"].map(str::to_owned));
        let [request] = requests(&stale(paths)).try_into().unwrap();
        assert_eq!(texts(&request), ["/api/projects/*", "/api/users/*", "/other"]);
        assert_eq!(request.records().len(), 23, "no record is lost");
    }

    #[test]
    fn unrelated_wildcards_become_the_root() {
        let [request] =
            requests(&stale((0..40).map(|id| format!("/{id}/a{}/*", id % 3)))).try_into().unwrap();
        assert_eq!(texts(&request), ["/*"]);
    }

    /// As many as a full batch of messages holds.
    #[test]
    fn tens_of_thousands_of_folders_are_coalesced() {
        let paths = stale((0..40_000).map(|id| format!("/tenants/t{}/projects/p{id}/*", id / 2)));
        let [request] = requests(&paths).try_into().unwrap();
        assert!(texts(&request).len() <= MAX_WILDCARDS);
        assert_eq!(request.records().len(), 40_000);
        assert!(paths.keys().all(|path| texts(&request).iter().any(|wildcard| covers(wildcard, path))));
    }

    #[test]
    fn a_request_has_at_most_three_thousand_paths_and_the_first_has_all_wildcards() {
        let mut paths: Vec<String> = (0..7_000).map(|id| format!("/p/{id}")).collect();
        paths.extend((0..10).map(|id| format!("/q/{id}/*")));
        let requests = requests(&stale(paths));
        assert_eq!(
            requests.iter().map(|request| request.paths.len()).collect::<Vec<_>>(),
            [3_000, 3_000, 1_010]
        );
        let wildcards =
            |request: &PathInvalidation| texts(request).iter().filter(|path| path.ends_with('*')).count();
        assert_eq!(requests.iter().map(wildcards).collect::<Vec<_>>(), [10, 0, 0]);
    }

    #[test]
    fn a_reference_depends_on_the_paths_and_the_events_in_any_order() {
        let paths = |paths: &[&str]| stale(paths.iter().map(|path| (*path).to_owned()));
        let reference = |paths: &RecordsByPath| requests(paths)[0].reference.clone();
        let both = paths(&["/b", "/a"]);
        assert_eq!(reference(&both), reference(&paths(&["/a", "/b"])));
        assert_ne!(reference(&both), reference(&paths(&["/b"])));
        assert_ne!(reference(&both), requests_for_events("other", &both)[0].reference);
    }

    #[test]
    fn a_path_that_is_too_long_becomes_a_wildcard_on_its_beginning() {
        for lead in 0..3 {
            let path = format!("/p/{}{}", "x".repeat(lead), "%C3%BC".repeat(1_500));
            let [request] = requests(&stale([path.clone()])).try_into().unwrap();
            let [wildcard] = texts(&request)[..] else { panic!("one path") };
            assert!(wildcard.len() <= MAX_LENGTH && covers(wildcard, &path));
            let prefix = wildcard.strip_suffix('*').unwrap();
            let whole = |position: usize| prefix.len() >= position + 3;
            assert!(prefix.rfind('%').is_some_and(whole), "an encoded byte was cut");
        }
    }

    #[test]
    fn each_half_keeps_its_own_records() {
        let paths = stale((0..5).map(|id| format!("/p/{id}")));
        let request = &requests(&paths)[0];
        let [first, second] = request.halves(&EventIds::new()).unwrap();
        assert_eq!((first.paths.len(), second.paths.len()), (2, 3));
        assert_eq!(second.records(), BTreeSet::from([2, 3, 4]));
        assert_eq!(second.halves(&EventIds::new()).unwrap()[0].halves(&EventIds::new()), None);
    }
}
