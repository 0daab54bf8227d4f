//! The region, table and stream of a record, from its ARN.

use std::borrow::Cow;

/// The region, the table and the stream label of a record.
pub(super) struct StreamSource<'a> {
    pub(super) region: Cow<'a, str>,
    pub(super) table: Cow<'a, str>,
    pub(super) label: Cow<'a, str>,
}

impl<'a> StreamSource<'a> {
    /// Parses `arn:aws:dynamodb:<region>:<account>:table/<table>/stream/<label>`.
    pub(super) fn from_arn(arn: Cow<'a, str>) -> Option<Self> {
        fn split(arn: &str) -> Option<[&str; 3]> {
            let (rest, label) = arn.rsplit_once('/')?;
            let (resource, table) = rest.strip_suffix("/stream")?.rsplit_once('/')?;
            let is_stream = resource.ends_with(":table") && !table.is_empty() && !label.is_empty();
            let region = resource.split(':').nth(3).unwrap_or_default();
            is_stream.then_some([region, table, label])
        }
        let [region, table, label] = match arn {
            Cow::Borrowed(arn) => split(arn)?.map(Cow::Borrowed),
            Cow::Owned(arn) => split(&arn)?.map(|part| Cow::Owned(part.to_owned())),
        };
        Some(Self { region, table, label })
    }
}
