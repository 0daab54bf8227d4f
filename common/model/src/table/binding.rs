//! Bindings, which give a variable of one key the value of another name: `bind` of aggregates and mirrors.

use std::borrow::Cow;
use std::sync::Arc;

use super::load::compiler::{EntityContext, ModelCompiler};
use super::load::problem::{ProblemCode, ProblemCollector};
use super::load::reader::{Located, SettingsTable};
use super::load::scope::{ResolvedName, base_name};
use super::load::suggestion::suggestion;
use super::template::{known_name, split_format};
use super::{BoundPiece, BoundTemplate, Template, TemplatePiece};

/// A variable of a key, and the name that it takes its value from.
pub type KeyBinding = (Arc<str>, Arc<str>);

/// A name, with its place.
type BoundName<'d> = Located<Cow<'d, str>>;

/// The bindings of a part as its settings have them, with names as they are compared. A variable that is not bound takes the value of its
/// own name.
pub(super) struct BindingSettings<'d> {
    pairs: Vec<(BoundName<'d>, BoundName<'d>)>,
}

impl<'d> BindingSettings<'d> {
    /// No bindings.
    pub(super) const NONE: Self = Self { pairs: Vec::new() };

    pub(super) fn read(settings: &SettingsTable<'d>, problems: &mut ProblemCollector<'_>) -> Self {
        let known = |name: Located<&'d str>| Located { value: known_name(name.value), at: name.at };
        let pairs = settings.pairs("bind", problems).into_iter();
        Self { pairs: pairs.map(|(variable, name)| (known(variable), known(name))).collect() }
    }

    /// Variables and names, in the order of the file.
    pub(super) fn bindings(&self) -> Vec<KeyBinding> {
        let bindings = self.pairs.iter();
        bindings.map(|(variable, name)| (Arc::from(&*variable.value), Arc::from(&*name.value))).collect()
    }

    /// The name that a variable takes its value from, without the variable's format, and where it is written; `None` if the variable is
    /// not bound. A variable is bound under its whole name (`at:day`) or without its format.
    pub(super) fn source(&self, variable: &str) -> Option<Located<&str>> {
        let bound = |wanted: &str| self.pairs.iter().find(|(name, _)| name.value == wanted);
        let (_, source) = bound(variable).or_else(|| bound(base_name(variable)))?;
        Some(Located { value: &*source.value, at: source.at })
    }

    /// The name that a variable takes its value from, in the variable's format; at `at` unless it is bound. The name of a format's zone can
    /// be bound, too.
    pub(super) fn formatted_source(&self, variable: &Arc<str>, at: usize) -> Located<Arc<str>> {
        let (format, zone) = (written_format(variable), self.zone_source(variable));
        let (name, at) = match self.source(variable) {
            None if zone.is_none() => return Located { value: Arc::clone(variable), at },
            Some(source) if !written_format(source.value).is_empty() || format.is_empty() => {
                return Located { value: Arc::from(source.value), at: source.at };
            }
            Some(source) => (source.value, source.at),
            None => (base_name(variable), zone.as_ref().map_or(at, |zone| zone.at)),
        };
        let value = match zone {
            None => format!("{name}{format}"),
            Some(zone) => {
                let bucket = format.split_once('@').map_or(format, |(bucket, _)| bucket);
                format!("{name}{bucket}@{}", zone.value)
            }
        };
        Located { value: Arc::from(value), at }
    }

    /// The name that the zone of a variable's format takes its value from, if it is bound.
    fn zone_source(&self, variable: &str) -> Option<Located<&str>> {
        self.source(&zone_name(variable)?)
    }

    /// Reports bindings of names that are none of these variables of a key, which the message calls `keys`; returns whether there are none.
    pub(super) fn check_variables(
        &self,
        compiler: &mut ModelCompiler<'_, '_>,
        owner: &str,
        (keys, variables): (&str, &[Arc<str>]),
    ) -> bool {
        let mut are_known = true;
        for (name, _) in &self.pairs {
            let is_known = variables.iter().any(|variable| {
                **variable == *name.value
                    || base_name(variable) == &*name.value
                    || zone_name(variable).as_deref() == Some(&*name.value)
            });
            if !is_known {
                let nearest = suggestion(&name.value, variables.iter().map(|variable| base_name(variable)));
                let message =
                    format!("{owner}: `bind`: `{}` is not a variable of {keys}{nearest}", name.value);
                compiler.report(ProblemCode::UnfitBinding, name.at, message);
                are_known = false;
            }
        }
        are_known
    }

    /// Reports bindings of variables with a format to a name with another one.
    pub(super) fn check_formats(
        &self,
        compiler: &mut ModelCompiler<'_, '_>,
        owner: &str,
        variables: &[Arc<str>],
    ) {
        for variable in variables {
            let Some(source) = self.source(variable) else { continue };
            let (format, named) = (written_format(variable), written_format(source.value));
            if !format.is_empty() && !named.is_empty() && format != named {
                let message = format!(
                    "{owner}: `bind`: the key has `{{{variable}}}`, so `{}` cannot have another format; leave the format out",
                    source.value
                );
                compiler.report(ProblemCode::UnfitBinding, source.at, message);
            }
        }
    }
}

/// The format of a variable with its colon; empty if there is none.
fn written_format(variable: &str) -> &str {
    variable.get(base_name(variable).len()..).unwrap_or_default()
}

/// The name of the value that the zone of a variable's format comes from: `tz` of `placed_at:day@tz`.
fn zone_name(variable: &str) -> Option<Arc<str>> {
    let (_, format) = split_format(variable).ok()?;
    format.item_zone().map(|zone| Arc::clone(&zone.name))
}

impl EntityContext<'_, '_, '_> {
    /// A template whose variables take the entity's values of these names. Each name has the place that an error about it shows.
    pub(crate) fn bind(
        &mut self,
        owner: &str,
        template: &Template,
        names: &[Located<Arc<str>>],
    ) -> BoundTemplate {
        let mut pieces = Vec::new();
        for piece in &template.pieces {
            match piece {
                TemplatePiece::Literal(text) => pieces.push(BoundPiece::Literal(Arc::clone(text))),
                TemplatePiece::Variable(index, _) => {
                    let Some(Located { value: name, at }) = names.get(*index) else { continue };
                    let name_at = Located { value: &**name, at: *at };
                    let Some(resolved) = self.resolve_bucket(owner, name_at) else { continue };
                    if !resolved.value_type.fits_key(&resolved.format) {
                        let described = resolved.value_type.described();
                        let message = format!(
                            "{owner}: `{{{name}}}` is {described}, which cannot be written into a key in this format; use text, a number or a boolean, and with a format such as `:day` text or a number"
                        );
                        self.report(ProblemCode::UnfitKeyValue, *at, message);
                    }
                    if resolved.is_number(&self.scope) {
                        self.numbers.push(*index);
                    }
                    pieces.push(BoundPiece::Value(resolved.term, resolved.format));
                }
            }
        }
        BoundTemplate { pieces }
    }

    /// The value of a name in the key of a rollup, or for its expiry; a bucket that the name does not determine is reported.
    pub(crate) fn resolve_bucket(&mut self, owner: &str, name: Located<&str>) -> Option<ResolvedName> {
        let problem = match self.resolve(owner, name)?.in_buckets_of(&self.scope) {
            Ok(resolved) => return Some(resolved),
            Err(problem) => problem,
        };
        self.report_name(name, ProblemCode::FormatTooFine, format!("{owner}: `{}`: {problem}", name.value));
        None
    }
}
