//! The consequences of an item as text.

use std::fmt;

use afterwrite_ledger::state::{EXPIRES_AT, PARTITION_KEY, SORT_KEY};
use afterwrite_model::harmless::harmless;
use afterwrite_preview::explain::{
    Consequences, DatasetRow, ItemEvent, LeftOut, LookupResult, given_options,
};

use crate::print::new_table;
use crate::result_table::ResultTable;

/// The consequences of an item as text.
pub(super) struct ItemText<'c>(pub(super) &'c Consequences);

/// A row of a dataset as text.
struct RowText<'c>(&'c DatasetRow);

impl fmt::Display for ItemText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(item) = self;
        let key: Vec<String> = item.key.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        writeln!(f, "{} of {}: {}", item.entity, item.table, harmless(&key.join(", ")))?;
        self.judgement(f)?;
        let parts = [
            ("Contributions", self.counted_table()),
            ("Left out by a condition", self.left_out_table()),
            ("Lookups", lookup_table(&item.asks)),
            ("Outputs for items that look it up", lookup_table(&item.answers)),
            ("Mirrored attributes", self.shown_table()),
            ("Stale cache keys and paths when it changes", self.stale_table()),
            ("Events when it is created", self.event_table()),
        ];
        for (title, table) in parts.iter().filter(|(_, table)| !table.is_empty()) {
            write!(f, "\n{title}\n\n{table}\n")?;
        }
        for note in &item.notes {
            writeln!(f, "\nNote: {note}")?;
        }
        item.rows.iter().try_for_each(|row| write!(f, "{}", RowText(row)))?;
        if !item.secret.is_empty() {
            writeln!(f, "\nNever leaves the table: {}", item.secret.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for RowText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(DatasetRow { dataset, dt, has_no_day, day_of, columns, rescued }) = self;
        let mut table = new_table(&[]);
        for (column, value) in columns.iter() {
            let mark = match rescued.get(column).map(String::as_str) {
                None => String::new(),
                Some("null") => "required, and missing".to_owned(),
                Some(value) => format!("does not fit: {value} goes to _rescued"),
            };
            table.add_row([column.as_str(), value.as_deref().unwrap_or("NULL"), &mark]);
        }
        write!(f, "\nRow of dataset {dataset}, dt = {dt}\n\n{table}\n")?;
        if *has_no_day {
            writeln!(f, "{day_of} has no day: the row is in the partition of rows without a day")?;
        }
        Ok(())
    }
}

impl ItemText<'_> {
    /// Why it cannot be counted, what is not known of it, and how many aggregates leave it out.
    fn judgement(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(item) = self;
        for problem in &item.problems {
            writeln!(f, "\nIt cannot be counted: {}", harmless(&problem.to_string()))?;
        }
        if !item.unknown_outputs.is_empty() {
            writeln!(
                f,
                "\nNot known here: contributions that depend on outputs of its lookups, which are not read. {} shows them",
                harmless(&given_options(&item.unknown_outputs))
            )?;
        }
        if item.skipped > 0 {
            let aggregates = if item.skipped == 1 { "aggregate leaves" } else { "aggregates leave" };
            writeln!(
                f,
                "\n{} {aggregates} it out, because it does not fit (on_misfit = \"skip\")",
                item.skipped
            )?;
        }
        Ok(())
    }

    fn counted_table(&self) -> ResultTable {
        let mut table = new_table(&[PARTITION_KEY, SORT_KEY, "measure", ""]);
        for counted in &self.0.counted {
            for (index, (measure, number)) in counted.measures.iter().enumerate() {
                let (partition, sort) =
                    if index == 0 { (&*counted.partition, &*counted.sort) } else { ("", "") };
                table.add_row([partition, sort, measure, number]);
            }
            if let Some(expires_at) = counted.expires_at {
                table.add_row(["", "", EXPIRES_AT, &expires_at.to_string()]);
            }
        }
        table
    }

    fn left_out_table(&self) -> ResultTable {
        let mut table = new_table(&["part", "needs", "the item"]);
        for LeftOut { part, needs, found, shows_value: _ } in &self.0.left_out {
            table.add_row([part, needs, found]);
        }
        table
    }

    fn shown_table(&self) -> ResultTable {
        let mut table = new_table(&["attribute", "measure", "rollup PK", "rollup SK"]);
        for shown in &self.0.shows {
            table.add_row([&shown.attribute, &shown.measure, &shown.partition, &shown.sort]);
        }
        table
    }

    fn event_table(&self) -> ResultTable {
        let mut table = new_table(&["event", "to", "states"]);
        for ItemEvent { name, to, detail } in &self.0.events {
            let states = detail.as_ref().map_or("the change record", |detail| detail.get());
            table.add_row([name, to.as_deref().unwrap_or("(default target)"), states]);
        }
        table
    }

    fn stale_table(&self) -> ResultTable {
        let mut table = new_table(&["key or path", "remedy"]);
        for stale in &self.0.stale_keys {
            table.add_row([&stale.key, &stale.remedy]);
        }
        for path in &self.0.stale_paths {
            table.add_row([path, "CloudFront"]);
        }
        table
    }
}

fn lookup_table(results: &[LookupResult]) -> ResultTable {
    let mut table = new_table(&["lookup", "key", "outputs"]);
    for LookupResult { lookup, by, gives } in results {
        let outputs: Vec<String> = gives.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        table.add_row([lookup, by, &outputs.join(", ")]);
    }
    table
}
