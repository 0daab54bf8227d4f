//! The rows of lives that ended by expiry, among the current rows of a dataset.

use super::{Dataset, Model, OnExpiry};

/// Which expired lives of an item have a row among the current rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiredRows {
    /// None: an expiry is like a removal.
    NoLife,
    /// Each: an item that is written again with its key lives again.
    EachLife,
    /// The newest: the key shows when the item expires, so it lives once. An expiry in another state table, such as a rebuilt one, is of the same life.
    NewestLife,
}

impl Dataset {
    /// The expired lives of its items that have a row.
    #[must_use]
    pub fn expired_rows(&self, model: &Model) -> ExpiredRows {
        let entity = model.entities.get(self.of);
        match entity.map_or(OnExpiry::Keep, |entity| entity.on_expiry) {
            OnExpiry::Subtract => ExpiredRows::NoLife,
            OnExpiry::Keep
                if entity.and_then(|entity| entity.rollup).is_some_and(|of| lives_once(model, of)) =>
            {
                ExpiredRows::NewestLife
            }
            OnExpiry::Keep => ExpiredRows::EachLife,
        }
    }
}

/// Whether all items that count into a rollup agree on when it expires. In the zone of each item, one bucket of a key ends at several times: TTL can
/// delete the rollup between them.
fn lives_once(model: &Model, rollup: usize) -> bool {
    let into = model.aggregates.iter().flat_map(|aggregate| &aggregate.into);
    let mut formats = into.filter(|into| into.rollup == rollup).map(|into| {
        into.expires.as_ref().map(|expiry| &expiry.format).filter(|format| format.item_zone().is_none())
    });
    let Some(Some(first)) = formats.next() else { return false };
    formats.all(|format| format == Some(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = r##"
name = "shop"
generation = 1
[tables.shop]
key = ["pk", "sk"]
[entities.order]
key = { pk = "SHOP#{shop}", sk = "ORDER#{order}" }
attributes = { placed_at = "S", tz = "S" }
[rollups.minute]
key = { PK = "SHOP#{shop}", SK = "MINUTE#{placed_at:minute}" }
expires = { after = "1 hours", of = "placed_at:minute" }
[[aggregates]]
name = "orders"
of = "order"
into = "minute"
measures.orders = "count"
[datasets.minutes]
of = "minute"
partition = "placed_at:day"
columns = { orders = "int64" }
[datasets.orders]
of = "order"
partition = "placed_at:day"
columns = { placed_at = "string" }
"##;

    fn of(source: &str) -> Vec<ExpiredRows> {
        let model = Model::parse(source, "shop.toml").unwrap_or_else(|errors| panic!("{errors}"));
        model.datasets.iter().map(|dataset| dataset.expired_rows(&model)).collect()
    }

    #[test]
    fn a_rollup_whose_key_shows_when_it_expires_lives_once() {
        assert_eq!(of(MODEL), [ExpiredRows::NewestLife, ExpiredRows::EachLife]);
        let subtracting = MODEL.replace("[[aggregates]]", "on_expiry = \"subtract\"\n[[aggregates]]");
        assert_eq!(of(&subtracting), [ExpiredRows::NoLife, ExpiredRows::EachLife]);
    }

    #[test]
    fn a_rollup_in_the_zone_of_each_item_may_live_several_times() {
        let by_day = MODEL.replace("MINUTE#{placed_at:minute}", "DAY#{placed_at:day@tz}");
        let zones = by_day.replace("of = \"placed_at:minute\"", "of = \"placed_at:day@tz\"");
        assert_eq!(of(&zones), [ExpiredRows::EachLife; 2]);
        let plain =
            MODEL.replace("MINUTE#{placed_at:minute}", "DAY#{day}").replace("placed_at:minute", "day");
        let plain = plain.replace(
            "of = \"minute\"\npartition = \"placed_at:day\"",
            "of = \"minute\"\npartition = \"day:day\"",
        );
        for (bound, expected) in
            [("placed_at:day", ExpiredRows::NewestLife), ("placed_at:day@tz", ExpiredRows::EachLife)]
        {
            let bind = format!("into = \"minute\"\nbind = {{ day = \"{bound}\" }}");
            assert_eq!(of(&plain.replace("into = \"minute\"", &bind)).first(), Some(&expected), "{bound}");
        }
    }
}
