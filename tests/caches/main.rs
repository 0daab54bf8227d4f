//! Cache invalidation: exactly what must go is gone, from a real Redis and from CloudFront, whatever fails meanwhile.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected must fail at once"
)]

mod apart;
mod cloudfront;
mod cluster;
mod delivery;
mod failure;
mod golden;
mod race;
mod tls;
mod way;
