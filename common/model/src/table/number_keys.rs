//! Keys of type `N`.

use super::key_attribute::key_attribute;
use super::load::reader::LocatedPairs;
use super::{KeySchema, KeyType, Template, TemplatePiece, ValueFormat};

/// The variables that are whole keys of type `N`.
pub(super) fn variables(attributes: &[KeySchema], templates: &[Template]) -> Vec<usize> {
    keys(attributes, templates).filter_map(|(_, template)| whole_variable(template)).collect()
}

/// The literal text in a key of type `N` must be a number: where other text is written, and the problem.
pub(super) fn problem(
    owner: &str,
    (table, attributes): (&str, &[KeySchema]),
    key: &LocatedPairs<'_>,
    templates: &[Template],
) -> Option<(usize, String)> {
    let is_text = |character: char| !(character.is_ascii_digit() || "+-.eE".contains(character));
    let (attribute, _) = keys(attributes, templates).find(|(_, template)| {
        let mut literals = template.pieces.iter().filter_map(TemplatePiece::literal);
        literals.any(|text| text.contains(is_text))
    })?;
    let named = |name: &str| key_attribute(name) == *attribute.name;
    let (_, written) = key.iter().find(|(name, _)| named(name.value))?;
    let (name, text) = (&attribute.name, written.value);
    let message = format!(
        "{owner}: `{name}` is a number in table `{table}`, and no number looks like `{text}`; write a variable alone, like \"{{id}}\", or correct the table's `types`"
    );
    Some((written.at, message))
}

fn keys<'k>(
    attributes: &'k [KeySchema],
    templates: &'k [Template],
) -> impl Iterator<Item = (&'k KeySchema, &'k Template)> {
    attributes.iter().zip(templates).filter(|(attribute, _)| attribute.key_type == KeyType::Number)
}

/// The variable that is all of a template.
fn whole_variable(template: &Template) -> Option<usize> {
    match template.pieces.as_slice() {
        [TemplatePiece::Variable(variable, ValueFormat::Plain)] => Some(*variable),
        _ => None,
    }
}
