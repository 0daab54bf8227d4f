//! The bytes of a Lambda DynamoDB event → change records.
//!
//! ```text
//! bytes ─▶ all records in one strict pass ───────────────────────▶ batch
//!                    │ something somewhere is malformed               ▲
//!                    └▶ cut into records ─▶ each on its own ──────────┤
//!                                              │ malformed            │
//!                                              └▶ what can be read ───┘
//! ```
//!
//! Malformed records are rare, so the pass that nearly every event takes stops at the first fault; only then is the event
//! read again, record by record, and the faulty ones alone are reported. Nothing is decoded that nobody asked for: an
//! attribute outside the vocabulary is skipped unread, the old image is kept as JSON until someone wants it, but for
//! what the vocabulary says is glimpsed. Records of a table look alike, and an old image much like the new one: a name that comes
//! where it came in the record before, and a value that is the same again, are recognised by a comparison ([`super::layout`]).
//!
//! Where a JSON key is given twice the last one counts. Fields that are not named here are ignored, whatever they hold.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::identify::identify;
use super::json::DecodeContext;
use super::reader::{InvalidJson, JsonReader};
use super::record_json::ShapeCaches;
use super::{AttributeInterner, BadRecord, ChangeRecord, RecordBatch};
use crate::{Error, ErrorKind, Result};

/// A record's usual size; a guess that saves growing the list.
const TYPICAL_BYTES: usize = 1024;

/// Decodes an event, as far as `vocabulary` asks for it.
///
/// # Errors
/// [`ErrorKind::Event`] if the bytes are not JSON or hold no list `Records`. A malformed record is no error of the event,
/// but a [`BadRecord`] in its place.
pub fn decode<'a>(event: &'a [u8], vocabulary: &AttributeInterner) -> Result<RecordBatch<'a>> {
    let event = text(event)?;
    let context = DecodeContext::new(vocabulary);
    if let Ok(batch) =
        JsonReader::whole(event, |reader| strictly(reader, &context, event.len() / TYPICAL_BYTES))
    {
        return Ok(batch);
    }
    let json: Vec<&str> = cut(event)?.into_iter().map(RawValue::get).collect();
    let mut decoder = RecordDecoder::new(vocabulary);
    Ok(RecordBatch { records: json.iter().map(|json| decoder.json(json)).collect(), json })
}

fn text(event: &[u8]) -> Result<&str> {
    std::str::from_utf8(event).map_err(|error| {
        not_an_event("the event is not JSON: it is not UTF-8").with("byte", error.valid_up_to().to_string())
    })
}

fn cut(event: &str) -> Result<Vec<&RawValue>> {
    let raw: serde_json::Result<RawEvent<'_>> = serde_json::from_str(event);
    raw.map(|event| event.records).map_err(|error| {
        let message = match error.classify() {
            Category::Data => "the event has no list `Records`",
            Category::Io | Category::Syntax | Category::Eof => "the event is not JSON",
        };
        not_an_event(message)
            .with("line", error.line().to_string())
            .with("column", error.column().to_string())
    })
}

fn not_an_event(message: &str) -> Error {
    Error::new(ErrorKind::Event, message)
        .hint("Connect the function to a DynamoDB stream, or send it an event as Lambda would")
}

/// Decodes records one by one, as lines of the archive hold them. It remembers how they look, which makes it faster; what it gives
/// for a record depends on that record alone.
pub struct RecordDecoder<'v, 'a> {
    vocabulary: &'v AttributeInterner,
    layouts: ShapeCaches<'a>,
}

impl<'v, 'a> RecordDecoder<'v, 'a> {
    /// One that decodes as far as `vocabulary` asks for it.
    #[must_use]
    pub fn new(vocabulary: &'v AttributeInterner) -> Self {
        Self { vocabulary, layouts: ShapeCaches::default() }
    }

    /// Decodes one record.
    ///
    /// # Errors
    /// What is wrong with it, and what of it could be read.
    pub fn record(&mut self, line: &'a [u8]) -> Result<ChangeRecord<'a>, Box<BadRecord<'a>>> {
        match std::str::from_utf8(line) {
            Ok(line) => self.json(line),
            Err(_) => Err(Box::new(identify("", Error::new(ErrorKind::Record, "the line is not UTF-8")))),
        }
    }

    fn json(&mut self, json: &'a str) -> Result<ChangeRecord<'a>, Box<BadRecord<'a>>> {
        let context = DecodeContext::new(self.vocabulary);
        let record = JsonReader::whole(json, |reader| context.record(reader, &mut self.layouts));
        record.map_err(|_| Box::new(identify(json, context.into_error())))
    }
}

/// All records of an event, none of them malformed.
fn strictly<'a>(
    reader: &mut JsonReader<'a>,
    context: &DecodeContext<'_>,
    capacity: usize,
) -> Result<RecordBatch<'a>, InvalidJson> {
    let (mut batch, mut layouts) = (None, ShapeCaches::default());
    reader.object(|reader, name| {
        if name != "Records" {
            return reader.skip().map(drop);
        }
        let (mut records, mut json) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        reader.list(|reader| {
            let start = reader.start();
            records.push(Ok(context.record(reader, &mut layouts)?));
            json.push(reader.since(start)?);
            Ok(())
        })?;
        batch = Some(RecordBatch { records, json });
        Ok(())
    })?;
    batch.ok_or(InvalidJson)
}

/// An event whose records are only cut apart. Serde does it, because it can tell where JSON is none.
struct RawEvent<'a> {
    records: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(field_identifier)]
enum EventField {
    Records,
    #[serde(other)]
    Other,
}

impl<'de: 'a, 'a> Deserialize<'de> for RawEvent<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RawEventVisitor)
    }
}

struct RawEventVisitor;

impl<'de> Visitor<'de> for RawEventVisitor {
    type Value = RawEvent<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut records = None;
        while let Some(field) = map.next_key()? {
            match field {
                EventField::Records => records = Some(map.next_value()?),
                EventField::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let records = records.ok_or_else(|| de::Error::missing_field("Records"))?;
        Ok(RawEvent { records })
    }
}

#[cfg(test)]
mod tests;
