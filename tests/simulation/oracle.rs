//! The oracle: the contributions of each item of the simulation's model, computed independently.
//!
//! It shares no code with the product except the formatting of a decimal's digits. The keys of rollups and the measures
//! are constants here, and the arithmetic is that of the demo's exact numbers.

use std::collections::BTreeMap;

use afterwrite_demo::exact::ExactNumber;
use afterwrite_model::record::{AttributeValue, Item};

use super::numbers::exact;
use super::score_bins::score_bin;
use super::source_rollups::SourceRollup;
use super::store::{EVENTS, METERS, STATE, key_texts, text};

/// `PK`, without a shard, and `SK` of a rollup.
pub(crate) type RollupKey = (String, String);
/// Sums by rollup and measure.
pub(crate) type MeasureSums = BTreeMap<(RollupKey, String), ExactNumber>;

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
    Post,
    Reading {
        sensor: &'k str,
    },
    Meter {
        code: &'k str,
        number: &'k str,
    },
    /// An item of a rollup that is a source.
    Rollup(SourceRollup),
    /// An item without contributions.
    Other,
}

/// The kind of an item, from its key.
pub(crate) fn item_kind<'k>(table: &str, partition: &'k str, sort: Option<&'k str>) -> ItemKind<'k> {
    let sort = sort.unwrap_or("");
    if table == STATE {
        return SourceRollup::of_key(partition, sort).map_or(ItemKind::Other, ItemKind::Rollup);
    }
    if table == EVENTS {
        return match partition.split_once('#') {
            Some(("EVENT", _)) => ItemKind::Event,
            Some(("POST", _)) => ItemKind::Post,
            _ => ItemKind::Other,
        };
    }
    if table == METERS {
        return ItemKind::Meter { code: partition, number: sort };
    }
    match (partition.split_once('#'), sort.split_once('#')) {
        (Some(("OWNER", owner)), Some(("PROJECT", project))) => ItemKind::Project { owner, project },
        (Some(("PROJECT", project)), Some(("TASK", _))) => ItemKind::Task { project },
        (Some(("SHOP", shop)), None) if sort == "INFO" => ItemKind::Shop { shop },
        (Some(("SHOP", shop)), Some(("VISIT", _))) => ItemKind::Visit { shop },
        (Some(("SENSOR", sensor)), None) if sort == "READING" => ItemKind::Reading { sensor },
        (Some(("USER", user)), Some(("SESSION", _))) => ItemKind::Session { user },
        _ => ItemKind::Other,
    }
}

impl ItemKind<'_> {
    /// Whether a lookup reads items of this kind.
    pub(crate) fn is_looked_up(&self) -> bool {
        matches!(self, Self::Project { .. } | Self::Shop { .. })
    }

    /// Whether this item remains counted after TTL has deleted it: a draft does not, although it is of the kind of posts, nor does an
    /// item of a rollup whose measures are zero.
    pub(crate) fn keeps(&self, item: &Item) -> bool {
        self.is_kept()
            && match self {
                Self::Post => text(item, "state") == "LIVE",
                Self::Rollup(source) => source.is_present(item),
                _ => true,
            }
    }

    /// Whether an item of this kind that TTL deletes can remain counted.
    pub(crate) fn is_kept(&self) -> bool {
        match self {
            Self::Task { .. } | Self::Session { .. } | Self::Event | Self::Post | Self::Meter { .. } => true,
            Self::Rollup(source) => source.is_kept(),
            _ => false,
        }
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
        add_amount(sums, (target, measure.to_owned()), &amount);
    }
    Ok(())
}

/// Adds an amount to the sum of a rollup's measure.
pub(crate) fn add_amount(sums: &mut MeasureSums, measure: (RollupKey, String), amount: &ExactNumber) {
    let sum = sums.entry(measure).or_default();
    *sum = sum.plus(amount);
}

type ContributionList = Vec<(RollupKey, &'static str, ExactNumber)>;

/// The contributions of an item, without zeros.
pub(crate) fn contributions(
    table: &str,
    item: &Item,
    generation: u64,
    remembered: &RememberedOutputs,
) -> Result<ContributionList, CountError> {
    let (partition, sort) = key_texts(table, item);
    let mut amounts = match item_kind(table, &partition, sort.as_deref()) {
        ItemKind::Project { owner, .. } => project(item, owner),
        ItemKind::Task { project } => task(item, project, generation, remembered)?,
        ItemKind::Visit { shop } => visit(item, shop, generation)?,
        ItemKind::Session { user } => session(item, user)?,
        ItemKind::Event => event(item, remembered)?,
        ItemKind::Post => post(item, remembered)?,
        ItemKind::Reading { sensor } => reading(item, sensor)?,
        ItemKind::Meter { code, number } => meter(item, code, number)?,
        ItemKind::Rollup(source) => source.contributions(&partition, item, generation),
        ItemKind::Shop { .. } | ItemKind::Other => Vec::new(),
    };
    amounts.retain(|(.., amount)| *amount != ExactNumber::ZERO);
    Ok(amounts)
}

fn project(item: &Item, owner: &str) -> ContributionList {
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
        price.zip(quantity).map(|(price, quantity)| price.times(&quantity))
    };
    let mut amounts = ContributionList::new();
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

fn visit(item: &Item, shop: &str, generation: u64) -> Result<ContributionList, CountError> {
    let score = number(item, "score")?;
    let target = (format!("SHOP#{shop}"), "ROLLUP#VISITS".to_owned());
    let mut amounts = vec![
        (target.clone(), "visits", ExactNumber::one()),
        (target.clone(), "score_sum", score.clone().unwrap_or_default()),
    ];
    amounts.extend(score.map(|score| (target, score_bin(&score), ExactNumber::one())));
    let members = format!("SHOP#{shop}#DISTINCT#kinds");
    amounts.push(((members, format!("ROLLUP#VISITS#{}", text(item, "kind"))), "count", ExactNumber::one()));
    if generation == 2 {
        amounts.push((
            (format!("KIND#{}", text(item, "kind")), "ROLLUP".to_owned()),
            "visits_of_kind",
            ExactNumber::one(),
        ));
    }
    Ok(amounts)
}

fn session(item: &Item, user: &str) -> Result<ContributionList, CountError> {
    let seconds = number(item, "seconds")?;
    let (seconds, day) = (seconds.unwrap_or_default(), text(item, "day"));
    let targets =
        [(format!("USER#{user}"), format!("ROLLUP#DAY#{day}")), (format!("DAY#{day}"), "ROLLUP".to_owned())];
    let of_target = |target: RollupKey| {
        [(target.clone(), "sessions", ExactNumber::one()), (target, "seconds_sum", seconds.clone())]
    };
    Ok(targets.into_iter().flat_map(of_target).collect())
}

fn event(item: &Item, remembered: &RememberedOutputs) -> Result<ContributionList, CountError> {
    let (part, whole) = (number(item, "part")?, number(item, "whole")?);
    let shop = text(item, "shop_id");
    if shop.is_empty() {
        return Err(CountError::Poison);
    }
    let city = remembered.cities.get(shop).ok_or(CountError::NoOutputs)?;
    let percent_of = |part: ExactNumber, whole: ExactNumber| {
        (whole > ExactNumber::ZERO).then(|| (part.times(&100.into()), whole))
    };
    let percent = part.zip(whole).and_then(|(part, whole)| percent_of(part, whole));
    let traffic = (format!("TRAFFIC#{}", text(item, "kind")), "ROLLUP".to_owned());
    let city = (format!("CITY#{city}"), "ROLLUP".to_owned());
    let mut amounts =
        vec![(traffic.clone(), "events", ExactNumber::one()), (city.clone(), "events", ExactNumber::one())];
    let labels = match item.get("labels") {
        Some(AttributeValue::Ss(labels)) => labels.as_slice(),
        _ => &[],
    };
    for label in labels {
        let label = (format!("LABEL#{label}"), "ROLLUP".to_owned());
        amounts.push((label.clone(), "labelled", ExactNumber::one()));
        let twice = number(item, "part")?.map(|part| part.plus(&part));
        amounts.push((label, "labelled_parts", twice.unwrap_or_default()));
    }
    // A weight that is not a number is left out of this sum only.
    if let Ok(Some(weight)) = number(item, "weight") {
        amounts.push((traffic.clone(), "weight_sum", weight));
    }
    if let Some((hundredfold, whole)) = percent {
        let quarter = hundredfold.floor_divided_by(&whole.times(&25.into()));
        let bin = match quarter.and_then(|quarter| quarter.to_i64()).expect("a small quotient") {
            ..=-1 => None,
            0 => Some("pct_00"),
            1 => Some("pct_25"),
            2 => Some("pct_50"),
            _ => Some("pct_75"),
        };
        amounts.extend(bin.map(|bin| (traffic, bin, ExactNumber::one())));
        if hundredfold >= whole.times(&50.into()) {
            amounts.push((city, "high", ExactNumber::one()));
        }
    }
    Ok(amounts)
}

/// A draft is counted by its shop and needs no city. Neither a draft nor a live post without a shop is counted.
fn post(item: &Item, remembered: &RememberedOutputs) -> Result<ContributionList, CountError> {
    let shop = text(item, "shop_id");
    if shop.is_empty() {
        return Ok(Vec::new());
    }
    if text(item, "state") == "DRAFT" {
        let target = (format!("DRAFTS#{shop}"), "ROLLUP".to_owned());
        return Ok(vec![(target, "drafts", ExactNumber::one())]);
    }
    let city = remembered.cities.get(shop).ok_or(CountError::NoOutputs)?;
    Ok(vec![((format!("CITY#{city}"), "ROLLUP".to_owned()), "posts", ExactNumber::one())])
}

fn reading(item: &Item, sensor: &str) -> Result<ContributionList, CountError> {
    number(item, "level")?;
    Ok(vec![
        ((format!("SENSOR#{sensor}"), "ROLLUP#LEVEL".to_owned()), "readings", ExactNumber::one()),
        (
            (format!("PLACE#{}", text(item, "place")), "ROLLUP".to_owned()),
            "readings_here",
            ExactNumber::one(),
        ),
        (neighbours(text(item, "place")), "neighbours", ExactNumber::one()),
    ])
}

/// The rollup of the readings whose place names this sensor.
pub(crate) fn neighbours(sensor: &str) -> RollupKey {
    (format!("SENSOR#{sensor}"), "ROLLUP#NEIGHBOURS".to_owned())
}

fn meter(item: &Item, code: &str, meter: &str) -> Result<ContributionList, CountError> {
    let units = number(item, "units")?;
    let target = (format!("METER#{meter}"), format!("ROLLUP#{code}"));
    Ok(vec![(target.clone(), "meters", ExactNumber::one()), (target, "units_sum", units.unwrap_or_default())])
}

/// The value that an item offers to the extremes of a rollup.
pub(crate) struct OfferedExtreme {
    pub(crate) target: RollupKey,
    pub(crate) largest: &'static str,
    pub(crate) smallest: Option<&'static str>,
    pub(crate) value: ExactNumber,
}

/// The values of an item for `max` and `min`.
pub(crate) fn extremes(table: &str, item: &Item) -> Vec<OfferedExtreme> {
    let (partition, sort) = key_texts(table, item);
    let offer = |name: &str, partition: String, sort: &str, largest, smallest| {
        let value = number(item, name).ok().flatten()?;
        Some(OfferedExtreme { target: (partition, sort.to_owned()), largest, smallest, value })
    };
    let offers = match item_kind(table, &partition, sort.as_deref()) {
        ItemKind::Visit { .. } => {
            vec![offer("score", partition.clone(), "ROLLUP#VISITS", "best", Some("worst"))]
        }
        ItemKind::Reading { .. } => vec![
            offer("level", partition.clone(), "ROLLUP#LEVEL", "highest", Some("lowest")),
            offer("level", format!("PLACE#{}", text(item, "place")), "ROLLUP", "peak", None),
        ],
        _ => Vec::new(),
    };
    offers.into_iter().flatten().collect()
}

/// Whether an item cannot be counted, whatever the lookups return.
pub(crate) fn is_poison(table: &str, item: &Item) -> bool {
    contributions(table, item, 1, &RememberedOutputs::default()) == Err(CountError::Poison)
}

fn number(item: &Item, name: &str) -> Result<Option<ExactNumber>, CountError> {
    match item.get(name) {
        None => Ok(None),
        Some(AttributeValue::N(number)) => Ok(Some(exact(&number.to_string()))),
        Some(_) => Err(CountError::Poison),
    }
}

/// A quotient of two numbers, rounded half to even at 6 decimal places.
pub(crate) fn average(sum: &ExactNumber, count: &ExactNumber) -> Option<ExactNumber> {
    sum.divided_by(count, 6)
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
