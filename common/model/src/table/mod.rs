//! The table model: what a table's items are, and what is derived from them. One TOML file, loaded, validated and compiled
//! once: names become indexes, templates become pieces, conditions become matchers. Each part has a file with its type, its
//! settings in TOML, its checks, its description and the decisions about its kinds.
//!
//! ```text
//! entity     a kind of item, recognized by its primary key
//! lookup     a value that an item lacks, read from another item by its key or through an index and remembered
//! rollup     an item of the state table that holds measures
//! aggregate  the measures that an entity's items contribute, and the rollups that hold them
//! measure    a number that an aggregate counts
//! mirror     a copy of a rollup's measure on an application's item
//! cache      the cache keys and CloudFront paths that a change of an item makes stale
//! event      the changes that other systems hear of
//! dataset    the rows that analysts query: one for each change of an item, in typed columns
//! query      a query that is kept with the model
//! ```
//!
//! # The file
//!
//! ```
//! let model = afterwrite_model::table::Model::parse(
//!     r##"
//!     name = "library"
//!     generation = 1                          # grows with every change
//!     archive = "matched"                     # or "all" (the default): change records of unknown items too
//!
//!     [tables.library]                        # the source tables and their key attributes
//!     key = ["pk", "sk"]                      # text; for another type: `types = { pk = "N" }`
//!
//!     [entities.shelf]                        # `table = "library"` may be left out where there is one table
//!     key = { pk = "OWNER#{owner_id}", sk = "SHELF#{shelf_id}" }
//!
//!     [entities.book]
//!     key = { pk = "SHELF#{shelf_id}", sk = "BOOK#{book_id}" }
//!     attributes = { price = "N", bought_at = "S", "read.pages" = "N", pages = "N", isbn = "S", isbn13 = "S", author = "S" }
//!     derive.read = { percent = ["read.pages", "pages"] }     # 100·a/b, exact; absent unless b > 0
//!     derive.number = { first = ["isbn13", "isbn"] }          # the first that is present, and not NULL
//!     derive.author_id = { part = ["author", "AUTHOR#{author_id}"] }  # of a text that is a key: the part with this name
//!     secret = ["notes"]                      # never leaves the table: nothing reads it, and it is not archived
//!     on_expiry = "keep"                      # items that TTL deletes stay counted (the default), or "subtract"
//!
//!     [lookups.shelf_owner]                   # a book has its shelf's id, not its owner's
//!     of = "shelf"
//!     index = "GSI1"
//!     key = { GSI1PK = "SHELF#{shelf_id}" }   # partition key, and a sort key if the query names one
//!     gives = ["owner_id"]
//!
//!     [rollups.shelf]                         # items of the state table, whose keys are PK and SK
//!     key = { PK = "OWNER#{owner_id}", SK = "ROLLUP#SHELF#{shelf_id}" }
//!
//!     [rollups.day]
//!     key = { PK = "DAY#{bought_at:day}", SK = "ROLLUP#BOUGHT" }
//!     shards = 4                              # spread over 4 items; then no max, min or avg
//!     expires = { after = "90 days", of = "bought_at" }
//!
//!     [[aggregates]]
//!     name = "books"
//!     of = "book"
//!     lookup = "shelf_owner"                  # one or a list
//!     into = ["shelf", "day"]                 # one or a list
//!     when.price = [{ numeric = [">", 0] }]   # a condition on the items that are counted
//!     [aggregates.measures]
//!     books = "count"
//!     finished = { count = true, when.read = [100] }
//!     spent = { sum = "price" }               # or a product: { sum = ["price", "pieces"] }
//!     thickness = { histogram = "pages", width = 100, bins = 11 }     # thickness_0000 … thickness_1000
//!
//!     [rollups.dearest]
//!     key = { PK = "OWNER#{owner_id}", SK = "ROLLUP#PRICES" }
//!
//!     [[aggregates]]
//!     name = "prices"
//!     of = "book"
//!     lookup = "shelf_owner"
//!     into = "dearest"
//!     [aggregates.measures]
//!     priced = { count = true, when.price = [{ exists = true }] }
//!     total = { sum = "price" }
//!     average = { avg = "total", over = "priced" }
//!     dearest = { max = "price" }
//!     latest = { max = "bought_at:day" }      # a text as well
//!
//!     [[mirrors]]                             # the shelf's own item shows how many books it has
//!     onto = "shelf"
//!     from = "shelf"
//!     attributes = { "stats.books" = "books" }    # and stats.books_rev, stats.books_of
//!
//!     [[caches]]                              # the keys that a change of a book makes stale
//!     of = "book"                             # one or a list
//!     keys = ["book:{book_id}", "isbn:{number}"]
//!     paths = ["/shelves/{shelf_id}/*"]       # of CloudFront
//!     when.isbn = [{ exists = true }]         # tested on the old and the new image separately
//!     depends_on = ["isbn", "isbn13", "pages"]    # a change that touches none of these makes nothing stale
//!     remedy = { tombstone = "5s" }           # or "delete" (the default), or "generation"
//!
//!     [datasets.books]                        # a table and a view of this name, for Athena
//!     of = "book"
//!     partition = "bought_at:day"             # of an attribute that never changes
//!     sort = ["shelf_id", "bought_at"]        # the order of compacted files
//!     history = "newest"                      # or "all" (the default): which rows compaction keeps
//!     lookup = "shelf_owner"                  # its outputs can be columns, if they are remembered
//!     [datasets.books.columns]                # string, int64, decimal(p,s), double, boolean, timestamp, date, binary,
//!     book_id = "string"                      # list<…>, map<…>, struct<name:…>, json (any value, as text)
//!     shelf_id = "string"
//!     owner_id = "string"
//!     price = "decimal(10,2)"
//!     bought_at = "timestamp"
//!     languages = "list<string>"              # an attribute that only a dataset reads need not be declared
//!     pages_read = { type = "int64", from = "read.pages", required = true }   # if absent: recorded in `_rescued`
//!
//!     [queries.spent_by_day]                  # kept with the model
//!     about = "What was spent on books, by day"
//!     sql = "SELECT dt, sum(price) AS spent FROM books GROUP BY dt ORDER BY dt"
//!     "##,
//!     "library.toml",
//! )?;
//! assert_eq!(model.rollups.len(), 3);
//! # Ok::<(), afterwrite_model::table::ModelErrors>(())
//! ```
//!
//! A **name** in a template, a measure or a condition means, in the scope of the aggregate's entity, the first of: a variable
//! of the key, a derived value, an output of a lookup, a declared attribute. A name that has a dot or a colon itself is in single quotes. An attribute inside maps is written with dots and
//! declared by that path or by its map (`M`); types are DynamoDB's, or `any`. In templates and in `max` and `min`, `:day` takes
//! the UTC day of a time ([`TimeBucket`] lists all formats, `:day@Europe/Berlin` is the day in a zone): RFC 3339 text, a date, an hour
//! (`2026-02-06T14`, `2026-02-06-14`), or a number since 1970. `times` of an entity states another form of a value.
//!
//! A **template** has literal text between any two variables. A variable stands for any text that is not empty, one with
//! a format for a text of its form.
//!
//! A **condition** is a Lambda event filter pattern: fields are ANDed, a field's matchers ORed. A matcher is a string, number
//! or boolean to be equal to, or `{ null = true }` (TOML has no null), or one of `prefix`, `suffix`, `equals-ignore-case`,
//! `exists`, `numeric`, `anything-but`; `"$or"` takes a list of conditions. See [`Pattern`].

mod aggregate;
mod aggregate_settings;
mod binding;
mod bound_template;
mod bucket_format;
mod cache;
mod column_type;
mod computed;
mod computed_measure;
mod dataset;
mod dataset_names;
mod derivation;
mod description;
mod distinct;
mod duration;
mod entity;
mod event;
mod expired_rows;
mod fingerprint;
mod for_each;
mod format_zone;
mod key_attribute;
mod key_mismatch;
mod key_schema;
mod latest;
mod levels;
mod load;
mod lookup;
mod measure;
mod measure_settings;
mod mirror;
mod named;
mod named_list;
mod notation;
mod number_keys;
mod on_expiry;
mod pattern;
mod percentile;
mod rank;
mod rollup;
mod rollup_keys;
mod saved_query;
mod schema;
mod secondary_index;
mod source_table;
mod state_key;
mod template;
mod template_order;
mod template_problem;
mod term;
mod time_bucket;
mod time_format;
mod time_reading;
mod times;
mod value_name;
mod value_type;

use std::sync::Arc;

pub use aggregate::{Aggregate, AggregateDescription, OnMisfit, RollupDestination, RollupExpiry};
pub use binding::KeyBinding;
pub use bound_template::{BoundPiece, BoundTemplate};
pub(crate) use bucket_format::{filled_with, key_values};
pub use cache::{ArchiveScope, CacheDescription, CacheRemedy, CacheRule, PathTemplate};
pub use column_type::ColumnType;
pub use computed_measure::{ComputedMeasure, ComputedRule, ComputedValue};
pub use dataset::{Column, Dataset, DatasetDescription, KEY_COLUMN, NO_DAY, RowHistory};
pub use derivation::{Derivation, DerivationKind, NumberTerm, TimeTerm};
pub use description::ModelDescription;
pub use duration::duration;
pub use entity::{Entity, EntityDescription, KeyPattern};
pub use event::{EventDescription, EventRule, EventSubject, EventTrigger, EventValue, ItemEvents};
pub use expired_rows::ExpiredRows;
pub use for_each::ForEach;
pub use format_zone::{FormatZone, ItemZone};
pub use key_mismatch::NearestKey;
pub use key_schema::{KeySchema, KeyType};
pub use latest::Latest;
pub use load::{
    ModelErrors, ModelProblem, ModelReport, ProblemCode, ProblemSeverity, RelatedLocation, SourceSpan,
    nearest_name,
};
pub use lookup::{Lookup, LookupDescription, LookupSource, LookupUse};
pub use measure::{Measure, MeasureDescription, MeasureFunction, MeasureKind};
pub use mirror::{COMPANION_ENDINGS, Mirror, MirrorDescription, MirroredAttribute};
pub use named_list::NamedList;
pub use notation::ModelNotation;
pub use on_expiry::OnExpiry;
pub use pattern::{ComparedValue, Operand, Pattern};
pub use percentile::{PercentileBinDescription, PercentileBins};
pub use rank::{Rank, RankDescription, RankGroup, RankIndex};
pub use rollup::{Rollup, RollupDescription, RollupLifetime};
pub use rollup_keys::RollupKeys;
pub(crate) use rollup_keys::{escaped, unescaped};
pub use saved_query::SavedQuery;
pub use secondary_index::{SecondaryIndex, index_key_text};
pub use source_table::{STATE_TABLE, Table};
pub use state_key::{SETTLED, STATE_ATTRIBUTES, can_hold_measure};
pub use template::{Template, TemplatePiece, ValueFormat};
pub use term::{ElementPath, InternedPath, Term};
pub use time_bucket::TimeBucket;
pub use time_format::TimeFormat;
pub use time_reading::{TimeNotation, TimeReading};
pub use value_name::ValueName;
pub use value_type::{DeclaredType, MixedTypes};

use crate::record::AttributeInterner;

/// A table model, validated and compiled. The indexes in its parts point into its lists.
#[derive(Debug, Default)]
pub struct Model {
    /// The model's name.
    pub name: Arc<str>,
    /// Grows with every change of the model; ledger entries carry it.
    pub generation: u64,
    /// The source tables. The state table is one of them if a rollup is a source ([`STATE_TABLE`]).
    pub tables: Vec<Table>,
    /// The kinds of items.
    pub entities: Vec<Entity>,
    /// The entities in the order in which keys are matched: if a key matches several, the first one of these counts. Indexes into
    /// [`Model::entities`].
    pub match_order: Vec<usize>,
    /// The lookups.
    pub lookups: Vec<Lookup>,
    /// The items that hold measures.
    pub rollups: Vec<Rollup>,
    /// How values are written into their keys.
    pub rollup_keys: RollupKeys,
    /// The aggregates, which count items into the rollups.
    pub aggregates: Vec<Aggregate>,
    /// The copies of measures on applications' items.
    pub mirrors: Vec<Mirror>,
    /// The cache rules.
    pub caches: Vec<CacheRule>,
    /// The event rules.
    pub events: Vec<EventRule>,
    /// Which change records are archived.
    pub archive: ArchiveScope,
    /// The rows that analysts query.
    pub datasets: Vec<Dataset>,
    /// The saved queries.
    pub queries: Vec<SavedQuery>,
    /// The names of all attributes that a part other than datasets reads; all other attributes are skipped while decoding.
    pub attributes: AttributeInterner,
    /// The same, and the names that datasets read; a name of both has one id. Of old images the attributes that days of rows come from are
    /// read at once.
    pub row_attributes: AttributeInterner,
    /// See [`Model::fingerprint`].
    fingerprint: Arc<str>,
}

impl Model {
    /// Whether an entity of the model looks up other items.
    #[must_use]
    pub fn has_lookups(&self) -> bool {
        !self.lookups.is_empty()
    }

    /// The table whose change records name the table `deployed`: it is deployed under this name, or was. `names` has the deployed name of
    /// each of [`Model::tables`].
    #[must_use]
    pub fn table_deployed_as(&self, names: &[Arc<str>], deployed: &str) -> Option<usize> {
        let is_named = |name: &Arc<str>| **name == *deployed;
        names
            .iter()
            .position(is_named)
            .or_else(|| self.tables.iter().position(|table| table.former_names.iter().any(is_named)))
    }

    /// How to set `AFTERWRITE_TABLES` if a change record names a table that [`Model::table_deployed_as`] does not find.
    #[must_use]
    pub fn deployed_name_hint(&self, deployed: &str) -> String {
        let mut declared = self.tables.iter().filter(|table| !table.is_state());
        let name = match (declared.next(), declared.next()) {
            (Some(only), None) => &*only.name,
            _ => "NAME",
        };
        let state = match self.state_source() {
            Some(_) => {
                format!(
                    ". If it is the state table, whose rollups are sources, set AFTERWRITE_STATE_TABLE to it; if it was the state table, add `{STATE_TABLE}={deployed}` to AFTERWRITE_TABLES"
                )
            }
            None => String::new(),
        };
        format!(
            "If it is a table of the model, add `{name}={deployed}` to AFTERWRITE_TABLES. If the table had this name before it was restored or \
             replaced, keep its current name first, as in `{name}=CURRENT,{name}={deployed}`: records of all names are read, the first is written{state}"
        )
    }

    /// The state table as a source: an index into [`Model::tables`]. `None` if the model names no rollup as a source.
    #[must_use]
    pub fn state_source(&self) -> Option<usize> {
        self.tables.iter().position(Table::is_state)
    }

    /// Whether the items of a rollup, an index into [`Model::rollups`], are counted, cached or exported themselves.
    #[must_use]
    pub fn is_source(&self, rollup: usize) -> bool {
        self.entities.iter().any(|entity| entity.rollup == Some(rollup))
    }

    /// The tables of the application, each with its index in [`Model::tables`]: all but the state table.
    pub fn application_tables(&self) -> impl Iterator<Item = (usize, &Table)> + Clone {
        self.tables.iter().enumerate().filter(|(_, table)| !table.is_state())
    }

    /// The highest level of the model's entities: 0 if no rollup is a source.
    #[must_use]
    pub fn highest_level(&self) -> u32 {
        self.entities.iter().map(|entity| entity.level).max().unwrap_or(0)
    }

    /// A short hash, 16 hexadecimal digits, of what decides contributions: the aggregates with their measures and
    /// conditions, and the entities, tables, lookups and rollups that they use. Ledger entries carry it: two models of one
    /// generation that count differently have different fingerprints.
    #[must_use]
    pub fn fingerprint(&self) -> &Arc<str> {
        &self.fingerprint
    }

    /// The datasets that have rows of an entity, each with its index in [`Model::datasets`].
    pub fn datasets_of(&self, entity: &Entity) -> impl Iterator<Item = (usize, &Dataset)> {
        entity.datasets.iter().filter_map(|index| Some((*index, self.datasets.get(*index)?)))
    }

    /// The name of the entity with this index into [`Model::entities`].
    #[must_use]
    pub fn entity_name(&self, entity: usize) -> String {
        self.entities.get(entity).map(|entity| entity.name.to_string()).unwrap_or_default()
    }
}
