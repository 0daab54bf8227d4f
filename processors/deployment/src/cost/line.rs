//! A part of the bill.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

/// A part's cost in a month.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostLine {
    /// The part.
    pub part: Cow<'static, str>,
    /// The unit that is billed.
    pub unit: &'static str,
    /// How much of it.
    pub quantity: f64,
    /// The dollars.
    pub dollars: f64,
}

pub(super) fn line(
    part: impl Into<Cow<'static, str>>,
    unit: &'static str,
    quantity: f64,
    price: f64,
) -> CostLine {
    CostLine { part: part.into(), unit, quantity, dollars: quantity * price }
}

impl fmt::Display for CostLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:.2} {}, ${:.2}", self.part, self.quantity, self.unit, self.dollars)
    }
}
