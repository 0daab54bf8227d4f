//! What Afterwrite's tests share.

pub mod fault_proxy;
mod loopback;
pub mod runtime_api;
