//! A quiz with a memory: learners answer questions in sessions, and repeat what they missed until they know it.

mod author;
mod items;
mod learners;
mod recount;

use afterwrite_local::dynamodb::{KeyDefinition, TableDefinition};
use fastrand::Rng;
use jiff::Timestamp;

use self::author::QuestionAuthor;
use self::items::USERS;
use self::learners::LearnerWriter;
use super::tools::{CHART_ROWS, LANES, play, share, table};
use crate::chart::{Chart, percent};
use crate::item::{ItemValue, text_of, value_at};
use crate::recount::WorkloadOutcome;
use crate::rollups::{RollupSet, number};
use crate::script::Script;
use crate::workload::{Workload, WorkloadQuestion};

pub(super) const WORKLOAD: Workload = Workload {
    model: "quiz",
    about: "A month of a quiz",
    unit: "answers",
    usual_size: 2000,
    questions: &[WorkloadQuestion::Sql(
        "Sessions by status, those that expired included",
        "SELECT status, count(*) AS sessions, count(DISTINCT user_id) AS learners FROM sessions \
         GROUP BY status ORDER BY sessions DESC, status",
    )],
    tables,
    script,
    recount: recount::recount,
    archived_rollup: |_, _| false,
    charts: |outcome, rollups| vec![learners(outcome, rollups), hardest(rollups), certificates(rollups)],
};

fn tables() -> Vec<TableDefinition> {
    let (key, partition_only) = (KeyDefinition::new, KeyDefinition::partition_only);
    let of_question = [
        ("category-language-index", key("category", "language#difficulty")),
        ("provider-certificate-index", key("provider#certificate", "language#questionId")),
    ];
    let of_progress = [
        ("userId-wrongPool-index", key("userId", "isInWrongPool#firstSeenAt")),
        ("sessionId-index", partition_only("sessionId")),
    ];
    let of_session = [("userId-status-index", key("userId", "status#startedAt"))];
    let of_wrong = [("userId-remainingTries-index", key("userId", "remainingTries#timestamp"))];
    vec![
        table(USERS, partition_only("userId"), &[("email-index", partition_only("email"))], false),
        table(items::QUESTIONS, key("questionId", "category"), &of_question, false),
        table(items::SESSIONS, key("sessionId", "userId"), &of_session, true),
        table(items::PROGRESS, key("userId", "questionId"), &of_progress, false),
        table(items::WRONG_ANSWERS, key("userId", "timestamp"), &of_wrong, true),
    ]
}

fn script(mut random: Rng, size: u64, now: Timestamp) -> Script {
    let questions: Vec<String> =
        (1..=size.div_ceil(40).clamp(8, 60)).map(|id| format!("q-{id:03}")).collect();
    let writers = (0..LANES).map(|lane| {
        let users = share(size.div_ceil(25).max(8), LANES, lane);
        LearnerWriter::new(&mut random, users, questions.clone(), now)
    });
    let writers = writers.collect();
    play(size, writers, Some(&mut QuestionAuthor::new(random.fork(), questions, now)))
}

/// The most active learners, and the statistics of their own items.
fn learners(outcome: &WorkloadOutcome, rollups: &RollupSet) -> Chart {
    let columns = [
        "learner",
        "questions",
        "mastered",
        "to repeat",
        "sessions",
        "correct",
        "stats.attempts",
        "attempts",
    ];
    let mut chart = Chart::new("The most active learners", &columns);
    for (user, progress) in rollups.each("USER#", "ROLLUP#PROGRESS") {
        let partition = format!("USER#{user}");
        let of = |name: &str| number(progress, name);
        let mut own = outcome.items.iter().filter(|stored| stored.table == USERS).map(|stored| &stored.item);
        let own = own.find(|item| text_of(item, "userId") == user);
        let shown = own.and_then(|item| value_at(item, "stats.attempts")).map(ItemValue::of);
        let cells = vec![
            user.to_owned(),
            of("questions").to_string(),
            of("mastered").to_string(),
            rollups.number(&partition, "ROLLUP#WRONG", "open").to_string(),
            rollups.number(&partition, "ROLLUP#SESSIONS", "sessions").to_string(),
            percent(&of("correct"), &of("attempts")),
            shown.map_or_else(|| "deleted".to_owned(), |shown| shown.to_string()),
            of("attempts").to_string(),
        ];
        chart.add_bar(cells, of("attempts"));
    }
    chart.top(CHART_ROWS)
}

fn hardest(rollups: &RollupSet) -> Chart {
    let mut chart =
        Chart::new("The questions that were missed most", &["question", "learners", "correct", "missed"]);
    for (question, progress) in rollups.each("QUESTION#", "ROLLUP#PROGRESS") {
        let [users, attempts, correct] = ["users", "attempts", "correct"].map(|name| number(progress, name));
        let (percent, missed) = (percent(&correct, &attempts), attempts.minus(&correct));
        chart.add_bar(vec![question.to_owned(), users.to_string(), percent, missed.to_string()], missed);
    }
    chart.top(CHART_ROWS)
}

fn certificates(rollups: &RollupSet) -> Chart {
    let mut chart =
        Chart::new("Questions by certificate", &["certificate", "language", "difficulty", "questions"]);
    for (key, measures) in &rollups.0 {
        let certificate = key.0.strip_prefix("CERTIFICATE#");
        let language = key.1.strip_prefix("ROLLUP#QUESTIONS#");
        let (Some(certificate), Some(language)) = (certificate, language) else { continue };
        let questions = number(measures, "questions");
        let Some(difficulty) = number(measures, "difficulty_sum").divided_by(&questions, 6) else { continue };
        let difficulty = difficulty.truncated(1).to_string();
        let cells = vec![certificate.to_owned(), language.to_owned(), difficulty, questions.to_string()];
        chart.add_bar(cells, questions);
    }
    chart
}
