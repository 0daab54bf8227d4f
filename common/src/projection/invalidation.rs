//! What a change makes stale: cache keys and CloudFront paths, rendered from the old *and* the new image, each once for a batch.
//!
//! Values are data. In a cache key they stand as they are: a key is sent with its length, so that no character of it can begin another
//! command or be taken for a glob. In a path everything is percent-encoded that may not stand in a segment by RFC 1738, and `*`, so that a
//! value never becomes a wildcard, a second path or a query; only the template's own text can. Nothing else is: CloudFront takes an encoded
//! character that need not be encoded for another path, and refuses a bare `~`.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::contributions::holds;
use super::scope::{ImageScope, attribute};
use crate::Result;
use crate::entity::ItemIdentity;
use crate::record::Image;
use crate::table::{BoundPiece, BoundTemplate, CacheRemedy, CacheRule, Model};

/// All but letters, digits, and what RFC 1738 lets stand in a segment of a path; not `*`, which is CloudFront's wildcard.
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
    /// What is to be done to it.
    pub remedy: CacheRemedy,
    /// The records that need it gone: their indexes in the batch, ascending.
    pub records: Vec<usize>,
    /// The rule that named it first: an index into [`Model::caches`].
    pub rule: usize,
}

/// A stale CloudFront path, percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StalePath {
    /// The path.
    pub path: String,
    /// The records that need it gone: their indexes in the batch, ascending.
    pub records: Vec<usize>,
}

/// Everything that a batch makes stale, each key and path once.
#[derive(Clone, Debug, Default)]
pub struct StaleCaches {
    /// By key, and by whether it is the key or its generation that is stale.
    keys: BTreeMap<(String, bool), (CacheRemedy, usize, Vec<usize>)>,
    paths: BTreeMap<String, Vec<usize>>,
}

impl StaleCaches {
    /// Adds what a change makes stale, on account of the record with this index. An image that the record does not have is `None`: the old
    /// one of an INSERT, the new one of a REMOVE. A key that needs a value which an image lacks is left out: nothing of that item was cached
    /// under it.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Record`] if a value is of a type that no key can be made of; then nothing of the change is added.
    pub fn add(
        &mut self,
        model: &Model,
        identity: &ItemIdentity<'_, '_>,
        record: usize,
        (old, new): (Option<&Image<'_>>, Option<&Image<'_>>),
    ) -> Result<()> {
        let (mut keys, mut paths) = (Vec::new(), Vec::new());
        for index in &identity.entity.caches {
            let Some(rule) = model.caches.get(*index).filter(|rule| is_touched(rule, old, new)) else {
                continue;
            };
            for image in [old, new].into_iter().flatten() {
                let (entity, variables) = (identity.entity, identity.variables.as_slice());
                let scope = ImageScope { model, entity, variables, image, outputs: &[] };
                if !holds(rule.when.as_ref(), &scope)? {
                    continue;
                }
                for template in &rule.keys {
                    keys.extend(render(&scope, template, false)?.map(|key| (key, rule.remedy, *index)));
                }
                for template in &rule.paths {
                    paths.extend(render(&scope, template, true)?);
                }
            }
        }
        keys.into_iter().for_each(|(key, remedy, rule)| self.add_key(key, remedy, rule, record));
        for path in paths {
            note(self.paths.entry(path).or_default(), record);
        }
        Ok(())
    }

    /// If two rules name one key, the stronger remedy is taken: the longest tombstone, which also deletes.
    fn add_key(&mut self, key: String, remedy: CacheRemedy, rule: usize, record: usize) {
        let of_generation = remedy == CacheRemedy::Generation;
        let entry = self.keys.entry((key, of_generation)).or_insert((remedy, rule, Vec::new()));
        entry.0 = entry.0.max(remedy);
        note(&mut entry.2, record);
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = StaleKey> {
        self.keys.iter().map(|((key, _), (remedy, rule, records))| StaleKey {
            key: key.clone(),
            remedy: *remedy,
            records: records.clone(),
            rule: *rule,
        })
    }

    /// The paths, in order.
    pub fn paths(&self) -> impl Iterator<Item = StalePath> {
        self.paths.iter().map(|(path, records)| StalePath { path: path.clone(), records: records.clone() })
    }

    /// Whether nothing is stale.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.paths.is_empty()
    }
}

fn note(records: &mut Vec<usize>, record: usize) {
    if let Err(position) = records.binary_search(&record) {
        records.insert(position, record);
    }
}

/// Whether a change concerns a rule: any does that creates or removes the item, or the rule names nothing it depends on.
fn is_touched(rule: &CacheRule, old: Option<&Image<'_>>, new: Option<&Image<'_>>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    rule.depends_on.is_empty()
        || rule.depends_on.iter().any(|path| attribute(old, path) != attribute(new, path))
}

/// A key or path; `None` if the image lacks one of its values.
fn render(scope: &ImageScope<'_, '_>, template: &BoundTemplate, is_path: bool) -> Result<Option<String>> {
    let mut rendered = String::with_capacity(64);
    for piece in &template.pieces {
        match piece {
            BoundPiece::Literal(text) => rendered.push_str(text),
            BoundPiece::Value(term, format) => match scope.text(term, *format)? {
                None => return Ok(None),
                Some(value) if is_path => rendered.extend(utf8_percent_encode(&value, ENCODED)),
                Some(value) => rendered.push_str(&value),
            },
        }
    }
    Ok(Some(rendered))
}

#[cfg(test)]
mod tests;
