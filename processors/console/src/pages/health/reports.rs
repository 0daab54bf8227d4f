//! The verifier's reports over time.

use std::sync::Arc;

use afterwrite_deployment::doctor::{DriftCounts, REPORTS};
use afterwrite_model::Result;
use afterwrite_model::record::Timestamp;
use afterwrite_services::Bucket as _;
use afterwrite_services::s3::S3Bucket;
use axum::extract::State;
use axum::response::Response;
use futures::TryStreamExt as _;
use futures::future::try_join_all;
use maud::html;
use serde_json::Value;

use super::run;
use crate::findings::FindingsSource;
use crate::frame::Page;
use crate::pages::answer;
use crate::query::PageQuery;
use crate::served::Served;
use crate::table::{Cell, PageTable, Verdict};
use crate::view::{View, ViewResult};

/// The newest reports that are read.
const MAX_REPORTS: usize = 30;

/// `GET /health/reports`.
pub(crate) async fn reports(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let view = Box::pin(view(&served)).await;
    answer(&served, Page::Health, &query, view)
}

async fn view(served: &Served) -> ViewResult {
    let mut view = View::new(Page::Health, "Verifications");
    let Some(bucket) = &served.context.bucket else {
        view.show(html! {
            p class="empty" {
                "Unknown: no bucket is named. Start the console with " code { "--bucket NAME" } " or AFTERWRITE_BUCKET to see the verifier's reports."
            }
        });
        return Ok(view);
    };
    let listed = bucket.list(REPORTS).await?;
    let keys = listed.into_iter().map(|object| object.key).filter(|key| key.ends_with(".json"));
    let mut keys: Vec<String> = keys.collect();
    let all = keys.len();
    let keys = keys.split_off(all.saturating_sub(MAX_REPORTS));
    let read = try_join_all(keys.iter().rev().map(|key| report(bucket, key))).await?;
    let if_empty = "There is no report of the verifier yet. `afterwrite verify` compares everything now.";
    let columns =
        ["report", "result", "judged", "wrong", "undecided", "sample", "round", "round since", "mend"];
    let mut table = PageTable::new("reports", &columns, if_empty);
    table.rows = read.into_iter().flatten().collect();
    view.table(table);
    if all > MAX_REPORTS {
        view.show(html! { p class="quiet" { "The newest " (MAX_REPORTS) " of " (all) " reports." } });
    }
    Ok(view)
}

/// The row of a report; `None` if it has been deleted since it was listed.
async fn report(bucket: &S3Bucket, key: &str) -> Result<Option<Vec<Cell>>> {
    let Some(chunks) = bucket.get(key).await? else { return Ok(None) };
    let json = chunks.try_collect::<Vec<_>>().await?.concat();
    let counts = DriftCounts::parse(key, &json)?;
    let whole: Value = serde_json::from_slice(&json).unwrap_or_default();
    let (verdict, text) = match (counts.drifted_targets, counts.undecided_targets, counts.checked_targets) {
        (1.., _, _) => (Verdict::Bad, "drift"),
        (0, _, 0) => (Verdict::Unknown, "nothing judged"),
        (0, 1.., _) => (Verdict::Warning, "undecided"),
        (0, 0, _) => (Verdict::Good, "equal"),
    };
    let name = key.strip_prefix(REPORTS).and_then(|name| name.strip_suffix(".json")).unwrap_or(key);
    let repair = FindingsSource::parse(&format!("report:{name}"));
    let repair = repair.filter(|_| counts.drifted_targets > 0 && counts.findings.is_some());
    let (shares, since) = coverage(&whole);
    Ok(Some(vec![
        Timestamp::parse(name).map_or_else(|| Cell::code(name), Cell::Time),
        Cell::Verdict(verdict, text.to_owned()),
        Cell::number(counts.checked_targets),
        Cell::number(counts.drifted_targets),
        Cell::number(counts.undecided_targets),
        Cell::Number(format!("{} %", counts.sample * 100.0)),
        Cell::text(shares),
        since,
        repair.map_or(Cell::Empty, |source| Cell::link("plan of repair …", run::repair_address(source))),
    ]))
}

/// How much of the tables the round of samples has judged, and since when.
fn coverage(report: &Value) -> (String, Cell) {
    let rounds = ["/rotation/round", "/rotation/last_round"];
    let Some(round) =
        rounds.into_iter().filter_map(|round| report.pointer(round)).find(|round| round.is_object())
    else {
        return (String::new(), Cell::Empty);
    };
    let share = |part: &str| Some(format!("{part} {:.1} %", round.get(part)?.as_f64()? * 100.0));
    let shares = ["items", "rollups"].into_iter().filter_map(share).collect::<Vec<_>>().join(", ");
    let since = round.get("since").and_then(Value::as_str).and_then(Timestamp::parse);
    (shares, since.map_or(Cell::Empty, Cell::Time))
}
