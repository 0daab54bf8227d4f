//! A second implementation of what each item of the simulation's model contributes, key by key.
//!
//! It shares no code with the engine: the rollups' keys and the measures are spelled out here, and its numbers are those of the
//! demo's recount.

use std::collections::BTreeMap;

use afterwrite::record::{AttributeValue, Item};
use afterwrite_demo::exact::ExactNumber;

use super::store::{EVENTS, text};

/// `PK`, without a shard, and `SK` of a rollup.
pub(crate) type Target = (String, String);
/// Sums by rollup and measure.
pub(crate) type Sums = BTreeMap<(Target, String), ExactNumber>;

/// What the two lookups gave first: owners by project, cities by shop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remembered {
    pub(crate) owners: BTreeMap<String, String>,
    pub(crate) cities: BTreeMap<String, String>,
}

/// Why an item cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uncountable {
    /// A value is of a wrong type, or missing.
    Poison,
    /// A lookup has not been answered.
    Unanswered,
}

/// What kind of item a key names, with its variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'k> {
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
    /// Nothing follows from it.
    Other,
}

/// Tells an item by its key.
pub(crate) fn kind<'k>(table: &str, partition: &'k str, sort: Option<&'k str>) -> Kind<'k> {
    let sort = sort.unwrap_or("");
    if table == EVENTS {
        return if partition.starts_with("EVENT#") { Kind::Event } else { Kind::Other };
    }
    match (partition.split_once('#'), sort.split_once('#')) {
        (Some(("OWNER", owner)), Some(("PROJECT", project))) => Kind::Project { owner, project },
        (Some(("PROJECT", project)), Some(("TASK", _))) => Kind::Task { project },
        (Some(("SHOP", shop)), None) if sort == "INFO" => Kind::Shop { shop },
        (Some(("SHOP", shop)), Some(("VISIT", _))) => Kind::Visit { shop },
        (Some(("USER", user)), Some(("SESSION", _))) => Kind::Session { user },
        _ => Kind::Other,
    }
}

impl Kind<'_> {
    /// Whether what TTL deletes of this kind stays counted.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self, Self::Task { .. } | Self::Session { .. } | Self::Event)
    }
}

/// Adds what an item contributes, in the model of this generation.
pub(crate) fn add(
    sums: &mut Sums,
    table: &str,
    item: &Item,
    generation: u64,
    remembered: &Remembered,
) -> Result<(), Uncountable> {
    for (target, measure, amount) in contributions(table, item, generation, remembered)? {
        add_amount(sums, (target, measure.to_owned()), &amount);
    }
    Ok(())
}

/// Adds an amount to the sum of a rollup's measure.
pub(crate) fn add_amount(sums: &mut Sums, measure: (Target, String), amount: &ExactNumber) {
    let sum = sums.entry(measure).or_default();
    *sum = sum.plus(amount);
}

type Amounts = Vec<(Target, &'static str, ExactNumber)>;

/// What an item contributes, without amounts of zero.
pub(crate) fn contributions(
    table: &str,
    item: &Item,
    generation: u64,
    remembered: &Remembered,
) -> Result<Amounts, Uncountable> {
    let (partition, sort) = match table {
        EVENTS => (text(item, "id"), None),
        _ => (text(item, "PK"), Some(text(item, "SK"))),
    };
    let mut amounts = match kind(table, partition, sort) {
        Kind::Project { owner, .. } => project(item, owner),
        Kind::Task { project } => task(item, project, generation, remembered)?,
        Kind::Visit { shop } => visit(item, shop, generation)?,
        Kind::Session { user } => session(item, user)?,
        Kind::Event => event(item, remembered)?,
        Kind::Shop { .. } | Kind::Other => Vec::new(),
    };
    amounts.retain(|(.., amount)| *amount != ExactNumber::ZERO);
    Ok(amounts)
}

fn project(item: &Item, owner: &str) -> Amounts {
    let total = (format!("OWNER#{owner}"), "ROLLUP#TOTAL".to_owned());
    match item.get("archived") {
        Some(AttributeValue::Bool(false)) => vec![(total, "projects_open", ExactNumber::one())],
        Some(AttributeValue::Bool(true)) => vec![(total, "projects_archived", ExactNumber::one())],
        _ => Vec::new(),
    }
}

fn task(
    item: &Item,
    project: &str,
    generation: u64,
    remembered: &Remembered,
) -> Result<Amounts, Uncountable> {
    let points = number(item, "points")?;
    let owner = remembered.owners.get(project).ok_or(Uncountable::Unanswered)?;
    let owner = format!("OWNER#{owner}");
    let status = text(item, "status");
    let amount = if status.is_empty() || status == "CANCELLED" {
        None
    } else {
        let (price, quantity) = (number(item, "price")?, number(item, "quantity")?);
        price.zip(quantity).map(|(price, quantity)| price.times(&quantity))
    };
    let mut amounts = Amounts::new();
    for sort in ["ROLLUP#TOTAL".to_owned(), format!("ROLLUP#PROJECT#{project}")] {
        let target = (owner.clone(), sort);
        amounts.push((target.clone(), "tasks", ExactNumber::one()));
        amounts.push((target.clone(), "done", (status == "DONE").into()));
        amounts.push((target.clone(), "points_sum", points.clone().unwrap_or_default()));
        amounts.push((target, "amount", amount.clone().unwrap_or_default()));
    }
    if generation == 1 {
        amounts.push((
            (owner, format!("ROLLUP#DAY#{}", text(item, "day"))),
            "tasks_of_day",
            ExactNumber::one(),
        ));
    }
    Ok(amounts)
}

fn visit(item: &Item, shop: &str, generation: u64) -> Result<Amounts, Uncountable> {
    let score = number(item, "score")?;
    let target = (format!("SHOP#{shop}"), "ROLLUP#VISITS".to_owned());
    let mut amounts = vec![
        (target.clone(), "visits", ExactNumber::one()),
        (target, "score_sum", score.unwrap_or_default()),
    ];
    if generation == 2 {
        amounts.push((
            (format!("KIND#{}", text(item, "kind")), "ROLLUP".to_owned()),
            "visits_of_kind",
            ExactNumber::one(),
        ));
    }
    Ok(amounts)
}

fn session(item: &Item, user: &str) -> Result<Amounts, Uncountable> {
    let seconds = number(item, "seconds")?;
    let target = (format!("USER#{user}"), format!("ROLLUP#DAY#{}", text(item, "day")));
    Ok(vec![
        (target.clone(), "sessions", ExactNumber::one()),
        (target, "seconds_sum", seconds.unwrap_or_default()),
    ])
}

fn event(item: &Item, remembered: &Remembered) -> Result<Amounts, Uncountable> {
    let (part, whole) = (number(item, "part")?, number(item, "whole")?);
    let shop = text(item, "shop_id");
    if shop.is_empty() {
        return Err(Uncountable::Poison);
    }
    let city = remembered.cities.get(shop).ok_or(Uncountable::Unanswered)?;
    let percent = part.zip(whole).filter(|(_, whole)| *whole > ExactNumber::ZERO);
    let traffic = (format!("TRAFFIC#{}", text(item, "kind")), "ROLLUP".to_owned());
    let city = (format!("CITY#{city}"), "ROLLUP".to_owned());
    let one = ExactNumber::one;
    let mut amounts = vec![(traffic.clone(), "events", one()), (city.clone(), "events", one())];
    if let Some((part, whole)) = percent {
        let hundredfold = part.times(&100.into());
        let quarter = hundredfold.floor_divided_by(&whole.times(&25.into()));
        let bin = match quarter.and_then(|quarter| quarter.to_i64()).expect("a small quotient") {
            ..=-1 => None,
            0 => Some("pct_00"),
            1 => Some("pct_25"),
            2 => Some("pct_50"),
            _ => Some("pct_75"),
        };
        amounts.extend(bin.map(|bin| (traffic, bin, one())));
        if hundredfold >= whole.times(&50.into()) {
            amounts.push((city, "high", one()));
        }
    }
    Ok(amounts)
}

/// Whether an item can never be counted as it is.
pub(crate) fn is_poison(table: &str, item: &Item) -> bool {
    contributions(table, item, 1, &Remembered::default()) == Err(Uncountable::Poison)
}

fn number(item: &Item, name: &str) -> Result<Option<ExactNumber>, Uncountable> {
    match item.get(name) {
        None => Ok(None),
        Some(AttributeValue::N(number)) => Ok(Some(exact(&number.to_string()))),
        Some(_) => Err(Uncountable::Poison),
    }
}

/// Reads a number.
pub(crate) fn exact(text: &str) -> ExactNumber {
    ExactNumber::parse(text).unwrap_or_else(|| panic!("not a decimal number: {text}"))
}

/// The moment, in epoch seconds, from which the rollup of this day is over.
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
