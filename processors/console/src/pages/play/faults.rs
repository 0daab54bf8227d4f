//! Faults by slider, applied at once.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_mapping::FaultPlan;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use maud::{Markup, html};

use super::{PLAY, not_here, wants_part};
use crate::board::DevBoard;
use crate::query::{PageForm, PageQuery};
use crate::served::Served;
use crate::table::{Cell, PageTable};
use crate::view::token_field;

/// The address that takes the faults.
pub(crate) const FAULTS: &str = "/play/faults";
/// The longest delay, in milliseconds.
const MAX_DELAY_MS: u64 = 2_000;

/// A slider: its name, its label, its unit, and its largest value.
type FaultSlider = (&'static str, &'static str, &'static str, u64);

const SLIDERS: [FaultSlider; 4] = [
    ("duplicate", "Batches that are delivered once more", " %", 100),
    ("crash", "Invocations that are killed, or whose response is lost", " %", 100),
    ("conflict", "Transactions that DynamoDB cancels", " %", 100),
    ("delay", "Longest delay before an invocation", " ms", MAX_DELAY_MS),
];

/// `POST` of the faults.
pub(crate) async fn set_faults(
    State(served): State<Arc<Served>>,
    headers: HeaderMap,
    PageForm(sent): PageForm,
) -> Response {
    let Some(board) = served.context.board() else { return not_here(&served) };
    board.faults.set(plan(&sent, board.faults.current().seed));
    if wants_part(&headers) {
        Html(form(&served, board).into_string()).into_response()
    } else {
        Redirect::to(PLAY).into_response()
    }
}

/// The plan of a form: values beyond a slider are its largest, and the button `off` ends all faults.
fn plan(form: &PageQuery, seed: u64) -> FaultPlan {
    if form.get("off").is_some() {
        return FaultPlan { seed, ..FaultPlan::default() };
    }
    let number = |name: &str| form.get(name).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    let share = |name: &str| f64::from(number(name).min(100)) / 100.0;
    FaultPlan {
        duplicate: share("duplicate"),
        crash: share("crash"),
        conflict: share("conflict"),
        delay: Duration::from_millis(u64::from(number("delay")).min(MAX_DELAY_MS)),
        seed,
    }
}

/// The values of the sliders, in their order.
fn values(plan: &FaultPlan) -> [String; 4] {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    let delay = plan.delay.as_millis().to_string();
    [percent(plan.duplicate), percent(plan.crash), percent(plan.conflict), delay]
}

/// The sliders. A movement applies them all.
pub(super) fn form(served: &Served, board: &DevBoard) -> Markup {
    let values = values(&board.faults.current());
    html! {
        form id="faults" class="faults" method="post" action=(FAULTS) hx-post=(FAULTS) hx-trigger="change, submit" hx-swap="outerHTML" {
            (token_field(served))
            @for ((name, label, unit, most), value) in SLIDERS.iter().zip(&values) {
                label for={ "fault-" (name) } {
                    (label)
                    output for={ "fault-" (name) } { (value) (unit) }
                }
                input type="range" id={ "fault-" (name) } name=(name) min="0" max=(most) step="1" value=(value) data-unit=(unit);
            }
            p {
                button { "Apply" } " "
                button name="off" value="1" { "Off" }
            }
        }
    }
}

/// The faults, for machines.
pub(super) fn table(board: &DevBoard) -> PageTable {
    let mut table = PageTable::new("faults", &["fault", "value"], "No faults.");
    let values = values(&board.faults.current());
    let rows =
        SLIDERS.iter().zip(values).map(|((name, ..), value)| vec![Cell::text(*name), Cell::number(value)]);
    table.rows.extend(rows);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_a_plan_within_the_limits_and_off_ends_all_faults() {
        let faults = plan(&PageQuery::parse("duplicate=30&crash=400&conflict=x&delay=99999"), 7);
        assert_eq!((faults.duplicate, faults.crash, faults.conflict), (0.3, 1.0, 0.0));
        assert_eq!((faults.delay, faults.seed), (Duration::from_secs(2), 7));
        assert_eq!(values(&faults), ["30", "100", "0", "2000"]);
        let off = plan(&PageQuery::parse("duplicate=30&off=1"), 7);
        assert_eq!(off, FaultPlan { seed: 7, ..FaultPlan::default() });
    }
}
