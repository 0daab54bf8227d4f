//! How values are written into the keys of rollups: `rollup_keys`.
//!
//! Escaped, no value contains the separator `#`: a key has one reading, so that two groups never share a rollup.

use std::borrow::Cow;

use super::named::named_values;

/// Separates the parts of keys.
const SEPARATOR: char = '#';

named_values! {
    /// How values are written into the keys of rollups.
    #[derive(Default)]
    pub enum RollupKeys {
        /// As they are.
        #[default]
        Plain = "plain",
        /// With `%` as `%25` and `#` as `%23`.
        Escaped = "escaped",
    }
}

impl RollupKeys {
    /// Whether values are written as they are.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        match self {
            Self::Plain => true,
            Self::Escaped => false,
        }
    }

    /// The character that no value in a key contains.
    pub(super) fn separator(self) -> Option<char> {
        match self {
            Self::Plain => None,
            Self::Escaped => Some(SEPARATOR),
        }
    }

    /// The text of a value in a key.
    #[must_use]
    pub fn written(self, value: &str) -> Cow<'_, str> {
        match self {
            Self::Plain => Cow::Borrowed(value),
            Self::Escaped => escaped(value),
        }
    }

    /// Writes the value that a key ends in, from the byte `begin` on, in the form that keys have.
    pub(crate) fn write_tail(self, key: &mut String, begin: usize) {
        let Some(Cow::Owned(tail)) = key.get(begin..).map(|value| self.written(value)) else { return };
        key.truncate(begin);
        key.push_str(&tail);
    }

    /// The value of a text in a key.
    #[must_use]
    pub fn value(self, written: &str) -> Cow<'_, str> {
        match self {
            Self::Plain => Cow::Borrowed(written),
            Self::Escaped => unescaped(written),
        }
    }
}

/// A value without `#`: `%` is written `%25`, and `#` `%23`.
pub(crate) fn escaped(value: &str) -> Cow<'_, str> {
    if value.contains(['%', SEPARATOR]) {
        Cow::Owned(value.replace('%', "%25").replace(SEPARATOR, "%23"))
    } else {
        Cow::Borrowed(value)
    }
}

/// The value that [`escaped`] was made of.
pub(crate) fn unescaped(text: &str) -> Cow<'_, str> {
    if text.contains('%') {
        Cow::Owned(text.replace("%23", "#").replace("%25", "%"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_tail_of_a_key_is_escaped() {
        for (keys, expected) in [(RollupKeys::Plain, "A#50%#b"), (RollupKeys::Escaped, "A#50%25%23b")] {
            let mut key = "A#50%#b".to_owned();
            keys.write_tail(&mut key, 2);
            assert_eq!(key, expected);
        }
    }

    proptest! {
        #[test]
        fn an_escaped_value_is_read_back_and_has_no_separator(value in "[a#%235 é]{0,12}") {
            let written = escaped(&value);
            prop_assert!(!written.contains(SEPARATOR));
            prop_assert_eq!(unescaped(&written), value.as_str());
        }
    }
}
