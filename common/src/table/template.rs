//! Key templates: `ROLLUP#PROJECT#{project_id}#DAY#{started_at:day}`.

use std::sync::Arc;

/// A key template: literal text and variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Literals and variables in order; no two variables are neighbours.
    pub pieces: Vec<TemplatePiece>,
}

/// A piece of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePiece {
    /// Text as it is.
    Literal(Arc<str>),
    /// A variable: an index into the owner's list of variables.
    Variable(usize),
}

/// How a value is written into a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As it is: text, a number's digits, `true` or `false`.
    Plain,
    /// The UTC day of a time, `yyyy-mm-dd`.
    Day,
}
