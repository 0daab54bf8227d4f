//! Measures: one form for each aggregate function.

use serde_json::{Value, json};

use super::conditions::when;
use super::forms::{KeyForm, any_of, closed_object, optional, positive, required, some_texts, text};
use crate::table::MeasureFunction;
use crate::table::measure::MAX_BINS;
use crate::table::named::NamedValue as _;

/// A measure: the word `count`, or a table with the settings of one function.
pub(super) fn measure() -> Value {
    let functions = MeasureFunction::NAMES.iter().filter_map(|name| MeasureFunction::of_name(name));
    let forms = functions
        .map(|function| closed_object(about(function), function.settings(), |key| setting(function, key)));
    let count =
        json!({ "const": MeasureFunction::Count.name(), "description": about(MeasureFunction::Count) });
    any_of([count].into_iter().chain(forms))
}

fn about(function: MeasureFunction) -> &'static str {
    match function {
        MeasureFunction::Count => "The number of items.",
        MeasureFunction::Sum => "The sum of an attribute, or of a product of attributes.",
        MeasureFunction::Max => "The largest value ever seen.",
        MeasureFunction::Min => "The smallest value ever seen.",
        MeasureFunction::Histogram => "The number of items in each bin of a value.",
        MeasureFunction::Average => "A sum of this aggregate divided by a count or sum of it.",
    }
}

fn setting(function: MeasureFunction, key: &str) -> Option<KeyForm> {
    if key == function.name() {
        return Some(required(about(function), argument(function)));
    }
    Some(match key {
        "when" => optional("The condition under which an item counts in this measure.", when()),
        "width" => required("The width of a bin.", positive(i64::from(u32::MAX))),
        "bins" => required("The number of bins; the last has no upper bound.", positive(MAX_BINS)),
        "relative_error" => required("The largest relative error of a quantile, such as 0.05.", number()),
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

/// The value of the setting that names the function.
fn argument(function: MeasureFunction) -> Value {
    match function {
        MeasureFunction::Count => json!({ "const": true }),
        MeasureFunction::Sum => some_texts(),
        MeasureFunction::Max
        | MeasureFunction::Min
        | MeasureFunction::Histogram
        | MeasureFunction::Average => text(),
    }
}
