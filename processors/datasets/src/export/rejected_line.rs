//! A line of an archive object that is not a change of the model's tables, as it is stored under `rejected/`.

use std::borrow::Cow;

use afterwrite_model::Error;
use afterwrite_model::projection::{SecretAttributes, archive_line};
use afterwrite_model::table::Model;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The rejected lines of an object.
#[derive(Default)]
pub(super) struct RejectedLines {
    /// JSON lines.
    stored: Vec<u8>,
    /// The secrets that they must not have; collected with the first one.
    secrets: Option<SecretAttributes>,
}

impl RejectedLines {
    pub(super) fn add(&mut self, model: &Model, (line, text): (usize, &[u8]), error: &Error) {
        let secrets = self.secrets.get_or_insert_with(|| SecretAttributes::new(model));
        let rejected = RejectedLine::new(secrets, line, text, error);
        // Cannot fail: texts and numbers.
        self.stored.extend(serde_json::to_vec(&rejected).unwrap_or_default());
        self.stored.push(b'\n');
    }

    /// Their size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.stored.len()
    }

    /// The lines as they are stored.
    pub(super) fn into_stored(self) -> Vec<u8> {
        self.stored
    }
}

/// The line with its number, and why it was rejected.
#[derive(Serialize)]
struct RejectedLine<'l> {
    line: usize,
    reason: String,
    /// Without the secrets of all entities; `None` if they cannot be found in it. The object itself has the line.
    text: Option<Cow<'l, str>>,
}

/// A line that may be a change record.
#[derive(Deserialize)]
struct RecordLine<'l> {
    #[serde(borrow, rename = "dynamodb")]
    _change: &'l RawValue,
}

impl<'l> RejectedLine<'l> {
    fn new(secrets: &SecretAttributes, line: usize, text: &'l [u8], error: &Error) -> Self {
        let text = without_secrets(secrets, String::from_utf8_lossy(text));
        Self { line, reason: error.to_string(), text }
    }
}

fn without_secrets<'l>(secrets: &SecretAttributes, text: Cow<'l, str>) -> Option<Cow<'l, str>> {
    if secrets.all().is_empty() {
        return Some(text);
    }
    // Of the members of a record that are kept, only images have secrets. Other JSON may have them anywhere.
    let _record: RecordLine<'_> = serde_json::from_str(&text).ok()?;
    let line = archive_line(text.trim(), secrets.all()).ok()?;
    Some(Cow::Owned(line.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use afterwrite_model::ErrorKind;

    use super::*;

    const MODEL: &str =
        "name = \"m\"\ngeneration = 1\ntables.t.key = [\"pk\"]\n[entities.e]\nkey = { pk = \"E#{e}\" }\n";

    #[test]
    fn a_rejected_line_has_no_secret() {
        let open = Model::parse(MODEL, "m.toml").unwrap();
        let secret = Model::parse(&format!("{MODEL}secret = [\"pin\", \"cards.pin\"]\n"), "m.toml").unwrap();
        let error = Error::new(ErrorKind::Record, "no change");
        let record = br#"{"dynamodb":{"NewImage":{"pin":{"S":"LEAK"},"cards":{"L":[{"M":{"pin":{"S":"LEAK"}}}]},"a":{"S":"kept"}}}}"#;
        let copied =
            br#"{"item":{"pin":"LEAK"},"dynamodb":{"Item":{"pin":"LEAK"},"NewImage":{"a":{"S":"kept"}}}}"#;
        for (text, kept) in [
            (&record[..], "kept"),
            (&copied[..], "kept"),
            (&b"{\"pin\":\"LEAK\"}"[..], "null"),
            (&b"pin=LEAK"[..], "null"),
        ] {
            let stored = |model| {
                let secrets = SecretAttributes::new(model);
                serde_json::to_string(&RejectedLine::new(&secrets, 7, text, &error)).unwrap()
            };
            assert!(stored(&open).contains("LEAK"));
            let stored = stored(&secret);
            assert!(
                !stored.contains("LEAK") && stored.contains(kept) && stored.contains("no change"),
                "{stored}"
            );
        }
    }
}
