//! Lambda event filter patterns, from TOML. See [`crate::table::Pattern`] for their meaning.
//!
//! TOML has no null: `{ null = true }` stands for it.

use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::document::ValueType;
use super::problem::{Problems, listed, suggestion};
use super::reader::{self, Raw, Written, entries, place};
use super::scope::Scope;
use crate::record::{Decimal, Vocabulary};
use crate::table::pattern::{Comparison, Condition, Matcher};
use crate::table::{Format, Pattern};

const MATCHERS: [&str; 7] =
    ["anything-but", "equals-ignore-case", "exists", "null", "numeric", "prefix", "suffix"];
const EXCLUSIONS: [&str; 3] = ["equals-ignore-case", "prefix", "suffix"];

/// Compiles the patterns of one owner ("aggregate `a`", "aggregate `a`: measure `m`").
pub(super) struct Conditions<'c, 's> {
    pub(super) owner: &'c str,
    pub(super) scope: Scope<'c>,
    pub(super) vocabulary: &'c mut Vocabulary,
    pub(super) problems: &'c mut Problems<'s>,
}

impl Conditions<'_, '_> {
    /// Compiles a `when`; what is wrong with it is reported.
    pub(super) fn compile(&mut self, when: Raw<'_>) -> Option<Pattern> {
        let owner = format!("{}: `when`", self.owner);
        let table = reader::table(&owner, when, self.problems)?;
        if table.is_empty() {
            self.report(place(when), "the condition is empty; leave it out, or say what must hold");
        }
        let conditions = self.group(table, "");
        Some(Pattern { condition: Condition::All(conditions) })
    }

    fn report(&mut self, at: usize, message: impl AsRef<str>) {
        self.problems.report(at, format!("{}: {}", self.owner, message.as_ref()));
    }

    /// All conditions of a table must hold. `outer` is the map that the fields lie in, if they lie in one.
    fn group(&mut self, table: &DeTable<'_>, outer: &str) -> Vec<Condition> {
        let mut conditions = Vec::new();
        for (name, value) in entries(table) {
            if name.value == "$or" {
                conditions.extend(self.alternatives(value, outer));
                continue;
            }
            let path =
                if outer.is_empty() { name.value.to_owned() } else { format!("{outer}.{}", name.value) };
            match value.get_ref() {
                DeValue::Array(_) => {
                    conditions.extend(self.field(Written { value: &path, at: name.at }, value))
                }
                DeValue::Table(inner)
                    if !inner.keys().any(|key| MATCHERS.contains(&key.get_ref().as_ref())) =>
                {
                    conditions.extend(self.group(inner, &path));
                }
                _ => self.report(
                    place(value),
                    format!("the condition on `{path}` must be a list of what it may be: `{path} = [ … ]`"),
                ),
            }
        }
        conditions
    }

    fn alternatives(&mut self, value: Raw<'_>, outer: &str) -> Option<Condition> {
        let tables: Option<Vec<_>> = value
            .get_ref()
            .as_array()
            .map(|array| array.iter().filter_map(|one| one.get_ref().as_table()).collect());
        match tables {
            Some(tables)
                if tables.len() >= 2
                    && value.get_ref().as_array().is_some_and(|all| all.len() == tables.len()) =>
            {
                let conditions = tables.into_iter().map(|table| Condition::All(self.group(table, outer)));
                Some(Condition::Any(conditions.collect()))
            }
            _ => {
                self.report(
                    place(value),
                    "`$or` must be a list of two conditions or more: `\"$or\" = [{ … }, { … }]`",
                );
                None
            }
        }
    }

    fn field(&mut self, path: Written<&str>, value: Raw<'_>) -> Option<Condition> {
        let array = value.get_ref().as_array()?;
        let resolved = match self.scope.resolve(path.value, self.vocabulary) {
            Ok(resolved) => resolved,
            Err(problem) => {
                if !problem.is_empty() {
                    self.report(path.at, format!("condition on `{}`: {problem}", path.value));
                }
                return None;
            }
        };
        if resolved.format != Format::Plain {
            self.report(
                path.at,
                format!("condition on `{}`: conditions take no formats; test the value itself", path.value),
            );
        }
        if array.is_empty() {
            self.report(
                place(value),
                format!("the condition on `{}` lists nothing, so it can never hold", path.value),
            );
        }
        let mut matchers = Vec::new();
        for element in array.iter() {
            let Some(matcher) = self.matcher(path.value, element) else { continue };
            if let Some(other) = mismatch(&matcher, resolved.value_type) {
                let message = format!(
                    "condition on `{}`: it is {}, and is compared with {other}, so this can never hold",
                    path.value,
                    resolved.value_type.described()
                );
                self.report(place(element), message);
            }
            matchers.push(matcher);
        }
        Some(Condition::Field { term: resolved.term, matchers })
    }

    fn matcher(&mut self, path: &str, value: Raw<'_>) -> Option<Matcher> {
        let DeValue::Table(table) = value.get_ref() else { return self.literal(path, value) };
        let all = entries(table);
        let [(name, argument)] = all.as_slice() else {
            let message =
                format!("condition on `{path}`: a matcher has one key; known are {}", listed(&MATCHERS));
            self.report(place(value), message);
            return None;
        };
        match name.value {
            "prefix" | "suffix" | "equals-ignore-case" => self.text_matcher(path, name.value, argument),
            "exists" => self.flag(path, "exists", argument).map(Matcher::Exists),
            "null" => {
                let is_null = self.flag(path, "null", argument)?;
                Some(if is_null { Matcher::Null } else { Matcher::AnythingBut(vec![Matcher::Null]) })
            }
            "numeric" => self.numeric(path, argument),
            "anything-but" => self.anything_but(path, argument),
            unknown => {
                let message = format!(
                    "condition on `{path}`: unknown matcher `{unknown}`{}",
                    suggestion(unknown, MATCHERS)
                );
                self.report(name.at, message);
                None
            }
        }
    }

    /// A value that must be equal.
    fn literal(&mut self, path: &str, value: Raw<'_>) -> Option<Matcher> {
        match value.get_ref() {
            DeValue::String(text) => Some(Matcher::Text(Arc::from(text.as_ref()))),
            DeValue::Boolean(wanted) => Some(Matcher::Bool(*wanted)),
            DeValue::Integer(_) | DeValue::Float(_) => self.number(path, value).map(Matcher::Number),
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
                let found = value.get_ref().type_str();
                let message = format!(
                    "condition on `{path}`: a value must be a string, number or boolean, not a {found}"
                );
                self.report(place(value), message);
                None
            }
        }
    }

    /// A number, from the very text that the file has.
    fn number(&mut self, path: &str, value: Raw<'_>) -> Option<Decimal> {
        let number = match value.get_ref() {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().parse().ok(),
            DeValue::Integer(integer) => {
                i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(Decimal::from)
            }
            DeValue::Float(float) => float.as_str().parse().ok(),
            _ => None,
        };
        if number.is_none() {
            let message = format!("condition on `{path}`: not a number that DynamoDB can hold (38 digits)");
            self.report(place(value), message);
        }
        number
    }

    fn text_matcher(&mut self, path: &str, name: &str, argument: Raw<'_>) -> Option<Matcher> {
        let Some(text) = argument.get_ref().as_str() else {
            self.report(place(argument), format!("condition on `{path}`: `{name}` takes a string"));
            return None;
        };
        Some(match name {
            "prefix" => Matcher::Prefix(Arc::from(text)),
            "suffix" => Matcher::Suffix(Arc::from(text)),
            _ => Matcher::IgnoreCase(Arc::from(text.to_lowercase())),
        })
    }

    fn flag(&mut self, path: &str, name: &str, argument: Raw<'_>) -> Option<bool> {
        let flag = argument.get_ref().as_bool();
        if flag.is_none() {
            self.report(place(argument), format!("condition on `{path}`: `{name}` takes true or false"));
        }
        flag
    }

    /// `["=", x]`, one bound, or a lower bound and then an upper.
    fn numeric(&mut self, path: &str, argument: Raw<'_>) -> Option<Matcher> {
        let grammar = "`numeric` takes [\"=\", number], one bound like [\">=\", 0], or a lower and then an upper: [\">\", 0, \"<=\", 5]";
        let elements =
            argument.get_ref().as_array().map(|array| array.iter().collect::<Vec<_>>()).unwrap_or_default();
        let mut bounds = Vec::new();
        for pair in elements.chunks(2) {
            let comparison = match pair.first().and_then(|operator| operator.get_ref().as_str()) {
                Some("=") => Comparison::Equal,
                Some("<") => Comparison::Less,
                Some("<=") => Comparison::AtMost,
                Some(">") => Comparison::Greater,
                Some(">=") => Comparison::AtLeast,
                Some("!=") => {
                    let message = format!(
                        "condition on `{path}`: for \"not this number\" write {{ anything-but = number }}"
                    );
                    self.report(place(argument), message);
                    return None;
                }
                _ => {
                    self.report(place(argument), format!("condition on `{path}`: {grammar}"));
                    return None;
                }
            };
            let is_number =
                |value: &Raw<'_>| matches!(value.get_ref(), DeValue::Integer(_) | DeValue::Float(_));
            let Some(bound) = pair.get(1).filter(|value| is_number(value)) else {
                self.report(place(argument), format!("condition on `{path}`: {grammar}"));
                return None;
            };
            bounds.push((comparison, self.number(path, bound)?));
        }
        let is_sound = match bounds.as_slice() {
            [_] => true,
            [
                (Comparison::Greater | Comparison::AtLeast, low),
                (Comparison::Less | Comparison::AtMost, high),
            ] => {
                if low >= high {
                    self.report(
                        place(argument),
                        format!("condition on `{path}`: the lower bound must be below the upper"),
                    );
                }
                true
            }
            _ => false,
        };
        if !is_sound {
            self.report(place(argument), format!("condition on `{path}`: {grammar}"));
        }
        is_sound.then_some(Matcher::Numeric(bounds))
    }

    /// A value or a list of values, or `{ prefix = … }` and the like with a text or a list of texts.
    fn anything_but(&mut self, path: &str, argument: Raw<'_>) -> Option<Matcher> {
        let excluded: Vec<Matcher> = match argument.get_ref() {
            DeValue::Array(array) => array.iter().filter_map(|value| self.literal(path, value)).collect(),
            DeValue::Table(table) => {
                let all = entries(table);
                let [(name, texts)] = all.as_slice() else {
                    let message =
                        format!("condition on `{path}`: `anything-but` takes one of {}", listed(&EXCLUSIONS));
                    self.report(place(argument), message);
                    return None;
                };
                if !EXCLUSIONS.contains(&name.value) {
                    let message = format!(
                        "condition on `{path}`: `anything-but` takes values, or one of {}",
                        listed(&EXCLUSIONS)
                    );
                    self.report(name.at, message);
                    return None;
                }
                match texts.get_ref() {
                    DeValue::Array(array) => {
                        array.iter().filter_map(|text| self.text_matcher(path, name.value, text)).collect()
                    }
                    _ => self.text_matcher(path, name.value, texts).into_iter().collect(),
                }
            }
            _ => self.literal(path, argument).into_iter().collect(),
        };
        if excluded.is_empty() && matches!(argument.get_ref(), DeValue::Array(array) if array.is_empty()) {
            self.report(
                place(argument),
                format!("condition on `{path}`: `anything-but` excludes nothing; `exists` would say that"),
            );
        }
        Some(Matcher::AnythingBut(excluded))
    }
}

/// What a matcher compares with, if a value of this type can never be that.
fn mismatch(matcher: &Matcher, value_type: ValueType) -> Option<&'static str> {
    let compared = match matcher {
        Matcher::Exists(_) | Matcher::Null => return None,
        Matcher::AnythingBut(excluded) => {
            return excluded.iter().find_map(|matcher| mismatch(matcher, value_type));
        }
        Matcher::Text(_) | Matcher::Prefix(_) | Matcher::Suffix(_) | Matcher::IgnoreCase(_) => {
            ValueType::Text
        }
        Matcher::Number(_) | Matcher::Numeric(_) => ValueType::Number,
        Matcher::Bool(_) => ValueType::Bool,
    };
    let fits = match value_type {
        ValueType::Any | ValueType::Other => true,
        ValueType::Ratio => compared == ValueType::Number,
        ValueType::Map => false,
        ValueType::Text | ValueType::Number | ValueType::Bool => compared == value_type,
    };
    (!fits).then_some(compared.described())
}
