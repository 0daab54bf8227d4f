//! Cases D. One path from item to number.

mod decisions;
mod exceeding;
mod expiries;
mod pipes;
mod shards;
mod words;
mod world;
