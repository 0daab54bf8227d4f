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
    let forms = functions
        .map(|function| closed_object(about(function), function.settings(), |key| setting(function, key)));
    let count = MeasureFunction::Count;
    let count = json!({ "const": count.name(), "description": about(count) });
    any_of([count].into_iter().chain(forms))
}

/// The function in words.
fn about(function: MeasureFunction) -> &'static str {
    match function {
        MeasureFunction::Count => "The number of items.",
        MeasureFunction::Sum => "The sum of an attribute, or of a product of attributes and numbers.",
        MeasureFunction::Max => "The largest value ever seen.",
        MeasureFunction::Min => "The smallest value ever seen.",
        MeasureFunction::Latest => "The value of the item with the latest time ever seen.",
        MeasureFunction::Histogram => "The number of items in each bin of a value.",
        MeasureFunction::Average => "A sum of this aggregate divided by a count or sum of it.",
        MeasureFunction::Percentiles => {
            "The number of items in each of the bins that percentiles are estimated from."
        }
        MeasureFunction::Percentile => "An estimate from the bins of a measure.",
        MeasureFunction::Distinct => "The number of different values.",
    }
}

fn setting(function: MeasureFunction, key: &str) -> Option<KeyForm> {
    if key == function.name() {
        return Some(required(about(function), argument(function)));
    }
    Some(match key {
        "when" => optional("The condition under which an item counts in this measure.", when()),
        "width" => required("The width of a bin.", positive(i64::from(u32::MAX))),
        "bins" => required("The number of bins; the last has no upper bound.", positive(i64::from(MAX_BINS))),
        "relative_error" => required("The largest relative error of an estimate, such as 0.05.", number()),
        "from" => required("Smaller values are in the first bin.", number()),
        "to" => required("Larger values are in the last bin.", number()),
        "of" => required("The measure with the bins.", text()),
        "by" => required("The time by which the latest is chosen: a number or a text.", text()),
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
fn argument(function: MeasureFunction) -> Value {
    match function {
        MeasureFunction::Count => json!({ "const": true }),
        MeasureFunction::Sum => factors(),
        MeasureFunction::Percentile => number(),
        MeasureFunction::Max
        | MeasureFunction::Min
        | MeasureFunction::Latest
        | MeasureFunction::Histogram
        | MeasureFunction::Average
        | MeasureFunction::Percentiles
        | MeasureFunction::Distinct => text(),
    }
}
