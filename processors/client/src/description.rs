//! The readers of a model's rollups in words that all languages, and the console, share.

/// The readers of a model.
#[derive(Clone, Debug)]
pub struct ClientDescription {
    /// The model's name.
    pub model: String,
    /// Its generation.
    pub generation: u64,
    /// Its fingerprint.
    pub fingerprint: String,
    /// A reader for each rollup, members of distinct counts included.
    pub readers: Vec<ReaderDescription>,
    /// The entities that show measures.
    pub mirrors: Vec<MirrorReader>,
}

impl ClientDescription {
    /// Whether a rollup is ranked.
    #[must_use]
    pub fn has_ranks(&self) -> bool {
        self.readers.iter().any(|reader| !reader.ranks.is_empty())
    }
}

/// The reader of a rollup.
#[derive(Clone, Debug)]
pub struct ReaderDescription {
    /// The rollup's name in the model.
    pub rollup: String,
    /// The name of the reader.
    pub property: String,
    /// The beginning of the names of its types.
    pub type_name: String,
    /// The sentences of its documentation.
    pub about: Vec<String>,
    /// The template of its `PK`, with the names of the fields.
    pub partition: String,
    /// The template of its `SK`.
    pub sort: String,
    /// Whether values are escaped in its keys.
    pub is_escaped: bool,
    /// Over how many items it is spread.
    pub shards: u32,
    /// The values of its key, the values of `PK` first.
    pub fields: Vec<KeyField>,
    /// The last field that is a bucket of time: an index into the fields.
    pub bucket: Option<usize>,
    /// Whether its items without a count are as good as absent.
    pub skips_zero: bool,
    /// Its measures: first the measures that items count into, then the measures that follow from others.
    pub measures: Vec<ReaderMeasure>,
    /// Its orders.
    pub ranks: Vec<ReaderRank>,
}

impl ReaderDescription {
    /// The fields that name a series of buckets.
    pub fn series(&self) -> impl Iterator<Item = &KeyField> {
        let fields = self.fields.iter().enumerate();
        fields.filter(|(index, _)| Some(*index) != self.bucket).map(|(_, field)| field)
    }

    /// The measures that add up over several rollups.
    pub fn totals(&self) -> impl Iterator<Item = &ReaderMeasure> {
        self.measures.iter().filter(|measure| measure.value.adds_up())
    }

    /// Whether a measure does not add up over several rollups.
    #[must_use]
    pub fn has_distinct(&self) -> bool {
        self.totals().count() < self.measures.len()
    }
}

/// A value of a rollup's key.
#[derive(Clone, Debug)]
pub struct KeyField {
    /// The name in the client.
    pub name: String,
    /// Its documentation.
    pub about: String,
    /// Whether `PK` has it.
    pub is_partition: bool,
}

/// A measure of a rollup.
#[derive(Clone, Debug)]
pub struct ReaderMeasure {
    /// The name in the model.
    pub name: String,
    /// Its documentation.
    pub about: String,
    /// Its kind, with what a client needs to know of it.
    pub value: ReaderValue,
}

/// The kind of a measure.
#[derive(Clone, Debug)]
pub enum ReaderValue {
    /// A number of items.
    Count,
    /// A number of different values.
    Distinct,
    /// A sum.
    Sum,
    /// The largest value ever seen.
    Max(ExtremeType),
    /// The smallest value ever seen.
    Min(ExtremeType),
    /// The value of the item with the latest time ever seen.
    Latest(ExtremeType),
    /// Numbers of items: for each bin, its attribute and where it begins.
    Histogram(Vec<[String; 2]>),
    /// Numbers of items: for each bin, its attribute and the estimate of its values.
    Percentiles(Vec<[String; 2]>),
    /// One measure divided by another.
    Average {
        /// The measure that is divided.
        sum: String,
        /// The measure that it is divided by.
        count: String,
    },
    /// A percentile, from the bins of a measure.
    Percentile {
        /// The measure with the bins.
        of: String,
        /// Which percentile.
        percent: String,
    },
}

impl ReaderValue {
    /// Whether it is the number of different values.
    #[must_use]
    pub fn is_distinct(&self) -> bool {
        match self {
            Self::Distinct => true,
            Self::Count
            | Self::Sum
            | Self::Max(_)
            | Self::Min(_)
            | Self::Latest(_)
            | Self::Histogram(_)
            | Self::Percentiles(_)
            | Self::Average { .. }
            | Self::Percentile { .. } => false,
        }
    }
}

/// The values that an extreme compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtremeType {
    /// Numbers.
    Number,
    /// Texts.
    Text,
    /// The model does not say.
    Any,
}

impl ExtremeType {
    /// The name in definitions.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Text => "text",
            Self::Any => "any",
        }
    }
}

impl ReaderValue {
    /// The name in definitions.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Distinct => "distinct",
            Self::Sum => "sum",
            Self::Max(_) => "max",
            Self::Min(_) => "min",
            Self::Latest(_) => "latest",
            Self::Histogram(_) => "histogram",
            Self::Percentiles(_) => "percentiles",
            Self::Average { .. } => "average",
            Self::Percentile { .. } => "percentile",
        }
    }

    /// Whether the measures of several rollups make one measure.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        match self {
            Self::Distinct | Self::Latest(_) => false,
            Self::Count
            | Self::Sum
            | Self::Max(_)
            | Self::Min(_)
            | Self::Histogram(_)
            | Self::Percentiles(_)
            | Self::Average { .. }
            | Self::Percentile { .. } => true,
        }
    }

    /// Whether it follows from other measures.
    #[must_use]
    pub fn is_computed(&self) -> bool {
        match self {
            Self::Average { .. } | Self::Percentile { .. } => true,
            Self::Count
            | Self::Distinct
            | Self::Sum
            | Self::Max(_)
            | Self::Min(_)
            | Self::Latest(_)
            | Self::Histogram(_)
            | Self::Percentiles(_) => false,
        }
    }

    /// Whether it has bins of percentiles.
    #[must_use]
    pub fn has_percentiles(&self) -> bool {
        match self {
            Self::Percentiles(_) => true,
            Self::Count
            | Self::Distinct
            | Self::Sum
            | Self::Max(_)
            | Self::Min(_)
            | Self::Latest(_)
            | Self::Histogram(_)
            | Self::Average { .. }
            | Self::Percentile { .. } => false,
        }
    }

    /// The bins: attribute, and where it begins or its estimate.
    #[must_use]
    pub fn bins(&self) -> &[[String; 2]] {
        match self {
            Self::Histogram(bins) | Self::Percentiles(bins) => bins,
            Self::Count
            | Self::Distinct
            | Self::Sum
            | Self::Max(_)
            | Self::Min(_)
            | Self::Latest(_)
            | Self::Average { .. }
            | Self::Percentile { .. } => &[],
        }
    }
}

/// The order of a rollup's items by a measure.
#[derive(Clone, Debug)]
pub struct ReaderRank {
    /// The name of the reader.
    pub property: String,
    /// The beginning of the names of its types.
    pub type_name: String,
    /// The measure.
    pub measure: String,
    /// The template of the group.
    pub within: String,
    /// Over how many partitions of the index a group is spread.
    pub shards: u32,
    /// The fields of the group: indexes into the fields of the rollup's key.
    pub fields: Vec<usize>,
}

/// The copies of measures that the items of an entity show.
#[derive(Clone, Debug)]
pub struct MirrorReader {
    /// The entity's name in the model.
    pub entity: String,
    /// The beginning of the name of the function.
    pub property: String,
    /// The beginning of the name of the type.
    pub type_name: String,
    /// The copies.
    pub values: Vec<MirrorValue>,
}

/// A copy of a measure on an item.
#[derive(Clone, Debug)]
pub struct MirrorValue {
    /// The path of the attribute, as the model writes it.
    pub written: String,
    /// The names of the path.
    pub path: Vec<String>,
    /// The rollup and the measure.
    pub about: String,
    /// The measure's kind.
    pub value: ReaderValue,
}
