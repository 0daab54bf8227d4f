//! Decodes the bytes of a Lambda DynamoDB event into change records.
//!
//! ```text
//! bytes ─▶ all records in one strict pass ───────────────────────▶ batch
//!                    │ a record is malformed                         ▲
//!                    └▶ split into records ─▶ each on its own ───────┤
//!                                              │ malformed           │
//!                                              └▶ identify ──────────┘
//! ```
//!
//! Malformed records are rare. The first pass stops at the first fault; only then is the event read again, record by
//! record, and the malformed records are reported. Attributes that the model does not name are skipped. The old image
//! is kept as JSON until it is needed, except for its eager fields ([`super::OldImage::eager_fields`]). Records of one
//! table have similar shapes, and an old image resembles the new one: an expected name or an unchanged value is
//! recognised by one comparison ([`super::shape_cache`]).
//!
//! If a JSON object has a duplicate name, the last one counts. Unknown fields are ignored, whatever their values are.

use serde::de::IgnoredAny;

use super::identify::identify;
use super::image_json::DecodeContext;
use super::json_reader::{InvalidJson, JsonReader, JsonResult};
use super::record_json::RecordCaches;
use super::{AttributeInterner, BadRecord, ChangeRecord, RecordBatch};
use crate::{Error, ErrorKind, Result};

/// The typical size of a record: an estimate for the capacity of the list.
const TYPICAL_BYTES: usize = 1024;

type DecodedRecord<'a> = Result<ChangeRecord<'a>, Box<BadRecord<'a>>>;

/// Decodes an event. Only the attributes in `attributes` are decoded.
///
/// # Errors
/// [`ErrorKind::Event`] if the bytes are not JSON, or neither have a list `Records` nor are a list of records. A malformed record is not an error of the
/// event but a [`BadRecord`] in its place.
pub fn decode<'a>(event: &'a [u8], attributes: &AttributeInterner) -> Result<RecordBatch<'a>> {
    let event = std::str::from_utf8(event).map_err(|error| {
        not_an_event("the event is not JSON: it is not UTF-8").with("byte", error.valid_up_to().to_string())
    })?;
    let (context, mut caches) = (DecodeContext::new(attributes), RecordCaches::default());
    if let Ok(batch) = read_event(event, |reader| Ok(Ok(context.record(reader, &mut caches)?))) {
        return Ok(batch);
    }
    let mut decoder = RecordDecoder::new(attributes);
    read_event(event, |reader| Ok(decoder.decode_json(reader.skip()?))).map_err(|_| event_error(event))
}

/// Reads an event; `record` reads each of its records. Lambda's event source mapping sends an object with the list `Records`, EventBridge
/// Pipes the list alone.
fn read_event<'a>(
    event: &'a str,
    mut record: impl FnMut(&mut JsonReader<'a>) -> JsonResult<DecodedRecord<'a>>,
) -> JsonResult<RecordBatch<'a>> {
    JsonReader::read_all(event, |reader| {
        if !reader.is_object() {
            let batch = read_records(event, reader, |reader| {
                if reader.is_object() { record(reader) } else { Err(InvalidJson) }
            })?;
            // A list without records is not an event of Pipes, which has no reason to send it.
            return if batch.records.is_empty() { Err(InvalidJson) } else { Ok(batch) };
        }
        let mut batch = None;
        reader.object(|reader, name| {
            if name != "Records" {
                return reader.skip().map(drop);
            }
            batch = Some(read_records(event, reader, &mut record)?);
            Ok(())
        })?;
        batch.ok_or(InvalidJson)
    })
}

/// Reads the list of an event's records.
fn read_records<'a>(
    event: &'a str,
    reader: &mut JsonReader<'a>,
    mut record: impl FnMut(&mut JsonReader<'a>) -> JsonResult<DecodedRecord<'a>>,
) -> JsonResult<RecordBatch<'a>> {
    let capacity = event.len() / TYPICAL_BYTES;
    let (mut records, mut json) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
    reader.list(|reader| {
        let start = reader.start();
        records.push(record(reader)?);
        json.push(reader.text_since(start)?);
        Ok(())
    })?;
    Ok(RecordBatch { records, json })
}

/// The error of an event that [`read_event`] cannot read; only serde_json reports where text is not JSON.
fn event_error(event: &str) -> Error {
    match serde_json::from_str::<IgnoredAny>(event) {
        Ok(_) => not_an_event("the event has no list `Records`"),
        Err(error) => not_an_event("the event is not JSON")
            .with("line", error.line().to_string())
            .with("column", error.column().to_string()),
    }
}

fn not_an_event(message: &str) -> Error {
    Error::new(ErrorKind::Event, message).hint(
        "Connect the function to a DynamoDB stream by an event source mapping, or by EventBridge Pipes without an input transformer",
    )
}

/// Decodes records one by one, for example the lines of the archive. It caches the shape of earlier records for speed;
/// the result for a record depends on that record alone.
pub struct RecordDecoder<'v, 'a> {
    attributes: &'v AttributeInterner,
    caches: RecordCaches<'a>,
}

impl<'v, 'a> RecordDecoder<'v, 'a> {
    /// A decoder for the attributes in `attributes`.
    #[must_use]
    pub fn new(attributes: &'v AttributeInterner) -> Self {
        Self { attributes, caches: RecordCaches::default() }
    }

    /// Decodes one record.
    ///
    /// # Errors
    /// A malformed record: the error, and what could be read of the record.
    pub fn record(&mut self, line: &'a [u8]) -> Result<ChangeRecord<'a>, Box<BadRecord<'a>>> {
        match std::str::from_utf8(line) {
            Ok(line) => self.decode_json(line),
            Err(_) => Err(Box::new(identify("", Error::new(ErrorKind::Record, "the line is not UTF-8")))),
        }
    }

    fn decode_json(&mut self, json: &'a str) -> Result<ChangeRecord<'a>, Box<BadRecord<'a>>> {
        let context = DecodeContext::new(self.attributes);
        let record = JsonReader::read_all(json, |reader| context.record(reader, &mut self.caches));
        record.map_err(|_| Box::new(identify(json, context.into_error())))
    }
}

#[cfg(test)]
mod tests;
