//! The findings of `afterwrite doctor` on the deployment.

use std::sync::Arc;

use afterwrite_deployment::doctor::{HealthVerdict, judge};
use axum::extract::State;
use axum::response::Response;
use maud::html;

use crate::frame::Page;
use crate::pages::answer;
use crate::query::PageQuery;
use crate::served::Served;
use crate::table::{Cell, PageTable, Verdict};
use crate::time::time;
use crate::view::{View, ViewResult};

/// `GET /health/findings`.
pub(crate) async fn findings(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let view = Box::pin(view(&served, &query)).await;
    answer(&served, Page::Health, &query, view)
}

async fn view(served: &Served, query: &PageQuery) -> ViewResult {
    let (at, facts) = Box::pin(served.facts.read(&served.context)).await?;
    let findings = judge(served.context.model(), &facts);
    let shown_check = query.get("check");
    let mut view = View::new(Page::Health, "Findings");
    let columns = ["verdict", "check", "of", "found", "what to do"];
    let mut table = PageTable::new("findings", &columns, "Nothing is judged.");
    let mut shown: Vec<_> =
        findings.iter().filter(|finding| shown_check.is_none_or(|check| check == finding.check)).collect();
    shown.sort_by_key(|finding| order(finding.verdict));
    table.rows.extend(shown.iter().map(|finding| {
        vec![
            Cell::Verdict(verdict(finding.verdict), finding.verdict.name().to_lowercase()),
            Cell::text(finding.check),
            Cell::text(finding.subject.as_str()),
            Cell::text(finding.found.as_str()),
            finding.advice.clone().map_or(Cell::Empty, Cell::Prose),
        ]
    }));
    view.show(
        html! { p class="quiet" { "As " code { "afterwrite doctor" } " found it at " (time(at)) "." } },
    );
    view.table(table);
    Ok(view)
}

/// Problems first.
fn order(verdict: HealthVerdict) -> u8 {
    match verdict {
        HealthVerdict::Change => 0,
        HealthVerdict::NotYet => 1,
        HealthVerdict::NotChecked => 2,
        HealthVerdict::Healthy => 3,
    }
}

/// A verdict of `doctor` in a page: what was not checked is unknown.
pub(crate) fn verdict(verdict: HealthVerdict) -> Verdict {
    match verdict {
        HealthVerdict::Healthy => Verdict::Good,
        HealthVerdict::Change => Verdict::Bad,
        HealthVerdict::NotYet => Verdict::Warning,
        HealthVerdict::NotChecked => Verdict::Unknown,
    }
}
