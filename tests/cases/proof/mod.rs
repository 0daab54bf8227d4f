//! Cases B. Proof that proves.

mod extremes;
mod ledger;
mod moved;
mod programs;
mod repeated;
mod rotation;
mod tenants;
mod three_way;
mod uncountable;
mod unjudged;
mod waits;
mod world;
