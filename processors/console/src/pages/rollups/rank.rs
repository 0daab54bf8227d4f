//! The order of a rollup's items by a measure: the first of a group, around one item, and the rank of the item.
//!
//! Reads are those of the typed readers and of the cookbook: the index `rank_<measure>`, in which a group is one partition for each shard.

use std::sync::Arc;

use afterwrite_ledger::state::{PARTITION_KEY, SORT_KEY};
use afterwrite_model::effect::KeyAttribute;
use afterwrite_model::harmless::harmless;
use afterwrite_model::record::{AttributeValue, Decimal, Item};
use afterwrite_model::table::{Rank, Rollup};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::dynamodb::{PartitionPart, PartitionQuery};
use axum::extract::State;
use axum::response::Response;
use futures::future::try_join_all;
use maud::{Markup, html};

use super::downloads::downloads;
use crate::frame::Page;
use crate::links::{RANK, rank_link, rollup_link};
use crate::pages::answer;
use crate::prose::prose;
use crate::query::PageQuery;
use crate::rollup::asked::parameter;
use crate::rollup::reads::{RollupReads, key_text};
use crate::rollup::shape::RollupShape;
use crate::served::Served;
use crate::table::{Cell, PageTable};
use crate::view::{View, ViewResult};

/// The parameter with the number of items.
const TOP: &str = "top";
const DEFAULT_TOP: u16 = 20;
const MOST_TOP: u16 = 500;
/// The items on each side of one item.
const AROUND: u16 = 10;
/// The most requests that count the larger values, and the items of each.
const COUNT_REQUESTS: usize = 20;
const COUNT_ITEMS: u16 = 10_000;

/// `GET` of the page.
pub(crate) async fn rank(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let view = view(&served, &query).await;
    answer(&served, Page::Rollups, &query, view)
}

/// A group of a rank.
struct RankedGroup<'c> {
    served: &'c Served,
    rank: &'c Rank,
    /// The partitions of the index that hold it.
    partitions: Vec<String>,
}

/// A part of a group on one side of a value.
#[derive(Clone, Copy)]
enum GroupSide<'v> {
    /// All, the largest first.
    Whole,
    /// The larger values, the smallest first.
    Above(&'v Decimal),
    /// The value itself and smaller ones, the largest first.
    UpTo(&'v Decimal),
}

/// The number of larger values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LargerValues {
    All(u64),
    /// Counting stopped at this number.
    AtLeast(u64),
}

impl RankedGroup<'_> {
    fn query(&self, partition: &str, side: GroupSide<'_>) -> PartitionQuery {
        let value = |value: &Decimal| KeyAttribute {
            name: Arc::clone(&self.rank.measure),
            value: AttributeValue::N(value.clone()),
        };
        let (part, is_ascending) = match side {
            GroupSide::Whole => (PartitionPart::Whole, false),
            GroupSide::Above(bound) => (PartitionPart::Above(value(bound)), true),
            GroupSide::UpTo(bound) => (PartitionPart::UpTo(value(bound)), false),
        };
        let group = AttributeValue::text(partition.to_owned());
        PartitionQuery {
            table: Arc::clone(&self.served.context.state_table),
            index: Some(Arc::clone(&self.rank.attribute)),
            partition: KeyAttribute { name: Arc::clone(&self.rank.attribute), value: group },
            part,
            is_ascending,
            page_items: COUNT_ITEMS,
            counts_only: false,
            start_after: None,
        }
    }

    fn value<'i>(&self, item: &'i Item) -> Option<&'i Decimal> {
        item.get(&*self.rank.measure).and_then(AttributeValue::as_number)
    }

    /// The first items of a side, merged from all partitions.
    async fn ordered(&self, side: GroupSide<'_>, most: u16) -> Result<Vec<Item>> {
        let reads = self.partitions.iter().map(|partition| {
            let query = PartitionQuery { page_items: most, ..self.query(partition, side) };
            async move { self.served.context.tables.query_partition(&query).await }
        });
        let mut items: Vec<Item> =
            try_join_all(reads).await?.into_iter().flat_map(|page| page.items).collect();
        items.sort_by(|one, other| match side {
            GroupSide::Above(_) => self.value(one).cmp(&self.value(other)),
            GroupSide::Whole | GroupSide::UpTo(_) => self.value(other).cmp(&self.value(one)),
        });
        items.truncate(usize::from(most));
        Ok(items)
    }

    /// The number of items with larger values. DynamoDB reads all of them, so counting stops after some requests.
    async fn larger(&self, bound: &Decimal) -> Result<LargerValues> {
        let (mut count, mut requests) = (0, 0);
        for partition in &self.partitions {
            let mut query =
                PartitionQuery { counts_only: true, ..self.query(partition, GroupSide::Above(bound)) };
            loop {
                if requests == COUNT_REQUESTS {
                    return Ok(LargerValues::AtLeast(count));
                }
                let page = self.served.context.tables.query_partition(&query).await?;
                (count, requests) = (count + page.count, requests + 1);
                let Some(next) = page.next else { break };
                query.start_after = Some(next);
            }
        }
        Ok(LargerValues::All(count))
    }
}

/// The rank that a query names.
fn named_rank<'m>(rollup: &'m Rollup, measure: Option<&str>) -> Result<&'m Rank> {
    let named = rollup.ranks.iter().find(|rank| measure.is_none_or(|measure| *rank.measure == *measure));
    named.ok_or_else(|| {
        Error::new(ErrorKind::Configuration, "the rollup is not ranked by this measure")
            .with("rollup", &*rollup.name)
            .hint("`rank.<measure>` of the rollup in the model declares an order: see docs/MODEL.md")
    })
}

async fn view(served: &Served, query: &PageQuery) -> ViewResult {
    let shape = RollupShape::named(served.context.model(), query.get("name").unwrap_or_default())?;
    let rank = named_rank(shape.rollup, query.get("measure"))?;
    let mut view = View::new(Page::Rollups, format!("{} by {}", shape.rollup.name, rank.measure));
    let one = query.get("pk").zip(query.get("sk"));
    let of_item = one.and_then(|(partition, sort)| shape.rollup.values(partition, sort));
    let values: Vec<String> = match (&of_item, one) {
        (Some(values), _) => values.iter().map(ToString::to_string).collect(),
        (None, Some(_)) => return Err(shape.refused("the key is not a key of the rollup")),
        (None, None) => {
            let given =
                shape.rollup.variables.iter().map(|name| query.get(&parameter(name)).unwrap_or_default());
            given.map(str::to_owned).collect()
        }
    };
    let fields = shape.reader.ranks.iter().find(|known| *known.measure == *rank.measure);
    let fields = fields.map(|rank| rank.fields.clone()).unwrap_or_default();
    view.show(choice(&shape, rank, (&fields, &values), query));
    let missing = fields.iter().find(|index| values.get(**index).is_none_or(String::is_empty));
    if let Some(missing) = missing {
        let missing = shape.variable(*missing).to_owned();
        view.show(html! { p class="empty" { "Write the group whose order is shown: " code { (harmless(&missing)) } "." } });
        return Ok(view);
    }
    let group = RankedGroup { served, rank, partitions: shape.rollup.rank_partitions(rank, &values) };
    match one {
        Some(key) => show_around(&mut view, &group, key, query).await?,
        None => show_top(&mut view, &group, query).await?,
    }
    Ok(view)
}

fn choice(
    shape: &RollupShape<'_>,
    rank: &Rank,
    (fields, values): (&[usize], &[String]),
    query: &PageQuery,
) -> Markup {
    html! {
        p class="quiet" {
            "Items of " code { (harmless(&shape.rollup.name)) } " in descending order of " code { (harmless(&rank.measure)) }
            ", within a group. The index " code { (harmless(&rank.attribute)) } " lags behind the items, typically by milliseconds."
        }
        form method="get" action=(RANK) {
            input type="hidden" name="name" value=(shape.rollup.name);
            input type="hidden" name="measure" value=(rank.measure);
            @for index in fields {
                @let name = shape.variable(*index);
                @let about = shape.reader.fields.get(*index).map_or(name, |field| &field.about);
                label { span { (prose(about)) } input name=(parameter(name)) value=[values.get(*index).filter(|value| harmless(value) == **value)]; }
            }
            label { "the first" input type="number" name=(TOP) min="1" max=(MOST_TOP) value=(top(query)); }
            button { "Show" }
        }
    }
}

fn top(query: &PageQuery) -> u16 {
    let top = query.get(TOP).and_then(|top| top.parse().ok());
    top.unwrap_or(DEFAULT_TOP).clamp(1, MOST_TOP)
}

async fn show_top(view: &mut View, group: &RankedGroup<'_>, query: &PageQuery) -> Result<()> {
    let items = group.ordered(GroupSide::Whole, top(query)).await?;
    let if_empty = "No item is in this group: nothing is counted, or the group is another one.";
    let mut table = rank_table(group, "top", if_empty);
    let mut rank = 0;
    for (place, item) in items.iter().enumerate() {
        // Items with equal values share a rank.
        let is_equal =
            place > 0 && items.get(place - 1).is_some_and(|before| group.value(before) == group.value(item));
        rank = if is_equal { rank } else { place + 1 };
        table.rows.push(rank_row(group, query, item, Cell::number(rank)));
    }
    view.table(table);
    view.show(downloads(query, RANK));
    Ok(())
}

/// Adds the items around one item, and its rank.
async fn show_around(
    view: &mut View,
    group: &RankedGroup<'_>,
    (partition, sort): (&str, &str),
    query: &PageQuery,
) -> Result<()> {
    let key = (partition.to_owned(), sort.to_owned());
    let own = RollupReads(&group.served.context).stored(&[key]).await?.pop().flatten();
    let Some((own, value)) = own.as_ref().and_then(|own| Some((own, group.value(own)?))) else {
        view.show(
            html! { p class="empty" { "The item is not ranked: it is not stored, or has no such measure." } },
        );
        return Ok(());
    };
    let is_other =
        |item: &Item| (key_text(item, PARTITION_KEY), key_text(item, SORT_KEY)) != (partition, sort);
    let (above, below, larger) = futures::try_join!(
        group.ordered(GroupSide::Above(value), AROUND),
        group.ordered(GroupSide::UpTo(value), AROUND + 1),
        group.larger(value),
    )?;
    let (rank, rank_data) = show_rank(view, larger, value);
    view.show(html! { h2 { "Around it" } });
    let mut table = rank_table(group, "around", "No other item is in its group.");
    let others = below.iter().filter(|item| is_other(item)).take(usize::from(AROUND));
    let page = above.iter().rev().filter(|item| is_other(item)).chain([own]).chain(others);
    for item in page {
        let place = if is_other(item) { Cell::Empty } else { Cell::number(&rank) };
        table.rows.push(rank_row(group, query, item, place));
    }
    view.table(table);
    view.data(rank_data);
    view.show(downloads(query, RANK));
    Ok(())
}

/// Adds the rank of the item for people, and returns it, also as a table for machines.
fn show_rank(view: &mut View, larger: LargerValues, value: &Decimal) -> (String, PageTable) {
    let (rank, note) = match larger {
        LargerValues::All(larger) => ((larger + 1).to_string(), String::new()),
        LargerValues::AtLeast(larger) => (
            format!("more than {larger}"),
            format!(
                " Counting stopped after {COUNT_REQUESTS} requests, because DynamoDB reads every item that it counts."
            ),
        ),
    };
    let mut facts = PageTable::new("rank", &["rank", "value"], "");
    facts.rows.push(vec![Cell::number(&rank), Cell::number(value)]);
    view.show(html! {
        h2 { "Rank " (rank) }
        p class="quiet" { "One more than the number of items with larger values." (note) }
    });
    (rank, facts)
}

fn rank_table(group: &RankedGroup<'_>, name: &'static str, if_empty: &str) -> PageTable {
    PageTable::new(name, &["rank", PARTITION_KEY, SORT_KEY, &group.rank.measure, "around it"], if_empty)
}

fn rank_row(group: &RankedGroup<'_>, query: &PageQuery, item: &Item, place: Cell) -> Vec<Cell> {
    let (partition, sort) = (key_text(item, PARTITION_KEY), key_text(item, SORT_KEY));
    let around = rank_link(query.get("name").unwrap_or_default(), &group.rank.measure, partition, sort);
    vec![
        place,
        Cell::link(partition, rollup_link(partition, sort)),
        Cell::code(sort),
        group.value(item).map_or(Cell::Empty, Cell::number),
        Cell::link("around it", around),
    ]
}
