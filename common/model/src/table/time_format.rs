//! Formats of times in templates: `day`, `week@Europe/Berlin`, `day@city_zone`.

use std::fmt;

use super::format_zone::FormatZone;
use super::named::NamedValue as _;
use super::time_bucket::TimeBucket;
use super::time_reading::TimeReading;

/// The format of a time: the bucket that it lies in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeFormat {
    /// The bucket.
    pub bucket: TimeBucket,
    /// The zone of its calendar.
    pub zone: FormatZone,
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
    /// Reads `day`, `day@Europe/Berlin` or `day@city_zone`.
    pub(super) fn parse(text: &str) -> Result<Self, NotAFormat> {
        let (bucket, zone) = match text.split_once('@') {
            None => (text, None),
            Some((bucket, zone)) => (bucket, Some(zone)),
        };
        let bucket =
            TimeBucket::of_name(bucket).ok_or_else(|| NotAFormat::UnknownBucket(bucket.to_owned()))?;
        let zone = match zone {
            None => FormatZone::Utc,
            Some(zone) => FormatZone::parse(zone).ok_or_else(|| NotAFormat::UnknownZone(zone.to_owned()))?,
        };
        Ok(Self { bucket, zone, reading: TimeReading::Detected })
    }

    /// Its bucket in a text, borrowed, if the text has the most frequent form of a time and the bucket is a part of it.
    #[must_use]
    pub fn prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        if self.zone.is_utc() && self.reading.takes_moments() {
            self.bucket.prefix_of_utc(text)
        } else {
            None
        }
    }

    /// How a text of this format is read as a time. Keys of items, which are read in this way, have no zones of items.
    pub(super) fn reading_of_bucket(&self) -> TimeReading {
        TimeReading::Bucket(self.bucket, self.zone.of_all())
    }

    /// The format for a value of this bucket, in the bucket's zone unless another one is written. In zones of items, a bucket begins when UTC shows it.
    pub(super) fn within(self, below: Self) -> Self {
        let reading = below.reading_of_bucket();
        let zone = match (self.zone, below.zone) {
            (FormatZone::Utc | FormatZone::OfItem(_), FormatZone::OfItem(_)) => FormatZone::Utc,
            (FormatZone::Utc, below) => below,
            (written @ (FormatZone::Named(_) | FormatZone::OfItem(_)), _) => written,
        };
        Self { bucket: self.bucket, zone, reading }
    }

    /// Why a value that is read in this way does not determine the bucket.
    pub(super) fn too_fine_for(&self, reading: TimeReading) -> Option<String> {
        match reading {
            TimeReading::Bucket(bucket, _) if !bucket.lies_in(self.bucket) => {
                Some(self.undetermined(reading, ""))
            }
            TimeReading::Bucket(..)
            | TimeReading::Detected
            | TimeReading::Notation(_)
            | TimeReading::Zone(_)
            | TimeReading::Digits => self.in_other_zone_than(reading),
        }
    }

    /// Why a value that is read in this way has no calendar in the format's zone.
    pub(super) fn in_other_zone_than(&self, reading: TimeReading) -> Option<String> {
        let zone = match reading {
            TimeReading::Bucket(_, zone) => zone,
            TimeReading::Detected | TimeReading::Notation(_) | TimeReading::Zone(_) | TimeReading::Digits => {
                return None;
            }
        };
        let way = match zone {
            // The zone of such a part may be that of each item, which it does not show.
            None => format!(
                "; if the part is in that zone already, because it is in the key of a rollup, write a variable without a format in the key, and fill it with `bind` from its `{}`",
                self.bucket.name()
            ),
            Some(_) => String::new(),
        };
        (!self.zone.is_fixed_as(zone)).then(|| self.undetermined(reading, &way))
    }

    fn undetermined(&self, reading: TimeReading, way: &str) -> String {
        format!("the key has its `{reading}` and nothing more, which does not determine its `{self}`{way}")
    }
}

/// As templates write it: `day@Europe/Berlin`.
impl fmt::Display for TimeFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.bucket.name(), self.zone)
    }
}
