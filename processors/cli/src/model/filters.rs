//! `afterwrite model filters`: the filter patterns of the event source mappings.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use afterwrite_deployment::stream_filters::StreamFilter;
use afterwrite_model::Result;
use afterwrite_model::table::{Model, NamedList};
use afterwrite_services::config::ProjectionKind;
use clap::{Args, ValueEnum};

use super::ModelArgument;
use crate::print::{json, print};

/// The arguments of `afterwrite model filters`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite model filters\n  afterwrite model filters shop --function aggregator\n  afterwrite model filters my-model.toml --json | jq .aggregator\n  afterwrite model filters my-model.toml --without-archive\n\nThe Terraform module and the SAM template set these patterns by themselves.\n\nExit codes: 0 success, 2 the model has errors or cannot be read."
)]
pub struct FilterArguments {
    #[command(flatten)]
    model: ModelArgument,
    /// Show the patterns of one function only.
    #[arg(long, value_enum)]
    function: Option<FilteredFunction>,
    /// The relay archives nothing: only records that make caches stale invoke it.
    #[arg(long)]
    without_archive: bool,
    /// The most patterns of a mapping: 5, or up to 10 after a quota increase.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=10))]
    max_patterns: u8,
    /// Print the patterns as one JSON object.
    #[arg(long)]
    json: bool,
}

/// A function that reads streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FilteredFunction {
    /// Counters, rollups and mirrors.
    Aggregator,
    /// Cache invalidation, the archive and events.
    Relay,
}

impl FilteredFunction {
    fn name(self) -> &'static str {
        match self {
            Self::Aggregator => "aggregator",
            Self::Relay => "relay",
        }
    }

    fn projections(self, has_archive: bool) -> BTreeSet<ProjectionKind> {
        match self {
            Self::Aggregator => BTreeSet::from([ProjectionKind::Aggregate]),
            Self::Relay => {
                let is_hosted = |kind: &ProjectionKind| has_archive || *kind != ProjectionKind::Archive;
                ProjectionKind::OF_RELAY.into_iter().filter(is_hosted).collect()
            }
        }
    }
}

/// The filters of each function, by table.
type FunctionFilters = NamedList<NamedList<StreamFilter>>;

impl FilterArguments {
    /// Prints the patterns.
    ///
    /// # Errors
    /// A model that does not load.
    pub fn run(&self) -> Result<bool> {
        let filters = self.filters(&Model::load(&self.model.name())?);
        print(&if self.json { json(&filters)? } else { filter_text(&filters) })?;
        Ok(true)
    }

    fn filters(&self, model: &Model) -> FunctionFilters {
        let functions = [FilteredFunction::Aggregator, FilteredFunction::Relay];
        let wanted = functions.into_iter().filter(|known| self.function.is_none_or(|named| named == *known));
        let limit = usize::from(self.max_patterns);
        wanted
            .map(|function| {
                let projections = function.projections(!self.without_archive);
                let tables = model.tables.iter().enumerate();
                let needed = tables.filter(|(index, _)| StreamFilter::is_needed(model, *index, &projections));
                let filters = needed.map(|(index, table)| {
                    (&table.name, StreamFilter::new(model, index, &projections, limit))
                });
                (function.name(), filters.collect())
            })
            .collect()
    }
}

/// The patterns, each on a line that can be copied.
fn filter_text(filters: &FunctionFilters) -> String {
    let mut text = String::new();
    for (function, tables) in filters.iter() {
        for (table, filter) in tables.iter() {
            let _ = writeln!(text, "{function}, {table}: {}", filter.delivers.description());
            for pattern in &filter.patterns {
                let _ = writeln!(text, "  {pattern}");
            }
        }
    }
    text
}
