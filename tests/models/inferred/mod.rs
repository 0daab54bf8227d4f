//! The models that `afterwrite model init` proposes: for the tables of the demo's workloads, and for generated tables.

mod demos;
mod generated;
mod hidden;
mod misread;
mod privacy;
mod proposed;
mod strangers;
mod times;
mod uncertain;
mod unshared;
