//! A model as it is written: the TOML's settings with their places, names not yet resolved.

mod caching;
mod counting;
mod items;
mod rows;

use std::time::Duration;

use toml::de::DeTable;

use super::problem::ProblemCollector;
use super::reader::{self, Located, RawValue, SettingsTable, entries, place};
use crate::table::{ArchiveScope, CacheRemedy, ColumnType, KeyType, OnExpiry, RowHistory};

/// A whole model file.
pub(in crate::table::load) struct ModelDocument<'d> {
    pub(in crate::table::load) name: Located<&'d str>,
    pub(in crate::table::load) generation: u64,
    pub(in crate::table::load) tables: Vec<TableSettings<'d>>,
    pub(in crate::table::load) entities: Vec<EntitySettings<'d>>,
    pub(in crate::table::load) lookups: Vec<LookupSettings<'d>>,
    pub(in crate::table::load) rollups: Vec<RollupSettings<'d>>,
    pub(in crate::table::load) aggregates: Vec<AggregateSettings<'d>>,
    pub(in crate::table::load) mirrors: Vec<MirrorSettings<'d>>,
    pub(in crate::table::load) caches: Vec<CacheSettings<'d>>,
    pub(in crate::table::load) archive: ArchiveScope,
    pub(in crate::table::load) datasets: Vec<DatasetSettings<'d>>,
    pub(in crate::table::load) queries: Vec<QuerySettings<'d>>,
}

pub(in crate::table::load) struct TableSettings<'d> {
    pub(in crate::table::load) name: Located<&'d str>,
    pub(in crate::table::load) key: Vec<Located<&'d str>>,
    /// The types of key attributes that are not text.
    pub(in crate::table::load) types: Vec<(Located<&'d str>, KeyType)>,
}

/// Name and template of each key attribute, as written.
pub(in crate::table::load) type KeySettings<'d> = Vec<(Located<&'d str>, Located<&'d str>)>;

pub(in crate::table::load) struct EntitySettings<'d> {
    pub(in crate::table::load) name: Located<&'d str>,
    pub(in crate::table::load) table: Option<Located<&'d str>>,
    pub(in crate::table::load) key: KeySettings<'d>,
    pub(in crate::table::load) attributes: Vec<(Located<&'d str>, ValueType)>,
    pub(in crate::table::load) derive: Vec<(Located<&'d str>, DeriveSettings<'d>)>,
    pub(in crate::table::load) on_expiry: OnExpiry,
    pub(in crate::table::load) secrets: Vec<Located<&'d str>>,
}

/// What type a value has: what an attribute is declared as, or what follows from where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table::load) enum ValueType {
    /// An `S`; also a variable of a key.
    Text,
    Number,
    Bool,
    Map,
    /// A list, a set or binary: conditions can test it, but it is no single value.
    Other,
    Any,
    /// A derived percentage: never declared.
    Ratio,
}

impl ValueType {
    const NAMES: [&'static str; 9] = ["S", "N", "BOOL", "M", "L", "SS", "NS", "BS", "B"];

    fn parse(name: &str) -> Option<Self> {
        match name {
            "S" => Some(Self::Text),
            "N" => Some(Self::Number),
            "BOOL" => Some(Self::Bool),
            "M" => Some(Self::Map),
            "any" => Some(Self::Any),
            _ if Self::NAMES.contains(&name) => Some(Self::Other),
            _ => None,
        }
    }
}

pub(in crate::table::load) enum DeriveSettings<'d> {
    Percent { part: Located<&'d str>, whole: Located<&'d str> },
    First(Vec<Located<&'d str>>),
    Part { of: Located<&'d str>, key: Located<&'d str> },
}

pub(in crate::table::load) struct LookupSettings<'d> {
    pub(in crate::table::load) name: Located<&'d str>,
    pub(in crate::table::load) of: Located<&'d str>,
    pub(in crate::table::load) index: &'d str,
    pub(in crate::table::load) key: KeySettings<'d>,
    pub(in crate::table::load) gives: Vec<Located<&'d str>>,
}

pub(in crate::table::load) struct RollupSettings<'d> {
    pub(in crate::table::load) name: Located<&'d str>,
    pub(in crate::table::load) key: KeySettings<'d>,
    pub(in crate::table::load) shards: u32,
    pub(in crate::table::load) expires: Option<(Duration, Located<&'d str>)>,
}

pub(in crate::table::load) struct AggregateSettings<'d> {
    pub(in crate::table::load) name: Located<&'d str>,
    pub(in crate::table::load) of: Located<&'d str>,
    pub(in crate::table::load) lookups: Vec<Located<&'d str>>,
    pub(in crate::table::load) when: Option<RawValue<'d>>,
    pub(in crate::table::load) into: Vec<Located<&'d str>>,
    pub(in crate::table::load) measures: Vec<MeasureSettings<'d>>,
}

pub(in crate::table::load) struct MeasureSettings<'d> {
    pub(in crate::table::load) name: Located<&'d str>,
    pub(in crate::table::load) when: Option<RawValue<'d>>,
    pub(in crate::table::load) kind: MeasureKindSettings<'d>,
}

pub(in crate::table::load) enum MeasureKindSettings<'d> {
    Count,
    Sum(Vec<Located<&'d str>>),
    Max(Located<&'d str>),
    Min(Located<&'d str>),
    Histogram { of: Located<&'d str>, width: i64, bins: i64 },
    Average { sum: Located<&'d str>, over: Located<&'d str> },
}

pub(in crate::table::load) struct MirrorSettings<'d> {
    pub(in crate::table::load) at: usize,
    pub(in crate::table::load) onto: Located<&'d str>,
    pub(in crate::table::load) from: Located<&'d str>,
    /// Path and measure.
    pub(in crate::table::load) attributes: Vec<(Located<&'d str>, Located<&'d str>)>,
}

pub(in crate::table::load) struct CacheSettings<'d> {
    pub(in crate::table::load) of: Vec<Located<&'d str>>,
    pub(in crate::table::load) keys: Vec<Located<&'d str>>,
    pub(in crate::table::load) paths: Vec<Located<&'d str>>,
    pub(in crate::table::load) when: Option<RawValue<'d>>,
    pub(in crate::table::load) depends_on: Vec<Located<&'d str>>,
    pub(in crate::table::load) remedy: CacheRemedy,
}

pub(in crate::table::load) struct DatasetSettings<'d> {
    pub(in crate::table::load) name: Located<&'d str>,
    pub(in crate::table::load) of: Located<&'d str>,
    pub(in crate::table::load) partition: Located<&'d str>,
    pub(in crate::table::load) days: (&'d str, &'d str),
    pub(in crate::table::load) lookups: Vec<Located<&'d str>>,
    pub(in crate::table::load) columns: Vec<ColumnSettings<'d>>,
    pub(in crate::table::load) sort: Vec<Located<&'d str>>,
    pub(in crate::table::load) history: RowHistory,
}

pub(in crate::table::load) struct ColumnSettings<'d> {
    pub(in crate::table::load) name: Located<&'d str>,
    pub(in crate::table::load) column_type: ColumnType,
    pub(in crate::table::load) from: Located<&'d str>,
    pub(in crate::table::load) required: bool,
}

pub(in crate::table::load) struct QuerySettings<'d> {
    pub(in crate::table::load) name: Located<&'d str>,
    pub(in crate::table::load) about: &'d str,
    pub(in crate::table::load) sql: Located<&'d str>,
}

impl<'d> ModelDocument<'d> {
    /// Reads the settings; `None` if so much is missing, and reported, that names cannot be resolved.
    pub(in crate::table::load) fn read(
        root: &'d DeTable<'d>,
        problems: &mut ProblemCollector<'_>,
    ) -> Option<Self> {
        let known = [
            "name",
            "generation",
            "tables",
            "entities",
            "lookups",
            "rollups",
            "aggregates",
            "mirrors",
            "caches",
            "datasets",
            "queries",
            "archive",
        ];
        let model = SettingsTable::new("model".to_owned(), 0, root, &known, problems);
        let name = model.required_text("name", problems);
        model.require("generation", problems);
        let generation = model.integer("generation", 1..=i64::MAX, problems);
        let tables = named(&model, "tables", problems);
        if tables.is_empty() {
            problems.report(
                0,
                "model: no source table; declare one: `[tables.<name>]` with `key = [\"PK\", \"SK\"]`",
            );
            problems.mark_incomplete();
        }
        let read = Self {
            name: name.unwrap_or(Located { value: "", at: 0 }),
            generation: generation.and_then(|generation| u64::try_from(generation).ok()).unwrap_or(1),
            tables: collect(tables, problems, items::table),
            entities: collect(named(&model, "entities", problems), problems, items::entity),
            lookups: collect(named(&model, "lookups", problems), problems, items::lookup),
            rollups: collect(named(&model, "rollups", problems), problems, items::rollup),
            aggregates: collect(listed_tables(&model, "aggregates", problems), problems, counting::aggregate),
            mirrors: collect(listed_tables(&model, "mirrors", problems), problems, counting::mirror),
            caches: collect(listed_tables(&model, "caches", problems), problems, caching::cache),
            archive: caching::archive(&model, problems),
            datasets: collect(named(&model, "datasets", problems), problems, rows::dataset),
            queries: collect(named(&model, "queries", problems), problems, rows::query),
        };
        problems.is_complete().then_some(read)
    }
}

/// Reads all of these. One that cannot be read at all leaves the document incomplete: names that refer to it would only
/// add noise.
fn collect<'s, K, S, T>(
    from: Vec<(K, S)>,
    problems: &mut ProblemCollector<'s>,
    read: impl Fn(K, S, &mut ProblemCollector<'s>) -> Option<T>,
) -> Vec<T> {
    let mut all = Vec::new();
    for (key, settings) in from {
        match read(key, settings, problems) {
            Some(one) => all.push(one),
            None => problems.mark_incomplete(),
        }
    }
    all
}

/// `[<what>.<name>]` for every name.
fn named<'d>(
    model: &SettingsTable<'d>,
    what: &str,
    problems: &mut ProblemCollector<'_>,
) -> Vec<(Located<&'d str>, &'d DeTable<'d>)> {
    let Some(all) = model.get(what).and_then(|value| reader::table(&model.called(what), value, problems))
    else {
        return Vec::new();
    };
    let all = entries(all).into_iter();
    all.filter_map(|(name, value)| {
        Some((name, reader::table(&format!("`{what}.{}`", name.value), value, problems)?))
    })
    .collect()
}

/// `[[<what>]]`, each with its place.
fn listed_tables<'d>(
    model: &SettingsTable<'d>,
    what: &str,
    problems: &mut ProblemCollector<'_>,
) -> Vec<(usize, &'d DeTable<'d>)> {
    let Some(value) = model.get(what) else { return Vec::new() };
    let Some(array) = value.get_ref().as_array() else {
        problems.report(place(value), format!("`{what}` must be a list of tables: `[[{what}]]`"));
        problems.mark_incomplete();
        return Vec::new();
    };
    let all = array.iter();
    all.filter_map(|value| {
        Some((place(value), reader::table(&format!("an entry of `{what}`"), value, problems)?))
    })
    .collect()
}
