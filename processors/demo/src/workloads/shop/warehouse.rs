//! The writer behind the counter: products change and go, and sensors tell how warm it is.

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};

use super::items::{Product, TABLE, reading, reading_key};
use crate::exact::Exact;
use crate::item::{item, number, text, whole};
use crate::script::{Lane, PAST};
use crate::workloads::tools::{Actor, days_before};

/// How many sensors there are.
pub(super) const SENSORS: u8 = 3;
/// The hours that are measured, up to now.
const HOURS: i64 = 12;
/// Readings this old come from a sensor that was offline: their hours are long over.
const LONG_AGO_DAYS: i64 = 40;

/// Keeps the products' own items, and the readings.
#[derive(Debug)]
pub(super) struct Warehouse {
    random: Rng,
    products: Vec<Product>,
    now: Timestamp,
    readings: i64,
}

impl Warehouse {
    pub(super) fn new(random: Rng, products: Vec<Product>, now: Timestamp) -> Self {
        Self { random, products, now, readings: 0 }
    }

    fn measure(&mut self, lane: &mut Lane) {
        let is_late = self.random.u8(..100) < 3;
        let end = if is_late { days_before(self.now, LONG_AGO_DAYS) } else { self.now };
        self.readings += 1;
        let seconds = self.random.i64(0..HOURS * 3600);
        let at = end - SignedDuration::from_secs(seconds) - SignedDuration::from_millis(self.readings % 1000);
        let (sensor, hour) = (self.random.u8(1..=SENSORS), at.strftime("%Y-%m-%d-%H").to_string());
        let at = at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
        let temperature = self.temperature();
        let key = reading_key(sensor, &hour, &at);
        lane.put(TABLE, reading(sensor, &hour, &at, temperature));
        match self.random.u8(..100) {
            // Calibrated; the extremes have seen both.
            0..8 => lane.set(TABLE, key, [("temperature", number(self.temperature()))]),
            8..14 => lane.set(TABLE, key, [("status", text("DELETED"))]),
            14..20 => lane.delete(TABLE, key),
            20..30 => lane.set(TABLE, key, [("ttl", whole(PAST))]),
            // It was another sensor's.
            30..36 => {
                lane.delete(TABLE, key);
                lane.put(TABLE, reading(sensor % SENSORS + 1, &hour, &at, temperature));
            }
            _ => {}
        }
    }

    fn temperature(&mut self) -> Exact {
        Exact::hundredths(self.random.i64(-500..=3000))
    }

    fn change_product(&mut self, lane: &mut Lane) {
        let place = self.random.usize(..self.products.len().max(1));
        let Some(product) = self.products.get_mut(place) else { return };
        match self.random.u8(..4) {
            0 => {
                product.category = "Bargains";
                let category = text(product.category);
                lane.set(
                    TABLE,
                    product.key(),
                    [("category", category), ("GSI1PK", text("CATEGORY#Bargains"))],
                );
            }
            // Saved whole by a client with an average of its own.
            1 => {
                let mut stale = product.item();
                stale.extend(item([("ratingAvg", whole(5)), ("reviewCount", whole(1000))]));
                lane.put(TABLE, stale);
            }
            2 => {
                lane.delete(TABLE, product.key());
                lane.put(TABLE, product.item());
            }
            _ => lane.set(TABLE, product.key(), [("inventory", whole(self.random.i64(0..=200)))]),
        }
    }
}

impl Actor for Warehouse {
    /// Every product's own item.
    fn open(&mut self, lane: &mut Lane) {
        self.products.iter().for_each(|product| lane.put(TABLE, product.item()));
    }

    /// About half as many readings as there are orders, and a few changes of products.
    fn act(&mut self, orders: u64, _: usize, lane: &mut Lane) {
        for _ in 0..orders.div_ceil(2).max(3) {
            self.measure(lane);
        }
        for _ in 0..3 {
            self.change_product(lane);
        }
    }
}
