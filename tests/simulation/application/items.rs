//! The items that the application writes, with random attributes.

use std::collections::BTreeMap;

use afterwrite_model::record::{AttributeValue, Item, Timestamp};

use super::super::store::key_text;
use super::{CITIES, SENSORS, SHOPS, SimulatedApplication};

const DAY: u64 = 86_400;
/// DynamoDB's limits on key values, in bytes.
const MAX_PARTITION_KEY: usize = 2048;
const MAX_SORT_KEY: usize = 1024;

type NamedValue = (&'static str, AttributeValue<'static>);

impl SimulatedApplication {
    pub(super) fn project(&mut self, owner: &str, project: u64) -> Item {
        let archived = AttributeValue::Bool(self.random.chance(300));
        item(vec![
            ("PK", text(format!("OWNER#{owner}"))),
            ("SK", text(format!("PROJECT#{project}"))),
            ("GSI1PK", text(format!("PROJECT#{project}"))),
            ("GSI1SK", text(format!("PROJECT#{project}"))),
            ("archived", archived),
        ])
    }

    pub(super) fn task(&mut self, project: u64, task: u64, now: Timestamp) -> Item {
        let status = self.random.pick(&["OPEN", "DONE", "DONE", "CANCELLED"]).copied().unwrap_or("");
        let mut attributes = vec![
            ("PK", text(format!("PROJECT#{project}"))),
            ("SK", text(format!("TASK#{task}"))),
            ("status", text(status)),
            ("day", text(self.day(now))),
            ("points", self.integer(50)),
        ];
        if self.random.chance(700) {
            let (whole, parts) = (self.random.below(1_000_000_000_000_000), self.random.below(1_000_000));
            attributes.push(("price", number(&format!("{whole}.{parts:06}"))));
            let (whole, parts) = (self.random.below(10_000_000_000), self.random.below(10_000));
            attributes.push(("quantity", number(&format!("{whole}.{parts:04}"))));
        }
        self.poisoned(item(attributes), "points")
    }

    pub(super) fn visit(&mut self) -> Item {
        let (shop, visit) = (self.random.below(SHOPS), self.random.below(3));
        self.visit_of(shop, visit)
    }

    pub(super) fn visit_of(&mut self, shop: u64, visit: u64) -> Item {
        let kind = self.random.pick(&["walk", "web"]).copied().unwrap_or("");
        let mut attributes = vec![
            ("PK", text(format!("SHOP#{shop}"))),
            ("SK", text(format!("VISIT#{visit}"))),
            // In the index it is next to its shop.
            ("GSI1PK", text(format!("SHOP#{shop}"))),
            ("GSI1SK", text(format!("A#{visit}"))),
            ("kind", text(kind)),
        ];
        if self.random.chance(850) {
            let score = format!("{}.{:03}", self.random.below(9), self.random.below(1000));
            let sign = if self.random.chance(200) { "-" } else { "" };
            attributes.push(("score", number(&format!("{sign}{score}"))));
        }
        self.poisoned(item(attributes), "score")
    }

    pub(super) fn session(&mut self, now: Timestamp) -> Item {
        let (user, session) = (self.random.below(2).to_string(), self.random.below(3).to_string());
        self.session_of(&user, &session, now)
    }

    pub(super) fn session_of(&mut self, user: &str, session: &str, now: Timestamp) -> Item {
        let attributes = vec![
            ("PK", text(format!("USER#{user}"))),
            ("SK", text(format!("SESSION#{session}"))),
            ("day", text(self.day(now))),
            ("seconds", self.integer(4000)),
        ];
        self.poisoned(item(attributes), "seconds")
    }

    pub(super) fn event(&mut self) -> Item {
        let kind = self.random.pick(&["in", "out"]).copied().unwrap_or("");
        let id = text(format!("EVENT#{}", self.random.below(5)));
        let shop = text(self.random.below(SHOPS).to_string());
        let whole = self.random.below(12);
        let mut attributes = vec![
            ("id", id),
            ("shop_id", shop),
            ("kind", text(kind)),
            ("whole", number(&whole.to_string())),
            // A misfit of the aggregate of weights, which skips it.
            ("weight", if whole % 5 == 4 { text("heavy") } else { number(&whole.to_string()) }),
        ];
        if !whole.is_multiple_of(4) {
            let labels = (0..whole % 4).map(|label| format!("l{}", (whole + label) % 5).into());
            attributes.push(("labels", AttributeValue::Ss(labels.collect())));
        }
        if self.random.chance(800) {
            attributes.push(("part", self.integer(15)));
        }
        let mut event = item(attributes);
        if self.random.chance(self.poison / 2) {
            event.remove("shop_id");
        }
        self.poisoned(event, "whole")
    }

    pub(super) fn shop(&mut self, shop: u64) -> Item {
        let city = self.random.pick(&CITIES).copied().unwrap_or("");
        let mut shop = item(vec![
            ("PK", text(format!("SHOP#{shop}"))),
            ("SK", text("INFO")),
            ("GSI1PK", text(format!("SHOP#{shop}"))),
            ("GSI1SK", text("INFO")),
            ("city", text(city)),
        ]);
        if self.random.chance(300) {
            shop.insert("stats".into(), AttributeValue::M(BTreeMap::new()));
        }
        shop
    }

    /// A session whose key is as long as DynamoDB allows, or looks like a key of the state table.
    pub(super) fn odd_session(&mut self, now: Timestamp) -> Item {
        let users = ["0".to_owned(), "u".repeat(MAX_PARTITION_KEY - "USER#".len())];
        let user = self.random.pick(&users).cloned().unwrap_or_default();
        let marker_like = self.marker_like.iter().cloned();
        let sessions = ["0".to_owned(), "s".repeat(MAX_SORT_KEY - "SESSION#".len())];
        let named = ["0#EXPIRED#2026-02-06T10:00:00.000#1", "0#SHA256#00ff"].map(str::to_owned);
        let sessions: Vec<String> = sessions.into_iter().chain(named).chain(marker_like).collect();
        let session = self.random.pick(&sessions).cloned().unwrap_or_default();
        self.session_of(&user, &session, now)
    }

    /// A draft without a shop, or a live post.
    pub(super) fn post(&mut self) -> Item {
        let state = self.random.pick(&["DRAFT", "LIVE"]).copied().unwrap_or("");
        let mut post = item(vec![
            ("id", text(format!("POST#{}", self.random.below(4)))),
            ("state", text(state)),
            ("shop_id", text(self.random.below(SHOPS).to_string())),
        ]);
        match self.random.below(4) {
            0 => drop(post.remove("shop_id")),
            1 => drop(post.insert("shop_id".into(), AttributeValue::Null)),
            2 if state == "DRAFT" => drop(post.insert("shop_id".into(), text("nobody"))),
            _ => {}
        }
        post
    }

    pub(super) fn reading(&mut self) -> Item {
        let (sensor, place) = (self.random.below(SENSORS), self.random.below(3));
        self.reading_at(sensor, place)
    }

    pub(super) fn reading_at(&mut self, sensor: u64, place: u64) -> Item {
        let attributes = vec![
            ("PK", text(format!("SENSOR#{sensor}"))),
            ("SK", text("READING")),
            ("place", text(place.to_string())),
            ("level", self.integer(60)),
        ];
        self.poisoned(item(attributes), "level")
    }

    pub(super) fn meter(&mut self) -> Item {
        let codes: [&[u8]; 2] = [&[0x00, 0x01, 0xff], &[0x10, 0xfe]];
        let code = self.random.pick(&codes).copied().unwrap_or_default();
        let attributes = vec![
            ("code", AttributeValue::B(code.to_vec().into())),
            ("number", self.integer(3)),
            ("units", self.integer(500)),
        ];
        self.poisoned(item(attributes), "units")
    }

    /// An item of an entity without aggregates, of no entity, or with a key like those of the state table.
    pub(super) fn uncounted(&mut self) -> Item {
        let keys = [
            ("NOTE#1", "NOTE"),
            ("MISC#1", "MISC#1"),
            ("LEDGER#main#PROJECT#1", "TASK#1"),
            ("LOOKUP#project_owner#1", "-"),
            ("OWNER#ann", "ROLLUP#TOTAL"),
        ];
        let (partition, sort) = self.random.pick(&keys).copied().unwrap_or_default();
        item(vec![("PK", text(partition)), ("SK", text(sort)), ("tasks", self.integer(9))])
    }

    pub(super) fn poisoned(&mut self, mut item: Item, attribute: &'static str) -> Item {
        if self.random.chance(self.poison) {
            item.insert(attribute.into(), text("many"));
        }
        item
    }

    pub(super) fn integer(&mut self, end: u64) -> AttributeValue<'static> {
        number(&self.random.below(end).to_string())
    }

    /// A day in the past; sometimes one whose rollup has expired.
    fn day(&mut self, now: Timestamp) -> String {
        let span = if self.random.chance(100) { 30 } else { 3 };
        let shift = i64::try_from(self.random.below(span) * DAY).unwrap_or(0);
        Timestamp::from_epoch_seconds(now.epoch_seconds() - shift).day().unwrap_or_default()
    }
}

/// The texts of an item's key; the second is empty in a table without a sort key.
pub(super) fn key_of(item: &Item) -> (String, String) {
    let text = |name| item.get(name).map(key_text).unwrap_or_default();
    let names = if item.contains_key("code") { ["code", "number"] } else { ["PK", "SK"] };
    if item.contains_key("id") { (text("id"), String::new()) } else { (text(names[0]), text(names[1])) }
}

pub(super) fn item(attributes: Vec<NamedValue>) -> Item {
    attributes.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

pub(super) fn text(text: impl Into<String>) -> AttributeValue<'static> {
    AttributeValue::text(text)
}

pub(super) fn number(digits: &str) -> AttributeValue<'static> {
    AttributeValue::N(digits.parse().unwrap())
}
