//! The cost of a deployment a month, before anything is deployed.
//!
//! ```text
//! sample + rates ─▶ trial: units, batches, bytes, paths ─▶ a month ─▶ estimate: parts, quantities, dollars
//!                     figures of docs/PERFORMANCE.md, the module ────┘   └── prices.json
//! ```
//!
//! Units are not computed by a formula: the trial runs the functions' own code on tables that charge by DynamoDB's rules, so
//! folding, entries, markers, mirrors and their indexes cost what they cost in a deployment.

mod batches;
mod capacity;
mod deployed;
mod drain;
mod estimate;
mod event_usage;
mod events;
mod figures;
mod level_stream;
mod levels;
mod line;
mod lone;
mod members;
mod month;
mod observed;
mod paced;
mod prices;
mod ranks;
mod sampled_change;
mod trial;
mod trial_clock;

pub use self::batches::DeliverySettings;
pub use self::capacity::CapacityComparison;
pub use self::deployed::{DeployedModule, DeploymentPart, Observability, StreamReaders};
pub use self::estimate::{CostEstimate, estimate};
pub use self::event_usage::{EventTargetKind, EventUsage};
pub use self::level_stream::LevelTotals;
pub use self::line::CostLine;
pub use self::lone::{LoneChange, lone_changes, lookup_indexes};
pub use self::members::MemberTotals;
pub use self::month::CostSettings;
pub use self::paced::{EntityRate, UNMATCHED};
pub use self::prices::PriceList;
pub use self::sampled_change::entity_counts;
pub use self::trial::{BusyRank, CostTrial, TrialTotals};
