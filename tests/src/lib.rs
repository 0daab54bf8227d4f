//! What Afterwrite's tests share.

pub mod faults;
pub mod random;
