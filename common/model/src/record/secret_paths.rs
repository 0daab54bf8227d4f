//! The paths to secrets, and the one rule by which secrets are found.
//!
//! A path goes through maps and through every element of lists. A path that is written without quotes is found in both readings: `card.pin` is
//! the member `pin` of the map `card`, and the attribute that is called `card.pin`.

use std::sync::Arc;

use super::{AttributePath, AttributeValue, Item};

/// The secrets at one level of an item: the rests of their paths from here on.
#[derive(Clone, Debug)]
pub(crate) struct SecretPaths<'p>(Vec<&'p [Arc<str>]>);

/// The secret part of one attribute.
pub(crate) enum AttributeSecrecy<'p> {
    /// Nothing.
    Open,
    /// The values within it that these paths lead to.
    Within(SecretPaths<'p>),
    /// All of it.
    Secret,
}

impl<'p> SecretPaths<'p> {
    /// The secrets of an item.
    pub(crate) fn new(paths: impl IntoIterator<Item = &'p AttributePath>) -> Self {
        Self(paths.into_iter().map(AttributePath::names).collect())
    }

    /// Whether there are no secrets.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The secret part of the attribute of this name.
    pub(crate) fn of(&self, name: &str) -> AttributeSecrecy<'p> {
        let mut within = Vec::new();
        for path in &self.0 {
            match rest_after(path, name) {
                Some([]) => return AttributeSecrecy::Secret,
                Some(rest) => within.push(rest),
                None => {}
            }
        }
        if within.is_empty() { AttributeSecrecy::Open } else { AttributeSecrecy::Within(Self(within)) }
    }

    /// Removes the secrets from an item, or from a map within it.
    pub(crate) fn cut(&self, members: &mut Item) {
        members.retain(|name, value| match self.of(name) {
            AttributeSecrecy::Open => true,
            AttributeSecrecy::Secret => false,
            AttributeSecrecy::Within(within) => {
                within.cut_value(value);
                true
            }
        });
    }

    fn cut_value(&self, value: &mut AttributeValue<'static>) {
        match value {
            AttributeValue::M(members) => self.cut(members),
            AttributeValue::L(elements) => elements.iter_mut().for_each(|element| self.cut_value(element)),
            AttributeValue::S(_)
            | AttributeValue::N(_)
            | AttributeValue::B(_)
            | AttributeValue::Bool(_)
            | AttributeValue::Null
            | AttributeValue::Ss(_)
            | AttributeValue::Ns(_)
            | AttributeValue::Bs(_) => {}
        }
    }
}

/// The rest of a path after the attribute of this name, which is the path's first name, or several of its names with dots between them.
fn rest_after<'p>(path: &'p [Arc<str>], name: &str) -> Option<&'p [Arc<str>]> {
    let (mut left, mut rest) = (name, path);
    while let Some((first, after)) = rest.split_first() {
        left = left.strip_prefix(&**first)?;
        rest = after;
        if left.is_empty() {
            return Some(rest);
        }
        left = left.strip_prefix('.')?;
    }
    None
}

/// The secret part of the value at a path that is read, by one secret.
pub(crate) fn secrecy<'s>(secret: &'s AttributePath, read: &AttributePath) -> AttributeSecrecy<'s> {
    let mut secrets = SecretPaths::new([secret]);
    for name in read.names() {
        match secrets.of(name) {
            AttributeSecrecy::Within(within) => secrets = within,
            decided @ (AttributeSecrecy::Open | AttributeSecrecy::Secret) => return decided,
        }
    }
    AttributeSecrecy::Within(secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(written: &str) -> AttributePath {
        written.parse().expect("a path")
    }

    #[test]
    fn a_secret_is_found_in_maps_in_lists_and_by_its_whole_name() {
        let map = |members: &[(&str, AttributeValue<'static>)]| {
            let members = members.iter().cloned();
            AttributeValue::M(members.map(|(name, value)| (name.to_owned().into(), value)).collect())
        };
        let line = || map(&[("card", "LEAK".into()), ("sku", "pen".into())]);
        let members = map(&[
            ("lines", AttributeValue::L(vec![line(), AttributeValue::L(vec![line()]), "text".into()])),
            ("lines.card", "LEAK".into()),
            ("box", map(&[("lines.card", "kept".into())])),
            ("card", "kept".into()),
        ]);
        let AttributeValue::M(mut item) = members else { panic!("a map") };
        SecretPaths::new(&[path("lines.card")]).cut(&mut item);
        let text = format!("{item:?}");
        assert!(!text.contains("LEAK") && text.matches("kept").count() == 2, "{text}");
        assert_eq!(text.matches("pen").count(), 2, "{text}");
    }

    #[test]
    fn a_value_is_secret_if_it_is_read_in_either_way() {
        for (secret, read, expected) in [
            ("card", "card", "secret"),
            ("card.pin", "card", "within"),
            ("card", "card.pin", "secret"),
            ("card.pin", "'card.pin'", "secret"),
            ("a.'b.c'", "a.b", "open"),
            ("'card.pin'", "card.pin", "open"),
            ("card.pin", "card.holder", "open"),
        ] {
            let found = match secrecy(&path(secret), &path(read)) {
                AttributeSecrecy::Open => "open",
                AttributeSecrecy::Within(_) => "within",
                AttributeSecrecy::Secret => "secret",
            };
            assert_eq!(found, expected, "{secret} {read}");
        }
    }
}
