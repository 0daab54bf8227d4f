//! `afterwrite model check`: all that is wrong with a model file, at once.

use std::fmt::Write as _;

use afterwrite::Result;
use afterwrite::table::{Model, ModelErrors};
use clap::Args;
use serde::Serialize;

use super::ModelArgument;
use crate::print::{json, print};

/// The arguments of `afterwrite model check`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite model check my-model.toml\n  afterwrite model check my-model.toml --json | jq '.problems[].message'\n\nExit codes: 0 a sound model, 1 problems were found, 2 there is no such model."
)]
pub struct CheckArguments {
    #[command(flatten)]
    model: ModelArgument,
    /// Print the findings as one JSON object.
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Findings {
    /// The file, as it was named.
    file: String,
    problems: Vec<Finding>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    /// From 1.
    line: usize,
    /// In characters, from 1.
    column: usize,
    message: String,
}

impl CheckArguments {
    /// Prints what is wrong; says whether nothing is.
    ///
    /// # Errors
    /// There is no such model.
    pub fn run(&self) -> Result<bool> {
        let (file, source) = Model::source(&self.model.name())?;
        let checked = Model::parse(&source, &file);
        if self.json {
            let problems =
                checked.as_ref().err().map(|errors| errors.problems.as_slice()).unwrap_or_default();
            let problems = problems.iter().map(|problem| Finding {
                line: problem.line,
                column: problem.column,
                message: problem.message.clone(),
            });
            print(&json(&Findings { file, problems: problems.collect() })?)?;
        } else {
            print(&match &checked {
                Ok(model) => format!("{file}: sound. {}\n", extent(model)),
                Err(errors) => shown(errors, &source),
            })?;
        }
        Ok(checked.is_ok())
    }
}

/// How much a model has of what.
fn extent(model: &Model) -> String {
    let parts = [
        (model.entities.len(), "entity", "entities"),
        (model.lookups.len(), "lookup", "lookups"),
        (model.rollups.len(), "rollup", "rollups"),
        (model.aggregates.len(), "aggregate", "aggregates"),
        (model.mirrors.len(), "mirror", "mirrors"),
        (model.caches.len(), "cache rule", "cache rules"),
        (model.datasets.len(), "dataset", "datasets"),
        (model.queries.len(), "saved query", "saved queries"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| format!("{count} {}", if *count == 1 { one } else { many }))
        .collect();
    format!("{}, generation {}: {}", model.name, model.generation, parts.join(", "))
}

/// Each problem, and the line that has it.
fn shown(errors: &ModelErrors, source: &str) -> String {
    let mut shown = String::new();
    for problem in &errors.problems {
        // Writing to a String cannot fail.
        let _ = writeln!(shown, "{}:{}:{}: {}", errors.file, problem.line, problem.column, problem.message);
        if let Some(line) = source.lines().nth(problem.line.saturating_sub(1)) {
            let number = problem.line;
            // A tab stays one: then the mark stands where the line's own text does.
            let before: String = line
                .chars()
                .take(problem.column.saturating_sub(1))
                .map(|character| if character == '\t' { '\t' } else { ' ' })
                .collect();
            let _ = writeln!(shown, "{number:>6} | {line}\n       | {before}^");
        }
    }
    let count = errors.problems.len();
    let _ = writeln!(shown, "{count} problem{} found", if count == 1 { "" } else { "s" });
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_shown_with_its_line() {
        let source =
            "name = \"t\"\ngeneration = 1\n[tables.t]\n\tkey = []\n[tables.u]\nkey = [\"a\", \"a\"]\n";
        let errors = Model::parse(source, "x.toml").unwrap_err();
        let shown = shown(&errors, source);
        let lines: Vec<&str> = shown.lines().collect();
        let [first, line, mark, second, ..] = lines.as_slice() else { panic!("{shown}") };
        assert!(first.starts_with("x.toml:4:8: table `t`: ") && second.starts_with("x.toml:6:"), "{shown}");
        // A tab stays one.
        assert_eq!([*line, *mark], ["     4 | \tkey = []", "       | \t      ^"]);
        assert!(shown.ends_with("2 problems found\n"), "{shown}");
    }

    #[test]
    fn a_sound_model_is_counted_out() {
        let model = Model::load(Model::DEFAULT_NAME).unwrap();
        let extent = extent(&model);
        assert!(extent.contains(&format!("{} entities", model.entities.len())), "{extent}");
    }
}
