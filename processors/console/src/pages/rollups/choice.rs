//! The form in which a reader chooses rollups by the values of their keys.

use afterwrite_model::harmless::harmless;
use maud::{Markup, html};

use super::buckets::{MEASURE, ZEROS, charted_measures};
use super::shares::share_fields;
use crate::links::ROLLUPS_OF;
use crate::prose::prose;
use crate::query::PageQuery;
use crate::rollup::asked::{FROM, TO, parameter};
use crate::rollup::shape::RollupShape;

/// The form: a field for each value of the key, and the bounds of the last bucket.
pub(super) fn choice(shape: &RollupShape<'_>, query: &PageQuery) -> Markup {
    let bucket = shape.bucket().map(|(index, _)| index);
    let chosen = query.get(MEASURE);
    html! {
        form method="get" action=(ROLLUPS_OF) {
            input type="hidden" name="name" value=(shape.rollup.name);
            @for (index, variable, field) in shape.variables() {
                @let name = parameter(variable);
                label {
                    span { (prose(&field.about)) }
                    input name=(name) value=[query.visible(&name)] autocomplete="off" spellcheck="false";
                }
                @if bucket == Some(index) {
                    label { "or from this " (bucket_name(shape)) input name=(FROM) value=[query.visible(FROM)] autocomplete="off"; }
                    label { "to this " (bucket_name(shape)) input name=(TO) value=[query.visible(TO)] autocomplete="off"; }
                }
            }
            @if bucket.is_some() {
                label {
                    "bars of"
                    select name=(MEASURE) {
                        @for measure in charted_measures(shape) {
                            option value=(measure.name) selected[chosen == Some(measure.name.as_str())] { (harmless(&measure.name)) }
                        }
                    }
                }
                label class="check" {
                    input type="checkbox" name=(ZEROS) value="1" checked[query.get(ZEROS).is_some()];
                    "show missing as zero"
                }
            }
            (share_fields(shape, query))
            button { "Show" }
        }
    }
}

/// The name of the bucket.
fn bucket_name(shape: &RollupShape<'_>) -> &'static str {
    shape.bucket().map_or("bucket", |(_, format)| format.bucket.name())
}
