//! Lambda event filter patterns, from TOML. See [`Pattern`] for their meaning.
//!
//! TOML has no null: `{ null = true }` stands for it.

use std::borrow::Cow;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Comparison, Matcher, MatcherName, Pattern, PatternCondition, TextTest};
use crate::record::{AttributeInterner, Decimal};
use crate::table::load::problem::{ProblemCode, ProblemCollector};
use crate::table::load::reader::{self, Located, RawValue, entries, place};
use crate::table::load::scope::{NameScope, ResolvedName};
use crate::table::load::suggestion::{listed, suggestion};
use crate::table::named::NamedValue as _;
use crate::table::template::known_name;
use crate::table::value_type::ValueType;

const NUMERIC_GRAMMAR: &str = "`numeric` takes [\"=\", number], one bound like [\">=\", 0], or a lower and then an upper: [\">\", 0, \"<=\", 5]";

/// Compiles the patterns of one owner ("aggregate `a`", "aggregate `a`: measure `m`").
pub(crate) struct PatternCompiler<'c, 's> {
    pub(crate) owner: &'c str,
    pub(crate) scope: NameScope<'c>,
    pub(crate) interner: &'c mut AttributeInterner,
    pub(crate) problems: &'c mut ProblemCollector<'s>,
}

impl PatternCompiler<'_, '_> {
    /// Compiles a `when` and reports its problems.
    pub(crate) fn compile(&mut self, when: RawValue<'_>) -> Option<Pattern> {
        let owner = format!("{}: `when`", self.owner);
        let table = reader::table(&owner, when, self.problems)?;
        if table.is_empty() {
            self.problems.report(
                ProblemCode::EmptySetting,
                place(when),
                format!("{owner} is empty; leave it out, or name a condition"),
            );
        }
        Some(Pattern { condition: PatternCondition::All(self.group(table, "")) })
    }

    /// Reports a problem of the condition on a field.
    fn reject<T>(&mut self, code: ProblemCode, path: &str, at: usize, message: impl AsRef<str>) -> Option<T> {
        let message = format!("{}: condition on `{path}`: {}", self.owner, message.as_ref());
        self.problems.report(code, at, message);
        None
    }

    /// All conditions of a table must hold. `outer` is the map that the fields lie in, if they lie in one.
    fn group(&mut self, table: &DeTable<'_>, outer: &str) -> Vec<PatternCondition> {
        let mut conditions = Vec::new();
        for (name, value) in entries(table) {
            if name.value == "$or" {
                conditions.extend(self.alternatives(value, outer));
                continue;
            }
            let name_or_path = known_name(name.value);
            let path =
                if outer.is_empty() { name_or_path.into_owned() } else { format!("{outer}.{name_or_path}") };
            let field = Located { value: &*path, at: name.at };
            match (value.get_ref().as_array(), value.get_ref().as_table()) {
                (Some(matchers), _) => conditions.extend(self.field(field, place(value), matchers)),
                (None, Some(inner)) if self.scope.is_map(&path) => {
                    conditions.extend(self.group(inner, &path))
                }
                _ => {
                    if self.resolve(field).is_some() {
                        let message =
                            format!("it must be a list of what the value may be: `{} = [ … ]`", name.value);
                        self.reject::<()>(ProblemCode::InvalidCondition, &path, place(value), message);
                    }
                }
            }
        }
        conditions
    }

    fn alternatives(&mut self, value: RawValue<'_>, outer: &str) -> Option<PatternCondition> {
        let all = value.get_ref().as_array().map(|array| &**array).unwrap_or_default();
        let tables: Vec<&DeTable<'_>> = all.iter().filter_map(|one| one.get_ref().as_table()).collect();
        if tables.len() < 2 || tables.len() != all.len() {
            let message = "it must be a list of two conditions or more: `\"$or\" = [{ … }, { … }]`";
            return self.reject(ProblemCode::InvalidCondition, "$or", place(value), message);
        }
        let conditions = tables.into_iter().map(|table| PatternCondition::All(self.group(table, outer)));
        Some(PatternCondition::Any(conditions.collect()))
    }

    fn resolve(&mut self, path: Located<&str>) -> Option<ResolvedName> {
        match self.scope.resolve(path.value, self.interner) {
            Ok(resolved) => Some(resolved),
            Err(problem) => {
                let (code, problem) = problem?;
                self.reject(code, path.value, path.at, problem)
            }
        }
    }

    fn field(
        &mut self,
        path: Located<&str>,
        at: usize,
        elements: &[Spanned<DeValue<'_>>],
    ) -> Option<PatternCondition> {
        let resolved = self.resolve(path)?;
        let path = Located { value: path.value, at: path.at };
        if !resolved.format.is_plain() {
            self.reject::<()>(
                ProblemCode::UnusableFormat,
                path.value,
                path.at,
                "conditions take no formats; test the value itself",
            );
        }
        if elements.is_empty() {
            self.reject::<()>(
                ProblemCode::ImpossibleCondition,
                path.value,
                at,
                "it lists nothing, so it can never hold",
            );
        }
        let mut matchers = Vec::new();
        for element in elements {
            let Some(matcher) = self.matcher(path.value, element) else { continue };
            if let Some(other) = mismatch(&matcher, resolved.value_type) {
                let own = resolved.value_type.described();
                let message =
                    format!("the value is {own}, and is compared with {other}, so this can never hold");
                self.reject::<()>(ProblemCode::ImpossibleCondition, path.value, place(element), message);
            }
            matchers.push(matcher);
        }
        Some(PatternCondition::Field { term: resolved.term, matchers })
    }

    fn matcher(&mut self, path: &str, value: RawValue<'_>) -> Option<Matcher> {
        let Some(table) = value.get_ref().as_table() else { return self.literal(path, value) };
        let all = entries(table);
        let [(name, argument)] = all.as_slice() else {
            let message = format!("a matcher has one key, one of {}", listed(&matcher_names()));
            return self.reject(ProblemCode::InvalidCondition, path, place(value), message);
        };
        if let Some(test) = TextTest::of_name(name.value) {
            return self.text_matcher(path, test, argument);
        }
        match MatcherName::of_name(name.value) {
            Some(MatcherName::Exists) => self.flag(path, name.value, argument).map(Matcher::Exists),
            Some(MatcherName::Null) => {
                let is_null = self.flag(path, name.value, argument)?;
                Some(if is_null { Matcher::Null } else { Matcher::AnythingBut(vec![Matcher::Null]) })
            }
            Some(MatcherName::Numeric) => self.numeric(path, argument),
            Some(MatcherName::AnythingBut) => self.anything_but(path, argument),
            None => {
                let nearest = suggestion(name.value, matcher_names());
                self.reject(
                    ProblemCode::UnknownWord,
                    path,
                    name.at,
                    format!("unknown matcher `{}`{nearest}", name.value),
                )
            }
        }
    }

    /// A value that must be equal.
    fn literal(&mut self, path: &str, value: RawValue<'_>) -> Option<Matcher> {
        match value.get_ref() {
            DeValue::String(text) => Some(Matcher::Text(Arc::from(text.as_ref()))),
            DeValue::Boolean(wanted) => Some(Matcher::Bool(*wanted)),
            DeValue::Integer(_) | DeValue::Float(_) => self.number(path, value).map(Matcher::Number),
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
                let found = value.get_ref().type_str();
                let message = format!("a value must be a string, number or boolean; this is of type {found}");
                self.reject(ProblemCode::InvalidCondition, path, place(value), message)
            }
        }
    }

    /// A number, from the very text that the file has.
    fn number(&mut self, path: &str, value: RawValue<'_>) -> Option<Decimal> {
        let value_at = place(value);
        reader::decimal(value).flatten().or_else(|| {
            self.reject(
                ProblemCode::InvalidCondition,
                path,
                value_at,
                "this is not a number that DynamoDB can hold (38 digits)",
            )
        })
    }

    fn text_matcher(&mut self, path: &str, test: TextTest, argument: RawValue<'_>) -> Option<Matcher> {
        let Some(text) = argument.get_ref().as_str() else {
            return self.reject(
                ProblemCode::InvalidCondition,
                path,
                place(argument),
                format!("`{}` takes a string", test.name()),
            );
        };
        Some(Matcher::Part(test, test.operand(text)))
    }

    fn flag(&mut self, path: &str, name: &str, argument: RawValue<'_>) -> Option<bool> {
        let flag = argument.get_ref().as_bool();
        flag.or_else(|| {
            self.reject(
                ProblemCode::InvalidCondition,
                path,
                place(argument),
                format!("`{name}` takes true or false"),
            )
        })
    }

    /// `["=", x]`, one bound, or a lower bound and then an upper.
    fn numeric(&mut self, path: &str, argument: RawValue<'_>) -> Option<Matcher> {
        let elements = argument.get_ref().as_array().map(|array| &**array).unwrap_or_default();
        let mut bounds = Vec::new();
        for pair in elements.chunks(2) {
            let operator = pair.first().and_then(|operator| operator.get_ref().as_str());
            if operator == Some("!=") {
                let message = "for \"not this number\" write { anything-but = number }";
                return self.reject(ProblemCode::InvalidCondition, path, place(argument), message);
            }
            let comparison = operator.and_then(Comparison::of_name);
            let bound =
                pair.get(1).filter(|bound| bound.get_ref().is_integer() || bound.get_ref().is_float());
            let (Some(comparison), Some(bound)) = (comparison, bound) else {
                return self.reject(ProblemCode::InvalidCondition, path, place(argument), NUMERIC_GRAMMAR);
            };
            bounds.push((comparison, self.number(path, bound)?));
        }
        match bounds.as_slice() {
            [_] => Some(Matcher::Numeric(bounds)),
            [
                (Comparison::Greater | Comparison::AtLeast, low),
                (Comparison::Less | Comparison::AtMost, high),
            ] => {
                if low >= high {
                    let message = "the lower bound must be below the upper";
                    return self.reject(ProblemCode::ImpossibleCondition, path, place(argument), message);
                }
                Some(Matcher::Numeric(bounds))
            }
            _ => self.reject(ProblemCode::InvalidCondition, path, place(argument), NUMERIC_GRAMMAR),
        }
    }

    /// A value or a list of values, or `{ prefix = … }` and the like with a text or a list of texts.
    fn anything_but(&mut self, path: &str, argument: RawValue<'_>) -> Option<Matcher> {
        let Some(table) = argument.get_ref().as_table() else {
            let excluded =
                one_or_many(argument).into_iter().filter_map(|value| self.literal(path, value)).collect();
            return self.excluding(path, argument, excluded);
        };
        let all = entries(table);
        let test = all.first().filter(|_| all.len() == 1);
        let test = test.and_then(|(name, texts)| Some((TextTest::of_name(name.value)?, *texts)));
        let Some((test, texts)) = test else {
            let message = format!("`anything-but` takes values, or one of {}", listed(TextTest::NAMES));
            return self.reject(ProblemCode::InvalidCondition, path, place(argument), message);
        };
        let all = one_or_many(texts).into_iter();
        let excluded = all.filter_map(|text| self.text_matcher(path, test, text)).collect();
        self.excluding(path, texts, excluded)
    }

    fn excluding(&mut self, path: &str, argument: RawValue<'_>, excluded: Vec<Matcher>) -> Option<Matcher> {
        if one_or_many(argument).is_empty() {
            return self.reject(
                ProblemCode::InvalidCondition,
                path,
                place(argument),
                "`anything-but` excludes nothing; write { exists = true }",
            );
        }
        Some(Matcher::AnythingBut(excluded))
    }
}

/// The names of all matchers that are tables.
fn matcher_names() -> Vec<&'static str> {
    MatcherName::NAMES.iter().chain(TextTest::NAMES).copied().collect()
}

/// The elements of a list; any other value is a list of one.
fn one_or_many<'d>(value: RawValue<'d>) -> Vec<RawValue<'d>> {
    value.get_ref().as_array().map_or_else(|| vec![value], |array| array.iter().collect())
}

/// The type that a matcher compares with, if a value of this type can never match it.
fn mismatch(matcher: &Matcher, value_type: ValueType) -> Option<Cow<'static, str>> {
    let compared = match matcher {
        Matcher::Exists(_) | Matcher::Null => return None,
        Matcher::AnythingBut(excluded) => {
            return excluded.iter().find_map(|matcher| mismatch(matcher, value_type));
        }
        Matcher::Text(_) | Matcher::Part(..) => ValueType::Text,
        Matcher::Number(_) | Matcher::Numeric(_) => ValueType::Number,
        Matcher::Bool(_) => ValueType::Bool,
    };
    let fits = match value_type {
        ValueType::Any | ValueType::Other(_) => true,
        ValueType::Ratio => compared == ValueType::Number,
        ValueType::Map => false,
        ValueType::Mixed(mixed) => mixed.any(|part| mismatch(matcher, part).is_none()),
        ValueType::Text | ValueType::Number | ValueType::Bool => compared == value_type,
    };
    (!fits).then_some(compared.described())
}
