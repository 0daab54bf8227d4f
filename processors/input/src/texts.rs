//! One JSON text → the records in it.

use serde::Deserialize;
use serde_json::value::RawValue;

/// The members by which the forms of an input differ.
#[derive(Deserialize)]
struct RecordEnvelope<'t> {
    #[serde(borrow)]
    dynamodb: Option<&'t RawValue>,
    #[serde(borrow, rename = "Records")]
    records: Option<Vec<&'t RawValue>>,
    #[serde(borrow)]
    payload: Option<&'t RawValue>,
    #[serde(borrow)]
    record: Option<&'t RawValue>,
}

/// Why a text has no records.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TextError {
    /// It ends within a JSON value.
    Incomplete,
    /// It is not JSON.
    NotJson,
    /// It is JSON of another form.
    NotRecords,
}

/// A member of the list that EventBridge Pipes sends.
#[derive(Deserialize)]
struct ListedRecord<'t> {
    #[serde(borrow, rename = "dynamodb")]
    _change: &'t RawValue,
}

/// The records in a JSON text, each as JSON.
pub(super) fn records_of(text: &str) -> Result<Vec<String>, TextError> {
    if text.starts_with('[')
        && let Ok(records) = serde_json::from_str::<Vec<&RawValue>>(text)
    {
        let is_record = |json: &&RawValue| serde_json::from_str::<ListedRecord<'_>>(json.get()).is_ok();
        if records.is_empty() || !records.iter().all(is_record) {
            return Err(TextError::NotRecords);
        }
        return Ok(records.into_iter().map(|record| record.get().to_owned()).collect());
    }
    let envelope = envelope_of(text)?;
    if envelope.dynamodb.is_some() {
        return Ok(vec![text.to_owned()]);
    }
    if let Some(record) = envelope.record {
        return Ok(vec![record.get().to_owned()]);
    }
    if let Some(records) = envelope.records {
        return Ok(records.into_iter().map(|record| record.get().to_owned()).collect());
    }
    records_of_payload(envelope.payload)
}

/// The records in an on-failure object. A text of another form has none.
pub(super) fn failed_records_of(text: &str) -> Result<Vec<String>, TextError> {
    records_of_payload(envelope_of(text)?.payload)
}

fn envelope_of(text: &str) -> Result<RecordEnvelope<'_>, TextError> {
    serde_json::from_str(text).map_err(|error| {
        use serde_json::error::Category;
        match error.classify() {
            Category::Eof => TextError::Incomplete,
            Category::Data => TextError::NotRecords,
            Category::Syntax | Category::Io => TextError::NotJson,
        }
    })
}

fn records_of_payload(payload: Option<&RawValue>) -> Result<Vec<String>, TextError> {
    let Some(payload) = payload else { return Err(TextError::NotRecords) };
    // Lambda escapes the event; an unescaped one is read, too.
    match serde_json::from_str::<String>(payload.get()) {
        Ok(event) => records_of(&event),
        Err(_) => records_of(payload.get()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{"eventID":"1","dynamodb":{"SequenceNumber":"1"}}"#;

    #[test]
    fn every_form_has_its_records() {
        let event = format!(r#"{{"Records":[{RECORD}, {RECORD}]}}"#);
        let failed =
            serde_json::json!({ "requestContext": {}, "version": "1.0", "payload": event }).to_string();
        assert_eq!(records_of(RECORD).unwrap(), [RECORD]);
        assert_eq!(records_of(&event).unwrap(), [RECORD, RECORD]);
        assert_eq!(records_of(&failed).unwrap(), [RECORD, RECORD]);
        assert_eq!(records_of(&format!("[{RECORD}, {RECORD}]")).unwrap(), [RECORD, RECORD]);
        assert_eq!(records_of(&format!(r#"{{"shard":1,"record":{RECORD}}}"#)).unwrap(), [RECORD]);
        assert_eq!(records_of(&format!(r#"{{"payload":{event}}}"#)).unwrap(), [RECORD, RECORD]);
        assert_eq!(failed_records_of(&failed).unwrap(), [RECORD, RECORD]);
        for other in [RECORD, &event, "{}", "[]"] {
            assert_eq!(failed_records_of(other), Err(TextError::NotRecords), "{other}");
        }
    }

    #[test]
    fn other_texts_are_distinguished() {
        assert_eq!(records_of(r#"{"Records":["#), Err(TextError::Incomplete));
        assert_eq!(records_of("hello"), Err(TextError::NotJson));
        for text in [
            "{}",
            "[]",
            "[5]",
            "[{}]",
            "5",
            r#"{"Records":5}"#,
            r#"{"requestContext":{},"DDBStreamBatchInfo":{}}"#,
        ] {
            assert_eq!(records_of(text), Err(TextError::NotRecords), "{text}");
        }
    }
}
