//! The records of an event as they came: what the archive keeps.

use std::borrow::Cow;

use serde::Deserialize;

use super::decode::raw;
use crate::Result;

/// One record of an event, not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Its JSON.
    pub json: &'a str,
    /// Its `eventID`, which is the same whenever it is delivered; empty if it has none.
    pub event_id: Cow<'a, str>,
}

/// Cuts an event into its records, in the order of [`super::decode()`]'s.
///
/// # Errors
/// [`crate::ErrorKind::Event`] if the bytes are not JSON or hold no list `Records`.
pub fn raw_records(event: &[u8]) -> Result<Vec<RawRecord<'_>>> {
    let cut = raw(event)?.into_iter();
    Ok(cut.map(|record| RawRecord { json: record.get(), event_id: event_id(record.get()) }).collect())
}

fn event_id(json: &str) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct Identified<'a> {
        #[serde(borrow, default, rename = "eventID")]
        event_id: Option<Cow<'a, str>>,
    }
    serde_json::from_str::<Identified<'_>>(json).ok().and_then(|record| record.event_id).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_cut_as_they_are_whatever_they_hold() {
        let event =
            r#"{"Records":[ {"eventID":"a", "x":1 } ,5,{"eventID":7},{"eventID":"\u0062"}], "more": {}}"#;
        let records = raw_records(event.as_bytes()).unwrap();
        let cut: Vec<(&str, &str)> = records.iter().map(|record| (record.json, &*record.event_id)).collect();
        assert_eq!(
            cut,
            [
                (r#"{"eventID":"a", "x":1 }"#, "a"),
                ("5", ""),
                (r#"{"eventID":7}"#, ""),
                (r#"{"eventID":"\u0062"}"#, "b")
            ]
        );
    }

    #[test]
    fn what_is_no_event_is_refused() {
        for event in ["", "{}", r#"{"Records":5}"#, r#"{"Records":[}"#] {
            assert_eq!(raw_records(event.as_bytes()).unwrap_err().kind(), crate::ErrorKind::Event, "{event}");
        }
    }
}
