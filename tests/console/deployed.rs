//! The console beside a deployment on moto.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use afterwrite_local::sdk::REGION;
use afterwrite_tests::archive::BUCKET;
use afterwrite_tests::development::{SHOP, STATE, model_file, number, text};
use afterwrite_tests::moto::MotoServer;
use afterwrite_tests::programs::program;
use afterwrite_tests::sdk::sdk_config;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, PutRequest, ScalarAttributeType, StreamSpecification, StreamViewType, WriteRequest,
};

use super::browser::look;
use super::flow::fact;
use super::health::offered_repair;
use super::http::{ConsoleClient, encoded};

/// A running `afterwrite console`; dropping it kills it.
pub(super) struct RunningConsole {
    child: Child,
    pub(super) url: String,
}

impl Drop for RunningConsole {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A shop on moto: its tables, orders of 4 customers (40, unless a test wants fewer), and a bucket.
pub(super) struct DeployedShop {
    moto: MotoServer,
    model: String,
    _folder: tempfile::TempDir,
}

fn key(name: &str, role: KeyType) -> KeySchemaElement {
    KeySchemaElement::builder().attribute_name(name).key_type(role).build().unwrap()
}

fn attribute(name: &str) -> AttributeDefinition {
    let attribute = AttributeDefinition::builder().attribute_name(name);
    attribute.attribute_type(ScalarAttributeType::S).build().unwrap()
}

impl DeployedShop {
    pub(super) async fn new() -> Self {
        Self::with_orders(40).await
    }

    async fn with_orders(orders: u32) -> Self {
        let moto = MotoServer::with_archive().await;
        let (folder, model) = model_file(SHOP);
        let shop = Self { moto, model: model.to_str().unwrap().to_owned(), _folder: folder };
        let client = shop.client();
        for (table, has_stream) in [("Corner", true), (STATE, false)] {
            let create = client.create_table().table_name(table).billing_mode(BillingMode::PayPerRequest);
            let create = create.key_schema(key("PK", KeyType::Hash)).key_schema(key("SK", KeyType::Range));
            let create = create.attribute_definitions(attribute("PK")).attribute_definitions(attribute("SK"));
            let create = if has_stream {
                let stream = StreamSpecification::builder().stream_enabled(true);
                let stream = stream.stream_view_type(StreamViewType::NewAndOldImages).build().unwrap();
                create.stream_specification(stream)
            } else {
                let keys = Projection::builder().projection_type(ProjectionType::KeysOnly).build();
                let parked = GlobalSecondaryIndex::builder().index_name("parked").projection(keys);
                let parked = parked.key_schema(key("behind", KeyType::Hash)).build().unwrap();
                create.attribute_definitions(attribute("behind")).global_secondary_indexes(parked)
            };
            create.send().await.unwrap();
        }
        for order in 0..orders {
            let put =
                client.put_item().table_name("Corner").item("PK", text(&format!("CUSTOMER#c{}", order % 4)));
            let put = put.item("SK", text(&format!("ORDER#{order:03}")));
            put.item("price", number(&format!("{order}.25"))).send().await.unwrap();
        }
        // One segment after the other: a backfill of several at once has lost counts here, and moto is not made for concurrent transactions.
        shop.succeed(&["backfill", "--yes", "--without-recovery", "--segments", "1", "--workers", "1"]);
        shop
    }

    /// Adds notes of the 4 customers, which no rollup counts. Moto copies a whole table for each write of a transaction, so as many orders
    /// would take a minute.
    async fn add_notes(&self, notes: usize) {
        let mut requests = Vec::new();
        for note in 0..notes {
            let customer = text(&format!("CUSTOMER#c{}", note % 4));
            let put = PutRequest::builder().item("PK", customer).item("SK", text(&format!("NOTE#{note:03}")));
            requests.push(WriteRequest::builder().put_request(put.build().unwrap()).build());
        }
        for batch in requests.chunks(25) {
            let write = self.client().batch_write_item().request_items("Corner", batch.to_vec());
            write.send().await.unwrap();
        }
    }

    async fn disable_stream(&self) {
        let stream = StreamSpecification::builder().stream_enabled(false).build().unwrap();
        self.client().update_table().table_name("Corner").stream_specification(stream).send().await.unwrap();
    }

    fn client(&self) -> Client {
        Client::new(&sdk_config(self.moto.endpoint()))
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("afterwrite"));
        command.args(arguments).env_clear().envs([
            ("AWS_ENDPOINT_URL", self.moto.endpoint()),
            ("AWS_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AFTERWRITE_MODEL", &self.model),
            ("AFTERWRITE_STATE_TABLE", STATE),
        ]);
        command
    }

    fn succeed(&self, arguments: &[&str]) {
        let done = tokio::task::block_in_place(|| self.command(arguments).output().unwrap());
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    pub(super) fn console(&self, arguments: &[&str]) -> RunningConsole {
        let mut command = self.command(&["console"]);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.split_whitespace().find(|word| word.starts_with("http://"));
        let url = url.unwrap_or_else(|| panic!("no address: {line}")).trim_end_matches(';').to_owned();
        RunningConsole { child, url }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and moto: run tests/run"]
async fn a_deployment_is_shown_as_it_is_and_what_is_unknown_is_not_fine() {
    let shop = DeployedShop::new().await;
    let running = shop.console(&["--listen", "127.0.0.1:0"]);
    let console = ConsoleClient::at(&running.url);

    // No function reads the stream, and no bucket is named: neither is fine.
    let flow = console.json("/");
    let stages = flow["stages"].as_array().unwrap();
    let verdict = |name: &str| {
        let stage = stages.iter().find(|row| row["stage"] == name);
        stage.unwrap_or_else(|| panic!("no {name}: {flow}"))["verdict"]["verdict"].clone()
    };
    assert_eq!(verdict("Corner"), "bad", "{flow}");
    for unknown in ["archive", "exporter", "verifier"] {
        assert_eq!(verdict(unknown), "unknown", "{flow}");
    }
    // Nobody measures units here: their price is that of the model.
    let units = fact(&flow, STATE, "units of a new item");
    assert_eq!(units, "4 planned", "an entry and a rollup, both in a transaction: {flow}");
    assert_eq!(fact(&flow, STATE, "a million new items"), "$2.50 planned");
    let findings = console.json("/health/findings");
    let readers = findings["findings"].as_array().unwrap().iter().find(|row| row["check"] == "readers");
    assert_eq!(readers.unwrap()["verdict"]["verdict"], "bad", "{findings}");

    check_job_and_plan(&console);
    check_numbers(&console);
    shop.disable_stream().await;
    // A console keeps the facts of a deployment for a while. A console that is started now reads the present facts.
    let later = shop.console(&["--listen", "127.0.0.1:0"]);
    check_without_stream(&ConsoleClient::at(&later.url));
}

/// Nothing of the table is counted any more: the stage and the findings say so, and the numbers are shown as they are.
fn check_without_stream(console: &ConsoleClient) {
    let flow = console.json("/");
    assert_eq!(fact(&flow, "Corner", "stream"), "none", "{flow}");
    let findings = console.json("/health/findings");
    let view = findings["findings"].as_array().unwrap().iter().find(|row| row["check"] == "stream view type");
    let view = view.unwrap_or_else(|| panic!("{findings}"));
    assert_eq!(view["verdict"]["verdict"], "bad", "{view}");
    assert!(view.to_string().contains("Enable a stream"), "{view}");
    check_numbers(console);
}

/// The backfill is a job; its page has the commands, and no button. A plan is that of the command.
fn check_job_and_plan(console: &ConsoleClient) {
    let health = console.json("/health");
    let job = health["jobs"][0]["job"].as_str().unwrap();
    assert!(job.starts_with("backfill-"), "{health}");
    assert_eq!(health["jobs"][0]["status"]["text"], "done", "{health}");
    let page = console.get(&format!("/health/job?id={job}"));
    assert!(page.body.contains(job) && !page.body.contains("method=\"post\""), "{}", page.body);
    for (command, option, wanted) in
        [("redrive", "--yes", "items would change"), ("verify", "--report", "Compares everything")]
    {
        let plan = console.get(&format!("/health/run?command={command}"));
        let run = format!("afterwrite {command} {option}");
        assert!(plan.body.contains(wanted) && plan.body.contains(&run), "{}", plan.body);
        assert!(!plan.body.contains("method=\"post\""), "{}", plan.body);
    }
    assert_eq!(console.post("/health/run", "command=verify").status, 403);
    assert_eq!(console.get("/play").status, 404);
}

/// The numbers are those of the orders.
fn check_numbers(console: &ConsoleClient) {
    let mut spent: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for order in 0..40 {
        let (count, cents) = spent.entry(order % 4).or_default();
        (*count, *cents) = (*count + 1, *cents + order * 100 + 25);
    }
    for (customer, (count, cents)) in spent {
        let rollup = console.json(&format!("/rollups/at?pk=CUSTOMER%23c{customer}&sk=TOTAL")).to_string();
        let cents = format!("{}.{:02}", cents / 100, cents % 100);
        let cents = cents.trim_end_matches('0').trim_end_matches('.');
        assert!(
            rollup.contains(&format!("\"{count}\"")) && rollup.contains(&format!("\"{cents}\"")),
            "{rollup}"
        );
        let unknown = r#""value":{"text":"unknown: no item has it","verdict":"unknown"}"#;
        assert!(rollup.contains(unknown), "{rollup}");
    }
    let page = console.get("/rollups/at?pk=CUSTOMER%23c1&sk=TOTAL").body;
    assert!(page.contains("<code>FreshnessSeconds</code>"), "where to look: {page}");
}

/// A search reads nothing before the first click, one page of the table for each click, and says how far it is.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and moto: run tests/run"]
async fn contributors_of_a_deployment_are_found_page_by_page() {
    let shop = DeployedShop::new().await;
    shop.add_notes(580).await;
    let running = shop.console(&["--listen", "127.0.0.1:0"]);
    let console = ConsoleClient::at(&running.url);
    let key = "pk=CUSTOMER%23c1&sk=TOTAL";
    let rollup = console.get(&format!("/rollups/at?{key}")).body;
    assert!(rollup.contains("read the first page") && !rollup.contains("items read"), "{rollup}");

    let first = console.get(&format!("/rollups/contributors?{key}&step=1")).body;
    assert!(first.contains("500 items read") && first.contains(">Read on<"), "{first}");
    let (_, next) = first.split_once("search=").unwrap();
    let search = next.split('&').next().unwrap();
    let step = |step: u32| console.json(&format!("/rollups/contributors?{key}&search={search}&step={step}"));
    // The same step again reads nothing more.
    for _ in 0..2 {
        let page = step(1);
        let progress = &page["progress"][0];
        assert_eq!((&progress["items_read"], &progress["complete"]), (&"500".into(), &"no".into()), "{page}");
        assert_eq!(page["sums"][0]["comparison"]["verdict"], "unknown", "{page}");
    }
    let page = step(2);
    let progress = &page["progress"][0];
    assert_eq!((&progress["items_read"], &progress["complete"]), (&"620".into(), &"yes".into()), "{page}");
    assert_eq!(progress["contributors"], "10", "{page}");
    for sum in page["sums"].as_array().unwrap() {
        assert_eq!(sum["comparison"]["verdict"], "good", "{page}");
    }
    let last = console.get(&format!("/rollups/contributors?{key}&search={search}&step=2")).body;
    assert!(last.contains("All tables were read") && !last.contains(">Read on<"), "{last}");
    assert!(last.contains("/item?table=Corner&amp;pk=CUSTOMER%23c1&amp;sk=ORDER%23001"), "{last}");
}

/// A report of the verifier with drift has a link to the plan of its repair; a console that is read-only shows the command.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and moto: run tests/run"]
async fn findings_of_the_verifier_are_repaired_from_its_report() {
    let shop = DeployedShop::new().await;
    let damage = shop.client().update_item().table_name(STATE).key("PK", text("CUSTOMER#c1"));
    let damage = damage.key("SK", text("TOTAL")).update_expression("SET spent = spent + :one");
    damage.expression_attribute_values(":one", number("1")).send().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("drift.jsonl");
    let verify = ["verify", "--report", file.to_str().unwrap()];
    let found = tokio::task::block_in_place(|| shop.command(&verify).output().unwrap());
    assert_eq!(found.status.code(), Some(1), "{}", String::from_utf8_lossy(&found.stderr));
    let name = "reports/verify/2026-02-06T10:15:00.000Z";
    let report = format!(
        r#"{{"sample":1,"checked_targets":44,"drifted_targets":1,"undecided_targets":0,"findings":"{name}.jsonl"}}"#
    );
    for (ending, object) in [("json", report.into_bytes()), ("jsonl", std::fs::read(&file).unwrap())] {
        let put = shop.moto.s3().put_object().bucket(BUCKET).key(format!("{name}.{ending}"));
        put.body(object.into()).send().await.unwrap();
    }

    let running = shop.console(&["--listen", "127.0.0.1:0", "--bucket", BUCKET]);
    let console = ConsoleClient::at(&running.url);
    let reports = console.get("/health/reports").body;
    let repair = offered_repair(&reports).unwrap_or_else(|| panic!("no repair: {reports}"));
    assert_eq!(repair, "repair report:2026-02-06T10:15:00.000Z");
    let plan = console.get(&format!("/health/run?command={}", encoded(&repair))).body;
    assert!(plan.contains("Dry run: nothing was written") && plan.contains("spent"), "{plan}");
    assert!(plan.contains("The console is read-only") && !plan.contains("method=\"post\""), "{plan}");
    // The bucket of the console is that of the commands: without it, no dataset is compared.
    let verify = console.get("/health/run?command=verify").body;
    for page in [&plan, &verify] {
        assert!(page.contains(&format!("--bucket {BUCKET}")), "{page}");
    }
    assert_eq!(console.post("/health/run", &format!("command={}", encoded(&repair))).status, 403);
}

/// The state table is gone: the jobs are unknown, and the other parts of the page are shown.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and moto: run tests/run"]
async fn a_refused_call_hides_no_other_part_of_health() {
    let shop = DeployedShop::with_orders(4).await;
    let running = shop.console(&["--listen", "127.0.0.1:0"]);
    let console = ConsoleClient::at(&running.url);
    assert!(!console.get("/health").body.contains("Unknown: the jobs could not be read."));
    assert!(console.json("/health")["parked"].as_array().unwrap().is_empty());
    for wrong in ["x", "%7B%7D", "%7B%22PK%22%3A%22x%22%7D"] {
        let refused = console.get(&format!("/health?format=json&parked_after={wrong}"));
        assert_eq!(refused.status, 400, "{wrong}: {}", refused.body);
        assert!(refused.body.contains("has no such key"), "{wrong}: {}", refused.body);
    }
    shop.client().delete_table().table_name(STATE).send().await.unwrap();
    let page = console.get("/health");
    assert_eq!(page.status, 200, "{}", page.body);
    for shown in
        ["Unknown: the jobs could not be read.", "Parked items", "Commands", "Verifications", "Findings"]
    {
        assert!(page.body.contains(shown), "{shown}: {}", page.body);
    }
    // A program that counts the rows of a table must not read a failure as none.
    for format in ["json", "csv"] {
        let failed = console.get(&format!("/health?format={format}"));
        assert_eq!(failed.status, 400, "{}", failed.body);
        assert!(failed.body.contains(STATE), "{}", failed.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and moto: run tests/run"]
async fn beyond_this_machine_every_request_needs_the_token() {
    let shop = DeployedShop::new().await;
    let running = shop.console(&["--listen", "0.0.0.0:0", "--allow-writes", "--allow-host", "ops.example"]);
    let port = running.url.rsplit(':').next().unwrap().split('/').next().unwrap();
    let console = ConsoleClient::at(&format!("http://127.0.0.1:{port}"));
    let token = running.url.split_once("token=").unwrap().1;
    for path in ["/", "/health", "/assets/console.js", "/?token=wrong"] {
        assert_eq!(console.get(path).status, 401, "{path}");
    }
    let first = console.get(&format!("/health?token={token}"));
    let head = first.head.to_lowercase();
    assert!(first.status == 303 && head.contains("location: /health\r\n"), "{}", first.head);
    assert!(head.contains("httponly; samesite=strict"), "{}", first.head);
    let cookie = format!("afterwrite_console={token}");
    let with =
        |host: &str| console.request("GET", "/health", &[("Host", host), ("Cookie", &cookie)], "").status;
    assert_eq!([with(&console.host), with("ops.example"), with("evil.example")], [200, 200, 403]);
    // The token of the address is not that of writes.
    let origin = format!("http://{}", console.host);
    let headers = [("Host", console.host.as_str()), ("Origin", origin.as_str()), ("Cookie", cookie.as_str())];
    let form = format!("token={token}&command=verify");
    assert_eq!(console.request("POST", "/health/run", &headers, &form).status, 403);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries, moto and Chromium: run tests/run"]
async fn pages_of_a_deployment_are_for_everyone() {
    let shop = DeployedShop::new().await;
    let running = shop.console(&["--listen", "127.0.0.1:0", "--show-items"]);
    let pages = [
        ("deployed-flow", "/"),
        ("deployed-health", "/health"),
        ("deployed-findings", "/health/findings"),
        ("deployed-plan", "/health/run?command=verify"),
        ("deployed-rollups", "/rollups"),
        ("deployed-rollup", "/rollups/at?pk=CUSTOMER%23c1&sk=TOTAL"),
        ("deployed-item", "/item?table=Corner&pk=CUSTOMER%23c1&sk=ORDER%23001"),
        ("deployed-missing", "/item?table=Corner&pk=CUSTOMER%23c9&sk=ORDER%23999"),
    ];
    look(&running.url, &pages.map(|(name, path)| (name, path.to_owned())));
}
