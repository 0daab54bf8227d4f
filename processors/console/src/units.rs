//! Write units and their price: measured inside `dev`, planned for a deployment, of which no request reads them.

use std::sync::Arc;

use afterwrite_deployment::cost::{LoneChange, lone_changes};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::jobs::{UnitPrices, approximate};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

/// The write units of a change that is alone in its batch. They follow from the model, so they are computed once, for the first page that shows them.
#[derive(Debug, Default)]
pub(crate) struct PlannedUnits(OnceCell<Vec<LoneChange>>);

impl PlannedUnits {
    /// The units of each entity, from the fewest to the most.
    ///
    /// # Errors
    /// As [`lone_changes`].
    pub(crate) async fn read(&self, model: &Arc<Model>) -> Result<&[LoneChange]> {
        self.0.get_or_try_init(|| computed(Arc::clone(model))).await.map(Vec::as_slice)
    }
}

/// The units of each entity, from the fewest to the most. They are computed beside the requests of other pages.
async fn computed(model: Arc<Model>) -> Result<Vec<LoneChange>> {
    let changes = tokio::task::spawn_blocking(move || {
        Handle::current().block_on(Box::pin(lone_changes(&model, SystemClock.now())))
    });
    let mut changes = changes.await.map_err(|error| {
        Error::new(ErrorKind::State, "the write units of the model were not computed").caused_by(error)
    })??;
    changes.sort_by_key(|change| change.write_units);
    Ok(changes)
}

/// The planned units of a change, and the price of a million such changes; or why they are unknown.
pub(crate) fn planned_texts(changes: Result<&[LoneChange]>) -> [String; 2] {
    let unknown = |reason: String| [(); 2].map(|()| format!("unknown: {reason}"));
    let changes = match changes {
        Ok(changes) => changes,
        Err(error) => return unknown(error.to_string()),
    };
    let (Some(fewest), Some(most)) = (changes.first(), changes.last()) else {
        return unknown("no item can be made up from the model".to_owned());
    };
    let price = |change: &LoneChange| million_records(change.write_units, 1);
    if fewest.write_units == most.write_units {
        return [format!("{} planned", most.write_units), format!("{} planned", price(most))];
    }
    let named = |change: &LoneChange, number: String| format!("{number} ({})", change.entity);
    let range = |fewest: String, most: String| format!("{fewest} to {most} planned");
    let units = |change: &LoneChange| named(change, change.write_units.to_string());
    [range(units(fewest), units(most)), range(price(fewest), price(most))]
}

/// The price of the write units of a million such records, on demand in us-east-1; a dash before the first record.
pub(crate) fn million_records(units: u64, records: u64) -> String {
    if records == 0 {
        return "–".to_owned();
    }
    let dollars = approximate(units) / approximate(records) * UnitPrices::ON_DEMAND.million_writes;
    format!("${dollars:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(units: &[(&str, u64)]) -> [String; 2] {
        let change = |(entity, write_units): &(&str, u64)| LoneChange {
            entity: Arc::from(*entity),
            write_units: *write_units,
        };
        planned_texts(Ok(&units.iter().map(change).collect::<Vec<_>>()))
    }

    #[test]
    fn a_million_records_have_the_price_of_their_units() {
        assert_eq!([million_records(26, 10), million_records(0, 0)], ["$1.62", "–"]);
    }

    #[test]
    fn planned_units_are_a_range_and_absent_ones_are_unknown() {
        assert_eq!(planned(&[("order", 4), ("customer", 4)]), ["4 planned", "$2.50 planned"]);
        let range = ["4 (order) to 9 (attempt) planned", "$2.50 to $5.62 planned"];
        assert_eq!(planned(&[("order", 4), ("attempt", 9)]), range);
        assert!(planned(&[])[1].starts_with("unknown"));
        let failed = planned_texts(Err(Error::new(ErrorKind::State, "it does not fit")));
        assert!(failed.iter().all(|text| text == "unknown: it does not fit"), "{failed:?}");
    }
}
