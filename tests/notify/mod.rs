//! Events on their way from the relay to their targets: each is published under one id, in order where the target keeps order, whatever fails
//! meanwhile; and no other target of the relay waits. The contract of a target itself is tested in `tests/conformance`.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod busy_bus;
mod draining;
mod fifo;
mod single_reader;
mod sizes;
pub(crate) mod stand_ins;
mod targets;
mod timed_queue;
mod timed_targets;
