//! Cases B. Proof that proves.

mod ledger;
mod programs;
mod rotation;
mod unjudged;
mod waits;
mod world;
