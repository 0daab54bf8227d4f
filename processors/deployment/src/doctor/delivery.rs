//! The readers of the streams: their number, their mappings' settings, their functions.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::table::{Entity, Model};
use afterwrite_services::config::{EnvironmentSettings, ProjectionKind};

use super::facts::{DeploymentFacts, FunctionFacts, Looked, MappingFacts};
use super::source::is_global;
use super::{HealthFinding, on_part};
use crate::stream_filters::{MAX_PATTERNS, StreamFilter};

/// The variable with the projections of a function.
const PROJECTIONS: &str = "AFTERWRITE_PROJECTIONS";
const STATE_TABLE: &str = "AFTERWRITE_STATE_TABLE";

pub(super) fn judge_delivery(model: &Model, facts: &DeploymentFacts) -> Vec<HealthFinding> {
    let mut findings = Vec::new();
    for (index, ((name, table), mappings)) in facts.tables.iter().zip(&facts.mappings).enumerate() {
        let advice = "Create an event source mapping from the stream to the function";
        on_part(&mut findings, "readers", name, mappings, advice, |mappings, findings| {
            let own: Vec<&MappingFacts> = mappings.iter().filter(|mapping| is_own(mapping, facts)).collect();
            findings.push(judge_readers(name, mappings.len(), own.len(), is_global(table)));
            findings.push(judge_projections(model, (index, name), &own, facts));
            for mapping in own {
                judge_mapping(mapping, findings);
                let function = facts.functions.get(&mapping.function).and_then(Looked::found);
                let wanted = function.map(|function| wanted_patterns(model, index, mapping, function));
                let unfiltered = UnfilteredStream::of(model, index);
                findings.push(judge_filters(mapping, wanted.as_deref(), unfiltered));
            }
        });
    }
    for (name, looked) in &facts.functions {
        let advice = "The mapping names a function that does not exist: remove the mapping";
        on_part(&mut findings, "function", name, looked, advice, |function, findings| {
            findings.extend(judge_function(name, function, &facts.state_table.0));
        });
    }
    findings
}

/// Whether a mapping is one of ours: its function has a setting of ours, or may not be looked at.
fn is_own(mapping: &MappingFacts, facts: &DeploymentFacts) -> bool {
    facts.functions.get(&mapping.function).is_some_and(|looked| match looked {
        Looked::Found(function) => !function.environment.is_empty(),
        Looked::NotAllowed(_) => true,
        Looked::Missing | Looked::NotNamed(_) | Looked::NotRead(_) => false,
    })
}

fn judge_readers(table: &str, all: usize, own: usize, is_global: bool) -> HealthFinding {
    let most = if is_global { 1 } else { 2 };
    let advice = if own == 0 {
        "No function of Afterwrite reads the stream: create its event source mapping".to_owned()
    } else {
        format!(
            "A stream of this table allows {most} readers, more are throttled: host all projections in one function (single_reader), or remove another reader"
        )
    };
    let found = format!("{all} readers, {own} of Afterwrite");
    HealthFinding::new("readers", table, own > 0 && all <= most, found, advice)
}

/// Every projection that the table's items need is hosted, each by one function.
fn judge_projections(
    model: &Model,
    (index, table): (usize, &str),
    own: &[&MappingFacts],
    facts: &DeploymentFacts,
) -> HealthFinding {
    let mut hosts: BTreeMap<ProjectionKind, Vec<&str>> = BTreeMap::new();
    for mapping in own {
        let Some(looked) = facts.functions.get(&mapping.function) else { continue };
        let Some(function) = looked.found() else {
            return HealthFinding::unchecked("projections", table, "the functions' settings may not be read");
        };
        for kind in projections(&mapping.function, function) {
            hosts.entry(kind).or_default().push(&mapping.function);
        }
    }
    let names = |kind: &ProjectionKind, functions: &Vec<&str>| {
        format!("{} by {}", kind.name(), functions.join(" and "))
    };
    let found: Vec<String> = hosts.iter().map(|(kind, functions)| names(kind, functions)).collect();
    let is_any = |concerns: fn(&Entity) -> bool| {
        model.entities.iter().any(|entity| entity.table == index && concerns(entity))
    };
    let has_bucket = !matches!(facts.bucket, Looked::NotNamed(_));
    let needed = [
        (ProjectionKind::Aggregate, is_any(Entity::is_used)),
        (ProjectionKind::Archive, has_bucket && is_any(Entity::has_datasets)),
        (ProjectionKind::Notify, has_events(model, index)),
    ];
    let lacking: Vec<&str> = needed
        .into_iter()
        .filter(|(kind, is_needed)| *is_needed && !hosts.contains_key(kind))
        .map(|(kind, _)| kind.name())
        .collect();
    let is_once = hosts.values().all(|functions| functions.len() == 1);
    let advice = if lacking.is_empty() {
        "Each projection is hosted by one function: set AFTERWRITE_PROJECTIONS, and remove a second mapping"
            .to_owned()
    } else {
        format!(
            "No function hosts {}: create the mapping from the stream to the function that is to host it, or set its AFTERWRITE_PROJECTIONS",
            lacking.join(" and ")
        )
    };
    let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
    HealthFinding::new("projections", table, lacking.is_empty() && is_once, found, advice)
}

/// Whether changes of a table have events.
fn has_events(model: &Model, table: usize) -> bool {
    let mut entities = model.entities.iter().filter(|entity| entity.table == table);
    let is_forwarded = model.forwards_records() && model.state_source() != Some(table);
    is_forwarded || entities.any(|entity| !entity.events.is_empty())
}

/// A function's name without its version or alias.
pub(super) fn unqualified(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

/// The projections of a function: the projections of its setting, or of its binary, by its name.
pub(super) fn projections(name: &str, function: &FunctionFacts) -> BTreeSet<ProjectionKind> {
    let default: &[ProjectionKind] = if unqualified(name).ends_with("relay") {
        &ProjectionKind::OF_RELAY
    } else {
        &[ProjectionKind::Aggregate]
    };
    let settings = EnvironmentSettings {
        projections: function.environment.get(PROJECTIONS).cloned(),
        ..EnvironmentSettings::default()
    };
    settings.projections_or(default).unwrap_or_else(|_| default.iter().copied().collect())
}

fn judge_mapping(mapping: &MappingFacts, findings: &mut Vec<HealthFinding>) {
    let bound = |number: Option<u64>| {
        number.map_or_else(|| "without a bound".to_owned(), |number| number.to_string())
    };
    let yes = |is: bool| if is { "yes" } else { "no" };
    let problem = mapping.problem.as_deref();
    let state =
        problem.map_or_else(|| mapping.state.clone(), |problem| format!("{}, {problem}", mapping.state));
    let mut add = |check, is_healthy, found: String, advice: &str| {
        findings.push(HealthFinding::new(check, &mapping.function, is_healthy, found, advice));
    };
    let is_running = mapping.state == "Enabled" && problem.is_none();
    add(
        "mapping enabled",
        is_running,
        state,
        "Enable the mapping, and see the function's log: a stream keeps records for 24 hours only",
    );
    add(
        "starting position",
        mapping.starting_position == "TRIM_HORIZON",
        mapping.starting_position.clone(),
        "Create the mapping again with TRIM_HORIZON: LATEST can lose records while it starts. Then run `afterwrite verify`",
    );
    add(
        "partial responses",
        mapping.reports_item_failures,
        yes(mapping.reports_item_failures).to_owned(),
        "Set FunctionResponseTypes to ReportBatchItemFailures: the function's list of failed records is ignored otherwise",
    );
    add("bisect", mapping.bisects, yes(mapping.bisects).to_owned(), "Set BisectBatchOnFunctionError to true");
    add(
        "bounded retries",
        mapping.retries.is_some(),
        bound(mapping.retries),
        "Set MaximumRetryAttempts to 20: one record that fails blocks its shard until the stream drops the records behind it otherwise",
    );
    add(
        "bounded age",
        mapping.record_age.is_some_and(|seconds| seconds <= 86_400),
        bound(mapping.record_age),
        "Set MaximumRecordAgeInSeconds to 21600, and at most to 86400, the life of a record in the stream",
    );
    let is_bucket = mapping.on_failure.as_deref().is_some_and(|arn| arn.contains(":s3:"));
    add(
        "on-failure destination",
        is_bucket,
        mapping.on_failure.clone().unwrap_or_else(|| "none".to_owned()),
        "Set a bucket as the on-failure destination: queues and topics get no images, so `afterwrite redrive` has nothing to process",
    );
}

/// The model's patterns for the projections of a function.
fn wanted_patterns(
    model: &Model,
    table: usize,
    mapping: &MappingFacts,
    function: &FunctionFacts,
) -> Vec<String> {
    StreamFilter::new(model, table, &projections(&mapping.function, function), MAX_PATTERNS).patterns
}

/// The effect of a mapping without a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnfilteredStream {
    /// A source table's: records without an effect are delivered, too.
    Harmless,
    /// The state table's: the function reads its own writes.
    Loop,
}

impl UnfilteredStream {
    fn of(model: &Model, table: usize) -> Self {
        if model.state_source() == Some(table) { Self::Loop } else { Self::Harmless }
    }

    fn check(self) -> &'static str {
        match self {
            Self::Harmless => "filters",
            Self::Loop => "filters of the state table",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Harmless => {
                "Set the patterns of `afterwrite model filters`, or none: others may drop records that have an effect"
            }
            Self::Loop => {
                "Set the patterns that `afterwrite model filters` shows for @state: others may drop records that have an effect, and without patterns each write of the function invokes it again"
            }
        }
    }
}

/// The mapping has these patterns, or none if that is harmless. They are unknown if the function may not be looked at.
fn judge_filters(
    mapping: &MappingFacts,
    wanted: Option<&[String]>,
    unfiltered: UnfilteredStream,
) -> HealthFinding {
    let unchecked = |why: String| HealthFinding::unchecked(unfiltered.check(), &mapping.function, why);
    let found = match &mapping.filters {
        Looked::Found(patterns) => patterns,
        Looked::NotAllowed(permission) => {
            return unchecked(format!(
                "a key encrypts the filters, and the permission {permission} is missing"
            ));
        }
        Looked::Missing | Looked::NotNamed(_) => return unchecked("the mapping has been removed".to_owned()),
        Looked::NotRead(reason) => return unchecked(reason.clone()),
    };
    if wanted.is_none() && !found.is_empty() {
        return unchecked("the function's settings may not be read".to_owned());
    }
    let (found, wanted): (BTreeSet<&String>, BTreeSet<&String>) =
        (found.iter().collect(), wanted.unwrap_or_default().iter().collect());
    let is_safe = match unfiltered {
        UnfilteredStream::Harmless => found.is_empty() || found == wanted,
        UnfilteredStream::Loop => !found.is_empty() && found == wanted,
    };
    let found = match (found.len(), is_safe) {
        (0, _) => "every record".to_owned(),
        (count, true) => format!("{count} patterns of the model"),
        (count, false) => format!("{count} patterns that are not the model's"),
    };
    HealthFinding::new(unfiltered.check(), &mapping.function, is_safe, found, unfiltered.advice())
}

fn judge_function(name: &str, function: &FunctionFacts, state_table: &str) -> Vec<HealthFinding> {
    let mut findings = Vec::new();
    if let Some(named) = function.environment.get(STATE_TABLE) {
        findings.push(HealthFinding::new(
            "state table of function",
            name,
            named == state_table,
            named.as_str(),
            format!("The command checks {state_table}: set {STATE_TABLE} to the same table in all functions and here"),
        ));
    }
    findings
}
