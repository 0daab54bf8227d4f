//! TOML → [`Model`], or every problem of the file.
//!
//! ```text
//! syntax     the cause among the errors of a file that is not TOML
//! sections   which sections there are, and headers that name none
//! reader     single settings of the TOML, each with its place
//! scope      which value a name means
//! compiler   the tools that compile a part; each part's own file uses them
//! compile    the sections in order
//! check      the whole model: limits, feedback; and key_overlap, update_size
//! warnings   what loads and is probably not meant; and equal_measures
//! problem    collects the problems: code, source span, "did you mean" (suggestion)
//! ```
//!
//! No step stops at the first problem. Problems of reading are reported before problems of meaning.

mod bucket_zones;
mod check;
pub(super) mod code;
mod compile;
pub(super) mod compiler;
mod entity_order;
mod equal_measures;
mod key_overlap;
mod key_readings;
pub(super) mod problem;
pub(super) mod reader;
pub(super) mod scope;
pub(super) mod sections;
mod source;
pub(super) mod suggestion;
mod syntax;
mod update_size;
mod warnings;

use std::borrow::Cow;
use std::{fs, io};

use toml::de::DeTable;

use self::problem::ProblemCollector;
pub use self::problem::{
    ModelErrors, ModelProblem, ProblemCode, ProblemSeverity, RelatedLocation, SourceSpan,
};
use self::suggestion::listed;
pub use self::suggestion::nearest as nearest_name;
use super::Model;
use crate::{Error, ErrorKind, Result};

mod built_in {
    include!(concat!(env!("OUT_DIR"), "/models.rs"));
}

impl Model {
    /// The built-in model that is used where none is named.
    pub const DEFAULT_NAME: &'static str = built_in::DEFAULT;

    /// The names of the built-in models.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        built_in::BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The TOML of a built-in model.
    #[must_use]
    pub fn built_in(name: &str) -> Option<&'static str> {
        built_in::BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
    }

    /// Loads a built-in model by its name, or a model file by its path.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if there is neither such a model nor such a file, or the file is not UTF-8 text;
    /// [`ErrorKind::Model`] with everything that is wrong with the model.
    pub fn load(name_or_path: &str) -> Result<Self> {
        let (file, source) = Self::source(name_or_path)?;
        Self::parse(&source, &file).map_err(ModelErrors::into_error)
    }

    /// The name of a model in error messages, and its TOML. A built-in model is found by its name, a model file by its path.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if there is neither such a model nor such a file, or the file is not UTF-8 text.
    pub fn source(name_or_path: &str) -> Result<(String, Cow<'static, str>)> {
        if let Some(source) = Self::built_in(name_or_path) {
            return Ok((format!("models/{name_or_path}.toml"), Cow::Borrowed(source)));
        }
        let source = fs::read_to_string(name_or_path).map_err(|error| {
            let names: Vec<&str> = Self::built_in_names().collect();
            let meant = nearest_name(name_or_path, names.iter().copied());
            let meant = meant.map(|name| format!("Did you mean `{name}`? ")).unwrap_or_default();
            let message = if error.kind() == io::ErrorKind::NotFound {
                "there is no such table model"
            } else {
                "the table model cannot be read as a text file"
            };
            Error::new(ErrorKind::Configuration, message)
                .with("model", name_or_path)
                .hint(format!("{meant}Name a built-in model ({}) or the path of a TOML file", listed(&names)))
                .caused_by(error)
        })?;
        Ok((name_or_path.to_owned(), Cow::Owned(source)))
    }

    /// Compiles a model from its TOML; `file` is what errors call it.
    ///
    /// # Errors
    /// Every error of the file.
    pub fn parse(source: &str, file: &str) -> std::result::Result<Self, ModelErrors> {
        let ModelReport { file, model, problems } = Self::check(source, file);
        model.ok_or(ModelErrors { file, problems })
    }

    /// Checks a model: its errors or, if it has none, the model and its warnings.
    #[must_use]
    pub fn check(source: &str, file: &str) -> ModelReport {
        let mut problems = ProblemCollector::of(source);
        let model = compile(source, &mut problems).filter(|_| !problems.has_errors());
        ModelReport { file: file.to_owned(), model, problems: problems.finish() }
    }
}

/// The content and the problems of a model file.
#[derive(Debug)]
pub struct ModelReport {
    /// The file, as it was named.
    pub file: String,
    /// The model, if the file has no errors.
    pub model: Option<Model>,
    /// Its errors or, if it has none, its warnings, in the order of the file.
    pub problems: Vec<ModelProblem>,
}

/// The model, if it can be read at all. It is a model only if no error was reported.
fn compile<'s>(source: &'s str, problems: &mut ProblemCollector<'s>) -> Option<Model> {
    let (root, errors) = DeTable::parse_recoverable(source);
    if !errors.is_empty() {
        syntax::report_syntax_errors(source, &errors, problems);
        return None;
    }
    compile::compile(root.get_ref(), source, problems)
}

#[cfg(test)]
mod tests;
