//! Cases A. Jobs know what they run on.
