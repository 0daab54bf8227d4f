//! The items of the e-commerce table: customers and their email addresses, orders, order items.

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::exact::ExactNumber;
use crate::item::{SdkItem, exact, with};
use crate::workloads::tools::{instant, key, ksuid, one_of};

/// The table's name, as the model knows it.
pub(super) const TABLE: &str = "EcommerceTable";

/// The goods: an id, a description, and the price in hundredths.
const GOODS: [(&str, &str, i64); 12] = [
    ("B07-001", "Hand blender", 4999),
    ("B07-002", "Shoe horn", 10),
    ("B07-003", "Trail map", 1295),
    ("B07-004", "Café press", 3450),
    ("B07-005", "緑茶 100 g", 890),
    ("B07-006", "Desk lamp", 7900),
    ("B07-007", "Fountain pen", 129_900),
    ("B07-008", "Rain jacket", 11_950),
    ("B07-009", "Notebook", 333),
    ("B07-010", "Tent peg", 33),
    ("B07-011", "Kettle", 5495),
    ("B07-012", "Garden twine", 275),
];
const PLACES: [(&str, &str); 5] =
    [("Lyon", "FR"), ("Omaha", "US"), ("Bruges", "BE"), ("Nara", "JP"), ("Leeds", "GB")];

/// An order as its customer sees it, with its lines.
#[derive(Clone, Debug)]
pub(super) struct ShopOrder {
    pub(super) id: String,
    pub(super) customer: String,
    pub(super) created_at: Timestamp,
    pub(super) lines: Vec<LineItem>,
}

/// A line of an order.
#[derive(Clone, Debug)]
pub(super) struct LineItem {
    id: &'static str,
    description: &'static str,
    quantity: i64,
    price: ExactNumber,
}

impl ShopOrder {
    pub(super) fn new(random: &mut Rng, customer: &str, created_at: Timestamp, lines: usize) -> Self {
        let chosen = random.choose_multiple(&GOODS, lines);
        let line = |&(id, description, price)| LineItem {
            id,
            description,
            quantity: random.i64(1..=5),
            price: ExactNumber::hundredths(price),
        };
        let lines = chosen.into_iter().map(line).collect();
        Self { id: ksuid(random, created_at), customer: customer.to_owned(), created_at, lines }
    }

    pub(super) fn key(&self) -> SdkItem {
        key(&format!("CUSTOMER#{}", self.customer), &format!("#ORDER#{}", self.id))
    }

    pub(super) fn item(&self, status: &str) -> SdkItem {
        let prices = self.lines.iter().map(|line| ExactNumber::from(line.quantity).times(&line.price));
        let amount = prices.fold(ExactNumber::ZERO, |sum, price| sum.plus(&price));
        let indexed = format!("ORDER#{}", self.id);
        let attributes = json!({
            "user_name": self.customer, "order_id": self.id, "created_at": instant(self.created_at),
            "status": status, "number_of_items": self.lines.len(), "amount": exact(&amount),
            "GSI1PK": indexed, "GSI1SK": indexed, "entity_type": "order",
        });
        with(self.key(), attributes)
    }

    pub(super) fn line_key(&self, line: &LineItem) -> SdkItem {
        let partition = format!("ORDER#{}", self.id);
        key(&partition, &format!("{partition}#ITEM#{}", line.id))
    }

    pub(super) fn line(&self, line: &LineItem) -> SdkItem {
        let attributes = json!({
            "order_id": self.id, "item_id": line.id, "description": line.description,
            "quantity": line.quantity, "price": exact(&line.price), "ordered_at": instant(self.created_at),
            "GSI1PK": format!("ORDER#{}", self.id), "GSI1SK": format!("ITEM#{}", line.id),
            "entity_type": "order_item",
        });
        with(self.line_key(line), attributes)
    }
}

pub(super) fn customer_key(name: &str) -> SdkItem {
    let both = format!("CUSTOMER#{name}");
    key(&both, &both)
}

/// A customer with none to three addresses, by kind.
pub(super) fn customer(random: &mut Rng, name: &str) -> SdkItem {
    let mut addresses = Map::new();
    for kind in random.choose_multiple(&["home", "work", "parcel station"], 3) {
        if random.bool() {
            addresses.insert((*kind).to_owned(), address(random));
        }
    }
    let attributes = json!({
        "user_name": name, "name": "Zoë \"Ж\" O'Neill", "email": format!("{name}@example.com"),
        "addresses": addresses, "entity_type": "customer",
    });
    with(customer_key(name), attributes)
}

/// A random address.
pub(super) fn address(random: &mut Rng) -> Value {
    let (city, country) = one_of(random, &PLACES);
    json!({ "street": format!("Station Road {}", random.u8(1..=200)), "city": city, "state": country })
}

pub(super) fn email_key(name: &str) -> SdkItem {
    let both = format!("CUSTOMEREMAIL#{name}@example.com");
    key(&both, &both)
}

pub(super) fn email(name: &str) -> SdkItem {
    with(email_key(name), json!({ "user_name": name, "entity_type": "customer_email" }))
}
