//! The stale entries after a change: cache keys and CloudFront paths, rendered from the old *and* the new image, each once for a batch.
//!
//! Values are data. A cache key contains them unchanged: keys are sent with their length, so no character can begin another command or act
//! as a glob. In a path, every character that RFC 1738 does not allow in a segment is percent-encoded, and `*` too: a value never becomes
//! a wildcard, a second path or a query; only the template's own text can. A value that the model declares as a path (`{page:path}`) is encoded
//! segment by segment, and its slashes stay. No other character is encoded: CloudFront takes an unnecessarily
//! encoded character for a different path, and rejects a bare `~`.
//!
//! A value never fails a record, as in datasets and events: the items that follow in the shard would wait for it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::scope::{ImageScope, attribute};
use crate::entity::{ItemCandidates, ItemIdentity};
use crate::record::Image;
use crate::table::{
    BoundPiece, BoundTemplate, CacheRemedy, CacheRule, InternedPath, Model, PathTemplate, Term, ValueFormat,
};

/// Letters, digits and what RFC 1738 allows in a segment of a path, but `*`, which is CloudFront's wildcard, stay as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'$')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'+')
    .remove(b'!')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b',')
    .remove(b';')
    .remove(b':')
    .remove(b'@')
    .remove(b'&')
    .remove(b'=');

/// A stale cache key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleKey {
    /// The key.
    pub key: String,
    /// How it is invalidated.
    pub remedy: CacheRemedy,
    /// The records that need it invalidated: their indexes in the batch, ascending.
    pub records: Vec<usize>,
    /// The first rule that names it: an index into [`Model::caches`].
    pub rule: usize,
}

/// CloudFront paths, and for each the records that need it invalidated: their indexes in the batch.
pub type RecordsByPath = BTreeMap<String, BTreeSet<usize>>;

/// Everything that a batch makes stale, each key and path once.
#[derive(Clone, Debug, Default)]
pub struct StaleCaches {
    /// By key, and by whether the key or its generation is stale.
    keys: BTreeMap<(String, bool), StaleKey>,
    paths: RecordsByPath,
}

impl StaleCaches {
    /// Adds the keys and paths that the change of the record with this index makes stale. The old image of an INSERT and the new image of a REMOVE are `None`.
    /// If an image lacks a value of a key, the key is skipped: nothing of that item is cached under it. An item that moves to another entity
    /// makes stale what either of them caches.
    pub fn add(
        &mut self,
        candidates: &ItemCandidates<'_, '_>,
        record: usize,
        (old, new): (Option<&Image<'_>>, Option<&Image<'_>>),
    ) {
        let (mut keys, mut paths) = (Vec::new(), Vec::new());
        let [before, after] = [old, new].map(|image| candidates.in_state(image?));
        for identity in candidates.iter() {
            let is_it = |state: Option<&ItemIdentity<'_, '_>>| {
                state.is_some_and(|state| std::ptr::eq(state.entity, identity.entity))
            };
            let states = (old.filter(|_| is_it(before)), new.filter(|_| is_it(after)));
            add_stale(candidates.model(), identity, states, &mut keys, &mut paths);
        }
        for (key, remedy, rule) in keys {
            self.add_key(key, remedy, rule, record);
        }
        for path in paths {
            self.paths.entry(path).or_default().insert(record);
        }
    }

    /// If two rules name one key, the stronger remedy wins: the longest tombstone, which also deletes.
    fn add_key(&mut self, key: String, remedy: CacheRemedy, rule: usize, record: usize) {
        let is_generation = remedy == CacheRemedy::Generation;
        let new = StaleKey { key: key.clone(), remedy, records: Vec::new(), rule };
        let stale = self.keys.entry((key, is_generation)).or_insert(new);
        stale.remedy = stale.remedy.max(remedy);
        if let Err(position) = stale.records.binary_search(&record) {
            stale.records.insert(position, record);
        }
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = StaleKey> {
        self.keys.values().cloned()
    }

    /// The paths, percent-encoded.
    #[must_use]
    pub fn paths(&self) -> &RecordsByPath {
        &self.paths
    }
}

/// Adds the keys and paths that the rules of one entity make stale when its item changes between these two states.
fn add_stale(
    model: &Model,
    identity: &ItemIdentity<'_, '_>,
    (old, new): (Option<&Image<'_>>, Option<&Image<'_>>),
    keys: &mut Vec<(String, CacheRemedy, usize)>,
    paths: &mut Vec<String>,
) {
    for index in &identity.entity.caches {
        let Some(rule) = model.caches.get(*index).filter(|rule| is_affected(rule, old, new)) else {
            continue;
        };
        for image in [old, new].into_iter().flatten() {
            let scope = ImageScope::of(model, identity, image);
            if rule.when.as_ref().is_some_and(|when| !scope.satisfies(when)) {
                continue;
            }
            for template in &rule.keys {
                keys.extend(render_key(&scope, template).map(|key| (key, rule.remedy, *index)));
            }
            paths.extend(rule.paths.iter().filter_map(|path| render_path(&scope, path)));
        }
    }
}

/// Whether a change affects a rule's keys: if it creates or removes the item, if the rule depends on the whole item, or if an attribute that the
/// rule depends on has changed.
fn is_affected(rule: &CacheRule, old: Option<&Image<'_>>, new: Option<&Image<'_>>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    rule.depends_on.is_empty()
        || rule.depends_on.iter().any(|path| attribute(old, path) != attribute(new, path))
}

/// The text of a key; `None` if the image lacks one of its values.
fn render_key(scope: &ImageScope<'_, '_>, template: &BoundTemplate) -> Option<String> {
    render(scope, template, |key, _, value| {
        key.push_str(value);
        false
    })
}

/// The text of a path; `None` if the image lacks one of its values.
fn render_path(scope: &ImageScope<'_, '_>, path: &PathTemplate) -> Option<String> {
    render(scope, &path.template, |rendered, place, value| {
        if !path.is_path(place) {
            rendered.extend(utf8_percent_encode(value, ENCODED));
            return false;
        }
        // Applications store paths with and without the slash at their beginning.
        let value = if rendered.ends_with('/') { value.strip_prefix('/').unwrap_or(value) } else { value };
        for (segment, text) in value.split('/').enumerate() {
            if segment > 0 {
                rendered.push('/');
            }
            rendered.extend(utf8_percent_encode(text, ENCODED));
        }
        true
    })
}

/// Renders a template; `push` appends the value at a place among the template's values, and returns whether it is a path: a slash at its end and
/// one that follows it in the template are the same.
fn render(
    scope: &ImageScope<'_, '_>,
    template: &BoundTemplate,
    push: impl Fn(&mut String, usize, &str) -> bool,
) -> Option<String> {
    let mut rendered = String::with_capacity(64);
    let (mut place, mut is_behind_path) = (0, false);
    for piece in &template.pieces {
        match piece {
            BoundPiece::Literal(text) => {
                let text: &str = text;
                let is_doubled = is_behind_path && rendered.ends_with('/');
                rendered.push_str(text.strip_prefix('/').filter(|_| is_doubled).unwrap_or(text));
                is_behind_path = false;
            }
            BoundPiece::Value(term, format) => {
                is_behind_path = push(&mut rendered, place, &text_of(scope, term, format)?);
                place += 1;
            }
        }
    }
    Some(rendered)
}

/// The text of a value, of whatever type the model declares it; `None` if it is absent or `NULL`, or no key can contain it.
fn text_of<'s, 'a: 's>(
    scope: &ImageScope<'s, 'a>,
    term: &Term,
    format: &ValueFormat,
) -> Option<Cow<'s, str>> {
    let text = scope.text(term, format).or_else(|misfit| match term {
        Term::Attribute(path) => {
            let undeclared = InternedPath { declared: None, ..path.clone() };
            scope.text(&Term::Attribute(undeclared), format)
        }
        Term::Key(_) | Term::Derived(_) | Term::LookupOutput { .. } | Term::Element(_) => Err(misfit),
    });
    text.ok().flatten()
}

#[cfg(test)]
mod tests;
