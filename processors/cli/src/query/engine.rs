//! The engine: a DataFusion session with a model's datasets under the same names as in Athena.
//!
//! The views are created by the same statements as in Athena. The tables have the files of their newest version when the engine is
//! opened, with the dataset's schema: a file that is older than a column has nulls there.

use std::sync::Arc;

use afterwrite_datasets::catalogue;
use afterwrite_datasets::schema::arrow_schema;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::config::Dialect;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;

use super::objects::ReadOnlyBucket;
use super::tables::{SnapshotTable, unopened};
use super::{DATASETS, Place};
use crate::arguments;

/// The engine's URL for the location of the datasets, for a folder and for a bucket.
const STORE: &str = "afterwrite://bucket";

/// An SQL engine over a model's datasets.
pub struct Engine {
    session: SessionContext,
    /// The names of views and tables.
    names: Vec<String>,
}

/// The result of a query.
#[derive(Debug)]
pub struct QueryResult {
    /// The columns.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
}

impl Engine {
    /// Registers the datasets of a model. Reads the logs of the tables, and no data.
    ///
    /// # Errors
    /// A folder that cannot be read, or S3 settings that are missing; a log that cannot be read.
    pub async fn open(model: &Model, place: &Place) -> Result<Self> {
        let store: Arc<dyn ObjectStore> = match place {
            Place::Folder(folder) => Arc::new(LocalFileSystem::new_with_prefix(folder).map_err(|error| {
                Error::new(ErrorKind::Configuration, "the folder cannot be read")
                    .with("folder", folder.display().to_string())
                    .caused_by(error)
            })?),
            Place::Bucket(bucket) => Arc::new(ReadOnlyBucket::open(bucket).await?),
        };
        Self::over(model, store).await
    }

    /// The same, over any store with the layout of the bucket.
    ///
    /// # Errors
    /// `Model` for a catalogue that the engine rejects; the store's errors.
    pub async fn over(model: &Model, store: Arc<dyn ObjectStore>) -> Result<Self> {
        let engine = Self { session: session(), names: names(model) };
        match Box::pin(engine.register(model, store)).await {
            Ok(()) => Ok(engine),
            Err(DataFusionError::External(error)) if error.is::<Error>() => Err(error
                .downcast::<Error>()
                .map_or_else(|error| wrong(&DataFusionError::External(error)), |error| *error)),
            Err(error) => Err(Error::new(ErrorKind::Model, "the SQL engine rejects the model's datasets")
                .with("model", &*model.name)
                .caused_by(error.strip_backtrace())),
        }
    }

    async fn register(&self, model: &Model, store: Arc<dyn ObjectStore>) -> Result<(), DataFusionError> {
        let url = ObjectStoreUrl::parse(STORE)?;
        self.session.register_object_store(url.as_ref(), Arc::clone(&store));
        for dataset in &model.datasets {
            for name in [dataset.name.to_string(), catalogue::log_name(dataset)] {
                let root = format!("{DATASETS}/{name}/");
                let table = SnapshotTable::open(&store, url.clone(), &root, arrow_schema(dataset)).await;
                self.session.register_table(name, Arc::new(table.map_err(unopened)?))?;
            }
            self.session.sql(&catalogue::create_view(model, dataset)).await?;
        }
        Ok(())
    }

    /// Runs one query. Other statements are rejected.
    ///
    /// # Errors
    /// `Configuration` for wrong SQL, with the available names if a table is unknown; otherwise the error of the folder or bucket.
    pub async fn query(&self, sql: &str) -> Result<QueryResult> {
        self.check_query(sql)?;
        let only_queries =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let frame = self.session.sql_with_options(sql, only_queries).await.map_err(|error| wrong(&error))?;
        let schema = Arc::clone(frame.schema().inner());
        let batches = frame.collect().await.map_err(|error| wrong(&error))?;
        Ok(QueryResult { schema, batches })
    }

    /// Rejects statements that are not queries, and queries of unknown datasets.
    fn check_query(&self, sql: &str) -> Result<()> {
        let state = self.session.state();
        let statement = state.sql_to_statement(sql, &Dialect::Generic).map_err(|error| wrong(&error))?;
        if !is_query(&statement) {
            return Err(Error::new(ErrorKind::Configuration, "only queries are supported")
                .hint("Begin with SELECT or WITH"));
        }
        let named = state.resolve_table_references(&statement).map_err(|error| wrong(&error))?;
        let unknown = named.iter().find(|name| !self.names.iter().any(|known| known == name.table()));
        unknown.map_or(Ok(()), |unknown| {
            let names = self.names.iter().map(String::as_str);
            Err(arguments::unknown("a dataset that the model does not have", unknown.table(), names))
        })
    }
}

fn session() -> SessionContext {
    let mut config = SessionConfig::new().with_collect_statistics(false);
    // As in Athena, nulls are last in ascending and in descending order.
    config.options_mut().sql_parser.default_null_ordering = "nulls_last".to_owned();
    SessionContext::new_with_config(config)
}

fn is_query(statement: &Statement) -> bool {
    match statement {
        Statement::Explain(_) => true,
        Statement::Statement(statement) => matches!(**statement, ast::Statement::Query(_)),
        Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => false,
    }
}

fn names(model: &Model) -> Vec<String> {
    let tables = model.datasets.iter().map(|dataset| dataset.name.to_string());
    let logs = model.datasets.iter().map(catalogue::log_name);
    tables.chain(logs).chain(model.datasets.iter().map(catalogue::view_name)).collect()
}

/// Converts an error of the engine: the bucket's error if it has one; a broken file; otherwise the SQL is wrong.
fn wrong(error: &DataFusionError) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut kind = ErrorKind::Configuration;
    while let Some(inner) = cause {
        if let Some(ours) = inner.downcast_ref::<Error>() {
            return ours.restated();
        }
        if inner.is::<object_store::Error>() {
            kind = ErrorKind::Unavailable;
        }
        if matches!(inner.downcast_ref(), Some(DataFusionError::ParquetError(_))) {
            kind = ErrorKind::State;
        }
        cause = inner.source();
    }
    let root = error.find_root();
    let (message, cause) = if kind == ErrorKind::Unavailable {
        ("the datasets cannot be read", root.message())
    } else if kind == ErrorKind::State {
        ("a file of the datasets is not valid Parquet, or has another schema", root.message())
    } else if let DataFusionError::SQL(parser, _) = root {
        ("the query is not valid SQL", parser.to_string().into())
    } else {
        ("the query failed", root.message())
    };
    Error::new(kind, format!("{message}: {}", cause.trim_start_matches("sql parser error: ")))
}

#[cfg(test)]
mod tests;
