//! Cache invalidation: exactly what must go is gone, from a real Redis and from CloudFront, whatever fails meanwhile.

mod cloudfront;
mod cluster;
mod delivery;
mod failure;
mod golden;
mod race;
mod tls;
