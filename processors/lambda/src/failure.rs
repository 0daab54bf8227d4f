//! Errors as Lambda reports them: a stable type for alarms and retry rules, and a text for people.

use std::any::Any;
use std::fmt;

use afterwrite_model::Error;
use afterwrite_model::harmless::harmless;
use lambda_runtime::Diagnostic;

/// Why an invocation, or the start of the function, failed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FunctionFailure {
    error_type: &'static str,
    message: String,
}

impl FunctionFailure {
    /// An error with its causes.
    pub(crate) fn new(error: &Error) -> Self {
        Self { error_type: error.kind().name(), message: error.report() }
    }

    /// A panic is a defect. The runtime catches it, and the process handles the next invocation.
    pub(crate) fn from_panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = format!("the function panicked: {}", harmless(text.unwrap_or("no message")));
        Self { error_type: "PanicError", message }
    }
}

/// Its report for the Runtime API.
impl From<FunctionFailure> for Diagnostic {
    fn from(FunctionFailure { error_type, message }: FunctionFailure) -> Self {
        Self { error_type: error_type.to_owned(), error_message: message }
    }
}

impl fmt::Display for FunctionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error_type, self.message)
    }
}

/// The runtime logs failures by `Debug`.
impl fmt::Debug for FunctionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use afterwrite_model::ErrorKind;

    use super::*;

    #[test]
    fn a_failure_has_a_stable_type_and_all_causes() {
        let cause = Error::new(ErrorKind::Unavailable, "connection reset");
        let error =
            Error::new(ErrorKind::State, "the entry cannot be read").hint("Restore it").caused_by(cause);
        let failure = FunctionFailure::new(&error);
        let message = "the entry cannot be read. Restore it\n  because: connection reset";
        assert_eq!(format!("{failure:?}"), format!("StoreError: {message}"));
        let diagnostic = Diagnostic::from(failure);
        assert_eq!((&*diagnostic.error_type, &*diagnostic.error_message), ("StoreError", message));
    }

    #[test]
    fn a_panic_is_reported_by_its_message() {
        for payload in [Box::new("x") as Box<dyn Any + Send>, Box::new("x".to_owned())] {
            let message = FunctionFailure::from_panic(&*payload).to_string();
            assert_eq!(message, "PanicError: the function panicked: x");
        }
    }
}
