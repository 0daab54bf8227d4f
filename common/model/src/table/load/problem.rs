//! The problems of a model file: each with its code, its place and a fix, all of them reported at once.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

pub use super::code::{ProblemCode, ProblemSeverity};
use super::source::SourceMap;
pub use super::source::SourceSpan;
use crate::{Error, ErrorKind};

/// Further places of one cause that are shown; the rest is only counted.
const SHOWN_PLACES: usize = 3;

/// One thing that is wrong with a model file, and a fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelProblem {
    /// The kind of problem.
    pub code: ProblemCode,
    /// Where it is.
    pub span: SourceSpan,
    /// A description of the problem, and a fix.
    pub message: String,
    /// Other places that have to do with it, such as the first of two definitions.
    pub related: Vec<RelatedLocation>,
}

/// Another place of a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelatedLocation {
    /// Where it is.
    pub span: SourceSpan,
    /// A description of that place.
    pub message: String,
}

impl ModelProblem {
    /// Whether a model with this problem loads.
    #[must_use]
    pub fn severity(&self) -> ProblemSeverity {
        self.code.severity()
    }
}

/// In one line: `error[AW012]: aggregate `orders`: unknown rollup … (line 4: …)`.
impl fmt::Display for ModelProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: {}", self.severity().name(), self.code.code(), self.message)?;
        for (position, related) in self.related.iter().enumerate() {
            let separator = if position == 0 { " (" } else { "; " };
            write!(f, "{separator}line {}: {}", related.span.line, related.message)?;
        }
        if self.related.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

/// All errors of a model file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelErrors {
    /// The file, as it was named.
    pub file: String,
    /// The errors in the order of the file; at least one.
    pub problems: Vec<ModelProblem>,
}

/// A line for each problem: `models/shop.toml:12:9: error[AW012]: aggregate `orders`: unknown rollup …`.
impl fmt::Display for ModelErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, problem) in self.problems.iter().enumerate() {
            let separator = if position == 0 { "" } else { "\n" };
            let SourceSpan { line, column, .. } = problem.span;
            write!(f, "{separator}{}:{line}:{column}: {problem}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for ModelErrors {}

impl ModelErrors {
    /// The same as the crate's own error, of [`ErrorKind::Model`].
    #[must_use]
    pub fn into_error(self) -> Error {
        Error::new(ErrorKind::Model, format!("the table model has errors:\n{self}"))
    }
}

/// Where a problem is: an offset stands for the token that begins there.
#[derive(Clone, Debug)]
pub(crate) struct ProblemPlace(Range<usize>);

impl From<usize> for ProblemPlace {
    fn from(at: usize) -> Self {
        Self(at..at)
    }
}

impl From<Range<usize>> for ProblemPlace {
    fn from(range: Range<usize>) -> Self {
        Self(range)
    }
}

/// A problem as it was reported, its places not yet resolved to lines.
pub(crate) struct ReportedProblem {
    code: ProblemCode,
    place: Range<usize>,
    message: String,
    related: Vec<(Range<usize>, String)>,
    causes: Vec<String>,
}

impl ReportedProblem {
    /// Adds another place, and a note about it.
    pub(crate) fn related(
        &mut self,
        place: impl Into<ProblemPlace>,
        message: impl Into<String>,
    ) -> &mut Self {
        self.related.push((place.into().0, in_one_line(message.into())));
        self
    }

    /// Names a cause. Problems of one code that have a cause in common are shown as one, at the first of their places.
    pub(crate) fn caused_by(&mut self, cause: impl Into<String>) -> &mut Self {
        self.causes.push(cause.into());
        self
    }
}

/// Collects problems while a model is loaded.
pub(crate) struct ProblemCollector<'s> {
    source: &'s str,
    reported: Vec<ReportedProblem>,
    is_incomplete: bool,
}

impl<'s> ProblemCollector<'s> {
    pub(crate) fn of(source: &'s str) -> Self {
        Self { source, reported: Vec::new(), is_incomplete: false }
    }

    /// Reports a problem at a place of the source.
    pub(crate) fn report(
        &mut self,
        code: ProblemCode,
        place: impl Into<ProblemPlace>,
        message: impl Into<String>,
    ) -> &mut ReportedProblem {
        self.reported.push_mut(ReportedProblem {
            code,
            place: place.into().0,
            message: in_one_line(message.into()),
            related: Vec::new(),
            causes: Vec::new(),
        })
    }

    /// Notes that something could not be read at all, so that what refers to it cannot be checked.
    pub(crate) fn mark_incomplete(&mut self) {
        self.is_incomplete = true;
    }

    /// Whether everything could be read, if not without errors.
    pub(crate) fn is_complete(&self) -> bool {
        !self.is_incomplete
    }

    /// Adds the problems of another collector of the same source.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.reported.extend(other.reported);
    }

    /// Whether an error was reported.
    pub(crate) fn has_errors(&self) -> bool {
        self.reported.iter().any(|problem| problem.code.severity() == ProblemSeverity::Error)
    }

    /// The problems in the order of the file, each once. If there are errors, warnings are left out: many follow from them.
    pub(crate) fn finish(mut self) -> Vec<ModelProblem> {
        if self.has_errors() {
            self.reported.retain(|problem| problem.code.severity() == ProblemSeverity::Error);
        }
        if self.reported.is_empty() {
            return Vec::new();
        }
        let source = SourceMap::of(self.source);
        let mut reported = fold_causes(self.reported);
        reported.sort_by_key(|problem| problem.place.start);
        let mut problems: Vec<ModelProblem> = Vec::new();
        for ReportedProblem { code, place, message, related, .. } in reported {
            let span = source.span(&place);
            let is_known = |known: &&ModelProblem| {
                known.span.bytes.start == span.bytes.start && known.message == message
            };
            if problems.iter().rev().find(is_known).is_some() {
                continue;
            }
            let related = related.into_iter();
            let related = related
                .map(|(place, message)| RelatedLocation { span: source.span(&place), message })
                .collect();
            problems.push(ModelProblem { code, span, message, related });
        }
        problems
    }
}

/// Merges problems that have one code and a cause in common: the first in the file stays, with the places of all.
fn fold_causes(mut reported: Vec<ReportedProblem>) -> Vec<ReportedProblem> {
    reported.sort_by_key(|problem| problem.place.start);
    let mut folded: Vec<ReportedProblem> = Vec::new();
    let mut first_of: HashMap<(ProblemCode, String), usize> = HashMap::new();
    let mut repeats: HashMap<usize, Vec<Range<usize>>> = HashMap::new();
    for mut problem in reported {
        let causes = std::mem::take(&mut problem.causes).into_iter();
        let causes: Vec<_> = causes.map(|cause| (problem.code, cause)).collect();
        let known = causes.iter().find_map(|cause| first_of.get(cause)).copied();
        let first = known.unwrap_or(folded.len());
        first_of.extend(causes.into_iter().map(|cause| (cause, first)));
        match known {
            Some(_) => repeats.entry(first).or_default().push(problem.place),
            None => folded.push(problem),
        }
    }
    for (first, mut places) in repeats {
        let Some(problem) = folded.get_mut(first) else { continue };
        places.dedup();
        places.retain(|place| *place != problem.place);
        let hidden = places.len().saturating_sub(SHOWN_PLACES);
        for (position, place) in places.into_iter().take(SHOWN_PLACES).enumerate() {
            let is_last = position + 1 == SHOWN_PLACES;
            let message = match hidden {
                1 if is_last => "also here, and in 1 more place".to_owned(),
                2.. if is_last => format!("also here, and in {hidden} more places"),
                _ => "also here".to_owned(),
            };
            problem.related.push((place, message));
        }
    }
    folded
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The problems that these reports make, a line each.
    fn lines(source: &str, report: impl FnOnce(&mut ProblemCollector<'_>)) -> Vec<String> {
        let mut problems = ProblemCollector::of(source);
        report(&mut problems);
        let errors = ModelErrors { file: "x.toml".to_owned(), problems: problems.finish() };
        errors.to_string().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_problem_that_is_reported_twice_is_shown_once() {
        let lines = lines("a = 1\nb = 2", |problems| {
            for (at, message) in [(6, "one"), (0, "two"), (6, "three"), (6, "one"), (0, "one")] {
                problems.report(ProblemCode::SyntaxError, at, message);
            }
        });
        assert_eq!(
            lines,
            [
                "x.toml:1:1: error[AW001]: two",
                "x.toml:1:1: error[AW001]: one",
                "x.toml:2:1: error[AW001]: one",
                "x.toml:2:1: error[AW001]: three"
            ]
        );
    }

    #[test]
    fn a_problem_is_one_line_whatever_it_quotes() {
        let lines = lines("a", |problems| {
            problems.report(ProblemCode::SyntaxError, 0, "the name `é\n\u{1b}[31m`").related(0, "\t");
        });
        assert_eq!(lines, ["x.toml:1:1: error[AW001]: the name `é\\n\\u{1b}[31m` (line 1: \\t)"]);
    }

    #[test]
    fn places_count_lines_and_characters() {
        let lines = lines("ä = 1\nöö = 2\n", |problems| {
            problems.report(ProblemCode::SyntaxError, "ä = 1\nöö".len(), "here");
        });
        assert_eq!(lines, ["x.toml:2:3: error[AW001]: here"]);
    }

    #[test]
    fn problems_of_one_cause_are_one_problem() {
        let source = "a\nb\nc\nd\ne\nf\n";
        let mut problems = ProblemCollector::of(source);
        for at in [8, 2, 4, 6, 10, 2] {
            problems.report(ProblemCode::SyntaxError, at, format!("at {at}")).caused_by("x");
        }
        problems.report(ProblemCode::DuplicateKey, 0, "another code").caused_by("x");
        problems.report(ProblemCode::SyntaxError, 0, "another cause").caused_by("y");
        let problems = problems.finish();
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "error[AW003]: another code",
                "error[AW001]: another cause",
                "error[AW001]: at 2 (line 3: also here; line 4: also here; line 5: also here, and in 1 more place)"
            ]
        );
    }
}
