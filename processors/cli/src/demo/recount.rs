//! What must have been counted, found out anew from the items themselves.
//!
//! This is the demo's second opinion: it knows what the platform derives, and shares nothing with the engine, neither code
//! nor the model file. It counts in whole numbers, item by item.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;

use super::platform::{Item, Key};

/// Measures by name.
pub(super) type Measures = BTreeMap<String, i64>;

/// What items alone do not tell, because what told it may have been deleted since.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// The first owner of each project.
    pub(super) owners: BTreeMap<String, String>,
    /// The project of each question.
    pub(super) projects: BTreeMap<String, String>,
    /// The items that time to live took, as they were.
    pub(super) expired: Vec<Item>,
}

/// Everything that must be found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// The measures of each rollup, what expired included.
    pub(super) rollups: BTreeMap<Key, Measures>,
    /// What of them comes from expired items.
    pub(super) settled: BTreeMap<Key, Measures>,
    /// The `question_count` of each project that is there.
    pub(super) question_counts: BTreeMap<Key, i64>,
}

/// Counts the items of the platform's table and what expired.
pub(super) fn recount(items: &[Item], history: &History) -> Counted {
    let mut counted = Counted::default();
    for item in items {
        count(item, history, &mut counted.rollups);
    }
    for item in &history.expired {
        count(item, history, &mut counted.rollups);
        count(item, history, &mut counted.settled);
    }
    let mut questions = BTreeMap::<&str, i64>::new();
    for item in items.iter().filter(|item| kind(item) == "QUESTION") {
        *questions.entry(text(item, "project_id")).or_default() += 1;
    }
    for project in items.iter().filter(|item| kind(item) == "PROJECT") {
        let key = Key(text(project, "PK").to_owned(), text(project, "SK").to_owned());
        let count = questions.get(text(project, "project_id")).copied().unwrap_or(0);
        counted.question_counts.insert(key, count);
    }
    counted
}

fn count(item: &Item, history: &History, into: &mut BTreeMap<Key, Measures>) {
    match kind(item) {
        "PROJECT" => count_project(item, into),
        "QUESTION" => count_question(item, history, into),
        "ATTEMPT" => count_attempt(item, history, into),
        "ANSWER" => count_answer(item, history, into),
        _ => {}
    }
}

fn count_project(item: &Item, into: &mut BTreeMap<Key, Measures>) {
    let measure = match item.get("archived") {
        Some(AttributeValue::Bool(true)) => "projects_archived",
        Some(AttributeValue::Bool(false)) => "projects_active",
        _ => return,
    };
    add(into, admin_total(text(item, "admin_id")), &[(measure, 1)]);
}

fn count_question(item: &Item, history: &History, into: &mut BTreeMap<Key, Measures>) {
    let project = text(item, "project_id");
    let Some(admin) = history.owners.get(project) else { return };
    add(into, admin_total(admin), &[("questions", 1)]);
    add(into, project_total(admin, project), &[("questions", 1)]);
}

fn count_attempt(item: &Item, history: &History, into: &mut BTreeMap<Key, Measures>) {
    let project = text(item, "project_id");
    let Some(admin) = history.owners.get(project) else { return };
    let day = text(item, "started_at").get(..10).unwrap_or_default();
    let measures = attempt_measures(item);
    let measures: Vec<(&str, i64)> = measures.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    for target in [
        admin_total(admin),
        Key(format!("ADMIN#{admin}"), format!("ROLLUP#DAY#{day}")),
        project_total(admin, project),
        Key(format!("ADMIN#{admin}"), format!("ROLLUP#PROJECT#{project}#DAY#{day}")),
    ] {
        add(into, target, &measures);
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

fn count_answer(item: &Item, history: &History, into: &mut BTreeMap<Key, Measures>) {
    let question = text(item, "question_id");
    let Some(project) = history.projects.get(question) else { return };
    let is_correct = item.get("is_correct") == Some(&AttributeValue::Bool(true));
    let target = Key(format!("PROJECT#{project}"), format!("ROLLUP#QUESTION#{question}"));
    add(into, target, &[("answers", 1), ("correct", i64::from(is_correct))]);
}

fn admin_total(admin: &str) -> Key {
    Key(format!("ADMIN#{admin}"), "ROLLUP#TOTAL".to_owned())
}

fn project_total(admin: &str, project: &str) -> Key {
    Key(format!("ADMIN#{admin}"), format!("ROLLUP#PROJECT#{project}#TOTAL"))
}

fn add(into: &mut BTreeMap<Key, Measures>, target: Key, measures: &[(&str, i64)]) {
    let counted = into.entry(target).or_default();
    for (name, value) in measures {
        *counted.entry((*name).to_owned()).or_default() += value;
    }
}

fn kind(item: &Item) -> &str {
    text(item, "EntityType")
}

/// The text of an attribute; empty if there is none.
pub(super) fn text<'a>(item: &'a Item, name: &str) -> &'a str {
    match item.get(name) {
        Some(AttributeValue::S(text)) => text,
        _ => "",
    }
}

/// The whole number of an attribute, if it is one.
pub(super) fn number(item: &Item, name: &str) -> Option<i64> {
    match item.get(name) {
        Some(AttributeValue::N(number)) => number.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
