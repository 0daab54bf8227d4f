//! The name of a value, as models write it.

use std::fmt;
use std::str::FromStr;

use super::template::{canonical_name, split_format};
use crate::record::{AttributePath, InvalidPath, unquoted_places};

/// The name of a value of an item or of a key, as models write it: a path, or a path with a format.
///
/// ```
/// use afterwrite_model::table::ValueName;
/// let bucket: ValueName = "'bought at':day".parse()?;
/// assert_eq!((bucket.as_str(), bucket.attribute()), ("bought at:day", None));
/// let name: ValueName = "'first.name'".parse()?;
/// assert_eq!(name.attribute().map(|path| path.names().len()), Some(1), "the dot is part of the name");
/// # Ok::<(), afterwrite_model::record::InvalidPath>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueName {
    canonical: String,
    attribute: Option<AttributePath>,
}

impl ValueName {
    /// The name in the form in which a compiled model has the names of variables, derived values, outputs and columns' sources: in quotes only
    /// where it needs them.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.canonical
    }

    /// The attribute with this name; `None` for a name with a format, which is part of a key.
    #[must_use]
    pub fn attribute(&self) -> Option<&AttributePath> {
        self.attribute.as_ref()
    }

    /// The name and the value of `NAME=VALUE`: the first `=` outside quotes divides them.
    #[must_use]
    pub fn split_value(written: &str) -> Option<(&str, &str)> {
        let at = unquoted_places(written, |character| character == '=').next()?;
        let (name, value) = written.split_at_checked(at)?;
        Some((name, value.strip_prefix('=')?))
    }
}

impl FromStr for ValueName {
    type Err = InvalidPath;

    fn from_str(written: &str) -> Result<Self, InvalidPath> {
        match split_format(written) {
            Ok((base, format)) if !format.is_plain() => {
                base.parse::<AttributePath>()?;
                Ok(Self { canonical: canonical_name(written)?.into_owned(), attribute: None })
            }
            Ok(_) | Err(_) => written.parse::<AttributePath>().map(Self::from),
        }
    }
}

impl From<AttributePath> for ValueName {
    fn from(path: AttributePath) -> Self {
        Self { canonical: path.to_string(), attribute: Some(path) }
    }
}

impl fmt::Display for ValueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.canonical)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_models_write_it() {
        for (written, canonical, names) in [
            ("tenant", "tenant", Some(&["tenant"][..])),
            ("'tenant'", "tenant", Some(&["tenant"])),
            ("details.tenant", "details.tenant", Some(&["details", "tenant"])),
            ("'am.ount'", "'am.ount'", Some(&["am.ount"])),
            ("'the=tenant'", "the=tenant", Some(&["the=tenant"])),
            ("'o:id'", "'o:id'", Some(&["o:id"])),
            ("'at:day'", "'at:day'", Some(&["at:day"])),
            // No format has this name.
            ("aws:rep:updatetime", "'aws:rep:updatetime'", Some(&["aws:rep:updatetime"])),
            ("at:day", "at:day", None),
            ("'wh en':day", "wh en:day", None),
            ("at:day@Europe/Berlin", "at:day@Europe/Berlin", None),
        ] {
            let name: ValueName = written.parse().unwrap_or_else(|problem| panic!("{written}: {problem}"));
            let attribute: Option<Vec<&str>> =
                name.attribute().map(|path| path.names().iter().map(|name| &**name).collect());
            assert_eq!((name.as_str(), attribute.as_deref()), (canonical, names), "{written}");
        }
        for written in ["", "a..b", "'a", "'a'b", "a[0]", "'a'b:day"] {
            assert!(written.parse::<ValueName>().is_err(), "{written}");
        }
    }

    #[test]
    fn the_first_equals_sign_outside_quotes_ends_a_name() {
        for (written, name, value) in [
            ("a=b=c", "a", "b=c"),
            ("'the=tenant'=a", "'the=tenant'", "a"),
            ("details.'a=b'='c'", "details.'a=b'", "'c'"),
            ("it's=5", "it's", "5"),
            ("'it''s='=", "'it''s='", ""),
        ] {
            assert_eq!(ValueName::split_value(written), Some((name, value)), "{written}");
        }
        for written in ["a", "'a=b", "'a=b'"] {
            assert_eq!(ValueName::split_value(written), None, "{written}");
        }
    }
}
