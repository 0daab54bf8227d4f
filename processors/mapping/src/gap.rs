//! Records that a stream does not have any more.

use afterwrite_model::{Error, ErrorKind};

/// Records that were written and can no longer be read from the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamGap {
    /// The stream of the checkpoints is not the table's stream any more.
    Recreated {
        /// The ARN of the stream that the checkpoints belong to.
        from: String,
        /// The ARN of the table's stream.
        to: String,
    },
    /// The records of a shard after its checkpoint have been trimmed, after 24 hours.
    Trimmed {
        /// The shard.
        shard: String,
        /// The sequence number of the checkpoint; `None` if nothing of the shard has been delivered.
        after: Option<String>,
    },
}

impl std::fmt::Display for StreamGap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Recreated { from, to } => {
                write!(f, "the checkpoints belong to the stream {from}, and the table's stream is {to}")
            }
            Self::Trimmed { shard, after: Some(number) } => {
                write!(f, "the records of shard {shard} after sequence number {number} have been trimmed")
            }
            Self::Trimmed { shard, after: None } => {
                write!(f, "records of shard {shard} have been trimmed before they were delivered")
            }
        }
    }
}

impl StreamGap {
    /// The gap as an error.
    #[must_use]
    pub fn into_error(self) -> Error {
        Error::new(ErrorKind::State, format!("changes are missing from the stream: {self}"))
    }
}
