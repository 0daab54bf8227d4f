//! JSON values as YAML, in blocks.

use serde_json::Value;

/// A value as a YAML document.
pub(super) fn yaml(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, &mut text);
    text
}

fn write(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                text.push_str(&" ".repeat(depth));
                text.push_str(&scalar(name));
                text.push(':');
                write_member(member, depth, text);
            }
        }
        Value::Array(elements) => {
            for element in elements {
                text.push_str(&" ".repeat(depth));
                text.push('-');
                let mut block = String::new();
                write_member(element, depth, &mut block);
                // The first line of a block follows the dash.
                let is_block = block.starts_with('\n');
                text.push_str(&if is_block { format!(" {}", block.trim_start()) } else { block });
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&format!("{}\n", flat(value)));
        }
    }
}

/// The value after a name or a dash: on the same line if it is flat or empty, else as a block.
fn write_member(member: &Value, depth: usize, text: &mut String) {
    let is_block = match member {
        Value::Object(members) => !members.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    if is_block {
        text.push('\n');
        write(member, depth + 2, text);
    } else {
        text.push_str(&format!(" {}\n", flat(member)));
    }
}

fn flat(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), scalar)
}

/// A text without quotation marks where that cannot be misread, else as JSON writes it, which YAML reads.
fn scalar(text: &str) -> String {
    let is_word = |character: char| character.is_ascii_alphanumeric() || "_/.:".contains(character);
    let begins = text.starts_with(|character: char| character.is_ascii_alphabetic());
    let reserved = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let is_plain = begins && text.chars().all(is_word) && !text.ends_with(':');
    if is_plain && !reserved.contains(&text.to_ascii_lowercase().as_str()) {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_and_lists_are_blocks_and_texts_are_quoted_where_needed() {
        let value =
            json!({ "A": { "b": [1, "x y", { "c": true, "d": [] }], "e": "on" }, "2012-10-17": "{}" });
        let expected = "\"2012-10-17\": \"{}\"\nA:\n  b:\n    - 1\n    - \"x y\"\n    - c: true\n      d: []\n  e: \"on\"\n";
        let expected_in_order = "A:\n  b:\n    - 1\n    - \"x y\"\n    - c: true\n      d: []\n  e: \"on\"\n\"2012-10-17\": \"{}\"\n";
        let written = yaml(&value);
        assert!(written == expected || written == expected_in_order, "{written}");
    }
}
