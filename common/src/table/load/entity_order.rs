//! The order in which the keys of entities are matched.
//!
//! If a key can match two entities of a table, the entity with the more literal key is preferred. Two entities of which neither is more
//! literal are refused: nothing would tell their items apart.

use super::compiler::ModelCompiler;
use super::key_overlap::key_overlaps;
use super::problem::ProblemCode;
use crate::table::template_order::LiteralOrder;
use crate::table::{Entity, Model};

/// Orders the entities, and reports those whose items nothing distinguishes.
pub(super) fn order_entities(compiler: &mut ModelCompiler<'_, '_>) {
    let model = &compiler.model;
    let mut yields: Vec<Vec<usize>> = vec![Vec::new(); model.entities.len()];
    let mut undecided = Vec::new();
    for (index, entity) in model.entities.iter().enumerate() {
        for (other_index, other) in model.entities.iter().enumerate().take(index) {
            let loser = match preferred(entity, other) {
                EntityPreference::First => yields.get_mut(other_index).map(|yields| (yields, index)),
                EntityPreference::Second => yields.get_mut(index).map(|yields| (yields, other_index)),
                EntityPreference::Apart => None,
                EntityPreference::Undecided => {
                    undecided.push((index, other_index));
                    None
                }
            };
            loser.into_iter().for_each(|(yields, winner)| yields.push(winner));
        }
    }
    for (index, other_index) in undecided {
        report_overlap(compiler, index, other_index);
    }
    compiler.model.match_order = match_order(&yields);
    for (entity, yields_to) in compiler.model.entities.iter_mut().zip(yields) {
        entity.yields_to = yields_to;
    }
}

/// Which of two entities a key belongs to that matches both.
enum EntityPreference {
    /// No key matches both.
    Apart,
    First,
    Second,
    Undecided,
}

fn preferred(first: &Entity, second: &Entity) -> EntityPreference {
    if first.table != second.table || !key_overlaps(&first.key, &second.key) {
        return EntityPreference::Apart;
    }
    match first.key.literal_order(&second.key) {
        LiteralOrder::First => EntityPreference::First,
        LiteralOrder::Second => EntityPreference::Second,
        LiteralOrder::Neither => EntityPreference::Undecided,
    }
}

/// The entities, each after those that it yields to, otherwise in the order of the model file.
fn match_order(yields: &[Vec<usize>]) -> Vec<usize> {
    let mut order = Vec::with_capacity(yields.len());
    let mut is_placed = vec![false; yields.len()];
    loop {
        let is_next = |(index, yields): &(usize, &Vec<usize>)| {
            let placed = |index: usize| is_placed.get(index).copied().unwrap_or(true);
            !placed(*index) && yields.iter().all(|winner| placed(*winner))
        };
        let Some((next, _)) = yields.iter().enumerate().find(is_next) else { return order };
        is_placed.get_mut(next).into_iter().for_each(|placed| *placed = true);
        order.push(next);
    }
}

fn report_overlap(compiler: &mut ModelCompiler<'_, '_>, index: usize, other_index: usize) {
    let place = |index: usize| compiler.places.entities.get(index).copied().unwrap_or(0);
    let (at, other_at) = (place(index), place(other_index));
    let name = |model: &Model, index: usize| model.entity_name(index);
    let message = format!(
        "entity `{}`: a key can match it and entity `{}` too, and neither key is more literal; give their keys literal text that differs, or declare the table's `separator`",
        name(&compiler.model, index),
        name(&compiler.model, other_index)
    );
    let problem = compiler.findings.report(ProblemCode::OverlappingEntities, at, message);
    problem.related(other_at, "the other entity");
}
