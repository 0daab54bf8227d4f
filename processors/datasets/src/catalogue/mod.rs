//! The catalogue: a table model → the SQL that Athena needs to know its datasets, and what is often asked of them.
//!
//! ```text
//! dataset ──▶ tables/<name>_log.sql   the table of all rows: where the files lie, no crawler and no repair command
//!         └─▶ views/<name>.sql        the view of what is: of every item the newest row, those that are gone left out
//! query   ──▶ queries/<name>.sql      as the model has it
//! ```
//!
//! Pure text: nothing is asked and nothing is run. A view's `SELECT` and the saved queries are portable as they stand, so that
//! other engines answer the very text that Athena gets: names are quoted, the order of nulls is said, and nothing is left to
//! what an engine does when nobody says.

mod table;
mod view;

use afterwrite::table::{Dataset, Model};

pub use self::table::table;
pub use self::view::{select, view};

/// Stands for the bucket's name. Beside it stands Athena's own `${dt}`, which is to stay.
pub const BUCKET: &str = "${bucket}";

/// The column that tells a row's partition.
pub const PARTITION: &str = "dt";

/// A statement of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// What it makes or asks.
    pub kind: Kind,
    /// The name of what it makes, or of the saved query.
    pub name: String,
    /// Its text, without a `;` and without a line break at the end.
    pub sql: String,
}

/// What a statement makes or asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A dataset's rows.
    Table,
    /// A dataset's items. Needs the table.
    View,
    /// A saved query. Needs views, and perhaps tables.
    Query,
}

impl Statement {
    /// The file that it is kept in: `tables/attempts_log.sql`.
    #[must_use]
    pub fn path(&self) -> String {
        let folder = match self.kind {
            Kind::Table => "tables",
            Kind::View => "views",
            Kind::Query => "queries",
        };
        format!("{folder}/{}.sql", self.name)
    }

    /// What that file holds.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{}\n", self.sql)
    }
}

/// Everything that a model's datasets need, in an order in which it can be run: tables, views, saved queries.
#[must_use]
pub fn statements(model: &Model) -> Vec<Statement> {
    let tables = model.datasets.iter().map(|dataset| Statement {
        kind: Kind::Table,
        name: log_name(dataset),
        sql: table(dataset),
    });
    let views = model.datasets.iter().map(|dataset| Statement {
        kind: Kind::View,
        name: dataset.name.to_string(),
        sql: view(model, dataset),
    });
    let queries = model.queries.iter().map(|query| Statement {
        kind: Kind::Query,
        name: query.name.to_string(),
        // Not a comment of the other kind: a command line would take what begins with `--` for an option.
        sql: format!("/* {} */\n{}", query.about.trim().replace("*/", "* /"), query.sql.trim()),
    });
    tables.chain(views).chain(queries).collect()
}

/// The table of a dataset's rows: `attempts_log`.
#[must_use]
pub fn log_name(dataset: &Dataset) -> String {
    format!("{}_log", dataset.name)
}

#[cfg(test)]
mod tests;
