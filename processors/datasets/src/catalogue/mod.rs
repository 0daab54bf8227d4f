//! The catalogue: the SQL that Athena needs for a model's datasets, and the model's saved queries.
//!
//! ```text
//! dataset ──▶ tables/<name>_log.sql   the table of all rows, with projected partitions: no crawler, no MSCK REPAIR TABLE
//!         └─▶ views/<name>.sql        the view of the current state: the newest row of each item, without deleted items
//! query   ──▶ queries/<name>.sql      as written in the model
//! ```
//!
//! This module only makes text. The `SELECT` of a view and the saved queries are portable SQL, so that other engines run the same text
//! as Athena: names are quoted, and the order of nulls is explicit.

mod table;
mod view;

use afterwrite::table::{Dataset, Model};

pub use self::table::create_table;
pub use self::view::{create_view, select_newest};

/// The placeholder for the bucket's name. Athena's own placeholder, `${dt}`, stays in the text.
pub const BUCKET: &str = "${bucket}";

/// The partition column.
pub const PARTITION: &str = "dt";

/// One SQL statement of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueStatement {
    /// What it creates or queries.
    pub kind: StatementKind,
    /// The name of the table, the view or the saved query.
    pub name: String,
    /// Its text, without a trailing `;` or line break.
    pub sql: String,
}

/// What a statement creates or queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// The table of a dataset's rows.
    Table,
    /// The view of a dataset's items. Needs the table.
    View,
    /// A saved query. Needs the views, and may need the tables.
    Query,
}

impl CatalogueStatement {
    /// Its file, such as `tables/attempts_log.sql`.
    #[must_use]
    pub fn path(&self) -> String {
        let folder = match self.kind {
            StatementKind::Table => "tables",
            StatementKind::View => "views",
            StatementKind::Query => "queries",
        };
        format!("{folder}/{}.sql", self.name)
    }

    /// The content of that file.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{}\n", self.sql)
    }
}

/// All statements of a model, in an order in which they can be run: tables, views, saved queries.
#[must_use]
pub fn statements(model: &Model) -> Vec<CatalogueStatement> {
    let tables = model.datasets.iter().map(|dataset| CatalogueStatement {
        kind: StatementKind::Table,
        name: log_name(dataset),
        sql: create_table(dataset),
    });
    let views = model.datasets.iter().map(|dataset| CatalogueStatement {
        kind: StatementKind::View,
        name: dataset.name.to_string(),
        sql: create_view(model, dataset),
    });
    let queries = model.queries.iter().map(|query| CatalogueStatement {
        kind: StatementKind::Query,
        name: query.name.to_string(),
        // A block comment: the AWS command line would take a text that begins with `--` for an option.
        sql: format!("/* {} */\n{}", query.about.trim().replace("*/", "* /"), query.sql.trim()),
    });
    tables.chain(views).chain(queries).collect()
}

/// The name of the table of a dataset's rows, such as `attempts_log`.
#[must_use]
pub fn log_name(dataset: &Dataset) -> String {
    format!("{}_log", dataset.name)
}

#[cfg(test)]
mod tests;
