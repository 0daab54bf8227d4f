//! The counts to expect on the exam platform, computed again from the items themselves.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::exact::ExactNumber;
use crate::item::{ItemValue, SdkItem, TableItem, integer_of, text_of};
use crate::recount::{Recount, RollupSums, WorkloadOutcome};
use crate::rollups::RollupKey;

/// The measure of each tenth of the possible score.
const SCORE_BINS: [&str; 10] =
    ["pct_00", "pct_10", "pct_20", "pct_30", "pct_40", "pct_50", "pct_60", "pct_70", "pct_80", "pct_90"];

/// Facts that the last items do not have, because items with them may have been deleted.
#[derive(Debug, Default)]
struct FirstSeen<'o> {
    /// The first owner of each project.
    owners: BTreeMap<&'o str, &'o str>,
    /// The project of each question.
    projects: BTreeMap<&'o str, &'o str>,
}

impl<'o> FirstSeen<'o> {
    fn of(outcome: &'o WorkloadOutcome) -> Self {
        let mut seen = Self::default();
        for TableItem { item, .. } in &outcome.images {
            let project = text_of(item, "project_id");
            match kind(item) {
                "PROJECT" => seen.owners.entry(project).or_insert(text_of(item, "admin_id")),
                "QUESTION" => seen.projects.entry(text_of(item, "question_id")).or_insert(project),
                _ => continue,
            };
        }
        seen
    }
}

pub(super) fn recount(outcome: &WorkloadOutcome) -> Recount {
    let seen = FirstSeen::of(outcome);
    let mut recount = Recount::of(outcome, |sums, TableItem { item, .. }| match kind(item) {
        "PROJECT" => count_project(item, sums),
        "QUESTION" => count_question(item, &seen, sums),
        "ATTEMPT" => count_attempt(item, &seen, sums),
        "ANSWER" => count_answer(item, &seen, sums),
        _ => {}
    });
    mirror_question_counts(outcome, &mut recount);
    recount
}

/// Each existing project shows how many questions it has, for every owner.
fn mirror_question_counts(outcome: &WorkloadOutcome, recount: &mut Recount) {
    let of_kind = |wanted: &'static str| {
        outcome.items.iter().map(|stored| &stored.item).filter(move |item| kind(item) == wanted)
    };
    let mut questions = BTreeMap::<&str, i64>::new();
    for item in of_kind("QUESTION") {
        *questions.entry(text_of(item, "project_id")).or_default() += 1;
    }
    for item in of_kind("PROJECT") {
        let count = questions.get(text_of(item, "project_id")).copied().unwrap_or(0);
        let place = format!("{} {}", text_of(item, "PK"), text_of(item, "SK"));
        recount.mirror(&place, item, "question_count", Some(ItemValue::Number(count.into())));
    }
}

fn count_project(item: &SdkItem, sums: &mut RollupSums<'_>) {
    let measure = match item.get("archived") {
        Some(AttributeValue::Bool(true)) => "projects_archived",
        Some(AttributeValue::Bool(false)) => "projects_active",
        _ => return,
    };
    sums.add(of_admin(text_of(item, "admin_id"), "TOTAL"), &[(measure, ExactNumber::one())]);
}

fn count_question(item: &SdkItem, seen: &FirstSeen<'_>, sums: &mut RollupSums<'_>) {
    let project = text_of(item, "project_id");
    let Some(admin) = seen.owners.get(project) else { return };
    for rollup in ["TOTAL", &format!("PROJECT#{project}#TOTAL")] {
        sums.add(of_admin(admin, rollup), &[("questions", ExactNumber::one())]);
    }
}

fn count_attempt(item: &SdkItem, seen: &FirstSeen<'_>, sums: &mut RollupSums<'_>) {
    let project = text_of(item, "project_id");
    let Some(admin) = seen.owners.get(project) else { return };
    let day = text_of(item, "started_at").get(..10).unwrap_or_default();
    let measures = attempt_measures(item).map(|(name, value)| (name, ExactNumber::from(value)));
    let measures: Vec<_> = measures.collect();
    for rollup in [
        "TOTAL",
        &format!("DAY#{day}"),
        &format!("PROJECT#{project}#TOTAL"),
        &format!("PROJECT#{project}#DAY#{day}"),
    ] {
        sums.add(of_admin(admin, rollup), &measures);
    }
}

fn attempt_measures(item: &SdkItem) -> impl Iterator<Item = (&'static str, i64)> {
    let mut measures = vec![("attempts", 1)];
    let is_completed = text_of(item, "status") == "COMPLETED";
    measures.extend(is_completed.then_some(("completed", 1)));
    let questions = integer_of(item, "total_questions").filter(|questions| is_completed && *questions > 0);
    if let (Some(score), Some(questions)) = (integer_of(item, "score"), questions) {
        let bin = usize::try_from((10 * score).div_euclid(questions).clamp(0, 9)).ok();
        measures.extend(bin.and_then(|bin| SCORE_BINS.get(bin)).map(|bin| (*bin, 1)));
        measures.extend((100 * score >= 70 * questions).then_some(("passed", 1)));
        let seconds = integer_of(item, "time_taken_seconds").unwrap_or(0);
        measures.extend([("score_sum", score), ("questions_sum", questions), ("time_taken_sum", seconds)]);
    }
    measures.into_iter()
}

fn count_answer(item: &SdkItem, seen: &FirstSeen<'_>, sums: &mut RollupSums<'_>) {
    let question = text_of(item, "question_id");
    let Some(project) = seen.projects.get(question) else { return };
    let is_correct = item.get("is_correct") == Some(&AttributeValue::Bool(true));
    let key = RollupKey::new(format!("PROJECT#{project}"), format!("ROLLUP#QUESTION#{question}"));
    sums.add(key, &[("answers", ExactNumber::one()), ("correct", is_correct.into())]);
}

fn of_admin(admin: &str, rollup: &str) -> RollupKey {
    RollupKey::new(format!("ADMIN#{admin}"), format!("ROLLUP#{rollup}"))
}

fn kind(item: &SdkItem) -> &str {
    text_of(item, "EntityType")
}
