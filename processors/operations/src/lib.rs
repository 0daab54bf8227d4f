//! Operations on deployed tables, for the command line and for scheduled functions.
//!
//! | module | task |
//! |---|---|
//! | [`jobs`] | long work that can be watched, paused, resumed and throttled |
//! | [`backfill`] | what a table has already is counted |
//! | [`verify`], [`repair`] | what is derived is compared with the items, and corrected |
//! | [`contributors`] | the items that are counted into one rollup |
//! | [`verifier`] | the function that verifies on a schedule |
//! | [`replay`] | records delivered again, in order, resumable |
//! | [`redrive`] | on-failure objects and parked items processed again |
//! | [`state_table`] | state tables side by side |

pub mod backfill;
pub mod contributors;
mod cursor;
mod deployment_context;
mod dropped;
mod items;
pub mod jobs;
mod ledger_sample;
mod lives;
mod patient_tables;
mod projector;
pub mod redrive;
pub mod repair;
pub mod replay;
pub mod state_table;
mod tenant;
pub mod verifier;
pub mod verify;

pub use self::deployment_context::DeploymentContext;
pub use self::dropped::DROPPED_CONTRIBUTIONS;
pub use self::ledger_sample::{EmptiedTables, LedgerSample};
pub use self::lives::{LifeTotal, lives_of_findings};
pub use self::patient_tables::PatientTables;
pub use self::projector::{ItemProjector, RememberedOutputs};
pub use self::tenant::TenantFilter;
