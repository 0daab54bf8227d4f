//! The rollups of the model: the values of their keys (`shape`, `asked`), how they are read (`reads`), and their measures (`measures`).

pub(crate) mod asked;
pub(crate) mod measures;
pub(crate) mod reads;
pub(crate) mod shape;
