//! Whether everything derived is right: against a recount, and against itself.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite::record::{AttributeValue, Item};
use afterwrite_demo::exact::ExactNumber;

use super::oracle::{self, Kind, Remembered, Sums, Target, Uncountable, add_amount, kind};
use super::run::Run;
use super::state::{State, stored};
use super::store::{EVENTS, MAIN, STATE, Store, text};
use super::stream::{Record, TABLES};

/// By how much the processes' clocks may differ, and more: within this of its expiry a rollup is not judged.
const UNJUDGED_SECONDS: i64 = 15 * 60;
/// From this age on an expiry may be found too old to be settled: 35 days, less the engine's tolerance, less the clocks' skew.
const TOO_OLD_SECONDS: i64 = 35 * 86_400 - 20 * 60;
/// The measures that are not sums.
const COMPUTED: [&str; 3] = ["score_average", "best", "worst"];
const OWN_ATTRIBUTES: [&str; 6] = ["PK", "SK", "EntityType", "rev", "updated_at", "expires_at"];

/// What must hold at every moment: each rollup is the sum of the ledger's entries and of what is settled.
pub(crate) fn at_any_moment<S: Store + 'static>(run: &mut Run<S>) {
    match State::read(run.tables.inner().scan(STATE)) {
        Ok(state) => {
            let now = run.time.now().epoch_seconds();
            run.problems.extend(ledger_and_settled(&state, now));
        }
        Err(problem) => run.problems.push(problem),
    }
}

/// What must hold in the end.
pub(crate) fn all<S: Store + 'static>(run: &Run<S>) -> Vec<String> {
    let state = match State::read(run.tables.inner().scan(STATE)) {
        Ok(state) => state,
        Err(problem) => return vec![problem],
    };
    let generation = if run.options.generations { 2 } else { 1 };
    let now = run.time.now().epoch_seconds();
    let items: Vec<(&str, Item)> = TABLES
        .iter()
        .flat_map(|table| run.tables.inner().scan(table).into_iter().map(move |item| (*table, item)))
        .collect();
    let mut problems = ledger_and_settled(&state, now);
    problems.extend(lookups(&state, &run.streams.records));
    problems.extend(entries(&state, &items, generation));
    let settled = settled(run, &state.remembered, &mut problems);
    problems.extend(recount(&state, &items, &settled, generation, now));
    problems.extend(averages(&state));
    problems.extend(extremes(run, &state, &items));
    problems.extend(mirrors(&state, &items));
    problems
}

/// When this rollup is over.
fn expires_at(target: &Target) -> Option<i64> {
    let day = target.1.strip_prefix("ROLLUP#DAY#").filter(|_| target.0.starts_with("USER#"));
    day.map(oracle::rollup_expires_at)
}

fn is_judged(target: &Target, now: i64) -> bool {
    expires_at(target).is_none_or(|at| at > now + UNJUDGED_SECONDS)
}

/// The measures of a rollup's item that are sums.
fn sums_of(item: &Item) -> impl Iterator<Item = &str> {
    item.keys().map(|name| &**name).filter(|name| {
        !OWN_ATTRIBUTES.contains(name) && !COMPUTED.contains(name) && !name.starts_with("settled_")
    })
}

fn ledger_and_settled(state: &State, now: i64) -> Vec<String> {
    let mut wanted = Sums::new();
    for (_, share) in
        state.entries.values().flat_map(|entry| entry.shares.iter().map(move |share| (entry, share)))
    {
        for (measure, amount) in &share.measures {
            add_amount(&mut wanted, (share.target.clone(), measure.clone()), amount);
        }
    }
    let mut found = Sums::new();
    for (target, item) in &state.rollups {
        for measure in sums_of(item) {
            let settled = state.number(target, &format!("settled_{measure}"));
            let counted = state.number(target, measure).minus(&settled);
            found.insert((target.clone(), measure.to_owned()), counted);
        }
    }
    differences("the ledger's entries", &wanted, "the rollup less what is settled", &found, now)
}

fn differences(left_name: &str, left: &Sums, right_name: &str, right: &Sums, now: i64) -> Vec<String> {
    let keys: BTreeSet<_> = left.keys().chain(right.keys()).collect();
    let mut problems = Vec::new();
    for key in keys {
        let of = |sums: &Sums| sums.get(key).cloned().unwrap_or_default();
        let (target, measure) = key;
        if of(left) != of(right) && is_judged(target, now) {
            let (left, right) = (of(left), of(right));
            problems.push(format!(
                "{} {} {measure}: {left_name}: {left}, {right_name}: {right}",
                target.0, target.1
            ));
        }
    }
    problems
}

/// What was remembered is something that was there once.
fn lookups(state: &State, records: &[Record]) -> Vec<String> {
    let mut ever = BTreeSet::new();
    for record in records {
        for image in [&record.new, &record.old].into_iter().flatten() {
            match kind(record.table, &record.partition, record.sort.as_deref()) {
                Kind::Project { owner, project } => ever.insert((project.to_owned(), owner.to_owned())),
                Kind::Shop { shop } => ever.insert((shop.to_owned(), text(image, "city").to_owned())),
                _ => continue,
            };
        }
    }
    let Remembered { owners, cities } = &state.remembered;
    let remembered = owners.iter().chain(cities).map(|(key, output)| (key.clone(), output.clone()));
    remembered
        .filter(|pair| !ever.contains(pair))
        .map(|(key, output)| format!("the lookup of {key} remembers {output}, which it never had"))
        .collect()
}

/// Every entry holds what its item contributes, and nothing if it is gone.
fn entries(state: &State, items: &[(&str, Item)], generation: u64) -> Vec<String> {
    let mut by_key: BTreeMap<(String, String), (&str, &Item)> = BTreeMap::new();
    for (table, item) in items {
        let key = match *table {
            EVENTS => (format!("LEDGER#{EVENTS}#{}", text(item, "id")), "-".to_owned()),
            _ => (format!("LEDGER#{table}#{}", text(item, "PK")), text(item, "SK").to_owned()),
        };
        by_key.insert(key, (table, item));
    }
    let mut problems = Vec::new();
    for (key, entry) in &state.entries {
        let mut held = Sums::new();
        for share in entry.shares.iter().filter(|share| generation == 1 || share.aggregate != "task_days") {
            let unsharded = share.target.0.split("#SHARD#").next().unwrap_or_default().to_owned();
            for (measure, amount) in &share.measures {
                let target = (unsharded.clone(), share.target.1.clone());
                add_amount(&mut held, (target, measure.clone()), amount);
            }
        }
        let mut wanted = Sums::new();
        if let Some((table, item)) = by_key.get(key) {
            let (_, partition) = key.0.split_at(format!("LEDGER#{table}#").len());
            if kind(table, partition, Some(&key.1)) == Kind::Other {
                problems.push(format!("{} {} has an entry, but is nothing that is counted", key.0, key.1));
            }
            if oracle::add(&mut wanted, table, item, generation, &state.remembered).is_err() {
                problems.push(format!("{} {} cannot be counted", key.0, key.1));
            }
        }
        if wanted != held {
            problems.push(format!(
                "{} {}: its item contributes {wanted:?}, its entry holds {held:?}",
                key.0, key.1
            ));
        }
        if entry.is_tombstone && !entry.shares.is_empty() {
            problems.push(format!("{} {} is a tombstone that holds something", key.0, key.1));
        }
        if entry.is_tombstone == by_key.contains_key(key) {
            problems.push(format!(
                "{} {} is a tombstone of a living item, or an entry of a dead one",
                key.0, key.1
            ));
        }
    }
    problems
}

/// What expiries should have settled, told from the streams' records and the claims that were seen.
fn settled<S: Store + 'static>(run: &Run<S>, remembered: &Remembered, problems: &mut Vec<String>) -> Sums {
    let mut sums = Sums::new();
    let mut claims = run.watch.claims.clone();
    for record in run.streams.records.iter().filter(|record| record.is_expiry) {
        if !kind(record.table, &record.partition, record.sort.as_deref()).is_kept() {
            continue;
        }
        let Some(old) = &record.old else { continue };
        let sort = record.sort.as_deref().unwrap_or("-");
        let key = (
            format!("LEDGER#{}#{}", record.table, record.partition),
            format!("{sort}#EXPIRED#{}", record.position()),
        );
        match claims.remove(&key) {
            Some(claim) => {
                if claim.at.epoch_seconds() - record.created_at.epoch_seconds() > 35 * 86_400 {
                    problems.push(format!("{} {} was settled when it was too old for it", key.0, key.1));
                }
                if oracle::add(&mut sums, record.table, old, claim.generation, remembered).is_err() {
                    problems.push(format!("{} {} cannot have been settled", key.0, key.1));
                }
            }
            None => {
                let age =
                    record.first_counted_at.map(|at| at.epoch_seconds() - record.created_at.epoch_seconds());
                if age.is_none_or(|age| age < TOO_OLD_SECONDS) {
                    problems.push(format!("{} {} was never settled", key.0, key.1));
                }
            }
        }
    }
    problems.extend(claims.keys().map(|key| format!("{} {} claims no expiry that was", key.0, key.1)));
    sums
}

/// Every rollup is a recount of the items as they are, and what is settled.
fn recount(state: &State, items: &[(&str, Item)], settled: &Sums, generation: u64, now: i64) -> Vec<String> {
    let mut wanted = settled.clone();
    for (table, item) in items {
        if let Err(Uncountable::Poison | Uncountable::Unanswered) =
            oracle::add(&mut wanted, table, item, generation, &state.remembered)
        {
            return vec![format!("an item of {table} cannot be counted")];
        }
    }
    let (mut found, mut found_settled) = (Sums::new(), Sums::new());
    for (target, item) in &state.rollups {
        let unsharded = target.0.split("#SHARD#").next().unwrap_or_default().to_owned();
        for measure in sums_of(item) {
            let key = ((unsharded.clone(), target.1.clone()), measure.to_owned());
            let settled = stored(item, &format!("settled_{measure}")).unwrap_or_default();
            add_amount(&mut found_settled, key.clone(), &settled);
            add_amount(&mut found, key, &stored(item, measure).unwrap_or_default());
        }
        if expires_at(target).is_some_and(|at| at < now - UNJUDGED_SECONDS) {
            return vec![format!("{} {} lives on after its time", target.0, target.1)];
        }
    }
    // What the removed aggregate once counted is carried along until it is dropped; the ledger vouches for it.
    let is_kept =
        |((_, measure), _): &(&(Target, String), &ExactNumber)| generation == 1 || measure != "tasks_of_day";
    let kept = |sums: &Sums| -> Sums {
        sums.iter().filter(is_kept).map(|(key, amount)| (key.clone(), amount.clone())).collect()
    };
    let mut problems = differences("the recount", &kept(&wanted), "the rollup", &kept(&found), now);
    problems.extend(differences("what expired", settled, "the rollup's settled", &found_settled, now));
    problems
}

fn averages(state: &State) -> Vec<String> {
    let shops = state.rollups.iter().filter(|(target, _)| target.0.starts_with("SHOP#"));
    shops
        .filter_map(|(target, item)| {
            let of = |measure| state.number(target, measure);
            let (wanted, found) =
                (of("score_sum").divided_by(&of("visits"), 6), stored(item, "score_average"));
            (wanted != found).then(|| format!("{}: the average is {found:?}, not {wanted:?}", target.0))
        })
        .collect()
}

/// `best` and `worst` are some value that was ever written, and neither a present value nor any that was counted beats them.
fn extremes<S: Store + 'static>(run: &Run<S>, state: &State, items: &[(&str, Item)]) -> Vec<String> {
    let score_at = |shop: &str, item: &Item| {
        let is_visit = text(item, "PK") == format!("SHOP#{shop}") && text(item, "SK").starts_with("VISIT#");
        if is_visit { stored(item, "score") } else { None }
    };
    // What is malformed and has been passed by a later record is not counted, nor missed.
    let is_counted = |record: &&Record| {
        let item = (record.partition.clone(), record.sort.clone());
        record.malformed.is_none() && !run.not_seen_in_order.contains(&item)
    };
    let mut problems = Vec::new();
    for shop in ["0", "1"] {
        let target = (format!("SHOP#{shop}"), "ROLLUP#VISITS".to_owned());
        let records = &run.streams.records;
        let score = |record: &Record| score_at(shop, record.new.as_ref()?);
        let ever: BTreeSet<ExactNumber> = records.iter().filter_map(score).collect();
        let present = items.iter().filter_map(|(_, item)| score_at(shop, item));
        let counted: Vec<ExactNumber> =
            records.iter().filter(is_counted).filter_map(score).chain(present).collect();
        let held = |measure| state.rollups.get(&target).and_then(|item| stored(item, measure));
        let (best, worst) = (held("best"), held("worst"));
        if [&best, &worst].into_iter().flatten().any(|value| !ever.contains(value)) {
            problems.push(format!("SHOP#{shop}: best or worst is a value that never was"));
        }
        if counted.iter().max().is_some_and(|score| best.as_ref().is_none_or(|best| best < score))
            || counted.iter().min().is_some_and(|score| worst.as_ref().is_none_or(|worst| worst > score))
        {
            problems.push(format!(
                "SHOP#{shop}: best {best:?} and worst {worst:?}, but counted were {counted:?}"
            ));
        }
    }
    problems
}

/// Every item shows what its rollup holds.
fn mirrors(state: &State, items: &[(&str, Item)]) -> Vec<String> {
    let mut problems = Vec::new();
    for (table, item) in items.iter().filter(|(table, _)| *table == MAIN) {
        let (partition, sort) = (text(item, "PK"), text(item, "SK"));
        match kind(table, partition, Some(sort)) {
            Kind::Project { project, .. } => {
                let Some(owner) = state.remembered.owners.get(project) else {
                    problems.push(format!("nobody remembers who owned {project}"));
                    continue;
                };
                let target = (format!("OWNER#{owner}"), format!("ROLLUP#PROJECT#{project}"));
                for (name, measure) in [("task_count", "tasks"), ("done_count", "done")] {
                    let wanted = Some(state.number(&target, measure));
                    problems.extend(mirror(partition, sort, name, stored(item, name), wanted));
                }
            }
            Kind::Shop { .. } => {
                let target = (partition.to_owned(), "ROLLUP#VISITS".to_owned());
                let held = |measure| state.rollups.get(&target).and_then(|rollup| stored(rollup, measure));
                let empty = Item::new();
                let stats = match item.get("stats") {
                    Some(AttributeValue::M(stats)) => stats,
                    _ => &empty,
                };
                let visits = Some(held("visits").unwrap_or_default());
                for (name, wanted) in
                    [("visits", visits), ("average", held("score_average")), ("best", held("best"))]
                {
                    problems.extend(mirror(partition, sort, name, stored(stats, name), wanted));
                }
            }
            _ => {}
        }
    }
    problems
}

fn mirror(
    partition: &str,
    sort: &str,
    name: &str,
    found: Option<ExactNumber>,
    wanted: Option<ExactNumber>,
) -> Option<String> {
    (found != wanted).then(|| format!("{partition} {sort} shows {name} = {found:?}, not {wanted:?}"))
}
