//! The order in which entities are tried for a key.
//!
//! If a key can match two entities of a table, the entity with the more literal key is preferred. If neither is more literal, conditions
//! (`when`) must tell their items apart: both have one and the conditions are provably disjoint, or one entity has a condition and the other takes the remaining items.
//! Anything else is refused.

use super::compiler::ModelCompiler;
use super::key_overlap::key_overlaps;
use super::problem::ProblemCode;
use crate::record::AttributePath;
use crate::table::template_order::LiteralOrder;
use crate::table::{Entity, Model, Term};

/// Orders the entities, and reports those whose items nothing distinguishes.
pub(super) fn order_entities(compiler: &mut ModelCompiler<'_, '_>) {
    let model = &compiler.model;
    let mut relations = vec![EntityRelations::default(); model.entities.len()];
    let mut undecided = Vec::new();
    for (index, entity) in model.entities.iter().enumerate() {
        for (other_index, other) in model.entities.iter().enumerate().take(index) {
            let (winner, loser) = match preferred(entity, other) {
                EntityPreference::Apart => continue,
                EntityPreference::First => (index, other_index),
                EntityPreference::Second => (other_index, index),
                EntityPreference::Undecided => {
                    undecided.push((index, other_index));
                    continue;
                }
            };
            let is_conditional = model.entities.get(winner).is_some_and(|winner| winner.when.is_some());
            if let Some(relations) = relations.get_mut(loser) {
                relations.yields_to.push(winner);
                relations.rivals.extend(is_conditional.then_some(winner));
            }
            if let Some(relations) = relations.get_mut(winner) {
                relations.rivals.extend(is_conditional.then_some(loser));
            }
        }
    }
    let order = match_order(&relations);
    // Conditions and literal keys can prefer each other in a circle; no order of such entities is right for every key.
    undecided.extend(
        (0..model.entities.len())
            .filter(|index| !order.contains(index))
            .filter_map(|index| Some((index, *relations.get(index)?.yields_to.first()?))),
    );
    for (index, other_index) in undecided {
        report_overlap(compiler, index, other_index);
    }
    let model = &mut compiler.model;
    model.match_order = order;
    let decided_by: Vec<_> =
        relations.iter().enumerate().map(|(index, one)| decided_by(model, index, one)).collect();
    for ((entity, relations), decided_by) in model.entities.iter_mut().zip(relations).zip(decided_by) {
        let EntityRelations { yields_to, rivals } = relations;
        (entity.yields_to, entity.rivals, entity.decided_by) = (yields_to, rivals, decided_by);
    }
}

/// The other entities that keys of an entity match.
#[derive(Clone, Debug, Default)]
struct EntityRelations {
    /// Those that are preferred.
    yields_to: Vec<usize>,
    /// Those that a condition distinguishes from it.
    rivals: Vec<usize>,
}

/// The attributes that decide whether an item is of an entity.
fn decided_by(model: &Model, index: usize, relations: &EntityRelations) -> Vec<AttributePath> {
    let preferred = std::iter::once(&index).chain(&relations.yields_to);
    let preferred = preferred.filter_map(|index| model.entities.get(*index));
    let attributes = preferred.flat_map(|entity| entity.attributes_in(entity.when.as_ref()));
    let mut paths: Vec<AttributePath> = attributes.map(|path| path.named(&model.attributes)).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Which of two entities is preferred for a key that matches both.
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
    match (first.key.literal_order(&second.key), &first.when, &second.when) {
        (LiteralOrder::First, _, _) | (LiteralOrder::Neither, Some(_), None) => EntityPreference::First,
        (LiteralOrder::Second, _, _) | (LiteralOrder::Neither, None, Some(_)) => EntityPreference::Second,
        (LiteralOrder::Neither, Some(one), Some(other)) => {
            let is_same = |term: &Term, other_term: &Term| match (term, other_term) {
                // Two elements of a list or set can meet two conditions.
                (Term::Attribute(one), Term::Attribute(other)) => {
                    (one.root, &one.within) == (other.root, &other.within)
                        && one.is_single_value()
                        && other.is_single_value()
                }
                // Variables of the same key, whatever they are called.
                (Term::Key(one), Term::Key(other)) => one == other && first.key == second.key,
                _ => false,
            };
            if one.is_disjoint(other, is_same) {
                EntityPreference::Second
            } else {
                EntityPreference::Undecided
            }
        }
        (LiteralOrder::Neither, None, None) => EntityPreference::Undecided,
    }
}

/// The entities in the order of the model file, but each after the entities that it yields to. Entities in a circle are left out.
fn match_order(relations: &[EntityRelations]) -> Vec<usize> {
    let mut order = Vec::with_capacity(relations.len());
    let mut is_placed = vec![false; relations.len()];
    loop {
        let is_next = |(index, one): &(usize, &EntityRelations)| {
            let placed = |index: usize| is_placed.get(index).copied().unwrap_or(true);
            !placed(*index) && one.yields_to.iter().all(|winner| placed(*winner))
        };
        let Some((next, _)) = relations.iter().enumerate().find(is_next) else { return order };
        is_placed.get_mut(next).into_iter().for_each(|placed| *placed = true);
        order.push(next);
    }
}

fn report_overlap(compiler: &mut ModelCompiler<'_, '_>, index: usize, other_index: usize) {
    let place = |index: usize| compiler.places.entities.get(index).copied().unwrap_or(0);
    let (at, other_at) = (place(index), place(other_index));
    let name = |index: usize| compiler.model.entity_name(index);
    let message = format!(
        "entity `{}`: a key can match it and entity `{}` too, neither key is more literal, and no conditions tell their items apart; give their keys literal text that differs, declare the table's `separator`, or give one of them a `when`, or both a `when` with different values of one attribute",
        name(index),
        name(other_index)
    );
    let problem = compiler.findings.report(ProblemCode::OverlappingEntities, at, message);
    problem.related(other_at, "the other entity");
}
