//! Cases C. Recovery from every loss.
