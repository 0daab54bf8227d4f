//! Which invalidations CloudFront is asked for: within its limits, and the same ones when a batch is delivered again.
//!
//! A distribution works on at most 3,000 paths and 15 wildcards at once. More wildcards than that become their parents' wildcards, which
//! cover more than is needed but never less.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use crate::projection::StalePath;

/// CloudFront's limit on the paths that are in progress for one distribution.
pub const MAX_PATHS: usize = 3_000;
/// CloudFront's limit on the wildcards among them.
pub const MAX_WILDCARDS: usize = 15;
/// CloudFront's limit on the characters of a path.
const MAX_LENGTH: usize = 4_000;

/// One invalidation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathInvalidation {
    /// The paths, sorted.
    pub(super) paths: Vec<String>,
    /// The records that need it.
    pub(super) records: BTreeSet<usize>,
    /// The caller reference: the same for the same paths on account of the same events.
    pub(super) reference: String,
}

/// The invalidations that make these paths go.
pub(super) fn requests(stale: &[StalePath], event_id: &impl Fn(usize) -> String) -> Vec<PathInvalidation> {
    let mut paths: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for path in stale {
        paths.entry(shortened(&path.path)).or_default().extend(&path.records);
    }
    coalesce(&mut paths);
    drop_covered(&mut paths);
    // Wildcards first, so that one request holds them all.
    let mut paths: Vec<_> = paths.into_iter().collect();
    paths.sort_by_key(|(path, _)| !path.ends_with('*'));
    paths.chunks(MAX_PATHS).map(|chunk| request(chunk, event_id)).collect()
}

/// The two halves of a request that was refused: one path must not hold back the others.
pub(super) fn halves(
    request: &PathInvalidation,
    stale: &[StalePath],
    event_id: &impl Fn(usize) -> String,
) -> [PathInvalidation; 2] {
    let (first, second) = request.paths.split_at(request.paths.len() / 2);
    [first, second].map(|half| {
        let of = |path: &String| {
            let covered = stale.iter().filter(|stale| covers(path, &shortened(&stale.path)));
            (path.clone(), covered.flat_map(|stale| stale.records.iter().copied()).collect())
        };
        let half: Vec<_> = half.iter().map(of).collect();
        self::request(&half, event_id)
    })
}

fn request(paths: &[(String, BTreeSet<usize>)], event_id: &impl Fn(usize) -> String) -> PathInvalidation {
    let records: BTreeSet<usize> = paths.iter().flat_map(|(_, records)| records).copied().collect();
    let mut paths: Vec<String> = paths.iter().map(|(path, _)| path.clone()).collect();
    paths.sort_unstable();
    let events: BTreeSet<String> = records.iter().map(|record| event_id(*record)).collect();
    let mut hash = Sha256::new();
    // Neither an encoded path nor an event id holds a newline.
    for text in paths.iter().chain(&events) {
        hash.update(text.as_bytes());
        hash.update(b"\n");
    }
    let digest = hash.finalize();
    let reference = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>();
    PathInvalidation { paths, records, reference: format!("afterwrite-{reference}") }
}

/// A path that is too long for CloudFront, by a wildcard on as much of its beginning as it takes.
fn shortened(path: &str) -> String {
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

/// The wildcard of the folder that a wildcard's own folder, or the beginning of a name, lies in; `None` for that of all paths.
fn parent(wildcard: &str) -> Option<String> {
    let prefix = wildcard.strip_suffix('*')?;
    let folder = prefix.strip_suffix('/').unwrap_or(prefix);
    folder.rfind('/').and_then(|slash| folder.get(..=slash)).map(|folder| format!("{folder}*"))
}

/// Until few enough are left, the deepest wildcards become their parent's, and first those of the parent with the most.
fn coalesce(paths: &mut BTreeMap<String, BTreeSet<usize>>) {
    loop {
        let wildcards: Vec<&String> = paths.keys().filter(|path| path.ends_with('*')).collect();
        if wildcards.len() <= MAX_WILDCARDS {
            return;
        }
        let depth = |path: &str| path.matches('/').count();
        let deepest = wildcards.iter().map(|path| depth(path)).max().unwrap_or(0);
        let mut families: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for wildcard in wildcards.into_iter().filter(|path| depth(path) == deepest) {
            if let Some(parent) = parent(wildcard) {
                families.entry(parent).or_default().push(wildcard.clone());
            }
        }
        let largest = families.into_iter().max_by_key(|(_, children)| children.len());
        let Some((parent, children)) = largest else { return };
        for child in children {
            let records = paths.remove(&child).unwrap_or_default();
            paths.entry(parent.clone()).or_default().extend(records);
        }
    }
}

/// Drops every path that a wildcard beside it covers.
fn drop_covered(paths: &mut BTreeMap<String, BTreeSet<usize>>) {
    let wildcards: Vec<String> = paths.keys().filter(|path| path.ends_with('*')).cloned().collect();
    for wildcard in wildcards {
        let covered: Vec<String> =
            paths.keys().filter(|path| **path != wildcard && covers(&wildcard, path)).cloned().collect();
        if !paths.contains_key(&wildcard) {
            continue;
        }
        for path in covered {
            let records = paths.remove(&path).unwrap_or_default();
            paths.entry(wildcard.clone()).or_default().extend(records);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stale(paths: impl IntoIterator<Item = String>) -> Vec<StalePath> {
        let path = |(record, path)| StalePath { path, records: vec![record] };
        paths.into_iter().enumerate().map(path).collect()
    }

    fn asked(paths: &[StalePath]) -> Vec<PathInvalidation> {
        requests(paths, &|record| format!("event-{record}"))
    }

    #[test]
    fn up_to_the_limit_wildcards_stay_as_they_are() {
        let paths = stale((0..MAX_WILDCARDS).map(|id| format!("/api/projects/{id}/*")));
        let [request] = asked(&paths).try_into().unwrap();
        assert_eq!(request.paths.len(), MAX_WILDCARDS);
    }

    #[test]
    fn past_the_limit_they_become_their_parents() {
        let mut paths: Vec<String> = (0..20).map(|id| format!("/api/projects/{id}/*")).collect();
        paths.extend(["/api/users/*", "/api/projects/7", "/other"].map(str::to_owned));
        let [request] = asked(&stale(paths)).try_into().unwrap();
        assert_eq!(request.paths, ["/api/projects/*", "/api/users/*", "/other"]);
        assert_eq!(request.records.len(), 23, "no record is forgotten");
    }

    #[test]
    fn unrelated_wildcards_end_at_the_root() {
        let [request] = asked(&stale((0..40).map(|id| format!("/{id}/a{}/*", id % 3)))).try_into().unwrap();
        assert_eq!(request.paths, ["/*"]);
    }

    #[test]
    fn requests_hold_three_thousand_paths_and_one_holds_the_wildcards() {
        let mut paths: Vec<String> = (0..7_000).map(|id| format!("/p/{id}")).collect();
        paths.extend((0..10).map(|id| format!("/q/{id}/*")));
        let requests = asked(&stale(paths));
        assert_eq!(
            requests.iter().map(|request| request.paths.len()).collect::<Vec<_>>(),
            [3_000, 3_000, 1_010]
        );
        let wildcards =
            |request: &PathInvalidation| request.paths.iter().filter(|path| path.ends_with('*')).count();
        assert_eq!(requests.iter().map(wildcards).collect::<Vec<_>>(), [10, 0, 0]);
    }

    #[test]
    fn a_reference_is_of_the_paths_and_the_events_in_any_order() {
        let paths = stale(["/b".to_owned(), "/a".to_owned()]);
        let reversed: Vec<StalePath> = paths.iter().rev().cloned().collect();
        let reference = |paths: &[StalePath]| asked(paths)[0].reference.clone();
        assert_eq!(reference(&paths), reference(&reversed));
        assert_ne!(reference(&paths), reference(&paths[..1]));
        let other_events = requests(&paths, &|record| format!("other-{record}"));
        assert_ne!(reference(&paths), other_events[0].reference);
    }

    #[test]
    fn a_path_too_long_goes_by_its_beginning() {
        for lead in 0..3 {
            let path = format!("/p/{}{}", "x".repeat(lead), "%C3%BC".repeat(1_500));
            let [request] = asked(&stale([path.clone()])).try_into().unwrap();
            let [wildcard] = request.paths.as_slice() else { panic!("one path") };
            assert!(wildcard.len() <= MAX_LENGTH && covers(wildcard, &path));
            let prefix = wildcard.strip_suffix('*').unwrap();
            let whole = |position: usize| prefix.len() >= position + 3;
            assert!(prefix.rfind('%').is_some_and(whole), "an encoded byte was cut");
        }
    }

    #[test]
    fn halves_keep_each_its_own_records() {
        let paths = stale((0..5).map(|id| format!("/p/{id}")));
        let request = &asked(&paths)[0];
        let [first, second] = halves(request, &paths, &|record| record.to_string());
        assert_eq!((first.paths.len(), second.paths.len()), (2, 3));
        assert_eq!(second.records, BTreeSet::from([2, 3, 4]));
    }
}
