//! Whether conditions that must all hold provably never hold of one item.
//!
//! Only certain conclusions count. A list or set can meet two conditions with two elements, so the only conclusion about a value that may be a
//! list is whether it is present.

use super::{Comparison, Matcher, Operand, Pattern, PatternCondition, TextTest};
use crate::record::{AttributeValue, Decimal};
use crate::table::Term;

/// The most combinations of matchers that are tried for one field.
const MAX_COMBINATIONS: usize = 1_000;

/// A condition on a field: one of the matchers must hold.
type FieldCondition<'p> = (&'p Term, &'p [Matcher]);

/// The field on which these conditions contradict each other; `None` if they may hold together.
pub(crate) fn contradiction<'p>(conditions: &[&'p Pattern]) -> Option<&'p Term> {
    let (mut fields, mut choices) = (Vec::new(), Vec::new());
    for pattern in conditions {
        flatten(&pattern.condition, &mut fields, &mut choices);
    }
    contradictory_field(&fields).or_else(|| {
        // A choice is impossible if each of its alternatives is, next to the conditions that must hold anyway.
        choices.iter().find_map(|alternatives| {
            let mut impossible = alternatives.iter().map(|alternative| {
                let mut all = fields.clone();
                flatten(alternative, &mut all, &mut Vec::new());
                contradictory_field(&all)
            });
            let first = impossible.next()??;
            impossible.all(|field| field.is_some()).then_some(first)
        })
    })
}

/// Collects the conditions on fields, all of which must hold, and the choices (`$or`), each with one alternative that must hold.
fn flatten<'p>(
    condition: &'p PatternCondition,
    fields: &mut Vec<FieldCondition<'p>>,
    choices: &mut Vec<&'p [PatternCondition]>,
) {
    match condition {
        PatternCondition::All(conditions) => {
            conditions.iter().for_each(|condition| flatten(condition, fields, choices));
        }
        PatternCondition::Any(alternatives) => choices.push(alternatives),
        PatternCondition::Field { term, matchers } => fields.push((term, matchers)),
    }
}

fn contradictory_field<'p>(fields: &[FieldCondition<'p>]) -> Option<&'p Term> {
    fields.iter().map(|(term, _)| *term).find(|term| {
        let of_field = fields.iter().filter(|(other, _)| other == term).map(|(_, matchers)| *matchers);
        is_impossible(term, &of_field.collect::<Vec<_>>())
    })
}

/// Whether no value meets all of these lists of matchers.
fn is_impossible(term: &Term, lists: &[&[Matcher]]) -> bool {
    let combinations = lists.iter().try_fold(1_usize, |all, list| all.checked_mul(list.len()));
    if combinations.is_none_or(|number| number == 0 || number > MAX_COMBINATIONS) {
        return false;
    }
    let mut chosen: Vec<Vec<&Matcher>> = vec![Vec::new()];
    for list in lists {
        chosen = chosen
            .into_iter()
            .flat_map(|before| list.iter().map(move |one| before.iter().copied().chain([one]).collect()))
            .collect();
    }
    chosen.iter().all(|matchers| excludes_every_value(term, matchers))
}

/// Whether no value meets all of these matchers.
fn excludes_every_value(term: &Term, matchers: &[&Matcher]) -> bool {
    let all_match = |operand: Option<&Operand<'_>>| matchers.iter().all(|matcher| matcher.matches(operand));
    let null = AttributeValue::Null;
    if !term.is_key() && (all_match(None) || all_match(Some(&Operand::Value(&null)))) {
        return false;
    }
    if matchers.iter().any(|matcher| matches!(matcher, Matcher::Exists(false))) {
        return true;
    }
    let is_single = term.is_key() || term.attribute().is_some_and(|path| path.is_single_value());
    if !is_single {
        return false;
    }
    if let Some(value) = matchers.iter().find_map(|matcher| exact_value(matcher)) {
        return !all_match(Some(&Operand::Value(&value)));
    }
    let texts: Vec<(TextTest, &str)> = matchers.iter().filter_map(|matcher| text_test(matcher)).collect();
    let bounds: Vec<&(Comparison, Decimal)> =
        matchers.iter().filter_map(|matcher| bounds(matcher)).flatten().collect();
    let is_text_only = term.is_key() && !bounds.is_empty();
    is_text_only
        || (!texts.is_empty() && !bounds.is_empty())
        || no_text(&texts)
        || is_excluded(&texts, matchers)
        || no_number(&bounds)
}

/// Whether a matcher excludes every text that passes one of these tests.
fn is_excluded(tests: &[(TextTest, &str)], matchers: &[&Matcher]) -> bool {
    let exclusions = matchers.iter().filter_map(|matcher| match matcher {
        Matcher::AnythingBut(excluded) => Some(excluded),
        Matcher::Text(_) | Matcher::Number(_) | Matcher::Bool(_) | Matcher::Null => None,
        Matcher::Part(..) | Matcher::Exists(_) | Matcher::Numeric(_) => None,
    });
    exclusions.flatten().filter_map(text_test).any(|(excluding, part)| {
        tests.iter().filter(|(test, _)| *test == excluding).any(|(test, text)| match test {
            TextTest::Prefix => text.starts_with(part),
            TextTest::Suffix => text.ends_with(part),
            TextTest::IgnoreCase => *text == part,
        })
    })
}

/// The one value that a matcher takes.
fn exact_value(matcher: &Matcher) -> Option<AttributeValue<'static>> {
    match matcher {
        Matcher::Text(text) => Some(AttributeValue::text(text.to_string())),
        Matcher::Number(number) => Some(AttributeValue::N(number.clone())),
        Matcher::Bool(value) => Some(AttributeValue::Bool(*value)),
        Matcher::Null => Some(AttributeValue::Null),
        Matcher::Numeric(bounds) => match bounds.as_slice() {
            [(Comparison::Equal, number)] => Some(AttributeValue::N(number.clone())),
            _ => None,
        },
        Matcher::Part(..) | Matcher::Exists(_) | Matcher::AnythingBut(_) => None,
    }
}

fn text_test(matcher: &Matcher) -> Option<(TextTest, &str)> {
    if let Matcher::Part(test, text) = matcher { Some((*test, text)) } else { None }
}

fn bounds(matcher: &Matcher) -> Option<&[(Comparison, Decimal)]> {
    if let Matcher::Numeric(bounds) = matcher { Some(bounds) } else { None }
}

/// Whether no text passes all tests.
fn no_text(tests: &[(TextTest, &str)]) -> bool {
    tests.iter().any(|(test, text)| {
        let others = tests.iter().filter(|(other, _)| other == test);
        others.into_iter().any(|(_, other)| match test {
            TextTest::Prefix => !text.starts_with(other) && !other.starts_with(text),
            TextTest::Suffix => !text.ends_with(other) && !other.ends_with(text),
            TextTest::IgnoreCase => text != other,
        })
    })
}

/// Whether no number lies within all bounds.
fn no_number(bounds: &[&(Comparison, Decimal)]) -> bool {
    bounds.iter().any(|(lower, low)| {
        let is_lower = matches!(lower, Comparison::Greater | Comparison::AtLeast | Comparison::Equal);
        is_lower
            && bounds.iter().any(|(upper, high)| match (lower, upper) {
                (Comparison::AtLeast | Comparison::Equal, Comparison::AtMost | Comparison::Equal) => {
                    low > high
                }
                (_, Comparison::Less | Comparison::AtMost | Comparison::Equal) => low >= high,
                (_, Comparison::Greater | Comparison::AtLeast) => false,
            })
    })
}

#[cfg(test)]
mod tests {
    use crate::table::Model;

    /// The warnings of a model whose entity, aggregate and measure have these conditions.
    fn warned(entity: &str, aggregate: &str, measure: &str) -> bool {
        let model = format!(
            r##"
            name = "shop"
            generation = 1
            tables.t.key = ["pk"]
            [entities.order]
            key = {{ pk = "ORDER#{{id}}" }}
            attributes = {{ status = "S", price = "N", paid = "BOOL", tags = "L", any = "any" }}
            when = {{ {entity} }}
            [rollups.all]
            key = {{ PK = "ALL", SK = "ROLLUP" }}
            [[aggregates]]
            name = "orders"
            of = "order"
            into = "all"
            when = {{ {aggregate} }}
            [aggregates.measures]
            orders = {{ count = true, when = {{ {measure} }} }}
            "##
        );
        let model = model.replace(", when = {  }", "").replace("when = {  }\n", "\n");
        let checked = Model::check(&model, "shop.toml");
        let codes: Vec<String> =
            checked.problems.iter().map(|problem| problem.code.code().to_owned()).collect();
        assert!(codes.iter().all(|code| code == "AW113"), "{codes:?}");
        !codes.is_empty()
    }

    #[test]
    fn conditions_that_exclude_each_other_are_found() {
        for (one, other) in [
            (r#"status = ["A"]"#, r#"status = ["B", "C"]"#),
            (r#"status = ["A"]"#, r#"status = [{ anything-but = "A" }]"#),
            (r#"status = ["A"]"#, r#"status = [{ prefix = "B" }]"#),
            (r#"status = [{ prefix = "a" }]"#, r#"status = [{ prefix = "b" }]"#),
            (r#"status = [{ exists = false }]"#, r#"status = [{ prefix = "b" }]"#),
            (r#"status = [{ anything-but = { prefix = "a" } }]"#, r#"status = [{ prefix = "ab" }]"#),
            (r#"status = [{ anything-but = { suffix = "a" } }]"#, r#"status = [{ suffix = "ba" }]"#),
            (r#"any = [{ exists = false }]"#, r#"any = ["x"]"#),
            (r#"price = [{ numeric = [">", 5] }]"#, r#"price = [{ numeric = ["<=", 5] }]"#),
            (r#"price = [7]"#, r#"price = [{ numeric = ["<", 5] }]"#),
            (r#"paid = [true]"#, r#"paid = [{ anything-but = true }]"#),
            (r#"id = [{ prefix = "a" }]"#, r#"id = ["b"]"#),
            (r#"status = ["A"]"#, r#""$or" = [{ status = ["B"] }, { status = ["C"], price = [1] }]"#),
        ] {
            assert!(warned("", one, other), "{one} and {other}");
            assert!(warned("", other, one), "{other} and {one}");
        }
        assert!(warned(r#"status = ["A"]"#, r#"status = ["B"]"#, ""));
        assert!(warned("", r#"id = [{ exists = false }]"#, ""));
    }

    #[test]
    fn conditions_that_some_item_meets_are_not_reported() {
        for (one, other) in [
            (r#"status = ["A", "B"]"#, r#"status = ["B", "C"]"#),
            (r#"paid = [{ anything-but = true }]"#, r#"paid = [{ anything-but = false }]"#),
            // NULL is neither, and an absent attribute is not tested.
            (r#"status = [{ exists = false }]"#, r#"status = [{ anything-but = "A" }]"#),
            (r#"tags = ["a"]"#, r#"tags = ["b"]"#),
            (r#"any = ["a"]"#, r#"any = ["b"]"#),
            (r#"price = [{ numeric = [">=", 5] }]"#, r#"price = [{ numeric = ["<=", 5] }]"#),
            (r#"status = [{ prefix = "a" }]"#, r#"status = [{ prefix = "ab" }, { suffix = "c" }]"#),
            (r#"status = ["A"]"#, r#""$or" = [{ status = ["B"] }, { price = [1] }]"#),
            (r#"status = ["A"]"#, r#"price = [1]"#),
            (r#"status = [{ anything-but = { prefix = "ab" } }]"#, r#"status = [{ prefix = "a" }]"#),
            (r#"status = [{ anything-but = { suffix = "a" } }]"#, r#"status = [{ prefix = "a" }]"#),
        ] {
            assert!(!warned("", one, other), "{one} and {other}");
        }
    }
}
