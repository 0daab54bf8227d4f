//! The marketplace's own items: restaurants and promotions.

use fastrand::Rng;
use serde_json::json;

use super::{PROMOS, RESTAURANTS, TABLE};
use crate::item::{SdkItem, with};
use crate::script::ScriptLane;
use crate::workloads::tools::{LaneWriter, chance, key};

/// Writes restaurants and promotions.
#[derive(Debug)]
pub(super) struct MarketOperator {
    pub(super) random: Rng,
}

impl MarketOperator {
    fn promo(&mut self, promo: &str) -> SdkItem {
        with(promo_key(promo), json!({ "limit": self.random.i64(5..=200), "percent": 10 }))
    }
}

fn restaurant((restaurant, city, time_zone): (&str, &str, &str)) -> SdkItem {
    let attributes = json!({ "name": "Chez \"Zoë\"", "city": city, "time_zone": time_zone });
    with(key(&format!("RESTAURANT#{restaurant}"), "RESTAURANT"), attributes)
}

fn promo_key(promo: &str) -> SdkItem {
    key(&format!("PROMO#{promo}"), "PROMO")
}

impl LaneWriter for MarketOperator {
    fn open(&mut self, lane: &mut ScriptLane) {
        RESTAURANTS.iter().for_each(|known| lane.put(TABLE, restaurant(*known)));
        for promo in PROMOS {
            let item = self.promo(promo);
            lane.put(TABLE, item);
        }
    }

    /// Restaurants are saved as a whole with counts of their own; promotions get another limit, or are withdrawn and offered again. A restaurant
    /// is never deleted: its orders could not be attributed.
    fn write_round(&mut self, _: u64, _: usize, lane: &mut ScriptLane) {
        for known in RESTAURANTS {
            if chance(&mut self.random, 30) {
                lane.put(TABLE, with(restaurant(known), json!({ "open_orders": 99, "customer_count": 0 })));
            }
        }
        for promo in PROMOS {
            match self.random.u8(..4) {
                0 => lane.set(TABLE, promo_key(promo), json!({ "limit": self.random.i64(5..=200) })),
                1 => {
                    lane.delete(TABLE, promo_key(promo));
                    let item = self.promo(promo);
                    lane.put(TABLE, item);
                }
                _ => {}
            }
        }
    }
}
