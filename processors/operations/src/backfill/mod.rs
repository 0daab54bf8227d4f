//! Backfill: counts what a table already has, while it is written to.
//!
//! ```text
//! phase 0   lookups   items that other items look up: their outputs are remembered
//! phase 1   items     every other item: read, its entry read, and reconciled unless the ledger has it already
//! phase 2   ledger    entries whose item does not exist are reconciled, too, and rollups without the group of a rank get it
//! phase 3   datasets  every item of an entity with datasets: a SNAPSHOT row, if a bucket is set
//! ```
//!
//! If rollups are sources, phases 1 and 2 are repeated for each level before the datasets: the items of the level's rollups, then the entries
//! of such items. All items of the levels below have been counted by then.
//!
//! Each phase reads a table, and an item is processed in one of the phases 0 and 1: so the items of a job are those of the tables.
//! Each item is reconciled through [`Ledger::reconcile`](afterwrite_ledger::Ledger::reconcile), so the application and the
//! functions can go on writing: the proof at the head of the ledger covers it. An entry is left alone if the current model has
//! counted it, or if it contributes what the current model would count. So after a change of the model, only items whose
//! contributions change are written, and a repeated or resumed backfill costs reads only.
//!
//! A table that is too large for transactions is counted in bulk: see [`BulkTask`].
//!
//! The functions must have the new model before a backfill starts: an old one would fail on the higher generation.

mod bulk;
mod dataset_plan;
mod datasets;
mod export;
mod job;
mod ledger_scan;
mod lives;
mod outcomes;
mod plan;
mod ranks;
mod stream_labels;
mod task;

use std::sync::Arc;

use afterwrite_ledger::tables::Tables;
use afterwrite_ledger::{DroppedAggregates, Ledger, TombstoneHistory};
use afterwrite_model::clock::Clock;
use afterwrite_model::entity::ItemCandidates;
use afterwrite_model::table::{Entity, Model};
use serde::{Deserialize, Serialize};

pub use self::bulk::{
    BulkArguments, BulkTask, ImportTotal, StepInvoker, TableImporter, bulk_units, plan_bulk,
};
pub use self::dataset_plan::plan_datasets;
pub(crate) use self::datasets::dataset_tables;
pub use self::datasets::{DatasetFill, dataset_units};
pub use self::export::{ExportFolder, ExportSource, TableExport};
pub use self::job::BackfillJob;
pub use self::plan::plan_backfill;
pub use self::task::BackfillTask;

use crate::DeploymentContext;
use crate::items::used_tables;
use crate::jobs::{WorkUnit, job_totals};
use crate::tenant::TenantFilter;

/// A phase of a backfill.
#[derive(Clone, Copy, Debug)]
enum BackfillPhase {
    Lookups,
    /// The items of this level.
    Items(u32),
    /// The entries of items of this level.
    Ledger(u32),
    /// After all levels of a model whose highest level is this.
    Datasets(u32),
}

impl BackfillPhase {
    /// Its place among the phases.
    fn number(self) -> u32 {
        match self {
            Self::Lookups => 0,
            Self::Items(level) => 1 + 2 * level,
            Self::Ledger(level) => 2 + 2 * level,
            Self::Datasets(highest) => 3 + 2 * highest,
        }
    }
}

job_totals! {
    /// The counters of a backfill. The kind of an error is counted beside `failed`, as `failed_<kind>`.
    pub enum BackfillTotal {
        Reconciled = "reconciled",
        Skipped = "skipped",
        Failed = "failed",
        FailedLookups = "failed_lookups",
        FailedWithoutItemKey = "failed_without_item_key",
        EntriesWithHashedKeys = "entries_with_hashed_keys",
        Orphans = "orphans",
        /// Entries of an earlier generation of the model, among those that were compared with their items.
        EntriesOfEarlierModels = "entries_of_earlier_models",
        LookupsReplaced = "lookups_replaced",
        /// Entries that do not name an unrecorded change of a life any more.
        AcceptedLives = "accepted_lives",
        /// Rollups that got the group of a rank, or another one.
        Ranked = "ranked",
        Mirrors = "mirrors",
        UnwritableMirrors = "unwritable_mirrors",
        Conflicts = "conflicts",
        WriteUnits = "write_units",
        DatasetRows = "dataset_rows",
        DatasetFiles = "dataset_files",
        DatasetFilesThere = "dataset_files_there",
        RescuedRows = "rescued_rows",
        UndatedRows = "undated_rows",
        ReadUnits = "read_units",
    }
}

/// Whether a backfill fills datasets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatasetFilling {
    /// It does not.
    #[default]
    Skipped,
    /// It does, after counting.
    Included,
    /// It does nothing else.
    Only,
}

impl DatasetFilling {
    /// Whether no phase before has processed such an item: then it is an item of the job because of its rows.
    fn is_first_to_see(self, candidates: &ItemCandidates<'_, '_>) -> bool {
        match self {
            Self::Skipped => false,
            Self::Included => !candidates.any(Entity::is_used),
            Self::Only => true,
        }
    }
}

/// The arguments of a backfill, as its job keeps them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackfillArguments {
    /// The segments of each table's scan.
    pub segments: u32,
    /// The tenant, if only one is filled.
    #[serde(default)]
    pub only: Option<TenantFilter>,
    /// Whether items are reconciled that the ledger has already.
    #[serde(default)]
    pub all: bool,
    /// Whether remembered lookups are replaced by what the looked-up items show now.
    #[serde(default)]
    pub reattribute: bool,
    /// Whether contributions to aggregates that the model no longer has are subtracted.
    #[serde(default)]
    pub drop: bool,
    /// Whether nothing is done but refreshing the copies of rollups on the application's items.
    #[serde(default)]
    pub mirrors: bool,
    /// Whether items that vanished or were revived in an earlier reconciliation are accepted: they are not named any more.
    #[serde(default)]
    pub accept_lives: bool,
    /// DynamoDB's time when the job was planned, as an epoch second: the lives that were found before are known to the person who planned it.
    #[serde(default)]
    pub planned_at: i64,
    /// The table export that the items are read from, instead of the table.
    #[serde(default)]
    pub export: Option<ExportSource>,
    /// Whether only rollups that are sources are counted: no item of a base table is read.
    #[serde(default)]
    pub levels_only: bool,
    /// Whether datasets are filled.
    #[serde(default)]
    pub datasets: DatasetFilling,
    /// The bucket of the datasets, if they are filled.
    #[serde(default)]
    pub bucket: Option<String>,
}

impl Default for BackfillArguments {
    fn default() -> Self {
        Self {
            segments: 8,
            only: None,
            all: false,
            reattribute: false,
            drop: false,
            mirrors: false,
            accept_lives: false,
            planned_at: 0,
            export: None,
            levels_only: false,
            datasets: DatasetFilling::Skipped,
            bucket: None,
        }
    }
}

impl BackfillArguments {
    /// The ledger that counts; its errors name keys. Levels alone are counted in a table that was just built from an archive.
    fn ledger<T: Tables + Clone, C: Clock + Clone>(&self, context: &DeploymentContext<T, C>) -> Ledger<T, C> {
        let dropped = if self.drop { DroppedAggregates::Subtract } else { DroppedAggregates::Keep };
        let history = if self.levels_only { TombstoneHistory::Complete } else { TombstoneHistory::Expiring };
        context.ledger().dropping(dropped).with_history(history).naming_keys(true)
    }

    /// Whether items of a table are counted.
    fn counts_table(&self, model: &Model, table: usize) -> bool {
        !self.levels_only || Some(table) == model.state_source()
    }
}

/// The part of a backfill that a unit stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BackfillPart {
    /// A segment of a source table.
    Segment { table: usize, segment: u32, items: SegmentItems },
    /// A data file of a table export.
    File { index: usize },
    /// A segment of the state table: the entries of items of this level.
    Ledger { segment: u32, level: u32 },
}

/// The items of a table that one part counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SegmentItems {
    /// The items that others look up.
    LookedUp,
    /// All others of this level.
    Level(u32),
}

impl SegmentItems {
    /// Whether an item that can be of these entities is among them.
    fn include(self, candidates: &ItemCandidates<'_, '_>) -> bool {
        match self {
            Self::LookedUp => candidates.any(|entity| !entity.offers.is_empty()),
            Self::Level(level) => {
                !candidates.any(|entity| !entity.offers.is_empty()) && level_of(candidates) == level
            }
        }
    }
}

/// The level of an item that can be of these entities. An item of no entity counts nothing, at any level.
fn level_of(candidates: &ItemCandidates<'_, '_>) -> u32 {
    candidates.iter().map(|identity| identity.entity.level).max().unwrap_or(0)
}

/// The units of a backfill with the parts that they stand for. A resumed job derives the same list from its arguments.
fn parts(model: &Arc<Model>, arguments: &BackfillArguments, files: usize) -> Vec<(WorkUnit, BackfillPart)> {
    let mut parts = Vec::new();
    let tables = counted_tables(model, arguments);
    let segments = arguments.segments.max(1);
    let name_of = |table: usize| model.tables.get(table).map_or("", |table| &*table.name);
    let lowest = u32::from(arguments.levels_only);
    for table in tables.iter().copied().filter(|table| has_looked_up_items(model, *table)) {
        parts.extend((0..segments).map(|segment| {
            let name = format!("lookups {} {segment}/{segments}", name_of(table));
            let items = SegmentItems::LookedUp;
            (unit(name, BackfillPhase::Lookups), BackfillPart::Segment { table, segment, items })
        }));
    }
    let is_exported =
        |table| arguments.export.as_ref().is_some_and(|export| *export.table == *name_of(table));
    for level in lowest..=model.highest_level() {
        let at = level_text(level);
        for table in tables.iter().copied().filter(|table| has_other_items(model, *table, level)) {
            let phase = BackfillPhase::Items(level);
            if is_exported(table) {
                let file =
                    |index| (unit(format!("file {index}/{files}"), phase), BackfillPart::File { index });
                parts.extend((0..files).map(file));
                continue;
            }
            parts.extend((0..segments).map(|segment| {
                let name = format!("items {}{at} {segment}/{segments}", name_of(table));
                let items = SegmentItems::Level(level);
                (unit(name, phase), BackfillPart::Segment { table, segment, items })
            }));
        }
        if !arguments.mirrors {
            parts.extend((0..segments).map(|segment| {
                let name = format!("ledger{at} {segment}/{segments}");
                (unit(name, BackfillPhase::Ledger(level)), BackfillPart::Ledger { segment, level })
            }));
        }
    }
    parts
}

/// The tables whose items are counted, or have copies that are refreshed.
fn counted_tables(model: &Model, arguments: &BackfillArguments) -> Vec<usize> {
    let mut tables = used_tables(model);
    tables.retain(|table| arguments.counts_table(model, *table));
    if arguments.mirrors {
        let has_mirrors = |entity: &Entity| !entity.mirrors.is_empty();
        tables.retain(|table| model.entities.iter().any(|it| it.table == *table && has_mirrors(it)));
    }
    tables
}

/// The level in the name of a unit. Without levels, the units have the names that they always had.
fn level_text(level: u32) -> String {
    if level == 0 { String::new() } else { format!(" level {level}") }
}

fn unit(name: String, phase: BackfillPhase) -> WorkUnit {
    WorkUnit::new(name, phase.number())
}

fn has_looked_up_items(model: &Model, table: usize) -> bool {
    model.entities.iter().any(|entity| entity.table == table && !entity.offers.is_empty())
}

fn has_other_items(model: &Model, table: usize, level: u32) -> bool {
    let is_other = |entity: &Entity| entity.is_used() && entity.offers.is_empty() && entity.level == level;
    model.entities.iter().any(|entity| entity.table == table && is_other(entity))
}
