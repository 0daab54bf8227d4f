//! Literals of both languages, broken into lines as prettier and black break them.

use afterwrite_model::harmless::{harmless, harmless_toml};

use super::names::OBJECT_MEMBERS;

/// How a language writes literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiteralStyle {
    /// TypeScript, as prettier writes it.
    Prettier,
    /// Python, as black writes it.
    Black,
}

/// A literal.
#[derive(Clone, Debug)]
pub(crate) enum Literal {
    /// A word or number, as it is.
    Word(String),
    /// A text.
    Text(String),
    /// Names or texts and their values, in braces.
    Map(Vec<(String, Literal)>),
    /// The same, never on one line.
    OpenMap(Vec<(String, Literal)>),
    /// A list.
    List(Vec<Literal>),
    /// Values of different types: a list in TypeScript.
    Tuple(Vec<Literal>),
}

impl LiteralStyle {
    /// The longest line.
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Prettier => 80,
            Self::Black => 88,
        }
    }

    /// The spaces of a level.
    pub(crate) fn indent(self) -> usize {
        match self {
            Self::Prettier => 2,
            Self::Black => 4,
        }
    }

    /// A text in the quotes that need fewer escapes.
    pub(crate) fn text(self, text: &str) -> String {
        let count = |quote: char| text.chars().filter(|character| *character == quote).count();
        let quote = if count('"') > count('\'') { '\'' } else { '"' };
        let escaped = text.replace('\\', "\\\\").replace(quote, &format!("\\{quote}"));
        let escaped = match self {
            Self::Prettier => harmless(&escaped),
            // Python reads two escapes as two characters.
            Self::Black => harmless_toml(&escaped),
        };
        format!("{quote}{escaped}{quote}")
    }

    /// A name in a literal. In TypeScript, a name that every object has is computed: its value is of the type of all values, and not of the object's member.
    fn entry(self, name: &str) -> String {
        match self {
            Self::Prettier if OBJECT_MEMBERS.contains(&name) => format!("[{} as string]", self.text(name)),
            Self::Prettier | Self::Black => self.property(name),
        }
    }

    /// A name of a property, in quotes where it needs them.
    pub(crate) fn property(self, name: &str) -> String {
        let is_bare = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
        match self {
            // Without the brackets, it would be the prototype of the object.
            Self::Prettier if name == "__proto__" => "[\"__proto__\"]".to_owned(),
            Self::Prettier if is_bare => name.to_owned(),
            Self::Prettier | Self::Black => self.text(name),
        }
    }

    /// The spaces at the beginning and the end of a map on one line.
    fn padding(self) -> &'static str {
        match self {
            Self::Prettier => " ",
            Self::Black => "",
        }
    }
}

impl Literal {
    /// A text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A map with names that are texts.
    pub(crate) fn map<'n>(entries: impl IntoIterator<Item = (&'n str, Self)>) -> Self {
        Self::Map(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// The literal at an indentation. `around` is the number of other characters on its line: before it, after the indentation, and behind it.
    pub(crate) fn write(&self, style: LiteralStyle, indent: usize, around: usize) -> String {
        let flat = if self.is_open() { None } else { self.flat(style) };
        if let Some(flat) = flat.filter(|flat| indent + around + flat.chars().count() <= style.width()) {
            return flat;
        }
        let (open, items, close) = match self {
            Self::Word(word) => return word.clone(),
            Self::Text(text) => return style.text(text),
            Self::Map(entries) | Self::OpenMap(entries) => ('{', entries_of(entries, style), '}'),
            Self::List(items) => ('[', items_of(items), ']'),
            Self::Tuple(items) => {
                let [open, close] = tuple_brackets(style);
                (open, items_of(items), close)
            }
        };
        let within = indent + style.indent();
        let mut text = format!("{open}\n");
        for (name, value) in items {
            let written = value.write(style, within, name.chars().count() + 1);
            if value.moves_to_next_line(style, within, &name) {
                let (name, deeper) = (name.trim_end(), within + style.indent());
                text.push_str(&format!("{:within$}{name}\n{:deeper$}{written},\n", "", ""));
            } else {
                text.push_str(&format!("{:within$}{name}{written},\n", ""));
            }
        }
        text.push_str(&format!("{:indent$}{close}", ""));
        text
    }

    /// Whether prettier puts it below its name: a text that does not fit, if the name is longer than an indentation.
    fn moves_to_next_line(&self, style: LiteralStyle, indent: usize, name: &str) -> bool {
        let is_text = match self {
            Self::Text(_) => true,
            Self::Word(_) | Self::Map(_) | Self::OpenMap(_) | Self::List(_) | Self::Tuple(_) => false,
        };
        let is_prettier =
            style == LiteralStyle::Prettier && name.chars().count() > style.indent() + ": ".len();
        let width =
            self.flat(style).map_or(0, |flat| indent + name.chars().count() + flat.chars().count() + 1);
        is_prettier && is_text && width > style.width()
    }

    /// Whether it, or a literal in it, is never on one line.
    fn is_open(&self) -> bool {
        match self {
            Self::Word(_) | Self::Text(_) => false,
            Self::OpenMap(entries) => !entries.is_empty(),
            Self::Map(entries) => entries.iter().any(|(_, value)| value.is_open()),
            Self::List(items) | Self::Tuple(items) => items.iter().any(Self::is_open),
        }
    }

    fn flat(&self, style: LiteralStyle) -> Option<String> {
        let joined = |items: Vec<(String, &Self)>| {
            let flat = items.into_iter().map(|(name, value)| Some(format!("{name}{}", value.flat(style)?)));
            flat.collect::<Option<Vec<String>>>().map(|items| items.join(", "))
        };
        Some(match self {
            Self::Word(word) => word.clone(),
            Self::Text(text) => style.text(text),
            Self::Map(entries) | Self::OpenMap(entries) if entries.is_empty() => "{}".to_owned(),
            Self::OpenMap(_) => return None,
            Self::Map(entries) => {
                let padding = style.padding();
                format!("{{{padding}{}{padding}}}", joined(entries_of(entries, style))?)
            }
            Self::List(items) => format!("[{}]", joined(items_of(items))?),
            Self::Tuple(items) => {
                let [open, close] = tuple_brackets(style);
                format!("{open}{}{close}", joined(items_of(items))?)
            }
        })
    }
}

fn tuple_brackets(style: LiteralStyle) -> [char; 2] {
    match style {
        LiteralStyle::Prettier => ['[', ']'],
        LiteralStyle::Black => ['(', ')'],
    }
}

fn entries_of(entries: &[(String, Literal)], style: LiteralStyle) -> Vec<(String, &Literal)> {
    entries.iter().map(|(name, value)| (format!("{}: ", style.entry(name)), value)).collect()
}

fn items_of(items: &[Literal]) -> Vec<(String, &Literal)> {
    items.iter().map(|item| (String::new(), item)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_take_the_quotes_that_need_fewer_escapes() {
        for (text, expected) in
            [("a", r#""a""#), (r#"a"b"#, r#"'a"b'"#), (r#"a"b'c"#, r#""a\"b'c""#), ("a\\b\n", r#""a\\b\n""#)]
        {
            assert_eq!(LiteralStyle::Prettier.text(text), expected);
        }
        assert_eq!(LiteralStyle::Prettier.text("\u{e0041}"), r#""\udb40\udc41""#);
        assert_eq!(LiteralStyle::Black.text("\u{e0041}"), r#""\U000e0041""#);
    }

    #[test]
    fn a_literal_that_does_not_fit_has_a_line_for_each_item() {
        let text = || Literal::text("a".repeat(30));
        let [fits, long] = [2, 3].map(|count| Literal::List((0..count).map(|_| text()).collect()));
        assert_eq!(fits.write(LiteralStyle::Prettier, 0, 0).lines().count(), 1);
        assert_eq!(long.write(LiteralStyle::Prettier, 0, 0).lines().count(), 5);
        let map = Literal::map([("a-b", Literal::Word("1".to_owned())), ("c", fits)]);
        let written = map.write(LiteralStyle::Prettier, 0, 0);
        assert!(written.starts_with("{\n  \"a-b\": 1,\n  c: [\""), "{written}");
        assert_eq!(LiteralStyle::Prettier.property("__proto__"), "[\"__proto__\"]");
        let written = map.write(LiteralStyle::Black, 0, 0);
        assert!(written.starts_with("{\"a-b\": 1, \"c\": [\""), "{written}");
        let of_objects = Literal::map([("valueOf", Literal::Word("1".to_owned()))]);
        assert_eq!(of_objects.write(LiteralStyle::Prettier, 0, 0), "{ [\"valueOf\" as string]: 1 }");
        assert_eq!(of_objects.write(LiteralStyle::Black, 0, 0), "{\"valueOf\": 1}");
    }
}
