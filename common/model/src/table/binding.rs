//! Bindings, which give a variable of one key the value of another name: `bind` of aggregates and mirrors.

use std::borrow::Cow;
use std::sync::Arc;

use super::load::compiler::ModelCompiler;
use super::load::problem::{ProblemCode, ProblemCollector};
use super::load::reader::{Located, SettingsTable};
use super::load::scope::base_name;
use super::load::suggestion::suggestion;
use super::template::known_name;

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

    /// The name that a variable takes its value from, in the variable's format; at `at` unless it is bound.
    pub(super) fn formatted_source(&self, variable: &Arc<str>, at: usize) -> Located<Arc<str>> {
        let format = variable.get(base_name(variable).len()..).unwrap_or_default();
        match self.source(variable) {
            None => Located { value: Arc::clone(variable), at },
            Some(source) if base_name(source.value) != source.value || format.is_empty() => {
                Located { value: Arc::from(source.value), at: source.at }
            }
            Some(source) => Located { value: Arc::from(format!("{}{format}", source.value)), at: source.at },
        }
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
            let is_known = variables
                .iter()
                .any(|variable| **variable == *name.value || base_name(variable) == &*name.value);
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
            let format = variable.get(base_name(variable).len()..).unwrap_or_default();
            let named = source.value.get(base_name(source.value).len()..).unwrap_or_default();
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
