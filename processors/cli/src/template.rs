//! `afterwrite template`: a deployment as a template of another tool than Terraform.

use std::path::PathBuf;

use afterwrite_deployment::template::{TemplateOptions, sam_template};
use afterwrite_model::Result;
use afterwrite_model::table::Model;
use clap::{Args, Subcommand};

use crate::arguments::ObservabilityArgument;
use crate::generated_file::write_generated;
use crate::print::print;

/// The text in every template.
const MARK: &str = "`afterwrite template sam`";

/// The tools that templates are for.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  afterwrite template sam my-model.toml --out template.yaml")]
pub enum TemplateCommand {
    /// Write a template of AWS SAM (CloudFormation) with the shape of the Terraform module.
    Sam(SamArguments),
}

/// The arguments of `afterwrite template sam`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite template sam my-model.toml --out template.yaml\n  afterwrite template sam exambuddy --code dist --out template.yaml\n  afterwrite template sam shop --single-reader\n  afterwrite template sam my-model.toml --nested-datasets --out template.yaml\n\nThen: infra/build --model my-model.toml, and `sam deploy --guided --capabilities CAPABILITY_IAM`. The source tables exist; their streams' ARNs are parameters. docs/DEPLOY.md lists the other parameters. When you change only parameters, change `Revision`, too.\n\nExit codes: 0 success, 2 the model has errors or the file cannot be written."
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
    /// The metrics and alarms of the deployment.
    #[arg(long, value_enum, default_value_t)]
    observability: ObservabilityArgument,
    /// Put the tables and queries of the datasets into nested stacks: for a model with more resources than a template may have.
    #[arg(long, requires = "out")]
    nested_datasets: bool,
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
        let options = TemplateOptions {
            code: &self.code,
            is_single: self.single_reader,
            observability: self.observability.level(),
            nests_datasets: self.nested_datasets,
        };
        let template = sam_template(&model, &options)?;
        let Some(file) = &self.out else {
            print(&template.text)?;
            return Ok(true);
        };
        write_generated(file, &template.text, MARK)?;
        for (name, text) in template.nested {
            write_generated(&file.with_file_name(name), &text, MARK)?;
        }
        Ok(true)
    }
}
