//! `afterwrite model check`: every problem of a model file, each with its code, its place and a fix.

use std::io::IsTerminal as _;

use afterwrite_model::Result;
use afterwrite_model::table::{
    Model, ModelProblem, ModelReport, ProblemSeverity, RelatedLocation, SourceSpan,
};
use afterwrite_services::config::EnvironmentSettings;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use clap::Args;
use serde_json::{Value, json};

use super::ModelArgument;
use crate::print::{self, print};

/// The page that explains the codes.
const PROBLEMS_PAGE: &str = "docs/PROBLEMS.md";

/// The arguments of `afterwrite model check`.
#[derive(Debug, Args)]
#[command(
    after_help = "Each problem has a code such as AW012, which docs/PROBLEMS.md explains. Errors keep a model from loading; warnings do not.\nOn a terminal each problem is shown with its source line, in colour unless NO_COLOR is set; elsewhere each is one line of text.\n\nExamples:\n  afterwrite model check my-model.toml\n  afterwrite model check my-model.toml --deny-warnings\n  afterwrite model check my-model.toml --json | jq '.problems[].message'\n\nExit codes: 0 no errors, 1 errors (or warnings with --deny-warnings), 2 the model cannot be read."
)]
pub struct CheckArguments {
    #[command(flatten)]
    model: ModelArgument,
    /// Exit with 1 if there are warnings.
    #[arg(long)]
    deny_warnings: bool,
    /// Print the problems as one JSON object.
    #[arg(long)]
    json: bool,
}

impl CheckArguments {
    /// Prints the problems; returns whether the model passes.
    ///
    /// # Errors
    /// The model cannot be read.
    pub fn run(&self) -> Result<bool> {
        for warning in EnvironmentSettings::from_env().warnings {
            print::tell(&warning);
        }
        let name = self.model.name();
        let (file, source) = match Model::source(&name) {
            Ok(found) => found,
            Err(error) if self.json => {
                let unread = json!({ "file": name, "problems": [], "error": error.to_string() });
                print(&print::json(&unread)?)?;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        let report = Model::check(&source, &file);
        if self.json {
            print(&print::json(&report_json(&report))?)?;
        } else {
            let problems = match std::io::stdout().is_terminal() {
                true => snippets(&report, &source, !anstyle_query::no_color()),
                false => lines(&report),
            };
            let model = report.model.iter().map(|model| format!("{}: {}\n", report.file, extent(model)));
            print(&(problems + &model.collect::<String>()))?;
        }
        Ok(if self.deny_warnings { report.problems.is_empty() } else { report.model.is_some() })
    }
}

/// A report as JSON. Lines and columns count from 1, columns in characters; `end_column` is one past the last.
fn report_json(report: &ModelReport) -> Value {
    let location = |span: &SourceSpan, message: &str| {
        let SourceSpan { line, column, end_column, .. } = span;
        json!({ "file": report.file, "line": line, "column": column, "end_column": end_column, "message": message })
    };
    let problem = |problem: &ModelProblem| {
        let related = problem.related.iter().map(|other| location(&other.span, &other.message));
        let SourceSpan { line, column, end_column, .. } = problem.span;
        json!({
            "code": problem.code.code(), "severity": problem.severity().name(), "file": report.file,
            "line": line, "column": column, "end_column": end_column, "message": problem.message,
            "related": related.collect::<Vec<_>>(),
        })
    };
    let problems: Vec<Value> = report.problems.iter().map(problem).collect();
    json!({ "file": report.file, "problems": problems })
}

/// A line for each problem.
fn lines(report: &ModelReport) -> String {
    let place = |span: &SourceSpan| format!("{}:{}:{}", report.file, span.line, span.column);
    report.problems.iter().map(|problem| format!("{}: {problem}\n", place(&problem.span))).collect()
}

/// Each problem with its source line, then the number of problems.
fn snippets(report: &ModelReport, source: &str, colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let problems = report.problems.iter();
    let mut text: String = problems
        .map(|problem| format!("{}\n\n", renderer.render(&[snippet(report, problem, source)])))
        .collect();
    let count = |severity| report.problems.iter().filter(|problem| problem.severity() == severity).count();
    let counts = counted(&[
        (count(ProblemSeverity::Error), "error", "errors"),
        (count(ProblemSeverity::Warning), "warning", "warnings"),
    ]);
    if !counts.is_empty() {
        text += &format!("{}; {PROBLEMS_PAGE} explains each code\n", counts.join(" and "));
    }
    text
}

/// "1 lookup", "2 rollups"; zeros are left out.
pub(super) fn counted(parts: &[(usize, &str, &str)]) -> Vec<String> {
    let parts = parts.iter().filter(|(count, ..)| *count > 0);
    parts.map(|(count, one, many)| format!("{count} {}", if *count == 1 { one } else { many })).collect()
}

fn snippet<'r>(
    report: &'r ModelReport,
    problem: &'r ModelProblem,
    source: &'r str,
) -> annotate_snippets::Group<'r> {
    let level = match problem.severity() {
        ProblemSeverity::Error => Level::ERROR,
        ProblemSeverity::Warning => Level::WARNING,
    };
    let related = problem.related.iter().map(|RelatedLocation { span, message }| {
        AnnotationKind::Context.span(span.bytes.clone()).label(message.as_str())
    });
    let annotated = Snippet::source(source)
        .path(report.file.as_str())
        .annotation(AnnotationKind::Primary.span(problem.span.bytes.clone()))
        .annotations(related);
    level.primary_title(problem.message.as_str()).id(problem.code.code()).element(annotated)
}

/// The summary of a model: the number of its entities, lookups and other parts.
fn extent(model: &Model) -> String {
    let parts = [
        // The items of rollups that are sources are entities, too; the file does not declare these.
        (model.entities.iter().filter(|entity| entity.rollup.is_none()).count(), "entity", "entities"),
        (model.lookups.len(), "lookup", "lookups"),
        (model.rollups.len(), "rollup", "rollups"),
        (model.aggregates.len(), "aggregate", "aggregates"),
        (model.mirrors.len(), "mirror", "mirrors"),
        (model.caches.len(), "cache rule", "cache rules"),
        (model.events.len(), "event rule", "event rules"),
        (model.datasets.len(), "dataset", "datasets"),
        (model.queries.len(), "saved query", "saved queries"),
    ];
    format!("no errors. {}, generation {}: {}", model.name, model.generation, counted(&parts).join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_ERRORS: &str =
        "name = \"t\"\ngeneration = 1\n[tables.t]\n\tkey = []\n[tables.u]\nkey = [\"a\", \"a\"]\n";

    #[test]
    fn a_terminal_shows_each_problem_with_its_line_and_range() {
        let report = Model::check(TWO_ERRORS, "x.toml");
        let text = snippets(&report, TWO_ERRORS, false);
        assert!(text.contains(" --> x.toml:4:8\n"), "{text}");
        assert!(text.contains("\n6 | key = [\"a\", \"a\"]\n  |       ^^^^^^^^^^\n"), "{text}");
        assert!(text.ends_with("2 errors; docs/PROBLEMS.md explains each code\n"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(snippets(&report, TWO_ERRORS, true).contains('\u{1b}'), "in colour");
    }

    #[test]
    fn a_terminal_shows_both_places_of_a_conflict() {
        let source = "name = \"t\"\n[tables.t]\nkey = [\"a\"]\n[tables.t]\n";
        let text = snippets(&Model::check(source, "x.toml"), source, false);
        assert!(text.contains("\n2 | [tables.t]\n  |         - first defined here\n"), "{text}");
        assert!(text.contains("\n4 | [tables.t]\n  |         ^\n"), "{text}");
    }

    #[test]
    fn a_pipe_gets_a_line_for_each_problem() {
        let text = lines(&Model::check(TWO_ERRORS, "x.toml"));
        let lines: Vec<&str> = text.lines().collect();
        let [first, second] = lines.as_slice() else { panic!("{text}") };
        assert!(first.starts_with("x.toml:4:8: error[AW"), "{text}");
        assert!(second.starts_with("x.toml:6:7: error[AW"), "{text}");
    }

    #[test]
    fn json_has_the_code_the_range_and_the_related_places() {
        let source = "name = \"t\"\n[tables.t]\nkey = [\"a\"]\n[tables.t]\n";
        let report = Model::check(source, "x.toml");
        let json = report_json(&report);
        assert_eq!(
            json,
            json!({ "file": "x.toml", "problems": [{
                "code": "AW003", "severity": "error", "file": "x.toml", "line": 4, "column": 9, "end_column": 10,
                "message": "`t` is defined twice; define it once",
                "related": [{ "file": "x.toml", "line": 2, "column": 9, "end_column": 10, "message": "first defined here" }],
            }] })
        );
    }

    #[test]
    fn a_model_without_errors_is_summed_up() {
        let model = Model::load(Model::DEFAULT_NAME).unwrap();
        let extent = extent(&model);
        assert!(extent.contains(&format!("{} entities", model.entities.len())), "{extent}");
        let levels = "name = \"t\"\ngeneration = 1\ntables.t.key = [\"pk\"]\n\
                      entities.e = { key = { pk = \"E#{e}\" } }\n\
                      rollups.r.key = { PK = \"R\", SK = \"R\" }\nrollups.s.key = { PK = \"S\", SK = \"S\" }\n\
                      [[aggregates]]\nname = \"a\"\nof = \"e\"\ninto = \"r\"\nmeasures.n = \"count\"\n\
                      [[aggregates]]\nname = \"b\"\nof = \"r\"\ninto = \"s\"\nmeasures.n = \"count\"\n";
        let levels = super::extent(&Model::parse(levels, "t.toml").unwrap());
        assert!(levels.contains("1 entity, 2 rollups"), "{levels}");
    }

    #[test]
    fn warnings_fail_only_if_they_are_denied() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let unused = "name = \"t\"\ngeneration = 1\n[tables.t]\nkey = [\"a\"]\n\
                      [rollups.r]\nkey = { PK = \"R\", SK = \"R\" }\n";
        std::fs::write(file.path(), unused).unwrap();
        let model = || ModelArgument { model: Some(file.path().to_string_lossy().into_owned()) };
        let check = |deny_warnings| CheckArguments { model: model(), deny_warnings, json: true }.run();
        assert!(check(false).unwrap());
        assert!(!check(true).unwrap());
    }
}
