//! Reconciling: whether an item is counted as its table has it.

use afterwrite_model::record::{Image, Timestamp};

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
