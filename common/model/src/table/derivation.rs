//! Values that are derived from an entity's attributes: `derive.<name>` of an entity.

use std::sync::Arc;

use super::load::compiler::{EntityContext, ModelCompiler};
use super::load::problem::ProblemCode;
use super::load::reader::{self, Located, RawValue, SettingsTable, WrittenFactor, entries};
use super::load::scope::{EntityScope, ResolvedName, position};
use super::load::suggestion::listed;
use super::named::{NamedValue as _, named_values};
use super::template::{canonical_name, known_name};
use super::value_type::ValueType;
use super::{ModelNotation, Template, Term, TimeReading};
use crate::record::Decimal;

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
    /// The elements of a list, set or map, the characters of a text, the bytes of a binary value; absent if it is.
    Size(Term),
    /// The exact number that a text has; absent if the text is absent. A text that is not a decimal number does not fit.
    Number(Term),
    /// One number minus another, exact; absent if either is.
    Minus {
        /// The number that is subtracted from.
        from: NumberTerm,
        /// The number that is subtracted.
        subtracted: NumberTerm,
    },
    /// The seconds from one time to another, to the millisecond; negative if the other is earlier, absent if either is.
    Duration {
        /// The begin.
        from: TimeTerm,
        /// The end.
        to: TimeTerm,
    },
}

/// A time that a derived value is computed from.
#[derive(Clone, Debug)]
pub struct TimeTerm {
    /// The value.
    pub term: Term,
    /// How it is read as a time.
    pub reading: TimeReading,
}

impl TimeTerm {
    fn describe(&self, notation: &ModelNotation<'_>) -> String {
        let term = notation.term(&self.term);
        if self.reading.is_declared() { format!("{term} ({})", self.reading) } else { term }
    }
}

/// A number that a derived value is computed from.
#[derive(Clone, Debug)]
pub enum NumberTerm {
    /// A value of the item.
    Term(Term),
    /// A number of the model.
    Constant(Decimal),
}

impl NumberTerm {
    /// The value of the item, if it is one.
    fn term(&self) -> Option<&Term> {
        match self {
            Self::Term(term) => Some(term),
            Self::Constant(_) => None,
        }
    }

    fn describe(&self, notation: &ModelNotation<'_>) -> String {
        match self {
            Self::Term(term) => notation.term(term),
            Self::Constant(number) => number.to_string(),
        }
    }
}

named_values! {
    /// The function that computes a derived value, by the setting that names it.
    pub(super) enum DerivationFunction {
        Percent = "percent",
        First = "first",
        Part = "part",
        Size = "size",
        Number = "number",
        Minus = "minus",
        Duration = "duration",
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
            Self::Size => "one attribute: a list, set, map, text or binary".to_owned(),
            Self::Number => "one attribute: a text or a number".to_owned(),
            Self::Minus => "two attributes or numbers: [number, number to subtract]".to_owned(),
            Self::Duration => "two times: [begin, end]".to_owned(),
        }
    }
}

impl DerivationKind {
    fn function(&self) -> DerivationFunction {
        match self {
            Self::Percent { .. } => DerivationFunction::Percent,
            Self::First(_) => DerivationFunction::First,
            Self::Part { .. } => DerivationFunction::Part,
            Self::Size(_) => DerivationFunction::Size,
            Self::Number(_) => DerivationFunction::Number,
            Self::Minus { .. } => DerivationFunction::Minus,
            Self::Duration { .. } => DerivationFunction::Duration,
        }
    }

    /// The value that it reads as a number, if it does.
    pub fn number_of(&self) -> Option<&Term> {
        match self {
            Self::Number(of) => Some(of),
            Self::Percent { .. } | Self::First(_) | Self::Part { .. } => None,
            Self::Size(_) | Self::Minus { .. } | Self::Duration { .. } => None,
        }
    }

    /// The terms that it is computed from.
    pub(super) fn terms(&self) -> impl Iterator<Item = &Term> {
        let (pair, all): (_, &[Term]) = match self {
            Self::Percent { part, whole } => ([Some(part), Some(whole)], &[]),
            Self::Part { of, .. } | Self::Size(of) | Self::Number(of) => ([Some(of), None], &[]),
            Self::Minus { from, subtracted } => ([from.term(), subtracted.term()], &[]),
            Self::Duration { from, to } => ([Some(&from.term), Some(&to.term)], &[]),
            Self::First(terms) => ([None, None], terms),
        };
        pair.into_iter().flatten().chain(all)
    }

    /// How it is computed, in words: `percent of score, total_questions`.
    #[must_use]
    pub fn describe(&self, notation: &ModelNotation<'_>) -> String {
        let terms: Vec<String> = match self {
            Self::Minus { from, subtracted } => {
                [from, subtracted].map(|number| number.describe(notation)).into()
            }
            Self::Duration { from, to } => [from, to].map(|time| time.describe(notation)).into(),
            Self::Percent { .. } | Self::First(_) | Self::Part { .. } | Self::Size(_) | Self::Number(_) => {
                self.terms().map(|term| notation.term(term)).collect()
            }
        };
        let key = match self {
            Self::Percent { .. }
            | Self::First(_)
            | Self::Size(_)
            | Self::Number(_)
            | Self::Minus { .. }
            | Self::Duration { .. } => String::new(),
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
        if let Err(problem) = canonical_name(name.value) {
            let message = format!("{owner}: the name cannot be read; {problem}");
            compiler.report(ProblemCode::InvalidPath, name.at, message);
        }
        places.push(name.at);
        // A wrong one keeps its name: uses of it are not reported as well.
        let name: Arc<str> = Arc::from(known_name(name.value));
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
    if function == DerivationFunction::Minus {
        let numbers = settings.factors(function.name(), problems);
        let [from, subtracted] = numbers.as_slice() else {
            return report_arguments(context, &settings, function, name);
        };
        let [from, subtracted] = [from, subtracted].map(|number| context.number_term(number));
        let kind = from.zip(subtracted).map(|(from, subtracted)| DerivationKind::Minus { from, subtracted });
        return Some((kind, ValueType::Number));
    }
    let arguments = settings.texts(function.name(), problems);
    let compiled = match (function, arguments.as_slice()) {
        (DerivationFunction::Percent, [part, whole]) => (context.percent(*part, *whole), ValueType::Ratio),
        (DerivationFunction::First, [_, ..]) => {
            let values: Vec<ResolvedName> =
                arguments.iter().filter_map(|name| context.plain_value(*name)).collect();
            let value_type = ValueType::one_of(values.iter().map(|value| value.value_type));
            let terms = values.into_iter().map(|value| value.term).collect();
            (Some(DerivationKind::First(terms)), value_type)
        }
        (DerivationFunction::Part, [of, key]) => {
            let kind = context.plain_value(*of).and_then(|of| context.part(name, of, *key));
            (kind, ValueType::Text)
        }
        (DerivationFunction::Size, [of]) => (context.sized(*of).map(DerivationKind::Size), ValueType::Number),
        (DerivationFunction::Number, [of]) => (context.read_number(*of), ValueType::Number),
        (DerivationFunction::Duration, [from, to]) => (context.duration(*from, *to), ValueType::Number),
        (
            DerivationFunction::Percent
            | DerivationFunction::First
            | DerivationFunction::Part
            | DerivationFunction::Size
            | DerivationFunction::Number
            | DerivationFunction::Minus
            | DerivationFunction::Duration,
            _,
        ) => return report_arguments(context, &settings, function, name),
    };
    Some(compiled)
}

/// Reports the wrong number of arguments.
fn report_arguments<T>(
    context: &mut EntityContext<'_, '_, '_>,
    settings: &SettingsTable<'_>,
    function: DerivationFunction,
    name: Located<&str>,
) -> Option<T> {
    let message =
        format!("{}: `{}` takes {}", settings.owner, function.name(), function.arguments(name.value));
    context.compiler.problems.report(ProblemCode::InvalidDerivation, name.at, message);
    None
}

impl EntityContext<'_, '_, '_> {
    fn plain_value(&mut self, name: Located<&str>) -> Option<ResolvedName> {
        let owner = self.owner.clone();
        let resolved = self.resolve(&owner, name)?;
        if !resolved.format.is_plain() {
            let message = format!("{owner}: derived values take no formats; leave it out");
            self.report(ProblemCode::UnusableFormat, name.at, message);
        }
        Some(resolved)
    }

    /// The number that `name` means; `result` is the derived value that needs it.
    fn computed_number(&mut self, name: Located<&str>, result: &str) -> Option<Term> {
        self.fitting(name, ValueType::is_numeric, &format!("{result} is of numbers")).map(|value| value.term)
    }

    fn number_term(&mut self, number: &WrittenFactor<'_>) -> Option<NumberTerm> {
        match number {
            WrittenFactor::Name(name) => self.computed_number(*name, "a difference").map(NumberTerm::Term),
            WrittenFactor::Number(number) => Some(NumberTerm::Constant(number.clone())),
        }
    }

    fn percent(&mut self, part: Located<&str>, whole: Located<&str>) -> Option<DerivationKind> {
        let [part, whole] = [part, whole].map(|name| self.computed_number(name, "a percentage"));
        part.zip(whole).map(|(part, whole)| DerivationKind::Percent { part, whole })
    }

    fn duration(&mut self, from: Located<&str>, to: Located<&str>) -> Option<DerivationKind> {
        let [from, to] = [from, to].map(|name| self.time_term(name));
        from.zip(to).map(|(from, to)| DerivationKind::Duration { from, to })
    }

    fn read_number(&mut self, of: Located<&str>) -> Option<DerivationKind> {
        let number = self.fitting(of, ValueType::is_ordered, "a number is read from a text or a number")?;
        Some(DerivationKind::Number(number.term))
    }

    fn sized(&mut self, name: Located<&str>) -> Option<Term> {
        let rule = "a size is of a list, set, map, text or binary";
        self.fitting(name, ValueType::has_size, rule).map(|value| value.term)
    }

    fn time_term(&mut self, name: Located<&str>) -> Option<TimeTerm> {
        let ResolvedName { term, reading, .. } =
            self.fitting(name, ValueType::is_ordered, "a time is text or a number")?;
        Some(TimeTerm { term, reading })
    }

    /// The value that `name` means; one of an unfit type is reported.
    fn fitting(
        &mut self,
        name: Located<&str>,
        fits: fn(ValueType) -> bool,
        rule: &str,
    ) -> Option<ResolvedName> {
        let resolved = self.plain_value(name)?;
        if !fits(resolved.value_type) {
            let (owner, described) = (&self.owner, resolved.value_type.described());
            let message = format!("{owner}: `{}` is {described}; {rule}", name.value);
            self.report(ProblemCode::UnfitMeasureValue, name.at, message);
        }
        Some(resolved)
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
            Ok(template) => match position(&variables, &known_name(name.value)) {
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
