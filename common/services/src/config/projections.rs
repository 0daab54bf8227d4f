//! The projections that a function derives from a table's changes.

use std::collections::BTreeSet;

use afterwrite_model::Result;

use super::{EnvironmentSettings, PROJECTIONS, invalid};

/// A kind of projection that can be derived from a table's changes. Any function can host any set: a global table allows one
/// stream reader, which then hosts all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProjectionKind {
    /// Counters, rollups and mirrors.
    Aggregate,
    /// Cache invalidation.
    Invalidate,
    /// The archive of all changes.
    Archive,
}

impl ProjectionKind {
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

    fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            invalid(format!("{PROJECTIONS} names `{name}`, which is not a projection"))
                .hint(format!("Name one or more of {known}, separated by commas"))
        })
    }
}

impl EnvironmentSettings {
    /// The projections that `AFTERWRITE_PROJECTIONS` names, or `default` if it is unset.
    ///
    /// # Errors
    /// [`afterwrite_model::ErrorKind::Configuration`] for an unknown name.
    pub fn projections_or(&self, default: &[ProjectionKind]) -> Result<BTreeSet<ProjectionKind>> {
        let names = self.projections.as_deref().unwrap_or_default().split(',').map(str::trim);
        let named: BTreeSet<_> =
            names.filter(|name| !name.is_empty()).map(ProjectionKind::parse).collect::<Result<_>>()?;
        Ok(if named.is_empty() { default.iter().copied().collect() } else { named })
    }
}
