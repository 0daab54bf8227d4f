//! The page *Play*.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use afterwrite_tests::development::{Development, SHOP, STATE, model_file, number, text};
use afterwrite_tests::programs::program;
use serde_json::Value;

use super::flow::fact;
use super::http::{ConsoleClient, PageResponse};

/// A console of a shop, and its token.
struct Play {
    console: ConsoleClient,
    token: String,
}

impl Play {
    fn of(development: &Development) -> Self {
        let console = ConsoleClient::of(development);
        let token = console.token("/play");
        Self { console, token }
    }

    fn post(&self, path: &str, fields: &[(&str, &str)]) -> PageResponse {
        self.console.post(path, &form(&[&[("token", self.token.as_str())], fields].concat()))
    }

    fn write(&self, action: &str, item: &str) -> PageResponse {
        self.post("/play/write", &[("table", "Corner"), ("item", item), ("action", action)])
    }

    fn set_faults(&self, fields: &[(&str, &str)]) {
        assert_eq!(self.post("/play/faults", fields).status, 303);
    }

    /// The newest changes, once there are so many.
    async fn changes(&self, wanted: usize) -> Vec<Value> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let found = self.console.json("/play")["changes"].as_array().unwrap().clone();
            if found.len() >= wanted {
                return found;
            }
            assert!(Instant::now() < deadline, "{} changes, not {wanted}: {found:?}", found.len());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The page's tables, once the recount has this verdict of so many items.
    async fn recounted(&self, verdict: &str, items: &str) -> Value {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let page = self.console.json("/play");
            let recount = &page["recount"][0];
            if recount["verdict"]["verdict"] == verdict && recount["items"] == items {
                return page;
            }
            assert!(Instant::now() < deadline, "not {verdict} of {items} items: {recount}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// The body of a form.
fn form(fields: &[(&str, &str)]) -> String {
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let fields = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
    fields.collect::<Vec<_>>().join("&")
}

fn shop(arguments: &[&str]) -> (tempfile::TempDir, Development) {
    let (folder, model) = model_file(SHOP);
    let development = Development::start(&[&["--model", model.to_str().unwrap()], arguments].concat());
    (folder, development)
}

fn order(number: &str, price: &str) -> String {
    format!(
        r#"{{"PK":{{"S":"CUSTOMER#c1"}},"SK":{{"S":"ORDER#{number}"}},"price":{{"N":"{price}"}},"note":{{"S":"a quiet note"}}}}"#
    )
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn an_item_of_the_editor_is_written_and_its_change_appears_with_what_follows() {
    let (_folder, development) = shop(&[]);
    let play = Play::of(&development);
    let page = play.console.get("/play").body;
    assert!(page.contains("No change was counted yet"), "{page}");
    // The editor has an item of the model.
    let sample = &development.announced["sample"]["item"];
    assert!(page.contains("CUSTOMER#") && sample["PK"].is_object(), "{page}");

    let written = play.write("put", &order("1", "10"));
    assert_eq!(written.status, 200, "{}", written.body);
    assert!(written.body.contains(">Written<"), "{}", written.body);
    let changes = play.changes(1).await;
    assert_eq!(changes[0]["operation"], "INSERT");
    assert_eq!(changes[0]["key"], "CUSTOMER#c1 ORDER#1");
    assert_eq!(changes[0]["rollups"], "CUSTOMER#c1 TOTAL: orders +1, spent +10");
    let rows = play.console.get(
        "/play/changes?after=0&mark=%5B0%2C%22Corner%22%2C%5B%22CUSTOMER%23c1%22%2C%22ORDER%231%22%5D%5D",
    );
    assert_eq!(rows.status, 200);
    for part in [
        r#"href="/rollups/at?pk=CUSTOMER%23c1&amp;sk=TOTAL""#,
        r#"href="/item?table=Corner&amp;pk=CUSTOMER%23c1&amp;sk=ORDER%231""#,
        r#"class="change marked""#,
        "after=1",
    ] {
        assert!(rows.body.contains(part), "no {part} in {}", rows.body);
    }
    assert_eq!(play.console.get("/play/changes?after=1").status, 204);
    // Without --show-items no page has contents of items.
    assert!(!play.console.get("/play").body.contains("a quiet note"));
    assert_eq!(play.console.json("/play?text=order%231")["changes"].as_array().unwrap().len(), 1);
    assert_eq!(play.console.json("/play?text=nothing")["changes"].as_array().unwrap().len(), 0);
    an_empty_list_says_why(&play);

    assert_eq!(play.write("delete", &order("1", "10")).status, 200);
    assert_eq!(play.changes(2).await[0]["rollups"], "CUSTOMER#c1 TOTAL: orders -1, spent -10");
    development.stop();
}

fn an_empty_list_says_why(play: &Play) {
    for (query, sentence) in [
        ("text=nothing", "No change has this text yet."),
        ("before=1", "No older change is kept."),
        ("before=1&text=nothing", "No older change has this text."),
    ] {
        let page = play.console.get(&format!("/play?{query}")).body;
        assert!(page.contains(sentence), "{query}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn an_item_that_cannot_be_written_says_why() {
    let (_folder, development) = shop(&[]);
    let play = Play::of(&development);
    for (item, table, problem) in [
        (r#"{"PK":{"S":"x"}}"#, "Corner", "ValidationException"),
        ("not an item", "Corner", "is not an item"),
        (r#"{"PK":{"S":"x"}}"#, "Other", "The model has no such table"),
    ] {
        let refused = play.post("/play/write", &[("table", table), ("item", item), ("action", "put")]);
        assert_eq!(refused.status, 400, "{item}");
        assert!(refused.body.contains(problem), "{item}: {}", refused.body);
    }
    assert_eq!(play.console.json("/play")["changes"].as_array().unwrap().len(), 0);
    development.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_record_that_is_delivered_again_changes_no_rollup() {
    let (_folder, development) = shop(&[]);
    let play = Play::of(&development);
    for (order, price) in [("1", "10"), ("2", "0.25"), ("1", "7")] {
        development.put_order(order, number(price)).await;
    }
    development.spent("7.25").await;
    for change in play.changes(3).await {
        let number = change["number"].as_str().unwrap();
        let again = play.post("/play/again", &[("number", number), ("format", "json")]);
        assert_eq!(again.status, 200, "{}", again.body);
        let tables: Value = serde_json::from_str(&again.body).unwrap();
        let values = tables["rollups"].as_array().unwrap();
        let of: BTreeMap<_, _> = values.iter().map(|row| (row["value"].as_str().unwrap(), row)).collect();
        assert_eq!(of["spent"]["before"], "7.25", "{tables}");
        assert_eq!(of["orders"]["after"], "2", "{tables}");
        for row in values {
            assert_eq!(row["before"], row["after"], "{tables}");
            assert_eq!(row["result"]["verdict"], "good", "{tables}");
        }
        for response in tables["responses"].as_array().unwrap() {
            assert_eq!(response["response"], r#"{"batchItemFailures":[]}"#, "{tables}");
        }
        assert_eq!(tables["responses"].as_array().unwrap().len(), 2, "{tables}");
        assert!(play.post("/play/again", &[("number", number)]).body.contains("nothing changed"));
    }
    development.spent("7.25").await;
    assert_eq!(play.post("/play/again", &[("number", "99")]).status, 400);
    development.stop();
}

/// The most waves of orders: each is at least one transaction and one delivery. All of them without a conflict, at 40 %, are one run in a
/// billion.
const MOST_WAVES: usize = 40;

/// Writes waves of four orders, at 1.5 each, until the flow shows a conflict, an invocation that failed, and a record that was delivered again;
/// returns the number of orders, all of them counted, and the spent sum.
async fn write_until_faults_show(development: &Development, play: &Play) -> (usize, usize) {
    let mut orders = 0;
    for _ in 0..MOST_WAVES {
        for _ in 0..4 {
            development.put_order(&orders.to_string(), number("1.5")).await;
            orders += 1;
        }
        let spent = orders / 4 * 6;
        development.spent(&spent.to_string()).await;
        let stages = play.console.json("/");
        let is_shown = |stage, name| fact(&stages, stage, name).parse::<u64>().unwrap() > 0;
        let facts = [
            ("aggregator", "delivered again after they were taken"),
            ("aggregator", "failed invocations"),
            ("rollups and mirrors", "conflicts"),
        ];
        if facts.into_iter().all(|(stage, name)| is_shown(stage, name)) {
            return (orders, spent);
        }
    }
    panic!("no fault showed: {}", play.console.json("/"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn under_faults_the_recount_is_equal_and_a_damaged_rollup_is_found() {
    let (_folder, development) = shop(&[]);
    let play = Play::of(&development);
    let faults = [("duplicate", "100"), ("crash", "40"), ("conflict", "40"), ("delay", "30")];
    play.set_faults(&faults);
    let set = play.console.json("/play")["faults"].clone();
    let values: Vec<_> = set.as_array().unwrap().iter().map(|row| row["value"].as_str().unwrap()).collect();
    assert_eq!(values, ["100", "40", "40", "30"]);
    let (orders, spent) = write_until_faults_show(&development, &play).await;
    let orders = orders.to_string();
    let page = play.recounted("good", &orders).await;
    assert_eq!(page["recount"][0]["items equal"], orders, "{page}");
    let (rollups, equal) = (&page["recount"][0]["rollups"], &page["recount"][0]["rollups equal"]);
    assert!(rollups == equal && *rollups != "0", "{page}");

    play.set_faults(&[("off", "1")]);
    assert_eq!(play.console.json("/play")["faults"][0]["value"], "0");
    let update = development.client.update_item().table_name(STATE);
    let update = update.key("PK", text("CUSTOMER#c1")).key("SK", text("TOTAL"));
    let update = update.update_expression("SET spent = spent + :one");
    update.expression_attribute_values(":one", number("1")).send().await.unwrap();
    let page = play.recounted("bad", &orders).await;
    let finding = &page["findings"][0];
    assert_eq!(finding["place"], "rollup", "{page}");
    let values = [spent, spent + 1].map(|value| Value::from(value.to_string()));
    assert_eq!([&finding["expected"], &finding["found"]], [&values[0], &values[1]], "{page}");
    let shown = play.console.get("/play/recount").body;
    assert!(shown.contains(r#"href="/rollups/at?pk=CUSTOMER%23c1&amp;sk=TOTAL""#), "{shown}");
    development.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn writes_of_other_sites_are_refused() {
    let (_folder, development) = shop(&[]);
    let play = Play::of(&development);
    let (host, origin) = (play.console.host.clone(), format!("http://{}", play.console.host));
    let fields = [("table", "Corner"), ("item", &*order("1", "10")), ("number", "1"), ("duplicate", "100")];
    let with_token = form(&[&[("token", play.token.as_str())], &fields[..]].concat());
    for path in ["/play/write", "/play/faults", "/play/again"] {
        for (reason, host, origin, body) in [
            ("no token", host.as_str(), origin.as_str(), &form(&fields)),
            ("a foreign origin", &host, "http://evil.example", &with_token),
            ("a foreign host", "evil.example", "http://evil.example", &with_token),
        ] {
            let refused = play.console.request("POST", path, &[("Host", host), ("Origin", origin)], body);
            assert_eq!(refused.status, 403, "{path}, {reason}: {}", refused.body);
        }
    }
    let scanned = development.client.scan().table_name("Corner").send().await.unwrap();
    assert!(scanned.items().is_empty());
    assert_eq!(play.console.json("/play")["faults"][0]["value"], "0");
    development.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn contents_are_text_and_secrets_are_never_shown() {
    const SCRIPT: &str = "<script>alert(1)</script>";
    let model = SHOP.replacen("[rollups.customer]", "secret = [\"password\"]\n[rollups.customer]", 1);
    let (_folder, file) = model_file(&model);
    let development = Development::start(&["--model", file.to_str().unwrap(), "--show-items"]);
    let play = Play::of(&development);
    let item = format!(
        r#"{{"PK":"CUSTOMER#{SCRIPT}","SK":"ORDER#1","price":5,"note":"{SCRIPT} in a note","password":"swordfish"}}"#
    );
    assert_eq!(play.write("put", &item).status, 200);
    play.changes(1).await;
    for path in ["/play", "/play/changes?after=0"] {
        let page = play.console.get(path).body;
        assert!(page.contains("in a note"), "{page}");
        assert!(!page.contains("<script>alert") && !page.contains("swordfish"), "{page}");
    }
    let refused = play.write("put", &format!("{{\"PK\":\"</textarea>{SCRIPT}\"}}"));
    assert_eq!(refused.status, 400);
    assert!(!refused.body.contains("<script>alert"), "{}", refused.body);
    development.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_deployment_has_no_page_play() {
    let (_folder, development) = shop(&[]);
    let mut command = Command::new(program("afterwrite"));
    command.args(["console", "--listen", "127.0.0.1:0", "--allow-writes"]).env_clear();
    let mut child = command.envs(development.environment()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    let console = ConsoleClient::at(url.trim_end_matches(';'));
    let page = console.get("/play");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(page.status, 404);
    assert!(page.body.contains("<code>afterwrite dev</code>"), "{}", page.body);
    assert!(!page.body.contains(r#"href="/play""#), "{}", page.body);
    development.stop();
}
