//! The states that an item of a batch passes through.
//!
//! ```text
//!                              lost response
//!      ┌───────────────────────────────────────────────────────────────┐
//!      ▼                                                               │
//!   Unread ──entry──▶ decide ──┬──▶ AwaitingLookup ──lookups──▶ Planned
//!                       ▲      ├──▶ NeedsItem ──item──▶ AwaitingLookup │
//!                       │      └──▶ Committed, Failed                  │
//!                       └────────── written, refused, rejected ────────┘
//! ```
//!
//! | state | news | next state |
//! |---|---|---|
//! | `Unread` | its entry was read | decide |
//! | `NeedsItem` | the item was read from its table | `AwaitingLookup`, on the basis of the table |
//! | `AwaitingLookup` | its lookups are resolved | `Planned`; `Committed`, if there is no work; decide, if the item of the table changes nothing or cannot be counted, or if no plan is possible |
//! | `Planned` | written | decide |
//! | `Planned` | refused: the entry or a marker changed | decide |
//! | `Planned` | rejected: its records have errors | decide |
//! | `Planned` | the response is lost | `Unread` |
//! | `Planned` | given up, its parked records rejected again | decide |
//! | any | given up | `Failed` |
//!
//! *Decide* compares the records with the entry. The next state is `Committed` if no record is left to count, so a duplicate needs no plan;
//! `NeedsItem` if the item must be counted from its table, or `AwaitingLookup` at once if an export has it; otherwise `AwaitingLookup` on the
//! basis of the records. An item that can be counted neither by its records nor from its table is `Failed`.
//!
//! A record that cannot be counted does not stop its item: it has an error, the other records are counted, and the plan
//! marks the item as parked. So there is no state for it. The same holds for a record that needs the item's table, if
//! the item cannot be counted as its table has it.

use afterwrite_model::Error;
use afterwrite_model::projection::{LookupKey, lookup_keys, offered_outputs};
use afterwrite_model::record::{AttributeValue, Image, Item, Timestamp};
use afterwrite_model::table::Model;

use super::decide::RecordDecision;
use super::facts::ItemFacts;
use super::lookups::LookupResults;
use super::plan::ItemPlan;
use crate::state::marker::StoredMarker;

/// The step that an item of a batch waits for.
#[derive(Debug)]
pub(crate) enum ItemState<'r> {
    /// Its entry must be read: it never was, or a write with an unknown response may have changed it.
    Unread,
    /// The item itself must be read from its table. Its entry has been read before; reconciling depends on this order.
    NeedsItem,
    /// Its records are decided; it is planned as soon as its lookups are resolved.
    AwaitingLookup(CountBasis),
    /// The plan must be written.
    Planned(Box<ItemPlan<'r>>),
    /// All its records are counted, or have errors.
    Committed,
    /// It cannot be counted now.
    Failed(Error),
}

/// The basis that an item is counted from.
#[derive(Debug)]
pub(crate) enum CountBasis {
    /// Its records.
    Records(RecordDecision),
    /// Nothing: its entry cannot be read, so its records are parked.
    Unreadable,
    /// The item as its table has it, if it exists, and when it was read.
    Table { image: Option<Image<'static>>, at: Timestamp },
}

/// News for an item, from a stage.
#[derive(Debug)]
pub(crate) enum ItemInput<'r, 'l> {
    /// Its entry was read, and the existing markers of its expiries.
    EntryRead { entry: Option<Item>, markers: Vec<StoredMarker<'r>> },
    /// The item was read from its table.
    ItemRead { image: Option<Image<'static>>, at: Timestamp },
    /// Every lookup that it needs has a result.
    LookupsResolved(&'l LookupResults),
    /// Its plan took effect. Records may be left: the item is committed when none is.
    Written,
    /// Its plan did not take effect, because the entry or markers differ from what was known.
    Refused { entry: Option<Option<Item>>, markers: Vec<StoredMarker<'r>> },
    /// Its plan did not take effect and never will.
    Rejected(Error),
    /// Whether its plan took effect is unknown.
    ResponseLost,
    /// There is no time left, or a request that it needs failed.
    GivenUp(Error),
}

/// An item as a table export has it.
#[derive(Clone, Debug)]
pub struct ExportedImage {
    /// The item.
    pub image: Image<'static>,
    /// The time of the export.
    pub at: Timestamp,
}

/// Whether the item must be counted from its table.
#[derive(Debug)]
pub(super) enum Reconciliation {
    Unneeded,
    /// A record needs it.
    Needed,
    /// The caller requested it, regardless of records.
    Requested,
    /// As `Requested`; if the item has no entry, it is counted as this export has it.
    Exported(Box<ExportedImage>),
    Done,
    /// The item cannot be counted as its table has it.
    Impossible,
}

impl Reconciliation {
    /// Whether the item must still be counted from its table.
    pub(super) fn is_due(&self) -> bool {
        match self {
            Self::Needed | Self::Requested | Self::Exported(_) => true,
            Self::Unneeded | Self::Done | Self::Impossible => false,
        }
    }

    /// Whether the item was read after its entry was.
    pub(super) fn is_item_read(&self) -> bool {
        match self {
            Self::Done | Self::Impossible => true,
            Self::Unneeded | Self::Needed | Self::Requested | Self::Exported(_) => false,
        }
    }

    /// The export, the first time that it is asked for.
    pub(super) fn take_export(&mut self) -> Option<ExportedImage> {
        let Self::Exported(exported) = self else { return None };
        let exported = ExportedImage { image: std::mem::take(&mut exported.image), at: exported.at };
        *self = Self::Requested;
        Some(exported)
    }
}

impl<'r> ItemState<'r> {
    /// Whether the item waits for nothing any more.
    pub(crate) fn is_finished(&self) -> bool {
        match self {
            Self::Committed | Self::Failed(_) => true,
            Self::Unread | Self::NeedsItem | Self::AwaitingLookup(_) | Self::Planned(_) => false,
        }
    }

    /// Whether the item is counted, by this batch or before it.
    pub(crate) fn is_committed(&self) -> bool {
        matches!(self, Self::Committed)
    }

    /// The plan to write.
    pub(crate) fn planned(&self) -> Option<&ItemPlan<'r>> {
        match self {
            Self::Planned(plan) => Some(plan),
            Self::Unread | Self::NeedsItem | Self::AwaitingLookup(_) | Self::Committed | Self::Failed(_) => {
                None
            }
        }
    }

    /// The plan to write, to drop from it what would change nothing.
    pub(crate) fn planned_mut(&mut self) -> Option<&mut ItemPlan<'r>> {
        match self {
            Self::Planned(plan) => Some(plan),
            Self::Unread | Self::NeedsItem | Self::AwaitingLookup(_) | Self::Committed | Self::Failed(_) => {
                None
            }
        }
    }

    /// The images that the uncounted part of the item depends on. Until its entry is read, these may be the images of all its records.
    pub(crate) fn images_to_count<'i>(&'i self, facts: &'i ItemFacts<'r>) -> Vec<&'i Image<'i>> {
        let records = &facts.records;
        match self {
            Self::Unread => records.images().map(|image| -> &Image<'_> { image }).collect(),
            Self::AwaitingLookup(CountBasis::Table { image, .. }) => {
                image.iter().map(|image| -> &Image<'_> { image }).collect()
            }
            Self::AwaitingLookup(CountBasis::Records(decision)) => {
                let uncounted = decision.uncounted.iter().filter_map(|index| records.new_image(*index));
                let expired = decision.expiries.iter().filter_map(|index| records.old_image(*index));
                uncounted.map(|image| -> &Image<'_> { image }).chain(expired).collect()
            }
            Self::AwaitingLookup(CountBasis::Unreadable)
            | Self::NeedsItem
            | Self::Planned(_)
            | Self::Committed
            | Self::Failed(_) => Vec::new(),
        }
    }

    /// Whether all its images are new images of its records, which are known from the beginning.
    pub(crate) fn has_new_images_only(&self, facts: &ItemFacts<'_>) -> bool {
        self.image_to_reconcile().is_none() && !facts.records.has_old_images()
    }

    /// The images that may offer outputs to the lookups of other items: the images of its records, and the item as its table has
    /// it while it is reconciled.
    pub(crate) fn offering_images<'i>(
        &'i self,
        facts: &'i ItemFacts<'r>,
    ) -> impl Iterator<Item = &'i Image<'r>> {
        let is_looked_up = facts.is_looked_up();
        let reconciled = self.image_to_reconcile().map(|image| -> &Image<'r> { image });
        facts.records.images().chain(reconciled).filter(move |_| is_looked_up)
    }

    /// The lookups that the item offers outputs for, each with its outputs, and the lookups that the item needs.
    pub(crate) fn lookups<'i>(
        &'i self,
        facts: &'i ItemFacts<'r>,
        model: &'i Model,
    ) -> impl Iterator<Item = (LookupKey<'i>, Option<Vec<AttributeValue<'static>>>)> {
        let images = self.offering_images(facts);
        let offered = images.flat_map(|image| offered_outputs(model, facts.candidates, image));
        let offered = offered.map(|(key, outputs)| (key, Some(outputs)));
        offered.chain(self.needed_lookups(facts, model).map(|key| (key, None)))
    }

    /// The lookups that the item needs.
    pub(crate) fn needed_lookups<'i>(
        &'i self,
        facts: &'i ItemFacts<'r>,
        model: &'i Model,
    ) -> impl Iterator<Item = LookupKey<'i>> {
        let images = self.images_to_count(facts).into_iter();
        // An image without a lookup's inputs cannot be counted either: planning reports that as the record's error.
        images.filter_map(|image| lookup_keys(model, facts.candidates, image).ok()).flatten()
    }

    /// The item as its table has it, while it waits to be counted as that.
    fn image_to_reconcile(&self) -> Option<&Image<'static>> {
        match self {
            Self::AwaitingLookup(CountBasis::Table { image, .. }) => image.as_ref(),
            Self::AwaitingLookup(CountBasis::Records(_) | CountBasis::Unreadable)
            | Self::Unread
            | Self::NeedsItem
            | Self::Planned(_)
            | Self::Committed
            | Self::Failed(_) => None,
        }
    }
}
