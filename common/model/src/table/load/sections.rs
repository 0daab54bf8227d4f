//! The sections of a model file: how each is written, and the headers that name or write one wrongly.

use std::ops::Range;

use toml::de::DeTable;

use super::problem::{ProblemCode, ProblemCollector};
use super::reader::{SettingsTable, entries, unknown_key};
use super::suggestion::nearest;

/// The sections, in the order in which they are documented, and how each is written.
pub(in crate::table) const SECTIONS: [(&str, &str); 14] = [
    ("name", "name"),
    ("generation", "generation"),
    ("tables", "[tables.<name>]"),
    ("entities", "[entities.<name>]"),
    ("lookups", "[lookups.<name>]"),
    ("rollups", "[rollups.<name>]"),
    ("aggregates", "[[aggregates]]"),
    ("mirrors", "[[mirrors]]"),
    ("caches", "[[caches]]"),
    ("events", "[[events]]"),
    ("datasets", "[datasets.<name>]"),
    ("queries", "[queries.<name>]"),
    ("archive", "archive"),
    ("rollup_keys", "rollup_keys"),
];

/// A header as it was written: `[[aggregates]]`, `[aggregates.measures]`.
pub(super) struct SectionHeader {
    /// Where its first name is.
    pub(super) place: Range<usize>,
    pub(super) names: Vec<String>,
    /// Whether it has double brackets.
    pub(super) is_list: bool,
}

impl SectionHeader {
    /// Why TOML does not read the header as the section that was probably meant.
    pub(super) fn problem(&self) -> Option<(ProblemCode, String)> {
        let (section, inner) = self.names.split_first()?;
        let Some(form) = form_of(section) else {
            let meant = meant_form(section, inner.first().map(String::as_str))?;
            return Some((ProblemCode::UnknownKey, unknown_section(section, Some(&meant))));
        };
        let is_misread = inner.is_empty() && form != section && self.is_list != is_list(form);
        is_misread.then(|| (ProblemCode::WrongType, wrong_form(section)))
    }
}

/// The sections of a model. An unknown section is reported and read as the missing section that was probably meant. `None` if that
/// section exists as well: the model lacks a part, and every reference to the part would be reported.
pub(super) fn read_sections<'d>(
    root: &'d DeTable<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Option<SettingsTable<'d>> {
    let (mut misspelt, mut is_split) = (Vec::new(), false);
    for (name, value) in entries(root).into_iter().filter(|(name, _)| form_of(name.value).is_none()) {
        let table = value.get_ref().as_table().and_then(|table| table.iter().next());
        let inner = table.filter(|(_, value)| value.get_ref().is_table());
        let meant = meant_form(name.value, inner.map(|(name, _)| name.get_ref().as_ref()));
        problems.report(ProblemCode::UnknownKey, name.at, unknown_section(name.value, meant.as_deref()));
        if let Some(section) = meant_section(name.value) {
            is_split |= root.contains_key(section) || misspelt.iter().any(|(other, _)| other == section);
            misspelt.push((section.to_owned(), value));
        }
    }
    (!is_split).then(|| SettingsTable::of_model(root, misspelt))
}

/// The message about a section that is written in the form of another kind of section.
pub(super) fn wrong_form(section: &str) -> String {
    let form = form_of(section).unwrap_or(section);
    let kind = if is_list(form) { "a list of tables" } else { "tables with names" };
    format!("`{section}` must be {kind}: `{form}`")
}

fn form_of(section: &str) -> Option<&'static str> {
    SECTIONS.iter().find(|(known, _)| *known == section).map(|(_, form)| *form)
}

fn is_list(form: &str) -> bool {
    form.starts_with("[[")
}

fn meant_section(name: &str) -> Option<&'static str> {
    nearest(name, SECTIONS.iter().map(|(known, _)| *known))
}

/// How the section is written that was probably meant, or the table `inner` of the newest entry of a list.
fn meant_form(name: &str, inner: Option<&str>) -> Option<String> {
    let section = meant_section(name)?;
    let form = form_of(section)?;
    let inner = inner.filter(|_| is_list(form));
    Some(inner.map_or_else(|| form.to_owned(), |inner| format!("[{section}.{inner}]")))
}

fn unknown_section(name: &str, meant: Option<&str>) -> String {
    unknown_key("model", name, meant, &SECTIONS.map(|(known, _)| known))
}
