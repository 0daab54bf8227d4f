//! Typed readers of a model's rollups: one file of TypeScript or Python without dependencies beyond AWS's SDK.
//!
//! ```text
//! Model
//!   │ describe        names (names), the keys, measures, ranks and mirrors of all readers
//!   ▼
//! description         one description of the readers, for all languages
//!   │ typescript, python       types, definitions and documentation; literals (literal) and comments (comment) as the language's formatter
//!   ▼                          writes them
//! the file            the fixed part (runtime), and then the parts of the model
//! ```
//!
//! The fixed part is real code, in `runtime/`: it makes keys, sends requests and computes. The parts of the model are types and data, so that
//! both languages decide nothing twice. Equal models give equal files.

mod comment;
mod describe;
mod description;
mod literal;
mod names;
mod python;
mod runtime;
mod typescript;

use afterwrite_model::table::Model;

pub use self::description::{
    ClientDescription, ExtremeType, KeyField, MirrorReader, MirrorValue, ReaderDescription, ReaderMeasure,
    ReaderRank, ReaderValue,
};

/// The language of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientLanguage {
    /// TypeScript, for `@aws-sdk/client-dynamodb` 3.
    TypeScript,
    /// Python, for boto3.
    Python,
}

impl ClientLanguage {
    /// All languages.
    pub const ALL: [Self; 2] = [Self::TypeScript, Self::Python];

    /// The name of the command that writes the client.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TypeScript => "typescript",
            Self::Python => "python",
        }
    }
}

/// The client of a model: the text of one file.
#[must_use]
pub fn client(model: &Model, language: ClientLanguage) -> String {
    let client = ClientDescription::of(model);
    match language {
        ClientLanguage::TypeScript => typescript::write(&client),
        ClientLanguage::Python => python::write(&client),
    }
}
