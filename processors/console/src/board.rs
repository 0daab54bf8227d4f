//! The facts that `afterwrite dev` shares with its console.

/// The facts that `afterwrite dev` shares with its console.
#[derive(Debug, Default)]
pub struct DevBoard {}
