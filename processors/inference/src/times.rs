//! Recognizes attributes and parts of keys that are times, and their form.

use afterwrite_model::record::{AttributeValue, Decimal, Timestamp};

/// Times before 2008 and after 2050 are taken for other numbers.
const EARLIEST: i64 = 1_199_145_600;
const LATEST: i64 = 2_524_608_000;

/// Parts of names that times have, in lower case.
const TIME_NAMES: [&str; 27] = [
    "time",
    "date",
    "day",
    "created",
    "updated",
    "modified",
    "changed",
    "added",
    "started",
    "ended",
    "completed",
    "finished",
    "published",
    "joined",
    "placed",
    "ordered",
    "paid",
    "sent",
    "received",
    "shipped",
    "delivered",
    "expires",
    "expiry",
    "ttl",
    "deleted",
    "login",
    "seen",
];

/// Whole names that times have, in lower case.
const WHOLE_TIME_NAMES: [&str; 5] = ["at", "on", "ts", "when", "epoch"];

/// The digits of a ULID.
const ULID_DIGITS: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The digits of a KSUID.
const KSUID_DIGITS: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The first second of KSUIDs.
const KSUID_EPOCH: i128 = 1_400_000_000;

/// The form of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimeForm {
    /// A text with a zone or offset, or a date.
    Iso,
    /// A text without a zone.
    LocalIso,
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
    Ulid,
    Ksuid,
    UuidV7,
}

impl TimeForm {
    /// The form in words.
    pub(super) fn described(self) -> &'static str {
        match self {
            Self::Iso => "ISO 8601",
            Self::LocalIso => "ISO 8601 without a zone, read as UTC",
            Self::Seconds => "seconds since 1970",
            Self::Milliseconds => "milliseconds since 1970",
            Self::Microseconds => "microseconds since 1970",
            Self::Nanoseconds => "nanoseconds since 1970",
            Self::Ulid => "ULID",
            Self::Ksuid => "KSUID",
            Self::UuidV7 => "UUID version 7",
        }
    }

    /// Whether the time is part of an id.
    pub(super) fn is_id(self) -> bool {
        match self {
            Self::Ulid | Self::Ksuid | Self::UuidV7 => true,
            Self::Iso
            | Self::LocalIso
            | Self::Seconds
            | Self::Milliseconds
            | Self::Microseconds
            | Self::Nanoseconds => false,
        }
    }

    /// The value of `times` in a model; `None` if the form is read without it.
    pub(super) fn declared(self) -> Option<&'static str> {
        match self {
            Self::Iso | Self::LocalIso => None,
            Self::Seconds => Some("seconds"),
            Self::Milliseconds => Some("milliseconds"),
            Self::Microseconds => Some("microseconds"),
            Self::Nanoseconds => Some("nanoseconds"),
            Self::Ulid => Some("ulid"),
            Self::Ksuid => Some("ksuid"),
            Self::UuidV7 => Some("uuidv7"),
        }
    }
}

/// The form of the times that an attribute holds; `None` if its values are not times.
pub(super) fn time_form(name: &str, values: &[&AttributeValue<'_>]) -> Option<TimeForm> {
    let has_name = is_time_name(name);
    let forms = values.iter().map(|value| match value {
        AttributeValue::S(text) => text_form(text).filter(|form| has_name || !form.is_number()),
        // Account numbers and sizes can look like times as well.
        AttributeValue::N(number) => number_form(number).filter(|_| has_name),
        AttributeValue::B(_)
        | AttributeValue::Bool(_)
        | AttributeValue::Null
        | AttributeValue::M(_)
        | AttributeValue::L(_)
        | AttributeValue::Ss(_)
        | AttributeValue::Ns(_)
        | AttributeValue::Bs(_) => None,
    });
    shared_form(forms)
}

fn is_time_name(name: &str) -> bool {
    let lower = name.to_lowercase();
    TIME_NAMES.iter().any(|part| lower.contains(part))
        || WHOLE_TIME_NAMES.contains(&lower.as_str())
        || name.ends_with("At")
        || lower.ends_with("_at")
        || lower.ends_with("_on")
        || lower.ends_with("_ts")
}

/// The form of these parts of keys; `None` if they are not times.
pub(super) fn key_form<'t>(texts: impl Iterator<Item = &'t str>) -> Option<TimeForm> {
    // Ids with a time of another epoch look like nanoseconds.
    shared_form(texts.map(text_form)).filter(|form| *form != TimeForm::Nanoseconds)
}

/// The form that all have. Texts with and without a zone together are of the form without.
fn shared_form(forms: impl Iterator<Item = Option<TimeForm>>) -> Option<TimeForm> {
    let mut shared: Option<TimeForm> = None;
    for form in forms {
        let form = form?;
        shared = Some(match shared {
            None => form,
            Some(known) if known == form => form,
            Some(TimeForm::Iso | TimeForm::LocalIso)
                if form == TimeForm::Iso || form == TimeForm::LocalIso =>
            {
                TimeForm::LocalIso
            }
            Some(_) => return None,
        });
    }
    shared
}

impl TimeForm {
    fn is_number(self) -> bool {
        match self {
            Self::Seconds | Self::Milliseconds | Self::Microseconds | Self::Nanoseconds => true,
            Self::Iso | Self::LocalIso | Self::Ulid | Self::Ksuid | Self::UuidV7 => false,
        }
    }
}

fn number_form(number: &Decimal) -> Option<TimeForm> {
    let whole = number.to_string();
    whole_form(whole.split('.').next().unwrap_or_default())
}

fn whole_form(digits: &str) -> Option<TimeForm> {
    let number: i64 = digits.parse().ok()?;
    let units = [
        (TimeForm::Seconds, 1),
        (TimeForm::Milliseconds, 1_000),
        (TimeForm::Microseconds, 1_000_000),
        (TimeForm::Nanoseconds, 1_000_000_000),
    ];
    units.into_iter().find(|(_, unit)| (EARLIEST..LATEST).contains(&(number / unit))).map(|(form, _)| form)
}

fn text_form(text: &str) -> Option<TimeForm> {
    if text.len() >= "2026-02-06".len() && Timestamp::parse(text).is_some() {
        let (_, time) = text.split_at_checked("2026-02-06".len())?;
        let has_zone = time.is_empty() || time.ends_with('Z') || time.contains('+') || time.contains('-');
        return Some(if has_zone { TimeForm::Iso } else { TimeForm::LocalIso });
    }
    let is_plausible = |seconds: i128| (i128::from(EARLIEST)..i128::from(LATEST)).contains(&seconds);
    match text.len() {
        26 => is_plausible(ulid_milliseconds(text)? / 1000).then_some(TimeForm::Ulid),
        27 => {
            // The first 32 bits of 160 are the seconds.
            let seconds = ksuid_seconds(text)?;
            is_plausible(seconds).then_some(TimeForm::Ksuid)
        }
        36 => {
            let hexadecimal = text.get(..8)?.to_owned() + text.get(9..13)?;
            let milliseconds = i128::from_str_radix(&hexadecimal, 16).ok()?;
            let is_seven = text.get(13..15) == Some("-7") && text.matches('-').count() == 4;
            (is_seven && is_plausible(milliseconds / 1000)).then_some(TimeForm::UuidV7)
        }
        10..=19 => whole_form(text),
        _ => None,
    }
}

/// The milliseconds since 1970 of a ULID.
fn ulid_milliseconds(text: &str) -> Option<i128> {
    let digit = |character: char| ULID_DIGITS.find(character.to_ascii_uppercase());
    let is_ulid = text.chars().all(|character| digit(character).is_some());
    let time = text.get(..10).filter(|_| is_ulid)?;
    time.chars()
        .try_fold(0, |value: i128, character| Some(value * 32 + i128::try_from(digit(character)?).ok()?))
}

/// The seconds since 1970 of a KSUID.
fn ksuid_seconds(text: &str) -> Option<i128> {
    let mut bytes = [0_u8; 20];
    for character in text.chars() {
        let mut carry = u32::try_from(KSUID_DIGITS.find(character)?).ok()?;
        for byte in bytes.iter_mut().rev() {
            let value = u32::from(*byte) * 62 + carry;
            *byte = u8::try_from(value & 0xff).ok()?;
            carry = value >> 8;
        }
        if carry > 0 {
            return None;
        }
    }
    let (seconds, _) = bytes.split_first_chunk::<4>()?;
    Some(i128::from(u32::from_be_bytes(*seconds)) + KSUID_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_time_is_recognized() {
        for (text, form) in [
            ("2026-02-06T14:30:00Z", Some(TimeForm::Iso)),
            ("2026-02-06T14:30:00+01:00", Some(TimeForm::Iso)),
            ("2026-02-06", Some(TimeForm::Iso)),
            ("2026-02-06 14:30:00", Some(TimeForm::LocalIso)),
            ("1770388200", Some(TimeForm::Seconds)),
            ("1770388200123", Some(TimeForm::Milliseconds)),
            ("1770388200123456", Some(TimeForm::Microseconds)),
            ("01KGRPB8K0ABCDEFGHJKMNPQRS", Some(TimeForm::Ulid)),
            ("1VrEOxq4FLyPMjsL7EDLfmLlYLz", Some(TimeForm::Ksuid)),
            ("019c3167-3a00-7abc-8def-0123456789ab", Some(TimeForm::UuidV7)),
            ("7c9e6679-7425-40de-944b-e07fc1f90ae7", None),
            ("42", None),
            ("yesterday", None),
            ("abcdefghijklmnopqrstuvwxyz", None),
        ] {
            assert_eq!(text_form(text), form, "{text}");
        }
    }

    #[test]
    fn a_number_is_a_time_only_if_its_name_is_one_of_a_time() {
        let number = AttributeValue::N("1770388200".parse().unwrap());
        assert_eq!(time_form("createdAt", &[&number]), Some(TimeForm::Seconds));
        assert_eq!(time_form("balance", &[&number]), None);
        let other = AttributeValue::text("never");
        assert_eq!(time_form("createdAt", &[&number, &other]), None);
    }
}
