//! Formats of times in templates: `day`, `week@Europe/Berlin`.

use std::fmt;

use super::named::NamedValue as _;
use super::time_bucket::TimeBucket;
use super::time_reading::TimeReading;
use crate::record::{NamedZone, Timestamp};

/// The format of a time: the bucket that it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeFormat {
    /// The bucket.
    pub bucket: TimeBucket,
    /// The zone of its calendar; UTC if there is none.
    pub zone: Option<NamedZone>,
    /// How the value is read. A template on its own does not know; the scope of an entity does.
    pub reading: TimeReading,
}

/// Why a text is not a [`TimeFormat`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotAFormat {
    /// No such bucket.
    UnknownBucket(String),
    /// No such zone.
    UnknownZone(String),
}

impl TimeFormat {
    /// Reads `day` or `day@Europe/Berlin`.
    pub(super) fn parse(text: &str) -> Result<Self, NotAFormat> {
        let (bucket, zone) = match text.split_once('@') {
            None => (text, None),
            Some((bucket, zone)) => (bucket, Some(zone)),
        };
        let bucket =
            TimeBucket::of_name(bucket).ok_or_else(|| NotAFormat::UnknownBucket(bucket.to_owned()))?;
        let zone =
            zone.map(|zone| NamedZone::of_name(zone).ok_or_else(|| NotAFormat::UnknownZone(zone.to_owned())));
        Ok(Self { bucket, zone: zone.transpose()?, reading: TimeReading::Detected })
    }

    /// Its bucket in a text, borrowed, if the text has the most frequent form of a time and the bucket is a part of it.
    #[must_use]
    pub fn prefix(self, text: &str) -> Option<&str> {
        if self.zone.is_none() && self.reading.takes_moments() {
            self.bucket.prefix_of_utc(text)
        } else {
            None
        }
    }

    /// Appends the bucket of a time; `None` if it has none ([`TimeBucket::write`]).
    #[must_use]
    pub fn write(self, time: Timestamp, text: &mut String) -> Option<()> {
        self.bucket.write(time, self.zone, text)
    }

    /// The first moment of the bucket that a time is in.
    #[must_use]
    pub fn start(self, time: Timestamp) -> Option<Timestamp> {
        self.bucket.start(time, self.zone)
    }

    /// How a text of this format is read as a time.
    pub(super) fn reading_of_bucket(self) -> TimeReading {
        TimeReading::Bucket(self.bucket, self.zone)
    }

    /// Why a value that is read in this way does not determine the bucket.
    pub(super) fn too_fine_for(self, reading: TimeReading) -> Option<String> {
        match reading {
            TimeReading::Bucket(bucket, zone) if zone != self.zone || !bucket.lies_in(self.bucket) => {
                Some(format!(
                    "the key has its `{reading}` and nothing more, which does not determine its `{self}`"
                ))
            }
            TimeReading::Bucket(..)
            | TimeReading::Detected
            | TimeReading::Notation(_)
            | TimeReading::Zone(_) => None,
        }
    }
}

/// As templates write it: `day@Europe/Berlin`.
impl fmt::Display for TimeFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.bucket.name())?;
        self.zone.iter().try_for_each(|zone| write!(f, "@{}", zone.name()))
    }
}
