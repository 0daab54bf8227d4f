//! Access to the items, rows and lookups that a judgement of datasets reads.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_datasets::compact::CompactionOptions;
use afterwrite_datasets::compact::reading::DatasetReader;
use afterwrite_datasets::export::ArchiveExporter;
use afterwrite_ledger::StateItems;
use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_services::Bucket;

use crate::DeploymentContext;
use crate::jobs::WaitBoard;

/// Judges rows of datasets.
#[derive(Debug)]
pub struct DatasetJudge<B, T, C> {
    pub(crate) exporter: ArchiveExporter<B, T, C>,
    pub(crate) reader: DatasetReader<B>,
    pub(crate) tables: T,
    pub(crate) state: StateItems,
    pub(super) tolerance: Duration,
    pub(crate) waits: WaitBoard,
    /// When judgements must end; `None` if they have the time that they need.
    pub(super) until: Option<Timestamp>,
}

impl<B: Bucket + Clone, T: Tables + TableScan + Clone, C: Clock + Clone> DatasetJudge<B, T, C> {
    /// A judge of a deployment's datasets in a bucket. `tolerance` is the longest time that a change is on its way to the log.
    #[must_use]
    pub fn new(context: DeploymentContext<T, C>, bucket: B, tolerance: Duration) -> Self {
        let (state, remembered) = (context.state_items(), context.remembered());
        let DeploymentContext { model, table_names, tables, clock, .. } = context;
        Self {
            reader: DatasetReader::new(Arc::clone(&model), bucket.clone(), CompactionOptions::default()),
            exporter: ArchiveExporter::new(model, table_names, bucket, Some(remembered), clock),
            tables,
            state,
            tolerance,
            waits: WaitBoard::default(),
            until: None,
        }
    }

    /// Ends judgements at this time: candidates that must wait longer are undecided.
    #[must_use]
    pub fn until(mut self, until: Timestamp) -> Self {
        self.until = Some(until);
        self
    }
}

impl<B: Bucket, T: Tables, C: Clock> DatasetJudge<B, T, C> {
    /// The waits of the judgements.
    #[must_use]
    pub fn waits(&self) -> &WaitBoard {
        &self.waits
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        self.exporter.model()
    }
}
