//! Reading caches, and what is archived.

use std::time::Duration;

use toml::de::DeTable;

use super::CacheSettings;
use crate::table::load::duration;
use crate::table::load::problem::ProblemCollector;
use crate::table::load::reader::{Located, RawValue, SettingsTable, place};
use crate::table::{ArchiveScope, CacheRemedy};

/// Readers find nothing cached while a tombstone stands: an hour of it is no cache any more.
const LONGEST_TOMBSTONE: Duration = Duration::from_secs(60 * 60);

pub(super) fn cache<'d>(
    at: usize,
    value: &'d DeTable<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Option<CacheSettings<'d>> {
    let known = ["of", "keys", "paths", "when", "depends_on", "remedy"];
    let owner = match value.get("of").and_then(|name| name.get_ref().as_str()) {
        Some(name) => format!("cache of `{name}`"),
        None => "cache".to_owned(),
    };
    let settings = SettingsTable::new(owner, at, value, &known, problems);
    let of = settings.required_texts("of", problems);
    if settings.is_empty_list("of") {
        problems.report(at, format!("{}: `of` names no entity", settings.owner));
    }
    let keys = settings.texts("keys", problems);
    let paths = settings.texts("paths", problems);
    let names_any = |name| settings.get(name).is_some() && !settings.is_empty_list(name);
    if !names_any("keys") && !names_any("paths") {
        problems.report(at, format!("{}: it names neither `keys` nor `paths`", settings.owner));
    }
    let remedy = match settings.get("remedy") {
        None => CacheRemedy::Delete,
        Some(value) => {
            if !names_any("keys") {
                let message = format!("{}: a remedy is of `keys`, and there are none", settings.owner);
                problems.report(place(value), message);
            }
            remedy(&settings.called("remedy"), value, problems)
        }
    };
    let depends_on = settings.texts("depends_on", problems);
    if settings.is_empty_list("depends_on")
        && let Some(value) = settings.get("depends_on")
    {
        let message =
            format!("{}: `depends_on` names no attribute; leave it out for any change", settings.owner);
        problems.report(place(value), message);
    }
    Some(CacheSettings { of, keys, paths, when: settings.get("when"), depends_on, remedy })
}

fn remedy(called: &str, value: RawValue<'_>, problems: &mut ProblemCollector<'_>) -> CacheRemedy {
    let written = value.get_ref();
    if let Some(table) = written.as_table().filter(|table| table.contains_key("tombstone")) {
        return tombstone(called, value, table, problems);
    }
    match written.as_str() {
        Some("delete") => CacheRemedy::Delete,
        Some("generation") => CacheRemedy::Generation,
        Some(_) | None => {
            let message = format!(
                "{called} must be \"delete\", \"generation\" or a tombstone's time: {{ tombstone = \"5s\" }}"
            );
            problems.report(place(value), message);
            CacheRemedy::Delete
        }
    }
}

fn tombstone<'d>(
    called: &str,
    value: RawValue<'d>,
    table: &'d DeTable<'d>,
    problems: &mut ProblemCollector<'_>,
) -> CacheRemedy {
    let settings = SettingsTable::new(called.to_owned(), place(value), table, &["tombstone"], problems);
    let Some(written) = settings.text("tombstone", problems) else { return CacheRemedy::Delete };
    match duration::parse_short(written.value) {
        Some(time) if time <= LONGEST_TOMBSTONE => CacheRemedy::Tombstone(time),
        Some(_) | None => {
            let message =
                format!("{called}: `tombstone` must be a time like \"5s\" (ms, s or m), at most \"60m\"");
            problems.report(written.at, message);
            CacheRemedy::Delete
        }
    }
}

pub(super) fn archive(model: &SettingsTable<'_>, problems: &mut ProblemCollector<'_>) -> ArchiveScope {
    match model.text("archive", problems) {
        None | Some(Located { value: "all", .. }) => ArchiveScope::All,
        Some(Located { value: "matched", .. }) => ArchiveScope::Matched,
        Some(other) => {
            let message = "model: `archive` must be \"all\" or \"matched\" (only items that match an entity)"
                .to_owned();
            problems.report(other.at, message);
            ArchiveScope::All
        }
    }
}
