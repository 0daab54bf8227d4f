//! The shop's items, as its design document defines them. Some have an older schema with another name for the customer.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::exact::ExactNumber;
use crate::item::{SdkItem, exact, with};
use crate::workloads::tools::{key, one_of, short_id};

/// The table's name, as the model knows it.
pub(super) const TABLE: &str = "EcommerceApp";

const NAMES: [(&str, &str); 12] = [
    ("Wireless Mouse", "Electronics"),
    ("Teapot", "Kitchen"),
    ("Atlas of Moths", "Books"),
    ("Bicycle Bell", "Outdoors"),
    ("緑茶", "Kitchen"),
    ("Fountain Pen", "Office"),
    ("Head Torch", "Outdoors"),
    ("Keyboard", "Electronics"),
    ("Café press", "Kitchen"),
    ("Dictionary", "Books"),
    ("Stapler", "Office"),
    ("Rope", "Outdoors"),
];
/// Prices in hundredths. A tenth is not a binary fraction, and ten of them are one.
const PRICES: [i64; 6] = [2999, 10, 500, 1995, 129_900, 33];

/// A product.
#[derive(Clone, Debug)]
pub(super) struct ShopProduct {
    pub(super) id: String,
    pub(super) name: &'static str,
    pub(super) category: &'static str,
    pub(super) price: ExactNumber,
}

impl ShopProduct {
    pub(super) fn some(random: &mut Rng, count: usize) -> Vec<Self> {
        let product = |(name, category): &(&'static str, &'static str)| Self {
            id: format!("PROD-{}", short_id(random)),
            name,
            category,
            price: ExactNumber::hundredths(one_of(random, &PRICES)),
        };
        NAMES.iter().take(count).map(product).collect()
    }

    pub(super) fn key(&self) -> SdkItem {
        key(&format!("PRODUCT#{}", self.id), "METADATA")
    }

    pub(super) fn item(&self) -> SdkItem {
        let attributes = json!({
            "Type": "Product", "SchemaVersion": "2.0", "productId": self.id,
            "name": self.name, "category": self.category, "price": exact(&self.price),
            "GSI1PK": format!("CATEGORY#{}", self.category), "GSI1SK": format!("PRODUCT#{}", self.id),
        });
        with(self.key(), attributes)
    }
}

/// The item with its customer, named as the schema's version names it.
fn with_customer(item: SdkItem, customer: &str, is_old: bool) -> SdkItem {
    let (name, version) = if is_old { ("user_identifier", "1.0") } else { ("userId", "2.0") };
    with(item, json!({ name: customer, "SchemaVersion": version }))
}

pub(super) fn user_key(id: &str) -> SdkItem {
    key(&format!("USER#{id}"), "METADATA")
}

pub(super) fn user(id: &str, is_old: bool) -> SdkItem {
    let attributes = json!({
        "Type": "User", "name": "Émile \"Œ\" 試験", "email": format!("{id}@example.com"),
        "GSI1PK": format!("EMAIL#{id}@example.com"), "GSI1SK": format!("USER#{id}"),
    });
    with(with_customer(user_key(id), id, is_old), attributes)
}

/// An order, which has an item in the customer's list and an item of its own.
#[derive(Clone, Debug)]
pub(super) struct CustomerOrder {
    pub(super) id: String,
    pub(super) customer: String,
    pub(super) is_old: bool,
    /// Its time; older clients write only the day.
    pub(super) ordered_at: String,
    pub(super) lines: Vec<OrderLine>,
    pub(super) shipping: ExactNumber,
}

/// A line of an order.
#[derive(Clone, Debug)]
pub(super) struct OrderLine {
    pub(super) product: String,
    pub(super) quantity: i64,
    pub(super) price: ExactNumber,
}

impl CustomerOrder {
    pub(super) fn total(&self) -> ExactNumber {
        let prices = self.lines.iter().map(|line| ExactNumber::from(line.quantity).times(&line.price));
        prices.fold(self.shipping.clone(), |sum, price| sum.plus(&price))
    }

    fn day(&self) -> &str {
        self.ordered_at.get(..10).unwrap_or_default()
    }

    /// The key in the customer's list.
    pub(super) fn listed_key(&self) -> SdkItem {
        key(&format!("USER#{}", self.customer), &format!("ORDER#{}#{}", self.day(), self.id))
    }

    /// The key of the order itself.
    pub(super) fn details_key(&self) -> SdkItem {
        key(&format!("ORDER#{}", self.id), "METADATA")
    }

    pub(super) fn line_key(&self, line: &OrderLine) -> SdkItem {
        key(&format!("ORDER#{}", self.id), &format!("ITEM#PRODUCT#{}", line.product))
    }

    pub(super) fn listed(&self) -> SdkItem {
        self.with_key(self.listed_key(), "STATUS#PENDING")
    }

    pub(super) fn details(&self) -> SdkItem {
        self.with_key(self.details_key(), &format!("USER#{}", self.customer))
    }

    fn with_key(&self, key: SdkItem, indexed: &str) -> SdkItem {
        let attributes = json!({
            "Type": "Order", "orderId": self.id, "orderDate": self.ordered_at, "total": exact(&self.total()),
            "GSI1PK": indexed, "GSI1SK": format!("{}#{}", self.day(), self.id),
        });
        let order = with(with_customer(key, &self.customer, self.is_old), attributes);
        if self.is_old { order } else { with(order, json!({ "status": "PENDING" })) }
    }

    pub(super) fn line(&self, line: &OrderLine) -> SdkItem {
        let attributes = json!({
            "Type": "OrderItem", "orderId": self.id, "productId": line.product,
            "quantity": line.quantity, "price": exact(&line.price),
            "GSI1PK": format!("PRODUCT#{}", line.product), "GSI1SK": format!("ORDER#{}", self.id),
        });
        with(self.line_key(line), attributes)
    }
}

pub(super) fn review_key(product: &str, day: &str, customer: &str) -> SdkItem {
    key(&format!("PRODUCT#{product}"), &format!("REVIEW#{day}#USER#{customer}"))
}

pub(super) fn review(product: &str, at: &str, customer: &str, is_old: bool, rating: Value) -> SdkItem {
    let attributes = json!({
        "Type": "Review", "productId": product, "userName": "Émile",
        "rating": rating, "reviewText": "Great!", "reviewDate": at,
        "GSI1PK": format!("USER#{customer}"), "GSI1SK": format!("REVIEW#{at}"),
    });
    let key = review_key(product, at.get(..10).unwrap_or_default(), customer);
    with(with_customer(key, customer, is_old), attributes)
}

pub(super) fn reading_key(sensor: u8, hour: &str, at: &str) -> SdkItem {
    key(&format!("SENSOR#S{sensor}#HOUR#{hour}"), &format!("TIMESTAMP#{at}"))
}

pub(super) fn reading(sensor: u8, hour: &str, at: &str, temperature: &ExactNumber) -> SdkItem {
    let attributes = json!({
        "Type": "SensorReading", "sensorId": format!("S{sensor}"), "timestamp": at,
        "temperature": exact(temperature), "humidity": exact(&ExactNumber::hundredths(4520)),
        "GSI1PK": format!("SENSOR#S{sensor}"), "GSI1SK": format!("TIMESTAMP#{at}"),
    });
    with(reading_key(sensor, hour, at), attributes)
}
