//! `afterwrite template`: a deployment as a template of another tool than Terraform.
//!
//! ```text
//! model ─▶ parameters, conditions
//!       └▶ storage │ queues │ roles │ functions │ mappings │ schedules │ lake │ alarms │ dashboard ─▶ one JSON object ─▶ YAML
//! ```
//!
//! A deployment by the template has the same defaults as one by the Terraform module in `infra/`. `tests/infrastructure/parity.py` compares
//! both, resource by resource: a value that changes in one place must change in the other.

mod alarms;
mod conditions;
mod dashboard;
mod encryption;
mod functions;
mod intrinsics;
mod lake;
mod log_queries;
mod mappings;
mod parameters;
mod permissions;
mod queues;
mod roles;
mod schedules;
mod storage;
mod yaml;

use std::fs;
use std::path::PathBuf;

use afterwrite::table::{ArchiveScope, Model};
use afterwrite::{Error, ErrorKind, Result};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use self::conditions::Condition;
use self::functions::{AGGREGATOR, COMPACTOR, DeployedFunction, EXPORTER, INVALIDATOR, RELAY, VERIFIER};
use self::intrinsics::reference;
use crate::print::print;

/// The tools that templates are for.
#[derive(Debug, Subcommand)]
pub enum TemplateCommand {
    /// Write a template of AWS SAM (CloudFormation) with the shape of the Terraform module.
    Sam(SamArguments),
}

/// The arguments of `afterwrite template sam`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite template sam my-model.toml --out template.yaml\n  afterwrite template sam exambuddy --code dist --out template.yaml\n  afterwrite template sam shop --single-reader\n\nThen: infra/build --model my-model.toml, and `sam deploy --guided --capabilities CAPABILITY_IAM`. The source tables exist; their streams' ARNs are parameters. infra/README.md lists the other parameters. When you change only parameters, change `Revision`, too.\n\nExit codes: 0 success, 2 the model has errors or the file cannot be written."
)]
pub struct SamArguments {
    /// A built-in model's name or the path of a TOML file.
    model: String,
    /// The folder with the functions' zips, as infra/build writes it.
    #[arg(long, value_name = "DIR", default_value = "dist")]
    code: String,
    /// Host everything in one function: for a global table, or next to another reader of the stream.
    #[arg(long)]
    single_reader: bool,
    /// Write to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl TemplateCommand {
    /// Writes the template; returns `true`.
    ///
    /// # Errors
    /// A model that does not load, a file that cannot be written.
    pub fn run(&self) -> Result<bool> {
        match self {
            Self::Sam(arguments) => arguments.run(),
        }
    }
}

impl SamArguments {
    fn run(&self) -> Result<bool> {
        let model = Model::load(&self.model)?;
        let shape = DeployedShape { model: &model, code: &self.code, is_single: self.single_reader };
        let text = shape.text();
        match &self.out {
            None => print(&text)?,
            Some(file) => fs::write(file, text).map_err(|error| {
                Error::new(ErrorKind::Configuration, "the template cannot be written")
                    .with("file", file.display().to_string())
                    .caused_by(error)
            })?,
        }
        Ok(true)
    }
}

/// The decisions behind a template.
struct DeployedShape<'m> {
    model: &'m Model,
    code: &'m str,
    /// Whether the aggregator hosts all projections.
    is_single: bool,
}

impl DeployedShape<'_> {
    fn has_aggregate(&self) -> bool {
        !self.model.aggregates.is_empty()
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
    fn deployed(&self) -> Vec<DeployedFunction> {
        let is_reader = |function: &DeployedFunction| self.readers().contains(&function.name);
        let mut deployed: Vec<_> = [AGGREGATOR, RELAY].into_iter().filter(is_reader).collect();
        deployed.push(INVALIDATOR);
        if self.has_datasets() {
            deployed.extend([EXPORTER, COMPACTOR]);
        }
        if self.has_aggregate() {
            deployed.push(VERIFIER);
        }
        deployed
    }

    /// The function that invalidates and archives.
    fn relaying(&self) -> &'static str {
        if self.is_single { "aggregator" } else { "relay" }
    }

    fn text(&self) -> String {
        let archived = match self.model.archive {
            ArchiveScope::All => "every change",
            ArchiveScope::Matched => "changes of the model's entities",
        };
        let head = format!(
            "# The deployment of the model {}, generation {}, by `afterwrite template sam`: the archive has {archived}.\n# Change the model and write the template again; the alarms' paragraphs are in docs/RUNBOOK.md.\n",
            self.model.name, self.model.generation
        );
        head + &yaml::yaml(&self.template())
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
            "Conditions": Condition::section(),
            "Resources": resources,
            "Outputs": {
                "StateTableName": { "Value": reference("StateTable") },
                "BucketName": { "Value": reference("ArchiveBucket") },
                "FailuresBucketName": { "Value": reference("FailuresBucket") },
                "RedrivePolicyArn": { "Value": reference("RedrivePolicy") },
                "DashboardName": { "Value": reference("Dashboard") },
            },
        })
    }
}

/// The name of the parameter with a table's stream.
fn stream_parameter(table: &str) -> String {
    format!("{}StreamArn", logical(table))
}

/// A logical id: letters and digits only.
fn logical(name: &str) -> String {
    let words = name.split(|character: char| !character.is_ascii_alphanumeric());
    let capital = |word: &str| {
        let mut characters = word.chars();
        let first = characters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(characters).collect::<String>()
    };
    words.map(capital).collect()
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
    use super::*;

    fn template(model: &str, is_single: bool) -> Value {
        let model = Model::load(model).unwrap();
        DeployedShape { model: &model, code: "dist", is_single }.template()
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
            let shape = DeployedShape { model: &model, code: "dist", is_single };
            assert!(shape.text().len() < 1_000_000, "{name}: {} bytes", shape.text().len());
            let template = shape.template();
            let kinds = kinds(&template);
            // SAM makes a version, an alias and a setting of asynchronous invocations of a function.
            let functions = kinds.iter().filter(|kind| *kind == "AWS::Serverless::Function").count();
            let resources = kinds.len() + 3 * functions;
            assert!(resources <= 500, "{name}: {resources} resources");
            let parameters = template["Parameters"].as_object().unwrap().len();
            assert!(parameters <= 200, "{name}: {parameters} parameters");
        }
    }

    #[test]
    fn a_logical_id_has_letters_and_digits() {
        assert_eq!(logical("quiz-wrong_answers"), "QuizWrongAnswers");
        assert_eq!(stream_parameter("ExamBuddyTable"), "ExamBuddyTableStreamArn");
    }
}
