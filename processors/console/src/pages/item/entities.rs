//! The entities that an item could be, and why it is none of them.

use afterwrite_model::entity::{ItemCandidates, SourceKey};
use afterwrite_model::harmless::harmless;
use afterwrite_model::projection::ImageScope;
use afterwrite_model::record::{Image, Item};
use afterwrite_model::table::{Model, ModelNotation, Term};
use maud::html;

use super::contents::HIDDEN;
use crate::prose::prose;
use crate::table::{Cell, PageTable};
use crate::view::View;

/// Adds the reason why an item matches no entity.
pub(super) fn show(
    view: &mut View,
    model: &Model,
    (source, item): (&SourceKey<'_>, Option<&Item>),
    shows_items: bool,
) {
    if source.is_heartbeat() {
        view.show(
            html! { p class="empty" { "This is the key of the heartbeat, from which nothing is derived." } },
        );
        return;
    }
    let candidates = source.candidates(model);
    let mut table =
        PageTable::new("entities", &["entity", "key", "needs", "the item"], "The table has no entities.");
    if candidates.is_empty() {
        view.show(html! { p class="empty" { "The key matches no entity of its table. Nothing is derived from such an item. The keys of the entities:" } });
        if let Some(nearest) = model.nearest_key(source) {
            view.show(html! {
                p { "The nearest is that of " code { (harmless(&nearest.entity)) } ": in " code { (harmless(&nearest.attribute)) } ", " (prose(&nearest.reason)) "." }
            });
        }
        let name = model.tables.get(source.table).map_or("", |table| &*table.name);
        for (entity, description) in model.describe().entities.iter() {
            if *description.table == *name {
                table.rows.push(vec![
                    Cell::text(entity),
                    Cell::code(&description.key),
                    Cell::Empty,
                    Cell::Empty,
                ]);
            }
        }
    } else {
        let key = match item {
            Some(_) => "The key matches, but the item does not meet the conditions of these entities:",
            None => "An item with this key can be of these entities:",
        };
        view.show(html! { p class="empty" { (key) } });
        add_candidates(&mut table, model, (&candidates, item), shows_items);
    }
    view.table(table);
}

fn add_candidates(
    table: &mut PageTable,
    model: &Model,
    (candidates, item): (&ItemCandidates<'_, '_>, Option<&Item>),
    shows_items: bool,
) {
    for identity in candidates.iter() {
        let entity = identity.entity;
        let described = model.describe().entities;
        let described = described.iter().find(|(name, _)| **name == *entity.name);
        let key = described.map(|(_, known)| known.key.clone()).unwrap_or_default();
        let position = model.entities.iter().position(|other| other.name == entity.name).unwrap_or_default();
        let notation = ModelNotation::of(model, position, &[]);
        let Some((when, item)) = entity.when.as_ref().zip(item) else {
            table.rows.push(vec![Cell::text(&*entity.name), Cell::code(key), Cell::Empty, Cell::Empty]);
            continue;
        };
        let image = Image::from_item(item, &model.attributes);
        let scope = ImageScope::of(model, identity, &image);
        let mut read = |term: &Term| scope.read(term).ok().flatten();
        for unmet in when.unmet(&mut read) {
            let found = unmet.field().map(|term| scope.read(term).ok().flatten().is_some());
            table.rows.push(vec![
                Cell::text(&*entity.name),
                Cell::code(&key),
                Cell::code(notation.condition(&unmet)),
                Cell::text(found_text(found, shows_items)),
            ]);
        }
    }
}

fn found_text(found: Option<bool>, shows_items: bool) -> String {
    match found {
        Some(true) if shows_items => "has another value: see its contents".to_owned(),
        Some(true) => HIDDEN.to_owned(),
        Some(false) => "the item has no such value".to_owned(),
        None => "none of these holds".to_owned(),
    }
}
