//! Cache invalidation by the relay: exactly the stale keys and paths are invalidated, in a real Redis and in CloudFront, whatever fails
//! meanwhile. The contract of a cache itself, with its races, is tested in `tests/conformance`.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod busy_cdn;
pub(crate) mod cloudfront;
mod cluster;
mod delivery;
mod draining;
mod entity_secrets;
mod failure;
mod golden;
mod redelivery;
mod relay_failures;
pub(crate) mod stand_ins;
mod tcp_proxy;
mod tls;
