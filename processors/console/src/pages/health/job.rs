//! One job: its plan, its progress, and its controls. Each control shows what it will do before it can be confirmed.

use std::sync::Arc;

use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::jobs::{JobControl, JobReport, JobState, NextStep};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse as _, Response};
use maud::{Markup, html};

use super::jobs::{shown_progress, status};
use super::run;
use crate::frame::Page;
use crate::pages::answer;
use crate::query::{PageForm, PageQuery, address};
use crate::served::Served;
use crate::table::{Cell, PageTable};
use crate::view::{View, ViewResult, polled, problem, write_form};

/// `GET /health/job`.
pub(crate) async fn job(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let view = Box::pin(view(&served, &query)).await;
    answer(&served, Page::Health, &query, view)
}

/// `POST /health/job`: controls a job.
pub(crate) async fn control(State(served): State<Arc<Served>>, PageForm(form): PageForm) -> Response {
    match Box::pin(controlled(&served, &form)).await {
        Ok(job) => {
            let to = address("/health/job", [("id", job.id.as_str())]);
            (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
        }
        Err(error) => answer(&served, Page::Health, &form, Err(error)),
    }
}

async fn controlled(served: &Served, form: &PageQuery) -> Result<JobState> {
    let control = JobAction::of(form)?.control;
    served.context.jobs().control(named(form)?, control).await
}

fn named(query: &PageQuery) -> Result<&str> {
    let hint = "Open a job from the page Health";
    query.get("id").ok_or_else(|| Error::new(ErrorKind::Configuration, "no job is named").hint(hint))
}

async fn view(served: &Served, query: &PageQuery) -> ViewResult {
    let job = served.context.jobs().load(named(query)?).await?;
    let mut view = View::new(Page::Health, format!("Job {}", job.id));
    let (facts, totals) = (facts(&job), totals(&job));
    view.show(shown_facts(&job, &facts));
    view.data(facts);
    view.show(html! { div id=(CONTROLS) { (controls(served, query, &job)) } });
    view.show(html! { h2 { "Totals" } div id=(TOTALS) { (totals.markup()) } });
    view.data(totals);
    Ok(view)
}

/// The address of the parts of the page that change while the job runs.
pub(crate) const PROGRESS: &str = "/health/job/progress";
/// The ids of the elements with the controls and the totals.
const CONTROLS: &str = "controls";
const TOTALS: &str = "totals";

/// `GET` of these parts. Once no process has the job, its next steps are others; until then, the controls stay as their reader has filled them in.
pub(crate) async fn progress(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let job = match named(&query) {
        Ok(id) => served.context.jobs().load(id).await,
        Err(error) => Err(error),
    };
    match job {
        Ok(job) => Html(changed(&served, &query, &job).into_string()).into_response(),
        Err(error) => answer(&served, Page::Health, &query, Err(error)),
    }
}

fn changed(served: &Served, query: &PageQuery, job: &JobState) -> Markup {
    html! {
        (shown_facts(job, &facts(job)))
        div id=(TOTALS) hx-swap-oob="true" { (totals(job).markup()) }
        @if !job.has_process() { div id=(CONTROLS) hx-swap-oob="true" { (controls(served, query, job)) } }
    }
}

/// The facts. While a process has the job, the element asks for itself again.
fn shown_facts(job: &JobState, facts: &PageTable) -> Markup {
    let again = job.has_process().then(|| address(PROGRESS, [("id", job.id.as_str())]));
    polled("job", again.as_deref(), &facts.markup())
}

fn facts(job: &JobState) -> PageTable {
    let report = JobReport::of(job);
    let mut facts = PageTable::new("job", &["", "value"], "");
    let mut add = |name: &str, cell: Cell| facts.rows.push(vec![Cell::text(name), cell]);
    add("kind", Cell::text(report.kind));
    add("status", status(job));
    add("progress", shown_progress(&report));
    add("limit, items a second", job.rate.map_or(Cell::text("none"), Cell::number));
    add("created", Cell::Time(job.created_at));
    if let Some(started) = job.started_at {
        add("started", Cell::Time(started));
    }
    add("saved last", Cell::Time(job.updated_at));
    if let Some(from) = job.resumable_from() {
        add("can be resumed from, at the latest", Cell::Time(from));
    }
    if let Some(failure) = &job.failure {
        add("problem", Cell::text(failure.as_str()));
    }
    add("arguments", Cell::code(job.arguments.to_string()));
    facts
}

fn totals(job: &JobState) -> PageTable {
    let mut totals = PageTable::new("totals", &["counter", "value"], "Nothing is counted yet.");
    let counted = job.totals.iter().map(|(name, total)| vec![Cell::text(name.as_str()), Cell::number(total)]);
    totals.rows.extend(counted);
    totals
}

/// The next steps of the job, each with its plan before it is done; without writes, their commands.
fn controls(served: &Served, query: &PageQuery, job: &JobState) -> Markup {
    let steps = NextStep::all_of(job);
    if steps.is_empty() {
        return html! { p class="quiet" { "The job has ended: it cannot be controlled." } };
    }
    let allows_writes = served.context.options.allows_writes;
    let refused = match JobAction::of(query) {
        Ok(action) if allows_writes && steps.contains(&action.step()) => {
            return confirmation(served, job, &action);
        }
        Err(error) if query.get("do").is_some() => Some(problem(&error)),
        Ok(_) | Err(_) => None,
    };
    let is_planned_again = steps.contains(&NextStep::PlanAgain);
    let (mut controls, mut commands) = (Vec::new(), Vec::new());
    for step in steps {
        match shown_control(job, step).filter(|_| allows_writes) {
            Some(control) => controls.push(control),
            None => commands.push(step.command(job)),
        }
    }
    html! {
        @if let Some(refused) = refused { (refused) }
        @if is_planned_again { p { (job.plan_again()) } }
        @if !controls.is_empty() { ul class="actions" { @for control in controls { li { (control) } } } }
        @if !commands.is_empty() { p { "In a terminal:" } }
        @for command in commands { pre { (command) } }
    }
}

/// The link to the plan of a step, or the form of a rate; `None` for a step that needs arguments of a command.
fn shown_control(job: &JobState, step: NextStep) -> Option<Markup> {
    let planned = |name: &str| address("/health/job", [("id", job.id.as_str()), ("do", name)]);
    let link = |to: String, label: &str| Some(html! { a href=(to) { (label) } });
    match step {
        NextStep::Pause => link(planned("pause"), "Pause …"),
        NextStep::Stop => link(planned("stop"), "Stop for good …"),
        NextStep::Resume => link(run::resume_address(&job.id), "Resume …"),
        NextStep::SetRate => Some(html! {
            form method="get" action="/health/job" {
                input type="hidden" name="id" value=(job.id);
                input type="hidden" name="do" value="rate";
                label { "Items a second, or none" input name="rate" required; }
                button { "Set the rate …" }
            }
        }),
        NextStep::PlanAgain | NextStep::Reattribute => None,
    }
}

fn confirmation(served: &Served, job: &JobState, action: &JobAction) -> Markup {
    html! {
        div class="plan" {
            h2 { "Plan" }
            p { (action.plan) }
            pre { (action.control.command(&job.id)) }
            (write_form(served, "/health/job", html! {
                input type="hidden" name="id" value=(job.id);
                input type="hidden" name="do" value=(action.name);
                @if let JobControl::SetRate(rate) = action.control {
                    input type="hidden" name="rate" value=(JobControl::rate_text(rate));
                }
                button { (action.button) }
                a href=(address("/health/job", [("id", job.id.as_str())])) { "Cancel" }
            }))
        }
    }
}

/// A control of a job, in words.
struct JobAction {
    name: &'static str,
    control: JobControl,
    plan: &'static str,
    button: &'static str,
}

impl JobAction {
    /// The control that a query or a form names.
    fn of(query: &PageQuery) -> Result<Self> {
        match query.get("do") {
            Some("pause") => Ok(Self {
                name: "pause",
                control: JobControl::Pause,
                plan: "The process that runs the job saves its progress and ends within seconds. The job can be resumed.",
                button: "Pause",
            }),
            Some("stop") => Ok(Self {
                name: "stop",
                control: JobControl::Stop,
                plan: "A process that runs the job saves its progress and ends within seconds. The job can never be resumed; its finished work stays.",
                button: "Stop for good",
            }),
            Some("rate") => Ok(Self {
                name: "rate",
                control: rate_of(query.get("rate").unwrap_or_default())?,
                plan: "A process that runs the job obeys the new limit within a second; else, the limit holds once the job is resumed.",
                button: "Set the rate",
            }),
            Some(_) | None => Err(Error::new(ErrorKind::Configuration, "no control of the job is named")
                .hint("Use the links of the job's page")),
        }
    }

    /// The step of the job that the control takes.
    fn step(&self) -> NextStep {
        match self.control {
            JobControl::Pause => NextStep::Pause,
            JobControl::Stop => NextStep::Stop,
            JobControl::SetRate(_) => NextStep::SetRate,
        }
    }
}

fn rate_of(text: &str) -> Result<JobControl> {
    let refused = || {
        Error::new(ErrorKind::Configuration, "the rate is not a number of items")
            .hint("Write a whole number from 1, or none")
    };
    JobControl::of_rate_text(text.trim()).ok_or_else(refused)
}
