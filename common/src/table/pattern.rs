//! Conditions, written as Lambda event filter patterns.
