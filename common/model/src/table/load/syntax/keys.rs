//! Where each key and section of a file was defined first, and which strings are not closed.

use std::collections::HashMap;
use std::ops::Range;

use toml_parser::decoder::Encoding;
use toml_parser::parser::EventReceiver;
use toml_parser::{ErrorSink, ParseError, Raw, Source, Span};

use super::super::sections::SectionHeader;
use super::brackets::range;

/// Where keys and sections are defined.
pub(super) struct KeyScan<'s> {
    source: Source<'s>,
    /// The first definition of each path. An inline table and an entry of `[[list]]` have a path element of their own.
    defined: HashMap<Vec<String>, Range<usize>>,
    /// The first definition of a key, by where a later one begins.
    pub(super) repeated: HashMap<usize, Range<usize>>,
    pub(super) unclosed_strings: Vec<Range<usize>>,
    pub(super) headers: Vec<SectionHeader>,
    /// The contents of sections that were defined before: their keys repeat because the section does.
    repeated_sections: Vec<Range<usize>>,
    /// The path of each `[[list]]`'s newest entry.
    entries: HashMap<Vec<String>, String>,
    section: Vec<String>,
    inline_tables: Vec<Vec<String>>,
    /// The keys that were read since the last definition, with the places of the first and the last.
    pending: Vec<String>,
    first_key: Range<usize>,
    last_key: Range<usize>,
    unnamed: usize,
}

impl<'s> KeyScan<'s> {
    pub(super) fn of(source: Source<'s>) -> Self {
        Self {
            source,
            defined: HashMap::new(),
            repeated: HashMap::new(),
            unclosed_strings: Vec::new(),
            headers: Vec::new(),
            repeated_sections: Vec::new(),
            entries: HashMap::new(),
            section: Vec::new(),
            inline_tables: Vec::new(),
            pending: Vec::new(),
            first_key: 0..0,
            last_key: 0..0,
            unnamed: 0,
        }
    }

    /// A path element that no key can be.
    fn unnamed(&mut self) -> String {
        self.unnamed += 1;
        format!("\u{0}{}", self.unnamed)
    }

    /// Notes a definition; returns whether the path was defined before.
    fn define(&mut self, path: Vec<String>) -> bool {
        let place = self.last_key.clone();
        let first = self.defined.get(&path).cloned();
        let is_repeated = first.is_some();
        match first {
            Some(first) => drop(self.repeated.insert(place.start, first)),
            None => drop(self.defined.insert(path, place)),
        }
        is_repeated
    }

    pub(super) fn is_in_repeated_section(&self, at: usize) -> bool {
        self.repeated_sections.iter().any(|section| section.contains(&at))
    }

    /// A header ends the section before it.
    fn open_section(&mut self, header: Span) {
        self.pending.clear();
        if let Some(section) = self.repeated_sections.last_mut() {
            section.end = section.end.min(header.start());
        }
    }

    /// Notes a header; returns its path, through the newest entries of the lists that it names.
    fn close_header(&mut self, is_list: bool) -> Vec<String> {
        let names = std::mem::take(&mut self.pending);
        self.headers.push(SectionHeader { place: self.first_key.clone(), names: names.clone(), is_list });
        let last = names.len().saturating_sub(1);
        let mut path = Vec::new();
        for (position, name) in names.into_iter().enumerate() {
            path.push(name);
            if position < last {
                path.extend(self.entries.get(&path).cloned());
            }
        }
        path
    }

    /// Notes a string that ends without its quote.
    fn check_string(&mut self, span: Span, encoding: Option<Encoding>, errors: &[ParseError]) {
        let is_unclosed = |error: &ParseError| error.unexpected().is_some_and(|at| at.start() >= span.end());
        if encoding.is_some() && errors.iter().any(is_unclosed) {
            self.unclosed_strings.push(range(span));
        }
    }
}

impl EventReceiver for KeyScan<'_> {
    fn std_table_open(&mut self, span: Span, _error: &mut dyn ErrorSink) {
        self.open_section(span);
    }

    fn std_table_close(&mut self, span: Span, _error: &mut dyn ErrorSink) {
        let path = self.close_header(false);
        if self.define(path.clone()) {
            self.repeated_sections.push(span.end()..usize::MAX);
        }
        self.section = path;
    }

    fn array_table_open(&mut self, span: Span, _error: &mut dyn ErrorSink) {
        self.open_section(span);
    }

    fn array_table_close(&mut self, _span: Span, _error: &mut dyn ErrorSink) {
        let path = self.close_header(true);
        let entry = self.unnamed();
        self.entries.insert(path.clone(), entry.clone());
        self.section = path;
        self.section.push(entry);
    }

    fn inline_table_open(&mut self, _span: Span, _error: &mut dyn ErrorSink) -> bool {
        let path = vec![self.unnamed()];
        self.inline_tables.push(path);
        true
    }

    fn inline_table_close(&mut self, _span: Span, _error: &mut dyn ErrorSink) {
        self.inline_tables.pop();
    }

    fn simple_key(&mut self, span: Span, encoding: Option<Encoding>, error: &mut dyn ErrorSink) {
        let Some(raw) = self.source.get(span) else { return };
        let raw = Raw::new_unchecked(raw.as_str(), encoding, span);
        let (mut name, mut errors) = (String::new(), Vec::new());
        raw.decode_key(&mut name, &mut errors);
        self.check_string(span, encoding, &errors);
        errors.into_iter().for_each(|one| error.report_error(one));
        if self.pending.is_empty() {
            self.first_key = range(span);
        }
        self.pending.push(name);
        self.last_key = range(span);
    }

    fn key_val_sep(&mut self, _span: Span, _error: &mut dyn ErrorSink) {
        let mut path = self.inline_tables.last().unwrap_or(&self.section).clone();
        path.append(&mut self.pending);
        self.define(path);
    }

    fn scalar(&mut self, span: Span, encoding: Option<Encoding>, error: &mut dyn ErrorSink) {
        if span.is_empty() {
            error.report_error(ParseError::new("a value is missing").with_unexpected(span));
            return;
        }
        let Some(raw) = self.source.get(span) else { return };
        let raw = Raw::new_unchecked(raw.as_str(), encoding, span);
        let mut errors = Vec::new();
        let _kind = raw.decode_scalar(&mut (), &mut errors);
        self.check_string(span, encoding, &errors);
        errors.into_iter().for_each(|one| error.report_error(one));
    }
}
