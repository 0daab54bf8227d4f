//! A part of the bill.

use std::fmt;

use serde::Serialize;

/// A part's cost in a month.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostLine {
    /// The part.
    pub part: &'static str,
    /// The unit that is billed.
    pub unit: &'static str,
    /// How much of it.
    pub quantity: f64,
    /// The dollars.
    pub dollars: f64,
}

pub(super) fn line(part: &'static str, unit: &'static str, quantity: f64, price: f64) -> CostLine {
    CostLine { part, unit, quantity, dollars: quantity * price }
}

impl fmt::Display for CostLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:.2} {}, ${:.2}", self.part, self.quantity, self.unit, self.dollars)
    }
}
