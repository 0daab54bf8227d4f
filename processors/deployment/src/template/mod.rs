//! A deployment as a template of another tool than Terraform.
//!
//! ```text
//! model ─▶ parameters, conditions
//!       └▶ storage │ queues │ roles │ functions │ mappings │ schedules │ lake │ alarms │ dashboard ─▶ one JSON object ─▶ YAML
//! ```
//!
//! A deployment by the template has the same defaults as one by the Terraform module in `infra/`. `tests/infrastructure/parity.py` compares
//! both, resource by resource: a value that changes in one place must change in the other.

mod alarms;
mod capacity;
mod conditions;
mod dashboard;
mod distinct_names;
mod encryption;
mod events;
mod functions;
mod intrinsics;
mod lake;
mod limits;
mod log_queries;
mod logical_ids;
mod mappings;
mod outputs;
mod parameters;
mod permissions;
mod queues;
mod roles;
mod schedules;
mod storage;
mod yaml;

use afterwrite_model::Result;
use afterwrite_model::table::{ArchiveScope, Model};
use serde_json::{Map, Value, json};

use self::conditions::Condition;
use self::functions::{AGGREGATOR, COMPACTOR, EXPORTER, INVALIDATOR, RELAY, TemplateFunction, VERIFIER};
use self::intrinsics::reference;
use self::logical_ids::logical;
use crate::cost::Observability;

/// The choices of a template.
#[derive(Clone, Copy, Debug)]
pub struct TemplateOptions<'o> {
    /// The folder with the functions' zips, as infra/build writes it.
    pub code: &'o str,
    /// Whether one function hosts everything.
    pub is_single: bool,
    /// The metrics and alarms.
    pub observability: Observability,
    /// Whether the tables and queries of the datasets are in nested stacks.
    pub nests_datasets: bool,
}

/// A template of AWS SAM.
#[derive(Clone, Debug)]
pub struct SamTemplate {
    /// The template.
    pub text: String,
    /// The templates of its nested stacks, each with the name of the file that the template expects next to its own.
    pub nested: Vec<(String, String)>,
}

/// The template of a model's deployment.
///
/// # Errors
/// [`Configuration`](afterwrite_model::ErrorKind::Configuration) if two names of the model are one in CloudFormation, or the template exceeds its limits.
pub fn sam_template(model: &Model, options: &TemplateOptions<'_>) -> Result<SamTemplate> {
    distinct_names::require_distinct(model)?;
    let mut shape = DeployedShape {
        model,
        code: options.code,
        is_single: options.is_single,
        nested: 0,
        observability: options.observability,
    };
    mappings::check_filters(&shape)?;
    let mut nested = Vec::new();
    if options.nests_datasets {
        nested = parts(lake::tables_and_queries(&shape));
        shape.nested = nested.len();
    }
    let template = shape.template();
    let text = shape.text(&template);
    limits::check(&template, &text, !options.nests_datasets && shape.has_datasets())?;
    let nested = nested.into_iter().enumerate().map(|(index, resources)| {
        (shape.nested_file(index + 1), yaml::yaml(&lake::nested_template(&shape, resources)))
    });
    Ok(SamTemplate { text, nested: nested.collect() })
}

/// The resources of nested stacks, each within the limits of a template.
fn parts(resources: Map<String, Value>) -> Vec<Map<String, Value>> {
    let (mut parts, mut bytes): (Vec<Map<String, Value>>, usize) = (Vec::new(), 0);
    for (name, resource) in resources {
        let length = yaml::yaml(&json!({ "Resources": { name.as_str(): &resource } })).len();
        bytes += length;
        match parts.last_mut() {
            Some(part) if part.len() < limits::MAX_RESOURCES && bytes <= limits::NESTED_BYTES => {
                part.insert(name, resource);
            }
            Some(_) | None => {
                parts.push(Map::from_iter([(name, resource)]));
                bytes = length;
            }
        }
    }
    parts
}

/// The decisions behind a template.
struct DeployedShape<'m> {
    model: &'m Model,
    code: &'m str,
    /// Whether the aggregator hosts all projections.
    is_single: bool,
    /// The number of nested stacks for the tables and queries of the datasets; 0: they are in the template itself.
    nested: usize,
    /// The metrics and alarms.
    observability: Observability,
}

impl DeployedShape<'_> {
    fn is_minimal(&self) -> bool {
        self.observability == Observability::Minimal
    }

    /// The file name of a nested stack's template, from 1.
    fn nested_file(&self, index: usize) -> String {
        format!("{}-datasets-{index}.yaml", self.model.name)
    }

    fn has_aggregate(&self) -> bool {
        !self.model.aggregates.is_empty()
    }

    /// Whether rollups are sources, so that the state table has a stream.
    fn has_levels(&self) -> bool {
        self.model.state_source().is_some()
    }

    fn has_datasets(&self) -> bool {
        !self.model.datasets.is_empty()
    }

    /// The functions that read the streams.
    fn readers(&self) -> Vec<&'static str> {
        match (self.is_single, self.has_aggregate()) {
            (true, _) => vec!["aggregator"],
            (false, true) => vec!["aggregator", "relay"],
            (false, false) => vec!["relay"],
        }
    }

    /// All functions.
    fn deployed(&self) -> Vec<TemplateFunction> {
        let is_reader = |function: &TemplateFunction| self.readers().contains(&function.name);
        let mut deployed: Vec<_> = [AGGREGATOR, RELAY].into_iter().filter(is_reader).collect();
        deployed.push(INVALIDATOR.under(events::drain_condition(self)));
        if self.has_datasets() {
            deployed.extend([EXPORTER, COMPACTOR]);
        }
        if self.has_aggregate() {
            deployed.push(VERIFIER);
        }
        deployed
    }

    /// The function that invalidates, archives and publishes events.
    fn relaying(&self) -> &'static str {
        if self.is_single { "aggregator" } else { "relay" }
    }

    fn text(&self, template: &Value) -> String {
        let archived = match self.model.archive {
            ArchiveScope::All => "every change",
            ArchiveScope::Matched => "changes of the model's entities",
        };
        let head = format!(
            "# The deployment of the model {}, generation {}, by `afterwrite template sam`: the archive has {archived}.\n# Change the model and write the template again; the alarms' paragraphs are in docs/RUNBOOK.md.\n",
            self.model.name, self.model.generation
        );
        head + &yaml::yaml(template)
    }

    fn template(&self) -> Value {
        let mut resources = Map::new();
        for part in [
            storage::resources(self),
            queues::resources(self),
            roles::resources(self),
            functions::resources(self),
            mappings::resources(self),
            schedules::resources(self),
            lake::resources(self),
            log_queries::resources(self),
            alarms::resources(self),
            dashboard::resources(self),
        ] {
            resources.extend(part);
        }
        json!({
            "AWSTemplateFormatVersion": "2010-09-09",
            "Transform": "AWS::Serverless-2016-10-31",
            "Description": format!("Afterwrite, model {}", self.model.name),
            "Parameters": parameters::parameters(self),
            "Rules": parameters::rules(),
            "Conditions": Condition::section(self),
            "Resources": resources,
            "Outputs": outputs::outputs(self),
        })
    }
}

/// The name of the parameter with a table's stream.
fn stream_parameter(table: &str) -> String {
    format!("{}StreamArn", logical(table))
}

/// The name of the parameter with the key that encrypts a table.
fn source_key_parameter(table: &str) -> String {
    format!("{}SourceKeyArn", logical(table))
}

/// The ARN of the table to which a stream belongs.
fn table_arn(table: &str) -> Value {
    json!({ "Fn::Select": [0, { "Fn::Split": ["/stream/", reference(&stream_parameter(table))] }] })
}

/// The deployed name of a table.
fn table_name(table: &str) -> Value {
    json!({ "Fn::Select": [1, { "Fn::Split": ["/", reference(&stream_parameter(table))] }] })
}

/// The alias that everything invokes: a deployment is undone by pointing it to the previous version.
fn alias(function: &str) -> Value {
    reference(&format!("{}.Alias", function_id(function)))
}

fn function_id(function: &str) -> String {
    format!("{}Function", logical(function))
}

fn role_id(function: &str) -> String {
    format!("{}Role", logical(function))
}

#[cfg(test)]
mod tests {
    use crate::cost::{DeployedModule, DeploymentPart, StreamReaders};

    use super::*;

    fn template(model: &str, is_single: bool) -> Value {
        let model = Model::load(model).unwrap();
        DeployedShape {
            model: &model,
            code: "dist",
            is_single,
            nested: 0,
            observability: Observability::Full,
        }
        .template()
    }

    fn kinds(template: &Value) -> Vec<String> {
        let resources = template["Resources"].as_object().unwrap().values();
        resources.map(|resource| resource["Type"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn every_model_has_its_functions_mappings_and_tables() {
        for name in Model::built_in_names() {
            let model = Model::load(name).unwrap();
            let template = template(name, false);
            let count = |kind: &str| kinds(&template).iter().filter(|known| *known == kind).count();
            assert_eq!(count("AWS::Serverless::Function"), 6, "{name}");
            assert_eq!(count("AWS::Glue::Table"), 2 * model.datasets.len(), "{name}");
            let streams = 2 * model.tables.len();
            assert_eq!(count("AWS::Lambda::EventSourceMapping"), streams + 2, "{name}");
        }
    }

    #[test]
    fn one_reader_hosts_everything() {
        let template = template("shop", true);
        assert!(template["Resources"].get("RelayFunction").is_none());
        let variables =
            &template["Resources"]["AggregatorFunction"]["Properties"]["Environment"]["Variables"];
        let hosted = variables["AFTERWRITE_PROJECTIONS"].to_string();
        assert!(hosted.contains("aggregate,invalidate,archive"), "{hosted}");
    }

    #[test]
    fn a_template_is_within_the_limits_of_cloudformation() {
        for (name, is_single) in Model::built_in_names().flat_map(|name| [(name, false), (name, true)]) {
            let model = Model::load(name).unwrap();
            let shape = DeployedShape {
                model: &model,
                code: "dist",
                is_single,
                nested: 0,
                observability: Observability::Full,
            };
            let template = shape.template();
            limits::check(&template, &shape.text(&template), true).unwrap();
        }
    }

    #[test]
    fn minimal_observability_has_as_many_alarms_as_are_priced() {
        let model = Model::load("exambuddy").unwrap();
        let observability = Observability::Minimal;
        let shape = DeployedShape { model: &model, code: "dist", is_single: false, nested: 0, observability };
        let template = shape.template();
        let resources = template["Resources"].as_object().unwrap().values();
        // The alarms of a distribution exist only with it.
        let alarms = resources.filter(|resource| resource["Type"] == "AWS::CloudWatch::Alarm");
        let alarms = alarms.filter(|alarm| alarm.get("Condition").is_none()).count();
        let module = DeployedModule::new(&model, [DeploymentPart::Archive], StreamReaders::Separate);
        assert_eq!(u64::try_from(alarms).unwrap(), module.observed(observability).alarms());
        assert!(template["Resources"].get("Dashboard").is_none());
        assert!(template["Outputs"].get("DashboardName").is_none());
        let variables =
            &template["Resources"]["AggregatorFunction"]["Properties"]["Environment"]["Variables"];
        assert_eq!(variables["AFTERWRITE_METRICS"], "essential");
    }

    #[test]
    fn a_logical_id_has_letters_and_digits() {
        assert_eq!(stream_parameter("ExamBuddyTable"), "ExamBuddyTableStreamArn");
    }
}
