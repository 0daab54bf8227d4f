//! The page *Health* inside `dev`: a damaged rollup is found by the button for `verify`, and mended by the button for `repair`.

use std::time::{Duration, Instant};

use afterwrite_tests::development::{Development, SHOP, STATE, model_file, number, text};

use super::http::{ConsoleClient, PageResponse, encoded};

/// How long a command may take on a busy machine.
const ENDED_WITHIN: Duration = Duration::from_secs(120);

/// The page once the newest command has ended.
pub(super) async fn after_command(console: &ConsoleClient, command: &str) -> String {
    let deadline = Instant::now() + ENDED_WITHIN;
    loop {
        let page = console.get("/health").body;
        let newest = page.split("<details").nth(1).unwrap_or_default().to_owned();
        // While it runs, the page asks for its end by itself.
        let is_running = newest.contains(r#"warning">running<"#);
        assert!(!is_running || page.contains(r#"hx-get="/health/running""#), "{page}");
        if newest.contains(&format!("afterwrite {command}")) && newest.contains("exit code") {
            return page;
        }
        assert!(Instant::now() < deadline, "{page}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

pub(super) fn run(console: &ConsoleClient, command: &str) -> PageResponse {
    let token = console.token("/health/run?command=verify");
    console.post("/health/run", &format!("token={token}&command={}", encoded(command)))
}

/// The command of the newest link to the plan of a repair.
pub(super) fn offered_repair(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("/health/run?command=repair%20")?;
    let named = rest.split('"').next()?.replace("%3A", ":").replace("%2D", "-").replace("%2E", ".");
    Some(format!("repair {named}"))
}

/// Nothing runs: the page does not ask for its parts again, and an earlier page gets its last answer, with all that has changed.
fn assert_asks_no_more(console: &ConsoleClient) {
    let ended = console.get("/health/running");
    assert!(ended.head.to_lowercase().contains("hx-trigger: ended"), "{}", ended.head);
    assert!(ended.body.contains(r#"<div id="incidents" hx-swap-oob="true">"#), "{}", ended.body);
    let page = console.get("/health").body;
    assert!(!page.contains("hx-get=\"/health/running") && !page.contains("ETA"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn drift_is_found_by_a_button_and_repaired_by_another_after_its_plan() {
    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    let console = ConsoleClient::of(&development);
    for order in ["1", "2"] {
        development.put_order(order, number("4.5")).await;
    }
    development.spent("9").await;
    let plan = console.get("/health/run?command=verify").body;
    assert!(plan.contains("--tolerance 5"), "a difference is not looked at again after five minutes: {plan}");
    assert_eq!(run(&console, "verify").status, 303);
    let equal = after_command(&console, "verify").await;
    assert!(equal.contains("exit code 0") && offered_repair(&equal).is_none(), "{equal}");

    let damage = development.client.update_item().table_name(STATE);
    let damage = damage.key("PK", text("CUSTOMER#c1")).key("SK", text("TOTAL"));
    let damage = damage.update_expression("SET spent = spent + :one");
    damage.expression_attribute_values(":one", number("1")).send().await.unwrap();
    assert_eq!(run(&console, "verify").status, 303);
    let found = after_command(&console, "verify").await;
    assert!(found.contains("exit code 1"), "{found}");
    let repair = offered_repair(&found).unwrap_or_else(|| panic!("no repair: {found}"));

    let plan = console.get(&format!("/health/run?command={}", encoded(&repair))).body;
    assert!(plan.contains("Dry run: nothing was written") && plan.contains("spent"), "{plan}");
    assert!(plan.contains("--tolerance 5 --dry-run"), "a plan does not wait for five minutes: {plan}");
    development.spent("10").await;
    // Without the token of the session, and of findings that do not exist, nothing starts.
    assert_eq!(console.post("/health/run", &format!("command={}", encoded(&repair))).status, 403);
    for unknown in ["repair run:none", "repair report:2026-02-06T10:15:00.000Z"] {
        let refused = run(&console, unknown);
        assert!(refused.status == 400 && refused.body.contains("no findings"), "{unknown}: {}", refused.body);
    }
    assert_eq!(run(&console, &repair).status, 303);
    let repaired = after_command(&console, "repair").await;
    assert!(repaired.contains("exit code 0"), "{repaired}");
    assert_asks_no_more(&console);
    development.spent("9").await;
    development.stop();
}
