//! `afterwrite model`: a table model before anything runs: whether it is sound, what follows from it, what follows of one item,
//! and what another model in its place would change.
//!
//! ```text
//! check     all that is wrong with it
//! show      what is derived from what ─┐
//! diff      what a new one changes    ─┴─ both of its description
//! explain   what follows of one item
//! ddl       the SQL of its datasets
//! ```

mod check;
mod ddl;
mod description;
pub mod diff;
mod explain;
mod show;

use afterwrite::Result;
use afterwrite::config::EnvironmentSettings;
use afterwrite::table::Model;
use clap::{Args, Subcommand};

use self::check::CheckArguments;
use self::ddl::DdlArguments;
use self::diff::DiffArguments;
use self::explain::ExplainArguments;
use self::show::ShowArguments;

/// What can be asked of a model.
#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// Say all that is wrong with a model, each problem with its place and what would be right.
    Check(CheckArguments),
    /// Show what is derived from what.
    Show(ShowArguments),
    /// Say what an item is, and everything that would follow from it.
    Explain(ExplainArguments),
    /// Say what becomes of what is there when a new model replaces an old one, and what reconciling costs.
    Diff(DiffArguments),
    /// Write the SQL that makes a model's datasets known to Athena: tables, views and saved queries.
    Ddl(DdlArguments),
}

impl ModelCommand {
    /// Does what was asked for; says whether all was right.
    ///
    /// # Errors
    /// A model that does not load, a file that cannot be read or written.
    pub fn run(&self) -> Result<bool> {
        match self {
            Self::Check(arguments) => arguments.run(),
            Self::Show(arguments) => arguments.run(),
            Self::Explain(arguments) => arguments.run(),
            Self::Diff(arguments) => arguments.run(),
            Self::Ddl(arguments) => arguments.run(),
        }
    }
}

/// Which model is meant.
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

/// The model of this name or file; without one, the one that is set.
pub(crate) fn load(named: Option<&str>) -> Result<Model> {
    Model::load(&ModelArgument { model: named.map(str::to_owned) }.name())
}
