//! The one error type of the crate.
//!
//! An error says what was being done (`message`), to what (`context`, never an item's contents), whether trying the same
//! again can help (`kind`), and what the user can do (`hint`).

use std::fmt;

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as far as it decides what happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The invocation's event is not a DynamoDB stream event: the whole invocation fails.
    Event,
    /// The stream does not carry what the model needs (view type), or comes from a table that the model does not know:
    /// the whole invocation fails, lest a wrong setting consume a stream silently.
    Stream,
    /// One record is malformed: it alone fails.
    Record,
    /// The table model is wrong.
    Model,
    /// The environment, a table's existence, its keys or a permission is wrong.
    Configuration,
    /// The service throttled, timed out, or could not be reached: the same request may succeed later.
    /// After a time-out the request may have taken effect.
    Unavailable,
    /// Another writer was faster for longer than the time that was left: a later delivery will succeed.
    Conflict,
    /// The service refused a request as invalid; the same request will be refused again.
    Rejected,
    /// Something of ours that is stored (a ledger entry, say) cannot be read, or was written by a newer model.
    State,
}

impl ErrorKind {
    /// Whether the same request, sent again later, can succeed.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        match self {
            Self::Unavailable | Self::Conflict => true,
            Self::Event
            | Self::Stream
            | Self::Record
            | Self::Model
            | Self::Configuration
            | Self::Rejected
            | Self::State => false,
        }
    }
}

/// An error: what was being done, to what, and what to do about it.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    context: Vec<(&'static str, String)>,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; `message` says what was being done and what was wrong, and holds no item contents.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), context: Vec::new(), hint: None, source: None }
    }

    /// The same error, naming one more thing it concerns.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.context.push((name, value.into()));
        self
    }

    /// The same error with the user's next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with the error that caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same once more, for another record that it concerns; its source stays with the first.
    #[must_use]
    pub fn restated(&self) -> Self {
        Self::new(self.kind, self.to_string())
    }

    /// The error and its causes, one a line.
    #[must_use]
    pub fn report(&self) -> String {
        let mut report = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            report.push_str(&format!("\n  because: {error}"));
            cause = error.source();
        }
        report
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the same request, sent again later, can succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.kind.is_retryable()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for (position, (name, value)) in self.context.iter().enumerate() {
            let opening = if position == 0 { " (" } else { ", " };
            write!(f, "{opening}{name}: {value}")?;
        }
        if !self.context.is_empty() {
            f.write_str(")")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, ". {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn std::error::Error + 'static))
    }
}
