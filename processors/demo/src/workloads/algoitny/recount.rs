//! The values to derive from the judge's items, computed without the model.

use super::items::USAGE_LIFE;
use crate::exact::ExactNumber;
use crate::item::{ItemValue, SdkItem, TableItem, integer_of, number_of, text_of};
use crate::recount::{ExtremeRule, Recount, RollupSums, WorkloadOutcome, after, start_of_day};
use crate::rollups::RollupKey;

pub(super) fn recount(outcome: &WorkloadOutcome) -> Recount {
    let mut recount = Recount::of(outcome, count);
    outcome.images.iter().for_each(|image| see(&image.item, &mut recount));
    recount.drop_expired(outcome.now);
    for TableItem { item, .. } in &outcome.items {
        let (partition, sort) = (text_of(item, "pk"), text_of(item, "sk"));
        if let (Some(problem), "META") = (after(partition, "PROB#"), sort) {
            let expected = recount.sum(&executions(problem), "executions");
            recount.mirror(partition, item, "md.exec_count", expected);
        }
    }
    recount
}

fn count(sums: &mut RollupSums<'_>, TableItem { item, .. }: &TableItem) {
    let (partition, sort) = (text_of(item, "pk"), text_of(item, "sk"));
    let Some((kind, id)) = partition.split_once('#') else { return };
    let one = ExactNumber::one;
    match (kind, sort) {
        ("USER", "META") => count_user(item, sums),
        ("USER", log) => {
            if let Some(usage) = usage(id, log) {
                sums.add(usage, &[("uses", one())]);
            }
        }
        ("PROB", "META") => count_problem(item, sums),
        ("PROB", _) => sums.add(RollupKey::new(partition, "ROLLUP#TESTCASES"), &[("testcases", one())]),
        ("HIST", _) => count_run(item, sums),
        ("JOB", _) => {
            let status = format!("ROLLUP#STATUS#{}", text_of(item, "st"));
            sums.add(RollupKey::new("JOBS", status), &[("jobs", one())]);
        }
        _ => {}
    }
}

fn count_user(item: &SdkItem, sums: &mut RollupSums<'_>) {
    let plan = text_of(item, "sp");
    if !plan.is_empty() {
        let is_active = integer_of(item, "ia") == Some(1);
        let measures = [("users", ExactNumber::one()), ("active", is_active.into())];
        sums.add(RollupKey::new(format!("PLAN#{plan}"), "ROLLUP#USERS"), &measures);
    }
}

fn count_problem(item: &SdkItem, sums: &mut RollupSums<'_>) {
    let platform = text_of(item, "pf");
    if integer_of(item, "id") == Some(0) && !platform.is_empty() {
        let is = |flag| ExactNumber::from(integer_of(item, "ic") == Some(flag));
        let key = RollupKey::new(format!("PLATFORM#{platform}"), "ROLLUP#PROBLEMS");
        sums.add(key, &[("problems", is(1)), ("drafts", is(0))]);
    }
}

fn count_run(item: &SdkItem, sums: &mut RollupSums<'_>) {
    let sum = |name: &str| number_of(item, name).unwrap_or_default();
    let measures = [("executions", ExactNumber::one()), ("passed_sum", sum("pc")), ("failed_sum", sum("fc"))];
    if let Some(user) = after(text_of(item, "uid"), "USER#") {
        sums.add(history(user), &measures);
    }
    if let Some(problem) = after(text_of(item, "pid"), "PROB#") {
        let is_solved = integer_of(item, "fc") == Some(0);
        sums.add(executions(problem), &measures);
        sums.add(executions(problem), &[("solved", is_solved.into())]);
    }
    if integer_of(item, "icp") == Some(1) {
        sums.add(RollupKey::new("PUBLIC#1", "ROLLUP#HISTORY"), &[("executions", ExactNumber::one())]);
    }
}

/// Sees what never goes back, a user's last run, and when the days' counters expire.
fn see(item: &SdkItem, recount: &mut Recount) {
    let (partition, sort) = (text_of(item, "pk"), text_of(item, "sk"));
    if let (true, Some(user)) = (partition.starts_with("HIST#"), after(text_of(item, "uid"), "USER#")) {
        let at = ItemValue::Number(number_of(item, "ca").unwrap_or_default());
        recount.see(&history(user), "last_at", at, ExtremeRule::Largest);
    }
    if let Some(user) = partition.strip_prefix("USER#")
        && let Some(key) = usage(user, sort)
        && let Some(begun) = sort.get(6..16).and_then(start_of_day)
    {
        recount.expire_at(key, begun + USAGE_LIFE);
    }
}

/// The counter of a log: of its user, day and action.
fn usage(user: &str, sort: &str) -> Option<RollupKey> {
    let (counter, _) = sort.strip_prefix("USAGE#")?.rsplit_once('#')?;
    Some(RollupKey::new(format!("USER#{user}"), format!("ROLLUP#USAGE#{counter}")))
}

fn history(user: &str) -> RollupKey {
    RollupKey::new(format!("USER#{user}"), "ROLLUP#HISTORY")
}

fn executions(problem: &str) -> RollupKey {
    RollupKey::new(format!("PROB#{problem}"), "ROLLUP#EXECUTIONS")
}
