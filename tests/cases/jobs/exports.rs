//! A3: an export is counted into the table that it is of. A1, A2: a resumed job reads the export that it was planned for.

use std::io::Write as _;
use std::path::Path;

use afterwrite_model::clock::{Clock as _, SystemClock};
use base64::Engine as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use md5::{Digest as _, Md5};
use serde_json::{Value, json};

use super::deployment::Shop;

/// Writes a full export of a table with so many data files, an order in each; the manifest may lack the table.
pub(super) fn export(folder: &Path, table: Option<&str>, files: u64) {
    export_items(folder, table, (0..files).map(order));
}

fn order(order: u64) -> Value {
    json!({ "PK": { "S": format!("SHOP#{}", order % 7) }, "SK": { "S": format!("ORDER#{order}") }, "price": { "N": "3" } })
}

/// Writes a full export with a data file for each item.
fn export_items(folder: &Path, table: Option<&str>, items: impl Iterator<Item = Value>) {
    std::fs::create_dir_all(folder.join("data")).unwrap();
    let mut manifest = String::new();
    for (order, item) in items.enumerate() {
        let item = json!({ "Item": item });
        let mut file = GzEncoder::new(Vec::new(), Compression::fast());
        file.write_all(format!("{item}\n").as_bytes()).unwrap();
        let file = file.finish().unwrap();
        let checksum = base64::engine::general_purpose::STANDARD.encode(Md5::digest(&file));
        let key = format!("AWSDynamoDB/01/data/{order:06}.json.gz");
        std::fs::write(folder.join(format!("data/{order:06}.json.gz")), file).unwrap();
        let line = json!({ "itemCount": 1, "md5Checksum": checksum, "dataFileS3Key": key });
        manifest.push_str(&format!("{line}\n"));
    }
    let mut summary = json!({
        "exportTime": SystemClock.now().to_string(), "exportType": "FULL_EXPORT", "outputFormat": "DYNAMODB_JSON",
    });
    if let Some(table) = table {
        summary["tableArn"] = format!("arn:aws:dynamodb:dynoxide:000000000000:table/{table}").into();
    }
    std::fs::write(folder.join("manifest-files.json"), manifest).unwrap();
    std::fs::write(folder.join("manifest-summary.json"), summary.to_string()).unwrap();
}

fn backfill<'a>(export: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let arguments =
        ["backfill", "--yes", "--without-recovery", "--mapping-since", "2026-01-01", "--export", export];
    [&arguments[..], more].concat()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a3_the_export_of_another_table_is_refused() {
    let shop = Shop::with_orders(20).await;
    export(&shop.path("staging"), Some("Staging"), 20);
    for more in [&[][..], &["--export-table", "Orders"]] {
        let refused = shop.text(2, &backfill("staging", more));
        assert!(refused.contains("Staging") && refused.contains("AFTERWRITE_TABLES"), "{refused}");
    }
    assert_eq!(shop.counted().await, 0);
    shop.create_table("Staging").await;
    export(&shop.path("orders"), Some("Orders"), 20);
    // The model's table is deployed as `Staging`: that export is its own, and the other one is not.
    shop.text(2, &backfill("orders", &["--tables", "Orders=Staging"]));
    shop.text(0, &backfill("orders", &[]));
    assert_eq!(shop.counted().await, 20);
    shop.server.stop().await.unwrap();
}

/// Changes the summary of an export.
fn change_summary(folder: &Path, name: &str, value: Value) {
    let file = folder.join("manifest-summary.json");
    let mut summary: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    summary[name] = value;
    std::fs::write(file, summary.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a3_a_table_with_the_same_name_elsewhere_or_earlier_and_a_part_of_an_export_are_refused() {
    let shop = Shop::with_orders(20).await;
    let elsewhere = |place: &str| json!(format!("arn:aws:dynamodb:{place}:table/Orders"));
    let of_another_table = "the export is of another table with the same name";
    for (name, value, words) in [
        ("tableArn", elsewhere("us-east-1:999999999999"), of_another_table),
        ("tableArn", elsewhere("eu-west-1:000000000000"), of_another_table),
        ("tableId", json!("28bc8cc1-0000-0000-0000-4f0acccad2c6"), of_another_table),
        ("itemCount", json!(60), "have different numbers of items"),
    ] {
        export(&shop.path("export"), Some("Orders"), 20);
        change_summary(&shop.path("export"), name, value);
        let refused = shop.text(2, &backfill("export", &[]));
        assert!(refused.contains(words), "{name}: {refused}");
        assert_eq!(shop.counted().await, 0);
    }
    export(&shop.path("export"), Some("Orders"), 20);
    let described = shop.server.client().describe_table().table_name("Orders").send().await.unwrap();
    let id = described.table.unwrap().table_id.unwrap();
    change_summary(&shop.path("export"), "tableId", json!(id));
    change_summary(&shop.path("export"), "itemCount", json!(20));
    shop.text(0, &backfill("export", &[]));
    assert_eq!(shop.counted().await, 20);
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a3_an_item_of_an_export_without_the_key_of_the_table_is_refused_as_a_line_without_an_item_is() {
    let shop = Shop::with_orders(0).await;
    type ItemChange = fn(&mut Value);
    let changes: [(ItemChange, &str); 4] = [
        (|item| *item = json!("no item"), "a file of the export cannot be read"),
        (|item| item["pk"] = item.as_object_mut().unwrap().remove("PK").unwrap(), "PK (S), SK (S)"),
        (|item| drop(item.as_object_mut().unwrap().remove("SK")), "does not have the key of the table"),
        (|item| item["SK"] = json!({ "N": "5" }), "does not have the key of the table"),
    ];
    for (change, words) in changes {
        let mut items: Vec<Value> = (0..3).map(order).collect();
        change(&mut items[2]);
        export_items(&shop.path("export"), None, items.into_iter());
        let refused = shop.text(2, &backfill("export", &[]));
        for words in [words, "AWSDynamoDB/01/data/000002.json.gz", "line: 1"] {
            assert!(refused.contains(words), "no {words}: {refused}");
        }
    }
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a3_an_export_without_a_table_is_accepted_if_the_model_has_one_table() {
    let shop = Shop::with_orders(20).await;
    shop.create_table("Returns").await;
    export(&shop.path("unnamed"), None, 20);
    let second = shop.path("second.toml");
    let two_tables = ["--model", second.to_str().unwrap()];
    let refused = shop.text(2, &backfill("unnamed", &two_tables));
    assert!(refused.contains("does not name its table") && refused.contains("--export-table"), "{refused}");
    let unknown = ["--export-table", "Order"];
    assert!(shop.text(2, &backfill("unnamed", &unknown)).contains("the model does not have"));
    shop.text(0, &backfill("unnamed", &[]));
    // With several tables, the manifest decides.
    export(&shop.path("named"), Some("Orders"), 20);
    shop.text(0, &backfill("named", &two_tables));
    let wrong = [&two_tables[..], &["--export-table", "Returns"]].concat();
    assert!(shop.text(2, &backfill("named", &wrong)).contains("the export is of another table"));
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a2_a_backfill_of_an_export_is_resumed_elsewhere_and_only_with_that_export() {
    let shop = Shop::with_orders(100).await;
    export(&shop.path("export"), Some("Orders"), 100);
    let id = shop.paused_in(shop.folder.path(), &backfill("export", &["--rate", "5"]));
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::rename(shop.path("export"), shop.path("kept")).unwrap();
    export(&shop.path("export"), Some("Orders"), 50);
    let refused = shop.text(2, &["jobs", "resume", &id]);
    assert!(refused.contains("another export than the job was planned for"), "{refused}");
    std::fs::remove_dir_all(shop.path("export")).unwrap();
    std::fs::rename(shop.path("kept"), shop.path("export")).unwrap();
    let resumed = shop.run_in(elsewhere.path(), &["jobs", "resume", &id]);
    assert_eq!(resumed.status.code(), Some(0), "{}", String::from_utf8_lossy(&resumed.stderr));
    assert_eq!(shop.counted().await, 100);
    shop.server.stop().await.unwrap();
}
