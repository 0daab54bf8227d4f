//! A table of a page: HTML for people, JSON and CSV for machines.

use afterwrite_model::harmless::{harmless, harmless_lines};
use afterwrite_model::record::{Decimal, Timestamp};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use crate::prose::prose;
use crate::time::time;

/// A table.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageTable {
    /// The name in JSON.
    pub(crate) name: &'static str,
    /// The titles of the columns.
    pub(crate) columns: Vec<String>,
    /// The rows, each with a cell for each column.
    pub(crate) rows: Vec<Vec<Cell>>,
    /// The text in place of a table without rows.
    pub(crate) if_empty: String,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// Nothing.
    Empty,
    /// A text.
    Text(String),
    /// A sentence of the product, with code between backquotes.
    Prose(String),
    /// A text of a machine: a key, a name, a command.
    Code(String),
    /// An exact number.
    Number(String),
    /// An exact number of values, without its unit for machines.
    Values(String),
    /// A time.
    Time(Timestamp),
    /// A sentence with a time: the text before it, the time, and the text after it.
    TextWithTime(String, Timestamp, String),
    /// A position of the ledger, as it is stored: for people in words, because its beginning looks like a time of the record.
    Position(String),
    /// A link to a page of the console.
    Link {
        /// The text.
        text: String,
        /// The address.
        to: String,
    },
    /// Links to pages of the console: the text and the address of each.
    Links(Vec<(String, String)>),
    /// A verdict.
    Verdict(Verdict, String),
}

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As it should be.
    Good,
    /// It needs attention.
    Warning,
    /// Wrong.
    Bad,
    /// It may not be read, or was not read.
    Unknown,
}

impl Verdict {
    /// The class of its style, and its name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Warning => "warning",
            Self::Bad => "bad",
            Self::Unknown => "unknown",
        }
    }
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn code(text: impl Into<String>) -> Self {
        Self::Code(text.into())
    }

    pub(crate) fn number(number: impl ToString) -> Self {
        Self::Number(number.to_string())
    }

    pub(crate) fn link(text: impl Into<String>, to: impl Into<String>) -> Self {
        Self::Link { text: text.into(), to: to.into() }
    }

    /// The text as it is, for machines.
    pub(crate) fn plain(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text)
            | Self::Prose(text)
            | Self::Code(text)
            | Self::Number(text)
            | Self::Values(text)
            | Self::Position(text)
            | Self::Verdict(_, text) => text.clone(),
            Self::Time(at) => at.to_string(),
            Self::TextWithTime(before, at, after) => format!("{before}{at}{after}"),
            Self::Link { text, .. } => text.clone(),
            Self::Links(links) => links.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(", "),
        }
    }

    /// The cell for people.
    pub(crate) fn markup(&self) -> Markup {
        match self {
            Self::Empty => html! {},
            Self::Text(text) => html! { (harmless(text)) },
            Self::Prose(text) => prose(text),
            Self::Code(text) => html! { code { (harmless(text)) } },
            Self::Number(text) => html! { (text) },
            Self::Values(number) => html! { (number) @if number == "1" { " value" } @else { " values" } },
            Self::Time(at) => time(*at),
            Self::TextWithTime(before, at, after) => {
                html! { (harmless(before)) (time(*at)) (harmless(after)) }
            }
            Self::Position(text) => html! { (harmless(&position_text(text))) },
            Self::Link { text, to } => html! { a href=(to) { (harmless(text)) } },
            Self::Links(links) => html! {
                @for (place, (text, to)) in links.iter().enumerate() {
                    @if place > 0 { ", " }
                    a href=(to) { (harmless(text)) }
                }
            },
            Self::Verdict(verdict, text) => {
                html! { span class={ "verdict " (verdict.name()) } { (harmless(text)) } }
            }
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Number(_) | Self::Values(_))
    }
}

impl PageTable {
    /// A table without rows.
    pub(crate) fn new(name: &'static str, columns: &[&str], if_empty: &str) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { name, columns, rows: Vec::new(), if_empty: if_empty.to_owned() }
    }

    /// The table for people. Columns of numbers alone are aligned at their end.
    pub(crate) fn markup(&self) -> Markup {
        let is_number = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            let mut cells = cells.filter(|cell| **cell != Cell::Empty).peekable();
            cells.peek().is_some() && cells.all(Cell::is_number)
        };
        let class = |column: usize| is_number(column).then_some("number");
        html! {
            @if self.rows.is_empty() {
                p class="empty" { (prose(&self.if_empty)) }
            } @else {
                div class="scrolls" tabindex="0" {
                    table {
                        thead { tr {
                            @for (index, column) in self.columns.iter().enumerate() {
                                th scope="col" class=[class(index)] { (harmless(column)) }
                            }
                        } }
                        tbody {
                            @for row in &self.rows {
                                tr {
                                    @for (index, cell) in row.iter().enumerate() {
                                        td class=[class(index)] { (cell.markup()) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// The names of the columns. A measure may have the name of a column that every table has, such as `rank`: it becomes `rank (2)`.
    fn unique_columns(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let others = (2..).map(|number: usize| format!("{column} ({number})"));
            let mut free = std::iter::once(column.clone()).chain(others).filter(|name| !names.contains(name));
            names.extend(free.next());
        }
        names
    }

    /// The rows as objects. Numbers are texts, because JSON readers round them.
    pub(crate) fn json(&self) -> Value {
        let names = self.unique_columns();
        let rows = self.rows.iter().map(|row| {
            let cells = names.iter().zip(row).map(|(column, cell)| {
                let value = match cell {
                    Cell::Empty => Value::Null,
                    Cell::Text(_)
                    | Cell::Prose(_)
                    | Cell::Code(_)
                    | Cell::Number(_)
                    | Cell::Values(_)
                    | Cell::Time(_)
                    | Cell::TextWithTime(..)
                    | Cell::Position(_)
                    | Cell::Link { .. }
                    | Cell::Links(_) => {
                        json!(cell.plain())
                    }
                    Cell::Verdict(verdict, text) => json!({ "verdict": verdict.name(), "text": text }),
                };
                (column.clone(), value)
            });
            Value::Object(cells.collect::<Map<_, _>>())
        });
        Value::Array(rows.collect())
    }

    /// The rows as CSV (RFC 4180), the titles first.
    pub(crate) fn csv(&self) -> String {
        let line = |fields: Vec<String>| fields.join(",") + "\r\n";
        let titles = line(self.unique_columns().iter().map(|title| csv_field(title)).collect());
        let rows =
            self.rows.iter().map(|row| line(row.iter().map(|cell| csv_field(&cell.plain())).collect()));
        [titles].into_iter().chain(rows).collect()
    }
}

/// A position in words: the record by its sequence number, and the stream by its label, which is the time of the stream's creation.
fn position_text(position: &str) -> String {
    let Some((label, sequence_number)) = position.split_once('#') else { return position.to_owned() };
    match (label, sequence_number.trim_start_matches('0')) {
        ("", "") => "none: no record is counted".to_owned(),
        ("", number) => format!("record {number}"),
        (label, "") => format!("before the first record of the stream {label}"),
        (label, number) => format!("record {number} of the stream {label}"),
    }
}

/// The characters with which a cell begins that a spreadsheet runs as a formula, some in the width of Asian scripts.
const FORMULAS: [char; 10] = ['=', '+', '-', '@', '\t', '\n', '＝', '＋', '－', '＠'];

/// A text as a field of CSV. Characters that cannot be seen are escapes, as in a terminal, but for line feeds and tabs. A text that a spreadsheet
/// would run as a formula is preceded by an apostrophe; a negative number is not.
fn csv_field(text: &str) -> String {
    let is_number = text.starts_with('-') && text.parse::<Decimal>().is_ok();
    let runs = !is_number && text.starts_with(FORMULAS);
    let field = format!("{}{}", if runs { "'" } else { "" }, harmless_lines(text));
    if field.contains([',', ';', '"', '\n', '\t']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula_and_no_character_is_invisible_in_csv() {
        for (text, expected) in [
            ("-12.5", "-12.5"),
            ("-1+1|cmd", "'-1+1|cmd"),
            ("+491701234", "'+491701234"),
            ("@SUM(1)", "'@SUM(1)"),
            ("\t=1", "\"'\t=1\""),
            ("\n=1", "\"'\n=1\""),
            ("＝1+1", "'＝1+1"),
            ("\r=1", "\\r=1"),
            ("a\u{1b}[31m\u{202e}b", "a\\u001b[31m\\u202eb"),
            ("a;=1", "\"a;=1\""),
            ("a=b", "a=b"),
        ] {
            assert_eq!(csv_field(text), expected);
        }
        let table = PageTable::new("t", &["=title"], "none");
        assert_eq!(table.csv(), "'=title\r\n", "names of a model are titles");
    }

    #[test]
    fn a_measure_with_the_name_of_another_column_is_a_column_of_its_own() {
        let mut table = PageTable::new("t", &["day", "rank", "day", "day"], "none");
        table.rows.push((1..=4).map(Cell::number).collect());
        assert_eq!(table.json(), json!([{ "day": "1", "rank": "2", "day (2)": "3", "day (3)": "4" }]));
        assert_eq!(table.csv(), "day,rank,day (2),day (3)\r\n1,2,3,4\r\n");
    }

    #[test]
    fn a_position_is_words_for_people_and_exact_for_machines() {
        let stored = format!("2026-02-06T09:00:00.000#{:0>40}", 1_000_017);
        let shown = Cell::Position(stored.clone());
        assert_eq!(shown.markup().into_string(), "record 1000017 of the stream 2026-02-06T09:00:00.000");
        assert_eq!(shown.plain(), stored);
        for (position, text) in [
            (format!("#{:0>40}", 0), "none: no record is counted"),
            (format!("2026-02-06#{:0>40}", 0), "before the first record of the stream 2026-02-06"),
            ("other".to_owned(), "other"),
        ] {
            assert_eq!(position_text(&position), text);
        }
    }

    #[test]
    fn hostile_cells_are_text_in_every_form() {
        let mut table = PageTable::new("t", &["a", "n"], "none");
        table.rows.push(vec![Cell::code("<script>\"x\",\n=1"), Cell::number("-1.50")]);
        table.rows.push(vec![Cell::text("=cmd()"), Cell::Empty]);
        let html = table.markup().into_string();
        assert!(html.contains("&lt;script&gt;") && !html.contains("<script>"), "{html}");
        assert!(html.contains(r#"<td class="number">-1.50</td>"#), "{html}");
        assert_eq!(table.csv(), "a,n\r\n\"<script>\"\"x\"\",\n=1\",-1.50\r\n'=cmd(),\r\n");
        assert_eq!(table.json()[0]["n"], "-1.50");
        assert_eq!(
            PageTable::new("t", &["a"], "none").markup().into_string(),
            r#"<p class="empty">none</p>"#
        );
    }
}
