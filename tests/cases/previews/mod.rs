//! Cases G. Previews show what will happen.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected must fail at once"
)]

mod jobs;
mod models;

use std::path::Path;
use std::process::{Command, Output};

use afterwrite_tests::programs::program;
use serde_json::Value;
use tempfile::TempDir;

const MODEL: &str = r##"
name = "shop"
generation = 1
[tables.Tab]
key = ["PK"]
[entities.order]
key = { PK = "ORDER#{id}" }
attributes = { at = "S", price = "any", amount = "any", gift = "any", status = "S", paid = "BOOL", note = "S" }
derive.exact = { number = "price" }
[entities.customer]
key = { PK = "CUSTOMER#{id}" }
[rollups.all]
key = { PK = "ALL", SK = "ROLLUP" }
[[aggregates]]
name = "unpaid"
of = "order"
into = "all"
when = { paid = [{ anything-but = true }] }
measures.unpaid = "count"
[[aggregates]]
name = "orders"
of = "order"
into = "all"
[aggregates.measures]
orders = "count"
done = { count = true, when.status = ["DONE"] }
revenue = { sum = "exact" }
[[aggregates]]
name = "customers"
of = "customer"
into = "all"
measures.customers = "count"
[datasets.orders]
of = "order"
partition = "at:day"
[datasets.orders.columns]
at = "timestamp"
at_day = { type = "date", from = "at" }
price = { type = "decimal(10,2)", from = "exact" }
amount = "int64"
gift = "boolean"
note = { type = "string", required = true }
"##;

/// A folder with the model.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.toml"), MODEL).unwrap();
    folder
}

/// Runs the command in a folder, without any setting of this machine.
fn run(folder: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program("afterwrite"));
    command.args(arguments).current_dir(folder).env_clear().envs(settings.iter().copied());
    command.output().unwrap()
}

/// The text of a command that ends with this code.
fn text(folder: &Path, code: i32, arguments: &[&str]) -> String {
    checked(run(folder, arguments, &[]), code, arguments)
}

fn checked(output: Output, code: i32, arguments: &[&str]) -> String {
    let (text, errors) = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).into();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{text}\n{errors}");
    if code == 2 { errors } else { text }
}

/// The JSON of a command that ends with this code.
fn json(folder: &Path, code: i32, arguments: &[&str]) -> Value {
    serde_json::from_str(&text(folder, code, arguments)).unwrap()
}
