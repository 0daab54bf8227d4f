//! Saved queries: `[queries.<name>]`.

use std::sync::Arc;

use super::column_type::is_column_name;
use super::load::compiler::ModelCompiler;
use super::load::problem::ProblemCode;
use super::load::reader::SettingsTable;
use super::load::suggestion::listed;

/// A query that is kept with the model.
#[derive(Debug)]
pub struct SavedQuery {
    /// Its name.
    pub name: Arc<str>,
    /// The result of the query, described in a sentence.
    pub about: Arc<str>,
    /// One `SELECT` in Athena's SQL, over the datasets' views.
    pub sql: Arc<str>,
}

/// The keys of a saved query.
pub(super) const KEYS: [&str; 2] = ["about", "sql"];

/// Compiles a saved query.
pub(super) fn compile(compiler: &mut ModelCompiler<'_, '_>, settings: &SettingsTable<'_>) -> Option<()> {
    let SettingsTable { owner, name, at, .. } = settings;
    let problems = &mut *compiler.problems;
    let (about, sql) = (settings.required_text("about", problems)?, settings.required_text("sql", problems)?);
    let text = sql.value.trim();
    if !is_column_name(name) {
        let message =
            format!("{owner}: a name is made of lower-case letters, digits and `_`, a letter first");
        compiler.report(ProblemCode::InvalidName, *at, message);
    }
    let is_select = ["select", "with"]
        .iter()
        .any(|word| text.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word)));
    if !is_select || text.contains(';') {
        let message = format!("{owner}: `sql` must be one SELECT (or WITH … SELECT), without a `;`");
        compiler.report(ProblemCode::InvalidQuery, sql.at, message);
    }
    check_query(compiler, owner, sql.at, text);
    compiler.model.queries.push(SavedQuery {
        name: Arc::from(*name),
        about: Arc::from(about.value),
        sql: Arc::from(text),
    });
    Some(())
}

/// Checks that a query names a dataset, the table of all its rows (`<name>_log`) or the view of its newest rows (`<name>_now`). Anything more would need an SQL parser.
fn check_query(compiler: &mut ModelCompiler<'_, '_>, owner: &str, at: usize, sql: &str) {
    let sql = sql.to_ascii_lowercase();
    let words: Vec<&str> =
        sql.split(|character: char| !character.is_ascii_alphanumeric() && character != '_').collect();
    let mut datasets = compiler.model.datasets.iter();
    let is_dataset = |word: &str, name: &str| {
        word.strip_prefix(name).is_some_and(|suffix| ["", "_log", "_now"].contains(&suffix))
    };
    if !datasets.any(|dataset| words.iter().any(|word| is_dataset(word, &dataset.name))) {
        let known: Vec<&str> = compiler.model.datasets.iter().map(|dataset| &*dataset.name).collect();
        let known = if known.is_empty() { "there are none".to_owned() } else { listed(&known) };
        let message = format!("{owner}: `sql` reads none of the model's datasets: {known}");
        compiler.report(ProblemCode::QueryWithoutDataset, at, message);
    }
}
