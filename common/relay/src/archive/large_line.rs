//! A line that is too large for a delivery stream: an object under the prefix that the stream writes to.

use std::io::Write as _;

use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result, hex};
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::tz::TimeZone;
use sha2::{Digest as _, Sha256};

use super::ArchiveLine;

/// The key of a line's object: `archive/dt=<yyyy-mm-dd>/hh=<hh>/<event id>.gz` by arrival, in UTC. A line that arrives twice within an
/// hour is stored once.
pub(super) fn object_key(arrival: Timestamp, line: &ArchiveLine<'_>) -> String {
    // A clock that is wrong by thousands of years must not stop the archive.
    let arrival = jiff::Timestamp::from_millisecond(arrival.epoch_ms()).unwrap_or_default();
    let arrival = TimeZone::UTC.to_datetime(arrival);
    format!("archive/dt={}/hh={:02}/{}.gz", arrival.date(), arrival.hour(), object_name(line))
}

/// The event id if it is plain, as DynamoDB's are, or else its hash: a record's text never becomes a path. Without an event id, the hash of the
/// line.
fn object_name(line: &ArchiveLine<'_>) -> String {
    let id = line.event_id;
    if (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return id.to_owned();
    }
    let identifying = if id.is_empty() { line.text } else { id };
    format!("sha256-{}", hex(&Sha256::digest(identifying), 32))
}

/// The body of a line's object.
pub(super) fn gzip(text: &str) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 4), Compression::default());
    let body = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    body.map_err(|error| {
        Error::new(ErrorKind::Rejected, "an archive line cannot be compressed").caused_by(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(at: &str, event_id: &str, text: &str) -> String {
        object_key(Timestamp::parse(at).unwrap(), &ArchiveLine { index: 0, event_id, text })
    }

    #[test]
    fn an_object_key_has_the_hour_of_arrival_and_the_event_id() {
        let id = "d58842dea2bc372f7412b29347294739";
        assert_eq!(
            key("2026-02-06T23:59:59.999Z", id, "{}\n"),
            format!("archive/dt=2026-02-06/hh=23/{id}.gz")
        );
        assert_eq!(
            key("2026-02-07T01:00:00+01:00", id, "{}\n"),
            format!("archive/dt=2026-02-07/hh=00/{id}.gz")
        );
    }

    #[test]
    fn an_event_id_never_becomes_a_path() {
        for id in ["../../escape", "a/b", "", " ", "é", &"x".repeat(65)] {
            let key = key("2026-02-06", id, "{}\n");
            let name = key.strip_prefix("archive/dt=2026-02-06/hh=00/sha256-").unwrap();
            assert_eq!(name.len(), 64 + ".gz".len(), "{key}");
        }
        assert_ne!(key("2026-02-06", "", "{}\n"), key("2026-02-06", "", "{1}\n"));
        assert_eq!(key("2026-02-06", "a/b", "{}\n"), key("2026-02-06", "a/b", "{1}\n"));
    }
}
