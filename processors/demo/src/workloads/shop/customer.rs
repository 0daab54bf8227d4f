//! One writer's customers: they order and review; some orders are cancelled, changed, handed over, deleted, or expire.

use fastrand::Rng;
use jiff::Timestamp;

use super::items::{Line, Order, Product, TABLE, review, review_key, user, user_key};
use crate::exact::Exact;
use crate::item::{Item, item, number, text, whole};
use crate::script::{Lane, PAST};
use crate::workloads::tools::{Actor, day, in_a_hundred, instant, moment, one_of, short_id};

/// A customer, and whether their client is an old one.
#[derive(Clone, Debug)]
pub(super) struct Customer {
    id: String,
    is_old: bool,
}

impl Customer {
    pub(super) fn new(random: &mut Rng) -> Self {
        Self { id: short_id(random), is_old: in_a_hundred(random, 20) }
    }
}

/// Serves some of the customers, one after the other.
#[derive(Debug)]
pub(super) struct Clerk {
    random: Rng,
    customers: Vec<Customer>,
    products: Vec<Product>,
    now: Timestamp,
    /// Orders that expired or were deleted, to be made anew under the same key.
    to_make_again: Vec<Order>,
}

impl Clerk {
    pub(super) fn new(random: Rng, customers: Vec<Customer>, products: Vec<Product>, now: Timestamp) -> Self {
        Self { random, customers, products, now, to_make_again: Vec::new() }
    }

    fn order(&mut self, customer: &Customer, round: usize) -> Order {
        let count = self.random.usize(1..=4);
        let random = &mut self.random;
        let chosen = random.choose_multiple(&self.products, count);
        let lines = chosen.into_iter().map(|product| Line {
            product: product.id.clone(),
            quantity: random.i64(1..=5),
            price: product.price,
        });
        let lines = lines.collect();
        let ordered_at = moment(random, self.now, round);
        Order {
            id: format!("ORD-{}", short_id(random)),
            customer: customer.id.clone(),
            is_old: customer.is_old,
            ordered_at: if customer.is_old { day(ordered_at) } else { instant(ordered_at) },
            lines,
            shipping: Exact::hundredths(one_of(random, &[0, 490, 1])),
        }
    }

    /// Writes an order: all of it in one transaction, or item by item.
    fn make(&mut self, order: &Order, lane: &mut Lane) {
        let lines = order.lines.iter().map(|line| order.line(line));
        let items: Vec<Item> = [order.listed(), order.details()].into_iter().chain(lines).collect();
        if in_a_hundred(&mut self.random, 40) {
            return lane.put_together(TABLE, items);
        }
        items.into_iter().for_each(|item| lane.put(TABLE, item));
    }

    /// What becomes of an order afterwards.
    fn change_later(&mut self, mut order: Order, lane: &mut Lane) {
        let (listed, details) = (order.listed_key(), order.details_key());
        let statuses = |lane: &mut Lane, statuses: &[&str]| {
            for status in statuses {
                lane.set(TABLE, listed.clone(), [("status", text(*status))]);
                lane.set(TABLE, details.clone(), [("status", text(*status))]);
            }
        };
        match self.random.u8(..100) {
            0..15 => statuses(lane, &["SHIPPED", "DELIVERED"]),
            15..25 => statuses(lane, &["CANCELLED"]),
            25..30 => statuses(lane, &["CANCELLED", "PENDING"]),
            30..50 => self.change_lines(&mut order, lane),
            // A refund, and a date that was wrong.
            50..56 => {
                let total = order.total() - Exact::hundredths(self.random.i64(1..=100));
                lane.set(TABLE, listed, [("total", number(total))]);
            }
            56..60 => {
                let corrected = instant(moment(&mut self.random, self.now, 0));
                lane.set(TABLE, listed, [("orderDate", text(corrected))]);
            }
            // Deleted softly, then by time to live: it counts no more, and nothing of it is settled.
            60..66 => lane.set(TABLE, listed, [("status", text("DELETED")), ("ttl", whole(PAST))]),
            // Time to live takes it as it is: it stays counted.
            66..74 => {
                for line in &order.lines {
                    lane.set(TABLE, order.line_key(line), [("ttl", whole(PAST))]);
                }
                lane.set(TABLE, listed, [("ttl", whole(PAST))]);
                if self.random.bool() {
                    self.to_make_again.push(order);
                }
            }
            74..80 => {
                for line in &order.lines {
                    lane.delete(TABLE, order.line_key(line));
                }
                lane.delete(TABLE, details);
                lane.delete(TABLE, listed);
                if self.random.bool() {
                    self.make(&order, lane);
                }
            }
            // Handed over to another customer.
            80..86 => {
                let Some(other) = self.random.choice(&self.customers) else { return };
                (order.customer, order.is_old) = (other.id.clone(), other.is_old);
                lane.delete(TABLE, listed);
                lane.put(TABLE, order.listed());
                lane.put(TABLE, order.details());
            }
            // The details saved whole by a client with counts of its own, which are wrong.
            86..92 => {
                let mut details = order.details();
                details.extend(item([("itemCount", whole(99)), ("subtotal", whole(1))]));
                lane.put(TABLE, details);
            }
            _ => {}
        }
    }

    fn change_lines(&mut self, order: &mut Order, lane: &mut Lane) {
        let Some(line) = order.lines.first() else { return };
        let key = order.line_key(line);
        match self.random.u8(..4) {
            0 => lane.set(TABLE, key, [("quantity", whole(self.random.i64(1..=9)))]),
            1 => lane.set(TABLE, key, [("price", number(Exact::hundredths(self.random.i64(1..=9999))))]),
            2 => lane.set(TABLE, key, [("status", text("DELETED"))]),
            _ => lane.delete(TABLE, key),
        }
    }

    /// Some review what they bought, and think again.
    fn review(&mut self, customer: &Customer, round: usize, lane: &mut Lane) {
        if !in_a_hundred(&mut self.random, 50) {
            return;
        }
        let Some(product) = self.random.choice(&self.products).map(|product| product.id.clone()) else {
            return;
        };
        let at = instant(moment(&mut self.random, self.now, round));
        let rating = |random: &mut Rng| number(Exact::hundredths(50 * random.i64(2..=10)));
        let key = review_key(&product, at.get(..10).unwrap_or_default(), &customer.id);
        let given = rating(&mut self.random);
        lane.put(TABLE, review(&product, &at, &customer.id, customer.is_old, given));
        match self.random.u8(..100) {
            0..15 => lane.set(TABLE, key, [("rating", rating(&mut self.random))]),
            15..22 => lane.set(TABLE, key, [("status", text("DELETED"))]),
            22..30 => lane.set(TABLE, key, [("ttl", whole(PAST))]),
            30..40 => lane.delete(TABLE, key),
            _ => {}
        }
    }

    /// The customer's own item is saved with stale totals, deleted, made anew.
    fn change_customer(&mut self, customer: &Customer, lane: &mut Lane) {
        match self.random.u8(..100) {
            0..4 => {
                let mut stale = user(&customer.id, customer.is_old);
                stale.extend(item([("orderCount", whole(99)), ("totalSpent", whole(0)), ("vip", whole(1))]));
                lane.put(TABLE, stale);
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

impl Actor for Clerk {
    /// Most customers have an item of their own; some only order.
    fn open(&mut self, lane: &mut Lane) {
        for customer in &self.customers {
            if !in_a_hundred(&mut self.random, 10) {
                lane.put(TABLE, user(&customer.id, customer.is_old));
            }
        }
    }

    /// Takes so many orders in this round of the month.
    fn act(&mut self, orders: u64, round: usize, lane: &mut Lane) {
        for mut order in std::mem::take(&mut self.to_make_again) {
            order.shipping = Exact::hundredths(self.random.i64(0..=999));
            self.make(&order, lane);
        }
        for _ in 0..orders {
            let Some(customer) = self.random.choice(&self.customers).cloned() else { return };
            let order = self.order(&customer, round);
            self.make(&order, lane);
            self.change_later(order, lane);
            self.review(&customer, round, lane);
            self.change_customer(&customer, lane);
        }
    }
}
