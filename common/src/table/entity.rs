//! What an item is, and where the values in templates and conditions come from.

use std::iter;
use std::sync::Arc;

use super::{Template, ValueFormat};
use crate::record::{AttributeId, AttributePath};

/// A kind of item, told by its primary key.
#[derive(Debug)]
pub struct Entity {
    /// Its name.
    pub name: Arc<str>,
    /// The table its items are in: an index into [`super::Model::tables`].
    pub table: usize,
    /// How its primary keys look.
    pub key: KeyPattern,
    /// The names of the key's variables; [`Term::Key`] indexes them.
    pub variables: Vec<Arc<str>>,
    /// The values derived from its attributes; [`Term::Derived`] indexes them.
    pub derivations: Vec<Derivation>,
    /// What becomes of an item's contributions when TTL deletes it.
    pub on_expiry: OnExpiry,
    /// The aggregates of this entity: indexes into [`super::Model::aggregates`].
    pub aggregates: Vec<usize>,
    /// The lookups that ask for items of this entity, each with how its key and outputs read in this entity's own scope.
    pub answers: Vec<LookupUse>,
    /// The mirrors onto this entity: indexes into [`super::Model::mirrors`].
    pub mirrors: Vec<usize>,
    /// What is cached of this entity: indexes into [`super::Model::caches`].
    pub caches: Vec<usize>,
    /// The datasets of this entity: indexes into [`super::Model::datasets`].
    pub datasets: Vec<usize>,
    /// The attributes that must not leave the table: nothing of the model reads them, and the archive leaves them out.
    pub secrets: Vec<AttributePath>,
}

impl Entity {
    /// The attributes that a term is read or derived from; what is derived is not derived from another.
    pub(super) fn attributes_of<'e>(&'e self, term: &'e Term) -> impl Iterator<Item = &'e InternedPath> {
        let derivation = if let Term::Derived(index) = term { self.derivations.get(*index) } else { None };
        let terms = iter::once(term).chain(derivation.into_iter().flat_map(|derived| derived.kind.terms()));
        terms.filter_map(|term| if let Term::Attribute(path) = term { Some(path) } else { None })
    }
}

/// The pattern of a primary key.
#[derive(Debug)]
pub struct KeyPattern {
    /// Of the partition key.
    pub partition: Template,
    /// Of the sort key, if the table has one.
    pub sort: Option<Template>,
}

/// What becomes of an item's contributions when TTL deletes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExpiry {
    /// They stay counted, settled on the rollups.
    Keep,
    /// They are subtracted, as for any deletion.
    Subtract,
}

/// Where a value comes from, in the scope of one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// A variable of the item's primary key: an index into [`Entity::variables`].
    Key(usize),
    /// An attribute of the item's image.
    Attribute(InternedPath),
    /// A value derived from attributes: an index into [`Entity::derivations`].
    Derived(usize),
    /// What a lookup gave.
    LookupOutput {
        /// Which of the aggregate's lookups: an index into [`super::Aggregate::lookups`].
        lookup: usize,
        /// Which of its outputs: an index into [Lookup::outputs].
        output: usize,
    },
}

/// The place of an attribute in an image: a top-level attribute, or one inside maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternedPath {
    /// The top-level attribute.
    pub root: AttributeId,
    /// The names within, outermost first; mostly none.
    pub within: Vec<Arc<str>>,
    /// The type that the model declares: `S`, `N` or `BOOL`. A value of another type is an error, `NULL` is none.
    pub declared: Option<&'static str>,
}

/// A value derived from attributes.
#[derive(Debug)]
pub struct Derivation {
    /// The name conditions and measures know it by.
    pub name: Arc<str>,
    /// How it is computed.
    pub kind: DerivationKind,
}

/// How a derived value is computed.
#[derive(Debug)]
pub enum DerivationKind {
    /// `100 · part / whole`, an exact ratio; absent if either is absent or the whole is not above nought.
    Percent {
        /// The part.
        part: Term,
        /// The whole.
        whole: Term,
    },
    /// The first of these that is present and not `NULL`.
    First(Vec<Term>),
    /// What stands at one variable of a key that a text is; absent unless the text is such a key.
    Part {
        /// The text.
        of: Term,
        /// The key.
        key: Template,
        /// How many variables it has.
        variables: usize,
        /// Which of them is meant.
        variable: usize,
    },
}

impl DerivationKind {
    /// What it is computed from.
    pub(super) fn terms(&self) -> impl Iterator<Item = &Term> {
        let (pair, all): (_, &[Term]) = match self {
            Self::Percent { part, whole } => ([Some(part), Some(whole)], &[]),
            Self::Part { of, .. } => ([Some(of), None], &[]),
            Self::First(terms) => ([None, None], terms),
        };
        pair.into_iter().flatten().chain(all)
    }
}

/// Something an item does not know itself, asked of an index of the item that does.
#[derive(Debug)]
pub struct Lookup {
    /// Its name.
    pub name: Arc<str>,
    /// The entity that is looked up: an index into [`super::Model::entities`].
    pub of: usize,
    /// The index that finds it.
    pub index: Arc<str>,
    /// Name and template of the index's partition key. The variables are the lookup's inputs, in [`Lookup::inputs`]' order.
    pub partition: (Arc<str>, Template),
    /// Name and template of the index's sort key, if the query names one.
    pub sort: Option<(Arc<str>, Template)>,
    /// The names of the values it is asked by.
    pub inputs: Vec<Arc<str>>,
    /// The names of the values it gives.
    pub outputs: Vec<Arc<str>>,
}

/// A use of a lookup in the scope of one entity.
#[derive(Debug)]
pub struct LookupUse {
    /// Which lookup: an index into [`super::Model::lookups`].
    pub lookup: usize,
    /// Where its inputs come from, aligned with [`Lookup::inputs`].
    pub inputs: Vec<Term>,
    /// In the scope of the looked-up entity itself: where its outputs come from, aligned with [Lookup::outputs]. Empty elsewhere.
    pub outputs: Vec<Term>,
}

/// A key template whose variables are bound to terms of one entity's scope.
#[derive(Debug)]
pub struct BoundTemplate {
    /// Its pieces, in order.
    pub pieces: Vec<BoundPiece>,
}

/// A piece of a [`BoundTemplate`].
#[derive(Debug)]
pub enum BoundPiece {
    /// Text as it is.
    Literal(Arc<str>),
    /// A value, formatted.
    Value(Term, ValueFormat),
}
