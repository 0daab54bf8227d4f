//! Checks of ranked rollups: the group that each item names, and the order of the index against a sort of the recount.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use afterwrite_demo::exact::ExactNumber;
use afterwrite_ledger::tables::IndexQuery;
use afterwrite_model::effect::KeyAttribute;
use afterwrite_model::record::Item;

use super::super::numbers::stored;
use super::super::oracle::MeasureSums;
use super::super::run::SimulationRun;
use super::super::source_rollups::SourceRollup;
use super::super::state::StateTable;
use super::super::state_keys::StateKey;
use super::super::store::{RANK, RANKED, STATE, Store, text};
use super::is_checked;

/// Items of a page of the index: few, so that a group has several pages.
const PAGE_ITEMS: u16 = 2;

/// The values of a group in ascending order, each with the partition keys of its rollups. Equal values have no order.
type RankedGroup = Vec<(ExactNumber, BTreeSet<String>)>;

/// Every item of a ranked rollup names the group in which it is ranked.
pub(super) fn check_groups(state: &StateTable) -> Vec<String> {
    let problem = |((partition, sort), item): (&StateKey, &Item)| {
        let wanted = match SourceRollup::of_key(partition, sort) {
            Some(SourceRollup::UserDay) => group(sort.strip_prefix("ROLLUP#")?),
            _ => String::new(),
        };
        let found = text(item, RANK);
        (found != wanted).then(|| format!("{partition} {sort} is ranked in `{found}`, not in `{wanted}`"))
    };
    state.rollups.iter().filter_map(problem).collect()
}

fn group(day: &str) -> String {
    format!("user_day#{day}")
}

/// The index has the rollups of each day in the order of the recount. An item whose measure has returned to 0 stays in the index, and
/// is not compared.
pub(super) fn check_order<S: Store + 'static>(
    run: &mut SimulationRun<S>,
    wanted: &MeasureSums,
    now: i64,
) -> Vec<String> {
    let mut days: BTreeMap<&str, BTreeMap<&ExactNumber, BTreeSet<String>>> = BTreeMap::new();
    for ((target, measure), amount) in wanted {
        let day = target.1.strip_prefix("ROLLUP#").filter(|day| day.starts_with("DAY#"));
        let is_ranked = target.0.starts_with("USER#") && measure == RANKED && is_checked(target, now);
        if let Some(day) = day.filter(|_| is_ranked) {
            let rollups = days.entry(day).or_default().entry(amount).or_default();
            rollups.insert(target.0.clone());
        }
    }
    let mut problems = Vec::new();
    for (day, wanted) in days {
        let values = wanted.into_iter().map(|(amount, rollups)| (amount.clone(), rollups));
        let wanted: RankedGroup = values.filter(is_nonzero).collect();
        let found = read_group(run.tables.inner(), &group(day));
        if wanted.len() > 1 {
            run.coverage.record("rank of different values");
        }
        if wanted.iter().any(|(_, rollups)| rollups.len() > 1) {
            run.coverage.record("rank of equal values");
        }
        if found != wanted {
            problems.push(format!("the rank of {day} is {found:?}, not {wanted:?}"));
        }
    }
    problems
}

fn is_nonzero((amount, _): &(ExactNumber, BTreeSet<String>)) -> bool {
    *amount != ExactNumber::ZERO
}

/// A group as a reader of the index reads it, page by page. Neighbours with equal values are one entry.
fn read_group(store: &impl Store, group: &str) -> RankedGroup {
    let key = KeyAttribute { name: Arc::from(RANK), value: group.to_owned().into() };
    let query = IndexQuery {
        table: Arc::from(STATE),
        index: Arc::from(RANK),
        key: vec![key],
        page_items: PAGE_ITEMS,
        start_after: None,
    };
    let (mut read, mut next) = (RankedGroup::new(), Some(query));
    while let Some(query) = next {
        // The tables answer within one poll, also over HTTP.
        let answer = pin!(store.query_index(&query)).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(page) = answer else { panic!("a query of an index is pending") };
        let page = page.unwrap_or_else(|error| panic!("{error}"));
        for item in &page.items {
            let value = stored(item, RANKED).expect("an item of the index has the measure");
            let rollup = text(item, "PK").to_owned();
            match read.last_mut().filter(|(last, _)| *last == value) {
                Some((_, rollups)) => drop(rollups.insert(rollup)),
                None => read.push((value, BTreeSet::from([rollup]))),
            }
        }
        next = page.next;
    }
    read.retain(is_nonzero);
    read
}
