//! Values that are derived from an entity's attributes: `derive.<name>` of an entity.

use std::sync::Arc;

use super::load::compiler::{EntityContext, ModelCompiler};
use super::load::problem::ProblemCode;
use super::load::reader::{self, Located, RawValue, SettingsTable, entries};
use super::load::scope::{EntityScope, ResolvedName, position};
use super::load::suggestion::listed;
use super::named::{NamedValue as _, named_values};
use super::value_type::ValueType;
use super::{ModelNotation, Template, Term, ValueFormat};

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
    /// `100 · part / whole`, an exact ratio; absent if either is absent or the whole is not above 0.
    Percent {
        /// The part.
        part: Term,
        /// The whole.
        whole: Term,
    },
    /// The first of these that is present and not `NULL`.
    First(Vec<Term>),
    /// The value of one variable of a key that a text holds; absent if the text is not such a key.
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

named_values! {
    /// The function that computes a derived value, by the setting that names it.
    pub(super) enum DerivationFunction {
        Percent = "percent",
        First = "first",
        Part = "part",
    }
}

impl DerivationFunction {
    /// The content of its setting, for a derived value of this name.
    fn arguments(self, name: &str) -> String {
        match self {
            Self::Percent => "two attributes: [part, whole]".to_owned(),
            Self::First => "one attribute or more: [attribute, …]".to_owned(),
            Self::Part => {
                format!("an attribute and the key that it holds: [attribute, \"ORDER#{{{name}}}\"]")
            }
        }
    }
}

impl DerivationKind {
    fn function(&self) -> DerivationFunction {
        match self {
            Self::Percent { .. } => DerivationFunction::Percent,
            Self::First(_) => DerivationFunction::First,
            Self::Part { .. } => DerivationFunction::Part,
        }
    }

    /// The terms that it is computed from.
    pub(super) fn terms(&self) -> impl Iterator<Item = &Term> {
        let (pair, all): (_, &[Term]) = match self {
            Self::Percent { part, whole } => ([Some(part), Some(whole)], &[]),
            Self::Part { of, .. } => ([Some(of), None], &[]),
            Self::First(terms) => ([None, None], terms),
        };
        pair.into_iter().flatten().chain(all)
    }

    /// How it is computed, in words: `percent of score, total_questions`.
    #[must_use]
    pub fn describe(&self, notation: &ModelNotation<'_>) -> String {
        let terms: Vec<String> = self.terms().map(|term| notation.term(term)).collect();
        let key = match self {
            Self::Percent { .. } | Self::First(_) => String::new(),
            Self::Part { key, variables, variable, .. } => {
                // Only the place of the variable that is meant is known.
                let mark = |index: usize| Arc::from(if index == *variable { "this" } else { "_" });
                let names: Vec<Arc<str>> = (0..*variables).map(mark).collect();
                format!(", which is {}", key.written(&names))
            }
        };
        format!("{} of {}{key}", self.function().name(), terms.join(", "))
    }
}

/// Compiles the derived values of an entity; its scope gets their names.
pub(super) fn compile(
    compiler: &mut ModelCompiler<'_, '_>,
    entity: &SettingsTable<'_>,
    mut scope: EntityScope,
) -> (Vec<Derivation>, EntityScope) {
    let problems = &mut *compiler.problems;
    let table = entity.get("derive");
    let table = table.and_then(|value| reader::table(&entity.called("derive"), value, problems));
    let (mut derivations, mut derived, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let bare = Arc::new(scope.clone());
    for (name, value) in table.map(entries).unwrap_or_default() {
        let owner = format!("{}: derived value `{}`", entity.owner, name.value);
        let mut context = compiler.context_of(&owner, Arc::clone(&bare));
        let Some((kind, value_type)) = derivation(&mut context, name, value) else {
            compiler.problems.mark_incomplete();
            continue;
        };
        places.push(name.at);
        // A wrong one keeps its name: uses of it are not reported as well.
        let name: Arc<str> = Arc::from(name.value);
        derived.push((Arc::clone(&name), value_type));
        derivations
            .push(Derivation { name, kind: kind.unwrap_or_else(|| DerivationKind::First(Vec::new())) });
    }
    compiler.places.derivations.push(places);
    scope.derived = derived;
    (derivations, scope)
}

/// `None` if it cannot be read, no kind if it is wrong.
fn derivation(
    context: &mut EntityContext<'_, '_, '_>,
    name: Located<&str>,
    value: RawValue<'_>,
) -> Option<(Option<DerivationKind>, ValueType)> {
    let problems = &mut *context.compiler.problems;
    let table = reader::table(&context.owner, value, problems)?;
    let settings =
        SettingsTable::new(context.owner.clone(), name.at, table, DerivationFunction::NAMES, problems);
    let named = DerivationFunction::NAMES.iter().filter(|function| settings.get(function).is_some());
    let named: Vec<&&str> = named.collect();
    let [function] = named.as_slice() else {
        let functions = listed(DerivationFunction::NAMES);
        let message = format!("{}: name exactly one of {functions}", settings.owner);
        problems.report(ProblemCode::InvalidDerivation, name.at, message);
        return None;
    };
    let function = DerivationFunction::of_name(function)?;
    let arguments = settings.texts(function.name(), problems);
    let compiled = match (function, arguments.as_slice()) {
        (DerivationFunction::Percent, [part, whole]) => {
            let [part, whole] = [part, whole].map(|name| context.percentage_part(*name));
            let kind = part.zip(whole).map(|(part, whole)| DerivationKind::Percent { part, whole });
            (kind, ValueType::Ratio)
        }
        (DerivationFunction::First, [_, ..]) => {
            let values: Vec<ResolvedName> =
                arguments.iter().filter_map(|name| context.plain_value(*name)).collect();
            let first = values.first().map_or(ValueType::Any, |value| value.value_type);
            let is_alike = values.iter().all(|value| value.value_type == first);
            let terms = values.into_iter().map(|value| value.term).collect();
            (Some(DerivationKind::First(terms)), if is_alike { first } else { ValueType::Any })
        }
        (DerivationFunction::Part, [of, key]) => {
            let kind = context.plain_value(*of).and_then(|of| context.part(name, of, *key));
            (kind, ValueType::Text)
        }
        (DerivationFunction::Percent | DerivationFunction::First | DerivationFunction::Part, _) => {
            let message =
                format!("{}: `{}` takes {}", settings.owner, function.name(), function.arguments(name.value));
            problems.report(ProblemCode::InvalidDerivation, name.at, message);
            return None;
        }
    };
    Some(compiled)
}

impl EntityContext<'_, '_, '_> {
    fn plain_value(&mut self, name: Located<&str>) -> Option<ResolvedName> {
        let owner = self.owner.clone();
        let resolved = self.resolve(&owner, name)?;
        if resolved.format != ValueFormat::Plain {
            let message = format!("{owner}: derived values take no formats; leave it out");
            self.report(ProblemCode::UnusableFormat, name.at, message);
        }
        Some(resolved)
    }

    fn percentage_part(&mut self, name: Located<&str>) -> Option<Term> {
        let resolved = self.plain_value(name)?;
        if !resolved.value_type.is_numeric() {
            let (owner, described) = (&self.owner, resolved.value_type.described());
            let message = format!("{owner}: `{}` is {described}; a percentage is of numbers", name.value);
            self.report(ProblemCode::UnfitMeasureValue, name.at, message);
        }
        Some(resolved.term)
    }

    /// The part of a key at the variable that has the derived value's name.
    fn part(&mut self, name: Located<&str>, of: ResolvedName, key: Located<&str>) -> Option<DerivationKind> {
        let mut variables = Vec::new();
        let (code, problem) = match Template::compile(key.value, &mut variables) {
            Err(problem) => (problem.code(), problem.to_string()),
            Ok(_) if !of.value_type.is_textual() => (
                ProblemCode::UnfitMeasureValue,
                format!("a value that is {} cannot hold a key; name a text", of.value_type.described()),
            ),
            Ok(template) => match position(&variables, name.value) {
                Some(variable) => {
                    let (key, variables) = (template, variables.len());
                    return Some(DerivationKind::Part { of: of.term, key, variables, variable });
                }
                None => (
                    ProblemCode::InvalidDerivation,
                    format!(
                        "the key has no variable `{{{0}}}`; write `{{{0}}}` where the value is in the key",
                        name.value
                    ),
                ),
            },
        };
        let owner = &self.owner;
        let message = format!("{owner}: {problem}");
        self.report(code, key.at, message);
        None
    }
}
