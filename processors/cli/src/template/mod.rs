//! `afterwrite template`: a deployment as a template of another tool than Terraform.
//!
//! ```text
//! model ─▶ parameters │ functions │ mappings │ storage │ queues │ lake │ alarms ─▶ one JSON object ─▶ YAML
//! ```

mod alarms;
mod functions;
mod lake;
mod permissions;
mod queues;
mod storage;
mod yaml;

use std::fs;
use std::path::PathBuf;

use afterwrite::table::{ArchiveScope, Model};
use afterwrite::{Error, ErrorKind, Result};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

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
    after_help = "Examples:\n  afterwrite template sam my-model.toml --out template.yaml\n  afterwrite template sam exambuddy --code dist --out template.yaml\n  afterwrite template sam shop --single-reader\n\nThen: infra/build --model my-model.toml, and `sam deploy --guided --capabilities CAPABILITY_IAM`. The source tables exist; their streams' ARNs are parameters.\n\nExit codes: 0 success, 2 the model has errors or the file cannot be written."
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
            permissions::resources(self),
            functions::resources(self),
            lake::resources(self),
            alarms::resources(self),
        ] {
            resources.extend(part);
        }
        json!({
            "AWSTemplateFormatVersion": "2010-09-09",
            "Transform": "AWS::Serverless-2016-10-31",
            "Description": format!("Afterwrite, model {}", self.model.name),
            "Parameters": self.parameters(),
            "Conditions": {
                "HasCacheSecret": not_empty("CacheSecretArn"),
                "HasCacheUrl": not_empty("CacheUrl"),
                "HasCache": { "Fn::Or": [{ "Condition": "HasCacheUrl" }, { "Condition": "HasCacheSecret" }] },
                "HasDistribution": not_empty("DistributionId"),
                "HasAlarmTopic": not_empty("AlarmTopicArn"),
                "HasRedrive": not_empty("RedrivePrincipalArn"),
                "Invalidates": { "Fn::Or": [{ "Condition": "HasCache" }, { "Condition": "HasDistribution" }] },
            },
            "Resources": resources,
            "Outputs": {
                "StateTableName": { "Value": reference("StateTable") },
                "BucketName": { "Value": reference("ArchiveBucket") },
                "FailuresBucketName": { "Value": reference("FailuresBucket") },
            },
        })
    }

    fn parameters(&self) -> Value {
        let mut parameters = Map::new();
        let mut add = |name: &str, parameter: Value| {
            parameters.insert(name.to_owned(), parameter);
        };
        add(
            "Name",
            json!({
                "Type": "String", "Default": "afterwrite", "AllowedPattern": "^[a-z][a-z0-9-]{1,29}$",
                "Description": "The prefix of all names, and the dimension `service` of all metrics",
            }),
        );
        for table in &self.model.tables {
            add(
                &stream_parameter(&table.name),
                json!({
                    "Type": "String", "AllowedPattern": "^arn:[a-z-]+:dynamodb:[a-z0-9-]+:[0-9]{12}:table/[^/]+/stream/[^/]+$",
                    "Description": format!("The stream of {}, with the view type NEW_AND_OLD_IMAGES", table.name),
                }),
            );
        }
        add(
            "CacheUrl",
            json!({
                "Type": "String", "Default": "", "NoEcho": true,
                "Description": "redis:// or rediss://; empty: no cache keys are removed",
            }),
        );
        add(
            "CacheSecretArn",
            json!({
                "Type": "String", "Default": "",
                "Description": "A secret whose text is the cache's address, in place of CacheUrl: for an address with a password",
            }),
        );
        add(
            "DistributionId",
            json!({
                "Type": "String", "Default": "", "Description": "A CloudFront distribution; empty: no paths are invalidated",
            }),
        );
        add(
            "AlarmTopicArn",
            json!({
                "Type": "String", "Default": "", "Description": "An SNS topic that alarms notify; empty: none",
            }),
        );
        add(
            "RedrivePrincipalArn",
            json!({
                "Type": "String", "Default": "", "Description": "The role that may read failed records; empty: none",
            }),
        );
        add("LogRetentionDays", json!({ "Type": "Number", "Default": 30 }));
        Value::Object(parameters)
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

fn not_empty(parameter: &str) -> Value {
    json!({ "Fn::Not": [{ "Fn::Equals": [reference(parameter), ""] }] })
}

fn reference(id: &str) -> Value {
    json!({ "Ref": id })
}

fn attribute(id: &str, name: &str) -> Value {
    json!({ "Fn::GetAtt": [id, name] })
}

fn substituted(text: impl Into<String>) -> Value {
    json!({ "Fn::Sub": text.into() })
}

/// The ARN of the table to which a stream belongs.
fn table_arn(table: &str) -> Value {
    json!({ "Fn::Select": [0, { "Fn::Split": ["/stream/", reference(&stream_parameter(table))] }] })
}

/// The deployed name of a table.
fn table_name(table: &str) -> Value {
    json!({ "Fn::Select": [1, { "Fn::Split": ["/", reference(&stream_parameter(table))] }] })
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
            assert_eq!(count("AWS::Serverless::Function"), 5, "{name}");
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
    fn a_logical_id_has_letters_and_digits() {
        assert_eq!(logical("quiz-wrong_answers"), "QuizWrongAnswers");
        assert_eq!(stream_parameter("ExamBuddyTable"), "ExamBuddyTableStreamArn");
    }
}
