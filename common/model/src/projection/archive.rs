//! A record of an event → a line of the archive: the same JSON on one line, without the secret attributes.
//!
//! Nothing is decoded and encoded again without need. White space between tokens is dropped; every string and number is copied byte for byte,
//! so that 38 digits, binary values and sets stay as they are. An image is split only along the paths to a secret ([`SecretPaths`]). If a JSON
//! key occurs twice, readers take the last one, but a secret is removed from both. `Keys` stay whatever they hold: without them a line names no
//! item. If a model has secrets, only the members that DynamoDB Streams delivers are kept: a transformation on the way can have copied a secret into
//! another member.

use std::borrow::Cow;

use memchr::memchr2;
use serde_json::value::RawValue;

use crate::record::{AttributePath, AttributeSecrecy, JsonMembers, SecretPaths};
use crate::{Error, ErrorKind, Result};

/// The deepest value on the way to a secret. DynamoDB's items have at most 32 levels; each uses stack here.
const MAX_LEVELS: u8 = 64;

/// The members of a record, as DynamoDB Streams delivers it.
const RECORD_MEMBERS: [&str; 8] = [
    "awsRegion",
    "dynamodb",
    "eventID",
    "eventName",
    "eventSource",
    "eventSourceARN",
    "eventVersion",
    "userIdentity",
];
/// The members of its `dynamodb`.
const CHANGE_MEMBERS: [&str; 7] = [
    "ApproximateCreationDateTime",
    "Keys",
    "NewImage",
    "OldImage",
    "SequenceNumber",
    "SizeBytes",
    "StreamViewType",
];

/// The archive's line of a record's JSON, newline included. Its images lack the attributes at `secrets`.
///
/// # Errors
/// [`ErrorKind::Record`] if the record is not a JSON object, or if an image cannot be searched for secrets. A record is archived
/// without secrets or not at all.
pub fn archive_line(record: &str, secrets: &[AttributePath]) -> Result<String> {
    let mut line = String::with_capacity(record.len() + 1);
    let secrets = SecretPaths::new(secrets);
    if secrets.is_empty() {
        if !record.starts_with('{') {
            return Err(malformed("a record must be an object"));
        }
        compact(record, &mut line);
    } else {
        write_record(record, &secrets, &mut line)?;
    }
    line.push('\n');
    Ok(line)
}

/// Copies JSON without the white space between tokens.
fn compact(json: &str, line: &mut String) {
    let bytes = json.as_bytes();
    let (mut copied, mut place) = (0, 0);
    while let Some(byte) = bytes.get(place) {
        match byte {
            b'"' => place = string_end(bytes, place + 1),
            b' ' | b'\t' | b'\r' | b'\n' => {
                line.push_str(json.get(copied..place).unwrap_or_default());
                place += 1;
                copied = place;
            }
            _ => place += 1,
        }
    }
    line.push_str(json.get(copied..).unwrap_or_default());
}

/// The end of the string around `place`: the position after its quotation mark.
fn string_end(json: &[u8], mut place: usize) -> usize {
    while let Some(found) = json.get(place..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        place += found + 1;
        if json.get(place - 1) == Some(&b'"') {
            return place;
        }
        // An escaped character does not end the string.
        place += 1;
    }
    json.len()
}

fn write_record(record: &str, secrets: &SecretPaths<'_>, line: &mut String) -> Result<()> {
    let members = known_members(record, "a record must be an object", &RECORD_MEMBERS)?;
    write_object(members, line, |name, value, line| match name {
        "dynamodb" => write_change(value, secrets, line).map(|()| true),
        _ => Ok(false),
    })
}

fn write_change(change: &str, secrets: &SecretPaths<'_>, line: &mut String) -> Result<()> {
    let members = known_members(change, "dynamodb must be a map", &CHANGE_MEMBERS)?;
    write_object(members, line, |name, value, line| match name {
        "NewImage" | "OldImage" if value != "null" => {
            write_members(value, secrets, MAX_LEVELS, line).map(|()| true)
        }
        _ => Ok(false),
    })
}

/// An image, or the content of an `M` within it, without its secrets. `levels` more levels may follow.
fn write_members(members: &str, secrets: &SecretPaths<'_>, levels: u8, line: &mut String) -> Result<()> {
    line.push('{');
    let mut place = 0;
    for (key, value) in objects_members(members, "an image must be a map of attributes")? {
        let within = match secrets.of(&name_of(key)?) {
            AttributeSecrecy::Secret => continue,
            AttributeSecrecy::Open => None,
            AttributeSecrecy::Within(within) => Some(within),
        };
        write_key(place, key, line);
        place += 1;
        match within {
            None => compact(value.get(), line),
            Some(within) => write_value(value.get(), &within, levels, line)?,
        }
    }
    line.push('}');
    Ok(())
}

/// An attribute value on a path to a secret: a path continues into an `M`, and into every element of an `L`.
fn write_value(value: &str, secrets: &SecretPaths<'_>, levels: u8, line: &mut String) -> Result<()> {
    let levels = levels.checked_sub(1).ok_or_else(|| malformed("a value is nested too deep"))?;
    let members = objects_members(value, "an attribute value must have a type")?;
    write_object(members, line, |kind, content, line| match kind {
        "M" => write_members(content, secrets, levels, line).map(|()| true),
        "L" => write_elements(content, secrets, levels, line).map(|()| true),
        _ => Ok(false),
    })
}

/// The content of an `L`, each of whose elements is searched.
fn write_elements(list: &str, secrets: &SecretPaths<'_>, levels: u8, line: &mut String) -> Result<()> {
    let elements: Vec<&RawValue> =
        serde_json::from_str(list).map_err(|_| malformed("a list must have a list of values"))?;
    line.push('[');
    for (place, element) in elements.into_iter().enumerate() {
        if place > 0 {
            line.push(',');
        }
        write_value(element.get(), secrets, levels, line)?;
    }
    line.push(']');
    Ok(())
}

/// Writes an object of these members. `write` returns `true` for a member that it has written itself; all others are copied.
fn write_object(
    members: Vec<(&RawValue, &RawValue)>,
    line: &mut String,
    mut write: impl FnMut(&str, &str, &mut String) -> Result<bool>,
) -> Result<()> {
    line.push('{');
    for (place, (key, value)) in members.into_iter().enumerate() {
        write_key(place, key, line);
        if !write(&name_of(key)?, value.get(), line)? {
            compact(value.get(), line);
        }
    }
    line.push('}');
    Ok(())
}

fn write_key(place: usize, key: &RawValue, line: &mut String) {
    if place > 0 {
        line.push(',');
    }
    line.push_str(key.get());
    line.push(':');
}

/// A key without escapes: `"p\u0061ssword"` is `password`.
fn name_of(key: &RawValue) -> Result<Cow<'_, str>> {
    let quoted = key.get();
    let plain = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if !plain.contains('\\') {
        return Ok(Cow::Borrowed(plain));
    }
    serde_json::from_str(quoted).map(Cow::Owned).map_err(|_| malformed("a name is not text"))
}

/// The members of an object as JSON, duplicates included.
fn objects_members<'a>(json: &'a str, expected: &'static str) -> Result<Vec<(&'a RawValue, &'a RawValue)>> {
    serde_json::from_str(json).map(|JsonMembers(members)| members).map_err(|_| malformed(expected))
}

/// The members of an object that have one of these names.
fn known_members<'a>(
    json: &'a str,
    expected: &'static str,
    names: &[&str],
) -> Result<Vec<(&'a RawValue, &'a RawValue)>> {
    let mut members = Vec::new();
    for (key, value) in objects_members(json, expected)? {
        if names.contains(&&*name_of(key)?) {
            members.push((key, value));
        }
    }
    Ok(members)
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::Record, format!("a change record cannot be archived: {what}"))
}

#[cfg(test)]
mod tests;
