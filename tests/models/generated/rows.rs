//! The rows that a change is in the datasets, each column by hand.

use afterwrite_demo::item::{SdkItem as Item, text_of, value_at};
use afterwrite_tests::datasets::Row;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::stream::Record;

/// Where the rows of items lie that have no day.
const NO_DAY: &str = "0001-01-01";

/// The models' generation.
const GENERATION: &str = "1";

/// A dataset, and what a row of it is for an item that stands as this one does.
struct Columns<'i> {
    dataset: &'static str,
    item: &'i Item,
    row: Row,
}

/// The rows of a change, each with its dataset.
pub(super) fn rows_of_change(model: &str, record: &Record) -> Vec<(&'static str, Row)> {
    let row = |image: &Option<Item>, operation: &str| {
        let Columns { dataset, mut row, .. } = columns(model, &record.table, image.as_ref()?)?;
        row.insert("_operation".to_owned(), operation.to_owned());
        row.insert("_position".to_owned(), record.sequence_number.clone());
        row.insert("_changed_at".to_owned(), written(&record.changed_at.to_string()));
        row.insert("_generation".to_owned(), GENERATION.to_owned());
        Some((dataset, row))
    };
    match (&record.old, &record.new) {
        (None, new) => row(new, "INSERT").into_iter().collect(),
        (old, None) => {
            let operation = if record.is_expiry { "EXPIRE" } else { "REMOVE" };
            row(old, operation).into_iter().collect()
        }
        (old, new) => {
            let (left, stays) = (row(old, "REMOVE"), row(new, "MODIFY"));
            let has_moved = |((_, left), (_, stays)): (&(_, Row), &(_, Row))| left["dt"] != stays["dt"];
            let has_moved = left.as_ref().zip(stays.as_ref()).is_some_and(has_moved);
            stays.into_iter().chain(left.filter(|_| has_moved)).collect()
        }
    }
}

fn columns<'i>(model: &str, table: &str, item: &'i Item) -> Option<Columns<'i>> {
    match model {
        "algoitny" => of_algoitny(item),
        "quiz" => of_quiz(table, item),
        "shop" => of_shop(item),
        "glad" => of_glad(item),
        other => panic!("no model {other}"),
    }
}

fn of_algoitny(item: &Item) -> Option<Columns<'_>> {
    let (partition, sort) = (text_of(item, "pk"), text_of(item, "sk"));
    if let Some(history) = partition.strip_prefix("HIST#") {
        let columns = Columns::of("history", item, "ca")
            .said("history_id", Some(history))
            .said("user_id", text_of(item, "uid").strip_prefix("USER#"))
            .said("problem_id", text_of(item, "pid").strip_prefix("PROB#"))
            .plain("platform", "pf")
            .plain("problem_number", "pnum")
            .plain("problem_name", "pnm")
            .plain("language", "lg")
            .plain("status", "rs.status")
            .plain("passed", "pc")
            .plain("failed", "fc")
            .plain("total", "tc")
            .plain("is_public", "icp")
            .instant("created_at", "ca");
        return Some(columns);
    }
    let usage: Vec<&str> = sort.strip_prefix("USAGE#")?.split('#').collect();
    let columns = Columns::of("usage", item, "ca")
        .said("user_id", partition.strip_prefix("USER#"))
        .said("used_on", Some(usage[0]))
        .said("action", Some(usage[1]))
        .said("logged_at", Some(usage[2]))
        .plain("problem", "pid")
        .plain("language", "md.language")
        .instant("created_at", "ca");
    Some(columns)
}

fn of_quiz<'i>(table: &str, item: &'i Item) -> Option<Columns<'i>> {
    let columns = match table {
        "quiz-sessions" => Columns::of("sessions", item, "startedAt")
            .plain("session_id", "sessionId")
            .plain("user_id", "userId")
            .plain("status", "status")
            .instant("started_at", "startedAt")
            .instant("completed_at", "completedAt")
            .plain("total_questions", "totalQuestions")
            .plain("current_question", "currentQuestion")
            .list("answered_questions", "answeredQuestions")
            .list("wrong_answers", "wrongAnswers")
            .json("sources", "sources")
            .json("config", "config"),
        "quiz-progress" => Columns::of("progress", item, "firstSeenAt")
            .plain("user_id", "userId")
            .plain("question_id", "questionId")
            .plain("session_id", "sessionId")
            .plain("attempts", "attempts")
            .plain("correct_attempts", "correctAttempts")
            .plain("incorrect_attempts", "incorrectAttempts")
            .plain("mastery_level", "masteryLevel")
            .plain("wrong_answer_count", "wrongAnswerCount")
            .json("is_in_wrong_pool", "isInWrongPool")
            .instant("first_seen_at", "firstSeenAt")
            .instant("last_attempt_at", "lastAttemptAt"),
        "quiz-wrong-answers" => Columns::of("wrong_answers", item, "timestamp")
            .plain("user_id", "userId")
            .plain("missed_at", "timestamp")
            .plain("question_id", "questionId")
            .plain("session_id", "sessionId")
            .plain("remaining_tries", "remainingTries")
            .instant("last_attempt_at", "lastAttemptAt")
            .json("shuffled_answers", "shuffledAnswers")
            .json("attempts", "attempts"),
        _ => return None,
    };
    Some(columns)
}

fn of_shop(item: &Item) -> Option<Columns<'_>> {
    let (partition, sort) = (text_of(item, "PK"), text_of(item, "SK"));
    let (what, rest) = sort.split_once('#')?;
    let (of, id) = partition.split_once('#')?;
    let columns = match (of, what) {
        ("USER", "ORDER") => {
            let (date, order) = rest.split_once('#')?;
            Columns::of("orders", item, "orderDate")
                .said("order_id", Some(order))
                .said("user_id", Some(id))
                .said("listed_on", Some(date))
                .instant("ordered_at", "orderDate")
                .decimal("total", "total", 4)
                .plain("status", "status")
        }
        ("PRODUCT", "REVIEW") => {
            let names = ["userId", "user_identifier"].map(|name| text_of(item, name));
            Columns::of("reviews", item, "reviewDate")
                .said("product_id", Some(id))
                .said("review_id", Some(rest))
                .said("user_id", names.into_iter().find(|name| !name.is_empty()))
                .plain("user_name", "userName")
                .decimal("rating", "rating", 2)
                .plain("review_text", "reviewText")
                .instant("reviewed_at", "reviewDate")
                .plain("status", "status")
        }
        ("SENSOR", "TIMESTAMP") => {
            let (sensor, hour) = id.split_once("#HOUR#")?;
            Columns::of("readings", item, "timestamp")
                .said("sensor_id", Some(sensor))
                .said("hour", Some(hour))
                .said("reading_id", Some(rest))
                .instant("measured_at", "timestamp")
                .double("temperature", "temperature")
                .double("humidity", "humidity")
                .double("pressure", "pressure")
                .plain("status", "status")
        }
        _ => return None,
    };
    Some(columns)
}

fn of_glad(item: &Item) -> Option<Columns<'_>> {
    let skill = text_of(item, "SK").strip_prefix("SKILL#")?;
    let columns = Columns::of("skills", item, "CreatedAt")
        .said("username", text_of(item, "PK").strip_prefix("USER#"))
        .said("skill_name", Some(skill))
        .plain("proficiency_level", "ProficiencyLevel")
        .decimal("years_of_experience", "YearsOfExperience", 2)
        .plain("endorsements", "Endorsements")
        .plain("last_used_date", "LastUsedDate")
        .instant("created_at", "CreatedAt")
        .instant("updated_at", "UpdatedAt");
    Some(columns)
}

impl<'i> Columns<'i> {
    /// A row whose partition is the day of this attribute.
    fn of(dataset: &'static str, item: &'i Item, day: &str) -> Self {
        let columns = Self { dataset, item, row: Row::new() };
        let day = columns.scalar(day).map(|time| written(time)[..NO_DAY.len()].to_owned());
        columns.said("dt", Some(day.as_deref().unwrap_or(NO_DAY)))
    }

    fn said(mut self, column: &str, value: Option<&str>) -> Self {
        self.row.extend(value.map(|value| (column.to_owned(), value.to_owned())));
        self
    }

    /// The text or the digits that stand there, if any.
    fn scalar(&self, path: &str) -> Option<&'i str> {
        let value = value_at(self.item, path)?;
        value.as_s().or_else(|_| value.as_n()).ok().map(String::as_str)
    }

    fn plain(self, column: &str, path: &str) -> Self {
        let value = self.scalar(path);
        self.said(column, value)
    }

    fn instant(self, column: &str, path: &str) -> Self {
        let value = self.scalar(path).map(written);
        self.said(column, value.as_deref())
    }

    /// A number with so many digits behind the point.
    fn decimal(self, column: &str, path: &str, scale: usize) -> Self {
        let fixed = self.scalar(path).map(|digits| {
            let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
            format!("{whole}.{fraction:0<scale$}")
        });
        self.said(column, fixed.as_deref())
    }

    fn double(self, column: &str, path: &str) -> Self {
        let value = self.scalar(path).map(|digits| format!("{:?}", digits.parse::<f64>().expect("a number")));
        self.said(column, value.as_deref())
    }

    /// A list of texts, as Arrow shows it.
    fn list(self, column: &str, path: &str) -> Self {
        let texts = value_at(self.item, path).and_then(|value| value.as_l().ok()).map(|values| {
            let texts: Vec<&str> =
                values.iter().filter_map(|value| Some(value.as_s().ok()?.as_str())).collect();
            format!("[{}]", texts.join(", "))
        });
        self.said(column, texts.as_deref())
    }

    fn json(self, column: &str, path: &str) -> Self {
        let value = value_at(self.item, path).map(|value| plain_json(value).to_string());
        self.said(column, value.as_deref())
    }
}

/// A time as Arrow shows it; applications write an instant, a day, or epoch seconds.
fn written(time: &str) -> String {
    let instant: Timestamp = match (time.parse(), time.len()) {
        (Ok(seconds), _) => Timestamp::from_second(seconds).expect("a time"),
        (Err(_), 10) => format!("{time}T00:00:00Z").parse().expect("a day"),
        (Err(_), _) => time.parse().expect("an instant"),
    };
    if instant.subsec_nanosecond() == 0 { format!("{instant:.0}") } else { format!("{instant:.3}") }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the SDK keeps the variant for unknown types private")]
fn plain_json(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => Value::from(text.as_str()),
        AttributeValue::N(digits) => digits.parse().map(Value::Number).expect("a number"),
        AttributeValue::Bool(flag) => Value::from(*flag),
        AttributeValue::L(values) => values.iter().map(plain_json).collect(),
        AttributeValue::M(values) => {
            let members = values.iter().map(|(name, value)| (name.clone(), plain_json(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        other => panic!("workloads write no {other:?}"),
    }
}
