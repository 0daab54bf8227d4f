//! Delta tables for DataFusion: only the files of the newest version.

use std::sync::Arc;

use afterwrite_datasets::catalogue::PARTITION;
use afterwrite_datasets::delta::{DeltaTable, TableSnapshot};
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::{
    Bucket, ListedObject, ObjectBody, ObjectChunks, ObjectStore as WritableStore, PutOutcome,
};
use async_trait::async_trait;
use datafusion::arrow::array::{RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::datasource::TableType;
use datafusion::datasource::listing::{PartitionedFile, helpers::expr_applicable_for_cols};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, utils::conjunction};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::ObjectStoreExt as _;
use object_store::path::Path;

/// A version of a Delta table.
#[derive(Debug)]
pub(super) struct SnapshotTable {
    url: ObjectStoreUrl,
    columns: TableSchema,
    /// In the order of their paths.
    files: Vec<PartitionedFile>,
}

impl SnapshotTable {
    /// The newest version of the table with this prefix; a table without a version is empty. Columns that a file lacks are null.
    pub(super) async fn open(
        store: &Arc<dyn object_store::ObjectStore>,
        url: ObjectStoreUrl,
        root: &str,
        columns: SchemaRef,
    ) -> Result<Self, Error> {
        let table = DeltaTable::new(StoreReader(Arc::clone(store)), root);
        let snapshot = Box::pin(table.snapshot()).await?;
        let partition = Arc::new(Field::new(PARTITION, DataType::Utf8, true));
        Ok(Self {
            url,
            columns: TableSchema::builder(columns).with_table_partition_cols(vec![partition]).build(),
            files: files_of(root, &snapshot),
        })
    }

    /// The files whose days the conditions allow.
    fn files_for(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<PartitionedFile>> {
        let of_the_day = filters.iter().filter(|filter| expr_applicable_for_cols(&[PARTITION], filter));
        let Some(condition) = conjunction(of_the_day.cloned()) else { return Ok(self.files.clone()) };
        let days = self.files.iter().map(|file| match file.partition_values.first() {
            Some(ScalarValue::Utf8(day)) => day.clone(),
            Some(_) | None => None,
        });
        let schema = Arc::new(Schema::new(vec![Field::new(PARTITION, DataType::Utf8, true)]));
        let days = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(days.collect::<StringArray>())])?;
        let condition = state.create_physical_expr(condition, &DFSchema::try_from(schema)?)?;
        let allowed = condition.evaluate(&days)?.into_array(days.num_rows())?;
        let allowed = datafusion::arrow::array::as_boolean_array(&allowed);
        let chosen = self.files.iter().zip(allowed).filter(|(_, allowed)| *allowed == Some(true));
        Ok(chosen.map(|(file, _)| file.clone()).collect())
    }
}

fn files_of(root: &str, snapshot: &TableSnapshot) -> Vec<PartitionedFile> {
    let files = snapshot.files().map(|file| {
        let mut partitioned = PartitionedFile::new(format!("{root}{}", file.path), file.size);
        partitioned.partition_values = vec![ScalarValue::Utf8(Some(file.day.clone()))];
        partitioned
    });
    files.collect()
}

#[async_trait]
impl TableProvider for SnapshotTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.columns.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let pushdown = |filter: &&Expr| {
            if expr_applicable_for_cols(&[PARTITION], filter) {
                TableProviderFilterPushDown::Exact
            } else {
                TableProviderFilterPushDown::Inexact
            }
        };
        Ok(filters.iter().map(pushdown).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = FileGroup::new(self.files_for(state, filters)?);
        let mut source = ParquetSource::new(self.columns.clone());
        let inner = filters.iter().filter(|filter| !expr_applicable_for_cols(&[PARTITION], filter));
        if let Some(condition) = conjunction(inner.cloned()) {
            let schema = DFSchema::try_from(self.schema())?;
            source = source.with_predicate(state.create_physical_expr(condition, &schema)?);
        }
        let config = FileScanConfigBuilder::new(self.url.clone(), Arc::new(source))
            .with_file_groups(files.split_files(state.config().target_partitions()))
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

/// A store of DataFusion as a bucket that can only be read.
#[derive(Debug)]
struct StoreReader(Arc<dyn object_store::ObjectStore>);

impl WritableStore for StoreReader {
    async fn put(&self, _: &str, _: Vec<u8>) -> Result<(), Error> {
        Err(read_only())
    }
}

impl Bucket for StoreReader {
    async fn get(&self, key: &str) -> Result<Option<ObjectChunks>, Error> {
        match self.0.get(&Path::from(key)).await {
            Ok(found) => Ok(Some(found.into_stream().map_err(failed).boxed())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    async fn put_new(&self, _: &str, _: ObjectBody) -> Result<PutOutcome, Error> {
        Err(read_only())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ListedObject>, Error> {
        // A store lists folders.
        let folder = prefix.rsplit_once('/').map(|(folder, _)| Path::from(folder));
        let listed: Vec<_> = self.0.list(folder.as_ref()).try_collect().await.map_err(failed)?;
        let mut listed: Vec<ListedObject> = listed
            .into_iter()
            .map(|object| ListedObject {
                key: object.location.to_string(),
                size: object.size,
                modified: Timestamp::from_epoch_ms(object.last_modified.timestamp_millis()),
                etag: object.e_tag,
            })
            .filter(|object: &ListedObject| object.key.starts_with(prefix))
            .collect();
        listed.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(listed)
    }

    async fn delete(&self, _: &[String]) -> Result<(), Error> {
        Err(read_only())
    }
}

fn read_only() -> Error {
    Error::new(ErrorKind::Configuration, "the datasets are opened for reading only")
}

/// The bucket's own error if there is one.
fn failed(error: object_store::Error) -> Error {
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<Error>());
    match source {
        Some(ours) => ours.restated(),
        None => Error::new(ErrorKind::Unavailable, "the datasets cannot be read").caused_by(error),
    }
}

/// The error of a table that the engine cannot open.
pub(super) fn unopened(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
