//! Every guard of the ledger, each with the change that switches it off.

use std::path::Path;
use std::time::Duration;

use super::super::events::state::EventBypass;
use super::bypass::ItemClass::{Entry, LevelEntry, LevelMarker, Lookup, Marker, Rollup, Source};
use super::bypass::{self, GuardBypass};

/// A part of the ledger without which something derived becomes wrong.
#[derive(Debug)]
pub(crate) struct LedgerGuard {
    pub(crate) name: &'static str,
    /// The file, from the root of the repository or below `common/ledger/src`, and the item in it.
    pub(crate) place: &'static str,
    /// The error that its absence causes.
    pub(crate) consequence: &'static str,
    pub(crate) bypass: GuardBypass,
}

impl LedgerGuard {
    /// Whether its file exists and has the item.
    pub(crate) fn is_in_place(&self) -> bool {
        let Some((file, item)) = self.place.split_once(": ") else { return false };
        let item = item.split(' ').next().and_then(|path| path.split("::").last()).unwrap_or_default();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let texts = [root.join(file), root.join("common/ledger/src").join(file)].map(std::fs::read_to_string);
        texts.into_iter().flatten().any(|text| text.contains(item))
    }

    /// The guard's row in `docs/GUARDS.md`.
    pub(crate) fn documentation_row(&self) -> String {
        format!("| `{}` | {} | {} |", self.name, self.place, self.consequence)
    }
}

const fn guard(
    name: &'static str,
    place: &'static str,
    consequence: &'static str,
    bypass: GuardBypass,
) -> LedgerGuard {
    LedgerGuard { name, place, consequence, bypass }
}

pub(crate) static GUARDS: &[LedgerGuard] = &[
    // --- Entries ---------------------------------------------------------------------------------------------------
    guard(
        "entry-revision",
        "write.rs: entry_write",
        "two writers of one entry both add their difference",
        GuardBypass::Write(Entry, bypass::drop_revision_condition),
    ),
    guard(
        "entry-absence",
        "write.rs: entry_write",
        "two writers both create the entry and add the item",
        GuardBypass::Write(Entry, bypass::drop_absence_condition),
    ),
    guard(
        "entry-position",
        "core/decide.rs: decide",
        "a record that is delivered again replaces a newer state",
        GuardBypass::Read(Entry, bypass::hide_position),
    ),
    guard(
        "entry-position-without-difference",
        "write.rs: render_entries",
        "an older record that is redriven later is taken for a new one",
        GuardBypass::OmitSingle(Entry, bypass::is_only_position),
    ),
    guard(
        "entry-contributions",
        "core/plan.rs: difference",
        "every change of an item adds all that it contributes",
        GuardBypass::Read(Entry, bypass::hide_contributions),
    ),
    guard(
        "entry-generation",
        "core/plan.rs: ItemPlanner::plan",
        "a function with an old model undoes what a newer model counted",
        GuardBypass::Read(Entry, bypass::hide_generation),
    ),
    guard(
        "entry-shard",
        "state/contributions.rs: StoredTarget",
        "an item is subtracted from another shard than it was added to",
        GuardBypass::Read(Entry, bypass::hide_shards),
    ),
    guard(
        "entry-rollup-expiry",
        "core/plan.rs: drop_expired_targets",
        "a subtraction restores a part of an expired rollup",
        GuardBypass::Read(Entry, bypass::hide_rollup_expiry),
    ),
    guard(
        "entry-left",
        "core/plan.rs: departed_targets",
        "the rollup that an item left is shown as before if the writer crashes",
        GuardBypass::Read(Entry, bypass::hide_left),
    ),
    guard(
        "tombstone-lifetime",
        "core/decide.rs: TOMBSTONE_LIFETIME",
        "an older record of a deleted item is counted again",
        GuardBypass::Write(Entry, bypass::expire_at_once),
    ),
    guard(
        "transaction-atomicity",
        "write.rs: write_wave",
        "entries are written without their additions",
        GuardBypass::TransactPiecemeal,
    ),
    // --- Reconciling -----------------------------------------------------------------------------------------------
    guard(
        "reconciled-since",
        "core/decide.rs: decide (as_of)",
        "a record older than the reconciliation replaces the reconciled state",
        GuardBypass::Read(Entry, bypass::hide_as_of),
    ),
    guard(
        "clock-tolerance",
        "core/decide.rs: CLOCK_TOLERANCE",
        "a change made after a reconciliation is taken for an older one",
        GuardBypass::ServerAhead(Duration::from_secs(16 * 60)),
    ),
    guard(
        "item-read-strongly",
        "read.rs: read_items",
        "a reconciliation counts a state that a counted record has replaced",
        GuardBypass::ReadStale(Source),
    ),
    // --- Expiries --------------------------------------------------------------------------------------------------
    guard(
        "marker",
        "write.rs: marker_write",
        "an expiry that is delivered again is settled again",
        GuardBypass::OmitAction(Marker),
    ),
    guard(
        "marker-condition",
        "write.rs: marker_write",
        "an expiry is settled by two deliveries at a time",
        GuardBypass::Write(Marker, bypass::settle_always),
    ),
    guard(
        "marker-read",
        "read.rs: read_entries",
        "an expiry that is delivered again is planned until its deadline",
        GuardBypass::Hide(Marker),
    ),
    guard(
        "marker-lifetime",
        "core/decide.rs: TOMBSTONE_LIFETIME",
        "an expiry that is delivered again is settled again",
        GuardBypass::Write(Marker, bypass::expire_at_once),
    ),
    guard(
        "settled-part",
        "state/rollup.rs: rollup_write",
        "settled contributions cannot be distinguished from wrong ones",
        GuardBypass::Write(Rollup, bypass::drop_settled_part),
    ),
    // --- Parking ---------------------------------------------------------------------------------------------------
    guard(
        "parked-marker-condition",
        "write.rs: marker_write",
        "a settled expiry is parked, and settled again when it is redriven",
        GuardBypass::Write(Marker, bypass::park_always),
    ),
    guard(
        "parked-marker-mark",
        "read.rs: read_entries (is_parked)",
        "a parked expiry is taken for a settled one",
        GuardBypass::Read(Marker, bypass::hide_mark),
    ),
    guard(
        "parked-mark",
        "core/evaluate.rs: park",
        "a parked record is acknowledged, and no entry marks it as missing",
        GuardBypass::Write(Entry, bypass::omit_mark),
    ),
    guard(
        "parked-mark-kept",
        "core/plan.rs: ItemPlanner::plan (behind)",
        "an older record removes the mark of a parked one",
        GuardBypass::Read(Entry, bypass::hide_mark),
    ),
    guard(
        "parked-entry-lifetime",
        "core/plan.rs: ItemPlanner::plan (expires_at)",
        "TTL deletes the entry of a parked item",
        GuardBypass::Write(Entry, bypass::expire_parked),
    ),
    // --- Rollups ---------------------------------------------------------------------------------------------------
    guard(
        "computed-revision",
        "state/rollup.rs: unchanged",
        "an average or extreme is computed from values that another writer has changed",
        GuardBypass::Write(Rollup, bypass::drop_revision_condition),
    ),
    guard(
        "computed-absence",
        "state/rollup.rs: unchanged",
        "an average or extreme is computed as if the rollup did not exist",
        GuardBypass::Write(Rollup, bypass::drop_absence_condition),
    ),
    guard(
        "rollup-revision",
        "state/rollup.rs: rollup_write",
        "no writer can tell that a rollup has changed",
        GuardBypass::Write(Rollup, bypass::keep_revision),
    ),
    // --- Rollups that are sources ----------------------------------------------------------------------------------
    guard(
        "level-entry",
        "write.rs: entry_write",
        "each change of a source rollup adds all that the rollup contributes",
        GuardBypass::OmitAction(LevelEntry),
    ),
    guard(
        "level-position",
        "core/decide.rs: decide",
        "a record of a source rollup that is delivered again replaces a newer state",
        GuardBypass::Read(LevelEntry, bypass::hide_position),
    ),
    guard(
        "level-zero",
        "common/model/src/table/levels.rs: items_of (when)",
        "a source rollup whose items are gone is still counted",
        GuardBypass::Model(bypass::count_zeros),
    ),
    guard(
        "level-expiry",
        "common/model/src/table/levels.rs: items_of (on_expiry)",
        "an expired source rollup is subtracted from totals that keep it",
        GuardBypass::Model(bypass::subtract_expired_rollups),
    ),
    guard(
        "level-marker",
        "write.rs: marker_write",
        "an expired source rollup that is delivered again is settled again",
        GuardBypass::OmitAction(LevelMarker),
    ),
    guard(
        "level-filter",
        "processors/deployment/src/stream_filters/mod.rs: StreamFilter::new",
        "each write of the ledger invokes the function again",
        GuardBypass::Unfiltered,
    ),
    // --- Lookups ---------------------------------------------------------------------------------------------------
    guard(
        "lookup-absence",
        "lookup.rs: store_outputs",
        "the outputs of a lookup change, and contributions with them",
        GuardBypass::Write(Lookup, bypass::drop_absence_condition),
    ),
    guard(
        "lookup-read",
        "read.rs: read_entries",
        "a record fails because the looked-up item is deleted",
        GuardBypass::Hide(Lookup),
    ),
    // --- Mirrors ---------------------------------------------------------------------------------------------------
    guard(
        "mirror-revision",
        "mirror/write.rs: copies_write",
        "an older copy replaces a newer one",
        GuardBypass::Write(Source, bypass::replace_newer_copies),
    ),
    guard(
        "mirror-same-revision",
        "mirror/write.rs: copies_write",
        "a copy that the application overwrote stays wrong",
        GuardBypass::Write(Source, bypass::keep_overwritten_copies),
    ),
    guard(
        "mirror-origin",
        "mirror/write.rs: copies_write (_of)",
        "an item that was copied shows the original's values",
        GuardBypass::Write(Source, bypass::keep_foreign_copies),
    ),
    guard(
        "mirror-existence",
        "mirror/write.rs: copies_write",
        "a deleted item exists again",
        GuardBypass::Write(Source, bypass::create_items),
    ),
    guard(
        "mirror-map",
        "mirror/write.rs: create_maps",
        "a new map removes copies that another writer has set",
        GuardBypass::Write(Source, bypass::replace_maps),
    ),
    guard(
        "mirror-read-strongly",
        "mirror/mod.rs: place_copies",
        "the last refresh shows an older value",
        GuardBypass::ReadStale(Rollup),
    ),
    guard(
        "mirror-note",
        "mirror/places.rs: place_note",
        "an item that has moved is not refreshed",
        GuardBypass::OmitSingle(Lookup, bypass::is_note),
    ),
    guard(
        "mirror-note-read",
        "mirror/places.rs: place_keys",
        "an item that has moved is not refreshed",
        GuardBypass::Read(Lookup, bypass::hide_notes),
    ),
    guard(
        "mirror-note-read-strongly",
        "mirror/mod.rs: place_copies",
        "a writer misses the note of an item that has moved during its commit",
        GuardBypass::ReadStale(Lookup),
    ),
    // --- Events ----------------------------------------------------------------------------------------------------
    guard(
        "event-state-before",
        "common/model/src/projection/events.rs: ItemStates::shown",
        "each change of an item that meets a rule is an event, not only the first",
        GuardBypass::Model(bypass::ignore_old_states),
    ),
    guard(
        "event-id",
        "common/model/src/projection/events.rs: event (id)",
        "an event that is delivered again has another id",
        GuardBypass::Events(EventBypass::NewIds),
    ),
    guard(
        "event-group",
        "common/model/src/projection/events.rs: event (group)",
        "a FIFO target does not keep the order of an item's events",
        GuardBypass::Events(EventBypass::OwnGroups),
    ),
    guard(
        "event-taken",
        "common/relay/src/notify/publish.rs: publish",
        "an event that its target did not take is never sent",
        GuardBypass::Events(EventBypass::HideRefusals),
    ),
    guard(
        "event-wave",
        "common/relay/src/notify/request.rs: next_wave",
        "a request that is taken in part, or sent again, reverses two events of an item",
        GuardBypass::Events(EventBypass::HideOrder),
    ),
    guard(
        "event-behind",
        "processors/functions/src/notifying.rs: notify (is_behind)",
        "an event is sent before the events of an earlier record of its item that could not be read",
        GuardBypass::Events(EventBypass::HideDamagedItem),
    ),
    guard(
        "event-detour",
        "common/relay/src/notify/mod.rs: has_detour",
        "an event of a FIFO target waits in the queue while later events of its item are sent",
        GuardBypass::Events(EventBypass::QueueRefused),
    ),
    guard(
        "event-queued",
        "common/relay/src/notify/mod.rs: enqueue",
        "an event that the queue did not take is never sent",
        GuardBypass::Events(EventBypass::HideQueueRefusals),
    ),
    guard(
        "event-drained",
        "common/relay/src/notify/drain.rs: QueuedEventPublisher::publish",
        "an event whose target is still busy leaves the queue",
        GuardBypass::Events(EventBypass::DropFailedMessages),
    ),
];
