//! The rollups that the simulation's models use as sources, computed independently: which rollup an item of the state table is of, and its
//! contributions to the rollups of the next level.
//!
//! ```text
//! session ─┬─▶ user_day ───▶ user_total ─▶ users     two levels; TTL keeps the contributions of an expired day
//!          └─▶ day ────────▶ calendar                TTL subtracts them
//! visit ───┬─▶ shop.kinds ─▶ shop                    the members of a distinct count, and the count
//!          └─▶ visit_kind ─▶ kinds                   from generation 2 on: the rollup and its use as a source
//! event, post ─▶ city ─────▶ map                     from generation 2 on: the use as a source
//! ```

use afterwrite_demo::exact::ExactNumber;
use afterwrite_model::record::Item;

use super::numbers::{exact, stored};

/// The highest level of an item.
pub(crate) const HIGHEST_LEVEL: u32 = 2;
/// The name of the state table in the keys of ledger entries.
pub(crate) const STATE_IN_ENTRIES: &str = "@state";

/// A rollup whose items are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceRollup {
    UserDay,
    UserTotal,
    Day,
    /// The members of a shop's distinct count.
    ShopKind,
    City,
    VisitKind,
}

/// `PK` and `SK` of the rollup, the measure and the amount.
type LevelContribution = ((String, String), &'static str, ExactNumber);

impl SourceRollup {
    /// The rollup of an item of the state table; `None` if no model uses it as a source.
    pub(crate) fn of_key(partition: &str, sort: &str) -> Option<Self> {
        let (kind, rest) = partition.split_once('#')?;
        let is_member = rest.ends_with("#DISTINCT#kinds") && sort.starts_with("ROLLUP#VISITS#");
        match kind {
            "USER" if sort.starts_with("ROLLUP#DAY#") => Some(Self::UserDay),
            "ALL" if sort == "ROLLUP" => Some(Self::UserTotal),
            "DAY" if sort == "ROLLUP" => Some(Self::Day),
            "SHOP" if is_member => Some(Self::ShopKind),
            "CITY" if sort == "ROLLUP" => Some(Self::City),
            "KIND" if sort == "ROLLUP" => Some(Self::VisitKind),
            _ => None,
        }
    }

    /// How many rollups lie between its items and the items of base tables.
    pub(crate) fn level(self) -> u32 {
        match self {
            Self::UserTotal => 2,
            Self::UserDay | Self::Day | Self::ShopKind | Self::City | Self::VisitKind => 1,
        }
    }

    /// The first generation of the model that uses it as a source.
    pub(crate) fn first_generation(self) -> u64 {
        match self {
            Self::City | Self::VisitKind => 2,
            Self::UserDay | Self::UserTotal | Self::Day | Self::ShopKind => 1,
        }
    }

    /// Whether the contributions of an item that TTL deletes remain.
    pub(crate) fn is_kept(self) -> bool {
        self != Self::Day
    }

    /// The additive measures of its items.
    fn measures(self) -> &'static [&'static str] {
        match self {
            Self::UserDay | Self::Day => &["sessions", "seconds_sum"],
            Self::UserTotal => &["days", "sessions", "seconds_sum", "busy_days"],
            Self::ShopKind => &["count"],
            Self::City => &["events", "high", "posts"],
            Self::VisitKind => &["visits_of_kind"],
        }
    }

    /// Whether an item counts as present: a measure is not zero.
    pub(crate) fn is_present(self, item: &Item) -> bool {
        let is_nonzero = |name: &&str| stored(item, name).is_some_and(|value| value != ExactNumber::ZERO);
        self.measures().iter().any(is_nonzero)
    }

    /// The contributions of an item with this key in the model of this generation, zeros included.
    pub(crate) fn contributions(
        self,
        partition: &str,
        item: &Item,
        generation: u64,
    ) -> Vec<LevelContribution> {
        if generation < self.first_generation() || !self.is_present(item) {
            return Vec::new();
        }
        let of = |name: &str| stored(item, name).unwrap_or_default();
        let one = ExactNumber::one;
        let id = partition.split('#').nth(1).unwrap_or_default();
        let into = |partition: &str, sort: &str, measures: Vec<(&'static str, ExactNumber)>| {
            let target = (partition.to_owned(), sort.to_owned());
            measures.into_iter().map(|(name, amount)| (target.clone(), name, amount)).collect()
        };
        match self {
            Self::UserDay => {
                let is_busy = of("sessions") >= exact("2");
                let sums = [("sessions", of("sessions")), ("seconds_sum", of("seconds_sum"))];
                let counts = [("days", one()), ("busy_days", is_busy.into())];
                into(&format!("ALL#{id}"), "ROLLUP", counts.into_iter().chain(sums).collect())
            }
            Self::UserTotal => {
                into("USERS", "ROLLUP", vec![("users", one()), ("seconds", of("seconds_sum"))])
            }
            Self::Day => into("CALENDAR", "ROLLUP", vec![("open_days", one()), ("sessions", of("sessions"))]),
            Self::ShopKind => into(&format!("SHOP#{id}"), "ROLLUP#VISITS", vec![("kinds", one())]),
            Self::City => {
                let sums = [("events_mapped", of("events")), ("posts_mapped", of("posts"))];
                into("MAP", "ROLLUP", [("cities", one())].into_iter().chain(sums).collect())
            }
            Self::VisitKind => {
                let visits = ("visits_mapped", of("visits_of_kind"));
                into("KINDS", "ROLLUP", vec![("kinds_visited", one()), visits])
            }
        }
    }
}
