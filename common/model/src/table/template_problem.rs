//! Why a text is not a template.

use std::fmt;

use super::load::problem::ProblemCode;
use super::load::suggestion::{did_you_mean, listed};
use super::named::NamedValue as _;
use super::time_bucket::TimeBucket;
use super::time_format::NotAFormat;
use crate::record::{InvalidPath, NamedZone};

/// Why a text is not a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotATemplate {
    /// It has no text at all.
    Empty,
    /// A brace has no partner, or stands inside another.
    Braces,
    /// `{}`.
    Nameless,
    /// A variable whose name has a space or another character that names have only in quotes.
    InvalidName(String),
    /// A variable whose name is not closed or continues after its quotes.
    InvalidPath(String, InvalidPath),
    /// Two variables follow each other.
    Neighbours(String, String),
    /// `{variable:format}` with a format that does not exist.
    UnknownFormat(NotAFormat),
}

impl fmt::Display for NotATemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a key template must not be empty"),
            Self::Braces => f.write_str("unbalanced braces in the template; variables are written `{name}`"),
            Self::Nameless => f.write_str("a variable without a name; variables are written `{name}`"),
            Self::InvalidName(name) => write!(
                f,
                "`{{{name}}}`: the name of a variable is made of letters, digits, `_`, `-` and `.`; correct it, or write a name with other characters in single quotes: `{{'first name'}}`"
            ),
            Self::InvalidPath(name, problem) => write!(f, "`{{{name}}}` is not a name: {problem}"),
            Self::Neighbours(first, second) => write!(
                f,
                "`{{{first}}}` and `{{{second}}}` follow each other, and a key could be split in several ways; put text between them"
            ),
            Self::UnknownFormat(NotAFormat::UnknownBucket(format)) => {
                write!(f, "unknown format `{format}`; known formats are {}", listed(TimeBucket::NAMES))?;
                match did_you_mean(format, TimeBucket::NAMES.iter().copied()) {
                    nearest if nearest.is_empty() => f.write_str(
                        "; if the colon is part of an attribute's name, write the name in single quotes: `'aws:rep:updatetime'`",
                    ),
                    nearest => f.write_str(&nearest),
                }
            }
            Self::UnknownFormat(NotAFormat::UnknownZone(zone)) => f.write_str(&unknown_zone(zone)),
        }
    }
}

impl NotATemplate {
    /// The problem of a variable without an end.
    pub(super) fn open_variable(inside: &str) -> Self {
        match inside.split_once('}') {
            Some((name, _)) if name.contains('\'') => {
                Self::InvalidPath(name.to_owned(), InvalidPath::OpenQuote)
            }
            Some(_) | None => Self::Braces,
        }
    }

    pub(super) fn code(&self) -> ProblemCode {
        match self {
            Self::UnknownFormat(NotAFormat::UnknownBucket(_)) => ProblemCode::UnknownFormat,
            Self::UnknownFormat(NotAFormat::UnknownZone(_)) => ProblemCode::UnknownTimeZone,
            Self::InvalidName(_) => ProblemCode::InvalidName,
            Self::InvalidPath(..) => ProblemCode::InvalidPath,
            Self::Empty | Self::Braces | Self::Nameless | Self::Neighbours(..) => {
                ProblemCode::InvalidTemplate
            }
        }
    }
}

/// The message about a zone that is not in the database.
pub(super) fn unknown_zone(zone: &str) -> String {
    let nearest = did_you_mean(zone, NamedZone::names());
    format!("unknown time zone `{zone}`; write a name of the IANA database, such as `Europe/Berlin`{nearest}")
}
