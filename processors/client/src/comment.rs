//! Documentation comments of both languages.

/// The longest line of a comment, without its indentation and marks.
const WIDTH: usize = 100;

/// A comment of TypeScript, with its line ends.
pub(crate) fn typescript(sentences: &[String], indent: usize) -> String {
    let text = sentences.join(" ").replace("*/", "*\\/");
    let lines = wrapped(&text);
    if let [line] = lines.as_slice() {
        return format!("{:indent$}/** {line} */\n", "");
    }
    let lines = lines.iter().map(|line| format!("{:indent$} * {line}\n", ""));
    format!("{0:indent$}/**\n{1}{0:indent$} */\n", "", lines.collect::<String>())
}

/// A docstring of Python, with its line end.
pub(crate) fn python(sentences: &[String], indent: usize) -> String {
    let mut text = sentences.join(" ").replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"");
    if text.ends_with('"') {
        text.push('.');
    }
    let lines = wrapped(&text);
    let Some((first, rest)) = lines.split_first() else { return String::new() };
    if rest.is_empty() {
        return format!("{:indent$}\"\"\"{first}\"\"\"\n", "");
    }
    let rest = rest.iter().map(|line| format!("{:indent$}{line}\n", ""));
    format!("{0:indent$}\"\"\"{first}\n{1}{0:indent$}\"\"\"\n", "", rest.collect::<String>())
}

/// The lines of a text. A word is never broken.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { continue };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(word.to_owned());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_a_model_ends_a_comment() {
        let hostile = [r#"when a = ["*/ evil() /*"]"#.to_owned()];
        assert_eq!(typescript(&hostile, 2), "  /** when a = [\"*\\/ evil() /*\"] */\n");
        let hostile = [r#"when a = ["""" + evil()] \"#.to_owned()];
        assert_eq!(python(&hostile, 0), "\"\"\"when a = [\\\"\\\"\\\"\" + evil()] \\\\\"\"\"\n");
    }

    #[test]
    fn long_comments_have_several_lines() {
        let long = [["word"; 30].join(" "), "End.".to_owned()];
        assert_eq!(typescript(&long, 0).lines().count(), 4);
        assert_eq!(python(&long, 4).lines().count(), 3);
    }
}
