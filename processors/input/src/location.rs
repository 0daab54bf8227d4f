//! The name of an input on the command line.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A place with change records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordInput {
    /// Standard input: `-`.
    StandardInput,
    /// A file, or all files of a folder and the folders within it.
    Path(PathBuf),
    /// The objects of a bucket whose keys start with a prefix: `s3://bucket/prefix`.
    Prefix {
        /// The bucket's name.
        bucket: String,
        /// The prefix; may be empty.
        prefix: String,
    },
}

impl FromStr for RecordInput {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "-" {
            return Ok(Self::StandardInput);
        }
        let Some(rest) = text.strip_prefix("s3://") else { return Ok(Self::Path(PathBuf::from(text))) };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err("write s3://BUCKET/PREFIX".to_owned());
        }
        Ok(Self::Prefix { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

impl fmt::Display for RecordInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StandardInput => f.write_str("-"),
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Prefix { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_read_and_written_alike() {
        for text in ["-", "folder/file.jsonl", "s3://lake/archive/", "s3://lake/"] {
            assert_eq!(text.parse::<RecordInput>().unwrap().to_string(), text);
        }
        let bucket = RecordInput::Prefix { bucket: "lake".to_owned(), prefix: String::new() };
        assert_eq!("s3://lake".parse(), Ok(bucket));
        assert!("s3:///archive".parse::<RecordInput>().is_err());
    }
}
