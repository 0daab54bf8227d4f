//! One writer's customers: they fill carts, order, move house, and leave; orders are shipped, corrected or cancelled.

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::json;

use super::items::{LineItem, ShopOrder, TABLE, address, customer, customer_key, email, email_key};
use crate::exact::ExactNumber;
use crate::item::{SdkItem, exact, with};
use crate::script::{PAST, ScriptLane};
use crate::workloads::tools::{LaneWriter, chance, moment};

/// Writes some of the customers, one after the other.
#[derive(Debug)]
pub(super) struct CustomerWriter {
    pub(super) random: Rng,
    pub(super) customers: Vec<String>,
    pub(super) now: Timestamp,
}

impl CustomerWriter {
    fn order(&mut self, customer: &str, round: usize) -> ShopOrder {
        let created_at = moment(&mut self.random, self.now, round);
        let lines = self.random.usize(1..=4);
        ShopOrder::new(&mut self.random, customer, created_at, lines)
    }

    /// Places an order in one transaction with its lines, or item by item. The order is always written before its lines.
    fn place(&mut self, order: &ShopOrder, lane: &mut ScriptLane) {
        let lines = order.lines.iter().map(|line| order.line(line));
        let items: Vec<SdkItem> = std::iter::once(order.item("PLACED")).chain(lines).collect();
        if self.random.bool() {
            return lane.put_together(TABLE, items);
        }
        items.into_iter().for_each(|item| lane.put(TABLE, item));
    }

    /// Changes some orders afterwards. An order that was placed is never deleted: its lines could not be attributed.
    fn change_later(&mut self, order: &ShopOrder, lane: &mut ScriptLane) {
        match self.random.u8(..100) {
            0..25 => set_statuses(order, lane, &["SHIPPED", "DELIVERED"]),
            25..35 => set_statuses(order, lane, &["CANCELLED"]),
            35..40 => set_statuses(order, lane, &["CANCELLED", "PLACED"]),
            40..60 => self.change_line(order, lane),
            // A discount.
            60..66 => {
                let amount = ExactNumber::hundredths(self.random.i64(1..=9999));
                lane.set(TABLE, order.key(), json!({ "amount": exact(&amount) }));
            }
            // Another day.
            66..70 => {
                let corrected = moment(&mut self.random, self.now, 0);
                let order = ShopOrder { created_at: corrected, ..order.clone() };
                lane.put(TABLE, order.item("PLACED"));
            }
            // Saved as a whole by a client with counts of its own.
            70..76 => {
                let wrong = json!({ "line_count": 99, "subtotal": 1 });
                lane.put(TABLE, with(order.item("SHIPPED"), wrong));
            }
            _ => {}
        }
    }

    fn change_line(&mut self, order: &ShopOrder, lane: &mut ScriptLane) {
        let Some(line) = order.lines.first() else { return };
        let key = order.line_key(line);
        match self.random.u8(..4) {
            0 => lane.set(TABLE, key, json!({ "quantity": self.random.i64(1..=9) })),
            // Moved to an archive by time to live: it stays counted.
            1 => lane.set(TABLE, key, json!({ "ttl": PAST })),
            2 => self.replace_line(order, line, lane),
            _ => lane.delete(TABLE, key),
        }
    }

    fn replace_line(&mut self, order: &ShopOrder, line: &LineItem, lane: &mut ScriptLane) {
        lane.delete(TABLE, order.line_key(line));
        if self.random.bool() {
            lane.put(TABLE, order.line(line));
        }
    }

    /// A cart becomes an order, is deleted, or expires.
    fn fill_cart(&mut self, customer: &str, round: usize, lane: &mut ScriptLane) {
        let cart = self.order(customer, round);
        lane.put(TABLE, cart.item("CART"));
        match self.random.u8(..3) {
            0 => self.place(&cart, lane),
            1 => lane.delete(TABLE, cart.key()),
            _ => lane.set(TABLE, cart.key(), json!({ "ttl": PAST })),
        }
    }

    /// The customer's own item gets another address, is saved with stale totals, or is deleted and created again.
    fn change_customer(&mut self, name: &str, lane: &mut ScriptLane) {
        match self.random.u8(..100) {
            0..8 => {
                let moved = json!({ "addresses": { "home": address(&mut self.random) } });
                lane.set(TABLE, customer_key(name), moved);
            }
            8..14 => {
                let stale = json!({ "order_count": 99, "total_spent": 0 });
                lane.put(TABLE, with(customer(&mut self.random, name), stale));
            }
            14..18 => {
                lane.delete(TABLE, customer_key(name));
                lane.delete(TABLE, email_key(name));
                if self.random.bool() {
                    lane.put_together(TABLE, vec![customer(&mut self.random, name), email(name)]);
                }
            }
            _ => {}
        }
    }
}

fn set_statuses(order: &ShopOrder, lane: &mut ScriptLane, statuses: &[&str]) {
    for status in statuses {
        lane.set(TABLE, order.key(), json!({ "status": status }));
    }
}

impl LaneWriter for CustomerWriter {
    fn open(&mut self, lane: &mut ScriptLane) {
        for name in &self.customers {
            lane.put_together(TABLE, vec![customer(&mut self.random, name), email(name)]);
        }
    }

    fn write_round(&mut self, orders: u64, round: usize, lane: &mut ScriptLane) {
        for _ in 0..orders {
            let Some(name) = self.random.choice(&self.customers).cloned() else { return };
            let order = self.order(&name, round);
            self.place(&order, lane);
            self.change_later(&order, lane);
            if chance(&mut self.random, 20) {
                self.fill_cart(&name, round, lane);
            }
            self.change_customer(&name, lane);
        }
    }
}
