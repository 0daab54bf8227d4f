//! The Terraform module, planned and applied without AWS.

use std::path::Path;
use std::process::Command;

/// Names the interpreter that has moto; `tests/run` provides one and sets it.
const INTERPRETER: &str = "AFTERWRITE_TEST_INFRASTRUCTURE_PYTHON";

/// Runs a check of `tests/infrastructure/check.py`.
fn check(arguments: &[&str]) {
    let interpreter =
        std::env::var_os(INTERPRETER).unwrap_or_else(|| panic!("{INTERPRETER} is not set: run tests/run"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("infrastructure/check.py");
    let output = Command::new(interpreter)
        .arg(script)
        .args(arguments)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("the Python interpreter");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "needs terraform: run tests/run"]
fn h2_the_keys_of_indexes_have_types() {
    check(&["cases", "index-keys"]);
}

#[test]
#[ignore = "needs terraform: run tests/run"]
fn h13_the_module_scales_the_state_table() {
    check(&["cases", "capacity"]);
}

#[test]
#[ignore = "needs terraform: run tests/run"]
fn h12_minimal_observability_has_an_alarm_for_every_way_of_losing_data() {
    check(&["cases", "observability"]);
}

/// `tests/run --full` alone runs these. `infra/tests/deployment.tftest.hcl` has the same on a simulated provider.
mod full {
    use super::check;

    #[test]
    #[ignore = "needs terraform and moto: run tests/run --full"]
    fn h1_a_table_of_the_same_configuration_is_planned_created_and_replaced() {
        check(&["same-configuration"]);
    }
}
