//! The table and stream of a record, from its ARN.

use std::borrow::Cow;

/// The table and the stream label of a record.
pub(super) struct StreamSource<'a> {
    pub(super) table: Cow<'a, str>,
    pub(super) label: Cow<'a, str>,
}

impl<'a> StreamSource<'a> {
    /// Parses `arn:aws:dynamodb:<region>:<account>:table/<table>/stream/<label>`.
    pub(super) fn from_arn(arn: Cow<'a, str>) -> Option<Self> {
        fn split(arn: &str) -> Option<(&str, &str)> {
            let (rest, label) = arn.rsplit_once('/')?;
            let (resource, table) = rest.strip_suffix("/stream")?.rsplit_once('/')?;
            let is_stream = resource.ends_with(":table") && !table.is_empty() && !label.is_empty();
            is_stream.then_some((table, label))
        }
        match arn {
            Cow::Borrowed(arn) => {
                split(arn).map(|(table, label)| Self { table: table.into(), label: label.into() })
            }
            Cow::Owned(arn) => split(&arn).map(|(table, label)| Self {
                table: table.to_owned().into(),
                label: label.to_owned().into(),
            }),
        }
    }
}
