//! `afterwrite cost` against an applied state: the alarms that it prices are those that the module creates, and the custom metrics are those
//! that the functions emitted.

use std::collections::BTreeSet;

use afterwrite_deployment::cost::{DeployedModule, DeploymentPart, StreamReaders};
use afterwrite_model::table::Model;

use super::applied::AppliedState;
use super::faults::ProvokedFaults;
use super::metrics_store::MetricStore;

/// The counts that differ.
pub(crate) fn problems(state: &AppliedState, healthy: &MetricStore, faults: &ProvokedFaults) -> Vec<String> {
    let module = priced_module(state);
    let alarms = state.all("aws_cloudwatch_metric_alarm").count();
    let runs = std::iter::once(healthy).chain(faults.values());
    // AWS's own metrics cost nothing.
    let own = runs.flat_map(MetricStore::names).filter(|metric| !metric.namespace.starts_with("AWS/"));
    let metrics = own.collect::<BTreeSet<_>>().len();
    println!("cost: {alarms} alarms, {metrics} custom metrics");
    let counts = [("alarms", module.alarms(), alarms), ("custom metrics", module.metrics(), metrics)];
    let differing =
        counts.into_iter().filter(|(_, priced, found)| *priced != u64::try_from(*found).unwrap_or(0));
    differing
        .map(|(what, priced, found)| format!("cost prices {priced} {what}, the deployment has {found}"))
        .collect()
}

/// The deployment as the command line describes it for the estimate.
fn priced_module(state: &AppliedState) -> DeployedModule {
    let functions = state.functions();
    let readers =
        if functions.contains_key("relay") { StreamReaders::Separate } else { StreamReaders::Single };
    let relaying = if functions.contains_key("relay") { "relay" } else { "aggregator" };
    let has = |name: &str| state.variable(relaying, name).is_some();
    let parts = [
        (DeploymentPart::Archive, has("AFTERWRITE_FIREHOSE_STREAM")),
        (DeploymentPart::Cache, has("AFTERWRITE_CACHE_SECRET")),
        (DeploymentPart::Distribution, has("AFTERWRITE_CDN_QUEUE")),
    ];
    let parts = parts.into_iter().filter(|(_, is_deployed)| *is_deployed).map(|(part, _)| part);
    DeployedModule::new(&Model::load("exambuddy").expect("the built-in model"), parts, readers)
}
