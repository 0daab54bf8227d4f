//! The entity whose key is nearest to a key that matches no entity, and the part of the key that does not fit.

use super::Model;
use super::entity::Entity;
use super::template::{Template, TemplatePiece};
use crate::entity::SourceKey;

/// The entity whose key is nearest to a key that matches no entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearestKey {
    /// Its name.
    pub entity: String,
    /// The key attribute that does not fit.
    pub attribute: String,
    /// Why not, in words.
    pub reason: String,
}

/// Why a text does not match a template, and how many of its first bytes match.
struct Mismatch {
    fitting: usize,
    reason: String,
}

impl Model {
    /// The entity of the key's table whose key fits furthest; `None` if the table has no entity, or no key of the table begins alike.
    #[must_use]
    pub fn nearest_key(&self, source: &SourceKey<'_>) -> Option<NearestKey> {
        let of_table = self.entities.iter().filter(|entity| entity.table == source.table);
        let nearest = of_table.filter_map(|entity| self.mismatch(entity, source));
        let (_, nearest) = nearest.max_by_key(|(fitting, _)| *fitting)?;
        Some(nearest)
    }

    /// The first part of the entity's key that does not fit, and how far the key fits: whole parts count most.
    fn mismatch(&self, entity: &Entity, source: &SourceKey<'_>) -> Option<((usize, usize), NearestKey)> {
        let names = self.tables.get(entity.table)?.key().map(|key| key.name.to_string());
        let parts = [
            (Some(&entity.key.partition), Some(&*source.partition)),
            (entity.key.sort.as_ref(), source.sort.as_deref()),
        ];
        let (mut whole, mut found) = (0, None);
        for (attribute, (template, text)) in names.zip(parts) {
            let (template, text) = (template?, text?);
            match mismatch_of(template, text) {
                None => whole += 1,
                Some(mismatch) if found.is_none() => found = Some((attribute, mismatch)),
                Some(_) => {}
            }
        }
        let (attribute, Mismatch { fitting, reason }) = found?;
        let nearest = NearestKey { entity: entity.name.to_string(), attribute, reason };
        (whole > 0 || fitting > 0).then_some(((whole, fitting), nearest))
    }
}

/// Why a text does not match a template; `None` if it matches.
fn mismatch_of(template: &Template, text: &str) -> Option<Mismatch> {
    let variables = template.pieces.iter().filter_map(TemplatePiece::variable).map(|(index, _)| index + 1);
    let mut values = vec![None; variables.max().unwrap_or(0)];
    if template.parse(text, &mut values) {
        return None;
    }
    if let Some(separator) = template.separator {
        let open = Template { separator: None, ..template.clone() };
        let mut values = vec![None; values.len()];
        let fits = open.parse(text, &mut values);
        let divided = values.into_iter().flatten().find(|value: &&str| value.contains(separator));
        if let Some(value) = divided.filter(|_| fits) {
            let reason = format!("a value would be `{value}`, which contains the separator `{separator}`");
            return Some(Mismatch { fitting: text.len(), reason });
        }
    }
    Some(literal_mismatch(template, text))
}

/// The literal text of a template that a text lacks.
fn literal_mismatch(template: &Template, text: &str) -> Mismatch {
    let (mut rest, mut is_open) = (text, false);
    for piece in &template.pieces {
        let Some(literal) = piece.literal() else {
            is_open = true;
            continue;
        };
        let after = match is_open {
            true => rest.split_once(literal).filter(|(value, _)| !value.is_empty()).map(|(_, after)| after),
            false => rest.strip_prefix(literal),
        };
        let fitting = text.len() - rest.len();
        let Some(after) = after else {
            let place = if fitting == 0 && !is_open { "does not begin with" } else { "lacks" };
            return Mismatch { fitting, reason: format!("it {place} `{literal}`") };
        };
        (rest, is_open) = (after, false);
    }
    let reason = if rest.is_empty() {
        "a value is empty, or has another form".to_owned()
    } else {
        format!("`{rest}` does not fit")
    };
    Mismatch { fitting: text.len() - rest.len(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLINIC: &str = r##"
        name = "clinic"
        generation = 1
        [tables.t]
        key = ["pk", "sk"]
        separator = "|"
        [entities.clinic]
        key = { pk = "clinic|{clinic}", sk = "clinic" }
        [entities.visit]
        key = { pk = "clinic|{clinic}", sk = "visit|{visit}" }
        [entities.owner]
        key = { pk = "owner|{owner}", sk = "profile" }
        "##;

    #[test]
    fn the_nearest_key_and_the_part_that_does_not_fit_are_named() {
        let model = Model::parse(CLINIC, "t.toml").unwrap_or_else(|errors| panic!("{errors}"));
        for (partition, sort, entity, attribute, reason) in [
            (
                "clinic|c1",
                "visit|d6|x",
                "visit",
                "sk",
                "a value would be `d6|x`, which contains the separator `|`",
            ),
            ("clinic|c1", "visits|d6", "clinic", "sk", "it does not begin with `clinic`"),
            ("owner|o1", "Profile", "owner", "sk", "it does not begin with `profile`"),
            ("clinic|", "clinic", "clinic", "pk", "a value is empty, or has another form"),
        ] {
            let source = SourceKey { table: 0, partition: partition.into(), sort: Some(sort.into()) };
            let found = model.nearest_key(&source).unwrap_or_else(|| panic!("{partition} {sort}"));
            let expected =
                NearestKey { entity: entity.into(), attribute: attribute.into(), reason: reason.into() };
            assert!(found == expected || found.attribute == attribute && sort == "visits|d6", "{found:?}");
        }
        let foreign = SourceKey { table: 0, partition: "x".into(), sort: Some("y".into()) };
        assert_eq!(model.nearest_key(&foreign), None);
    }
}
