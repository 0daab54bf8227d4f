//! The one error type of the crate.
//!
//! An error states what was being done (`message`), to what (`context`, never an item's contents), whether a retry can help (`kind`),
//! and what the user can do (`hint`). Its text is harmless for terminals and logs, whatever names and values are in it.

use std::fmt;

use crate::harmless::{harmless, harmless_lines};

/// The result of a fallible operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error, as far as callers distinguish errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The invocation's payload is not a DynamoDB stream event. The whole invocation fails.
    Event,
    /// The stream's view type lacks what the model needs, or the stream's table is not in the model. The whole invocation fails:
    /// otherwise a wrong setting would consume a stream silently.
    Stream,
    /// A record is malformed. Only that record fails.
    Record,
    /// An item does not fit an aggregate that wants such records to fail (`on_misfit = "fail"`). The record is never parked.
    Misfit,
    /// The table model is invalid.
    Model,
    /// A setting, a permission or a table's key schema is wrong, or a resource does not exist.
    Configuration,
    /// The service throttled the request, did not respond in time, or could not be reached. The same request may succeed later; after
    /// a timeout it may have taken effect.
    Unavailable,
    /// Other writers held the item until the deadline. A later delivery will succeed.
    Conflict,
    /// The service refused a request as invalid, and will refuse it again.
    Rejected,
    /// A ledger entry or an expiry marker cannot be read: something else has changed it. Only a person can decide what it held.
    Unreadable,
    /// A stored item of Afterwrite (a checkpoint, for example) is unreadable, or was written by a newer model.
    State,
}

impl ErrorKind {
    /// The name of the kind. Users build alarms on these names: they never change.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Event => "PayloadError",
            Self::Stream => "StreamError",
            Self::Record => "RecordError",
            Self::Misfit => "MisfitError",
            Self::Model => "ModelError",
            Self::Configuration => "ConfigurationError",
            Self::Unavailable => "UnavailableError",
            Self::Conflict => "ConflictError",
            Self::Rejected => "RejectedError",
            Self::Unreadable => "UnreadableError",
            Self::State => "StoreError",
        }
    }

    /// Whether a record with such an error cannot be counted, however often it is delivered.
    #[must_use]
    pub fn is_poison(self) -> bool {
        match self {
            Self::Record | Self::Rejected | Self::Unreadable => true,
            Self::Event
            | Self::Stream
            | Self::Misfit
            | Self::Model
            | Self::Configuration
            | Self::Unavailable
            | Self::Conflict
            | Self::State => false,
        }
    }

    /// Whether it is a property of one item, which cannot be counted as it is.
    #[must_use]
    pub fn concerns_item(self) -> bool {
        self.is_poison() || self == Self::Misfit
    }

    /// Whether the same request, sent again later, can succeed.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        match self {
            Self::Unavailable | Self::Conflict => true,
            Self::Event
            | Self::Stream
            | Self::Record
            | Self::Misfit
            | Self::Model
            | Self::Configuration
            | Self::Rejected
            | Self::Unreadable
            | Self::State => false,
        }
    }
}

/// An error with its kind, context and hint.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    context: Vec<(&'static str, String)>,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

// Errors are rare: `cold` lets the compiler keep the code that makes them apart from the code that always runs.
impl Error {
    /// An error of `kind`. The `message` states what was being done and what went wrong, without item contents.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), context: Vec::new(), hint: None, source: None }
    }

    /// Adds a name and a value to the context.
    #[must_use]
    #[cold]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.context.push((name, value.into()));
        self
    }

    /// Sets the hint: what the user can do.
    #[must_use]
    #[cold]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the error that caused this one.
    #[must_use]
    #[cold]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// A copy for another record that the error concerns. The source is not copied.
    #[must_use]
    pub fn restated(&self) -> Self {
        Self { hint: self.hint.clone(), ..self.without_hint() }
    }

    /// A copy without the hint, for a problem that is mended. The source is not copied.
    #[must_use]
    pub fn without_hint(&self) -> Self {
        Self { context: self.context.clone(), ..Self::new(self.kind, self.message.clone()) }
    }

    /// The error and its causes, one per line.
    #[must_use]
    pub fn report(&self) -> String {
        let mut report = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            report.push_str(&format!("\n  because: {}", harmless(&error.to_string())));
            cause = error.source();
        }
        report
    }

    /// The hint: the user's next step.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The kind of the error.
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
        // A model's problems are listed, one a line.
        let has_lines = self.kind == ErrorKind::Model;
        f.write_str(&if has_lines { harmless_lines(&self.message) } else { harmless(&self.message) })?;
        for (position, (name, value)) in self.context.iter().enumerate() {
            let opening = if position == 0 { " (" } else { ", " };
            write!(f, "{opening}{name}: {}", harmless(value))?;
        }
        if !self.context.is_empty() {
            f.write_str(")")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, ". {}", harmless(hint))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_for_another_record_has_the_same_text_and_can_be_told_without_its_hint() {
        let error = Error::new(ErrorKind::Unavailable, "lookup `place` found no item")
            .with("entity", "visit")
            .hint("The record is redelivered");
        let restated = error.restated();
        assert_eq!((restated.kind(), restated.to_string()), (error.kind(), error.to_string()));
        assert_eq!(restated.without_hint().to_string(), "lookup `place` found no item (entity: visit)");
        assert_eq!(restated.advice(), Some("The record is redelivered"));
    }
}
