//! The rollups from one bucket of time to another: bars, and the numbers beside them.

use std::collections::BTreeMap;

use afterwrite_client::{ReaderMeasure, ReaderValue};
use afterwrite_ledger::state::REV;
use afterwrite_model::Result;
use afterwrite_model::record::Decimal;
use maud::{Markup, html};

use super::downloads::downloads;
use super::facts::stored_link;
use super::shares::show_share;
use crate::chart::{Bar, bars};
use crate::links::ROLLUPS_OF;
use crate::query::PageQuery;
use crate::rollup::asked::{AskedBuckets, FROM, TO};
use crate::rollup::measures::{MeasureTotals, cell_of, show_measures};
use crate::rollup::reads::{RollupReads, StoredRollup};
use crate::rollup::shape::RollupShape;
use crate::rollup::share::MeasureShare;
use crate::served::Served;
use crate::table::{Cell, PageTable};
use crate::view::View;

/// The parameter with the measure whose bars are drawn, and that for showing missing buckets as zero.
pub(super) const MEASURE: &str = "measure";
pub(super) const ZEROS: &str = "zeros";

/// The most buckets of a page: a year of days.
const PAGE_BUCKETS: usize = 366;
/// The most items that are read for a page.
const PAGE_ITEMS: usize = 4_000;

/// The measures that can be drawn as bars.
pub(super) fn charted_measures<'s>(shape: &'s RollupShape<'_>) -> Vec<&'s ReaderMeasure> {
    let is_number = |measure: &&ReaderMeasure| match &measure.value {
        ReaderValue::Count
        | ReaderValue::Distinct
        | ReaderValue::Sum
        | ReaderValue::Max(_)
        | ReaderValue::Min(_)
        | ReaderValue::Average { .. }
        | ReaderValue::Percentile { .. }
        | ReaderValue::Percentiles(_)
        | ReaderValue::Histogram(_) => true,
        ReaderValue::Latest(_) => false,
    };
    shape.reader.measures.iter().filter(is_number).collect()
}

/// The buckets of a page, in order, and the first bucket of the next page.
#[derive(Debug, PartialEq, Eq)]
struct BucketPage {
    buckets: Vec<String>,
    next: Option<String>,
}

impl BucketPage {
    /// The first page of the buckets. An hour that the calendar of a zone skips is among them; nothing is counted in it.
    fn of(shape: &RollupShape<'_>, asked: &AskedBuckets) -> Self {
        let Some((_, format)) = shape.bucket() else { return Self { buckets: Vec::new(), next: None } };
        let shards = usize::try_from(shape.rollup.shards).unwrap_or(1).max(1);
        let most = (PAGE_ITEMS / shards).clamp(1, PAGE_BUCKETS);
        let after = |bucket: &String| format.bucket.shifted(bucket, 1);
        let mut all =
            std::iter::successors(Some(asked.from.clone()), after).take_while(|bucket| *bucket <= asked.to);
        let buckets = all.by_ref().take(most).collect();
        Self { buckets, next: all.next() }
    }
}

/// Adds the buckets to a page.
pub(super) async fn show(
    served: &Served,
    view: &mut View,
    shape: &RollupShape<'_>,
    asked: &AskedBuckets,
    query: &PageQuery,
) -> Result<()> {
    let page = BucketPage::of(shape, asked);
    let found = RollupReads(&served.context).buckets(shape, asked, &page.buckets).await?;
    let found: BTreeMap<String, StoredRollup> = found.into_iter().collect();
    view.show(html! { h2 { "From " (asked.from) " to " (page.buckets.last().unwrap_or(&asked.to)) } });
    let next = page.next.as_deref().map(|next| next_address(asked, next, query));
    view.show(page_note(shape, asked, &page, next.as_deref()));
    next.iter().for_each(|next| view.continue_at(next));
    let zeros = query.get(ZEROS).is_some();
    let charted = charted_measures(shape);
    let chosen = query.get(MEASURE).and_then(|name| charted.iter().find(|measure| measure.name == *name));
    if let Some(measure) = chosen.or(charted.first()) {
        view.show(chart(shape, measure, &page, &found));
    }
    if let Some(share) = MeasureShare::of(shape, query) {
        show_bucket_shares(view, shape, (&share, shape.variable(asked.bucket)), &found);
    }
    let missing = page.buckets.len() - found.len();
    view.table(bucket_table(shape, asked, &page, (&found, zeros)));
    view.show(html! {
        @if missing > 0 {
            p class="quiet" {
                (missing) " of " (page.buckets.len()) " buckets have no rollup: nothing is counted in them, or they have expired."
            }
        }
        (downloads(query, ROLLUPS_OF))
    });
    let items: Vec<_> = found.values().flat_map(StoredRollup::stored).collect();
    if !items.is_empty() {
        view.show(html! { h2 { "Together" } p class="quiet" { "All buckets of this page as one rollup." } });
        show_measures(view, std::slice::from_ref(shape), &MeasureTotals::of_several(items));
    }
    Ok(())
}

/// Adds the share of each bucket that exists, and of all of them.
fn show_bucket_shares(
    view: &mut View,
    shape: &RollupShape<'_>,
    (share, title): (&MeasureShare, &str),
    found: &BTreeMap<String, StoredRollup>,
) {
    let rollups = found.iter().map(|(bucket, rollup)| {
        (Cell::link(bucket, stored_link(shape, rollup)), MeasureTotals::of_one(rollup.stored()))
    });
    let together = MeasureTotals::of_several(found.values().flat_map(StoredRollup::stored).collect());
    show_share(view, share, title, rollups.collect(), Some(together));
}

/// The address of the page that begins with a bucket.
fn next_address(asked: &AskedBuckets, next: &str, query: &PageQuery) -> String {
    query.address(ROLLUPS_OF, [(FROM, Some(next)), (TO, Some(asked.to.as_str()))])
}

/// The sentence about the page, and the link to the next one.
fn page_note(
    shape: &RollupShape<'_>,
    asked: &AskedBuckets,
    page: &BucketPage,
    address: Option<&str>,
) -> Markup {
    let reads =
        if shape.is_ordered_by(asked.bucket) { "by one query of the partition" } else { "by their keys" };
    html! {
        p class="quiet" {
            (page.buckets.len()) " buckets, read " (reads)
            @if shape.rollup.shards > 1 { " of each of " (shape.rollup.shards) " shards" }
            ". "
            @if let (Some(next), Some(address)) = (&page.next, address) {
                "A page has no more. "
                a href=(address) { "Next page, from " (next) }
            }
        }
    }
}

fn chart(
    shape: &RollupShape<'_>,
    measure: &ReaderMeasure,
    page: &BucketPage,
    found: &BTreeMap<String, StoredRollup>,
) -> Markup {
    let value = |bucket: &String| {
        let totals = MeasureTotals::of_one(found.get(bucket)?.stored());
        totals.value(shape, measure)?.number().cloned()
    };
    let bar = |bucket: &String| Bar { label: bucket.clone(), value: value(bucket) };
    let drawn: Vec<Bar> = page.buckets.iter().map(bar).collect();
    bars(&measure.name, &drawn)
}

/// The numbers of each bucket. A missing bucket has a row if it is shown as zero.
fn bucket_table(
    shape: &RollupShape<'_>,
    asked: &AskedBuckets,
    page: &BucketPage,
    (found, zeros): (&BTreeMap<String, StoredRollup>, bool),
) -> PageTable {
    let measures: Vec<&ReaderMeasure> = shape.reader.measures.iter().collect();
    let names = measures.iter().map(|measure| measure.name.as_str());
    let columns: Vec<&str> = [shape.variable(asked.bucket)].into_iter().chain(names).chain([REV]).collect();
    let mut table = PageTable::new("buckets", &columns, "Nothing is counted in these buckets.");
    for bucket in &page.buckets {
        let rollup = found.get(bucket);
        if rollup.is_none() && !zeros {
            continue;
        }
        let items = rollup.map(StoredRollup::stored).unwrap_or_default();
        let totals = MeasureTotals::of_one(items);
        let link = rollup.map(|rollup| Cell::link(bucket, stored_link(shape, rollup)));
        let mut row = vec![link.unwrap_or_else(|| Cell::text(bucket))];
        row.extend(measures.iter().map(|measure| cell_of(totals.value(shape, measure).as_ref())));
        row.push(Cell::number(totals.sum(REV).unwrap_or(Decimal::ZERO)));
        table.rows.push(row);
    }
    table
}
