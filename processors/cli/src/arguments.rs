//! Values on the command line: the forms of numbers and pairs, and names that do not exist.

use afterwrite_deployment::cost::Observability;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::{NO_DAY, nearest_name};
use afterwrite_model::{Error, ErrorKind};
use clap::ValueEnum;

/// The metrics and alarms of a deployment, as an option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObservabilityArgument {
    /// All metrics, all alarms, and a dashboard.
    #[default]
    Full,
    /// The metrics and alarms that report every way of losing data.
    Minimal,
}

impl ObservabilityArgument {
    pub(crate) fn level(self) -> Observability {
        match self {
            Self::Full => Observability::Full,
            Self::Minimal => Observability::Minimal,
        }
    }
}

/// A whole number.
pub(crate) fn whole_number(written: &str) -> Result<u64, String> {
    written.parse().map_err(|_| "write a whole number, such as 42".to_owned())
}

/// The two sides of `NAME=VALUE`.
pub(crate) fn pair(written: &str) -> Result<(String, String), String> {
    let (name, value) = written.split_once('=').ok_or("write a name, `=` and a value")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// A day, as partitions are named.
pub(crate) fn day(written: &str) -> Result<String, String> {
    let has_form = written.len() == NO_DAY.len() && Timestamp::parse(written).is_some();
    has_form.then(|| written.to_owned()).ok_or_else(|| "write the day as yyyy-mm-dd".to_owned())
}

/// A time on the command line.
pub(crate) fn time(written: &str) -> Result<Timestamp, String> {
    Timestamp::parse(written)
        .ok_or_else(|| "write a time, such as 2026-02-06T10:00:00Z or 2026-02-06".to_owned())
}

/// The error of a name that does not exist, with the names that exist; `what` describes it: "a table that the model does not have".
pub(crate) fn unknown<'n>(what: &str, name: &str, known: impl IntoIterator<Item = &'n str>) -> Error {
    let known: Vec<&str> = known.into_iter().collect();
    let hint = match nearest_name(name, known.iter().copied()) {
        Some(nearest) => format!("Did you mean {nearest}? Available: {}", known.join(", ")),
        None if known.is_empty() => "The model has none".to_owned(),
        None => format!("Available: {}", known.join(", ")),
    };
    Error::new(ErrorKind::Configuration, format!("the command names {what}")).with("name", name).hint(hint)
}
