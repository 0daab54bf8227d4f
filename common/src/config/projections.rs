//! What a function hosts.

use std::collections::BTreeSet;

use crate::{Error, ErrorKind, Result};

pub(super) const PROJECTIONS: &str = "AFTERWRITE_PROJECTIONS";

/// What can be made of a table's changes. Any function can host any set: a global table allows one reader, which then hosts
/// them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Projection {
    /// Counters, rollups and mirrors.
    Aggregate,
    /// Caches.
    Invalidate,
    /// The archive of all changes.
    Archive,
}

impl Projection {
    const ALL: [Self; 3] = [Self::Aggregate, Self::Invalidate, Self::Archive];

    /// Its name in `AFTERWRITE_PROJECTIONS`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aggregate => "aggregate",
            Self::Invalidate => "invalidate",
            Self::Archive => "archive",
        }
    }

    /// What `AFTERWRITE_PROJECTIONS` says, or `default` where it is unset.
    pub(super) fn hosted(written: Option<&str>, default: &[Self]) -> Result<BTreeSet<Self>> {
        let names = written.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty());
        let named = names.map(|name| {
            Self::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| unknown(name))
        });
        let named: BTreeSet<Self> = named.collect::<Result<_>>()?;
        Ok(if named.is_empty() { default.iter().copied().collect() } else { named })
    }
}

fn unknown(name: &str) -> Error {
    let known = Projection::ALL.map(Projection::name).join(", ");
    Error::new(
        ErrorKind::Configuration,
        format!("{PROJECTIONS} names `{name}`, which this version cannot host"),
    )
    .hint(format!("Name some of {known}, separated by commas"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_hosts_what_is_named_or_else_its_own() {
        let own = [Projection::Invalidate, Projection::Archive];
        let hosted = |written| Projection::hosted(written, &own).unwrap();
        assert_eq!(hosted(None), own.into());
        assert_eq!(hosted(Some(" ,")), own.into());
        assert_eq!(
            hosted(Some("archive, aggregate,archive")),
            [Projection::Aggregate, Projection::Archive].into()
        );
    }

    #[test]
    fn a_projection_that_cannot_be_hosted_is_told() {
        let error = Projection::hosted(Some("aggregate, teleport"), &[]).unwrap_err().to_string();
        assert!(error.contains("AFTERWRITE_PROJECTIONS") && error.contains("teleport"), "{error}");
    }
}
