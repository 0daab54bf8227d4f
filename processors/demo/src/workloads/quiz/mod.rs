//! A quiz with a memory: learners answer questions in sessions, and what they got wrong comes again until they know it.

mod author;
mod items;
mod learners;
mod recount;

use fastrand::Rng;

use self::author::Author;
use self::learners::Learners;
use super::tools::{partition_only, play, share, table, time};
use super::{LANES, Question, Workload};
use crate::chart::{Chart, percent};
use crate::item::{Value, at, text_of};
use crate::recount::{Counted, Outcome};
use crate::rollups::{Rollups, number};
use crate::script::Script;
use afterwrite_local::dynamodb::{KeyDefinition, TableDefinition};

const SHOWN: usize = 10;

/// The quiz.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiz;

impl Workload for Quiz {
    fn model(&self) -> &'static str {
        "quiz"
    }

    fn about(&self) -> &'static str {
        "A month of a quiz"
    }

    fn unit(&self) -> &'static str {
        "answers"
    }

    fn tables(&self) -> Vec<TableDefinition> {
        let key = KeyDefinition::new;
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
            table(items::USERS, partition_only("userId"), &[("email-index", partition_only("email"))], false),
            table(items::QUESTIONS, key("questionId", "category"), &of_question, false),
            table(items::SESSIONS, key("sessionId", "userId"), &of_session, true),
            table(items::PROGRESS, key("userId", "questionId"), &of_progress, false),
            table(items::WRONG_ANSWERS, key("userId", "timestamp"), &of_wrong, true),
        ]
    }

    fn script(&self, seed: u64, size: u64, now: i64) -> Script {
        let (mut random, now) = (Rng::with_seed(seed), time(now));
        let questions: Vec<String> =
            (1..=size.div_ceil(40).clamp(8, 60)).map(|id| format!("q-{id:03}")).collect();
        let learners = (0..LANES).map(|number| {
            let users = share(size.div_ceil(25).max(8), LANES, number);
            Learners::new(&mut random, users, questions.clone(), now)
        });
        let learners: Vec<Learners> = learners.collect();
        play(size, learners, Some(&mut Author::new(random.fork(), questions, now)))
    }

    fn recount(&self, outcome: &Outcome) -> Counted {
        recount::recount(outcome)
    }

    fn charts(&self, outcome: &Outcome, rollups: &Rollups) -> Vec<Chart> {
        vec![learners(outcome, rollups), hardest(rollups), certificates(rollups)]
    }

    fn questions(&self) -> &'static [Question] {
        &[Question::Sql(
            "Sessions by status, those that expired included",
            "SELECT status, count(*) AS sessions, count(DISTINCT user_id) AS learners FROM sessions \
             GROUP BY status ORDER BY sessions DESC, status",
        )]
    }
}

/// The keenest learners, and what their own items show.
fn learners(outcome: &Outcome, rollups: &Rollups) -> Chart {
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
    let mut chart = Chart::new("The keenest learners", &columns);
    for (user, progress) in rollups.each("USER#", "ROLLUP#PROGRESS") {
        let partition = format!("USER#{user}");
        let of = |name: &str| number(progress, name);
        let own =
            outcome.items.iter().filter(|placed| placed.table == items::USERS).map(|placed| &placed.item);
        let own =
            own.filter(|item| text_of(item, "userId") == user).find_map(|item| at(item, "stats.attempts"));
        chart.bar(
            vec![
                user.to_owned(),
                of("questions").to_string(),
                of("mastered").to_string(),
                rollups.number(&partition, "ROLLUP#WRONG", "open").to_string(),
                rollups.number(&partition, "ROLLUP#SESSIONS", "sessions").to_string(),
                percent(of("correct"), of("attempts")),
                own.map_or_else(|| "deleted".to_owned(), |shown| Value::of(shown).to_string()),
                of("attempts").to_string(),
            ],
            of("attempts"),
        );
    }
    chart.top(SHOWN)
}

fn hardest(rollups: &Rollups) -> Chart {
    let mut chart =
        Chart::new("The questions that were missed most", &["question", "learners", "correct", "missed"]);
    for (question, progress) in rollups.each("QUESTION#", "ROLLUP#PROGRESS") {
        let of = |name: &str| number(progress, name);
        let missed = of("attempts") - of("correct");
        let cells = vec![
            question.to_owned(),
            of("users").to_string(),
            percent(of("correct"), of("attempts")),
            missed.to_string(),
        ];
        chart.bar(cells, missed);
    }
    chart.top(SHOWN)
}

fn certificates(rollups: &Rollups) -> Chart {
    let mut chart =
        Chart::new("Questions by certificate", &["certificate", "language", "difficulty", "questions"]);
    for key in rollups.keys() {
        let certificate = key.0.strip_prefix("CERTIFICATE#");
        let language = key.1.strip_prefix("ROLLUP#QUESTIONS#");
        let (Some(certificate), Some(language), Some(measures)) = (certificate, language, rollups.get(key))
        else {
            continue;
        };
        let (questions, sum) = (number(measures, "questions"), number(measures, "difficulty_sum"));
        let Some(difficulty) = sum.over(questions).map(|average| average.rounded(1)) else { continue };
        let cells = vec![certificate.to_owned(), language.to_owned(), difficulty, questions.to_string()];
        chart.bar(cells, questions);
    }
    chart
}
