//! Reads single settings out of the TOML, each with its place, and reports settings that are missing, unknown or of a wrong type.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{ProblemCode, ProblemCollector};
use super::suggestion::{listed, nearest};
use crate::record::Decimal;

/// A setting and where it stands in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) at: usize,
}

/// Names and texts in the order of the file.
pub(crate) type LocatedPairs<'d> = Vec<(Located<&'d str>, Located<&'d str>)>;

/// A value as TOML has it; floats and integers keep their text.
pub(crate) type RawValue<'d> = &'d Spanned<DeValue<'d>>;

pub(crate) fn place(value: RawValue<'_>) -> usize {
    value.span().start
}

/// The entries of a table in the order they were written.
pub(crate) fn entries<'d>(table: &'d DeTable<'d>) -> Vec<(Located<&'d str>, RawValue<'d>)> {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(name, value)| (Located { value: name.get_ref().as_ref(), at: name.span().start }, value))
        .collect();
    entries.sort_by_key(|(name, _)| name.at);
    entries
}

pub(crate) fn text<'d>(
    what: &str,
    value: RawValue<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Option<Located<&'d str>> {
    let text = value.get_ref().as_str();
    if text.is_none() {
        wrong_type(what, "a string", value, problems);
    }
    text.map(|text| Located { value: text, at: place(value) })
}

pub(crate) fn table<'d>(
    what: &str,
    value: RawValue<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Option<&'d DeTable<'d>> {
    let table = value.get_ref().as_table();
    if table.is_none() {
        wrong_type(what, "a table", value, problems);
    }
    table
}

/// A list of strings; a single string stands for a list of one.
pub(crate) fn texts<'d>(
    what: &str,
    value: RawValue<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Vec<Located<&'d str>> {
    match value.get_ref().as_array() {
        Some(array) => array.iter().filter_map(|element| text(what, element, problems)).collect(),
        None if value.get_ref().is_str() => text(what, value, problems).into_iter().collect(),
        None => {
            wrong_type(what, "a list of strings", value, problems);
            Vec::new()
        }
    }
}

/// A name or a number in a list of both.
#[derive(Clone, Debug)]
pub(crate) enum WrittenFactor<'d> {
    Name(Located<&'d str>),
    Number(Decimal),
}

/// A list of strings and numbers; a single one stands for a list of one.
pub(crate) fn factors<'d>(
    what: &str,
    value: RawValue<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Vec<WrittenFactor<'d>> {
    match value.get_ref() {
        DeValue::Array(array) => array.iter().filter_map(|element| factor(what, element, problems)).collect(),
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) => {
            factor(what, value, problems).into_iter().collect()
        }
        DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Table(_) => {
            wrong_type(what, "a name, a number or a list of these", value, problems);
            Vec::new()
        }
    }
}

fn factor<'d>(
    what: &str,
    value: RawValue<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Option<WrittenFactor<'d>> {
    if let Some(name) = value.get_ref().as_str() {
        return Some(WrittenFactor::Name(Located { value: name, at: place(value) }));
    }
    match decimal(value) {
        Some(Some(number)) => Some(WrittenFactor::Number(number)),
        Some(None) => {
            let message = format!("{what}: this is not a number that DynamoDB can hold (38 digits)");
            problems.report(ProblemCode::NumberOutOfRange, place(value), message);
            problems.mark_incomplete();
            None
        }
        None => {
            wrong_type(what, "a name or a number", value, problems);
            None
        }
    }
}

/// A number, from the very text that the file has: `None` if the value is not a number, `Some(None)` if DynamoDB cannot hold it.
pub(crate) fn decimal(value: RawValue<'_>) -> Option<Option<Decimal>> {
    match value.get_ref() {
        DeValue::Integer(integer) => Some(match integer.radix() {
            10 => integer.as_str().parse().ok(),
            radix => i64::from_str_radix(integer.as_str(), radix).ok().map(Decimal::from),
        }),
        DeValue::Float(float) => Some(float.as_str().parse().ok()),
        DeValue::String(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => None,
    }
}

/// A table whose values are all strings, in the order they were written.
pub(crate) fn pairs<'d>(
    what: &str,
    value: RawValue<'d>,
    problems: &mut ProblemCollector<'_>,
) -> LocatedPairs<'d> {
    let Some(table) = table(what, value, problems) else { return Vec::new() };
    let pairs = entries(table).into_iter();
    pairs
        .filter_map(|(name, value)| {
            Some((name, text(&format!("{what}: `{}`", name.value), value, problems)?))
        })
        .collect()
}

pub(crate) fn wrong_type(what: &str, wanted: &str, value: RawValue<'_>, problems: &mut ProblemCollector<'_>) {
    let found = value.get_ref().type_str();
    let article = if found.starts_with(['a', 'i']) { "an" } else { "a" };
    let message = format!("{what} must be {wanted}, not {article} {found}");
    problems.report(ProblemCode::WrongType, place(value), message);
    problems.mark_incomplete();
}

/// The message about an unknown key; `meant` is the spelling of the key that was probably meant.
pub(crate) fn unknown_key(owner: &str, name: &str, meant: Option<&str>, known: &[&str]) -> String {
    let all = listed(known);
    match meant {
        Some(meant) => format!("{owner}: unknown key `{name}`; did you mean `{meant}`? Known keys are {all}"),
        None => format!("{owner}: unknown key `{name}`; known keys are {all}"),
    }
}

/// The settings of one thing (an entity, a measure), all of whose names are known.
pub(crate) struct SettingsTable<'d> {
    /// How errors call the thing: "entity `project`".
    pub(crate) owner: String,
    /// Its name, if it is a part like `[entities.<name>]`; otherwise empty.
    pub(crate) name: &'d str,
    /// Where it stands.
    pub(crate) at: usize,
    table: &'d DeTable<'d>,
    /// Misspelt settings by the name that was probably meant: they are read as that, so that nothing that follows is reported.
    misspelt: Vec<(String, RawValue<'d>)>,
}

impl<'d> SettingsTable<'d> {
    /// Reports every setting that is not among `known`.
    pub(crate) fn new(
        owner: String,
        at: usize,
        table: &'d DeTable<'d>,
        known: &[&str],
        problems: &mut ProblemCollector<'_>,
    ) -> Self {
        let mut misspelt = Vec::new();
        for (name, value) in entries(table).into_iter().filter(|(name, _)| !known.contains(&name.value)) {
            let missing = known.iter().copied().filter(|known| !table.contains_key(*known));
            let meant = nearest(name.value, missing);
            let message = unknown_key(&owner, name.value, meant, known);
            problems.report(ProblemCode::UnknownKey, name.at, message);
            misspelt.extend(meant.map(|meant| (meant.to_owned(), value)));
        }
        Self { owner, name: "", at, table, misspelt }
    }

    /// The model's own sections, which were checked before.
    pub(crate) fn of_model(table: &'d DeTable<'d>, misspelt: Vec<(String, RawValue<'d>)>) -> Self {
        Self { owner: "model".to_owned(), name: "", at: 0, table, misspelt }
    }

    /// Whether a setting is read from a misspelt name, which was reported.
    pub(crate) fn is_misspelt(&self, name: &str) -> bool {
        self.misspelt.iter().any(|(meant, _)| meant == name)
    }

    /// The same, as the settings of a part with this name.
    pub(crate) fn of_part(self, name: &'d str) -> Self {
        Self { name, ..self }
    }

    /// Its name and place.
    pub(crate) fn located_name(&self) -> Located<&'d str> {
        Located { value: self.name, at: self.at }
    }

    /// The value of a setting, if it is there.
    pub(crate) fn get(&self, name: &str) -> Option<RawValue<'d>> {
        self.table.get(name).or_else(|| {
            let misspelt = self.misspelt.iter().find(|(meant, _)| meant == name);
            misspelt.map(|(_, value)| *value)
        })
    }

    /// The value of a setting that must be there.
    pub(crate) fn require(&self, name: &str, problems: &mut ProblemCollector<'_>) -> Option<RawValue<'d>> {
        let value = self.get(name);
        if value.is_none() {
            let message = format!("{}: `{name}` is missing; add it", self.owner);
            problems.report(ProblemCode::MissingKey, self.at, message);
            problems.mark_incomplete();
        }
        value
    }

    /// How errors call a setting.
    pub(crate) fn called(&self, name: &str) -> String {
        format!("{}: `{name}`", self.owner)
    }

    pub(crate) fn text(&self, name: &str, problems: &mut ProblemCollector<'_>) -> Option<Located<&'d str>> {
        self.get(name).and_then(|value| text(&self.called(name), value, problems))
    }

    pub(crate) fn required_text(
        &self,
        name: &str,
        problems: &mut ProblemCollector<'_>,
    ) -> Option<Located<&'d str>> {
        self.require(name, problems).and_then(|value| text(&self.called(name), value, problems))
    }

    pub(crate) fn texts(&self, name: &str, problems: &mut ProblemCollector<'_>) -> Vec<Located<&'d str>> {
        self.get(name).map(|value| texts(&self.called(name), value, problems)).unwrap_or_default()
    }

    /// Whether a setting is an empty list. A list with a wrong element has been reported for this element.
    pub(crate) fn is_empty_list(&self, name: &str) -> bool {
        self.get(name).and_then(|value| value.get_ref().as_array()).is_some_and(|array| array.is_empty())
    }

    pub(crate) fn required_texts(
        &self,
        name: &str,
        problems: &mut ProblemCollector<'_>,
    ) -> Vec<Located<&'d str>> {
        let value = self.require(name, problems);
        value.map(|value| texts(&self.called(name), value, problems)).unwrap_or_default()
    }

    pub(crate) fn required_pairs(&self, name: &str, problems: &mut ProblemCollector<'_>) -> LocatedPairs<'d> {
        let value = self.require(name, problems);
        value.map(|value| pairs(&self.called(name), value, problems)).unwrap_or_default()
    }

    /// Names and numbers: see [`factors`].
    pub(crate) fn factors(&self, name: &str, problems: &mut ProblemCollector<'_>) -> Vec<WrittenFactor<'d>> {
        self.get(name).map(|value| factors(&self.called(name), value, problems)).unwrap_or_default()
    }

    /// Names and texts, if the setting is there.
    pub(crate) fn pairs(&self, name: &str, problems: &mut ProblemCollector<'_>) -> LocatedPairs<'d> {
        self.get(name).map(|value| pairs(&self.called(name), value, problems)).unwrap_or_default()
    }

    /// A number that DynamoDB can hold.
    pub(crate) fn decimal(&self, name: &str, problems: &mut ProblemCollector<'_>) -> Option<Decimal> {
        let value = self.get(name)?;
        match decimal(value) {
            Some(Some(number)) => return Some(number),
            Some(None) => {
                let message = format!("{}: this is not a number that DynamoDB can hold", self.called(name));
                problems.report(ProblemCode::NumberOutOfRange, place(value), message);
                problems.mark_incomplete();
            }
            None => wrong_type(&self.called(name), "a number", value, problems),
        }
        None
    }

    pub(crate) fn boolean(&self, name: &str, problems: &mut ProblemCollector<'_>) -> Option<bool> {
        let value = self.get(name)?;
        let boolean = value.get_ref().as_bool();
        if boolean.is_none() {
            wrong_type(&self.called(name), "true or false", value, problems);
        }
        boolean
    }

    /// A whole number that must lie within a range.
    pub(crate) fn integer(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<i64>,
        problems: &mut ProblemCollector<'_>,
    ) -> Option<i64> {
        let value = self.get(name)?;
        let integer = value
            .get_ref()
            .as_integer()
            .and_then(|integer| i64::from_str_radix(integer.as_str(), integer.radix()).ok());
        match integer {
            Some(integer) if range.contains(&integer) => Some(integer),
            _ => {
                let (low, high) = (range.start(), range.end());
                let called = self.called(name);
                let wanted =
                    if *high == i64::MAX { format!("{low} or more") } else { format!("{low} to {high}") };
                let message = format!("{called} must be a whole number, {wanted}");
                problems.report(ProblemCode::NumberOutOfRange, place(value), message);
                None
            }
        }
    }
}
