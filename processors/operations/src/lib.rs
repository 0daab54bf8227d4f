//! Operations on a deployed table: jobs that fill, verify, repair and replay what is derived from it.

pub mod backfill;
mod cursor;
mod items;
pub mod jobs;
pub mod overlay;
mod projector;
pub mod repair;
mod tenant;
pub mod verify;

pub use self::tenant::TenantFilter;
