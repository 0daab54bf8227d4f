//! The random actions of the application.

use afterwrite_model::record::{Item, Timestamp};

use super::super::oracle::is_poison;
use super::super::store::{EVENTS, MAIN, METERS, Store, key, key_of_item};
use super::items::{key_of, text};
use super::{MEETING_PLACES, OWNERS, PROJECTS, QUIET_SHOP, SENSORS, SHOPS, SimulatedApplication};

impl SimulatedApplication {
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
        if self.vanishes {
            store.put(MAIN, self.shop(QUIET_SHOP));
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
        self.actions_before_burst = self.actions_before_burst.saturating_sub(1);
        if self.actions_before_burst == 0
            && let Some(records) = self.burst.take()
        {
            return self.burst(store, records, now);
        }
        match self.random.below(140) {
            0..18 => {
                let item = self.visit();
                self.change(store, MAIN, item)
            }
            18..34 => {
                let item = self.event();
                self.change(store, EVENTS, item)
            }
            34..42 => {
                let item = self.session(now);
                self.change(store, MAIN, item)
            }
            42..48 => self.transfer(store),
            48..62 => self.overwrite_mirroring(store),
            62..66 => {
                let item = self.uncounted();
                self.change(store, MAIN, item)
            }
            66..74 => {
                let item = self.post();
                self.change(store, EVENTS, item)
            }
            74..84 => {
                let item = self.reading();
                self.change(store, MAIN, item)
            }
            84..92 => {
                let item = self.meter();
                self.change(store, METERS, item)
            }
            92..98 if self.clones => self.clone_item(store),
            98..102 if self.breaks_mirrors => self.break_mirror(store),
            102..112 if self.odd_keys => {
                let item = self.odd_session(now);
                format!("odd-key {}", self.change(store, MAIN, item))
            }
            112..130 if self.vanishes => self.vanish(store),
            130..136 => self.meet(store),
            _ => {
                let (project, task) = (self.random.below(PROJECTS), self.random.below(3));
                let item = self.task(project, task, now);
                self.change(store, MAIN, item)
            }
        }
    }

    /// Writes the only visit of a shop, then writes it so that it cannot be counted, then deletes it: the record of the deletion does
    /// not name the rollup that the visit leaves. Often nothing changes that rollup again.
    fn vanish<S: Store>(&mut self, store: &S) -> String {
        let mut visit = self.visit_of(QUIET_SHOP, 0);
        let key = key_of_item(MAIN, &visit);
        match store.get(&key) {
            Some(stored) if is_poison(MAIN, &stored) => {
                store.delete(&key);
                self.vanishes = self.random.chance(400);
            }
            stored => {
                let score = if stored.is_some() { text("many") } else { self.integer(9) };
                visit.insert("score".into(), score);
                store.put(MAIN, visit);
            }
        }
        "vanish".to_owned()
    }

    /// Moves all sensors at once to a place that has no rollup yet.
    fn meet<S: Store>(&mut self, store: &S) -> String {
        self.meetings += 1;
        let place = MEETING_PLACES + self.meetings;
        for sensor in 0..SENSORS {
            let reading = self.reading_at(sensor, place);
            store.put(MAIN, reading);
        }
        format!("meet at {place}")
    }

    /// Corrects the items with a wrong type, and the items that cannot take a mirror.
    pub(crate) fn repair<S: Store>(&mut self, store: &S, now: Timestamp) {
        self.poison = 0;
        for table in [MAIN, EVENTS, METERS] {
            for item in store.scan(table).into_iter().filter(|item| is_poison(table, item)) {
                let mut corrected = match table {
                    EVENTS => self.event(),
                    METERS => self.meter(),
                    _ if item.contains_key("level") => self.reading(),
                    _ if item.contains_key("points") => self.task(0, 0, now),
                    _ if item.contains_key("seconds") => self.session(now),
                    _ => self.visit(),
                };
                for name in ["PK", "SK", "id", "code", "number"] {
                    corrected.extend(item.get(name).map(|value| (name.into(), value.clone())));
                }
                store.put(table, corrected);
            }
        }
        self.mend_mirrors(store);
    }

    /// Puts an item, or changes, deletes or expires the existing one.
    fn change<S: Store>(&mut self, store: &S, table: &str, item: Item) -> String {
        let (partition, sort) = key_of(&item);
        let key = key_of_item(table, &item);
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
}
