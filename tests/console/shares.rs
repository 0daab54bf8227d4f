//! The share of a count in another one: an admin asks for a project's pass rate of last week, and the model declares no rate.

use std::time::{Duration, Instant};

use afterwrite_tests::development::{Development, number, text};
use serde_json::{Value, json};

use super::browser::walk;
use super::http::ConsoleClient;
use super::matches::{column, row};

const TABLE: &str = "ExamBuddyTable";
/// The scores of ten questions, by day; `None` is an attempt that was not completed. An attempt with 70 % or more is passed.
const WEEK: [(&str, &[Option<u32>]); 3] = [
    ("2026-02-02", &[Some(7), Some(6), Some(10)]),
    ("2026-02-04", &[Some(9), None, Some(2), Some(8)]),
    ("2026-02-08", &[Some(7), Some(7)]),
];
const DAYS: &str = "/rollups/of?name=project_day&v.admin_id=a1&v.project_id=p1&from=2026-02-02&to=2026-02-08";

/// Writes a project and its attempts, and waits until all of them are counted.
pub(super) async fn counted_week() -> (Development, ConsoleClient) {
    let development = Development::start(&["--model", "exambuddy"]);
    let put = || development.client.put_item().table_name(TABLE);
    let project = put().item("PK", text("ADMIN#a1")).item("SK", text("PROJECT#p1"));
    let project = project.item("GSI1PK", text("PROJECT#p1")).item("GSI1SK", text("PROJECT#p1"));
    project.send().await.unwrap();
    let attempts = WEEK.iter().flat_map(|(day, scores)| scores.iter().map(move |score| (day, score)));
    let all = attempts.clone().count().to_string();
    for (place, (day, score)) in attempts.enumerate() {
        let status = if score.is_some() { "COMPLETED" } else { "STARTED" };
        let attempt = put().item("PK", text("CANDIDATE#c1")).item("SK", text(&format!("ATTEMPT#{place}")));
        let attempt = attempt.item("project_id", text("p1")).item("status", text(status));
        let attempt = attempt.item("started_at", text(&format!("{day}T10:00:00Z")));
        let attempt = attempt.item("total_questions", number("10"));
        let attempt = match score {
            Some(score) => attempt.item("score", number(&score.to_string())),
            None => attempt,
        };
        attempt.send().await.unwrap();
    }
    let console = ConsoleClient::of(&development);
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let page = console.json("/rollups/of?name=project&v.admin_id=a1&v.project_id=p1");
        if row(&page["measures"], "measure", "attempts")["value"].as_str() == Some(&all) {
            return (development, console);
        }
        assert!(Instant::now() < deadline, "{page}\n{}", development.errors());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The passed and the completed attempts of some days, and their quotient in percent with two places.
fn recount(days: &[&[Option<u32>]]) -> [String; 3] {
    let completed: Vec<u32> = days.iter().flat_map(|scores| scores.iter().flatten().copied()).collect();
    let passed = completed.iter().filter(|score| **score >= 7).count();
    // No quotient of these numbers is in the middle between two percentages with two places.
    let hundredths = (2 * 10_000 * passed + completed.len()) / (2 * completed.len());
    [passed.to_string(), completed.len().to_string(), format!("{}.{:02}", hundredths / 100, hundredths % 100)]
}

/// The percentages of a page, from the first bucket to all together.
fn percentages(page: &Value) -> Vec<[String; 3]> {
    let columns = ["passed", "completed", "percent"].map(|name| column(&page["shares"], name));
    (0..columns[0].len()).map(|place| columns.each_ref().map(|column| column[place].clone())).collect()
}

/// Every bucket and all of them together have the share of their own counts; so have one rollup and the rollups of a partition.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_share_is_that_of_the_counts_beside_it() {
    let (development, console) = counted_week().await;
    let week = console.json(&format!("{DAYS}&share=passed&share_of=completed"));
    let days: Vec<&[Option<u32>]> = WEEK.iter().map(|(_, scores)| *scores).collect();
    let each = days.iter().map(|scores| recount(&[scores]));
    assert_eq!(percentages(&week), each.chain([recount(&days)]).collect::<Vec<_>>());
    assert_eq!(percentages(&week).last().unwrap()[2], "75.00", "6 of 8, which is no mean of days");
    let bins = console.json(&format!("{DAYS}&share=pct+from+60&share_of=pct,+all+values"));
    let last = bins["shares"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["pct from 60"], &last["pct, all values"], &last["percent"]),
        (&"7".into(), &"8".into(), &"87.50".into())
    );

    let csv = console.get(&format!("{DAYS}&format=csv")).body;
    assert!(csv.contains("pct") && !csv.contains(" value"), "numbers alone: {csv}");

    let total = console
        .json("/rollups/of?name=project&v.admin_id=a1&v.project_id=p1&share=passed&share_of=completed");
    assert_eq!(percentages(&total), [recount(&days)]);
    let listed = console
        .json("/rollups/of?name=project_day&v.admin_id=a1&v.project_id=p1&share=passed&share_of=completed");
    assert_eq!(percentages(&listed).len(), WEEK.len());
    let csv = console.get(&format!("{DAYS}&share=passed&share_of=completed&format=csv")).body;
    assert!(csv.starts_with("started_at:day,passed,completed,percent\r\n2026-02-02,2,3,66.67\r\n"), "{csv}");
    let unknown = console.json(&format!("{DAYS}&share=passed&share_of=nothing"));
    assert_eq!(unknown["shares"], Value::Null, "{unknown}");
    development.stop();
}

/// An admin without a page of instructions: the pass rate of a project's last week.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and Chromium: run tests/run"]
async fn a_pass_rate_is_found_by_choosing_two_counts() {
    let (development, _) = counted_week().await;
    let texts = walk(
        development.announced["console"].as_str().unwrap(),
        &json!([
            { "open": "/" },
            { "click": "nav a[href='/rollups']" },
            { "click": "td a::-p-text(project_day)" },
            { "type": "input[name='v.admin_id']", "text": "a1" },
            { "type": "input[name='v.project_id']", "text": "p1" },
            { "type": "input[name=from]", "text": "2026-02-02" },
            { "type": "input[name=to]", "text": "2026-02-08" },
            { "choose": "select[name=share]", "value": "passed" },
            { "choose": "select[name=share_of]", "value": "completed" },
            { "click": "main form button" },
            { "wait": "h2::-p-text(Share of passed in completed)" },
            { "read": "main", "as": "week" },
            { "judge": true },
        ]),
    );
    let week = texts["week"].as_str().unwrap();
    assert!(week.contains("75.00") && week.contains("66.67"), "{week}");
    development.stop();
}
