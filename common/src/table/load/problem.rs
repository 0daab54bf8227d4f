//! What is wrong with a model file: every problem with its place, all of them reported at once.

use std::fmt;

use crate::{Error, ErrorKind};

/// One thing that is wrong with a model file, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelProblem {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong and the remedy.
    pub message: String,
}

/// All that is wrong with a model file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelErrors {
    /// The file, as it was named.
    pub file: String,
    /// The problems in the order of the file; at least one.
    pub problems: Vec<ModelProblem>,
}

/// A line for each problem: `models/shop.toml:12:9: aggregate `orders`: unknown rollup …`.
impl fmt::Display for ModelErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, ModelProblem { line, column, message }) in self.problems.iter().enumerate() {
            let separator = if position == 0 { "" } else { "\n" };
            write!(f, "{separator}{}:{line}:{column}: {message}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for ModelErrors {}

impl ModelErrors {
    /// The same as the crate's own error, of [`ErrorKind::Model`].
    #[must_use]
    pub fn into_error(self) -> Error {
        Error::new(ErrorKind::Model, format!("the table model is wrong:\n{self}"))
    }
}

/// Collects problems while a model is loaded.
pub(crate) struct ProblemCollector<'s> {
    source: &'s str,
    /// Where each line begins.
    lines: Vec<usize>,
    found: Vec<(usize, String)>,
    incomplete: bool,
}

impl<'s> ProblemCollector<'s> {
    pub(crate) fn of(source: &'s str) -> Self {
        let later = source.match_indices('\n').map(|(end, _)| end + 1);
        let lines = std::iter::once(0).chain(later).collect();
        Self { source, lines, found: Vec::new(), incomplete: false }
    }

    /// Notes a problem at this offset of the source. The same problem at the same place is noted once.
    pub(crate) fn report(&mut self, at: usize, message: impl Into<String>) {
        self.found.push((at, in_one_line(message.into())));
    }

    /// Adds the problems of another collector of the same source.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.found.extend(other.found);
    }

    /// Says that something could not be read at all, so that what refers to it cannot be judged.
    pub(crate) fn mark_incomplete(&mut self) {
        self.incomplete = true;
    }

    /// Whether everything could be read, if not rightly.
    pub(crate) fn is_complete(&self) -> bool {
        !self.incomplete
    }

    /// The line of an offset, from 1.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        self.lines.partition_point(|begin| *begin <= at)
    }

    /// Ends the loading: `Ok` if nothing was found.
    pub(crate) fn finish(mut self, file: &str) -> Result<(), ModelErrors> {
        if self.found.is_empty() {
            return Ok(());
        }
        let mut found = std::mem::take(&mut self.found);
        found.sort_by_key(|(at, _)| *at);
        let mut problems: Vec<ModelProblem> = Vec::new();
        let (mut place, mut told_of_it) = (None, 0);
        for (at, message) in found {
            if place != Some(at) {
                (place, told_of_it) = (Some(at), problems.len());
            }
            if problems.iter().skip(told_of_it).all(|problem| problem.message != message) {
                let (line, column) = self.place_of(at);
                problems.push(ModelProblem { line, column, message });
            }
        }
        Err(ModelErrors { file: file.to_owned(), problems })
    }

    fn place_of(&self, at: usize) -> (usize, usize) {
        let line = self.line_of(at);
        let begin = line.checked_sub(1).and_then(|line| self.lines.get(line)).copied().unwrap_or(0);
        let before = self.source.get(begin..at).or_else(|| self.source.get(begin..)).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

/// A message as it fits into a line: names are quoted as they were written, and may hold anything.
fn in_one_line(message: String) -> String {
    if !message.contains(char::is_control) {
        return message;
    }
    let escaped = |character: char| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    message.chars().map(escaped).collect()
}

/// What to say of a name that is not among the known ones: the nearest, or all of them if there are few.
pub(crate) fn suggestion<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_unstable();
    known.dedup();
    match nearest(name, known.iter().copied()) {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None if known.is_empty() => "; there is none".to_owned(),
        None if known.len() <= 12 => format!("; known are {}", listed(&known)),
        None => String::new(),
    }
}

/// The known name that was probably meant.
pub(crate) fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let length = name.chars().count();
    let distances = known.into_iter().map(|known| (edit_distance(name, known), known));
    let (distance, nearest) = distances.min()?;
    (distance <= (length / 3).max(2) && distance < length).then_some(nearest)
}

/// "`a`, `b` and `c`".
pub(crate) fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// How many characters must be inserted, deleted, replaced or swapped with their neighbour to make one name the other.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    for (i, character) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in b.iter().enumerate() {
            let at = |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX - 1);
            let mut cost = (at(&previous, j) + usize::from(character != other))
                .min(at(&previous, j + 1) + 1)
                .min(at(&row, j) + 1);
            let is_swap = i > 0 && j > 0 && a.get(i - 1) == Some(other) && b.get(j - 1) == Some(character);
            if is_swap {
                cost = cost.min(at(&before, j - 1) + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut previous, row);
    }
    previous.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_single_slips() {
        for (a, b, distance) in [
            ("", "", 0),
            ("", "abc", 3),
            ("admin", "admin", 0),
            ("admin_dya", "admin_day", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
            assert_eq!(edit_distance(b, a), distance, "{b} {a}");
        }
    }

    #[test]
    fn a_near_name_is_suggested_and_few_names_are_listed() {
        assert_eq!(suggestion("admin_dya", ["admin", "admin_day"]), "; did you mean `admin_day`?");
        assert_eq!(suggestion("zzzzz", ["b", "a"]), "; known are `a` and `b`");
        assert_eq!(suggestion("zzzzz", []), "; there is none");
    }

    #[test]
    fn what_is_said_twice_of_a_place_is_told_once() {
        let mut problems = ProblemCollector::of("a = 1\nb = 2");
        for (at, message) in [(6, "one"), (0, "two"), (6, "three"), (6, "one"), (0, "one")] {
            problems.report(at, message);
        }
        let errors = problems.finish("x.toml").unwrap_err();
        assert_eq!(
            errors.to_string(),
            "x.toml:1:1: two\nx.toml:1:1: one\nx.toml:2:1: one\nx.toml:2:1: three"
        );
    }

    #[test]
    fn a_problem_is_a_line_whatever_it_quotes() {
        let mut problems = ProblemCollector::of("a");
        problems.report(0, "the name `é\n\u{1b}[31m` is none");
        let errors = problems.finish("x.toml").unwrap_err();
        assert_eq!(errors.to_string(), "x.toml:1:1: the name `é\\n\\u{1b}[31m` is none");
    }

    #[test]
    fn places_count_lines_and_characters() {
        let mut problems = ProblemCollector::of("ä = 1\nöö = 2\n");
        problems.report("ä = 1\nöö".len(), "here");
        let errors = problems.finish("x.toml").unwrap_err();
        assert_eq!(errors.to_string(), "x.toml:2:3: here");
    }
}
