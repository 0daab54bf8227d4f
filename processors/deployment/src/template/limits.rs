//! The limits of CloudFormation: a template beyond them is refused when it is written, not by a deployment that is half done.

use afterwrite_model::{Error, ErrorKind, Result};
use serde_json::Value;

/// The resources of a template, after SAM has expanded it.
pub(super) const MAX_RESOURCES: usize = 500;
const MAX_PARAMETERS: usize = 200;
/// The length of a logical id or of the name of a parameter.
const MAX_NAME: usize = 255;
/// The length of a template in S3.
const MAX_BYTES: usize = 1_000_000;
/// The length of the resources of a nested template; the rest is for its parameters.
pub(super) const NESTED_BYTES: usize = MAX_BYTES - 50_000;

/// Refuses a template that CloudFormation refuses.
///
/// # Errors
/// `Configuration` for the first limit that is exceeded.
pub(super) fn check(template: &Value, text: &str, can_nest: bool) -> Result<()> {
    let resources = resource_count(template);
    if resources > MAX_RESOURCES {
        let message =
            format!("the template has {resources} resources, and CloudFormation allows {MAX_RESOURCES}");
        return Err(Error::new(ErrorKind::Configuration, message).hint(if can_nest {
            "Pass --nested-datasets with --out FILE: the tables and queries of the datasets go into nested stacks, whose templates are written next to it. \
             Or leave datasets out of the model"
        } else {
            "Divide the model into several, each with a deployment of its own: mappings, alarms and parameters grow with its tables"
        }));
    }
    check_names(template)?;
    let parameters = template.get("Parameters").and_then(Value::as_object).map_or(0, serde_json::Map::len);
    if parameters > MAX_PARAMETERS {
        return Err(Error::new(
            ErrorKind::Configuration,
            format!("the template has {parameters} parameters, and CloudFormation allows {MAX_PARAMETERS}"),
        )
        .hint(
            "Divide the model into several, each with a deployment of its own: each table has two parameters",
        ));
    }
    if text.len() > MAX_BYTES {
        return Err(Error::new(
            ErrorKind::Configuration,
            format!("the template has {} bytes, and CloudFormation allows {MAX_BYTES}", text.len()),
        )
        .hint(if can_nest {
            "Pass --nested-datasets with --out FILE, or divide the model into several"
        } else {
            "Divide the model into several, each with a deployment of its own"
        }));
    }
    Ok(())
}

/// Refuses logical ids and parameters with names that are too long.
fn check_names(template: &Value) -> Result<()> {
    let sections = ["Parameters", "Conditions", "Resources", "Outputs"].map(|section| template.get(section));
    let mut names =
        sections.into_iter().flatten().filter_map(Value::as_object).flat_map(serde_json::Map::keys);
    match names.find(|name| name.len() > MAX_NAME) {
        None => Ok(()),
        Some(name) => Err(Error::new(
            ErrorKind::Configuration,
            format!(
                "a name has {} characters in the template, and CloudFormation allows {MAX_NAME}",
                name.len()
            ),
        )
        .with("name", name.as_str())
        .hint("Shorten the name of the table, dataset, query or target in the model")),
    }
}

/// The resources after SAM has expanded the functions: each has a version and an alias, and a scheduled one settings of its invocations.
fn resource_count(template: &Value) -> usize {
    let resources = template.get("Resources").and_then(Value::as_object).into_iter().flatten();
    resources.map(|(_, resource)| 1 + expanded(resource)).sum()
}

fn expanded(resource: &Value) -> usize {
    let is_function = resource.get("Type").and_then(Value::as_str) == Some("AWS::Serverless::Function");
    let is_scheduled = resource.pointer("/Properties/EventInvokeConfig").is_some();
    if is_function { 2 + usize::from(is_scheduled) } else { 0 }
}
