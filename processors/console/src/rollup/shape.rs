//! A rollup of the model, with everything that its pages need to know of it.

use afterwrite_client::{ClientDescription, KeyField, ReaderDescription};
use afterwrite_model::projection::{MAX_PARTITION_KEY, MAX_SORT_KEY};
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::table::{Aggregate, Entity, Model, Rollup, TemplatePiece, TimeFormat, nearest_name};
use afterwrite_model::{Error, ErrorKind, Result};

/// A rollup of the model.
#[derive(Clone, Debug)]
pub(crate) struct RollupShape<'m> {
    pub(crate) model: &'m Model,
    /// An index into [`Model::rollups`].
    pub(crate) index: usize,
    pub(crate) rollup: &'m Rollup,
    /// Its key and its measures in words; its fields are aligned with [`Rollup::variables`].
    pub(crate) reader: ReaderDescription,
}

impl<'m> RollupShape<'m> {
    /// All rollups, in the order of the model.
    pub(crate) fn all(model: &'m Model) -> Vec<Self> {
        let readers = ClientDescription::of(model).readers;
        let rollups = model.rollups.iter().zip(readers).enumerate();
        rollups.map(|(index, (rollup, reader))| Self { model, index, rollup, reader }).collect()
    }

    /// The rollup with this name.
    ///
    /// # Errors
    /// `Configuration` if there is none.
    pub(crate) fn named(model: &'m Model, name: &str) -> Result<Self> {
        let found = Self::all(model).into_iter().find(|shape| *shape.rollup.name == *name);
        found.ok_or_else(|| {
            let names = model.rollups.iter().map(|rollup| &*rollup.name);
            let error =
                Error::new(ErrorKind::Configuration, "the model has no such rollup").with("rollup", name);
            match nearest_name(name, names) {
                Some(nearest) => error.hint(format!("Is it `{nearest}`?")),
                None => error.hint("The page Rollups lists the rollups of the model"),
            }
        })
    }

    /// The rollups that the item with this key in the state table can be.
    pub(crate) fn of_key(model: &'m Model, partition: &str, sort: &str) -> Vec<Self> {
        let all = Self::all(model).into_iter();
        all.filter(|shape| shape.rollup.has_stored_key(partition, sort)).collect()
    }

    /// The variables of the key, each with its form in words.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (usize, &str, &KeyField)> {
        let variables = self.rollup.variables.iter().zip(&self.reader.fields).enumerate();
        variables.map(|(index, (variable, field))| (index, &**variable, field))
    }

    /// The name of a variable.
    pub(crate) fn variable(&self, index: usize) -> &str {
        self.rollup.variables.get(index).map_or("", |name| name)
    }

    /// The last variable that is a bucket of time, with its format.
    pub(crate) fn bucket(&self) -> Option<(usize, TimeFormat)> {
        let bucket = self.reader.bucket?;
        Some((bucket, self.format(bucket)?))
    }

    /// The format of a variable that is a bucket of time.
    fn format(&self, variable: usize) -> Option<TimeFormat> {
        self.model.bucket_format(self.index, variable)
    }

    /// Whether the rollups of a series are in one partition, in the order of their buckets.
    pub(crate) fn is_ordered_by(&self, bucket: usize) -> bool {
        let Rollup { partition, sort, .. } = self.rollup;
        let is_bucket = |piece: &TemplatePiece| piece_variable(piece) == Some(bucket);
        let places = partition.pieces.iter().chain(&sort.pieces).filter(|piece| is_bucket(piece)).count();
        places == 1 && sort.pieces.last().is_some_and(is_bucket)
    }

    /// The aggregates that count into it.
    pub(crate) fn aggregates(&self) -> impl Iterator<Item = &'m Aggregate> {
        let index = self.index;
        let counts = move |aggregate: &&Aggregate| aggregate.into.iter().any(|into| into.rollup == index);
        self.model.aggregates.iter().filter(counts)
    }

    /// The entities whose items can be counted into it, each once.
    pub(crate) fn sources(&self) -> Vec<&'m Entity> {
        let mut indexes: Vec<usize> = self.aggregates().map(|aggregate| aggregate.of).collect();
        indexes.sort_unstable();
        indexes.dedup();
        indexes.into_iter().filter_map(|index| self.model.entities.get(index)).collect()
    }

    /// The level of its items, if it is a source: one above the items that are counted into it.
    pub(crate) fn level(&self) -> u32 {
        1 + self.sources().iter().map(|entity| entity.level).max().unwrap_or(0)
    }

    /// The key of the rollup with these values, without a shard.
    ///
    /// # Errors
    /// `Configuration` if no rollup can have this key. The error has no value.
    pub(crate) fn checked_key(&self, values: &[String]) -> Result<(String, String)> {
        for (index, value) in values.iter().enumerate() {
            self.check_form(index, value)?;
        }
        let (partition, sort) = self.rollup.key(values);
        let lengths = [(partition.len(), MAX_PARTITION_KEY), (sort.len(), MAX_SORT_KEY)];
        if lengths.iter().any(|(length, limit)| length > limit) {
            return Err(
                self.refused("the key is longer than DynamoDB allows: 2,048 bytes of PK, 1,024 bytes of SK")
            );
        }
        let read = self.rollup.values(&partition, &sort).unwrap_or_default();
        let Some(other) = values.iter().zip(&read).position(|(value, read)| **read != **value) else {
            return if read.len() == values.len() {
                Ok((partition, sort))
            } else {
                Err(self.refused("the key of these values is not a key of the rollup"))
            };
        };
        let problem = format!(
            "`{}` has text of the key in it, so that the key is that of another group; `rollup_keys = \"escaped\"` in the model allows such values",
            self.variable(other)
        );
        Err(self.refused(&problem))
    }

    /// Checks the form of a bucket of time.
    ///
    /// # Errors
    /// `Configuration` if there is no such bucket.
    pub(crate) fn check_form(&self, variable: usize, value: &str) -> Result<()> {
        let Some(format) = self.format(variable) else { return Ok(()) };
        if format.bucket.parse(value, None).is_some() {
            return Ok(());
        }
        let about = self.reader.fields.get(variable).map_or("", |field| &field.about);
        Err(self.refused(&format!("there is no such {}: write {about}", format.bucket.name())))
    }

    /// An error about a key.
    pub(crate) fn refused(&self, problem: &str) -> Error {
        Error::new(ErrorKind::Configuration, problem.to_owned()).with("rollup", &*self.rollup.name)
    }

    /// The partition keys that hold the rollup: one, or one for each shard.
    pub(crate) fn stored_partitions(&self, partition: &str) -> Vec<String> {
        match self.rollup.shards {
            0 | 1 => vec![partition.to_owned()],
            shards => (0..shards).map(|shard| format!("{partition}{}{shard}", Rollup::SHARD)).collect(),
        }
    }

    /// Whether an item with its key is counted by it, and not only by another rollup with such a key.
    pub(crate) fn is_counted_in(&self, item: &Item) -> bool {
        let has = |name: &str| item.contains_key(name);
        let is_zero = |name: &str| {
            item.get(name)
                .is_none_or(|value| value.as_number().is_some_and(afterwrite_model::record::Decimal::is_zero))
        };
        let measures = &self.reader.measures;
        let is_own = measures.iter().any(|measure| match measure.value.bins() {
            [] => has(&measure.name),
            bins => bins.iter().any(|[bin, _]| has(bin)),
        });
        is_own && !(self.reader.skips_zero && measures.iter().all(|measure| is_zero(&measure.name)))
    }
}

/// The variable of a piece.
fn piece_variable(piece: &TemplatePiece) -> Option<usize> {
    match piece {
        TemplatePiece::Literal(_) => None,
        TemplatePiece::Variable(index, _) => Some(*index),
    }
}

/// A value of an item as text: text unchanged, other values as JSON.
pub(crate) fn value_text(value: &AttributeValue<'_>) -> String {
    value.as_text().map_or_else(|| afterwrite_model::record::plain_json(value), str::to_owned)
}
