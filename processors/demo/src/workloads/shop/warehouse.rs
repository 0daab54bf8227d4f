//! The writer behind the counter: products change and are deleted, and sensors measure the temperature.

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::items::{ShopProduct, TABLE, reading, reading_key};
use crate::exact::ExactNumber;
use crate::item::{exact, with};
use crate::script::{PAST, ScriptLane};
use crate::workloads::tools::{LaneWriter, days_before};

/// The number of sensors.
pub(super) const SENSORS: u8 = 3;
/// The hours that are measured, up to now.
const HOURS: i64 = 12;
/// The age of readings from a sensor that was offline: their hours have expired.
const LONG_AGO_DAYS: i64 = 40;

/// Writes the products' own items, and the readings.
#[derive(Debug)]
pub(super) struct WarehouseWriter {
    random: Rng,
    products: Vec<ShopProduct>,
    now: Timestamp,
    readings: i64,
}

impl WarehouseWriter {
    pub(super) fn new(random: Rng, products: Vec<ShopProduct>, now: Timestamp) -> Self {
        Self { random, products, now, readings: 0 }
    }

    fn measure(&mut self, lane: &mut ScriptLane) {
        let is_late = self.random.u8(..100) < 3;
        let end = if is_late { days_before(self.now, LONG_AGO_DAYS) } else { self.now };
        self.readings += 1;
        let seconds = self.random.i64(0..HOURS * 3600);
        let at = end - SignedDuration::from_secs(seconds) - SignedDuration::from_millis(self.readings % 1000);
        let (sensor, hour) = (self.random.u8(1..=SENSORS), at.strftime("%Y-%m-%d-%H").to_string());
        let at = at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
        let temperature = self.temperature();
        let key = reading_key(sensor, &hour, &at);
        lane.put(TABLE, reading(sensor, &hour, &at, &temperature));
        match self.random.u8(..100) {
            // Calibrated; the extremes see both.
            0..8 => lane.set(TABLE, key, json!({ "temperature": exact(&self.temperature()) })),
            8..14 => lane.set(TABLE, key, json!({ "status": "DELETED" })),
            14..20 => lane.delete(TABLE, key),
            20..30 => lane.set(TABLE, key, json!({ "ttl": PAST })),
            // Moved to another sensor.
            30..36 => {
                lane.delete(TABLE, key);
                lane.put(TABLE, reading(sensor % SENSORS + 1, &hour, &at, &temperature));
            }
            _ => {}
        }
    }

    fn temperature(&mut self) -> ExactNumber {
        ExactNumber::hundredths(self.random.i64(-500..=3000))
    }

    fn change_product(&mut self, lane: &mut ScriptLane) {
        let place = self.random.usize(..self.products.len().max(1));
        let Some(product) = self.products.get_mut(place) else { return };
        match self.random.u8(..4) {
            0 => {
                product.category = "Bargains";
                let category = json!({ "category": "Bargains", "GSI1PK": "CATEGORY#Bargains" });
                lane.set(TABLE, product.key(), category);
            }
            // Saved as a whole by a client with an average of its own.
            1 => {
                let stale = json!({ "ratingAvg": 5, "reviewCount": 1000 });
                lane.put(TABLE, with(product.item(), stale));
            }
            2 => {
                lane.delete(TABLE, product.key());
                lane.put(TABLE, product.item());
            }
            _ => lane.set(TABLE, product.key(), json!({ "inventory": self.random.i64(0..=200) })),
        }
    }
}

impl LaneWriter for WarehouseWriter {
    /// Every product's own item.
    fn open(&mut self, lane: &mut ScriptLane) {
        self.products.iter().for_each(|product| lane.put(TABLE, product.item()));
    }

    /// About half as many readings as there are orders, and a few changes of products.
    fn write_round(&mut self, orders: u64, _: usize, lane: &mut ScriptLane) {
        for _ in 0..orders.div_ceil(2).max(3) {
            self.measure(lane);
        }
        for _ in 0..3 {
            self.change_product(lane);
        }
    }
}
