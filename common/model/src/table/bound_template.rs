//! Key templates in the scope of one entity: their variables are bound to its values.

use std::sync::Arc;

use super::template::{Template, TemplatePiece, ValueFormat};
use super::term::Term;

/// A key template whose variables are bound to terms of one entity's scope.
#[derive(Clone, Debug, Default)]
pub struct BoundTemplate {
    /// Its pieces, in order.
    pub pieces: Vec<BoundPiece>,
}

impl BoundTemplate {
    /// The values that it is rendered from, each with the index of its variable in the template that was bound.
    pub(crate) fn values_of_variables<'b>(
        &'b self,
        template: &'b Template,
    ) -> impl Iterator<Item = (usize, &'b Term, &'b ValueFormat)> {
        template.pieces.iter().zip(&self.pieces).filter_map(|pieces| match pieces {
            (TemplatePiece::Variable(variable, _), BoundPiece::Value(term, format)) => {
                Some((*variable, term, format))
            }
            (TemplatePiece::Literal(_), _) | (_, BoundPiece::Literal(_)) => None,
        })
    }

    /// The values that it is rendered from, with their formats.
    pub(super) fn values(&self) -> impl Iterator<Item = (&Term, &ValueFormat)> {
        self.pieces.iter().filter_map(|piece| match piece {
            BoundPiece::Literal(_) => None,
            BoundPiece::Value(term, format) => Some((term, format)),
        })
    }

    /// The values that it is rendered from, zones of formats included.
    pub(super) fn terms(&self) -> impl Iterator<Item = &Term> {
        self.values().flat_map(|(term, format)| std::iter::once(term).chain(format.zone_term()))
    }
}

/// A piece of a [`BoundTemplate`].
#[derive(Clone, Debug)]
pub enum BoundPiece {
    /// Literal text.
    Literal(Arc<str>),
    /// A value, formatted.
    Value(Term, ValueFormat),
}

impl BoundPiece {
    /// The value's term, if it is not literal.
    pub(super) fn term(&self) -> Option<&Term> {
        match self {
            Self::Literal(_) => None,
            Self::Value(term, _) => Some(term),
        }
    }
}
