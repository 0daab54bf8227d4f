//! One record of an event → one line of the archive: the same JSON on one line, without the attributes that are secret.
//!
//! Nothing is decoded and written anew that need not be. What stands between two tokens is dropped, every string and every
//! number is copied byte for byte, so that 38 digits, binary values and sets come out as they went in; an image is only
//! taken apart along the paths that lead to a secret. Where a JSON key is given twice the last one counts for readers, but a
//! secret is removed from both. `Keys` stay whatever they hold: without them a line says nothing of any item.

use std::borrow::Cow;
use std::sync::Arc;

use memchr::memchr2;
use serde_json::value::RawValue;

use crate::record::AttributePath;
use crate::record::JsonMembers;
use crate::{Error, ErrorKind, Result};

/// The archive's line of `record`, newline included; `record` is its JSON, as a batch holds it.
/// What `secrets` name is not in its images any more.
///
/// # Errors
/// [`ErrorKind::Record`] if the record is no JSON object, or an image cannot be searched for secrets: it is archived
/// whole and clean, or not at all.
pub fn archive_line(record: &str, secrets: &[AttributePath]) -> Result<String> {
    let mut line = String::with_capacity(record.len() + 1);
    let secrets: Vec<&[Arc<str>]> = secrets.iter().map(AttributePath::names).collect();
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

/// Copies JSON without the white space between its tokens.
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

/// Where the string ends that `place` is in: after its quotation mark.
fn string_end(json: &[u8], mut place: usize) -> usize {
    while let Some(found) = json.get(place..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        place += found + 1;
        if json.get(place - 1) == Some(&b'"') {
            return place;
        }
        // What a backslash escapes ends no string.
        place += 1;
    }
    json.len()
}

fn write_record(record: &str, secrets: &[&[Arc<str>]], line: &mut String) -> Result<()> {
    write_object(record, "a record must be an object", line, |name, value, line| match name {
        "dynamodb" => write_change(value, secrets, line).map(|()| true),
        _ => Ok(false),
    })
}

fn write_change(change: &str, secrets: &[&[Arc<str>]], line: &mut String) -> Result<()> {
    write_object(change, "dynamodb must be a map", line, |name, value, line| match name {
        "NewImage" | "OldImage" if value != "null" => write_members(value, secrets, line).map(|()| true),
        _ => Ok(false),
    })
}

/// An image, or the content of an `M` within one, without the secrets that `paths` lead to from here.
fn write_members(members: &str, paths: &[&[Arc<str>]], line: &mut String) -> Result<()> {
    let mut kept = Vec::new();
    for (key, value) in objects_members(members, "an image must be a map of attributes")? {
        let name = name_of(key)?;
        let deeper: Vec<&[Arc<str>]> = paths
            .iter()
            .filter_map(|path| path.split_first().filter(|(first, _)| ***first == *name))
            .map(|(_, rest)| rest)
            .collect();
        if !deeper.iter().any(|rest| rest.is_empty()) {
            kept.push((key, value, deeper));
        }
    }
    line.push('{');
    for (place, (key, value, deeper)) in kept.into_iter().enumerate() {
        write_key(place, key, line);
        if deeper.is_empty() {
            compact(value.get(), line);
        } else {
            write_value(value.get(), &deeper, line)?;
        }
    }
    line.push('}');
    Ok(())
}

/// An attribute value that a path leads into: only an `M` has anything inside that the path can mean.
fn write_value(value: &str, paths: &[&[Arc<str>]], line: &mut String) -> Result<()> {
    write_object(value, "an attribute value must have a type", line, |kind, content, line| match kind {
        "M" => write_members(content, paths, line).map(|()| true),
        _ => Ok(false),
    })
}

/// Copies an object; `write` writes the members that it answers `true` for.
fn write_object(
    json: &str,
    expected: &'static str,
    line: &mut String,
    mut write: impl FnMut(&str, &str, &mut String) -> Result<bool>,
) -> Result<()> {
    line.push('{');
    for (place, (key, value)) in objects_members(json, expected)?.into_iter().enumerate() {
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

/// A key as it reads: `"p\u0061ssword"` is `password`.
fn name_of(key: &RawValue) -> Result<Cow<'_, str>> {
    let quoted = key.get();
    let plain = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if !plain.contains('\\') {
        return Ok(Cow::Borrowed(plain));
    }
    serde_json::from_str(quoted).map(Cow::Owned).map_err(|_| malformed("a name is no text"))
}

/// The members of an object as they are written, duplicates included.
fn objects_members<'a>(json: &'a str, expected: &'static str) -> Result<Vec<(&'a RawValue, &'a RawValue)>> {
    serde_json::from_str(json).map(|JsonMembers(members)| members).map_err(|_| malformed(expected))
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::Record, format!("a change record cannot be archived: {what}"))
}

#[cfg(test)]
mod tests;
