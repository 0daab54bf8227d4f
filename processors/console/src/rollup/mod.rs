//! The rollups of the model: the values of their keys (`shape`, `asked`), how they are read (`reads`), their measures (`measures`),
//! the share of one count in another (`share`), and how far their changes are counted (`counted`).

pub(crate) mod asked;
pub(crate) mod counted;
pub(crate) mod measures;
pub(crate) mod reads;
pub(crate) mod shape;
pub(crate) mod share;
