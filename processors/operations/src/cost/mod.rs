//! The cost of a deployment a month, before anything is deployed.
//!
//! ```text
//! sample + rates ─▶ trial: units, batches, bytes, paths ─▶ a month ─▶ estimate: parts, quantities, dollars
//!                                   figures of docs/PERFORMANCE.md ───┘   └── prices.json
//! ```
//!
//! Units are not computed by a formula: the trial runs the functions' own code on tables that charge by DynamoDB's rules, so
//! folding, entries, markers, mirrors and their indexes cost what they cost in a deployment.

mod batches;
mod estimate;
mod figures;
mod prices;
mod trial;

pub use self::batches::DeliverySettings;
pub use self::estimate::{CostEstimate, CostLine, CostSettings, estimate};
pub use self::prices::PriceList;
pub use self::trial::{CostTrial, EntityRate, TrialTotals, entity_counts};
