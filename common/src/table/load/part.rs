//! What is compiled in the scope of one entity: the rollups an aggregate addresses, the keys of a cache.

use std::sync::Arc;

use super::condition::PatternCompiler;
use super::document::ValueType;
use super::reader::{Located, RawValue};
use super::resolve::ModelCompiler;
use super::scope::{EntityScope, NameScope, ResolvedName};
use crate::table::{
    BoundPiece, BoundTemplate, LookupUse, Pattern, Template, TemplatePiece, Term, ValueFormat,
};

/// An aggregate, a cache or a dataset in the making.
pub(super) struct EntityContext<'p, 'c, 'd, 's> {
    pub(super) compiler: &'p mut ModelCompiler<'c, 'd, 's>,
    /// What problems are told of.
    pub(super) owner: String,
    pub(super) entity_name: &'p str,
    pub(super) entity: &'p EntityScope,
    /// What its lookups give.
    pub(super) outputs: Vec<(Arc<str>, Term, ValueType)>,
}

impl EntityContext<'_, '_, '_, '_> {
    pub(super) fn resolve(&mut self, owner: &str, name: Located<&str>) -> Option<ResolvedName> {
        let scope = NameScope { entity: self.entity, entity_name: self.entity_name, outputs: &self.outputs };
        let (problems, vocabulary) = (&mut *self.compiler.problems, &mut self.compiler.model.attributes);
        ModelCompiler::resolve(problems, vocabulary, owner, scope, name)
    }

    pub(super) fn pattern(&mut self, owner: &str, when: RawValue<'_>) -> Option<Pattern> {
        let scope = NameScope { entity: self.entity, entity_name: self.entity_name, outputs: &self.outputs };
        let (problems, vocabulary) = (&mut *self.compiler.problems, &mut self.compiler.model.attributes);
        PatternCompiler { owner, scope, vocabulary, problems }.compile(when)
    }

    /// The lookups of the part, asked in its entity's own terms; what they give joins the scope.
    pub(super) fn lookups(
        &mut self,
        named: &[Located<&str>],
        at: usize,
        lookups: &[usize],
    ) -> Vec<LookupUse> {
        let mut keys = Vec::new();
        let mut outputs: Vec<(Arc<str>, Term, ValueType)> = Vec::new();
        for (position, lookup) in lookups.iter().enumerate() {
            let Some(found) = self.compiler.model.lookups.get(*lookup) else { continue };
            let (name, inputs, gives) =
                (Arc::clone(&found.name), found.inputs.clone(), found.outputs.clone());
            let at = named.get(position).map_or(at, |name| name.at);
            let owner = format!("{}: lookup `{name}`", self.owner);
            let mut terms = Vec::new();
            let is_broken = self.compiler.broken_lookups.contains(lookup);
            for input in inputs.iter().filter(|_| !is_broken) {
                let Some(resolved) = self.resolve(&owner, Located { value: &**input, at }) else { continue };
                if !resolved.value_type.fits_key(ValueFormat::Plain) {
                    let described = resolved.value_type.described();
                    let message = format!(
                        "{owner}: `{{{input}}}` is {described}, which is no part of a key; give it text, a number or a boolean"
                    );
                    self.compiler.report(at, message);
                }
                terms.push(resolved.term);
            }
            for (output, given) in gives.into_iter().enumerate() {
                if outputs.iter().any(|(other, ..)| *other == given) {
                    let owner = &self.owner;
                    self.compiler.problems.report(
                        at,
                        format!("{owner}: two of its lookups give `{given}`; take one of them away"),
                    );
                }
                let types = self.compiler.output_types.get(*lookup);
                let value_type = types.and_then(|types| types.get(output)).copied().unwrap_or(ValueType::Any);
                outputs.push((given, Term::LookupOutput { lookup: position, output }, value_type));
            }
            keys.push(LookupUse { lookup: *lookup, inputs: terms, outputs: Vec::new() });
        }
        self.outputs = outputs;
        keys
    }

    /// A template whose variables are values of the entity.
    pub(super) fn bind(
        &mut self,
        owner: &str,
        at: usize,
        template: &Template,
        variables: &[Arc<str>],
    ) -> BoundTemplate {
        let mut pieces = Vec::new();
        for piece in &template.pieces {
            match piece {
                TemplatePiece::Literal(text) => pieces.push(BoundPiece::Literal(Arc::clone(text))),
                TemplatePiece::Variable(index, _) => {
                    let name = variables.get(*index).map_or("", |name| &**name);
                    let Some(resolved) = self.resolve(owner, Located { value: name, at }) else { continue };
                    if !resolved.value_type.fits_key(resolved.format) {
                        let described = resolved.value_type.described();
                        self.compiler.report(
                            at,
                            format!("{owner}: `{{{name}}}` is {described}, which cannot be written into a key that way; use text, a number or a boolean, with `:day` text or a number"),
                        );
                    }
                    pieces.push(BoundPiece::Value(resolved.term, resolved.format));
                }
            }
        }
        BoundTemplate { pieces }
    }
}
