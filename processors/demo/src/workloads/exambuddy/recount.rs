//! What must have been counted on the exam platform, found out anew from the items themselves.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::exact::Exact;
use crate::item::{Item, Placed, text_of as text, whole_of as number};
use crate::recount::{Countable, Counted, Key, Outcome};

/// What items alone do not tell, because what told it may have been deleted since.
#[derive(Debug, Default)]
struct History<'o> {
    /// The first owner of each project.
    owners: BTreeMap<&'o str, &'o str>,
    /// The project of each question.
    projects: BTreeMap<&'o str, &'o str>,
}

impl<'o> History<'o> {
    fn of(outcome: &'o Outcome) -> Self {
        let mut history = Self::default();
        for Placed { item, .. } in &outcome.images {
            match kind(item) {
                "PROJECT" => history.owners.entry(text(item, "project_id")).or_insert(text(item, "admin_id")),
                "QUESTION" => {
                    history.projects.entry(text(item, "question_id")).or_insert(text(item, "project_id"))
                }
                _ => continue,
            };
        }
        history
    }
}

/// Counts the items of the platform's table and what expired.
pub(super) fn recount(outcome: &Outcome) -> Counted {
    let (history, mut counted) = (History::of(outcome), Counted::default());
    for countable in outcome.countable() {
        match kind(countable.item) {
            "PROJECT" => count_project(countable, &mut counted),
            "QUESTION" => count_question(countable, &history, &mut counted),
            "ATTEMPT" => count_attempt(countable, &history, &mut counted),
            "ANSWER" => count_answer(countable, &history, &mut counted),
            _ => {}
        }
    }
    show_questions(outcome, &mut counted);
    counted
}

/// Each project that is there shows how many questions it has, whoever owns it.
fn show_questions(outcome: &Outcome, counted: &mut Counted) {
    let mut questions = BTreeMap::<&str, i64>::new();
    for Placed { item, .. } in outcome.items.iter().filter(|placed| kind(&placed.item) == "QUESTION") {
        *questions.entry(text(item, "project_id")).or_default() += 1;
    }
    for Placed { item, .. } in outcome.items.iter().filter(|placed| kind(&placed.item) == "PROJECT") {
        let count = questions.get(text(item, "project_id")).copied().unwrap_or(0);
        let place = format!("{} {}", text(item, "PK"), text(item, "SK"));
        let expected = crate::item::Value::Number(Exact::whole(count));
        counted.show(&place, item, "question_count", Some(expected));
    }
}

fn count_project(Countable { item, expired, .. }: Countable<'_>, into: &mut Counted) {
    let measure = match item.get("archived") {
        Some(AttributeValue::Bool(true)) => "projects_archived",
        Some(AttributeValue::Bool(false)) => "projects_active",
        _ => return,
    };
    into.add(&admin_total(text(item, "admin_id")), &[(measure, Exact::ONE)], expired);
}

fn count_question(Countable { item, expired, .. }: Countable<'_>, history: &History<'_>, into: &mut Counted) {
    let project = text(item, "project_id");
    let Some(admin) = history.owners.get(project) else { return };
    into.add(&admin_total(admin), &[("questions", Exact::ONE)], expired);
    into.add(&project_total(admin, project), &[("questions", Exact::ONE)], expired);
}

fn count_attempt(Countable { item, expired, .. }: Countable<'_>, history: &History<'_>, into: &mut Counted) {
    let project = text(item, "project_id");
    let Some(admin) = history.owners.get(project) else { return };
    let day = text(item, "started_at").get(..10).unwrap_or_default();
    let measures = attempt_measures(item);
    let measures: Vec<(&str, Exact)> =
        measures.iter().map(|(name, value)| (name.as_str(), Exact::whole(*value))).collect();
    for target in [
        admin_total(admin),
        Key::new(format!("ADMIN#{admin}"), format!("ROLLUP#DAY#{day}")),
        project_total(admin, project),
        Key::new(format!("ADMIN#{admin}"), format!("ROLLUP#PROJECT#{project}#DAY#{day}")),
    ] {
        into.add(&target, &measures, expired);
    }
}

fn attempt_measures(item: &Item) -> Vec<(String, i64)> {
    let mut measures = vec![("attempts".to_owned(), 1)];
    if text(item, "status") != "COMPLETED" {
        return measures;
    }
    measures.push(("completed".to_owned(), 1));
    let (Some(score), Some(questions)) = (number(item, "score"), number(item, "total_questions")) else {
        return measures;
    };
    if questions <= 0 {
        return measures;
    }
    if 100 * score >= 70 * questions {
        measures.push(("passed".to_owned(), 1));
    }
    let bin = (10 * score).div_euclid(questions).clamp(0, 9);
    measures.push((format!("pct_{bin}0"), 1));
    measures.push(("score_sum".to_owned(), score));
    measures.push(("questions_sum".to_owned(), questions));
    measures.push(("time_taken_sum".to_owned(), number(item, "time_taken_seconds").unwrap_or(0)));
    measures
}

fn count_answer(Countable { item, expired, .. }: Countable<'_>, history: &History<'_>, into: &mut Counted) {
    let question = text(item, "question_id");
    let Some(project) = history.projects.get(question) else { return };
    let is_correct = item.get("is_correct") == Some(&AttributeValue::Bool(true));
    let target = Key::new(format!("PROJECT#{project}"), format!("ROLLUP#QUESTION#{question}"));
    into.add(&target, &[("answers", Exact::ONE), ("correct", Exact::from(is_correct))], expired);
}

fn admin_total(admin: &str) -> Key {
    Key::new(format!("ADMIN#{admin}"), "ROLLUP#TOTAL")
}

fn project_total(admin: &str, project: &str) -> Key {
    Key::new(format!("ADMIN#{admin}"), format!("ROLLUP#PROJECT#{project}#TOTAL"))
}

fn kind(item: &Item) -> &str {
    text(item, "EntityType")
}
