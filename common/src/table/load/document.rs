//! A model as it is written: the TOML's settings with their places, names not yet resolved.

use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::duration;
use super::problem::{Problems, listed};
use super::reader::{self, Raw, Settings, Written, entries, place};
use crate::table::OnExpiry;

/// A whole model file.
pub(super) struct Document<'d> {
    pub(super) name: Written<&'d str>,
    pub(super) generation: u64,
    pub(super) tables: Vec<TableSettings<'d>>,
    pub(super) entities: Vec<EntitySettings<'d>>,
    pub(super) lookups: Vec<LookupSettings<'d>>,
    pub(super) rollups: Vec<RollupSettings<'d>>,
    pub(super) aggregates: Vec<AggregateSettings<'d>>,
    pub(super) mirrors: Vec<MirrorSettings<'d>>,
    /// The entities that caches and datasets are of. This version keeps neither; a model may already declare them.
    pub(super) kept_for_later: Vec<(String, Written<&'d str>)>,
}

pub(super) struct TableSettings<'d> {
    pub(super) name: Written<&'d str>,
    pub(super) key: Vec<Written<&'d str>>,
}

/// Name and template of each key attribute, as written.
pub(super) type KeySettings<'d> = Vec<(Written<&'d str>, Written<&'d str>)>;

pub(super) struct EntitySettings<'d> {
    pub(super) name: Written<&'d str>,
    pub(super) table: Option<Written<&'d str>>,
    pub(super) key: KeySettings<'d>,
    pub(super) attributes: Vec<(Written<&'d str>, ValueType)>,
    pub(super) derive: Vec<(Written<&'d str>, DeriveSettings<'d>)>,
    pub(super) on_expiry: OnExpiry,
}

/// What type a value has: what an attribute is declared as, or what follows from where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueType {
    /// An `S`; also a variable of a key and what a lookup gives.
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

pub(super) enum DeriveSettings<'d> {
    Percent { part: Written<&'d str>, whole: Written<&'d str> },
    First(Vec<Written<&'d str>>),
}

pub(super) struct LookupSettings<'d> {
    pub(super) name: Written<&'d str>,
    pub(super) of: Written<&'d str>,
    pub(super) index: &'d str,
    pub(super) key: KeySettings<'d>,
    pub(super) gives: Vec<Written<&'d str>>,
}

pub(super) struct RollupSettings<'d> {
    pub(super) name: Written<&'d str>,
    pub(super) key: KeySettings<'d>,
    pub(super) shards: u32,
    pub(super) expires: Option<(Duration, Written<&'d str>)>,
}

pub(super) struct AggregateSettings<'d> {
    pub(super) name: Written<&'d str>,
    pub(super) of: Written<&'d str>,
    pub(super) lookups: Vec<Written<&'d str>>,
    pub(super) when: Option<Raw<'d>>,
    pub(super) into: Vec<Written<&'d str>>,
    pub(super) measures: Vec<MeasureSettings<'d>>,
}

pub(super) struct MeasureSettings<'d> {
    pub(super) name: Written<&'d str>,
    pub(super) when: Option<Raw<'d>>,
    pub(super) kind: MeasureKindSettings<'d>,
}

pub(super) enum MeasureKindSettings<'d> {
    Count,
    Sum(Vec<Written<&'d str>>),
    Max(Written<&'d str>),
    Min(Written<&'d str>),
    Histogram { of: Written<&'d str>, width: i64, bins: i64 },
    Average { sum: Written<&'d str>, over: Written<&'d str> },
}

pub(super) struct MirrorSettings<'d> {
    pub(super) at: usize,
    pub(super) onto: Written<&'d str>,
    pub(super) from: Written<&'d str>,
    /// Path and measure.
    pub(super) attributes: Vec<(Written<&'d str>, Written<&'d str>)>,
}

/// What a measure can be, by the key that says so.
const MEASURE_KINDS: [&str; 6] = ["count", "sum", "max", "min", "histogram", "avg"];

/// More bins than this make an item that nobody reads.
const MAX_BINS: i64 = 200;
/// More shards than this cost more reads than they spare writes.
const MAX_SHARDS: i64 = 1000;

impl<'d> Document<'d> {
    /// Reads the settings; `None` if so much is missing, and reported, that names cannot be resolved.
    pub(super) fn read(root: &'d DeTable<'d>, problems: &mut Problems<'_>) -> Option<Self> {
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
            "archive",
        ];
        let model = Settings::new("model".to_owned(), 0, root, &known, problems);
        let name = model.required_text("name", problems);
        model.require("generation", problems);
        let generation = model.integer("generation", 1..=i64::MAX, problems);
        let mut kept_for_later = Vec::new();
        for (name, value) in named(&model, "datasets", problems) {
            kept_for_later.extend(entity_of(value).map(|of| (format!("dataset `{}`", name.value), of)));
        }
        for (_, value) in listed_tables(&model, "caches", problems) {
            kept_for_later.extend(entity_of(value).map(|of| ("cache".to_owned(), of)));
        }
        let tables = named(&model, "tables", problems);
        if tables.is_empty() {
            problems.report(
                0,
                "model: no source table; declare one: `[tables.<name>]` with `key = [\"PK\", \"SK\"]`",
            );
            problems.mark_incomplete();
        }
        let read = Self {
            name: name.unwrap_or(Written { value: "", at: 0 }),
            generation: generation.and_then(|generation| u64::try_from(generation).ok()).unwrap_or(1),
            tables: collect(tables, problems, table),
            entities: collect(named(&model, "entities", problems), problems, entity),
            lookups: collect(named(&model, "lookups", problems), problems, lookup),
            rollups: collect(named(&model, "rollups", problems), problems, rollup),
            aggregates: collect(listed_tables(&model, "aggregates", problems), problems, aggregate),
            mirrors: collect(listed_tables(&model, "mirrors", problems), problems, mirror),
            kept_for_later,
        };
        problems.is_complete().then_some(read)
    }
}

/// Reads all of these. One that cannot be read at all leaves the document incomplete: names that refer to it would only
/// add noise.
fn collect<'s, K, S, T>(
    from: Vec<(K, S)>,
    problems: &mut Problems<'s>,
    read: impl Fn(K, S, &mut Problems<'s>) -> Option<T>,
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
    model: &Settings<'d>,
    what: &str,
    problems: &mut Problems<'_>,
) -> Vec<(Written<&'d str>, &'d DeTable<'d>)> {
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
    model: &Settings<'d>,
    what: &str,
    problems: &mut Problems<'_>,
) -> Vec<(usize, &'d DeTable<'d>)> {
    let Some(value) = model.get(what) else { return Vec::new() };
    let Some(array) = value.get_ref().as_array() else {
        problems.report(place(value), format!("`{what}` must be a list of tables: `[[{what}]]`"));
        problems.mark_incomplete();
        return Vec::new();
    };
    let all = array.iter();
    all.filter_map(|value| Some((place(value), reader::table(&format!("`{what}`"), value, problems)?)))
        .collect()
}

fn entity_of<'d>(table: &'d DeTable<'d>) -> Option<Written<&'d str>> {
    let value = table.get("of")?;
    value.get_ref().as_str().map(|name| Written { value: name, at: place(value) })
}

fn table<'d>(
    name: Written<&'d str>,
    value: &'d DeTable<'d>,
    problems: &mut Problems<'_>,
) -> Option<TableSettings<'d>> {
    let settings = Settings::new(format!("table `{}`", name.value), name.at, value, &["key"], problems);
    let key = settings.required_texts("key", problems);
    let problem = match key.as_slice() {
        [partition, sort] if partition.value == sort.value => {
            Some("the partition key and the sort key have one name")
        }
        [_] | [_, _] => None,
        _ => Some("`key` names the partition key and, if there is one, the sort key"),
    };
    if let (Some(problem), Some(value)) = (problem, settings.get("key")) {
        problems.report(place(value), format!("{}: {problem}", settings.owner));
        problems.mark_incomplete();
    }
    Some(TableSettings { name, key })
}

fn entity<'d>(
    name: Written<&'d str>,
    value: &'d DeTable<'d>,
    problems: &mut Problems<'_>,
) -> Option<EntitySettings<'d>> {
    let known = ["table", "key", "attributes", "derive", "on_expiry"];
    let settings = Settings::new(format!("entity `{}`", name.value), name.at, value, &known, problems);
    let key = settings.required_pairs("key", problems);
    let mut attributes = Vec::new();
    if let Some(value) = settings.get("attributes") {
        for (attribute, declared) in reader::pairs(&settings.called("attributes"), value, problems) {
            let value_type = ValueType::parse(declared.value);
            if value_type.is_none() {
                let known = ValueType::NAMES.map(|name| format!("`{name}`")).join(", ");
                problems.report(
                    declared.at,
                    format!(
                        "{}: attribute `{}`: unknown type `{}`; known types are {known} and `any`",
                        settings.owner, attribute.value, declared.value,
                    ),
                );
            }
            attributes.push((attribute, value_type.unwrap_or(ValueType::Any)));
        }
    }
    let derive =
        settings.get("derive").and_then(|value| reader::table(&settings.called("derive"), value, problems));
    let derive = collect(derive.map(entries).unwrap_or_default(), problems, |name, value, problems| {
        Some((name, derived(&settings, name, value, problems)?))
    });
    let on_expiry = match settings.text("on_expiry", problems) {
        None => OnExpiry::Keep,
        Some(Written { value: "keep", .. }) => OnExpiry::Keep,
        Some(Written { value: "subtract", .. }) => OnExpiry::Subtract,
        Some(other) => {
            problems.report(
                other.at,
                format!(
                    "{}: `on_expiry` must be \"keep\" (what TTL deletes stays counted) or \"subtract\"",
                    settings.owner
                ),
            );
            OnExpiry::Keep
        }
    };
    Some(EntitySettings { name, table: settings.text("table", problems), key, attributes, derive, on_expiry })
}

fn derived<'d>(
    entity: &Settings<'d>,
    name: Written<&'d str>,
    value: Raw<'d>,
    problems: &mut Problems<'_>,
) -> Option<DeriveSettings<'d>> {
    let owner = format!("{}: derived value `{}`", entity.owner, name.value);
    let table = reader::table(&owner, value, problems)?;
    let settings = Settings::new(owner, name.at, table, &["percent", "first"], problems);
    match (settings.get("percent"), settings.get("first")) {
        (Some(_), None) => match settings.texts("percent", problems).as_slice() {
            [part, whole] => Some(DeriveSettings::Percent { part: *part, whole: *whole }),
            _ => {
                let message = format!("{}: `percent` takes two attributes: [part, whole]", settings.owner);
                problems.report(name.at, message);
                None
            }
        },
        (None, Some(_)) => {
            let attributes = settings.texts("first", problems);
            if attributes.is_empty() {
                problems.report(name.at, format!("{}: `first` takes one attribute or more", settings.owner));
                return None;
            }
            Some(DeriveSettings::First(attributes))
        }
        _ => {
            let message = format!(
                "{}: say either `percent = [part, whole]` or `first = [attribute, …]`",
                settings.owner
            );
            problems.report(name.at, message);
            None
        }
    }
}

fn lookup<'d>(
    name: Written<&'d str>,
    value: &'d DeTable<'d>,
    problems: &mut Problems<'_>,
) -> Option<LookupSettings<'d>> {
    let known = ["of", "index", "key", "gives"];
    let settings = Settings::new(format!("lookup `{}`", name.value), name.at, value, &known, problems);
    let of = settings.required_text("of", problems);
    let index = settings.required_text("index", problems);
    let key = settings.required_pairs("key", problems);
    let gives = settings.required_texts("gives", problems);
    if settings.get("key").is_some() && !(1..=2).contains(&key.len()) {
        let message = format!(
            "{}: `key` gives the index's partition key and, if the query names one, its sort key",
            settings.owner
        );
        problems.report(name.at, message);
    }
    if settings.get("gives").is_some() && gives.is_empty() {
        problems
            .report(name.at, format!("{}: `gives` names nothing; name what is looked up", settings.owner));
        problems.mark_incomplete();
    }
    Some(LookupSettings { name, of: of?, index: index?.value, key, gives })
}

fn rollup<'d>(
    name: Written<&'d str>,
    value: &'d DeTable<'d>,
    problems: &mut Problems<'_>,
) -> Option<RollupSettings<'d>> {
    let known = ["key", "shards", "expires"];
    let settings = Settings::new(format!("rollup `{}`", name.value), name.at, value, &known, problems);
    let key = settings.required_pairs("key", problems);
    let shards = settings.integer("shards", 1..=MAX_SHARDS, problems).unwrap_or(1);
    let expires = settings.get("expires").and_then(|value| {
        let owner = format!("{}: `expires`", settings.owner);
        let table = reader::table(&owner, value, problems)?;
        let expires = Settings::new(owner, place(value), table, &["after", "of"], problems);
        let (after, of) = (expires.required_text("after", problems), expires.required_text("of", problems));
        let after = after?;
        let length = duration::parse(after.value);
        if length.is_none() {
            let message = format!(
                "{}: `after` must be a length of time like \"90 days\" (seconds, minutes, hours, days or weeks)",
                expires.owner
            );
            problems.report(after.at, message);
        }
        Some((length?, of?))
    });
    Some(RollupSettings { name, key, shards: u32::try_from(shards).unwrap_or(1), expires })
}

fn aggregate<'d>(
    at: usize,
    value: &'d DeTable<'d>,
    problems: &mut Problems<'_>,
) -> Option<AggregateSettings<'d>> {
    let known = ["name", "of", "lookup", "when", "into", "measures"];
    let owner = match value.get("name").and_then(|name| name.get_ref().as_str()) {
        Some(name) => format!("aggregate `{name}`"),
        None => "aggregate".to_owned(),
    };
    let settings = Settings::new(owner, at, value, &known, problems);
    let name = settings.required_text("name", problems);
    let of = settings.required_text("of", problems);
    let into = settings.required_texts("into", problems);
    let measures = settings.require("measures", problems);
    if settings.get("into").is_some() && into.is_empty() {
        problems.report(at, format!("{}: `into` names no rollup", settings.owner));
        problems.mark_incomplete();
    }
    if measures.and_then(|value| value.get_ref().as_table()).is_some_and(|table| table.is_empty()) {
        problems.report(at, format!("{}: `measures` declares nothing to count", settings.owner));
    }
    let measures = measures.and_then(|value| reader::table(&settings.called("measures"), value, problems));
    let measures = collect(measures.map(entries).unwrap_or_default(), problems, |name, value, problems| {
        measure(&settings, name, value, problems)
    });
    Some(AggregateSettings {
        name: name?,
        of: of?,
        lookups: settings.texts("lookup", problems),
        when: settings.get("when"),
        into,
        measures,
    })
}

fn measure<'d>(
    aggregate: &Settings<'d>,
    name: Written<&'d str>,
    value: Raw<'d>,
    problems: &mut Problems<'_>,
) -> Option<MeasureSettings<'d>> {
    let owner = format!("{}: measure `{}`", aggregate.owner, name.value);
    if let DeValue::String(kind) = value.get_ref() {
        if kind == "count" {
            return Some(MeasureSettings { name, when: None, kind: MeasureKindSettings::Count });
        }
        let message = format!(
            "{owner}: only \"count\" is written as a string; others are tables, like {{ sum = \"attribute\" }}"
        );
        problems.report(place(value), message);
        return None;
    }
    let table = reader::table(&owner, value, problems)?;
    let stated: Vec<&str> = MEASURE_KINDS.into_iter().filter(|kind| table.contains_key(*kind)).collect();
    let known: &[&str] = match stated.as_slice() {
        ["count"] => &["count", "when"],
        ["sum"] => &["sum", "when"],
        ["max"] => &["max", "when"],
        ["min"] => &["min", "when"],
        ["histogram"] => &["histogram", "width", "bins", "when"],
        ["avg"] => &["avg", "over"],
        _ => {
            let message = format!("{owner}: say exactly one of {}", listed(&MEASURE_KINDS));
            problems.report(name.at, message);
            return None;
        }
    };
    let settings = Settings::new(owner, name.at, table, known, problems);
    let kind = match stated.as_slice() {
        ["count"] => {
            if settings.get("count").and_then(|value| value.get_ref().as_bool()) != Some(true) {
                problems.report(name.at, format!("{}: `count` must be true", settings.owner));
            }
            MeasureKindSettings::Count
        }
        ["sum"] => {
            let terms = settings.required_texts("sum", problems);
            if terms.is_empty() {
                problems.report(name.at, format!("{}: `sum` names nothing to sum", settings.owner));
            }
            MeasureKindSettings::Sum(terms)
        }
        ["max"] => MeasureKindSettings::Max(settings.required_text("max", problems)?),
        ["min"] => MeasureKindSettings::Min(settings.required_text("min", problems)?),
        ["histogram"] => {
            settings.require("width", problems);
            settings.require("bins", problems);
            let width = settings.integer("width", 1..=i64::from(u32::MAX), problems);
            let bins = settings.integer("bins", 1..=MAX_BINS, problems);
            let of = settings.required_text("histogram", problems)?;
            MeasureKindSettings::Histogram { of, width: width?, bins: bins? }
        }
        _ => MeasureKindSettings::Average {
            sum: settings.required_text("avg", problems)?,
            over: settings.required_text("over", problems)?,
        },
    };
    Some(MeasureSettings { name, when: settings.get("when"), kind })
}

fn mirror<'d>(at: usize, value: &'d DeTable<'d>, problems: &mut Problems<'_>) -> Option<MirrorSettings<'d>> {
    let owner = match value.get("onto").and_then(|name| name.get_ref().as_str()) {
        Some(name) => format!("mirror onto `{name}`"),
        None => "mirror".to_owned(),
    };
    let settings = Settings::new(owner, at, value, &["onto", "from", "attributes"], problems);
    let onto = settings.required_text("onto", problems);
    let from = settings.required_text("from", problems);
    let attributes = settings.required_pairs("attributes", problems);
    Some(MirrorSettings { at, onto: onto?, from: from?, attributes })
}
