//! Measures: one form for each aggregate function.

use serde_json::{Value, json};

use super::conditions::when;
use super::forms::{KeyForm, any_of, closed_object, optional, positive, required, text};
use crate::table::MeasureFunction;
use crate::table::named::NamedValue as _;
use crate::table::percentile::MAX_BINS;

/// A measure: the word `count`, or a table with the settings of one function.
pub(super) fn measure() -> Value {
    let functions = MeasureFunction::NAMES.iter().filter_map(|name| MeasureFunction::of_name(name));
    let forms = functions.map(|function| {
        let about = about(function.name()).unwrap_or_default();
        closed_object(about, function.settings(), |key| setting(function.name(), key))
    });
    let count = MeasureFunction::Count.name();
    let count = json!({ "const": count, "description": about(count) });
    any_of([count].into_iter().chain(forms))
}

/// The function of this name in words; `None` if it has no description yet.
fn about(function: &str) -> Option<&'static str> {
    Some(match function {
        "count" => "The number of items.",
        "sum" => "The sum of an attribute, or of a product of attributes and numbers.",
        "max" => "The largest value ever seen.",
        "min" => "The smallest value ever seen.",
        "histogram" => "The number of items in each bin of a value.",
        "avg" => "A sum of this aggregate divided by a count or sum of it.",
        "percentiles" => "The number of items in each of the bins that percentiles are estimated from.",
        "percentile" => "An estimate from the bins of a measure.",
        _ => return None,
    })
}

fn setting(function: &str, key: &str) -> Option<KeyForm> {
    if key == function {
        return Some(required(about(function)?, argument(function)));
    }
    Some(match key {
        "when" => optional("The condition under which an item counts in this measure.", when()),
        "width" => required("The width of a bin.", positive(i64::from(u32::MAX))),
        "bins" => required("The number of bins; the last has no upper bound.", positive(i64::from(MAX_BINS))),
        "relative_error" => required("The largest relative error of an estimate, such as 0.05.", number()),
        "from" => required("Smaller values are in the first bin.", number()),
        "to" => required("Larger values are in the last bin.", number()),
        "of" => required("The measure with the bins.", text()),
        "over" => required("The count or sum that is divided by.", text()),
        _ => return None,
    })
}

fn number() -> Value {
    json!({ "type": "number" })
}

/// A name or a number, or a list of one or more of these.
fn factors() -> Value {
    let factor = json!({ "type": ["string", "number"] });
    json!({ "anyOf": [factor, { "type": "array", "items": factor, "minItems": 1 }] })
}

/// The value of the setting that names the function.
fn argument(function: &str) -> Value {
    match function {
        "count" => json!({ "const": true }),
        "sum" => factors(),
        "percentile" => number(),
        _ => text(),
    }
}
