//! Keys of a rollup that the newest changes of `dev` have written: a reader who knows none begins with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_model::harmless::harmless;
use afterwrite_model::table::{Rollup, TemplatePiece};
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
        if !seen.contains(&values) && is_of(shape, &written.partition, &written.sort) {
            seen.insert(values.clone());
            known.push(values);
        }
        if known.len() == OFFERED {
            break;
        }
    }
    known
}

/// Whether a key is one of the rollup: the members of a distinct count have keys that the pattern of their rollup fits, too.
fn is_of(shape: &RollupShape<'_>, partition: &str, sort: &str) -> bool {
    let with_key = shape.model.rollups.iter().filter(|rollup| rollup.has_stored_key(partition, sort));
    let longest = with_key.map(literal_length).max();
    shape.rollup.has_stored_key(partition, sort) && longest == Some(literal_length(shape.rollup))
}

/// The length of the fixed texts of a rollup's keys. A longer one fits fewer keys.
fn literal_length(rollup: &Rollup) -> usize {
    let pieces = rollup.partition.pieces.iter().chain(&rollup.sort.pieces);
    let lengths = pieces.map(|piece| match piece {
        TemplatePiece::Literal(text) => text.len(),
        TemplatePiece::Variable(..) => 0,
    });
    lengths.sum()
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

#[cfg(test)]
mod tests {
    use afterwrite_model::table::Model;

    use super::*;

    #[test]
    fn keys_of_members_are_not_keys_of_their_rollup() {
        const SCANS: &str = r##"
name = "scans"
generation = 1
tables.t.key = ["pk", "sk"]
[entities.scan]
key = { pk = "ROUTE#{route}", sk = "SCAN#{scan}" }
attributes = { pupil = "S", term = "S" }
[rollups.route_term]
key = { PK = "ROUTE#{route}", SK = "TERM#{term}" }
[[aggregates]]
name = "scans"
of = "scan"
into = "route_term"
measures.pupils = { distinct = "pupil" }
"##;
        let model = Model::parse(SCANS, "scans.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let shape = |name| RollupShape::named(&model, name).unwrap_or_else(|error| panic!("{error}"));
        let (rollup, members) = (shape("route_term"), shape("route_term.pupils"));
        let member = ("ROUTE#r0#DISTINCT#pupils", "TERM#T1#p3");
        assert!(rollup.rollup.has_stored_key(member.0, member.1), "its pattern fits the key of a member");
        assert!(is_of(&rollup, "ROUTE#r0", "TERM#T1") && !is_of(&members, "ROUTE#r0", "TERM#T1"));
        assert!(is_of(&members, member.0, member.1) && !is_of(&rollup, member.0, member.1));
    }
}
