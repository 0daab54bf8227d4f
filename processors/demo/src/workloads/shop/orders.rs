//! One writer's customers: they order and review; some orders are cancelled, changed, moved, deleted, or expire.

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::json;

use super::items::{CustomerOrder, OrderLine, ShopProduct, TABLE, review, review_key, user, user_key};
use crate::exact::ExactNumber;
use crate::item::{SdkItem, exact, with};
use crate::script::{PAST, ScriptLane};
use crate::workloads::tools::{LaneWriter, chance, day, instant, moment, one_of, short_id};

/// A customer, and whether its client is an old one.
#[derive(Clone, Debug)]
pub(super) struct ShopCustomer {
    id: String,
    is_old: bool,
}

impl ShopCustomer {
    pub(super) fn new(random: &mut Rng) -> Self {
        Self { id: short_id(random), is_old: chance(random, 20) }
    }
}

/// Writes some of the customers, one after the other.
#[derive(Debug)]
pub(super) struct OrderClerk {
    pub(super) random: Rng,
    pub(super) customers: Vec<ShopCustomer>,
    pub(super) products: Vec<ShopProduct>,
    pub(super) now: Timestamp,
    /// Expired orders that are placed again under the same key.
    pub(super) placing_again: Vec<CustomerOrder>,
}

impl OrderClerk {
    fn order(&mut self, customer: &ShopCustomer, round: usize) -> CustomerOrder {
        let count = self.random.usize(1..=4);
        let random = &mut self.random;
        let chosen = random.choose_multiple(&self.products, count);
        let lines = chosen.into_iter().map(|product| OrderLine {
            product: product.id.clone(),
            quantity: random.i64(1..=5),
            price: product.price.clone(),
        });
        let lines = lines.collect();
        let ordered_at = moment(random, self.now, round);
        CustomerOrder {
            id: format!("ORD-{}", short_id(random)),
            customer: customer.id.clone(),
            is_old: customer.is_old,
            ordered_at: if customer.is_old { day(ordered_at) } else { instant(ordered_at) },
            lines,
            shipping: ExactNumber::hundredths(one_of(random, &[0, 490, 1])),
        }
    }

    /// Writes an order in one transaction, or item by item.
    fn place(&mut self, order: &CustomerOrder, lane: &mut ScriptLane) {
        let lines = order.lines.iter().map(|line| order.line(line));
        let items: Vec<SdkItem> = [order.listed(), order.details()].into_iter().chain(lines).collect();
        if chance(&mut self.random, 40) {
            return lane.put_together(TABLE, items);
        }
        items.into_iter().for_each(|item| lane.put(TABLE, item));
    }

    /// Changes some orders afterwards.
    fn change_later(&mut self, mut order: CustomerOrder, lane: &mut ScriptLane) {
        let (listed, details) = (order.listed_key(), order.details_key());
        match self.random.u8(..100) {
            0..15 => set_statuses(&order, lane, &["SHIPPED", "DELIVERED"]),
            15..25 => set_statuses(&order, lane, &["CANCELLED"]),
            25..30 => set_statuses(&order, lane, &["CANCELLED", "PENDING"]),
            30..50 => self.change_lines(&mut order, lane),
            // A refund, or a corrected date.
            50..56 => {
                let total = order.total().minus(&ExactNumber::hundredths(self.random.i64(1..=100)));
                lane.set(TABLE, listed, json!({ "total": exact(&total) }));
            }
            56..60 => {
                let corrected = instant(moment(&mut self.random, self.now, 0));
                lane.set(TABLE, listed, json!({ "orderDate": corrected }));
            }
            // Marked as deleted, then deleted by time to live: it no longer counts, and nothing of it is settled.
            60..66 => lane.set(TABLE, listed, json!({ "status": "DELETED", "ttl": PAST })),
            // Deleted by time to live: it stays counted.
            66..74 => {
                for line in &order.lines {
                    lane.set(TABLE, order.line_key(line), json!({ "ttl": PAST }));
                }
                lane.set(TABLE, listed, json!({ "ttl": PAST }));
                if self.random.bool() {
                    self.placing_again.push(order);
                }
            }
            74..80 => {
                for line in &order.lines {
                    lane.delete(TABLE, order.line_key(line));
                }
                lane.delete(TABLE, details);
                lane.delete(TABLE, listed);
                if self.random.bool() {
                    self.place(&order, lane);
                }
            }
            // Moved to another customer.
            80..86 => {
                let Some(other) = self.random.choice(&self.customers) else { return };
                (order.customer, order.is_old) = (other.id.clone(), other.is_old);
                lane.delete(TABLE, listed);
                lane.put(TABLE, order.listed());
                lane.put(TABLE, order.details());
            }
            // The details are saved as a whole by a client with wrong counts of its own.
            86..92 => {
                let wrong = json!({ "itemCount": 99, "subtotal": 1 });
                lane.put(TABLE, with(order.details(), wrong));
            }
            _ => {}
        }
    }

    fn change_lines(&mut self, order: &mut CustomerOrder, lane: &mut ScriptLane) {
        let Some(line) = order.lines.first() else { return };
        let key = order.line_key(line);
        match self.random.u8(..4) {
            0 => lane.set(TABLE, key, json!({ "quantity": self.random.i64(1..=9) })),
            1 => {
                let price = ExactNumber::hundredths(self.random.i64(1..=9999));
                lane.set(TABLE, key, json!({ "price": exact(&price) }));
            }
            2 => lane.set(TABLE, key, json!({ "status": "DELETED" })),
            _ => lane.delete(TABLE, key),
        }
    }

    /// Some customers review a product; some change or delete the review.
    fn review(&mut self, customer: &ShopCustomer, round: usize, lane: &mut ScriptLane) {
        if !chance(&mut self.random, 50) {
            return;
        }
        let Some(product) = self.random.choice(&self.products) else { return };
        let at = instant(moment(&mut self.random, self.now, round));
        let rating = |random: &mut Rng| exact(&ExactNumber::hundredths(50 * random.i64(2..=10)));
        let key = review_key(&product.id, at.get(..10).unwrap_or_default(), &customer.id);
        let first = rating(&mut self.random);
        lane.put(TABLE, review(&product.id, &at, &customer.id, customer.is_old, first));
        match self.random.u8(..100) {
            0..15 => lane.set(TABLE, key, json!({ "rating": rating(&mut self.random) })),
            15..22 => lane.set(TABLE, key, json!({ "status": "DELETED" })),
            22..30 => lane.set(TABLE, key, json!({ "ttl": PAST })),
            30..40 => lane.delete(TABLE, key),
            _ => {}
        }
    }

    /// The customer's own item is saved with stale totals, deleted, created again.
    fn change_customer(&mut self, customer: &ShopCustomer, lane: &mut ScriptLane) {
        match self.random.u8(..100) {
            0..4 => {
                let stale = json!({ "orderCount": 99, "totalSpent": 0, "vip": 1 });
                lane.put(TABLE, with(user(&customer.id, customer.is_old), stale));
            }
            4..6 => {
                lane.delete(TABLE, user_key(&customer.id));
                if self.random.bool() {
                    lane.put(TABLE, user(&customer.id, customer.is_old));
                }
            }
            _ => {}
        }
    }
}

fn set_statuses(order: &CustomerOrder, lane: &mut ScriptLane, statuses: &[&str]) {
    for status in statuses {
        for key in [order.listed_key(), order.details_key()] {
            lane.set(TABLE, key, json!({ "status": status }));
        }
    }
}

impl LaneWriter for OrderClerk {
    /// Most customers have an item of their own; some only have orders.
    fn open(&mut self, lane: &mut ScriptLane) {
        for customer in &self.customers {
            if !chance(&mut self.random, 10) {
                lane.put(TABLE, user(&customer.id, customer.is_old));
            }
        }
    }

    fn write_round(&mut self, orders: u64, round: usize, lane: &mut ScriptLane) {
        for mut order in std::mem::take(&mut self.placing_again) {
            order.shipping = ExactNumber::hundredths(self.random.i64(0..=999));
            self.place(&order, lane);
        }
        for _ in 0..orders {
            let Some(customer) = self.random.choice(&self.customers).cloned() else { return };
            let order = self.order(&customer, round);
            self.place(&order, lane);
            self.change_later(order, lane);
            self.review(&customer, round, lane);
            self.change_customer(&customer, lane);
        }
    }
}
