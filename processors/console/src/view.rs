//! A page's contents, in the form that its address asks for.

use afterwrite_model::harmless::{harmless, harmless_lines};
use afterwrite_model::{Error, ErrorKind};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use crate::frame::{Page, frame};
use crate::query::{PageQuery, address};
use crate::served::{Served, TOKEN};
use crate::table::PageTable;

/// The parameter with which a page asks for the contents of another one, without the frame.
const PART: &str = "part";

/// The contents of a page: tables, and everything around them.
#[derive(Debug)]
pub(crate) struct View {
    /// The page.
    pub(crate) page: Page,
    /// The title.
    pub(crate) title: String,
    /// The parts, from top to bottom.
    pub(crate) parts: Vec<ViewPart>,
    /// The status of its HTML.
    status: StatusCode,
    /// The table that does not have everything, and the address of the page that continues it.
    next: Option<(&'static str, String)>,
    /// The tables that could not be read, with the report and the status of the error.
    unread: Vec<(&'static str, String, StatusCode)>,
}

/// A part of a page.
#[derive(Debug)]
pub(crate) enum ViewPart {
    /// A table, which machines read, too.
    Table(PageTable),
    /// Something for people only.
    Shown(Markup),
    /// A table for machines only: people see its contents in another form.
    Data(PageTable),
}

/// The form in which a page is asked for: the parameter `format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ViewFormat {
    /// A page.
    Html,
    /// All tables, by name.
    Json,
    /// The first table.
    Csv,
}

/// The answer of a page.
pub(crate) type ViewResult = Result<View, Error>;

impl View {
    /// A page without parts.
    pub(crate) fn new(page: Page, title: impl Into<String>) -> Self {
        Self {
            page,
            title: title.into(),
            parts: Vec::new(),
            status: StatusCode::OK,
            next: None,
            unread: Vec::new(),
        }
    }

    /// A page for people whose query is wrong: it shows the problem beside the form.
    pub(crate) fn refused(self) -> Self {
        Self { status: StatusCode::BAD_REQUEST, ..self }
    }

    /// Adds something for people only.
    pub(crate) fn show(&mut self, markup: Markup) {
        self.parts.push(ViewPart::Shown(markup));
    }

    /// Adds a table.
    pub(crate) fn table(&mut self, table: PageTable) {
        self.parts.push(ViewPart::Table(table));
    }

    /// Names the page that continues the last table: programs that read this page must not take a part for the whole.
    pub(crate) fn continue_at(&mut self, next: &str) {
        self.next = self.tables().last().map(|table| (table.name, next.to_owned()));
    }

    /// Shows the error in place of a table. For programs, the answer fails: no table must look like one without rows.
    pub(crate) fn unread(&mut self, table: &'static str, error: &Error) {
        self.show(problem(error));
        self.unread.push((table, error.report(), status_of(error.kind())));
    }

    /// Adds a table for machines only.
    pub(crate) fn data(&mut self, table: PageTable) {
        self.parts.push(ViewPart::Data(table));
    }

    /// Adds the parts of another view as one element with this id, which can be replaced.
    pub(crate) fn enclose(&mut self, id: &str, view: Self) {
        self.show(html! { div id=(id) { (view.contents()) } });
        self.next = self.next.take().or(view.next);
        self.unread.extend(view.unread);
        view.parts.into_iter().for_each(|part| match part {
            ViewPart::Table(table) | ViewPart::Data(table) => self.data(table),
            ViewPart::Shown(_) => {}
        });
    }

    /// The parts that people see.
    pub(crate) fn contents(&self) -> Markup {
        html! {
            @for part in &self.parts {
                @match part {
                    ViewPart::Table(table) => (table.markup()),
                    ViewPart::Shown(markup) => (markup),
                    ViewPart::Data(_) => {},
                }
            }
        }
    }

    fn tables(&self) -> impl Iterator<Item = &PageTable> {
        self.parts.iter().filter_map(|part| match part {
            ViewPart::Table(table) | ViewPart::Data(table) => Some(table),
            ViewPart::Shown(_) => None,
        })
    }

    /// The answer in the form that the query names.
    pub(crate) fn respond(self, served: &Served, query: &PageQuery) -> Response {
        let format = match query.get("format") {
            Some("json") => ViewFormat::Json,
            Some("csv") => ViewFormat::Csv,
            Some(_) | None => ViewFormat::Html,
        };
        // The first table is all that CSV has.
        let first = self.tables().next().map(|table| table.name);
        let continued =
            self.next.iter().filter(|(table, _)| format != ViewFormat::Csv || first == Some(*table));
        let next = continued.map(|(_, next)| format!("<{next}>; rel=\"next\"").parse()).find_map(Result::ok);
        let mut response = match format {
            ViewFormat::Html => {
                let contents = self.contents();
                let page = match query.get(PART) {
                    Some(_) => contents,
                    None => frame(served, self.page, &self.title, &contents),
                };
                (self.status, Html(page.into_string())).into_response()
            }
            ViewFormat::Json => {
                let tables = self.tables().map(|table| (table.name.to_owned(), table.json()));
                let next = self.next.iter().map(|(_, next)| ("next".to_owned(), json!(next)));
                let all = tables.chain(next).chain(self.errors());
                json_response(self.status_for_programs(), &Value::Object(all.collect::<Map<_, _>>()))
            }
            ViewFormat::Csv if !self.unread.is_empty() => {
                let reports: Vec<&str> = self.unread.iter().map(|(_, report, _)| report.as_str()).collect();
                (self.status_for_programs(), harmless_lines(&reports.join("\n")).into_owned()).into_response()
            }
            ViewFormat::Csv => {
                let csv = self.tables().next().map(PageTable::csv).unwrap_or_default();
                ([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], csv).into_response()
            }
        };
        response.headers_mut().extend(next.map(|next| (header::LINK, next)));
        response
    }
}

impl View {
    fn status_for_programs(&self) -> StatusCode {
        self.unread.first().map_or(StatusCode::OK, |(_, _, status)| *status)
    }

    /// The errors of the tables that could not be read, by table.
    fn errors(&self) -> Option<(String, Value)> {
        let errors = self.unread.iter().map(|(table, report, _)| ((*table).to_owned(), json!(report)));
        (!self.unread.is_empty()).then(|| ("errors".to_owned(), Value::Object(errors.collect())))
    }
}

/// The answer in place of a page that cannot be shown.
pub(crate) fn failed(served: &Served, page: Page, query: &PageQuery, error: &Error) -> Response {
    let status = status_of(error.kind());
    if query.get("format") == Some("json") {
        return json_response(status, &json!({ "error": error.report() }));
    }
    let contents = problem(error);
    if query.get(PART).is_some() {
        // Contents that are loaded later are shown with any status.
        return Html(contents.into_string()).into_response();
    }
    (status, Html(frame(served, page, "This page cannot be shown", &contents).into_string())).into_response()
}

/// The event of the page when the last command and job that it shows has ended.
pub(crate) const ENDED: &str = "ended";

/// An element with this id, which asks for itself again at an address every two seconds, if there is one.
pub(crate) fn polled(id: &str, again: Option<&str>, contents: &Markup) -> Markup {
    let while_polled = |value: &'static str| again.map(|_| value);
    html! {
        div id=(id) hx-get=[again] hx-trigger=[while_polled("every 2s")] hx-swap=[while_polled("outerHTML")] {
            (contents)
        }
    }
}

/// A place whose contents are the page at this address. They are asked for after the first paint, and at the events of `again`: triggers of htmx, such as
/// `every 30s`. Without scripts, a link shows them.
pub(crate) fn loaded_later(path: &str, again: Option<&str>) -> Markup {
    let triggers = ["painted from:body"].into_iter().chain(again).collect::<Vec<_>>().join(", ");
    html! {
        div class="later" hx-get=(address(path, [(PART, "1")])) hx-trigger=(triggers) aria-live="polite" {
            p class="empty loading" { "Reading … " a href=(path) { "Show it on a page of its own" } }
        }
    }
}

/// The hidden field of every form that writes: the token of the session.
pub(crate) fn token_field(served: &Served) -> Markup {
    html! { input type="hidden" name=(TOKEN) value=(served.tokens.writes); }
}

/// A form that writes: it has the token of the session.
pub(crate) fn write_form(served: &Served, path: &str, fields: Markup) -> Markup {
    html! {
        form method="post" action=(path) {
            (token_field(served))
            (fields)
        }
    }
}

/// An error in a page: the problem, its place, and the next step.
pub(crate) fn problem(error: &Error) -> Markup {
    html! { div class="problem" role="alert" { pre { (harmless_lines(&error.report())) } } }
}

fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Configuration | ErrorKind::Record => StatusCode::BAD_REQUEST,
        ErrorKind::Event
        | ErrorKind::Stream
        | ErrorKind::Misfit
        | ErrorKind::Model
        | ErrorKind::Unavailable
        | ErrorKind::Conflict
        | ErrorKind::Rejected
        | ErrorKind::Unreadable
        | ErrorKind::State => StatusCode::BAD_GATEWAY,
    }
}

fn json_response(status: StatusCode, value: &Value) -> Response {
    // Its escapes are those of JSON, so that the texts stay the same.
    let json = harmless(&value.to_string()).into_owned();
    (status, [(header::CONTENT_TYPE, "application/json")], json).into_response()
}
