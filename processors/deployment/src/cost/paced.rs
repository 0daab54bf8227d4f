//! A sample at given rates: each entity has as many records in the trial's time as its rate states, in the order of the sample.
//!
//! The trial lasts until the first entity has no more records. Of the other entities, the first records are taken. An entity's records keep their
//! order and the rhythm that they have in the sample.

use std::collections::BTreeMap;

use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::jobs::approximate;

use super::batches::TimedRecord;

/// The name, in a rate, of items that match no entity.
pub const UNMATCHED: &str = "unmatched";

/// The changes a second of one entity.
#[derive(Clone, Debug, PartialEq)]
pub struct EntityRate {
    /// The entity's name, or [`UNMATCHED`].
    pub entity: String,
    /// Its changes a second.
    pub per_second: f64,
}

/// The items that a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RecordSource {
    /// An item of the entity with this index.
    Entity(usize),
    /// An item that matches no entity.
    Unmatched,
}

/// The share of all changes that entities without a record in the trial may have.
const RARE_SHARE: f64 = 0.01;

/// Records at their rates.
pub(super) struct PacedSample<'r> {
    /// In the order of time, in seconds from the start.
    pub(super) stream: Vec<TimedRecord<'r>>,
    /// How long they take.
    pub(super) seconds: f64,
    /// The records of items that match no entity, if they have no rate.
    pub(super) unmatched: u64,
    /// The entities that have a rate, and less than half a change in the time.
    pub(super) rare: Vec<String>,
}

/// The records of one rate.
struct RatedRecords<'r, 't> {
    rate: &'t EntityRate,
    records: Vec<TimedRecord<'r>>,
}

/// Gives the records of a sample, whose times are shares of the sample's time, the times that follow from the rates.
///
/// # Errors
/// `Configuration` for a rate of an entity that the model or the sample does not have, or a sample that is too small for the rates.
pub(super) fn paced<'r>(
    model: &Model,
    mut by_source: BTreeMap<RecordSource, Vec<TimedRecord<'r>>>,
    rates: &[EntityRate],
) -> Result<PacedSample<'r>> {
    let mut rated = Vec::new();
    for rate in rates.iter().filter(|rate| rate.per_second > 0.0) {
        let records = source_of_rate(model, rate).and_then(|source| by_source.remove(&source));
        let records = records.ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "the sample has no record of an entity with a rate")
                .with("entity", &rate.entity)
                .hint("Name each entity once, and a sample with changes of its items: --sample FILE")
        })?;
        rated.push(RatedRecords { rate, records });
    }
    let shortest = rated.iter().min_by(|one, other| one.duration().total_cmp(&other.duration()));
    let Some(shortest) = shortest else {
        return Err(Error::new(ErrorKind::Configuration, "no entity has a rate above 0")
            .hint("Pass --rate ENTITY=NUMBER/s"));
    };
    let seconds = shortest.duration();
    let rare = rare_entities(&rated, shortest)?;
    let mut stream: Vec<TimedRecord<'r>> =
        rated.into_iter().flat_map(|rated| rated.within(seconds)).collect();
    stream.sort_by(|one, other| one.at.total_cmp(&other.at));
    let unmatched = by_source.remove(&RecordSource::Unmatched).map_or(0, |records| records.len());
    Ok(PacedSample { stream, seconds, unmatched: u64::try_from(unmatched).unwrap_or(u64::MAX), rare })
}

/// The records that a rate is of. An entity may be called as items without one are.
fn source_of_rate(model: &Model, rate: &EntityRate) -> Option<RecordSource> {
    let entity = model.entities.iter().position(|entity| *entity.name == *rate.entity);
    entity.map(RecordSource::Entity).or((*rate.entity == *UNMATCHED).then_some(RecordSource::Unmatched))
}

/// The entities that have no record in the time. They may not be a part of the cost that matters.
fn rare_entities(rated: &[RatedRecords<'_, '_>], shortest: &RatedRecords<'_, '_>) -> Result<Vec<String>> {
    let seconds = shortest.duration();
    let all: f64 = rated.iter().map(|rated| rated.rate.per_second).sum();
    let missing = rated.iter().filter(|rated| rated.number_within(seconds) == 0);
    let missing: Vec<&EntityRate> = missing.map(|rated| rated.rate).collect();
    let share = missing.iter().map(|rate| rate.per_second).sum::<f64>() / all;
    if share > RARE_SHARE {
        let names: Vec<&str> = missing.iter().map(|rate| &*rate.entity).collect();
        return Err(Error::new(ErrorKind::Configuration, "the sample is too small for these rates")
            .with("entity", &shortest.rate.entity)
            .with("its changes last", format!("{seconds:.3} s"))
            .with("entities without a change in this time", names.join(", "))
            .hint(format!("Name a sample with more changes of `{}`: --sample FILE", shortest.rate.entity)));
    }
    Ok(missing.into_iter().map(|rate| rate.entity.clone()).collect())
}

impl<'r> RatedRecords<'r, '_> {
    /// How long all records take at the rate, in seconds.
    fn duration(&self) -> f64 {
        approximate(u64::try_from(self.records.len()).unwrap_or(u64::MAX)) / self.rate.per_second
    }

    /// How many records come within a time.
    fn number_within(&self, seconds: f64) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most the number of records, and not negative"
        )]
        let number = (self.rate.per_second * seconds).round() as usize;
        number.min(self.records.len())
    }

    /// The records that come within a time.
    fn within(mut self, seconds: f64) -> Vec<TimedRecord<'r>> {
        let number = self.number_within(seconds);
        if number == self.records.len() {
            self.records.iter_mut().for_each(|record| record.at *= seconds);
            return self.records;
        }
        self.records.truncate(number);
        let Some((first, last)) = self.records.first().zip(self.records.last()) else { return Vec::new() };
        let (begin, span) = (first.at, last.at - first.at);
        let gap = span / approximate(u64::try_from(number).unwrap_or(u64::MAX)).max(2.0) + f64::EPSILON;
        for record in &mut self.records {
            record.at = (record.at - begin + gap / 2.0) / (span + gap) * seconds;
        }
        self.records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = "name = \"shop\"\ngeneration = 1\ntables.t.key = [\"pk\"]\n\
                         [entities.customer]\nkey = { pk = \"CUSTOMER#{id}\" }\n\
                         [entities.order]\nkey = { pk = \"ORDER#{id}\" }\n";

    /// The records within the trial, by entity, and its seconds; the sample has these entities in this order.
    fn numbers(sample: &[&str], rates: &[(&str, f64)]) -> Result<(BTreeMap<String, usize>, f64)> {
        let model = Model::parse(MODEL, "shop.toml").unwrap();
        let mut by_source: BTreeMap<RecordSource, Vec<TimedRecord<'_>>> = BTreeMap::new();
        #[expect(clippy::cast_precision_loss, reason = "few records")]
        for (number, name) in sample.iter().enumerate() {
            let source = match *name {
                "customer" => RecordSource::Entity(0),
                "order" => RecordSource::Entity(1),
                _ => RecordSource::Unmatched,
            };
            let at = (number as f64 + 0.5) / sample.len() as f64;
            by_source.entry(source).or_default().push(TimedRecord {
                json: (*name).into(),
                table: 0,
                key: 0,
                at,
            });
        }
        let rates = rates
            .iter()
            .map(|(entity, per_second)| EntityRate { entity: (*entity).to_owned(), per_second: *per_second });
        let paced = paced(&model, by_source, &rates.collect::<Vec<_>>())?;
        assert!(paced.stream.iter().all(|record| (0.0..=paced.seconds).contains(&record.at)));
        let mut numbers = BTreeMap::new();
        for record in &paced.stream {
            *numbers.entry(record.json.to_string()).or_default() += 1;
        }
        Ok((numbers, paced.seconds))
    }

    #[test]
    fn every_entity_has_its_rate_however_the_sample_is_ordered() {
        let customers_first = ["customer"; 30].into_iter().chain(["order"; 30]).collect::<Vec<_>>();
        let orders_first = customers_first.iter().rev().copied().collect::<Vec<_>>();
        let mixed = (0..60).map(|at| if at % 2 == 0 { "customer" } else { "order" }).collect::<Vec<_>>();
        for sample in [customers_first, orders_first, mixed] {
            let (numbers, seconds) = numbers(&sample, &[("customer", 3.0), ("order", 1.0)]).unwrap();
            assert!((seconds - 10.0).abs() < 1e-9);
            assert_eq!(numbers, [("customer".to_owned(), 30), ("order".to_owned(), 10)].into());
        }
    }

    #[test]
    fn items_of_no_entity_have_a_rate_too() {
        let sample = ["customer", "customer", "other", "other", "other", "other"];
        let (found, _) = numbers(&sample, &[("customer", 1.0), (UNMATCHED, 1.0)]).unwrap();
        assert_eq!(found, [("customer".to_owned(), 2), ("other".to_owned(), 2)].into());
        let (found, _) = numbers(&sample, &[("customer", 1.0)]).unwrap();
        assert_eq!(found, [("customer".to_owned(), 2)].into());
    }

    #[test]
    fn a_sample_without_a_change_of_an_entity_that_matters_is_too_small() {
        let mut sample = vec!["customer"];
        sample.extend(["order"; 1000]);
        let error = numbers(&sample, &[("customer", 3.0), ("order", 1.0)]).unwrap_err().to_string();
        assert!(error.contains("too small") && error.contains("customer"), "{error}");
        // Three customers a day beside an order a second: of 1,000 s, a customer has a tenth of a change.
        let (found, _) = numbers(&sample, &[("customer", 3.0 / 86_400.0), ("order", 1.0)]).unwrap();
        assert_eq!(found, [("order".to_owned(), 1000)].into());
    }
}
