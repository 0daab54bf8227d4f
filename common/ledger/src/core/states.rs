//! The states that an item of a batch passes through. Each state carries what is known in it; [`ItemFacts`] has the facts that
//! outlive the states.
//!
//! ```text
//!                                  lost response
//!      ┌────────────────────────────────────────────────────────────────────┐
//!      ▼                                                                    │
//!   Unread ──entry──▶ next_state ──┬─────────────────▶ AwaitingLookup ──▶ Planned
//!                       ▲  ▲       ├──▶ NeedsItem ──item──▶ ▲  │            │
//!                       │  │       └──▶ Committed, Failed      │            │
//!                       │  └────── nothing to write, uncountable            │
//!                       └────────────── written, refused, rejected ─────────┘
//! ```
//!
//! | state | input | next state |
//! |---|---|---|
//! | `Unread` | `EntryRead` | `NeedsItem`, `AwaitingLookup`, `Committed`, `Failed` |
//! | `NeedsItem` | `ItemRead` | `AwaitingLookup` |
//! | `AwaitingLookup` | `LookupsResolved` | `Planned`, `AwaitingLookup`, `Committed`, `Failed` |
//! | `Planned` | `Written` | `NeedsItem`, `AwaitingLookup`, `Committed` |
//! | `Planned` | `Refused` | `NeedsItem`, `AwaitingLookup`, `Committed`, `Failed` |
//! | `Planned` | `Rejected` | `NeedsItem`, `AwaitingLookup`, `Failed` |
//! | `Planned` | `ResponseLost` | `Unread` |
//! | `Planned` | `GivenUp` | `NeedsItem`, `AwaitingLookup`, `Failed` |
//!
//! Every other input ends the item: `Failed`. A test takes items through all these transitions and compares them with this table.
//!
//! `LedgerItem::next_state` compares the records with the entry. The next state is `Committed` if no record is left to count, so a
//! duplicate needs no plan; `NeedsItem` if the item must be counted from its table, or `AwaitingLookup` at once if an export has it;
//! otherwise `AwaitingLookup` on the basis of the records. An item that can be counted neither by its records nor from its table is
//! `Failed`.
//!
//! A record may grow too old during a batch, so that a planned item needs its table after all.
//!
//! `AwaitingLookup` leads to `next_state`, too: if the item of the table changes nothing or cannot be counted. So does `GivenUp`, if a
//! planned item has parked records alone, which DynamoDB rejected again.
//!
//! A record that cannot be counted does not stop its item: it has an error, the other records are counted, and the plan
//! marks the item as parked. So there is no state for it. The same holds for a record that needs the item's table, if
//! the item cannot be counted as its table has it.

use afterwrite_model::Error;
use afterwrite_model::effect::ItemKey;
use afterwrite_model::projection::{LookupKey, offered_outputs};
use afterwrite_model::record::{AttributeValue, Image, Item, Timestamp};
use afterwrite_model::table::Model;

use super::decide::RecordDecision;
use super::facts::ItemFacts;
use super::lookups::{ItemImage, KeyedImage, LookupResults};
use super::plan::ItemPlan;
use crate::state::marker::StoredMarker;

/// The step that an item of a batch waits for.
#[derive(Debug)]
pub(crate) enum ItemState<'r> {
    /// Its entry must be read: it never was, or a write with an unknown response may have changed it.
    Unread(Reconciliation),
    /// The item itself must be read from its table. Its entry has been read before; reconciling depends on this order.
    NeedsItem(ReconciliationCause),
    /// Its records are decided; it is planned as soon as its lookups are resolved.
    AwaitingLookup(CountBasis),
    /// The plan must be written.
    Planned(Box<PlannedItem<'r>>),
    /// All its records are counted, or have errors.
    Committed(TableReading),
    /// It cannot be counted now.
    Failed(Error),
}

/// The basis that an item is counted from.
#[derive(Debug)]
pub(crate) enum CountBasis {
    /// Its records. The item need not be read, or was read before.
    Records { decision: RecordDecision, reading: TableReading },
    /// Nothing: its entry cannot be read, so its records are parked.
    Unreadable,
    /// The item as its table has it, if it exists, and when it was read.
    Table { cause: ReconciliationCause, image: Option<KeyedImage<'static>>, at: Timestamp },
}

/// A plan, and the basis that it was made of.
#[derive(Debug)]
pub(crate) struct PlannedItem<'r> {
    pub(super) plan: ItemPlan<'r>,
    pub(super) basis: CountBasis,
}

/// The item in its table, as far as this batch has read it.
#[derive(Debug, Default)]
pub(crate) enum TableReading {
    #[default]
    NotRead,
    /// The item was read after its entry, or an export has it: it is counted as it was then, or cannot be counted so. `None` if it did not exist.
    Read(Option<KeyedImage<'static>>),
}

/// Whether an item with an unread entry must be counted from its table.
#[derive(Debug)]
pub(crate) enum Reconciliation {
    /// A record may still need it, unless the item was read.
    NotDue(TableReading),
    Due(ReconciliationCause),
    /// The caller requested it; if the item has no entry, it is counted as this export has it.
    Exported(Box<ExportedImage>),
}

/// Why an item must be counted from its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReconciliationCause {
    /// A record needs it.
    Record,
    /// The caller requested it, regardless of records.
    Request,
}

/// The input that a stage gives an item: the data that was read for it, or the result of its write.
#[derive(Debug)]
pub(crate) enum ItemInput<'r, 'l> {
    /// Its entry was read, and the existing markers of its expiries.
    EntryRead { key: ItemKey, entry: Option<Item>, markers: Vec<StoredMarker<'r>> },
    /// The item was read from its table.
    ItemRead { image: Option<Image<'static>>, at: Timestamp },
    /// Every lookup that it needs has a result.
    LookupsResolved(&'l LookupResults),
    /// Its plan took effect. Records may be left: the item is committed when none is.
    Written,
    /// Its plan did not take effect, because the entry or markers differ from what was known. `entry` is `None` if the entry does not differ,
    /// and `Some(None)` if it no longer exists.
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

impl TableReading {
    /// The item as it was read.
    fn image(&self) -> Option<&KeyedImage<'static>> {
        match self {
            Self::NotRead | Self::Read(None) => None,
            Self::Read(Some(image)) => Some(image),
        }
    }

    pub(super) fn is_read(&self) -> bool {
        match self {
            Self::NotRead => false,
            Self::Read(_) => true,
        }
    }
}

impl Reconciliation {
    /// For an item that is reconciled only if a record needs it.
    pub(super) fn not_due() -> Self {
        Self::NotDue(TableReading::NotRead)
    }

    /// Whether the item was read after its entry was.
    pub(super) fn is_item_read(&self) -> bool {
        match self {
            Self::NotDue(reading) => reading.is_read(),
            Self::Due(_) | Self::Exported(_) => false,
        }
    }

    /// Whether the caller requested it.
    pub(super) fn is_requested(&self) -> bool {
        match self {
            Self::Due(ReconciliationCause::Request) | Self::Exported(_) => true,
            Self::Due(ReconciliationCause::Record) | Self::NotDue(_) => false,
        }
    }

    /// Whether the item was, or will be, read from its table.
    pub(super) fn is_begun(&self) -> bool {
        match self {
            Self::Due(_) | Self::Exported(_) => true,
            Self::NotDue(reading) => reading.is_read(),
        }
    }
}

impl CountBasis {
    /// The reconciliation that is due for a plan that did not take effect, or may not have.
    pub(super) fn reconciliation(self) -> Reconciliation {
        match self {
            Self::Records { reading, .. } => Reconciliation::NotDue(reading),
            Self::Unreadable => Reconciliation::not_due(),
            Self::Table { cause, .. } => Reconciliation::Due(cause),
        }
    }

    /// The item as it was read, for a plan that took effect or needed no write.
    pub(super) fn reading(self) -> TableReading {
        match self {
            Self::Records { reading, .. } => reading,
            Self::Unreadable => TableReading::NotRead,
            Self::Table { image, .. } => TableReading::Read(image),
        }
    }

    /// Whether it is the item as its table has it.
    pub(super) fn is_table(&self) -> bool {
        match self {
            Self::Table { .. } => true,
            Self::Records { .. } | Self::Unreadable => false,
        }
    }
}

impl Default for ItemState<'_> {
    fn default() -> Self {
        Self::Unread(Reconciliation::not_due())
    }
}

impl<'r> ItemState<'r> {
    /// Whether the item waits for nothing any more.
    pub(crate) fn is_finished(&self) -> bool {
        match self {
            Self::Committed(_) | Self::Failed(_) => true,
            Self::Unread(_) | Self::NeedsItem(_) | Self::AwaitingLookup(_) | Self::Planned(_) => false,
        }
    }

    /// Whether the item is counted, by this batch or before it.
    pub(crate) fn is_committed(&self) -> bool {
        matches!(self, Self::Committed(_))
    }

    /// The plan to write.
    pub(crate) fn planned(&self) -> Option<&ItemPlan<'r>> {
        match self {
            Self::Planned(planned) => Some(&planned.plan),
            Self::Unread(_)
            | Self::NeedsItem(_)
            | Self::AwaitingLookup(_)
            | Self::Committed(_)
            | Self::Failed(_) => None,
        }
    }

    /// The plan to write, to drop from it what would change nothing.
    pub(crate) fn planned_mut(&mut self) -> Option<&mut ItemPlan<'r>> {
        match self {
            Self::Planned(planned) => Some(&mut planned.plan),
            Self::Unread(_)
            | Self::NeedsItem(_)
            | Self::AwaitingLookup(_)
            | Self::Committed(_)
            | Self::Failed(_) => None,
        }
    }

    /// The images that the uncounted part of the item depends on. Until its entry is read, these may be the images of all its records.
    pub(crate) fn images_to_count<'i>(&'i self, facts: &'i ItemFacts<'_>) -> Vec<ItemImage<'i>> {
        let records = &facts.records;
        match self {
            Self::Unread(_) => records.keyed_images().collect(),
            Self::AwaitingLookup(CountBasis::Table { image, .. }) => {
                image.iter().map(KeyedImage::borrowed).collect()
            }
            Self::AwaitingLookup(CountBasis::Records { decision, .. }) => {
                let uncounted = decision.uncounted.iter().filter_map(|index| records.keyed_new_image(*index));
                let expired = decision.expiries.iter().filter_map(|index| records.keyed_old_image(*index));
                uncounted.chain(expired).collect()
            }
            Self::AwaitingLookup(CountBasis::Unreadable)
            | Self::NeedsItem(_)
            | Self::Planned(_)
            | Self::Committed(_)
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
        offered.chain(self.needed_lookups(facts, model).map(|key| (key.borrowed(), None)))
    }

    /// The lookups that the item needs.
    pub(crate) fn needed_lookups<'i>(
        &'i self,
        facts: &'i ItemFacts<'r>,
        model: &'i Model,
    ) -> impl Iterator<Item = &'i LookupKey<'static>> {
        let images = self.images_to_count(facts).into_iter();
        images.flat_map(|image| image.needed_lookups(model, facts.candidates))
    }

    /// The item as its table has it, while it waits to be counted as that.
    fn image_to_reconcile(&self) -> Option<&Image<'static>> {
        match self {
            Self::AwaitingLookup(CountBasis::Table { image, .. }) => image.as_ref().map(|keyed| &keyed.image),
            Self::AwaitingLookup(CountBasis::Records { .. } | CountBasis::Unreadable)
            | Self::Unread(_)
            | Self::NeedsItem(_)
            | Self::Planned(_)
            | Self::Committed(_)
            | Self::Failed(_) => None,
        }
    }

    /// The item as its table had it, if it is counted after it was reconciled.
    fn reconciled_image(&self) -> Option<ItemImage<'_>> {
        match self {
            Self::Committed(reading) => reading.image().map(KeyedImage::borrowed),
            Self::Unread(_)
            | Self::NeedsItem(_)
            | Self::AwaitingLookup(_)
            | Self::Planned(_)
            | Self::Failed(_) => None,
        }
    }

    /// The newest known image of a counted item: its table's image if the item was reconciled, else the image of its newest record.
    pub(crate) fn newest_image<'i>(&'i self, facts: &'i ItemFacts<'_>) -> Option<&'i Image<'i>> {
        let reconciled = self.reconciled_image().map(|keyed| keyed.image);
        reconciled.or_else(|| facts.records.newest_image().map(|image| -> &Image<'_> { image }))
    }

    /// Every image of a counted item that is known.
    pub(crate) fn known_images<'i>(
        &'i self,
        facts: &'i ItemFacts<'_>,
    ) -> impl Iterator<Item = ItemImage<'i>> {
        self.reconciled_image().into_iter().chain(facts.records.keyed_images())
    }
}

#[cfg(test)]
mod tests;
