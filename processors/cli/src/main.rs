//! The `afterwrite` command.
fn main() {}
