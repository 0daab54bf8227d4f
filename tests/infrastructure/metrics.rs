//! The metrics that functions emit, as their sources name them, and those that alarms and the dashboard show.

use std::collections::BTreeSet;

use afterwrite_ledger::CommitTotals;

use super::read;

/// The sources that add metrics to a line.
const SOURCES: [&str; 8] = [
    "processors/lambda/src/metrics.rs",
    "processors/functions/src/aggregator.rs",
    "processors/functions/src/relay.rs",
    "processors/functions/src/invalidator.rs",
    "processors/functions/src/notifying.rs",
    "processors/datasets/src/export/function.rs",
    "processors/datasets/src/compact/function.rs",
    "processors/operations/src/verifier/function.rs",
];

/// All metrics that functions emit.
pub(crate) fn emitted() -> BTreeSet<String> {
    let totals = CommitTotals::default().named();
    let mut names: BTreeSet<String> = totals.into_iter().map(|(name, _)| pascal_case(name)).collect();
    for source in SOURCES.map(read) {
        // Tests of the sources name metrics as well.
        let product = source.split("#[cfg(test)]").next().unwrap_or_default();
        names.extend(
            product.lines().filter_map(|line| setting(line, "const FRESHNESS: &str")).map(str::to_owned),
        );
        for (call, convert) in
            [(".count(\"", pascal_case as fn(&str) -> String), (".milliseconds(\"", str::to_owned)]
        {
            names.extend(product.split(call).skip(1).filter_map(|rest| rest.split('"').next()).map(convert));
        }
    }
    names
}

/// The functions' own metrics that the alarms and the panels name.
pub(crate) fn named(alarms: &str, dashboard: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_own = true;
    for line in alarms.lines() {
        if setting(line, "kind").is_some() {
            is_own = true;
        }
        if setting(line, "namespace").is_some_and(|namespace| namespace.starts_with("AWS/")) {
            is_own = false;
        }
        let metric = setting(line, "metric_name").filter(|_| is_own);
        names.extend(metric.or(setting(line, "share_of")).filter(|name| !name.is_empty()).map(str::to_owned));
    }
    for panel in dashboard.lines().filter(|line| line.contains("function = ") && line.contains("when = ")) {
        let list = panel
            .split("metrics = [")
            .nth(1)
            .and_then(|rest| rest.split(']').next())
            .expect("a list of metrics");
        names.extend(list.split('"').skip(1).step_by(2).map(str::to_owned));
    }
    names
}

/// The text of a setting in a line of Terraform: `name = "text"`.
pub(crate) fn setting<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let (found, value) = line.split_once(" = ")?;
    let value = value.trim().strip_prefix('"')?;
    (found.trim() == name).then(|| value.split('"').next()).flatten()
}

/// `write_units` → `WriteUnits`.
fn pascal_case(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}

#[test]
fn settings_are_read_from_lines() {
    assert_eq!(setting("      kind        = \"parked\"", "kind"), Some("parked"));
    assert_eq!(setting("kind = local.kind", "kind"), None);
    assert_eq!(setting("summary = \"kind\"", "kind"), None);
}

#[test]
fn metrics_of_aws_are_not_our_own() {
    let alarms = "kind = \"a\"\nnamespace = \"AWS/Lambda\"\nmetric_name = \"Errors\"\nkind = \"b\"\nmetric_name = \"Parked\"";
    let panel = "{ function = \"aggregator\", when = true, metrics = [\"Records\", \"Failed\"] },";
    assert_eq!(named(alarms, panel), ["Failed", "Parked", "Records"].map(str::to_owned).into());
}
