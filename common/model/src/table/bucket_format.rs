//! Variables of rollups' keys that are buckets of time: with a format in the key, or filled with one format by every aggregate through `bind`.

use super::{
    Aggregate, FormatZone, Model, Rollup, RollupDestination, RollupLifetime, TemplatePiece, Term, TimeFormat,
    ValueFormat,
};
use crate::record::Timestamp;

impl Model {
    /// The format of a variable of a rollup's key, if it is a bucket of time. Both are indexes: into [`Model::rollups`] and [`Rollup::variables`].
    #[must_use]
    pub fn bucket_format(&self, rollup: usize, variable: usize) -> Option<TimeFormat> {
        let key = self.rollups.get(rollup)?;
        if let Some(own) = own_format(key, variable) {
            return Some(own.clone());
        }
        let filled = self.aggregates.iter().flat_map(|aggregate| {
            let into = aggregate.into.iter().filter(|into| into.rollup == rollup);
            into.flat_map(move |into| filled_with(key, into, variable).map(move |value| (aggregate, value)))
        });
        let mut formats = filled.map(|(aggregate, value)| self.format_of_value(aggregate, value));
        let first = formats.next()??;
        formats.try_fold(first, |common, format| common_format(common, format?))
    }

    /// When an item of a rollup expires, by the bucket of time in the item's key. `rollup` is an index into [`Model::rollups`], and `values` are the
    /// texts of [`Rollup::variables`] in the key. `None` if items of the rollup do not expire, or the time in the key is not a bucket.
    #[must_use]
    pub fn expiry_of(&self, rollup: usize, values: &[impl AsRef<str>]) -> Option<Timestamp> {
        let RollupLifetime { after, variable } = self.rollups.get(rollup)?.lifetime?;
        let TimeFormat { bucket, zone, .. } = self.bucket_format(rollup, variable)?;
        let start = bucket.parse(values.get(variable)?.as_ref(), zone.of_all())?;
        Some(start.plus(after))
    }

    /// The format in which an aggregate writes a value.
    fn format_of_value(
        &self,
        aggregate: &Aggregate,
        (term, format): (&Term, &ValueFormat),
    ) -> Option<TimeFormat> {
        let written = format.time();
        // A bucket in the key of a rollup that is a source, and its coarser buckets, are in the zone of that rollup's key.
        let below = self.entities.get(aggregate.of).and_then(|entity| entity.rollup).zip(term.key_variable());
        match (below.and_then(|(below, variable)| self.bucket_format(below, variable)), written) {
            (Some(below), Some(written)) => Some(TimeFormat { bucket: written.bucket, ..below }),
            (Some(below), None) => Some(below),
            (None, written) => written.cloned(),
        }
    }
}

/// The values that an aggregate writes into the key of one of its rollups, each with the index of its variable in [`Rollup::variables`].
pub(crate) fn key_values<'m>(
    key: &'m Rollup,
    destination: &'m RollupDestination,
) -> impl Iterator<Item = (usize, &'m Term, &'m ValueFormat)> {
    let partition = destination.partition.values_of_variables(&key.partition);
    partition.chain(destination.sort.values_of_variables(&key.sort))
}

/// The values that an aggregate fills a variable of a rollup's key with, with their formats.
pub(crate) fn filled_with<'m>(
    key: &'m Rollup,
    destination: &'m RollupDestination,
    variable: usize,
) -> impl Iterator<Item = (&'m Term, &'m ValueFormat)> {
    let values = key_values(key, destination).filter(move |(index, ..)| *index == variable);
    values.map(|(_, term, format)| (term, format))
}

/// The format that the key has for a variable.
fn own_format(key: &Rollup, variable: usize) -> Option<&TimeFormat> {
    key.partition.pieces.iter().chain(&key.sort.pieces).find_map(|piece| match piece {
        TemplatePiece::Variable(index, format) if *index == variable => format.time(),
        TemplatePiece::Variable(..) | TemplatePiece::Literal(_) => None,
    })
}

/// The format of values that are written in either of two formats: the same bucket, in zones of items if one of them is.
fn common_format(one: TimeFormat, other: TimeFormat) -> Option<TimeFormat> {
    if one.bucket != other.bucket {
        return None;
    }
    match (&one.zone, &other.zone) {
        (FormatZone::OfItem(_), _) => Some(one),
        (_, FormatZone::OfItem(_)) => Some(other),
        (FormatZone::Utc, FormatZone::Utc) => Some(one),
        (FormatZone::Named(zone), FormatZone::Named(of_other)) if zone == of_other => Some(one),
        (FormatZone::Named(_), FormatZone::Utc | FormatZone::Named(_))
        | (FormatZone::Utc, FormatZone::Named(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shops and their depots count into days of local zones; `into_day` are lines of the aggregate of a second source.
    fn format(bind: &str, other: &str) -> Option<String> {
        let model = format!(
            r##"
name = "scans"
generation = 1
tables.T.key = ["pk", "sk"]
entities.scan = {{ key = {{ pk = "DEPOT#{{depot}}", sk = "SCAN#{{scan}}" }}, attributes = {{ at = "S", tz = "S", note = "S" }} }}
entities.visit = {{ key = {{ pk = "DEPOT#{{depot}}", sk = "VISIT#{{visit}}" }}, attributes = {{ at = "S", tz = "S" }} }}
rollups.day.key = {{ PK = "DEPOT#{{depot}}", SK = "DAY#{{day}}" }}
rollups.month.key = {{ PK = "DEPOT#{{depot}}", SK = "MONTH#{{month}}" }}
[[aggregates]]
name = "scans"
of = "scan"
into = "day"
bind = {{ day = "{bind}" }}
measures.scans = "count"
[[aggregates]]
name = "visits"
of = "visit"
into = "day"
bind = {{ day = "{other}" }}
measures.visits = "count"
[[aggregates]]
name = "months"
of = "day"
into = "month"
bind = {{ month = "day:month" }}
measures.days = "count"
"##
        );
        let model = Model::parse(&model, "scans.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let of = |name: &str| {
            let index = model.rollups.iter().position(|rollup| *rollup.name == *name);
            index.and_then(|index| model.bucket_format(index, 1)).map(|format| format.to_string())
        };
        let (day, month) = (of("day"), of("month"));
        assert_eq!(day.as_ref().map(|day| day.replacen("day", "month", 1)), month.filter(|_| day.is_some()));
        day
    }

    #[test]
    fn a_variable_that_every_aggregate_fills_with_one_bucket_has_its_format() {
        assert_eq!(format("at:day", "at:day").as_deref(), Some("day"));
        assert_eq!(
            format("at:day@Europe/Berlin", "at:day@Europe/Berlin").as_deref(),
            Some("day@Europe/Berlin")
        );
        assert_eq!(format("at:day@tz", "at:day@tz").as_deref(), Some("day@tz"));
        assert_eq!(format("at:day", "at:day@tz").as_deref(), Some("day@tz"));
        assert_eq!(format("at:day", "at:day@Asia/Tokyo"), None);
    }

    #[test]
    fn a_variable_that_an_aggregate_fills_with_another_value_has_no_format() {
        assert_eq!(format("note", "at:day"), None);
        assert_eq!(format("at:month", "at:day"), None);
    }
}
