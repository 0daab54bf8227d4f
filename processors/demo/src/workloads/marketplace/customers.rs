//! One writer's customers: they fill carts and order; orders are cooked, delivered, corrected or cancelled.

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{PROMOS, RESTAURANTS, TABLE};
use crate::exact::ExactNumber;
use crate::item::{SdkItem, exact, with};
use crate::script::{PAST, ScriptLane};
use crate::workloads::tools::{LaneWriter, chance, instant, key, moment, new_id, one_of};

/// Writes some of the customers, one after the other.
#[derive(Debug)]
pub(super) struct DinerWriter {
    pub(super) random: Rng,
    pub(super) customers: Vec<String>,
    pub(super) now: Timestamp,
}

impl DinerWriter {
    /// A price as a text, or as a number as older clients write it.
    fn price(&mut self) -> Value {
        let price = ExactNumber::hundredths(self.random.i64(0..=9_999));
        if chance(&mut self.random, 80) { json!(price.to_string()) } else { exact(&price) }
    }

    fn restaurant(&mut self) -> &'static str {
        self.random.choice(&RESTAURANTS).map_or("", |(restaurant, ..)| restaurant)
    }

    #[expect(clippy::indexing_slicing, reason = "a JSON object: indexing adds or replaces a member")]
    fn order(&mut self, order_key: SdkItem, restaurant: &str, round: usize) -> SdkItem {
        let at = moment(&mut self.random, self.now, round);
        let mut order = json!({
            "restaurant": restaurant, "status": "PLACED", "total": self.price(), "placed_at": instant(at),
        });
        if chance(&mut self.random, 40) {
            order["promo"] = json!(one_of(&mut self.random, &PROMOS));
        }
        with(order_key, order)
    }

    fn change_order(&mut self, order_key: SdkItem, lane: &mut ScriptLane) {
        match self.random.u8(..100) {
            0..25 => set_statuses(&order_key, lane, &["COOKING", "ON_ITS_WAY", "DELIVERED"]),
            25..35 => set_statuses(&order_key, lane, &["COOKING", "CANCELLED"]),
            35..40 => set_statuses(&order_key, lane, &["CANCELLED", "PLACED"]),
            40..46 => lane.set(TABLE, order_key, json!({ "total": self.price() })),
            // Another restaurant cooks it, perhaps in another city.
            46..52 => lane.set(TABLE, order_key, json!({ "restaurant": self.restaurant() })),
            // Another promotion, or none.
            52..58 => {
                let promo =
                    if self.random.bool() { json!(one_of(&mut self.random, &PROMOS)) } else { Value::Null };
                lane.set(TABLE, order_key, json!({ "promo": promo }));
            }
            58..62 => {
                let at = instant(moment(&mut self.random, self.now, 0));
                lane.set(TABLE, order_key, json!({ "placed_at": at }));
            }
            62..70 => lane.delete(TABLE, order_key),
            // Deleted by time to live: the order stays counted.
            70..80 => lane.set(TABLE, order_key, json!({ "ttl": PAST, "status": "DELIVERED" })),
            _ => {}
        }
    }

    /// A cart is filled, and ordered, emptied or left until it expires.
    fn fill_cart(&mut self, customer: &str, round: usize, lane: &mut ScriptLane) {
        let restaurant = self.restaurant();
        let cart_key = key(&format!("CUSTOMER#{customer}"), &format!("CART#{restaurant}"));
        lane.put(TABLE, with(cart_key.clone(), json!({ "total": self.price() })));
        if self.random.bool() {
            lane.set(TABLE, cart_key.clone(), json!({ "total": self.price() }));
        }
        match self.random.u8(..4) {
            0 => {
                let ordered = order_key(customer, &new_id(&mut self.random));
                let order = self.order(ordered, restaurant, round);
                lane.delete(TABLE, cart_key);
                lane.put(TABLE, order);
            }
            1 => lane.delete(TABLE, cart_key),
            2 => lane.set(TABLE, cart_key, json!({ "ttl": PAST })),
            _ => {}
        }
    }

    /// The customer's own item is saved with counts of its own, or is deleted and created again.
    fn change_customer(&mut self, customer: &str, lane: &mut ScriptLane) {
        match self.random.u8(..100) {
            0..6 => lane.put(TABLE, with(customer_item(customer), json!({ "order_count": 99, "spent": 0 }))),
            6..9 => {
                lane.delete(TABLE, customer_key(customer));
                if self.random.bool() {
                    lane.put(TABLE, customer_item(customer));
                }
            }
            _ => {}
        }
    }
}

fn set_statuses(order_key: &SdkItem, lane: &mut ScriptLane, statuses: &[&str]) {
    for status in statuses {
        lane.set(TABLE, order_key.clone(), json!({ "status": status }));
    }
}

fn customer_key(customer: &str) -> SdkItem {
    key(&format!("CUSTOMER#{customer}"), "CUSTOMER")
}

fn customer_item(customer: &str) -> SdkItem {
    with(
        customer_key(customer),
        json!({ "name": "Wu \"Ø\" Nnamdi", "email": format!("{customer}@example.com") }),
    )
}

fn order_key(customer: &str, order: &str) -> SdkItem {
    key(&format!("CUSTOMER#{customer}"), &format!("ORDER#{order}"))
}

impl LaneWriter for DinerWriter {
    fn open(&mut self, lane: &mut ScriptLane) {
        self.customers.iter().for_each(|customer| lane.put(TABLE, customer_item(customer)));
    }

    fn write_round(&mut self, orders: u64, round: usize, lane: &mut ScriptLane) {
        for _ in 0..orders {
            let Some(customer) = self.random.choice(&self.customers).cloned() else { return };
            let order_key = order_key(&customer, &new_id(&mut self.random));
            let restaurant = self.restaurant();
            let order = self.order(order_key.clone(), restaurant, round);
            lane.put(TABLE, order);
            self.change_order(order_key, lane);
            if chance(&mut self.random, 40) {
                self.fill_cart(&customer, round, lane);
            }
            self.change_customer(&customer, lane);
        }
    }
}
