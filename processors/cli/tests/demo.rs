//! `afterwrite demo`, as a stranger runs it.

use std::process::{Command, Output};

use serde_json::Value;

fn afterwrite(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_afterwrite"))
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_small_month_is_counted_to_the_last_digit() {
    let done = afterwrite(&["demo", "--seed", "5", "--attempts", "60", "--json"]);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{errors}");
    assert_eq!(errors, "", "quiet in a pipe");
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["right"], true);
    assert_eq!((&report["seed"], &report["attempts"]), (&Value::from(5), &Value::from(60)));
    let verdicts = report["verdicts"].as_array().unwrap();
    assert_eq!(verdicts.len(), 2);
    for verdict in verdicts {
        assert_eq!(verdict["differences"], Value::Array(Vec::new()));
        assert!(verdict["numbers"].as_u64().unwrap() > 500);
        assert!(verdict["question_counts"].as_u64().unwrap() > 0);
    }
    let archive = &report["archive"];
    assert_eq!(archive["changes"], archive["expected"]);
    assert_eq!(archive["expected"], report["cost"]["records"]);
    assert!(
        archive["objects"].as_u64().unwrap() > 0 && archive["lines"].as_u64() >= archive["changes"].as_u64()
    );
    let cost = &report["cost"];
    for figure in ["records", "batches", "transactions", "write_units", "mirrors"] {
        assert!(cost[figure].as_u64().unwrap() > 0, "{figure}");
    }
    assert!(report["delivered_again"].as_u64().unwrap() > 0);
    assert!(!report["admin"]["days"].as_array().unwrap().is_empty());
}

#[test]
fn tables_and_a_verdict_are_printed() {
    let done = afterwrite(&["demo", "--attempts", "20"]);
    let printed = String::from_utf8(done.stdout).unwrap();
    for part in [
        "question_count",
        "write units a record",
        "a recount of the table confirms all",
        "The archive holds all",
    ] {
        assert!(printed.contains(part), "{part} in {printed}");
    }
    assert_eq!(done.status.code(), Some(0));
}

#[test]
fn help_has_an_example_and_wrong_usage_has_its_own_exit_code() {
    let help = afterwrite(&["demo", "--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8(help.stdout).unwrap().contains("afterwrite demo --seed 7"));
    for wrong in [&["demo", "--attempts", "none"][..], &["dance"], &[]] {
        let refused = afterwrite(wrong);
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
        assert!(refused.stdout.is_empty());
    }
}
