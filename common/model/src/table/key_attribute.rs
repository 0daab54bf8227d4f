//! How a model writes the names of key attributes.

use std::borrow::Cow;

use crate::record::AttributePath;

/// The name of a key attribute. It is always whole: a dot is part of it, and quotes around it are possible.
pub(super) fn key_attribute(written: &str) -> Cow<'_, str> {
    let quoted: Option<AttributePath> = written.starts_with('\'').then(|| written.parse().ok()).flatten();
    match quoted.filter(|path| path.within().is_empty()) {
        Some(path) => Cow::Owned(path.root().to_string()),
        None => Cow::Borrowed(written),
    }
}
