//! Reading aggregates, their measures, and mirrors.

use toml::de::{DeTable, DeValue};

use super::{AggregateSettings, MeasureKindSettings, MeasureSettings, MirrorSettings, collect};
use crate::table::load::problem::{ProblemCollector, listed};
use crate::table::load::reader::{self, Located, RawValue, SettingsTable, entries, place};

/// What a measure can be, by the key that says so.
const MEASURE_KINDS: [&str; 6] = ["count", "sum", "max", "min", "histogram", "avg"];

/// More bins than this make an item that nobody reads.
const MAX_BINS: i64 = 200;

pub(super) fn aggregate<'d>(
    at: usize,
    value: &'d DeTable<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Option<AggregateSettings<'d>> {
    let known = ["name", "of", "lookup", "when", "into", "measures"];
    let owner = match value.get("name").and_then(|name| name.get_ref().as_str()) {
        Some(name) => format!("aggregate `{name}`"),
        None => "aggregate".to_owned(),
    };
    let settings = SettingsTable::new(owner, at, value, &known, problems);
    let name = settings.required_text("name", problems);
    let of = settings.required_text("of", problems);
    let into = settings.required_texts("into", problems);
    let measures = settings.require("measures", problems);
    if settings.is_empty_list("into") {
        problems.report(at, format!("{}: `into` names no rollup; name one", settings.owner));
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
    aggregate: &SettingsTable<'d>,
    name: Located<&'d str>,
    value: RawValue<'d>,
    problems: &mut ProblemCollector<'_>,
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
    let settings = SettingsTable::new(owner, name.at, table, known, problems);
    let kind = match stated.as_slice() {
        ["count"] => {
            if settings.get("count").and_then(|value| value.get_ref().as_bool()) != Some(true) {
                problems.report(name.at, format!("{}: `count` must be true", settings.owner));
            }
            MeasureKindSettings::Count
        }
        ["sum"] => {
            let terms = settings.required_texts("sum", problems);
            if settings.is_empty_list("sum") {
                problems.report(
                    name.at,
                    format!("{}: `sum` names nothing to sum; name an attribute", settings.owner),
                );
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

pub(super) fn mirror<'d>(
    at: usize,
    value: &'d DeTable<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Option<MirrorSettings<'d>> {
    let owner = match value.get("onto").and_then(|name| name.get_ref().as_str()) {
        Some(name) => format!("mirror onto `{name}`"),
        None => "mirror".to_owned(),
    };
    let settings = SettingsTable::new(owner, at, value, &["onto", "from", "attributes"], problems);
    let onto = settings.required_text("onto", problems);
    let from = settings.required_text("from", problems);
    let attributes = settings.required_pairs("attributes", problems);
    Some(MirrorSettings { at, onto: onto?, from: from?, attributes })
}
