//! The first lines of `dev`.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use afterwrite_tests::programs::program;
use afterwrite_tests::sdk_items::sdk_item_of_json;
use afterwrite_tests::sqs;

use afterwrite_tests::development::{Development, SHOP, STATE, model_file, number, text};
use aws_sdk_sqs::config::Credentials;

/// The text that `dev` prints, up to its last line.
fn printed(arguments: &[&str]) -> String {
    let mut child = Command::new(program("afterwrite"))
        .args(["dev", "--port", "0"])
        .args(arguments)
        .env_clear()
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut text = String::new();
    for line in lines.map_while(Result::ok) {
        text.push_str(&format!("{line}\n"));
        if line.starts_with("aws dynamodb scan") {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    text
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn i1_the_environment_can_be_pasted_into_a_shell() {
    let (folder, model) = model_file(SHOP);
    // A folder whose name has a space and a quote.
    let named = folder.path().join("a user's models");
    std::fs::create_dir(&named).unwrap();
    let renamed = named.join("model.toml");
    std::fs::rename(model, &renamed).unwrap();
    let text = printed(&["--model", renamed.to_str().unwrap()]);
    let block: Vec<&str> =
        text.lines().filter(|line| line.starts_with("export ") || line.starts_with("unset ")).collect();
    let script = format!("{}\nenv", block.join("\n"));
    let stale = [("AWS_PROFILE", "work"), ("AWS_SESSION_TOKEN", "old"), ("AWS_REGION", "eu-west-1")];
    let output = Command::new("sh").args(["-c", &script]).env_clear().envs(stale).output().unwrap();
    let environment = String::from_utf8(output.stdout).unwrap();
    let has = |line: &str| environment.lines().any(|known| known == line);
    assert!(has("AWS_REGION=us-east-1") && has("AWS_DEFAULT_REGION=us-east-1"), "{environment}");
    assert!(has("AWS_ACCESS_KEY_ID=embedded") && has("AWS_SECRET_ACCESS_KEY=embedded"), "{environment}");
    assert!(has("AFTERWRITE_STATE_TABLE=AfterwriteState"), "{environment}");
    assert!(has(&format!("AFTERWRITE_MODEL={}", renamed.display())), "{environment}");
    assert!(environment.contains("AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:"), "{environment}");
    assert!(
        !environment.contains("AWS_PROFILE") && !environment.contains("AWS_SESSION_TOKEN"),
        "{environment}"
    );
}

/// Visits by the local day of their clinic: times in milliseconds, prices in text.
const VETS: &str = r##"
name = "vets"
generation = 1
[tables.Vets]
key = ["pk", "sk"]
separator = "|"
[entities.clinic]
key = { pk = "clinic|{clinic}", sk = "clinic" }
attributes = { tz = "S" }
[entities.visit]
key = { pk = "clinic|{clinic}", sk = "visit|{visit}" }
times = { started = "milliseconds" }
attributes = { started = "N", price = "S", status = "S" }
derive.amount = { number = "price" }
[lookups.zone]
of = "clinic"
key = { pk = "clinic|{clinic}", sk = "clinic" }
gives = ["tz"]
[rollups.day]
key = { PK = "clinic|{clinic}", SK = "DAY#{started:day@tz}" }
[[aggregates]]
name = "days"
of = "visit"
lookup = "zone"
into = "day"
when.status = [{ anything-but = "cancelled" }]
[aggregates.measures]
visits = "count"
revenue = { sum = "amount" }
"##;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn i1_the_sample_item_is_counted() {
    let (_folder, own) = model_file(SHOP);
    // Its only items that count look another item up, by its primary key.
    let (_other_folder, vets) = model_file(VETS);
    for model in ["exambuddy", "shop", "ecommerce", own.to_str().unwrap(), vets.to_str().unwrap()] {
        let development = Development::start(&["--model", model]);
        let sample = &development.announced["sample"];
        for item in sample["looked_up"].as_array().unwrap().iter().chain([sample]) {
            let put = development.client.put_item().table_name(item["table"].as_str().unwrap());
            put.set_item(Some(sdk_item_of_json(&item["item"]))).send().await.unwrap();
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let scanned = development.client.scan().table_name(STATE).send().await.unwrap();
            if scanned.items().iter().any(|item| item.get("EntityType") == Some(&text("ROLLUP"))) {
                break;
            }
            assert!(Instant::now() < deadline, "{model}: {sample} is not counted\n{}", development.errors());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        development.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn i2_indexes_that_the_model_declares_are_created_also_in_existing_tables() {
    let (folder, model) = model_file(SHOP);
    let data = folder.path().join("data");
    let arguments = ["--model", model.to_str().unwrap(), "--data", data.to_str().unwrap()];
    let first = Development::start(&arguments);
    first.put_order("1", number("10")).await;
    first.spent("10").await;
    first.stop();

    let index = "[tables.Corner.indexes.ByPrice]\nkey = [\"SK\", \"price\"]\ntypes = { price = \"N\" }\n[entities.order]";
    std::fs::write(&model, SHOP.replacen("[entities.order]", index, 1)).unwrap();
    let second = Development::start(&arguments);
    let query = second.client.query().table_name("Corner").index_name("ByPrice");
    let query = query.key_condition_expression("SK = :order AND price BETWEEN :low AND :high");
    let query = query.expression_attribute_values(":order", text("ORDER#1"));
    let query = query
        .expression_attribute_values(":low", number("9"))
        .expression_attribute_values(":high", number("11"));
    assert_eq!(query.send().await.unwrap().items().len(), 1);
    second.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn i6_the_ttl_attribute_is_named() {
    let (_folder, model) = model_file(SHOP);
    let arguments = ["--model", model.to_str().unwrap()];
    let development = Development::start(&arguments);
    assert_eq!(development.announced["time_to_live"]["Corner"], "ttl");
    development.stop();
    let text = tokio::task::block_in_place(|| printed(&arguments));
    assert!(text.contains("Corner (items expire by ttl)"), "{text}");
}

/// The queue that an application receives events from, as the page of events and the first line name it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn i7_the_queue_of_events_is_announced_and_has_them() {
    let model = format!("{SHOP}[[events]]\nname = \"order_placed\"\nof = \"order\"\ndetail = [\"price\"]\n");
    let (_folder, model) = model_file(&model);
    let arguments = ["--model", model.to_str().unwrap(), "--events", "sqs"];
    let development = Development::start(&arguments);
    let url = development.announced["events_queue"].as_str().expect("the queue's URL");
    let endpoint = development.announced["endpoints"]["sqs"].as_str().unwrap();
    assert!(url.starts_with(endpoint), "{url} is not at {endpoint}");
    development.put_order("1", number("7")).await;
    let variables = development.environment();
    let variable = |name: &str| variables[name].clone();
    let credentials =
        Credentials::new(variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"), None, None, "dev");
    let config = sqs::client(endpoint).config().to_builder().credentials_provider(credentials).build();
    let client = aws_sdk_sqs::Client::from_conf(config);
    let deadline = Instant::now() + Duration::from_secs(60);
    let message = loop {
        let received = client.receive_message().queue_url(url).send().await.unwrap();
        if let Some(message) = received.messages().first() {
            break message.body().unwrap_or_default().to_owned();
        }
        assert!(Instant::now() < deadline, "no event\n{}", development.errors());
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(message.contains("order_placed") && message.contains("ORDER#1"), "{message}");
    let page = include_str!("../../../docs/COOKBOOK.md");
    assert!(page.contains("`afterwrite dev --events sqs`") && page.contains("`events_queue`"));
    development.stop();

    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    assert!(development.announced["events_queue"].is_null(), "{}", development.announced);
    development.stop();
}
