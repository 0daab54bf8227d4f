//! Times in pages: in UTC from the server; the page's script writes them in the reader's zone, with UTC as the title.

use afterwrite_model::record::Timestamp;
use maud::{Markup, html};

/// A time.
pub(crate) fn time(at: Timestamp) -> Markup {
    let text = at.to_string();
    html! { time datetime=(text) title=(format!("{text} (UTC)")) { (text) } }
}
