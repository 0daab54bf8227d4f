//! The oracle: the contributions of each item of the simulation's model, computed independently.
//!
//! It shares no code with the product except the formatting of a decimal's digits. The keys of rollups and the measures
//! are constants here, and the arithmetic is `i128` in units of 10⁻¹⁰.

use std::collections::BTreeMap;

use afterwrite::record::{AttributeValue, Item};

use super::store::{EVENTS, text};

/// A number in units of 10⁻¹⁰.
pub(crate) type FixedPoint = i128;
/// One.
pub(crate) const ONE: FixedPoint = 10_000_000_000;
const PLACES: usize = 10;

/// `PK`, without a shard, and `SK` of a rollup.
pub(crate) type RollupKey = (String, String);
/// Sums by rollup and measure.
pub(crate) type MeasureSums = BTreeMap<(RollupKey, String), FixedPoint>;

/// The remembered outputs of the two lookups: owners by project, cities by shop.
#[derive(Clone, Debug, Default)]
pub(crate) struct RememberedOutputs {
    pub(crate) owners: BTreeMap<String, String>,
    pub(crate) cities: BTreeMap<String, String>,
}

/// Why an item cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountError {
    /// A value is missing or of a wrong type.
    Poison,
    /// A lookup has no outputs.
    NoOutputs,
}

/// The kind of an item, with the variables of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind<'k> {
    Project {
        owner: &'k str,
        project: &'k str,
    },
    Task {
        project: &'k str,
    },
    Shop {
        shop: &'k str,
    },
    Visit {
        shop: &'k str,
    },
    Session {
        user: &'k str,
    },
    Event,
    /// An item without contributions.
    Other,
}

/// The kind of an item, from its key.
pub(crate) fn item_kind<'k>(table: &str, partition: &'k str, sort: Option<&'k str>) -> ItemKind<'k> {
    let sort = sort.unwrap_or("");
    if table == EVENTS {
        return if partition.starts_with("EVENT#") { ItemKind::Event } else { ItemKind::Other };
    }
    match (partition.split_once('#'), sort.split_once('#')) {
        (Some(("OWNER", owner)), Some(("PROJECT", project))) => ItemKind::Project { owner, project },
        (Some(("PROJECT", project)), Some(("TASK", _))) => ItemKind::Task { project },
        (Some(("SHOP", shop)), None) if sort == "INFO" => ItemKind::Shop { shop },
        (Some(("SHOP", shop)), Some(("VISIT", _))) => ItemKind::Visit { shop },
        (Some(("USER", user)), Some(("SESSION", _))) => ItemKind::Session { user },
        _ => ItemKind::Other,
    }
}

impl ItemKind<'_> {
    /// Whether an item of this kind that TTL deletes remains counted.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self, Self::Task { .. } | Self::Session { .. } | Self::Event)
    }
}

/// Adds the contributions of an item in the model of this generation.
pub(crate) fn add(
    sums: &mut MeasureSums,
    table: &str,
    item: &Item,
    generation: u64,
    remembered: &RememberedOutputs,
) -> Result<(), CountError> {
    for (target, measure, amount) in contributions(table, item, generation, remembered)? {
        *sums.entry((target, measure.to_owned())).or_default() += amount;
    }
    Ok(())
}

type ContributionList = Vec<(RollupKey, &'static str, FixedPoint)>;

/// The contributions of an item, without zeros.
pub(crate) fn contributions(
    table: &str,
    item: &Item,
    generation: u64,
    remembered: &RememberedOutputs,
) -> Result<ContributionList, CountError> {
    let (partition, sort) = match table {
        EVENTS => (text(item, "id"), None),
        _ => (text(item, "PK"), Some(text(item, "SK"))),
    };
    let mut amounts = match item_kind(table, partition, sort) {
        ItemKind::Project { owner, .. } => project(item, owner),
        ItemKind::Task { project } => task(item, project, generation, remembered)?,
        ItemKind::Visit { shop } => visit(item, shop, generation)?,
        ItemKind::Session { user } => session(item, user)?,
        ItemKind::Event => event(item, remembered)?,
        ItemKind::Shop { .. } | ItemKind::Other => Vec::new(),
    };
    amounts.retain(|(.., amount)| *amount != 0);
    Ok(amounts)
}

fn project(item: &Item, owner: &str) -> ContributionList {
    let total = (format!("OWNER#{owner}"), "ROLLUP#TOTAL".to_owned());
    match item.get("archived") {
        Some(AttributeValue::Bool(false)) => vec![(total, "projects_open", ONE)],
        Some(AttributeValue::Bool(true)) => vec![(total, "projects_archived", ONE)],
        _ => Vec::new(),
    }
}

fn task(
    item: &Item,
    project: &str,
    generation: u64,
    remembered: &RememberedOutputs,
) -> Result<ContributionList, CountError> {
    let points = number(item, "points")?;
    let owner = remembered.owners.get(project).ok_or(CountError::NoOutputs)?;
    let owner = format!("OWNER#{owner}");
    let status = text(item, "status");
    let amount = if status.is_empty() || status == "CANCELLED" {
        None
    } else {
        let (price, quantity) = (number(item, "price")?, number(item, "quantity")?);
        // Both have few enough decimal places for the product to be exact.
        price.zip(quantity).map(|(price, quantity)| (price / 10_000) * (quantity / 1_000_000))
    };
    let mut amounts = ContributionList::new();
    for sort in ["ROLLUP#TOTAL".to_owned(), format!("ROLLUP#PROJECT#{project}")] {
        let target = (owner.clone(), sort);
        amounts.push((target.clone(), "tasks", ONE));
        amounts.push((target.clone(), "done", if status == "DONE" { ONE } else { 0 }));
        amounts.push((target.clone(), "points_sum", points.unwrap_or(0)));
        amounts.push((target, "amount", amount.unwrap_or(0)));
    }
    if generation == 1 {
        amounts.push(((owner, format!("ROLLUP#DAY#{}", text(item, "day"))), "tasks_of_day", ONE));
    }
    Ok(amounts)
}

fn visit(item: &Item, shop: &str, generation: u64) -> Result<ContributionList, CountError> {
    let score = number(item, "score")?;
    let target = (format!("SHOP#{shop}"), "ROLLUP#VISITS".to_owned());
    let mut amounts = vec![(target.clone(), "visits", ONE), (target, "score_sum", score.unwrap_or(0))];
    if generation == 2 {
        amounts.push(((format!("KIND#{}", text(item, "kind")), "ROLLUP".to_owned()), "visits_of_kind", ONE));
    }
    Ok(amounts)
}

fn session(item: &Item, user: &str) -> Result<ContributionList, CountError> {
    let seconds = number(item, "seconds")?;
    let target = (format!("USER#{user}"), format!("ROLLUP#DAY#{}", text(item, "day")));
    Ok(vec![(target.clone(), "sessions", ONE), (target, "seconds_sum", seconds.unwrap_or(0))])
}

fn event(item: &Item, remembered: &RememberedOutputs) -> Result<ContributionList, CountError> {
    let (part, whole) = (number(item, "part")?, number(item, "whole")?);
    let shop = text(item, "shop_id");
    if shop.is_empty() {
        return Err(CountError::Poison);
    }
    let city = remembered.cities.get(shop).ok_or(CountError::NoOutputs)?;
    let percent_of = |part: FixedPoint, whole: FixedPoint| (whole > 0).then(|| (part * 100, whole));
    let percent = part.zip(whole).and_then(|(part, whole)| percent_of(part, whole));
    let traffic = (format!("TRAFFIC#{}", text(item, "kind")), "ROLLUP".to_owned());
    let city = (format!("CITY#{city}"), "ROLLUP".to_owned());
    let mut amounts = vec![(traffic.clone(), "events", ONE), (city.clone(), "events", ONE)];
    if let Some((hundredfold, whole)) = percent {
        let bin = match hundredfold.div_euclid(whole * 25) {
            ..=-1 => None,
            0 => Some("pct_00"),
            1 => Some("pct_25"),
            2 => Some("pct_50"),
            _ => Some("pct_75"),
        };
        amounts.extend(bin.map(|bin| (traffic, bin, ONE)));
        if hundredfold >= whole * 50 {
            amounts.push((city, "high", ONE));
        }
    }
    Ok(amounts)
}

/// Whether an item cannot be counted, whatever the lookups return.
pub(crate) fn is_poison(table: &str, item: &Item) -> bool {
    contributions(table, item, 1, &RememberedOutputs::default()) == Err(CountError::Poison)
}

fn number(item: &Item, name: &str) -> Result<Option<FixedPoint>, CountError> {
    match item.get(name) {
        None => Ok(None),
        Some(AttributeValue::N(number)) => Ok(Some(units(&number.to_string()))),
        Some(_) => Err(CountError::Poison),
    }
}

/// Parses a number with at most 10 decimal places.
pub(crate) fn units(text: &str) -> FixedPoint {
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    assert!(fraction.len() <= PLACES, "a number of more than {PLACES} decimal places");
    let digits = format!("{integer}{fraction:0<PLACES$}");
    let magnitude: FixedPoint = digits.parse().unwrap_or_else(|_| panic!("not a plain decimal number"));
    if is_negative { -magnitude } else { magnitude }
}

/// A quotient of two numbers, rounded half to even at 6 decimal places.
pub(crate) fn average(sum: FixedPoint, count: FixedPoint) -> Option<FixedPoint> {
    let count = count / ONE;
    if count == 0 {
        return None;
    }
    // The average in units of 10⁻⁶, times `count`, is `sum / 10⁴`: rounding compares without dividing first.
    let divisor = count * 10_000;
    let (floor, rest) = (sum.div_euclid(divisor), sum.rem_euclid(divisor));
    let is_up = rest * 2 > divisor || (rest * 2 == divisor && floor % 2 != 0);
    Some((floor + FixedPoint::from(is_up)) * 10_000)
}

/// When the rollup of this day expires, in epoch seconds.
pub(crate) fn rollup_expires_at(day: &str) -> i64 {
    let mut parts = day.split('-').map(|part| part.parse::<i64>().unwrap());
    let (year, month, day) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    // Days since 1970-01-01 in the proleptic Gregorian calendar, years counted from March.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let days =
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1 - 719_468;
    (days + 20) * 86_400
}
