//! `afterwrite model`: works on a table model: checks it, shows it, explains it on one item and compares it with another. Only `init`
//! can read a table; the other commands need no AWS.
//!
//! ```text
//! check     every problem of the file
//! show      its parts            ─┐
//! diff      its differences     ─┴─ both from its description
//! explain   the consequences of one item
//! test      fixtures: items or records, and the rollups that must follow
//! ddl       the SQL of its datasets
//! init      a first model of a table, from a sample of its items
//! schema    the JSON Schema of model files
//! filters   which records of its streams invoke a function
//! ```

mod check;
mod ddl;
pub mod diff;
mod explain;
mod filters;
mod init;
mod schema;
mod show;
mod test;

use afterwrite_model::Result;
use afterwrite_model::table::Model;
use afterwrite_services::config::EnvironmentSettings;
use clap::{Args, Subcommand};

use self::check::CheckArguments;
use self::ddl::DdlArguments;
use self::diff::DiffArguments;
use self::explain::ExplainArguments;
use self::filters::FilterArguments;
use self::init::InitArguments;
use self::schema::SchemaArguments;
use self::show::ShowArguments;
use self::test::TestArguments;

/// A command on a model.
#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// Propose a model of a table, from a sample of its items or from a file with items.
    Init(InitArguments),
    /// Check a model; report every problem with its location and a fix.
    Check(CheckArguments),
    /// Show the parts of a model: entities, rollups, measures and the rest.
    Show(ShowArguments),
    /// Explain which entity an item matches, and everything that is derived from it.
    Explain(ExplainArguments),
    /// Run fixtures: items or change records, and the rollups, cache keys and paths that must follow from them.
    Test(TestArguments),
    /// Show what changes when a new model replaces an old one, and what reconciling costs.
    Diff(DiffArguments),
    /// Write the SQL that defines a model's datasets in Athena: tables, views and saved queries.
    Ddl(DdlArguments),
    /// Show the event filter patterns of the functions' mappings: records that have no effect do not invoke them.
    Filters(FilterArguments),
    /// Print the JSON Schema of model files, with which editors complete, describe and check keys.
    Schema(SchemaArguments),
}

impl ModelCommand {
    /// Runs the command; returns whether nothing is wrong.
    ///
    /// # Errors
    /// A model that does not load, a file that cannot be read or written.
    pub async fn run(&self) -> Result<bool> {
        match self {
            Self::Check(arguments) => arguments.run(),
            Self::Show(arguments) => arguments.run(),
            Self::Explain(arguments) => arguments.run(),
            Self::Diff(arguments) => arguments.run(),
            Self::Test(arguments) => Box::pin(arguments.run()).await,
            Self::Ddl(arguments) => arguments.run(),
            Self::Filters(arguments) => arguments.run(),
            Self::Init(arguments) => Box::pin(arguments.run()).await,
            Self::Schema(arguments) => arguments.run(),
        }
    }
}

/// The model that a command works on.
#[derive(Debug, Args)]
pub(crate) struct ModelArgument {
    /// A built-in model's name or the path of a TOML file; default: AFTERWRITE_MODEL, else exambuddy.
    model: Option<String>,
}

impl ModelArgument {
    /// The name or path.
    fn name(&self) -> String {
        self.model
            .clone()
            .or(EnvironmentSettings::from_env().model)
            .unwrap_or_else(|| Model::DEFAULT_NAME.to_owned())
    }
}

/// The model of this name or file; without a name, the model of the environment.
pub(crate) fn load(named: Option<&str>) -> Result<Model> {
    Model::load(&ModelArgument { model: named.map(str::to_owned) }.name())
}
