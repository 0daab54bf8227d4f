//! Commands that mend: a page with the plan of each, as the command itself prints it, and the button that starts it.

use std::sync::Arc;

use afterwrite_model::harmless::harmless_lines;
use afterwrite_model::{Error, ErrorKind, Result};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};

use crate::commands::{CommandEnd, CommandRun};
use crate::frame::Page;
use crate::pages::answer;
use crate::query::{PageForm, PageQuery, address};
use crate::served::Served;
use crate::table::{Cell, PageTable, Verdict};
use crate::time::time;
use crate::view::{View, ViewResult, write_form};

/// The parameter with the command's arguments, divided by spaces.
const COMMAND: &str = "command";

/// A command that the console may run.
struct OfferedCommand {
    arguments: Vec<String>,
    /// The arguments that print its plan, and write nothing; `None` if the command itself reads only.
    plan: Option<Vec<String>>,
    /// The arguments that run it.
    run: Vec<String>,
    about: &'static str,
}

impl OfferedCommand {
    /// The command of these arguments, if the console may run it: no other command is ever run.
    fn of(written: &str) -> Result<Self> {
        let words: Vec<&str> = written.split(' ').collect();
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let arguments = owned(&words);
        match words.as_slice() {
            ["redrive"] => Ok(Self {
                plan: Some(owned(&["redrive", "--dry-run"])),
                run: owned(&["redrive", "--yes"]),
                about: "Counts parked items as their tables have them now.",
                arguments,
            }),
            ["verify"] => Ok(Self {
                plan: None,
                run: owned(&["verify", "--yes"]),
                about: "Compares everything that is derived with the items. It reads all tables, and writes only its own progress.",
                arguments,
            }),
            ["jobs", "resume", id] if is_job_id(id) => Ok(Self {
                plan: Some(owned(&["jobs", "show", id])),
                run: owned(&["jobs", "resume", id]),
                about: "Continues the job on the basis that it was planned for.",
                arguments,
            }),
            _ => Err(Error::new(ErrorKind::Configuration, "the console does not run this command")
                .hint("Run it in a terminal")),
        }
    }
}

/// Whether a text can be the id of a job: an option of a command cannot be one.
fn is_job_id(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The address of a command's plan.
pub(super) fn address_of(arguments: &[&str]) -> String {
    address("/health/run", [(COMMAND, arguments.join(" ").as_str())])
}

/// The commands that mend, and the commands that were started from here.
pub(super) fn offered(served: &Served) -> Markup {
    let runs = served.runs.newest();
    html! {
        ul class="actions" {
            li { a href=(address_of(&["redrive"])) { "Plan of " code { "redrive" } ": parked items …" } }
            li { a href=(address_of(&["verify"])) { "Plan of " code { "verify" } ": compare everything …" } }
        }
        @for run in &runs {
            (shown_run(run))
        }
    }
}

fn shown_run(run: &CommandRun) -> Markup {
    let end = run.end();
    let (verdict, text) = match &end {
        None => (Verdict::Warning, "running".to_owned()),
        Some(CommandEnd { code: Some(0), .. }) => (Verdict::Good, "exit code 0".to_owned()),
        Some(CommandEnd { code: Some(code), .. }) => (Verdict::Bad, format!("exit code {code}")),
        Some(CommandEnd { code: None, .. }) => (Verdict::Bad, "ended by a signal".to_owned()),
    };
    html! {
        details open[end.is_none()] {
            summary {
                code { "afterwrite " (run.arguments.join(" ")) } " "
                span class={ "verdict " (verdict.name()) } { (text) } " " (time(run.started))
            }
            @if let Some(end) = &end { pre { (harmless_lines(&end.output)) } }
        }
    }
}

/// `GET /health/run`: the plan.
pub(crate) async fn planned(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let view = Box::pin(plan(&served, &query)).await;
    answer(&served, Page::Health, &query, view)
}

async fn plan(served: &Served, query: &PageQuery) -> ViewResult {
    let command = OfferedCommand::of(query.get(COMMAND).unwrap_or_default())?;
    let mut view = View::new(Page::Health, format!("Plan of {}", command.arguments.join(" ")));
    view.show(html! { p { (command.about) } });
    if let Some(arguments) = &command.plan {
        let planned = served.context.commands.plan(arguments).await?;
        let mut table = PageTable::new("plan", &["command", "exit code"], "");
        let code = planned.code.map_or(Cell::Empty, Cell::number);
        table.rows.push(vec![Cell::code(format!("afterwrite {}", arguments.join(" "))), code]);
        view.table(table);
        view.show(html! { pre { (harmless_lines(&planned.output)) } });
    }
    let run = format!("afterwrite {}", command.run.join(" "));
    view.show(if served.context.options.allows_writes {
        write_form(
            served,
            "/health/run",
            html! {
                input type="hidden" name=(COMMAND) value=(command.arguments.join(" "));
                button { "Run " code { (run) } }
                a href="/health" { "Cancel" }
            },
        )
    } else {
        html! { p { "The console is read-only. In a terminal:" } pre { (run) } }
    });
    Ok(view)
}

/// `POST /health/run`: starts the command.
pub(crate) async fn start(State(served): State<Arc<Served>>, PageForm(form): PageForm) -> Response {
    match OfferedCommand::of(form.get(COMMAND).unwrap_or_default()) {
        Ok(command) => {
            served.runs.start(&served.context.commands, command.run);
            (StatusCode::SEE_OTHER, [(header::LOCATION, "/health")]).into_response()
        }
        Err(error) => answer(&served, Page::Health, &form, Err(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_offered_commands_are_run() {
        for offered in ["redrive", "verify", "jobs resume verify-20260206T101500-042"] {
            assert!(OfferedCommand::of(offered).is_ok(), "{offered}");
        }
        for refused in [
            "",
            "repair drift.jsonl",
            "redrive --delete",
            "jobs resume --help",
            "jobs resume a b",
            "jobs resume a;b",
            "jobs resume ../x",
            "jobs stop x",
            "verify --report /etc/passwd",
        ] {
            assert!(OfferedCommand::of(refused).is_err(), "{refused}");
        }
    }
}
