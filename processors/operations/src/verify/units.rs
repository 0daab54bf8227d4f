//! The units of a verification, its counters, and the units that a resumed job repeats.

use afterwrite_model::table::Model;

use super::arguments::VerifyArguments;
use super::item_rollups::JudgedParts;
use crate::items::used_tables;
use crate::jobs::{AcquiredJob, JobTotals, WorkUnit, job_totals};
use crate::lives::LifeTotal;

job_totals! {
    /// The counters of a verification.
    pub(crate) enum VerifyTotal {
        Items = "items",
        ItemsConfirmed = "items_confirmed",
        ItemsRechecked = "items_rechecked",
        /// Items of the tables, whether or not the model counts them.
        ItemsRead = "items_read",
        Mirrors = "mirrors",
        MirrorsJudged = "mirrors_judged",
        MirrorsRechecked = "mirrors_rechecked",
        /// Items of entities with `max` or `min`.
        Extremes = "extremes",
        ExtremesJudged = "extremes_judged",
        ExtremesRechecked = "extremes_rechecked",
        /// Entries whose keys are hashed, so that their items are not known.
        HashedEntries = "hashed_entries",
        /// Entries that count into aggregates of the model, although no entity of it has their items.
        ForeignEntries = "foreign_entries",
        Rollups = "rollups",
        RollupsConfirmed = "rollups_confirmed",
        RollupsRechecked = "rollups_rechecked",
        RollupsExpired = "rollups_expired",
        /// Counters of the application that were compared.
        ThreeWay = "three_way",
        ThreeWayDecided = "three_way_decided",
        DatasetRows = "dataset_rows",
        /// Items and rows of datasets that were compared, an item and its row as one.
        DatasetKeys = "dataset_keys",
        DatasetKeysConfirmed = "dataset_keys_confirmed",
        DatasetKeysRechecked = "dataset_keys_rechecked",
        DatasetKeysUnjudged = "dataset_keys_unjudged",
    }
}

impl VerifyTotal {
    /// The counters of items that were judged for the first time: their number, and how many are right.
    pub(super) fn judged((items, confirmed): (u64, u64), parts: JudgedParts) -> JobTotals {
        let mut totals = JobTotals::from([(Self::Items, items), (Self::ItemsConfirmed, confirmed)]);
        totals.add(Self::Mirrors, parts.mirrors);
        totals.add(Self::MirrorsJudged, parts.mirrors_judged);
        totals.add(Self::Extremes, parts.extremes);
        totals.add(Self::ExtremesJudged, parts.extremes_judged);
        totals
    }

    /// The counters of items that were judged again, of which so many are right.
    pub(super) fn rechecked(confirmed: u64, parts: JudgedParts) -> JobTotals {
        let mut totals = JobTotals::from([(Self::ItemsRechecked, confirmed)]);
        totals.add(Self::MirrorsRechecked, parts.mirrors_judged);
        totals.add(Self::ExtremesRechecked, parts.extremes_judged);
        totals
    }
}

/// The items of a page that a unit reads.
pub(super) const PAGE_ITEMS: u32 = 500;

/// The part of a verification that a unit stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VerifyPart {
    Revisions { segment: u32 },
    Ledger { segment: u32 },
    Rollups,
    Items { table: usize, segment: u32 },
    Entries { segment: u32 },
    Recheck,
    SuspectedLedger { segment: u32 },
    SuspectedRollups,
}

/// The units of a verification with the parts that they stand for.
pub(super) fn parts(model: &Model, arguments: &VerifyArguments) -> Vec<(WorkUnit, VerifyPart)> {
    let segments = arguments.segments.max(1);
    let mut parts = Vec::new();
    let mut add = |name: String, phase: u32, part: VerifyPart| parts.push((WorkUnit::new(name, phase), part));
    for segment in 0..segments {
        add(format!("revisions {segment}/{segments}"), 0, VerifyPart::Revisions { segment });
        add(format!("ledger {segment}/{segments}"), 1, VerifyPart::Ledger { segment });
        add(format!("entries {segment}/{segments}"), 4, VerifyPart::Entries { segment });
        add(format!("ledger again {segment}/{segments}"), 6, VerifyPart::SuspectedLedger { segment });
    }
    add("rollups".to_owned(), 2, VerifyPart::Rollups);
    add("recheck".to_owned(), 5, VerifyPart::Recheck);
    add("rollups again".to_owned(), 7, VerifyPart::SuspectedRollups);
    for table in used_tables(model) {
        let name = model.tables.get(table).map_or("", |table| &table.name);
        for segment in 0..segments {
            add(format!("items {name} {segment}/{segments}"), 3, VerifyPart::Items { table, segment });
        }
    }
    parts
}

/// Phases whose results are kept together: all of them are repeated unless the last one is done.
struct KeptPhases {
    phases: std::ops::RangeInclusive<u32>,
    /// The totals that these phases add.
    totals: &'static [VerifyTotal],
    /// Whether nothing of them is kept, although they are done.
    is_volatile: bool,
}

const KEPT: [KeptPhases; 4] = [
    // Sums of the ledger are in memory.
    KeptPhases {
        phases: 0..=2,
        totals: &[VerifyTotal::Rollups, VerifyTotal::RollupsConfirmed, VerifyTotal::RollupsExpired],
        is_volatile: false,
    },
    // Findings are in memory; suspects are in the journal.
    KeptPhases {
        phases: 5..=7,
        totals: &[
            VerifyTotal::ItemsRechecked,
            VerifyTotal::MirrorsRechecked,
            VerifyTotal::ExtremesRechecked,
            VerifyTotal::RollupsRechecked,
            VerifyTotal::ThreeWay,
            VerifyTotal::ThreeWayDecided,
        ],
        is_volatile: true,
    },
    // Digests are in temporary files.
    KeptPhases {
        phases: 8..=10,
        totals: &[
            VerifyTotal::DatasetRows,
            VerifyTotal::DatasetKeys,
            VerifyTotal::DatasetKeysConfirmed,
            VerifyTotal::DatasetKeysUnjudged,
        ],
        is_volatile: false,
    },
    KeptPhases { phases: 11..=11, totals: &[VerifyTotal::DatasetKeysRechecked], is_volatile: true },
];
/// The totals of phases 3 and 4, whose steps are kept one by one.
const ITEM_TOTALS: [VerifyTotal; 9] = [
    VerifyTotal::Items,
    VerifyTotal::ItemsConfirmed,
    VerifyTotal::ItemsRead,
    VerifyTotal::HashedEntries,
    VerifyTotal::ForeignEntries,
    VerifyTotal::Mirrors,
    VerifyTotal::MirrorsJudged,
    VerifyTotal::Extremes,
    VerifyTotal::ExtremesJudged,
];

/// Sets back the units of a resumed job whose results were lost with its last process. A three-way comparison begins again: its counts
/// are in memory.
pub(super) fn set_back_units(job: &mut AcquiredJob, is_three_way: bool) {
    let AcquiredJob { state, units } = job;
    for KeptPhases { phases, totals, is_volatile } in KEPT {
        let is_done = units.iter().filter(|unit| unit.phase == *phases.end()).all(|unit| unit.is_done);
        if !is_done || is_volatile || (is_three_way && *phases.start() == 0) {
            units.set_back(&phases);
            units.forget_totals(totals);
        }
    }
    if is_three_way {
        units.set_back(&(3..=4));
        units.forget_totals(&ITEM_TOTALS);
        units.forget_totals(&[LifeTotal::Vanished, LifeTotal::Revived]);
    }
    (state.work, state.totals) = (units.summary(), units.totals());
}
