//! The examples of a page of the documentation.

/// A fenced example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageExample {
    /// The words after the opening fence: `toml`, or `json expired`.
    pub kind: String,
    /// The page's line of the example's first line, from 1.
    pub line: usize,
    /// The example, with all line ends.
    pub text: String,
}

/// The examples of a page, in order.
#[must_use]
pub fn examples(page: &str) -> Vec<PageExample> {
    let (mut examples, mut open): (Vec<PageExample>, Option<PageExample>) = (Vec::new(), None);
    for (number, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), open.as_mut()) {
            (Some(kind), None) => {
                open = Some(PageExample { kind: kind.to_owned(), line: number + 2, text: String::new() });
            }
            (Some(_), Some(_)) => examples.extend(open.take()),
            (None, Some(example)) => {
                example.text.push_str(line);
                example.text.push('\n');
            }
            (None, None) => {}
        }
    }
    examples
}

/// The TOML examples of a page as one file. All other lines are blank, so that problems name the page's own lines.
#[must_use]
pub fn model(page: &str) -> String {
    let mut model = String::new();
    for example in examples(page).iter().filter(|example| example.kind == "toml") {
        let lines = model.lines().count();
        model.push_str(&"\n".repeat(example.line - 1 - lines));
        model.push_str(&example.text);
    }
    model
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_of_a_page_keeps_the_line_numbers() {
        let page = "# Page\n\n```toml\na = 1\n```\n\n```json x\n{}\n```\n```toml\nb = 2\n\nc = 3\n```\n";
        let kinds: Vec<_> = examples(page).into_iter().map(|example| (example.kind, example.line)).collect();
        assert_eq!(kinds, [("toml".to_owned(), 4), ("json x".to_owned(), 8), ("toml".to_owned(), 11)]);
        assert_eq!(model(page), "\n\n\na = 1\n\n\n\n\n\n\nb = 2\n\nc = 3\n");
    }
}
