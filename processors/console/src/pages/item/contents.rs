//! The contents of an item, without secrets.

use afterwrite_model::harmless::harmless_lines;
use afterwrite_model::projection::SecretAttributes;
use afterwrite_model::record::{Item, TypedItem};
use maud::html;

use crate::served::Served;
use crate::table::{Cell, PageTable};
use crate::view::View;

/// The text in place of a value that may not be shown.
pub(super) const HIDDEN: &str = "hidden: --show-items shows it";

/// Adds the contents, if the console may show them.
pub(super) fn show(served: &Served, view: &mut View, table: usize, item: &Item) {
    view.show(html! { h2 { "Contents" } });
    let model = served.context.model();
    if !served.context.options.shows_items {
        view.show(html! {
            p class="empty" { "Hidden. " code { "--show-items" } " shows contents of items, without secrets." }
        });
        return;
    }
    let mut shown = item.clone();
    SecretAttributes::new(model).cut_item(model, table, &mut shown);
    let json = serde_json::to_value(TypedItem(&shown)).and_then(|json| serde_json::to_string_pretty(&json));
    let json = json.unwrap_or_default();
    view.show(html! { pre tabindex="0" { (harmless_lines(&json)) } });
    let mut contents = PageTable::new("contents", &["json"], "");
    contents.rows.push(vec![Cell::text(json)]);
    view.data(contents);
}
