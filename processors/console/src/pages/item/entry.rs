//! The ledger entry of an item.

use afterwrite_ledger::StoredEntry;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::table::Model;
use afterwrite_operations::redrive::parked_reason;
use maud::{Markup, html};

use super::reading::ReadEntry;
use crate::prose::prose;
use crate::table::{Cell, PageTable, Verdict};
use crate::view::View;

/// Adds the ledger entry.
pub(super) fn show(
    view: &mut View,
    model: &Model,
    (entry, source): (&ReadEntry, &SourceKey<'_>),
    exists: bool,
) {
    view.show(html! { h2 { "Ledger entry" } });
    let mut table = PageTable::new(TABLE, &["fact", "value"], "");
    match entry {
        ReadEntry::Nothing => {
            view.show(html! {
                p class="empty" {
                    @if exists { "None: no change of the item was counted yet, or nothing is counted of such items. `afterwrite backfill` counts items that were there before." }
                    @else { "None: the item was never counted, or it was deleted so long ago that its tombstone has expired." }
                }
            });
        }
        ReadEntry::Unreadable(error) => view.unread(TABLE, error),
        ReadEntry::Stored(entry, behind) => {
            table.rows = facts(model, entry, behind.as_deref());
            view.show(state(entry, exists));
            if !exists && entry.is_tombstone && keeps_expired(model, source) {
                view.show(html! { p { (prose(IF_EXPIRED)) } });
            }
            view.table(table);
            if behind.is_some() {
                view.show(remedy());
                view.show(html! { pre { "afterwrite redrive --dry-run\nafterwrite redrive --yes" } });
            }
        }
    }
}

/// The name of the table.
const TABLE: &str = "entry";

/// Why an expired item is in totals, and has no shares.
const IF_EXPIRED: &str = "If TTL deleted it, it stays counted: the model has `on_expiry = \"keep\"` for it. What it counted is then in the settled part of its rollups, and no more a share of an item. Otherwise its shares were subtracted.";

/// Whether an item with this key can stay counted after TTL has deleted it.
fn keeps_expired(model: &Model, source: &SourceKey<'_>) -> bool {
    source.candidates(model).iter().any(|identity| identity.entity.keeps_what_expired())
}

/// The sentence about an entry whose item does not exist, or the other way round.
fn state(entry: &StoredEntry, exists: bool) -> Markup {
    html! {
        @match (exists, entry.is_tombstone) {
            (true, false) => {},
            (false, true) => p { "The entry is a tombstone: the deletion of the item is counted." },
            (false, false) => p { "The item does not exist, and its deletion is not counted yet: its record is in flight, or was lost. " code { "afterwrite verify" } " decides." },
            (true, true) => p { "The item exists, and the entry is a tombstone: the record of its insertion is in flight." },
        }
    }
}

fn remedy() -> Markup {
    html! {
        p { "The item is parked: a record of it could not be counted, so its shares are those of an earlier state. Correct the item or the model, and count it:" }
    }
}

fn facts(model: &Model, entry: &StoredEntry, behind: Option<&str>) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    let mut fact = |name: &str, cell: Cell| rows.push(vec![Cell::text(name), cell]);
    fact("position", Cell::Position(entry.position.to_text()));
    fact("rev", Cell::number(entry.rev));
    fact("generation", Cell::number(entry.generation));
    let is_current = entry.generation == model.generation && entry.fingerprint == *model.fingerprint();
    let counted_by = if entry.fingerprint.is_empty() { "unknown" } else { &*entry.fingerprint };
    fact("fingerprint", Cell::code(counted_by));
    // A parked record is not counted: the model has only written the entry.
    fact(
        if behind.is_some() { "written by" } else { "counted by" },
        if is_current {
            Cell::Verdict(Verdict::Good, "this model".to_owned())
        } else {
            Cell::Verdict(
                Verdict::Warning,
                "another model: `afterwrite backfill` counts the item by this one".to_owned(),
            )
        },
    );
    fact("as_of", entry.as_of.map_or(Cell::Empty, Cell::Time));
    if let Some(behind) = behind {
        let (position, reason) = behind.rsplit_once(' ').unwrap_or((behind, ""));
        fact("parked", Cell::Verdict(Verdict::Bad, parked_reason(reason)));
        fact("record that could not be counted", Cell::Position(position.to_owned()));
    }
    if entry.is_tombstone {
        fact("tombstone until", entry.expires_at.map_or(Cell::Empty, Cell::Time));
    }
    if !entry.unrecorded.is_empty() {
        fact("lives without a record", Cell::number(entry.unrecorded.len()));
    }
    rows
}
