//! The time up to which the changes of a rollup are counted.
//!
//! Inside `dev`, the mappings of the function that counts know it for each stream. In a deployment no item has it.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_deployment::doctor::count_text;
use afterwrite_ledger::state::UPDATED_AT;
use afterwrite_model::Result;
use afterwrite_model::record::Timestamp;
use futures::future::try_join;
use maud::{Markup, html};

use super::shape::RollupShape;
use crate::board::DevBoard;
use crate::context::ConsoleContext;
use crate::incidents::FailedBatches;
use crate::recount::COUNTING;
use crate::table::{Cell, Verdict};

/// The time up to which the changes of a rollup are counted.
#[derive(Clone, Debug)]
pub(crate) enum CountedChanges {
    /// The streams of the tables that have the rollup's items.
    Known(Vec<CountedStream>),
    /// No item of a deployment has it.
    Unknown,
}

/// How far the changes of a table are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CountedStream {
    /// The table's name in the model.
    table: String,
    /// Every change that was made before this time is counted; `None` if the stream was not read to its end yet.
    reached: Option<Timestamp>,
    /// The table's failed batches of the function that counts: their records are not counted.
    failed: usize,
}

impl CountedChanges {
    /// Reads rollups of these shapes, and the changes that these rollups have counted at least. The streams are asked first, so that the rollups are not
    /// older.
    ///
    /// # Errors
    /// As `rollups` and [`FailedBatches::read`].
    pub(crate) async fn with_rollups<T>(
        context: &ConsoleContext,
        shapes: &[RollupShape<'_>],
        rollups: impl Future<Output = Result<T>>,
    ) -> Result<(Self, T)> {
        let Some(board) = context.board() else { return Ok((Self::Unknown, rollups.await?)) };
        let mut tables = BTreeSet::new();
        shapes.iter().for_each(|shape| add_tables(&mut tables, shape));
        let known: Vec<_> = tables.into_iter().flat_map(|table| streams(context, board, table)).collect();
        // Asked for after the streams: a batch that has failed meanwhile is not counted.
        let (failed, rollups) = try_join(FailedBatches::read(context), rollups).await?;
        let streams = known
            .into_iter()
            .map(|(deployed, stream)| CountedStream { failed: failed.of(COUNTING, &deployed), ..stream });
        Ok((Self::Known(streams.collect()), rollups))
    }

    /// The facts of a rollup: one for each table.
    pub(crate) fn facts(&self) -> Vec<(String, Cell)> {
        const FACT: &str = "counted up to";
        match self {
            Self::Unknown => {
                let cell = Cell::Verdict(Verdict::Unknown, "unknown: no item has it".to_owned());
                vec![(FACT.to_owned(), cell)]
            }
            Self::Known(streams) => match streams.as_slice() {
                [stream] => vec![(FACT.to_owned(), stream.cell())],
                streams => {
                    let fact =
                        |stream: &CountedStream| (format!("{FACT}, of {}", stream.table), stream.cell());
                    streams.iter().map(fact).collect()
                }
            },
        }
    }

    /// The meaning of the facts, and where to look for more.
    pub(crate) fn note(&self) -> Markup {
        html! {
            p class="quiet" {
                code { (UPDATED_AT) } " is the time of the newest record of its last write; a record that is delivered late, or again by a redrive, can be older than those before. "
                @match self {
                    Self::Known(streams) => {
                        "Every change that was made before the time of " em { "counted up to" } " is in these numbers, unless its item is "
                        a href="/health" { "parked" } ". "
                        @if streams.len() > 1 { "A change that is counted into a rollup of rollups passes one table after the other. " }
                        "The page " a href="/" { "Flow" } " has the delay of each stage."
                    },
                    Self::Unknown => {
                        "No item has the position up to which the tables are counted: the metric " code { "FreshnessSeconds" } " with "
                        code { "stage = counted" } " has the age of the newest heartbeat that was counted, and the page "
                        a href="/" { "Flow" } " the delay of each stage."
                    },
                }
            }
        }
    }
}

impl CountedStream {
    fn cell(&self) -> Cell {
        match (self.failed, self.reached) {
            (0, Some(reached)) => Cell::Time(reached),
            (0, None) => Cell::Verdict(Verdict::Unknown, "the stream was not read to its end yet".to_owned()),
            (failed, _) => {
                let batches = count_text(failed, "failed batch");
                let text =
                    format!("unknown: {batches} of {COUNTING}; the page Health has the command for each");
                Cell::Verdict(Verdict::Warning, text)
            }
        }
    }
}

/// Adds the tables that have the items of a rollup, and of the rollups that are counted into it: indexes into the model's tables.
fn add_tables(tables: &mut BTreeSet<usize>, shape: &RollupShape<'_>) {
    for entity in shape.sources() {
        tables.insert(entity.table);
        let below = entity.rollup.and_then(|index| shape.model.rollups.get(index));
        if let Some(below) = below.and_then(|below| RollupShape::named(shape.model, &below.name).ok()) {
            add_tables(tables, &below);
        }
    }
}

/// The streams of a table to the function that counts, each with the deployed name of the table.
fn streams(context: &ConsoleContext, board: &DevBoard, table: usize) -> Vec<(Arc<str>, CountedStream)> {
    let Some(deployed) = context.config.table_names.get(table) else { return Vec::new() };
    let name = match context.model().tables.get(table) {
        Some(table) if !table.is_state() => table.name.to_string(),
        Some(_) | None => "rollups".to_owned(),
    };
    let meters = board.meters.streams_of(COUNTING).into_iter().filter(|meter| *meter.table == **deployed);
    let stream = |reached| CountedStream { table: name.clone(), reached, failed: 0 };
    meters.map(|meter| (Arc::clone(deployed), stream(meter.progress.reached()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_has_the_time_that_it_has_reached_unless_records_are_lost() {
        let stream = |table: &str, reached: Option<i64>, failed| CountedStream {
            table: table.to_owned(),
            reached: reached.map(Timestamp::from_epoch_ms),
            failed,
        };
        let facts = CountedChanges::Known(vec![stream("Games", Some(5), 0)]).facts();
        assert_eq!(facts, [("counted up to".to_owned(), Cell::Time(Timestamp::from_epoch_ms(5)))]);
        let several = vec![stream("Games", None, 0), stream("rollups", Some(7), 2)];
        let facts = CountedChanges::Known(several).facts();
        let verdicts: Vec<_> = facts.iter().map(|(name, cell)| (name.as_str(), cell)).collect();
        assert!(
            matches!(
                verdicts.as_slice(),
                [
                    ("counted up to, of Games", Cell::Verdict(Verdict::Unknown, _)),
                    ("counted up to, of rollups", Cell::Verdict(Verdict::Warning, _)),
                ]
            ),
            "{facts:?}"
        );
        assert!(matches!(
            CountedChanges::Unknown.facts().as_slice(),
            [(_, Cell::Verdict(Verdict::Unknown, _))]
        ));
    }
}
