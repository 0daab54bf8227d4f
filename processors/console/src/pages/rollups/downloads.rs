//! Links to the tables of a page in the forms that programs read.

use maud::{Markup, html};

use crate::query::PageQuery;

/// Links to the tables of a page in the forms that programs read.
pub(super) fn downloads(query: &PageQuery, path: &str) -> Markup {
    let link = |format: &str| query.address(path, [("format", Some(format))]);
    html! {
        p class="quiet" { "The same as " a href=(link("csv")) { "CSV" } " or " a href=(link("json")) { "JSON" } ", with exact numbers." }
    }
}
