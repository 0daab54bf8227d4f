//! Conditions, which are Lambda event filter patterns.

use serde_json::{Value, json};

use super::forms::{any_of, closed_object, described, required, some_texts, text};
use crate::table::named::NamedValue as _;
use crate::table::pattern::{Comparison, MatcherName, TextTest};

/// A condition that tests something.
pub(super) fn when() -> Value {
    json!({ "$ref": "#/$defs/condition", "minProperties": 1 })
}

/// A reference to [`condition`], which can contain itself.
fn condition_reference() -> Value {
    json!({ "$ref": "#/$defs/condition" })
}

/// All fields must match; each has a list of matchers, or is a map with fields of its own.
pub(super) fn condition() -> Value {
    let alternatives = json!({ "type": "array", "items": condition_reference(), "minItems": 2 });
    let field =
        json!({ "anyOf": [{ "type": "array", "items": matcher(), "minItems": 1 }, condition_reference()] });
    json!({
        "description": "A condition, as in Lambda's event filters: every field must match one entry of its list.",
        "type": "object",
        "properties": { "$or": described(alternatives, "A list of conditions of which one must hold.") },
        "additionalProperties": field,
    })
}

fn literal() -> Value {
    json!({ "type": ["string", "number", "boolean"] })
}

/// An equal value, or a table with one matcher.
fn matcher() -> Value {
    let matchers = MatcherName::NAMES.iter().filter_map(|name| MatcherName::of_name(name));
    let matchers = matchers.map(|matcher| single(matcher.name(), matcher_about(matcher), &argument(matcher)));
    let tests = text_tests().map(|test| single(test.name(), test_about(test), &text()));
    any_of([literal()].into_iter().chain(matchers).chain(tests))
}

fn text_tests() -> impl Iterator<Item = TextTest> {
    TextTest::NAMES.iter().filter_map(|name| TextTest::of_name(name))
}

/// An object with one key.
fn single(name: &str, about: &'static str, form: &Value) -> Value {
    closed_object(about, &[name], |_| Some(required(about, form.clone())))
}

fn matcher_about(matcher: MatcherName) -> &'static str {
    match matcher {
        MatcherName::AnythingBut => "A present value that is none of these.",
        MatcherName::Exists => "Whether the value is present and not NULL.",
        MatcherName::Null => "DynamoDB's NULL.",
        MatcherName::Numeric => "Numbers within a bound, or within a lower and an upper bound.",
    }
}

fn test_about(test: TextTest) -> &'static str {
    match test {
        TextTest::IgnoreCase => "A text that is equal in lower case.",
        TextTest::Prefix => "A text that begins with this.",
        TextTest::Suffix => "A text that ends with this.",
    }
}

fn argument(matcher: MatcherName) -> Value {
    match matcher {
        MatcherName::Exists | MatcherName::Null => json!({ "type": "boolean" }),
        MatcherName::Numeric => json!({
            "type": "array",
            "minItems": 2,
            "maxItems": 4,
            "items": { "anyOf": [{ "enum": Comparison::NAMES }, { "type": "number" }] },
        }),
        MatcherName::AnythingBut => {
            let values = json!({ "type": "array", "items": literal(), "minItems": 1 });
            let tests = text_tests().map(|test| single(test.name(), test_about(test), &some_texts()));
            any_of([literal(), values].into_iter().chain(tests))
        }
    }
}
