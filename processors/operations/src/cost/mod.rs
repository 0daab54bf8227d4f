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
mod deployed;
mod estimate;
mod figures;
mod month;
mod prices;
mod trial;

pub use self::batches::DeliverySettings;
pub use self::deployed::{DeployedModule, DeploymentPart, StreamReaders};
pub use self::estimate::{CostEstimate, CostLine, estimate};
pub use self::month::CostSettings;
pub use self::prices::PriceList;
pub use self::trial::{CostTrial, EntityRate, TrialTotals, entity_counts};
