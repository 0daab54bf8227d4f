//! Text that is harmless where it is shown: in terminals and in logs.
//!
//! Keys, names and messages may come from strangers. A control character in them can move the cursor, rename the window or begin a line that
//! looks like another program's, and a mark of direction can make a text read as another one. Each such character is replaced by its escape:
//! `\n`, `\t`, `\r`, else `\u001b`. The same escapes are valid in JSON, so a result in this format keeps its meaning. TOML has them too, but for characters
//! beyond U+FFFF: [`harmless_toml`].

use std::borrow::Cow;

/// A text for one line: without control characters, line breaks, and characters that are invisible or change the direction of text.
///
/// ```
/// use afterwrite_model::harmless::harmless;
/// assert_eq!(harmless("größe 表"), "größe 表");
/// assert_eq!(harmless("a\u{1b}[31m\nb\u{9b}\u{202e}"), r"a\u001b[31m\nb\u009b\u202e");
/// ```
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, is_harmful, push_json_escape)
}

/// The same for a text of several lines: line feeds and tabs stay.
#[must_use]
pub fn harmless_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| is_harmful(character) && !"\n\t".contains(character), push_json_escape)
}

/// The same as [`harmless`] for TOML. JSON writes a character beyond U+FFFF as two escapes, which TOML refuses; here it is one.
///
/// ```
/// use afterwrite_model::harmless::{harmless, harmless_toml};
/// assert_eq!(harmless("a\u{9b}\u{e0041}"), r"a\u009b\udb40\udc41");
/// assert_eq!(harmless_toml("a\u{9b}\u{e0041}"), r"a\u009b\U000e0041");
/// ```
#[must_use]
pub fn harmless_toml(text: &str) -> Cow<'_, str> {
    escaped(text, is_harmful, |character, harmless| match character {
        '\u{10000}'.. => harmless.push_str(&format!("\\U{:08x}", u32::from(character))),
        _ => push_json_escape(character, harmless),
    })
}

fn escaped(
    text: &str,
    is_escaped: impl Fn(char) -> bool,
    push_escape: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut harmless = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_escaped(character) {
            push_escape(character, &mut harmless);
        } else {
            harmless.push(character);
        }
    }
    Cow::Owned(harmless)
}

fn push_json_escape(character: char, harmless: &mut String) {
    match character {
        '\n' => harmless.push_str("\\n"),
        '\t' => harmless.push_str("\\t"),
        '\r' => harmless.push_str("\\r"),
        _ => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                harmless.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}

/// Whether a character does something else than being shown. Joiners stay: scripts and emoji need them.
fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_harmful_character_becomes_an_escape_of_json() {
        for character in ('\0'..=char::MAX).filter(|character| is_harmful(*character)) {
            let text = harmless(&format!("a{character}b")).into_owned();
            assert!(!text.contains(is_harmful), "{text}");
            let json: String = serde_json::from_str(&format!("\"{text}\"")).expect("an escape of JSON");
            assert_eq!(json, format!("a{character}b"));
            let toml = harmless_toml(&format!("a{character}b")).into_owned();
            assert!(!toml.contains(is_harmful) && !toml.contains("\\ud"), "{toml}");
        }
    }

    #[test]
    fn an_escaped_text_stays_as_it_is() {
        let once = harmless("\u{7f}\r\n").into_owned();
        assert_eq!((&*once, &*harmless(&once)), (r"\u007f\r\n", r"\u007f\r\n"));
        assert_eq!(harmless_lines("a\tb\nc\r\n"), "a\tb\nc\\r\n");
    }
}
