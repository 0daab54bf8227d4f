//! Reading datasets and saved queries.

use toml::de::DeTable;

use super::{ColumnSettings, DatasetSettings, QuerySettings};
use crate::table::load::problem::ProblemCollector;
use crate::table::load::reader::{Located, RawValue, SettingsTable, entries, place, table};
use crate::table::{ColumnType, RowHistory};

/// The days that have partitions, unless a dataset says otherwise: a query that names no day lists every one of them.
const USUAL_DAYS: (&str, &str) = ("2015-01-01", "2049-12-31");

pub(super) fn dataset<'d>(
    name: Located<&'d str>,
    value: &'d DeTable<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Option<DatasetSettings<'d>> {
    let known = ["of", "partition", "days", "lookup", "columns", "sort", "history"];
    let settings = SettingsTable::new(format!("dataset `{}`", name.value), name.at, value, &known, problems);
    let of = settings.required_text("of", problems);
    let partition = settings.required_text("partition", problems);
    let history = match settings.text("history", problems) {
        None | Some(Located { value: "all", .. }) => RowHistory::All,
        Some(Located { value: "newest", .. }) => RowHistory::Newest,
        Some(other) => {
            let message = format!(
                "{}: `history` must be \"all\" (compaction keeps every row) or \"newest\"",
                settings.owner
            );
            problems.report(other.at, message);
            RowHistory::All
        }
    };
    let days = days(&settings, problems);
    let (lookups, sort) = (settings.texts("lookup", problems), settings.texts("sort", problems));
    let columns = settings.require("columns", problems);
    let columns = columns.and_then(|value| table(&settings.called("columns"), value, problems));
    let columns: Vec<_> = columns.map(entries).unwrap_or_default();
    let columns = columns.into_iter().filter_map(|(name, value)| column(&settings, name, value, problems));
    let columns = columns.collect();
    Some(DatasetSettings { name, of: of?, partition: partition?, days, lookups, columns, sort, history })
}

fn days<'d>(settings: &SettingsTable<'d>, problems: &mut ProblemCollector<'_>) -> (&'d str, &'d str) {
    let Some(value) = settings.get("days") else { return USUAL_DAYS };
    let is_day = |day: &str| day.len() == 10 && day.parse::<jiff::civil::Date>().is_ok();
    match settings.texts("days", problems).as_slice() {
        [first, last] if is_day(first.value) && is_day(last.value) && first.value < last.value => {
            (first.value, last.value)
        }
        _ => {
            let (first, last) = USUAL_DAYS;
            let message = format!(
                "{}: `days` are the first and the last day that have partitions: [\"{first}\", \"{last}\"]",
                settings.owner
            );
            problems.report(place(value), message);
            USUAL_DAYS
        }
    }
}

fn column<'d>(
    dataset: &SettingsTable<'d>,
    name: Located<&'d str>,
    value: RawValue<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Option<ColumnSettings<'d>> {
    let owner = format!("{}: column `{}`", dataset.owner, name.value);
    let (written, from, required) = match value.get_ref().as_str() {
        Some(text) => (Located { value: text, at: place(value) }, None, false),
        None => {
            let settings = table(&owner, value, problems)?;
            let settings =
                SettingsTable::new(owner.clone(), name.at, settings, &["type", "from", "required"], problems);
            let required = settings.boolean("required", problems).unwrap_or(false);
            (settings.required_text("type", problems)?, settings.text("from", problems), required)
        }
    };
    let column_type = ColumnType::parse(written.value);
    if column_type.is_none() {
        let message = format!(
            "{owner}: unknown type `{}`; a column is `string`, `int64`, `decimal(p,s)`, `double`, `boolean`, `timestamp`, `date`, `binary`, `json`, `list<…>`, `map<…>` or `struct<name:…>`",
            written.value
        );
        problems.report(written.at, message);
    }
    Some(ColumnSettings { name, column_type: column_type?, from: from.unwrap_or(name), required })
}

pub(super) fn query<'d>(
    name: Located<&'d str>,
    value: &'d DeTable<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Option<QuerySettings<'d>> {
    let settings =
        SettingsTable::new(format!("query `{}`", name.value), name.at, value, &["about", "sql"], problems);
    let (about, sql) = (settings.required_text("about", problems)?, settings.required_text("sql", problems)?);
    Some(QuerySettings { name, about: about.value, sql })
}
