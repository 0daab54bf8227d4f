//! The costs that COST.md states are those that the command prints.

use std::process::Command;

use afterwrite_tests::programs::program;
use afterwrite_tests::size::size;
use serde_json::Value;

const PAGE: &str = include_str!("../../docs/COST.md");

/// A row of the table of costs.
struct CostRow<'p> {
    arguments: &'p str,
    /// Millions of write units.
    write_units: f64,
    /// The dollars of reads, writes and storage in DynamoDB.
    dynamodb: f64,
    total: f64,
}

/// The rows that begin with the arguments of the command.
fn rows() -> Vec<CostRow<'static>> {
    let cells = PAGE.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let row = |cells: Vec<&'static str>| match cells[..] {
        ["", arguments, _, _, write_units, dynamodb, total, ""] if arguments.starts_with("`--rate") => {
            Some(CostRow {
                arguments: arguments.trim_matches('`'),
                write_units: number(write_units),
                dynamodb: number(dynamodb),
                total: number(total),
            })
        }
        _ => None,
    };
    cells.filter_map(row).collect()
}

/// The number of a cell such as `$2,149` or `0.30 million`.
fn number(cell: &str) -> f64 {
    let text = cell.trim_start_matches('$').replace(',', "");
    text.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no number: {cell}"))
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn the_costs_of_the_page_are_those_of_the_command() {
    let rows = rows();
    assert_eq!(rows.len(), 4);
    // The last row, of the largest rates, takes as long as the others together.
    for CostRow { arguments, write_units, dynamodb, total } in rows.into_iter().take(size(3, 4)) {
        let mut command = Command::new(program("afterwrite"));
        command.args(["cost", "exambuddy", "--queries", "10", "--json"]).args(arguments.split(' '));
        let output = command.output().expect("the command runs");
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        let estimate: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let parts = estimate["parts"].as_array().expect("parts");
        let named = |part: &&Value| {
            let name = part["part"].as_str().unwrap_or_default();
            name.starts_with("DynamoDB") || name.starts_with("state table")
        };
        let of_dynamodb: f64 = parts.iter().filter(named).filter_map(|part| part["dollars"].as_f64()).sum();
        let written = parts.iter().find(|part| part["part"] == "DynamoDB writes").expect("writes");
        let written = written["quantity"].as_f64().expect("a quantity") / 1e6;
        let in_all = estimate["dollars"].as_f64().expect("a sum");
        for (stated, printed) in [(write_units, written), (dynamodb, of_dynamodb), (total, in_all)] {
            let is_near = (stated - printed).abs() <= 0.01 * printed + 0.005;
            assert!(is_near, "{arguments}: the page states {stated}, the command prints {printed}");
        }
    }
}
