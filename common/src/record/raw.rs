//! The records of an event as they came: what the archive keeps.

use serde_json::value::RawValue;

use super::decode::raw;
use crate::Result;

/// Cuts an event into the JSON of its records, in the order of [`super::decode()`]'s.
///
/// # Errors
/// [`crate::ErrorKind::Event`] if the bytes are not JSON or hold no list `Records`.
pub fn raw_records(event: &[u8]) -> Result<Vec<&RawValue>> {
    raw(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_cut_as_they_are_whatever_they_hold() {
        let event =
            r#"{"Records":[ {"eventID":"a", "x":1 } ,5,{"eventID":7},{"eventID":"\u0062"}], "more": {}}"#;
        let records = raw_records(event.as_bytes()).unwrap();
        let cut: Vec<&str> = records.iter().map(|record| record.get()).collect();
        assert_eq!(cut, [r#"{"eventID":"a", "x":1 }"#, "5", r#"{"eventID":7}"#, r#"{"eventID":"\u0062"}"#]);
    }

    #[test]
    fn what_is_no_event_is_refused() {
        for event in ["", "{}", r#"{"Records":5}"#, r#"{"Records":[}"#] {
            assert_eq!(raw_records(event.as_bytes()).unwrap_err().kind(), crate::ErrorKind::Event, "{event}");
        }
    }
}
