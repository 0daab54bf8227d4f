//! The application: it writes items, independently of Afterwrite.

use std::collections::BTreeMap;

use afterwrite::record::{AttributeValue, Item, Timestamp};
use afterwrite_tests::random::SeededRandom;

use super::oracle::is_poison;
use super::store::{EVENTS, MAIN, Store, key};

const PROJECTS: u64 = 3;
const OWNERS: [&str; 3] = ["ann", "ben", "cleo"];
const SHOPS: u64 = 2;
const CITIES: [&str; 3] = ["Bern", "Chur", "Genf"];
const DAY: u64 = 86_400;

/// An application with random actions.
#[derive(Debug)]
pub(crate) struct SimulatedApplication {
    random: SeededRandom,
    /// Writes with a wrong type, per thousand.
    poison: u64,
    /// Items that the application has read; it may put these old versions back.
    copies: BTreeMap<(String, String), Item>,
}

type NamedValue = (&'static str, AttributeValue<'static>);

impl SimulatedApplication {
    pub(crate) fn new(random: SeededRandom, poison: u64) -> Self {
        Self { random, poison, copies: BTreeMap::new() }
    }

    /// Writes the items that lookups need, and deletes some of them before they are looked up.
    pub(crate) fn begin<S: Store>(&mut self, store: &S) {
        for project in 0..PROJECTS {
            let owner = self.random.pick(&OWNERS).copied().unwrap_or("");
            let item = self.project(owner, project);
            self.put_looked_up(store, item);
        }
        for shop in 0..SHOPS {
            let item = self.shop(shop);
            self.put_looked_up(store, item);
        }
    }

    fn put_looked_up<S: Store>(&mut self, store: &S, item: Item) {
        let (partition, sort) = key_of(&item);
        store.put(MAIN, item);
        if self.random.chance(300) {
            store.delete(&key(MAIN, &partition, Some(&sort)));
        }
    }

    /// One random action of the application or of TTL; returns its description.
    pub(crate) fn act<S: Store>(&mut self, store: &S, now: Timestamp) -> String {
        match self.random.below(100) {
            0..34 => {
                let (project, task) = (self.random.below(PROJECTS), self.random.below(3));
                let item = self.task(project, task, now);
                self.change(store, MAIN, item)
            }
            34..52 => {
                let item = self.visit();
                self.change(store, MAIN, item)
            }
            52..68 => {
                let item = self.event();
                self.change(store, EVENTS, item)
            }
            68..76 => {
                let item = self.session(now);
                self.change(store, MAIN, item)
            }
            76..82 => self.transfer(store),
            82..96 => self.overwrite_mirroring(store),
            _ => {
                let item = self.uncounted();
                self.change(store, MAIN, item)
            }
        }
    }

    /// Corrects the items with a wrong type.
    pub(crate) fn repair<S: Store>(&mut self, store: &S, now: Timestamp) {
        self.poison = 0;
        for table in [MAIN, EVENTS] {
            for item in store.scan(table).into_iter().filter(|item| is_poison(table, item)) {
                let mut corrected = match table {
                    EVENTS => self.event(),
                    _ if item.contains_key("points") => self.task(0, 0, now),
                    _ if item.contains_key("seconds") => self.session(now),
                    _ => self.visit(),
                };
                for name in ["PK", "SK", "id"] {
                    corrected.extend(item.get(name).map(|value| (name.into(), value.clone())));
                }
                store.put(table, corrected);
            }
        }
    }

    /// Puts an item, or changes, deletes or expires the existing one.
    fn change<S: Store>(&mut self, store: &S, table: &str, item: Item) -> String {
        let (partition, sort) = key_of(&item);
        let key = key(table, &partition, (table != EVENTS).then_some(&sort));
        let stored = store.get(&key);
        let chance = self.random.below(100);
        let verb = match stored {
            None => {
                store.put(table, item);
                "put"
            }
            Some(_) if chance < 20 => {
                store.delete(&key);
                "delete"
            }
            // An item that cannot be counted cannot be settled either.
            Some(stored) if chance < 42 && !is_poison(table, &stored) => {
                store.expire(&key);
                if self.random.chance(300) {
                    // The item exists again before its expiry is delivered.
                    store.put(table, item);
                }
                "expire"
            }
            Some(mut stored) if chance < 55 => {
                stored.insert("comment".into(), self.integer(1000));
                store.put(table, stored);
                "touch"
            }
            Some(_) => {
                store.put(table, item);
                "overwrite"
            }
        };
        format!("{verb} {partition} {sort}")
    }

    /// Moves a project to another owner: puts it there and deletes it here, in either order; sometimes without the
    /// deletion.
    fn transfer<S: Store>(&mut self, store: &S) -> String {
        let project = self.random.below(PROJECTS);
        let (from, to) = (self.random.pick(&OWNERS).copied(), self.random.pick(&OWNERS).copied());
        let (from, to) = (from.unwrap_or(""), to.unwrap_or(""));
        let mut item = self.project(to, project);
        let source = key(MAIN, &format!("OWNER#{from}"), Some(&format!("PROJECT#{project}")));
        let stored = store.get(&source);
        if let Some(stored) = stored.filter(|_| self.random.chance(500)) {
            item = Item::from_iter(stored.into_iter().chain([("PK".into(), text(format!("OWNER#{to}")))]));
        }
        let (is_deleted, is_first) = (self.random.chance(850), self.random.chance(300));
        if is_deleted && is_first && from != to {
            store.delete(&source);
        }
        store.put(MAIN, item);
        if is_deleted && !is_first && from != to {
            store.delete(&source);
        }
        format!("transfer PROJECT#{project} from {from} to {to}")
    }

    /// Writes to a mirroring item.
    fn overwrite_mirroring<S: Store>(&mut self, store: &S) -> String {
        let mut fresh = if self.random.chance(600) {
            let owner = self.random.pick(&OWNERS).copied().unwrap_or("");
            let project = self.random.below(PROJECTS);
            self.project(owner, project)
        } else {
            let shop = self.random.below(SHOPS);
            self.shop(shop)
        };
        let place = key_of(&fresh);
        let key = key(MAIN, &place.0, Some(&place.1));
        let stored = store.get(&key);
        if let Some(stored) = stored.clone().filter(|_| self.random.chance(400)) {
            self.copies.insert(place.clone(), stored);
        }
        let verb = match (self.random.below(10), stored) {
            (0..2, Some(_)) => {
                store.delete(&key);
                "delete"
            }
            (2..4, Some(mut stored)) => {
                // Like `UpdateItem`: the mirrored attributes remain.
                for name in ["archived", "city"] {
                    stored.extend(fresh.remove_entry(name));
                }
                store.put(MAIN, stored);
                "update"
            }
            (4..6, _) if self.copies.contains_key(&place) => {
                store.put(MAIN, self.copies.get(&place).cloned().unwrap_or_default());
                "put back"
            }
            (6..8, stored) => {
                self.overwrite_copies(&mut fresh, stored);
                store.put(MAIN, fresh);
                "scribble on"
            }
            (_, _) => {
                store.put(MAIN, fresh);
                "put"
            }
        };
        format!("{verb} {} {}", place.0, place.1)
    }

    /// Overwrites the mirrored attributes, with or without keeping the revision.
    fn overwrite_copies(&mut self, fresh: &mut Item, stored: Option<Item>) {
        let keeps_revision = self.random.chance(500);
        let stored = stored.unwrap_or_default();
        if fresh.contains_key("archived") {
            for name in ["task_count", "done_count"] {
                fresh.insert(name.into(), self.integer(9));
                let kept = ["_rev", "_of"].map(|suffix| format!("{name}{suffix}"));
                let kept = kept.into_iter().filter(|_| keeps_revision);
                fresh
                    .extend(kept.filter_map(|name| Some((name.clone().into(), stored.get(&*name)?.clone()))));
            }
            return;
        }
        let mut stats = match stored.get("stats") {
            Some(AttributeValue::M(stats)) if keeps_revision => stats.clone(),
            _ => BTreeMap::new(),
        };
        for name in ["visits", "average", "best"] {
            if self.random.chance(700) {
                stats.insert(name.into(), self.integer(9));
            }
        }
        fresh.insert("stats".into(), AttributeValue::M(stats));
    }

    fn project(&mut self, owner: &str, project: u64) -> Item {
        let archived = AttributeValue::Bool(self.random.chance(300));
        item(vec![
            ("PK", text(format!("OWNER#{owner}"))),
            ("SK", text(format!("PROJECT#{project}"))),
            ("GSI1PK", text(format!("PROJECT#{project}"))),
            ("GSI1SK", text(format!("PROJECT#{project}"))),
            ("archived", archived),
        ])
    }

    fn task(&mut self, project: u64, task: u64, now: Timestamp) -> Item {
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

    fn visit(&mut self) -> Item {
        let (shop, visit) = (self.random.below(SHOPS), self.random.below(3));
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

    fn session(&mut self, now: Timestamp) -> Item {
        let attributes = vec![
            ("PK", text(format!("USER#{}", self.random.below(2)))),
            ("SK", text(format!("SESSION#{}", self.random.below(3)))),
            ("day", text(self.day(now))),
            ("seconds", self.integer(4000)),
        ];
        self.poisoned(item(attributes), "seconds")
    }

    fn event(&mut self) -> Item {
        let kind = self.random.pick(&["in", "out"]).copied().unwrap_or("");
        let mut attributes = vec![
            ("id", text(format!("EVENT#{}", self.random.below(5)))),
            ("shop_id", text(self.random.below(SHOPS).to_string())),
            ("kind", text(kind)),
            ("whole", self.integer(12)),
        ];
        if self.random.chance(800) {
            attributes.push(("part", self.integer(15)));
        }
        let mut event = item(attributes);
        if self.random.chance(self.poison / 2) {
            event.remove("shop_id");
        }
        self.poisoned(event, "whole")
    }

    fn shop(&mut self, shop: u64) -> Item {
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

    /// An item of an entity without aggregates, of no entity, or with a key like those of the state table.
    fn uncounted(&mut self) -> Item {
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

    fn poisoned(&mut self, mut item: Item, attribute: &'static str) -> Item {
        if self.random.chance(self.poison) {
            item.insert(attribute.into(), text("many"));
        }
        item
    }

    fn integer(&mut self, end: u64) -> AttributeValue<'static> {
        number(&self.random.below(end).to_string())
    }

    /// A day in the past; sometimes one whose rollup has expired.
    fn day(&mut self, now: Timestamp) -> String {
        let span = if self.random.chance(100) { 30 } else { 3 };
        let shift = i64::try_from(self.random.below(span) * DAY).unwrap_or(0);
        Timestamp::from_epoch_seconds(now.epoch_seconds() - shift).day().unwrap_or_default()
    }
}

fn key_of(item: &Item) -> (String, String) {
    let text = |name| super::store::text(item, name).to_owned();
    if item.contains_key("id") { (text("id"), String::new()) } else { (text("PK"), text("SK")) }
}

fn item(attributes: Vec<NamedValue>) -> Item {
    attributes.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

fn text(text: impl Into<String>) -> AttributeValue<'static> {
    AttributeValue::text(text)
}

fn number(digits: &str) -> AttributeValue<'static> {
    AttributeValue::N(digits.parse().unwrap())
}
