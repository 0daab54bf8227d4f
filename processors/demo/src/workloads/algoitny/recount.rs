//! What must be derived of the judge's items, found out by hand.

use super::items::USAGE_LIFE;
use crate::exact::Exact;
use crate::item::{Item, Placed, Value, number_of, text_of};
use crate::recount::{Countable, Counted, Keep, Key, Outcome, start_of_day, within};

pub(super) fn recount(outcome: &Outcome) -> Counted {
    let mut counted = Counted::default();
    outcome.countable().for_each(|countable| count(countable, &mut counted));
    outcome.images.iter().for_each(|placed| see(placed, &mut counted));
    counted.drop_expired(outcome.now);
    for Placed { item, .. } in &outcome.items {
        let (partition, sort) = (text_of(item, "pk"), text_of(item, "sk"));
        if let (Some(problem), "META") = (within(partition, "PROB#", ""), sort) {
            let expected = counted.sum(&executions(problem), "executions");
            counted.show(partition, item, "md.exec_count", expected);
        }
    }
    counted
}

fn count(Countable { item, expired, .. }: Countable<'_>, counted: &mut Counted) {
    let (partition, sort) = (text_of(item, "pk"), text_of(item, "sk"));
    let Some((kind, id)) = partition.split_once('#') else { return };
    match (kind, sort) {
        ("USER", "META") => count_user(item, expired, counted),
        ("USER", log) => {
            if let Some(usage) = usage(id, log) {
                counted.add(&usage, &[("uses", Exact::ONE)], expired);
            }
        }
        ("PROB", "META") => count_problem(item, expired, counted),
        ("PROB", _) => {
            let key = Key::new(partition, "ROLLUP#TESTCASES");
            counted.add(&key, &[("testcases", Exact::ONE)], expired);
        }
        ("HIST", _) => count_run(item, expired, counted),
        ("JOB", _) => {
            let key = Key::new("JOBS", format!("ROLLUP#STATUS#{}", text_of(item, "st")));
            counted.add(&key, &[("jobs", Exact::ONE)], expired);
        }
        _ => {}
    }
}

fn count_user(item: &Item, expired: bool, counted: &mut Counted) {
    let plan = text_of(item, "sp");
    if !plan.is_empty() {
        let is_active = number_of(item, "ia") == Some(Exact::ONE);
        let measures = [("users", Exact::ONE), ("active", Exact::from(is_active))];
        counted.add(&Key::new(format!("PLAN#{plan}"), "ROLLUP#USERS"), &measures, expired);
    }
}

fn count_problem(item: &Item, expired: bool, counted: &mut Counted) {
    let platform = text_of(item, "pf");
    if number_of(item, "id") == Some(Exact::ZERO) && !platform.is_empty() {
        let is = |flag| Exact::from(number_of(item, "ic") == Some(flag));
        let key = Key::new(format!("PLATFORM#{platform}"), "ROLLUP#PROBLEMS");
        counted.add(&key, &[("problems", is(Exact::ONE)), ("drafts", is(Exact::ZERO))], expired);
    }
}

fn count_run(item: &Item, expired: bool, counted: &mut Counted) {
    let sum = |name: &str| number_of(item, name).unwrap_or_default();
    let measures = [("executions", Exact::ONE), ("passed_sum", sum("pc")), ("failed_sum", sum("fc"))];
    if let Some(user) = within(text_of(item, "uid"), "USER#", "") {
        counted.add(&history(user), &measures, expired);
    }
    if let Some(problem) = within(text_of(item, "pid"), "PROB#", "") {
        let is_solved = number_of(item, "fc") == Some(Exact::ZERO);
        counted.add(&executions(problem), &measures, expired);
        counted.add(&executions(problem), &[("solved", Exact::from(is_solved))], expired);
    }
    if number_of(item, "icp") == Some(Exact::ONE) {
        counted.add(&Key::new("PUBLIC#1", "ROLLUP#HISTORY"), &[("executions", Exact::ONE)], expired);
    }
}

/// What does not retract: a user's last run. And when the days' counters are over.
fn see(Placed { item, .. }: &Placed, counted: &mut Counted) {
    let (partition, sort) = (text_of(item, "pk"), text_of(item, "sk"));
    if let (true, Some(user)) = (partition.starts_with("HIST#"), within(text_of(item, "uid"), "USER#", "")) {
        let at = Value::Number(number_of(item, "ca").unwrap_or_default());
        counted.see(&history(user), "last_at", at, Keep::Largest);
    }
    if let Some(user) = partition.strip_prefix("USER#")
        && let Some(key) = usage(user, sort)
        && let Some(begun) = sort.get(6..16).and_then(start_of_day)
    {
        counted.expiries.insert(key, begun + USAGE_LIFE);
    }
}

/// The counter that a log counts into: of its user, day and action.
fn usage(user: &str, sort: &str) -> Option<Key> {
    let (counter, _) = sort.strip_prefix("USAGE#")?.rsplit_once('#')?;
    Some(Key::new(format!("USER#{user}"), format!("ROLLUP#USAGE#{counter}")))
}

fn history(user: &str) -> Key {
    Key::new(format!("USER#{user}"), "ROLLUP#HISTORY")
}

fn executions(problem: &str) -> Key {
    Key::new(format!("PROB#{problem}"), "ROLLUP#EXECUTIONS")
}
