//! Sentences of the product in pages.

use afterwrite_model::harmless::harmless;
use maud::{Markup, html};

/// A sentence, with the parts between backquotes as code.
pub(crate) fn prose(text: &str) -> Markup {
    let text = harmless(text);
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::prose;

    #[test]
    fn commands_are_code_and_everything_is_text() {
        let html = prose("Run `a <b>`, then \u{1b}").into_string();
        assert_eq!(html, r"Run <code>a &lt;b&gt;</code>, then \u001b");
    }
}
