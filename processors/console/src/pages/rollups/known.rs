//! Keys of a rollup that the newest changes of `dev` have written: a reader who knows none begins with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_model::harmless::harmless;
use maud::{Markup, html};

use crate::board::DevBoard;
use crate::links::series_link;
use crate::rollup::shape::RollupShape;

/// The partitions that are offered.
const OFFERED: usize = 12;

/// The values of variables, by variable.
type KeyValues = Vec<(usize, String)>;

/// Links to the partitions of a rollup that the newest changes have written.
pub(super) fn known_partitions(board: &DevBoard, shape: &RollupShape<'_>) -> Markup {
    let known = partitions(board, shape);
    html! {
        @if !known.is_empty() {
            p class="quiet" { "Written by the newest changes:" }
            ul class="links" {
                @for values in &known { li { a href=(link(shape, values)) { (harmless(&text(shape, values))) } } }
            }
        }
    }
}

/// The partitions, the newest first.
fn partitions(board: &DevBoard, shape: &RollupShape<'_>) -> Vec<KeyValues> {
    let (mut known, mut seen) = (Vec::new(), BTreeSet::new());
    let changes = board.changes.after(0);
    for written in changes.iter().flat_map(|change| &change.trace.rollups) {
        if !shape.rollup.has_stored_key(&written.partition, &written.sort) {
            continue;
        }
        let partition = shape.rollup.unsharded(&written.partition);
        let Some(values) = shape.rollup.values(partition, &written.sort) else { continue };
        let values = values.iter().enumerate();
        let of_partition = values.filter(|(index, _)| is_of_partition(shape, *index));
        let values: KeyValues = of_partition.map(|(index, value)| (index, value.to_string())).collect();
        if seen.insert(values.clone()) {
            known.push(values);
        }
        if known.len() == OFFERED {
            break;
        }
    }
    known
}

fn is_of_partition(shape: &RollupShape<'_>, index: usize) -> bool {
    shape.reader.fields.get(index).is_some_and(|field| field.is_partition)
}

fn link(shape: &RollupShape<'_>, values: &KeyValues) -> String {
    let named = values
        .iter()
        .filter_map(|(index, value)| Some((shape.rollup.variables.get(*index)?, value.as_str())));
    let named: Vec<(&Arc<str>, &str)> = named.collect();
    series_link(&shape.rollup.name, named, &[])
}

/// `admin_id = a1`; the rollup's name if its partition has no variable.
fn text(shape: &RollupShape<'_>, values: &KeyValues) -> String {
    let values = values.iter().map(|(index, value)| format!("{} = {value}", shape.variable(*index)));
    let text = values.collect::<Vec<_>>().join(", ");
    if text.is_empty() { format!("all of {}", shape.rollup.name) } else { text }
}
