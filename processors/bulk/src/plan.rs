//! The plan step: the requests of all other steps, from the manifests of the exports.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_ledger::StateItems;
use afterwrite_ledger::tables::TableScan;
use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::{Bucket, ObjectBody, PutOutcome};

use crate::export::{ExportManifest, read_object};
use crate::layout::RunLayout;
use crate::map::is_counted;
use crate::request::{BulkRequest, MapPass, MapRequest, PlanReport, PlanRequest, ReduceRequest};

/// The most partitions: each takes the memory of a compressor in every map step.
const MAX_PARTITIONS: u32 = 256;
/// The most objects that one import reads.
pub const MAX_IMPORT_OBJECTS: u64 = 50_000;

/// The requests of a run, phase by phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRequests {
    /// The first pass over the data files; empty if the model has no lookups.
    pub lookups: Vec<BulkRequest>,
    /// The second pass.
    pub items: Vec<BulkRequest>,
    /// The merging of rollups.
    pub reduce: Vec<BulkRequest>,
}

impl RunRequests {
    /// The phases with their names.
    #[must_use]
    pub fn phases(&self) -> [(&'static str, &[BulkRequest]); 3] {
        [("lookups", &self.lookups), ("items", &self.items), ("reduce", &self.reduce)]
    }

    /// Reads the requests of a phase that was planned.
    ///
    /// # Errors
    /// As [`Bucket::get`]; [`ErrorKind::State`] if the object is not a list of requests.
    pub async fn read(bucket: &impl Bucket, run: &str, phase: &str) -> Result<Vec<BulkRequest>> {
        let key = RunLayout(run).requests(phase);
        serde_json::from_slice(&read_object(bucket, &key).await?).map_err(|error| {
            Error::new(ErrorKind::State, "the requests of the run cannot be read")
                .with("key", key)
                .caused_by(error)
        })
    }

    /// Refuses the folder of a run that has results: the deployment may have changed since they were counted.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if there is a result; as [`Bucket::list`].
    pub async fn check_unused(bucket: &impl Bucket, run: &str) -> Result<()> {
        for folder in RunLayout(run).results() {
            if !bucket.list(&folder).await?.is_empty() {
                return Err(Error::new(ErrorKind::Configuration, "the folder has results of an earlier job")
                    .with("folder", run)
                    .hint(
                        "Resume that job (`afterwrite jobs list`), or start another one with a --run-folder of its own",
                    ));
            }
        }
        Ok(())
    }
}

/// The deployment that a plan is made for.
pub(crate) struct PlanTarget<'p, T> {
    pub(crate) model: &'p Arc<Model>,
    pub(crate) table_names: &'p [Arc<str>],
    pub(crate) tables: &'p T,
}

/// Makes the requests, without writing them.
pub(crate) async fn requests(
    bucket: &impl Bucket,
    target: &PlanTarget<'_, impl TableScan>,
    clock: &impl Clock,
    request: &PlanRequest,
) -> Result<(RunRequests, PlanReport)> {
    if !(1..=MAX_PARTITIONS).contains(&request.partitions) || request.lookup_rate == 0 {
        return Err(Error::new(
            ErrorKind::Configuration,
            "the partitions or the lookup rate are out of range",
        )
        .hint("Use 1 to 256 partitions, and at least 1 lookup a second"));
    }
    let mut requests = RunRequests::default();
    let (mut planned, mut times, mut files, mut items) = (BTreeSet::new(), Vec::new(), 0, 0);
    for prefix in &request.exports {
        let manifest = ExportManifest::read(bucket, prefix).await?;
        let table = manifest.table_among(target.table_names).map_err(|error| error.with("export", prefix))?;
        check_time(&manifest, request, prefix, clock.now())?;
        check_table(target.model, table, &planned, prefix)?;
        planned.insert(table);
        times.push(manifest.exported_at.epoch_ms());
        items += manifest.files.iter().map(|file| file.item_count).sum::<u64>();
        let maps = map_requests(request, target, table, manifest, &mut files).await?;
        let has_lookups =
            target.model.entities.iter().any(|entity| entity.table == table && !entity.offers.is_empty());
        for map in maps {
            if has_lookups {
                requests.lookups.push(BulkRequest::Map(MapRequest { pass: MapPass::Lookups, ..map.clone() }));
            }
            requests.items.push(BulkRequest::Map(map));
        }
    }
    check_tables(target.model, &planned)?;
    let (earliest_ms, latest_ms) =
        (times.iter().copied().min().unwrap_or(0), times.iter().copied().max().unwrap_or(0));
    requests.reduce = (0..request.partitions)
        .map(|partition| {
            BulkRequest::Reduce(ReduceRequest {
                run: request.run.clone(),
                partition,
                partitions: request.partitions,
                earliest_ms,
                latest_ms,
                model: target.model.fingerprint().to_string(),
            })
        })
        .collect();
    let layout = RunLayout(&request.run);
    let count = |requests: &[BulkRequest]| u32::try_from(requests.len()).unwrap_or(u32::MAX);
    let report = PlanReport {
        run: request.run.clone(),
        lookups: layout.requests("lookups"),
        items: layout.requests("items"),
        reduce: layout.requests("reduce"),
        import: layout.import(),
        requests: [count(&requests.lookups), count(&requests.items), count(&requests.reduce)],
        item_count: items,
        earliest_ms,
        latest_ms,
    };
    check_objects(&report)?;
    Ok((requests, report))
}

/// Plans a run, and writes its requests.
pub(crate) async fn plan(
    bucket: &impl Bucket,
    target: &PlanTarget<'_, impl TableScan>,
    clock: &impl Clock,
    request: &PlanRequest,
) -> Result<PlanReport> {
    let (requests, report) = requests(bucket, target, clock, request).await?;
    let layout = RunLayout(&request.run);
    let text = json(&(request, target.model.fingerprint().as_ref(), &report))?;
    let body = ObjectBody::Bytes(text.clone().into());
    match bucket.put_new(&layout.plan(), body).await? {
        PutOutcome::Written => {}
        PutOutcome::AlreadyExists => {
            if read_object(bucket, &layout.plan()).await? != text {
                return Err(Error::new(ErrorKind::Configuration, "the folder has another run")
                    .with("folder", request.run.as_str())
                    .hint("Name another folder: objects of two runs must not be imported together"));
            }
        }
    }
    for (phase, requests) in requests.phases() {
        bucket.put(&layout.requests(phase), json(&requests)?).await?;
    }
    Ok(report)
}

async fn map_requests(
    request: &PlanRequest,
    target: &PlanTarget<'_, impl TableScan>,
    table: usize,
    manifest: ExportManifest,
    files: &mut u32,
) -> Result<Vec<MapRequest>> {
    let name = target.table_names.get(table).cloned().unwrap_or_default();
    let described = target.tables.describe(&name).await?;
    let stream_label = described.stream_label.clone().ok_or_else(|| {
        Error::new(
            ErrorKind::Configuration,
            "the table has no stream, so that changes after the export are lost",
        )
        .with("table", &*name)
        .hint("Enable the stream with new and old images, deploy the functions, and export the table then")
    })?;
    manifest.check_origin(&described).map_err(|error| error.with("table", &*name))?;
    let model_name = target.model.tables.get(table).map_or("", |table| &table.name);
    let mut requests = Vec::with_capacity(manifest.files.len());
    let exported_at_ms = manifest.exported_at.epoch_ms();
    for file in manifest.files {
        requests.push(MapRequest {
            run: request.run.clone(),
            pass: MapPass::Items,
            index: *files,
            file,
            table: model_name.to_owned(),
            stream_label: stream_label.clone(),
            exported_at_ms,
            partitions: request.partitions,
            lookup_rate: request.lookup_rate,
            model: target.model.fingerprint().to_string(),
        });
        *files += 1;
    }
    Ok(requests)
}

fn check_time(manifest: &ExportManifest, request: &PlanRequest, prefix: &str, now: Timestamp) -> Result<()> {
    if request.mapping_since_ms > manifest.exported_at.epoch_ms() {
        return Err(refused(
            "the stream was not read before the export, so that changes between the two would be lost",
            prefix,
        )
        .hint("Export the table again, now that the functions read its stream"));
    }
    if !StateItems::accepts_export(manifest.exported_at, now) {
        return Err(refused("the export is older than tombstones are kept (35 days)", prefix)
            .hint("Export the table again"));
    }
    Ok(())
}

/// An export is of a table of the application, and no other export is of the same table.
fn check_table(model: &Model, table: usize, planned: &BTreeSet<usize>, prefix: &str) -> Result<()> {
    if Some(table) == model.state_source() {
        let hint = "Leave it out: `afterwrite backfill` counts rollups of rollups in the imported table";
        return Err(refused("an export is of the state table", prefix).hint(hint));
    }
    if planned.contains(&table) {
        return Err(refused("two exports are of one table", prefix)
            .hint("Name one export for each table of the model"));
    }
    Ok(())
}

/// Every table with items that are counted must be exported. Items of rollups are counted by a backfill of the imported table.
fn check_tables(model: &Model, planned: &BTreeSet<usize>) -> Result<()> {
    let counted = model.entities.iter().filter(|entity| is_counted(entity) && entity.rollup.is_none());
    let mut counted = counted.map(|entity| entity.table);
    match counted.find(|table| !planned.contains(table)) {
        None => Ok(()),
        Some(table) => {
            let name = model.tables.get(table).map_or("", |table| &table.name);
            Err(Error::new(ErrorKind::Configuration, "a table of the model has no export")
                .with("table", name)
                .hint("Name an export for each table of the model"))
        }
    }
}

fn check_objects(report: &PlanReport) -> Result<()> {
    let objects: u64 = report.requests.iter().map(|count| u64::from(*count)).sum();
    if objects <= MAX_IMPORT_OBJECTS {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Configuration, "the run would have more objects than one import reads")
        .with("objects", objects.to_string())
        .with("limit", MAX_IMPORT_OBJECTS.to_string())
        .hint("Use fewer partitions; if the export has too many files, use `afterwrite backfill --export`"))
}

fn refused(problem: &str, export: &str) -> Error {
    Error::new(ErrorKind::Configuration, problem).with("export", export)
}

fn json(value: &impl serde::Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|error| Error::new(ErrorKind::State, "the plan of a run cannot be written").caused_by(error))
}
