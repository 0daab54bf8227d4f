//! Which of two templates is more literal.
//!
//! If a key can match two templates, the more literal one decides. A template is more literal than another if every key that it
//! matches matches the other as well, and not the other way round: `ORDER#{order}#ITEM#{item}` is more literal than `ORDER#{order}`.
//!
//! The test parses one template with the other: each variable is replaced by a character that no literal text has, and stands for
//! any value. So it never claims too much, apart from templates that only equal values of a repeated variable distinguish.

use std::fmt::Write as _;

use super::{KeyPattern, Template, TemplatePiece};

/// The first of the characters that stand for variables: the private use area of plane 15.
const FIRST_STAND_IN: u32 = 0xF_0000;

/// How the keys that two templates match are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LiteralOrder {
    /// The first is more literal.
    First,
    /// The second is more literal.
    Second,
    /// Neither is more literal, or they match the same keys.
    Neither,
}

impl LiteralOrder {
    /// The order of two lists of templates; templates of one list share variables.
    pub(super) fn of(first: &[&Template], second: &[&Template]) -> Self {
        match (is_within(first, second), is_within(second, first)) {
            (true, false) => Self::First,
            (false, true) => Self::Second,
            (true, true) | (false, false) => Self::Neither,
        }
    }
}

impl KeyPattern {
    /// Which of two patterns is more literal.
    pub(super) fn literal_order(&self, other: &Self) -> LiteralOrder {
        LiteralOrder::of(&self.templates().collect::<Vec<_>>(), &other.templates().collect::<Vec<_>>())
    }
}

impl Template {
    /// Whether a character is in its literal text.
    pub(super) fn has_literal(&self, character: char) -> bool {
        self.pieces.iter().filter_map(TemplatePiece::literal).any(|text| text.contains(character))
    }
}

/// Whether every key that `templates` match matches `others` too.
fn is_within(templates: &[&Template], others: &[&Template]) -> bool {
    let keys: Vec<String> = templates.iter().map(|template| stand_in(template)).collect();
    let variables = others.iter().flat_map(|template| &template.pieces);
    let count = variables.filter_map(|piece| piece.variable()).map(|(index, _)| index + 1).max().unwrap_or(0);
    let mut bindings = vec![None; count];
    let mut pairs = templates.iter().zip(others).zip(&keys);
    templates.len() == others.len()
        && pairs.all(|((template, other), key)| {
            // A value of an unseparated variable may contain the other's separator.
            (other.separator.is_none() || other.separator == template.separator)
                && other.parse(key, &mut bindings)
        })
}

/// A key of a template in which one character stands for any value of a variable.
fn stand_in(template: &Template) -> String {
    let mut key = String::new();
    for piece in &template.pieces {
        match piece {
            TemplatePiece::Literal(text) => key.push_str(text),
            TemplatePiece::Variable(index, format) => match format.shape() {
                None => key.extend(variable_stand_in(*index)),
                Some(shape) => {
                    let digit = index % 10;
                    for character in shape.chars() {
                        // Writing to a String cannot fail.
                        let _ = match character {
                            '0' => write!(key, "{digit}"),
                            other => write!(key, "{other}"),
                        };
                    }
                }
            },
        }
    }
    key
}

fn variable_stand_in(index: usize) -> Option<char> {
    u32::try_from(index).ok().and_then(|index| char::from_u32(FIRST_STAND_IN.checked_add(index)?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn templates(texts: &[&str], separator: Option<char>) -> Vec<Template> {
        let mut variables: Vec<Arc<str>> = Vec::new();
        let template = |text: &&str| {
            let template = Template::compile(text, &mut variables).unwrap_or_else(|p| panic!("{text}: {p}"));
            Template { separator, ..template }
        };
        texts.iter().map(template).collect()
    }

    fn order_of(first: &[&str], second: &[&str], separator: Option<char>) -> LiteralOrder {
        let (first, second) = (templates(first, separator), templates(second, separator));
        let order = LiteralOrder::of(&first.iter().collect::<Vec<_>>(), &second.iter().collect::<Vec<_>>());
        let reversed =
            LiteralOrder::of(&second.iter().collect::<Vec<_>>(), &first.iter().collect::<Vec<_>>());
        let expected = match order {
            LiteralOrder::First => LiteralOrder::Second,
            LiteralOrder::Second => LiteralOrder::First,
            LiteralOrder::Neither => LiteralOrder::Neither,
        };
        assert_eq!(reversed, expected);
        order
    }

    #[test]
    fn the_more_literal_of_two_templates() {
        for (first, second, order) in [
            ("ORDER#{o}#ITEM#{i}", "ORDER#{o}", LiteralOrder::First),
            ("ORG#{o}", "ORG#{o}#TICKET#{t}", LiteralOrder::Second),
            ("ORDER#LATEST", "ORDER#{o}", LiteralOrder::First),
            ("A#{x}", "{y}", LiteralOrder::First),
            ("A#{x}#{y}", "A#{z}#{w}#{v}", LiteralOrder::Second),
            ("DAY#{at:day}", "DAY#{any}", LiteralOrder::First),
            ("{a}#{at:day}", "{b}#2026-02-06", LiteralOrder::Second),
            ("ORDER#{o}", "ORDER#{p}", LiteralOrder::Neither),
            ("A#{x}", "{y}#B", LiteralOrder::Neither),
            ("A#{x}", "B#{x}", LiteralOrder::Neither),
            ("{x}-{x}", "{y}-{z}", LiteralOrder::First),
        ] {
            assert_eq!(order_of(&[first], &[second], None), order, "{first} and {second}");
        }
    }

    #[test]
    fn both_parts_of_a_key_are_compared_together() {
        let same = ["ACCOUNT#{account}", "ACCOUNT#{account}"];
        assert_eq!(order_of(&same, &["ACCOUNT#{a}", "ACCOUNT#{b}"], None), LiteralOrder::First);
        assert_eq!(order_of(&same, &["ACCOUNT#{user}", "ACCOUNT#{user}"], None), LiteralOrder::Neither);
        assert_eq!(order_of(&["A#{a}", "{b}"], &["{a}", "B#{b}"], None), LiteralOrder::Neither);
    }

    #[test]
    fn a_separator_keeps_variables_within_a_segment() {
        assert_eq!(order_of(&["ORDER#{o}#ITEM#{i}"], &["ORDER#{o}"], Some('#')), LiteralOrder::Neither);
        assert_eq!(order_of(&["ORDER#LATEST"], &["ORDER#{o}"], Some('#')), LiteralOrder::First);
        assert_eq!(order_of(&["A#{x}"], &["{y}#{z}"], Some('#')), LiteralOrder::First);
    }
}
