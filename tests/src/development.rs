//! A running `afterwrite dev`, and other commands in the environment that it prints.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;
use tempfile::TempDir;

use crate::programs::program;

/// The state table of `dev`.
pub const STATE: &str = "AfterwriteState";

/// A shop with orders by customer, in a table of its own.
pub const SHOP: &str = r##"
name = "corner"
generation = 1
[tables.Corner]
key = ["PK", "SK"]
[entities.order]
key = { PK = "CUSTOMER#{customer_id}", SK = "ORDER#{order_id}" }
attributes = { price = "N" }
[rollups.customer]
key = { PK = "CUSTOMER#{customer_id}", SK = "TOTAL" }
[[aggregates]]
name = "orders"
of = "order"
into = "customer"
[aggregates.measures]
orders = "count"
spent = { sum = "price" }
"##;

/// A running `afterwrite dev`; dropping it kills it.
#[derive(Debug)]
pub struct Development {
    child: Child,
    /// The first line of `--json`.
    pub announced: Value,
    output: Arc<Mutex<String>>,
    errors: Arc<Mutex<String>>,
    /// DynamoDB.
    pub client: Client,
}

impl Development {
    /// Starts it with these arguments, on free ports.
    ///
    /// # Panics
    /// If it announces nothing.
    pub fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(program("afterwrite"))
            .args(["dev", "--json", "--port", "0"])
            .args(arguments)
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut output = BufReader::new(child.stdout.take().expect("a stream"));
        let errors = collected(child.stderr.take().expect("a stream"));
        let mut first = String::new();
        output.read_line(&mut first).expect("a line");
        let announced: Value = serde_json::from_str(&first).unwrap_or_else(|_| {
            panic!("no endpoints: {first} {}", errors.lock().expect("no reader has panicked"))
        });
        let output = collected(output);
        let client = client(&announced);
        Self { child, announced, output, errors, client }
    }

    /// The variables that `dev` prints.
    ///
    /// # Panics
    /// If nothing was announced.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<String, String> {
        serde_json::from_value(self.announced["environment"].clone()).expect("a value")
    }

    /// Runs another command in that environment.
    ///
    /// # Panics
    /// If the command cannot be started.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(program("afterwrite"));
        command.args(arguments).env_clear().envs(self.environment());
        tokio::task::block_in_place(|| command.output().expect("a value"))
    }

    /// Runs a command that succeeds.
    ///
    /// # Panics
    /// If the command fails.
    pub fn succeed(&self, arguments: &[&str]) {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}\n{errors}");
    }

    /// Writes an order of the shop.
    ///
    /// # Panics
    /// If the write fails.
    pub async fn put_order(&self, order: &str, price: AttributeValue) {
        let put = self.client.put_item().table_name("Corner").item("PK", text("CUSTOMER#c1"));
        put.item("SK", text(&format!("ORDER#{order}")))
            .item("price", price)
            .send()
            .await
            .expect("a response");
    }

    /// Waits until this is spent; 0 also if there is no rollup.
    ///
    /// # Panics
    /// If it does not happen in time.
    pub async fn spent(&self, wanted: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let get = self.client.get_item().table_name(STATE).consistent_read(true);
            let got =
                get.key("PK", text("CUSTOMER#c1")).key("SK", text("TOTAL")).send().await.expect("a response");
            let spent = got.item.and_then(|item| item.get("spent")?.as_n().ok().cloned());
            let spent = spent.unwrap_or_else(|| "0".to_owned());
            if spent == wanted {
                return;
            }
            assert!(Instant::now() < deadline, "spent {spent}, not {wanted}\n{}", self.errors());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for a text on standard output.
    ///
    /// # Panics
    /// If it does not come in time.
    pub async fn prints(&self, wanted: &str) -> String {
        contains(&self.output, wanted).await
    }

    /// Waits for a text on standard error.
    ///
    /// # Panics
    /// If it does not come in time.
    pub async fn reports(&self, wanted: &str) -> String {
        contains(&self.errors, wanted).await
    }

    /// The text on standard error so far.
    ///
    /// # Panics
    /// If a reader has panicked.
    #[must_use]
    pub fn errors(&self) -> String {
        self.errors.lock().expect("no reader has panicked").clone()
    }

    /// Ends it as Ctrl-C does.
    ///
    /// # Panics
    /// If it does not end well.
    pub fn stop(mut self) {
        let sent =
            Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().expect("a value");
        assert!(sent.success());
        let ended = tokio::task::block_in_place(|| self.child.wait().expect("a value"));
        assert_eq!(ended.code(), Some(0), "{}", self.errors());
    }
}

impl Drop for Development {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A model file in a folder.
///
/// # Panics
/// If it cannot be written.
#[must_use]
pub fn model_file(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a value");
    let file = folder.path().join("model.toml");
    std::fs::write(&file, text).expect("a value");
    (folder, file)
}

/// A text.
#[must_use]
pub fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

/// A number.
#[must_use]
pub fn number(value: &str) -> AttributeValue {
    AttributeValue::N(value.to_owned())
}

fn client(announced: &Value) -> Client {
    let credential = announced["access_key_id"].as_str().expect("a value");
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(afterwrite_services::http_client())
        .region(Region::new(announced["region"].as_str().expect("a value").to_owned()))
        .credentials_provider(Credentials::new(credential, credential, None, None, "test"))
        .endpoint_url(announced["endpoints"]["dynamodb"].as_str().expect("a value"));
    Client::from_conf(config.build())
}

/// Reads a stream on a thread of its own.
fn collected(mut stream: impl std::io::Read + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let written = Arc::clone(&text);
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length) = stream.read(&mut bytes) {
            if length == 0 {
                break;
            }
            written
                .lock()
                .expect("no reader has panicked")
                .push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
    });
    text
}

async fn contains(text: &Mutex<String>, wanted: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let found = text.lock().expect("no reader has panicked").clone();
        if found.contains(wanted) {
            return found;
        }
        assert!(Instant::now() < deadline, "no `{wanted}` in:\n{found}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
