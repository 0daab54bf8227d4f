//! Tables for trials: writes that stay in memory, source items from a file, and the items that a run has changed.

mod difference;
mod overlay;
mod source_items;
mod state_stream;
mod stored_key;
mod watched;

pub use self::difference::{AttributeDifference, ItemDifference, plain_item, plain_value};
pub use self::overlay::{OverlayTables, OverlayUnits};
pub use self::source_items::{PlacedItem, SourceItems, images_of};
pub use self::state_stream::StateStream;
pub use self::watched::WatchedTables;
