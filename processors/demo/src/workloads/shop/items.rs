//! The shop's items, as its design document has them. Some are of an older schema, which names the customer otherwise.

use aws_sdk_dynamodb::types::AttributeValue;
use fastrand::Rng;

use super::super::tools::{one_of, short_id};
use crate::exact::Exact;
use crate::item::{Item, item, number, text, whole};

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
/// What things cost, in hundredths: a tenth is no binary fraction, and ten of them are one.
const PRICES: [i64; 6] = [2999, 10, 500, 1995, 129_900, 33];

/// A product, as its price tag and its page have it.
#[derive(Clone, Debug)]
pub(super) struct Product {
    pub(super) id: String,
    pub(super) name: &'static str,
    pub(super) category: &'static str,
    pub(super) price: Exact,
}

impl Product {
    pub(super) fn some(random: &mut Rng, count: usize) -> Vec<Self> {
        let product = |(name, category): &(&'static str, &'static str)| Self {
            id: format!("PROD-{}", short_id(random)),
            name,
            category,
            price: Exact::hundredths(one_of(random, &PRICES)),
        };
        NAMES.iter().take(count).map(product).collect()
    }

    pub(super) fn key(&self) -> Item {
        key(&format!("PRODUCT#{}", self.id), "METADATA")
    }

    pub(super) fn item(&self) -> Item {
        let mut product = self.key();
        product.extend(item([
            ("Type", text("Product")),
            ("SchemaVersion", text("2.0")),
            ("productId", text(&self.id)),
            ("name", text(self.name)),
            ("price", number(self.price)),
            ("category", text(self.category)),
            ("GSI1PK", text(format!("CATEGORY#{}", self.category))),
            ("GSI1SK", text(format!("PRODUCT#{}", self.id))),
        ]));
        product
    }
}

pub(super) fn key(partition: &str, sort: &str) -> Item {
    item([("PK", text(partition)), ("SK", text(sort))])
}

/// Names the customer as the schema's version does.
fn name_customer(item: &mut Item, customer: &str, is_old: bool) {
    let (name, version) = if is_old { ("user_identifier", "1.0") } else { ("userId", "2.0") };
    item.insert(name.to_owned(), text(customer));
    item.insert("SchemaVersion".to_owned(), text(version));
}

pub(super) fn user_key(id: &str) -> Item {
    key(&format!("USER#{id}"), "METADATA")
}

pub(super) fn user(id: &str, is_old: bool) -> Item {
    let mut user = user_key(id);
    name_customer(&mut user, id, is_old);
    user.extend(item([
        ("Type", text("User")),
        ("name", text("Émile \"Œ\" 試験")),
        ("email", text(format!("{id}@example.com"))),
        ("GSI1PK", text(format!("EMAIL#{id}@example.com"))),
        ("GSI1SK", text(format!("USER#{id}"))),
    ]));
    user
}

/// An order: for the customer's list, and with what was ordered.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) id: String,
    pub(super) customer: String,
    pub(super) is_old: bool,
    /// When it was made; older clients know the day alone.
    pub(super) ordered_at: String,
    pub(super) lines: Vec<Line>,
    pub(super) shipping: Exact,
}

/// A line of an order.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) product: String,
    pub(super) quantity: i64,
    pub(super) price: Exact,
}

impl Order {
    pub(super) fn total(&self) -> Exact {
        let lines = self.lines.iter().map(|line| Exact::whole(line.quantity).times(line.price));
        lines.sum::<Exact>() + self.shipping
    }

    fn day(&self) -> &str {
        self.ordered_at.get(..10).unwrap_or_default()
    }

    /// The key in the customer's list.
    pub(super) fn listed_key(&self) -> Item {
        key(&format!("USER#{}", self.customer), &format!("ORDER#{}#{}", self.day(), self.id))
    }

    /// The key of the order itself.
    pub(super) fn details_key(&self) -> Item {
        key(&format!("ORDER#{}", self.id), "METADATA")
    }

    pub(super) fn line_key(&self, line: &Line) -> Item {
        key(&format!("ORDER#{}", self.id), &format!("ITEM#PRODUCT#{}", line.product))
    }

    pub(super) fn listed(&self) -> Item {
        self.with_key(self.listed_key(), "STATUS#PENDING")
    }

    pub(super) fn details(&self) -> Item {
        self.with_key(self.details_key(), &format!("USER#{}", self.customer))
    }

    fn with_key(&self, mut order: Item, indexed: &str) -> Item {
        name_customer(&mut order, &self.customer, self.is_old);
        order.extend(item([
            ("Type", text("Order")),
            ("orderId", text(&self.id)),
            ("orderDate", text(&self.ordered_at)),
            ("total", number(self.total())),
            ("GSI1PK", text(indexed)),
            ("GSI1SK", text(format!("{}#{}", self.day(), self.id))),
        ]));
        if !self.is_old {
            order.insert("status".to_owned(), text("PENDING"));
        }
        order
    }

    pub(super) fn line(&self, line: &Line) -> Item {
        let mut item = self.line_key(line);
        item.extend(self::item([
            ("Type", text("OrderItem")),
            ("orderId", text(&self.id)),
            ("productId", text(&line.product)),
            ("quantity", whole(line.quantity)),
            ("price", number(line.price)),
            ("GSI1PK", text(format!("PRODUCT#{}", line.product))),
            ("GSI1SK", text(format!("ORDER#{}", self.id))),
        ]));
        item
    }
}

pub(super) fn review_key(product: &str, day: &str, customer: &str) -> Item {
    key(&format!("PRODUCT#{product}"), &format!("REVIEW#{day}#USER#{customer}"))
}

pub(super) fn review(product: &str, at: &str, customer: &str, is_old: bool, rating: AttributeValue) -> Item {
    let mut review = review_key(product, at.get(..10).unwrap_or_default(), customer);
    name_customer(&mut review, customer, is_old);
    review.extend(item([
        ("Type", text("Review")),
        ("productId", text(product)),
        ("userName", text("Émile")),
        ("rating", rating),
        ("reviewText", text("Great!")),
        ("reviewDate", text(at)),
        ("GSI1PK", text(format!("USER#{customer}"))),
        ("GSI1SK", text(format!("REVIEW#{at}"))),
    ]));
    review
}

pub(super) fn reading_key(sensor: u8, hour: &str, at: &str) -> Item {
    key(&format!("SENSOR#S{sensor}#HOUR#{hour}"), &format!("TIMESTAMP#{at}"))
}

pub(super) fn reading(sensor: u8, hour: &str, at: &str, temperature: Exact) -> Item {
    let mut reading = reading_key(sensor, hour, at);
    reading.extend(item([
        ("Type", text("SensorReading")),
        ("sensorId", text(format!("S{sensor}"))),
        ("temperature", number(temperature)),
        ("humidity", number(Exact::hundredths(4520))),
        ("timestamp", text(at)),
        ("GSI1PK", text(format!("SENSOR#S{sensor}"))),
        ("GSI1SK", text(format!("TIMESTAMP#{at}"))),
    ]));
    reading
}
