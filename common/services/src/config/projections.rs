//! The projections that a function derives from a table's changes.

use std::collections::BTreeSet;

use afterwrite_model::Result;
use afterwrite_model::table::{Entity, Model};

use super::{EnvironmentSettings, PROJECTIONS, STATE_TABLE, invalid, required};

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
    /// Events.
    Notify,
}

impl ProjectionKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Aggregate, Self::Invalidate, Self::Archive, Self::Notify];

    /// The kinds that the function `relay` hosts by default.
    pub const OF_RELAY: [Self; 3] = [Self::Invalidate, Self::Archive, Self::Notify];

    /// Its name in `AFTERWRITE_PROJECTIONS`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aggregate => "aggregate",
            Self::Invalidate => "invalidate",
            Self::Archive => "archive",
            Self::Notify => "notify",
        }
    }

    /// Whether it derives something from items of the entity.
    #[must_use]
    pub fn uses(self, entity: &Entity) -> bool {
        match self {
            Self::Aggregate => entity.is_used(),
            Self::Invalidate => !entity.caches.is_empty(),
            Self::Archive => entity.is_archived(),
            Self::Notify => !entity.events.is_empty(),
        }
    }

    /// Whether it reads the stream of the state table: it derives something from items of a rollup.
    #[must_use]
    pub fn reads_rollups(self, model: &Model) -> bool {
        model.entities.iter().any(|entity| entity.rollup.is_some() && self.uses(entity))
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

    /// Checks that the state table is named if one of the projections reads its stream: its records are known by its name.
    ///
    /// # Errors
    /// [`afterwrite_model::ErrorKind::Configuration`] if `AFTERWRITE_STATE_TABLE` is unset and needed.
    pub fn check_state_source(
        &self,
        model: &Model,
        projections: impl IntoIterator<Item = ProjectionKind>,
    ) -> Result<()> {
        if projections.into_iter().any(|projection| projection.reads_rollups(model)) {
            let hint = "Set it to the name of the state table: rollups of the model are sources, and its stream has their changes";
            required(self.state_table.as_deref(), STATE_TABLE, hint)?;
        }
        Ok(())
    }
}
