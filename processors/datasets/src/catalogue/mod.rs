//! The catalogue: the SQL that Athena needs for a model's datasets, and the model's saved queries.
//!
//! ```text
//! dataset ──▶ tables/<name>.sql       the table of the current state: one row an item
//!         ├─▶ tables/<name>_log.sql   the table of every change
//!         └─▶ views/<name>_now.sql    the current state from the log: it includes what was exported since the last compaction
//! query   ──▶ queries/<name>.sql      as written in the model
//! ```
//!
//! This module only makes text. The `SELECT` of a view and the saved queries are portable SQL, so that other engines run the same
//! text as Athena: names are quoted, and the order of nulls is explicit.

mod table;
mod view;

use afterwrite_model::table::{Dataset, Model};

use self::table::create_table;
pub use self::view::create_view;
pub use crate::delta::PARTITION;
use crate::paths::{current_root, log_root};

/// The placeholder for the bucket's name.
pub const BUCKET: &str = "${bucket}";

/// One SQL statement of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueStatement {
    /// Its file, such as `tables/attempts_log.sql`.
    pub path: String,
    /// Its text, without a trailing `;` or line break.
    pub sql: String,
}

impl CatalogueStatement {
    /// The content of its file.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{}\n", self.sql)
    }
}

/// All statements of a model, in an order in which they can be run: tables, views, saved queries.
#[must_use]
pub fn statements(model: &Model) -> Vec<CatalogueStatement> {
    let tables = model.datasets.iter().flat_map(|dataset| {
        let (current, log) = (dataset.name.to_string(), log_name(dataset));
        [(current, current_root(dataset)), (log, log_root(dataset))].map(|(name, root)| CatalogueStatement {
            path: format!("tables/{name}.sql"),
            sql: create_table(&name, &root),
        })
    });
    let views = model.datasets.iter().map(|dataset| CatalogueStatement {
        path: format!("views/{}.sql", view_name(dataset)),
        sql: create_view(model, dataset),
    });
    let queries = model.queries.iter().map(|query| CatalogueStatement {
        path: format!("queries/{}.sql", query.name),
        // A block comment: the AWS command line would take a text that begins with `--` for an option.
        sql: format!("/* {} */\n{}", query.about.trim().replace("*/", "* /"), query.sql.trim()),
    });
    tables.chain(views).chain(queries).collect()
}

/// The name of the view of a dataset's newest rows, such as `attempts_now`.
#[must_use]
pub fn view_name(dataset: &Dataset) -> String {
    format!("{}_now", dataset.name)
}

/// The name of the table of a dataset's changes, such as `attempts_log`.
#[must_use]
pub fn log_name(dataset: &Dataset) -> String {
    format!("{}_log", dataset.name)
}

#[cfg(test)]
mod tests;
