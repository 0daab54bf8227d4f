//! How fast existing items are counted and verified: `AFTERWRITE_TEST_BIN_DIR=$PWD/target/release cargo bench -p afterwrite-tests --bench
//! operations` (after `cargo build --release --bin afterwrite`).
//!
//! The tables are an embedded DynamoDB behind a proxy that responds as late as a region does. The baseline is the script that a team
//! would write: it scans the table, and adds 1 to one counter for each item, 16 requests at once. It cannot be repeated, and it
//! counts wrongly while the application writes.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark that meets the unexpected must fail at once"
)]

use std::process::Stdio;
use std::time::{Duration, Instant};

use afterwrite_demo::item::SdkItem;
use afterwrite_demo::workloads;
use afterwrite_demo::writer::ScriptWriter;
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, TableDefinition};
use afterwrite_local::sdk::{CREDENTIAL, REGION};
use afterwrite_tests::latency_proxy::{CallLatencies, LatencyProxy};
use afterwrite_tests::programs::program;
use aws_sdk_dynamodb::types::AttributeValue;
use futures::stream::{StreamExt as _, iter};
use serde_json::Value;
use tokio::process::{Child, Command};

const MODEL: &str = "exambuddy";
const STATE: &str = "State";
const ATTEMPTS: u64 = 8_000;
const CONCURRENCY: usize = 16;

/// A command that has ended.
struct MeasuredCommand {
    seconds: f64,
    /// The largest resident memory, in MiB.
    memory: u64,
    output: Value,
}

#[tokio::main]
async fn main() {
    let server = EmbeddedDynamoDb::start().await.unwrap();
    server.create_table(&TableDefinition::state(STATE)).await.unwrap();
    server.create_table(&TableDefinition::state("Counters")).await.unwrap();
    let workload = workloads::of(MODEL).unwrap();
    for table in workload.tables() {
        server.create_table(&table).await.unwrap();
    }
    let writer = ScriptWriter::new(server.client(), workload.tables());
    let now = jiff::Timestamp::now().as_second();
    writer.play(&workload.script(7, ATTEMPTS, now), &server).await.unwrap();
    let items: Vec<SdkItem> = writer.items().await.unwrap().into_iter().map(|item| item.item).collect();
    let proxy = LatencyProxy::start(&server.endpoint(), CallLatencies::REGION).await.unwrap();
    println!("{} items of {MODEL}, {:?}\n", items.len(), CallLatencies::REGION);
    println!("{:<28} {:>9} {:>9} {:>14} {:>11}", "", "seconds", "items/s", "write units", "memory");

    let script = script(&server, &proxy, &items).await;
    print_row("script (one count)", script, items.len(), &items.len().to_string(), None);
    let backfill = ["backfill", "--yes", "--without-recovery", "--without-datasets", "--json"];
    let filled = measured(&proxy, &backfill).await;
    let (planned, used) = (&filled.output["plan"]["write_units"], &filled.output["totals"]["write_units"]);
    let units = format!("{used} ({planned} planned)");
    print_row("backfill (all rollups)", filled.seconds, items.len(), &units, Some(filled.memory));
    let verified = measured(&proxy, &["verify", "--tolerance", "1", "--json"]).await;
    print_row("verify", verified.seconds, items.len(), "0", Some(verified.memory));
    println!("\nbackfill: {}", filled.output["totals"]);
}

fn print_row(name: &str, seconds: f64, items: usize, units: &str, memory: Option<u64>) {
    let rate = f64::from(u32::try_from(items).unwrap()) / seconds;
    let memory = memory.map_or_else(String::new, |memory| format!("{memory} MiB"));
    println!("{name:<28} {seconds:>9.1} {rate:>9.0} {units:>14} {memory:>11}");
}

/// Adds 1 to a counter for each item; returns the seconds.
async fn script(server: &EmbeddedDynamoDb, proxy: &LatencyProxy, items: &[SdkItem]) -> f64 {
    let config = server.client().config().to_builder().endpoint_url(proxy.endpoint()).build();
    let client = aws_sdk_dynamodb::Client::from_conf(config);
    let begun = Instant::now();
    iter(items)
        .for_each_concurrent(CONCURRENCY, |item| {
            let update = client.update_item().table_name("Counters").key("PK", item["PK"].clone());
            let update = update.key("SK", AttributeValue::S("COUNT".to_owned()));
            let update = update.update_expression("ADD counted :one");
            let update = update.expression_attribute_values(":one", AttributeValue::N("1".to_owned()));
            async move { drop(update.send().await.unwrap()) }
        })
        .await;
    begun.elapsed().as_secs_f64()
}

/// Runs `afterwrite` with these arguments.
async fn measured(proxy: &LatencyProxy, arguments: &[&str]) -> MeasuredCommand {
    let mut command = Command::new(program("afterwrite"));
    command.args(arguments).env("AFTERWRITE_MODEL", MODEL).env("AFTERWRITE_STATE_TABLE", STATE);
    command.env("AWS_ENDPOINT_URL", proxy.endpoint()).env("AWS_REGION", REGION);
    command.env("AWS_ACCESS_KEY_ID", CREDENTIAL).env("AWS_SECRET_ACCESS_KEY", CREDENTIAL);
    let begun = Instant::now();
    let process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (memory, output) = tokio::join!(peak_memory(process.id().unwrap()), output_of(process));
    let (seconds, output) = (begun.elapsed().as_secs_f64(), output);
    MeasuredCommand { seconds, memory, output }
}

async fn output_of(process: Child) -> Value {
    let ended = process.wait_with_output().await.unwrap();
    // 1: items whose looked-up items were deleted before anything was counted.
    let is_done = matches!(ended.status.code(), Some(0 | 1));
    assert!(is_done, "{}", String::from_utf8_lossy(&ended.stderr));
    serde_json::from_slice(&ended.stdout).unwrap()
}

/// The largest resident memory of a process until it ends, in MiB.
async fn peak_memory(process: u32) -> u64 {
    let mut peak = 0;
    while let Ok(status) = std::fs::read_to_string(format!("/proc/{process}/status")) {
        let Some(line) = status.lines().find_map(|line| line.strip_prefix("VmHWM:")) else { break };
        peak = line.trim().trim_end_matches(" kB").parse().unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    peak / 1024
}
