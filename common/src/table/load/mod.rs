//! TOML → [`Model`], or everything that is wrong with it.
//!
//! ```text
//! reader     single settings of the TOML, each with its place
//! scope      which value a name means
//! compiler   what the parts are compiled with; each part's own file compiles it
//! compile    the sections in order
//! check      the whole model: limits, feedback; and key_overlap
//! ```
//!
//! No step stops at the first problem; what was read wrongly is reported before what it means.

mod check;
mod compile;
pub(super) mod compiler;
mod key_overlap;
pub(super) mod problem;
pub(super) mod reader;
pub(super) mod scope;

use std::borrow::Cow;
use std::{fs, io};

use toml::de::DeTable;

pub use self::problem::{ModelErrors, ModelProblem};
use self::problem::{ProblemCollector, listed};
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
    /// [`ErrorKind::Configuration`] if there is neither such a model nor such a file, or it is no text; [`ErrorKind::Model`] with
    /// everything that is wrong with the model.
    pub fn load(name_or_path: &str) -> Result<Self> {
        let (file, source) = Self::source(name_or_path)?;
        Self::parse(&source, &file).map_err(ModelErrors::into_error)
    }

    /// What errors call a model, and its TOML: of a built-in model by its name, of a model file by its path.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if there is neither such a model nor such a file, or it is no text.
    pub fn source(name_or_path: &str) -> Result<(String, Cow<'static, str>)> {
        if let Some(source) = Self::built_in(name_or_path) {
            return Ok((format!("models/{name_or_path}.toml"), Cow::Borrowed(source)));
        }
        let source = fs::read_to_string(name_or_path).map_err(|error| {
            let names: Vec<&str> = Self::built_in_names().collect();
            let message = if error.kind() == io::ErrorKind::NotFound {
                "there is no such table model"
            } else {
                "the table model cannot be read as a text file"
            };
            Error::new(ErrorKind::Configuration, message)
                .with("model", name_or_path)
                .hint(format!("Name a built-in model ({}) or the path of a TOML file", listed(&names)))
                .caused_by(error)
        })?;
        Ok((name_or_path.to_owned(), Cow::Owned(source)))
    }

    /// Compiles a model from its TOML; `file` is what errors call it.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(source: &str, file: &str) -> std::result::Result<Self, ModelErrors> {
        let mut problems = ProblemCollector::of(source);
        let (root, errors) = DeTable::parse_recoverable(source);
        for error in &errors {
            let message = match error.message() {
                "duplicate key" => "the key is given a second time; give it once",
                message => message,
            };
            problems.report(error.span().map_or(0, |span| span.start), message);
        }
        let model =
            if errors.is_empty() { compile::compile(root.get_ref(), source, &mut problems) } else { None };
        problems.finish(file)?;
        // Without a problem there was a document, and so there is a model.
        model.ok_or_else(|| ModelErrors { file: file.to_owned(), problems: Vec::new() })
    }
}

#[cfg(test)]
mod tests;
