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
        match arn {
            Cow::Borrowed(arn) => Some(Self::borrowed(split(arn)?)),
            Cow::Owned(arn) => {
                let [region, table, label] = split(&arn)?.map(|part| Cow::Owned(part.to_owned()));
                Some(Self { region, table, label })
            }
        }
    }

    fn borrowed(parts: [&'a str; 3]) -> Self {
        let [region, table, label] = parts.map(Cow::Borrowed);
        Self { region, table, label }
    }
}

/// Parses the ARNs of a batch. The records of a batch nearly always have one stream, so an ARN is parsed only if it differs from the
/// previous one.
#[derive(Default)]
pub(super) struct SourceParser<'a> {
    previous: Option<(&'a str, [&'a str; 3])>,
}

impl<'a> SourceParser<'a> {
    /// As [`StreamSource::from_arn`].
    pub(super) fn parse(&mut self, arn: Cow<'a, str>) -> Option<StreamSource<'a>> {
        let Cow::Borrowed(arn) = arn else { return StreamSource::from_arn(arn) };
        let parts = match self.previous {
            Some((previous, parts)) if previous == arn => parts,
            Some(_) | None => {
                let parts = split(arn)?;
                self.previous = Some((arn, parts));
                parts
            }
        };
        Some(StreamSource::borrowed(parts))
    }
}

/// The region, the table and the stream label.
fn split(arn: &str) -> Option<[&str; 3]> {
    let (rest, label) = arn.rsplit_once('/')?;
    let (resource, table) = rest.strip_suffix("/stream")?.rsplit_once('/')?;
    let region = resource.split(':').nth(3).unwrap_or_default();
    let is_stream = resource.ends_with(":table") && !table.is_empty() && !label.is_empty();
    is_stream.then_some([region, table, label])
}
