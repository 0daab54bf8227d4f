//! What Afterwrite's tests share.

pub mod clock;
pub mod fault_proxy;
pub mod faults;
mod loopback;
pub mod random;
pub mod recording;
pub mod runtime_api;
