//! Lookups: how they are asked, and what they give.

use std::sync::Arc;

use super::document::LookupSettings;
use super::reader::Located;
use super::resolve::ModelCompiler;
use super::scope::NameScope;
use crate::table::template::split_format;
use crate::table::{Lookup, LookupUse, Template, ValueFormat};

impl ModelCompiler<'_, '_, '_> {
    /// Compiles a lookup.
    pub(super) fn lookup(&mut self, index: usize, settings: &LookupSettings<'_>) {
        let owner = format!("lookup `{}`", settings.name.value);
        let of = self.entity_named(&owner, settings.of);
        let mut inputs = Vec::new();
        let mut key = Vec::new();
        for (name, text) in &settings.key {
            let template =
                self.template(&owner, *text, &mut inputs).unwrap_or(Template { pieces: Vec::new() });
            key.push((Arc::from(name.value), template));
        }
        let mut key = key.into_iter();
        let types_before = self.output_types.len();
        if let Some(of) = of
            && let Some(answer) = self.lookup_key(index, of, settings, &owner, &inputs)
            && let Some(entity) = self.model.entities.get_mut(of)
        {
            entity.answers.push(answer);
        }
        self.output_types.resize_with(types_before + 1, Vec::new);
        self.model.lookups.push(Lookup {
            name: Arc::from(settings.name.value),
            of: of.unwrap_or(0),
            index: Arc::from(settings.index),
            partition: key.next().unwrap_or_else(|| (Arc::from(""), Template { pieces: Vec::new() })),
            sort: key.next(),
            inputs,
            outputs: settings.gives.iter().map(|output| Arc::from(output.value)).collect(),
        });
    }

    /// How a lookup reads in the scope of the entity that it looks up.
    fn lookup_key(
        &mut self,
        lookup: usize,
        of: usize,
        settings: &LookupSettings<'_>,
        owner: &str,
        inputs: &[Arc<str>],
    ) -> Option<LookupUse> {
        let scope = NameScope { entity: self.scopes.get(of)?, entity_name: settings.of.value, outputs: &[] };
        let (problems, vocabulary) = (&mut *self.problems, &mut self.model.attributes);
        let at = settings.key.first().map_or(settings.name.at, |(_, text)| text.at);
        let mut terms = Vec::new();
        for input in inputs {
            if split_format(input).is_ok_and(|(_, format)| format != ValueFormat::Plain) {
                problems.report(at, format!("{owner}: `{{{input}}}`: the key of a lookup takes no formats"));
                continue;
            }
            let input = Located { value: &**input, at };
            let Some(resolved) = Self::resolve(problems, vocabulary, owner, scope, input) else { continue };
            if !resolved.value_type.fits_key(ValueFormat::Plain) {
                let described = resolved.value_type.described();
                problems.report(
                    at,
                    format!("{owner}: `{{{}}}` is {described}, which is no part of a key; give it text, a number or a boolean", input.value),
                );
                continue;
            }
            terms.push(resolved.term);
        }
        if terms.len() < inputs.len() {
            self.broken_lookups.push(lookup);
        }
        let mut outputs = Vec::new();
        let mut types = Vec::new();
        for output in &settings.gives {
            let Some(resolved) = Self::resolve(problems, vocabulary, owner, scope, *output) else { continue };
            if resolved.format != ValueFormat::Plain {
                let message = format!(
                    "{owner}: `{}`: a lookup gives a value as it is; leave the format out",
                    output.value
                );
                problems.report(output.at, message);
            } else if !resolved.value_type.fits_key(ValueFormat::Plain) {
                let described = resolved.value_type.described();
                problems.report(
                    output.at,
                    format!(
                        "{owner}: `{}` is {described}; a lookup gives a text, number or boolean as it is",
                        output.value
                    ),
                );
            }
            outputs.push(resolved.term);
            types.push(resolved.value_type);
        }
        // A output that nothing binds is missing here, and the types after it would be another's.
        self.output_types.push(if types.len() == settings.gives.len() { types } else { Vec::new() });
        Some(LookupUse { lookup, inputs: terms, outputs })
    }
}
