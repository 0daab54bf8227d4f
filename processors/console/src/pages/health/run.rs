//! Commands that mend: a page with the plan of each, as the command itself prints it, and the button that starts it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use afterwrite_model::harmless::harmless_lines;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::verify::UNFINISHED_REPORT;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};

use crate::commands::{CommandEnd, CommandRun};
use crate::findings::FindingsSource;
use crate::frame::Page;
use crate::pages::answer;
use crate::query::{PageForm, PageQuery, address};
use crate::served::Served;
use crate::table::{Cell, PageTable, Verdict};
use crate::time::time;
use crate::view::{View, ViewResult, problem, write_form};

/// The parameter with the command's arguments, divided by spaces.
const COMMAND: &str = "command";

/// The tolerance of a verification and a repair inside `dev`, in seconds: its streams are seconds behind at most, and each waits for it at each level.
const DEV_TOLERANCE: &str = "5";

/// A command that the console may run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OfferedCommand {
    /// `redrive` of the parked items.
    Redrive,
    /// `verify` of everything.
    Verify,
    /// `repair` of findings.
    Repair(FindingsSource),
    /// `jobs resume` of the job with this id.
    Resume(String),
}

/// The arguments of a command.
struct PlannedCommand {
    /// The arguments that print its plan, and write nothing; `None` if the command itself reads only.
    plan: Option<Vec<String>>,
    /// The arguments that run it.
    run: Vec<String>,
    /// The id of the run, which names the file of its findings.
    id: String,
}

impl OfferedCommand {
    /// The command of this text, if the console may run it: no other command is ever run.
    fn of(written: &str) -> Result<Self> {
        let refused = || {
            Error::new(ErrorKind::Configuration, "the console does not run this command")
                .hint("Run it in a terminal")
        };
        match written.split(' ').collect::<Vec<_>>().as_slice() {
            ["redrive"] => Ok(Self::Redrive),
            ["verify"] => Ok(Self::Verify),
            ["repair", findings] => FindingsSource::parse(findings).map(Self::Repair).ok_or_else(refused),
            ["jobs", "resume", id] if is_job_id(id) => Ok(Self::Resume((*id).to_owned())),
            _ => Err(refused()),
        }
    }

    /// The text that names it.
    fn name(&self) -> String {
        match self {
            Self::Redrive => "redrive".to_owned(),
            Self::Verify => "verify".to_owned(),
            Self::Repair(findings) => format!("repair {}", findings.name()),
            Self::Resume(id) => format!("jobs resume {id}"),
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Self::Redrive => "Counts parked items as their tables have them now.",
            Self::Verify => {
                "Compares everything that is derived with the items. It reads all tables, and writes only its own progress. A difference that a change in flight may explain is looked at again after the tolerance, which is five minutes if the command has no other. Its findings are kept for a repair."
            }
            Self::Repair(_) => {
                "Judges each finding again, and writes what is still wrong under conditions. The plan judges, too, and writes nothing."
            }
            Self::Resume(_) => "Continues the job on the basis that it was planned for.",
        }
    }

    /// Its arguments.
    ///
    /// # Errors
    /// As [`FindingsSource::file`].
    async fn planned(&self, served: &Served) -> Result<PlannedCommand> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let (plan, run) = match self {
            Self::Redrive => (Some(owned(&["redrive", "--dry-run"])), owned(&["redrive", "--yes"])),
            Self::Verify => {
                let file = served.findings.file(&id)?;
                let mut verify = owned(&["verify", "--report", &file.to_string_lossy()]);
                verify.extend(bucket_option(served));
                verify.extend(tolerance_option(served));
                (None, verify)
            }
            Self::Repair(findings) => {
                let file = findings.file(&served.findings, served.context.bucket.as_ref()).await?;
                let mut repair = owned(&["repair", &file.to_string_lossy()]);
                repair.extend(bucket_option(served));
                repair.extend(tolerance_option(served));
                let with = |option: &str| [repair.clone(), vec![option.to_owned()]].concat();
                (Some(with("--dry-run")), with("--yes"))
            }
            Self::Resume(id) => (Some(owned(&["jobs", "show", id])), owned(&["jobs", "resume", id])),
        };
        Ok(PlannedCommand { plan, run, id })
    }
}

/// The option with the bucket of the datasets, if one is named.
fn bucket_option(served: &Served) -> Vec<String> {
    served.context.bucket_name.iter().flat_map(|name| ["--bucket".to_owned(), name.clone()]).collect()
}

/// The option with the tolerance inside `dev`; a deployment has that of the command.
fn tolerance_option(served: &Served) -> Vec<String> {
    let option = || ["--tolerance".to_owned(), DEV_TOLERANCE.to_owned()];
    served.context.board().is_some().then(option).into_iter().flatten().collect()
}

/// Whether a text can be the id of a job: an option of a command cannot be one.
fn is_job_id(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The address of the plan of `jobs resume`.
pub(super) fn resume_address(id: &str) -> String {
    address_of(&OfferedCommand::Resume(id.to_owned()))
}

/// The address of the plan of a repair.
pub(super) fn repair_address(findings: FindingsSource) -> String {
    address_of(&OfferedCommand::Repair(findings))
}

fn address_of(command: &OfferedCommand) -> String {
    address("/health/run", [(COMMAND, command.name().as_str())])
}

/// The commands that mend, and the commands that were started from here.
pub(super) fn offered(served: &Served) -> Markup {
    let runs = served.runs.newest();
    html! {
        ul class="actions" {
            li { a href=(address_of(&OfferedCommand::Redrive)) { "Plan of " code { "redrive" } ": parked items …" } }
            li { a href=(address_of(&OfferedCommand::Verify)) { "Plan of " code { "verify" } ": compare everything …" } }
        }
        @for (place, run) in runs.iter().enumerate() {
            (shown_run(served, run, place == 0))
        }
    }
}

/// Whether a command that was started here has not ended.
pub(super) fn is_any_running(served: &Served) -> bool {
    served.runs.newest().iter().any(|run| run.end().is_none())
}

fn shown_run(served: &Served, run: &CommandRun, is_newest: bool) -> Markup {
    let end = run.end();
    let (verdict, text) = match &end {
        None => (Verdict::Warning, "running".to_owned()),
        Some(CommandEnd { code: Some(0), .. }) => (Verdict::Good, "exit code 0".to_owned()),
        Some(CommandEnd { code: Some(code), .. }) => (Verdict::Bad, format!("exit code {code}")),
        Some(CommandEnd { code: None, .. }) => (Verdict::Bad, "ended by a signal".to_owned()),
    };
    html! {
        details id={ "run-" (run.id) } open[is_newest || end.is_none()] {
            summary {
                code { "afterwrite " (run.arguments.join(" ")) } " "
                span class={ "verdict " (verdict.name()) } { (text) } " " (time(run.started))
            }
            @if let Some(end) = &end { pre { (harmless_lines(&end.output)) } }
        }
        @if end.is_some() && has_findings(served, run) {
            p { a href=(repair_address(FindingsSource::Started(run.id.clone()))) { "Plan of " code { "repair" } ": the findings of this verification …" } }
        }
    }
}

/// Whether a command that has ended has left findings. A verification that was paused has not.
fn has_findings(served: &Served, run: &CommandRun) -> bool {
    let is_verification = run.arguments.first().is_some_and(|command| command == "verify");
    let file = is_verification.then(|| served.findings.file(&run.id).ok()).flatten();
    file.is_some_and(|file| lists_findings(&file))
}

/// Whether a file has findings: the file of a verification that has not finished has not.
fn lists_findings(file: &Path) -> bool {
    let is_list = |written: Vec<u8>| !written.is_empty() && written != UNFINISHED_REPORT.as_bytes();
    beginning(file).is_ok_and(is_list)
}

/// The beginning of a file of findings: more bytes than an unfinished one has, if it has more.
fn beginning(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut written = Vec::new();
    let most = u64::try_from(UNFINISHED_REPORT.len()).unwrap_or(u64::MAX).saturating_add(1);
    File::open(file)?.take(most).read_to_end(&mut written)?;
    Ok(written)
}

/// `GET /health/run`: the plan.
pub(crate) async fn planned(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let view = Box::pin(plan(&served, &query)).await;
    answer(&served, Page::Health, &query, view)
}

async fn plan(served: &Served, query: &PageQuery) -> ViewResult {
    let command = OfferedCommand::of(query.get(COMMAND).unwrap_or_default())?;
    let name = command.name();
    let PlannedCommand { plan, run, .. } = command.planned(served).await?;
    let mut view = View::new(Page::Health, format!("Plan of {name}"));
    view.show(html! { p { (command.about()) } });
    let is_possible = match &plan {
        Some(arguments) => show_plan(served, &mut view, arguments).await,
        None => true,
    };
    let run = format!("afterwrite {}", run.join(" "));
    if !is_possible {
        view.show(html! { p { "The plan has failed, so the command is not offered." } });
        return Ok(view);
    }
    view.show(if served.context.options.allows_writes {
        write_form(
            served,
            "/health/run",
            html! {
                input type="hidden" name=(COMMAND) value=(name);
                button { "Run " code { (run) } }
                a href="/health" { "Cancel" }
            },
        )
    } else {
        html! { p { "The console is read-only. In a terminal:" } pre { (run) } }
    });
    Ok(view)
}

/// Shows the plan that these arguments print; returns whether the command of the plan is possible.
async fn show_plan(served: &Served, view: &mut View, arguments: &[String]) -> bool {
    let planned = served.context.commands.plan(arguments).await;
    let mut table = PageTable::new("plan", &["command", "exit code"], "");
    let code = planned.as_ref().ok().and_then(|planned| planned.code).map_or(Cell::Empty, Cell::number);
    table.rows.push(vec![Cell::code(format!("afterwrite {}", arguments.join(" "))), code]);
    view.table(table);
    view.show(match &planned {
        Ok(planned) => html! { pre { (harmless_lines(&planned.output)) } },
        Err(error) => problem(error),
    });
    // 1 is the code of a plan that has found a problem to mend. A plan that takes too long says so, and its command is possible.
    planned.map_or(true, |planned| [Some(0), Some(1)].contains(&planned.code))
}

/// `POST /health/run`: starts the command.
pub(crate) async fn start(State(served): State<Arc<Served>>, PageForm(form): PageForm) -> Response {
    match Box::pin(started(&served, &form)).await {
        Ok(()) => (StatusCode::SEE_OTHER, [(header::LOCATION, "/health")]).into_response(),
        Err(error) => answer(&served, Page::Health, &form, Err(error)),
    }
}

async fn started(served: &Served, form: &PageQuery) -> Result<()> {
    let command = OfferedCommand::of(form.get(COMMAND).unwrap_or_default())?;
    let PlannedCommand { run, id, .. } = command.planned(served).await?;
    served.runs.start(&served.context.commands, id, run);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_those_of_a_verification_that_has_finished() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("findings.jsonl");
        assert!(!lists_findings(&file), "the verification has not begun");
        let finding = format!("{}\n", r#"{"kind":"rollup"}"#.repeat(10));
        for (written, is_list) in [("", false), (UNFINISHED_REPORT, false), ("{}\n", true), (&finding, true)]
        {
            std::fs::write(&file, written).unwrap();
            assert_eq!(lists_findings(&file), is_list, "{written}");
        }
    }

    #[test]
    fn only_offered_commands_are_run() {
        for offered in [
            "redrive",
            "verify",
            "repair run:7c1e",
            "repair report:2026-02-06T10:15:00.000Z",
            "jobs resume verify-20260206T101500-042713958",
        ] {
            let command = OfferedCommand::of(offered).unwrap_or_else(|error| panic!("{offered}: {error}"));
            assert_eq!(command.name(), offered);
        }
        for refused in [
            "",
            "repair drift.jsonl",
            "repair run:../drift",
            "repair run:x --yes",
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
