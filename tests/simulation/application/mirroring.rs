//! Writes to items that show measures: overwritten, copied and unwritable mirrors.

use std::collections::BTreeMap;

use afterwrite_model::record::{AttributeValue, Decimal, Item};

use super::super::store::{MAIN, Store, key};
use super::items::{key_of, text};
use super::{OWNERS, PROJECTS, SHOPS, SimulatedApplication};

/// A revision that no rollup of a run reaches.
const RESTORED_REVISION: i64 = 1_000_000;

impl SimulatedApplication {
    /// Writes to a mirroring item.
    pub(super) fn overwrite_mirroring<S: Store>(&mut self, store: &S) -> String {
        let mut fresh = match self.random.below(10) {
            0..5 => {
                let owner = self.random.pick(&OWNERS).copied().unwrap_or("");
                let project = self.random.below(PROJECTS);
                self.project(owner, project)
            }
            5..8 => {
                let shop = self.random.below(SHOPS);
                self.shop(shop)
            }
            _ => self.reading(),
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
                for name in ["archived", "city", "level"] {
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
                self.restore_revision(fresh, name);
            }
            return;
        }
        if fresh.contains_key("level") {
            let highest = self.integer(90);
            fresh.insert("neighbours".into(), highest.clone());
            fresh.insert("highest".into(), highest);
            let companions = ["highest_rev", "highest_of", "neighbours_rev", "neighbours_of"];
            let kept = companions.into_iter().filter(|_| keeps_revision);
            fresh.extend(kept.filter_map(|name| Some((name.into(), stored.get(name)?.clone()))));
            self.restore_revision(fresh, "highest");
            return;
        }
        let mut stats = match stored.get("stats") {
            Some(AttributeValue::M(stats)) if keeps_revision => stats.clone(),
            _ => BTreeMap::new(),
        };
        for name in ["visits", "average", "best", "kinds"] {
            if self.random.chance(700) {
                stats.insert(name.into(), self.integer(9));
            }
        }
        fresh.insert("stats".into(), AttributeValue::M(stats));
    }

    /// Gives a copy a revision that its rollup reaches soon or never, or one that is not a number, as an item of a restored table
    /// has.
    fn restore_revision(&mut self, fresh: &mut Item, name: &str) {
        let revision = format!("{name}_rev");
        let Some(kept) = fresh.get(&*revision).filter(|_| self.random.chance(200)) else { return };
        let next = kept.as_number().and_then(Decimal::to_i64).unwrap_or(0) + 1;
        let restored = match self.random.below(10) {
            0..4 => Decimal::from(RESTORED_REVISION).into(),
            4..8 => Decimal::from(next + i64::try_from(self.random.below(3)).unwrap()).into(),
            _ => AttributeValue::Null,
        };
        fresh.insert(revision.into(), restored);
    }

    /// Copies an item with all its attributes, those that we wrote included, to the key of another.
    pub(super) fn clone_item<S: Store>(&mut self, store: &S) -> String {
        let owners = [(); 2].map(|()| self.random.pick(&OWNERS).copied().unwrap_or(""));
        let (from, to) = match self.random.below(3) {
            0 => {
                let projects = [(); 2].map(|()| self.random.below(PROJECTS));
                let [from, to] = [0, 1].map(|side| (owners[side], projects[side]));
                (self.project(from.0, from.1), self.project(to.0, to.1))
            }
            1 => (self.shop(0), self.shop(1)),
            _ => (self.reading_at(0, 0), self.reading_at(1, 1)),
        };
        let (source, destination) = (key_of(&from), key_of(&to));
        let Some(mut copy) = store.get(&key(MAIN, &source.0, Some(&source.1))) else {
            return format!("miss {} {}", source.0, source.1);
        };
        // An application may forget to change the keys of the index.
        let names: &[&str] =
            if self.random.chance(700) { &["PK", "SK", "GSI1PK", "GSI1SK"] } else { &["PK", "SK"] };
        for name in names {
            copy.extend(to.get(*name).map(|value| ((*name).into(), value.clone())));
        }
        store.put(MAIN, copy);
        format!("clone {} {} to {} {}", source.0, source.1, destination.0, destination.1)
    }

    /// Writes a shop that cannot take its mirror, because the place is not a map.
    pub(super) fn break_mirror<S: Store>(&mut self, store: &S) -> String {
        let shop = self.random.below(SHOPS);
        let mut item = self.shop(shop);
        let stats = if self.random.chance(500) { AttributeValue::Null } else { text("none yet") };
        item.insert("stats".into(), stats);
        store.put(MAIN, item);
        format!("break the mirror of SHOP#{shop}")
    }

    /// Makes room for the mirrors of the shops that cannot take them.
    pub(super) fn mend_mirrors<S: Store>(&mut self, store: &S) {
        for mut item in store.scan(MAIN) {
            let is_map = |stats: &AttributeValue<'_>| matches!(stats, AttributeValue::M(_));
            if item.get("stats").is_some_and(|stats| !is_map(stats)) {
                item.remove("stats");
                store.put(MAIN, item);
            }
        }
    }
}
