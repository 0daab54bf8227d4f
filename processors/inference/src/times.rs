//! Attributes and parts of keys that are times, and their form.

use afterwrite_model::record::{AttributeValue, Timestamp};
use afterwrite_model::table::{TimeNotation, TimeReading};

/// Times before 2008 and after 2050 are taken for other numbers.
const PLAUSIBLE: std::ops::Range<i64> = 1_199_145_600..2_524_608_000;

/// Parts of names that times have, in lower case, beside past participles.
const TIME_NAMES: [&str; 10] =
    ["time", "date", "day", "expir", "ttl", "paid", "sent", "seen", "login", "epoch"];

/// Endings of names that times have.
const TIME_ENDINGS: [&str; 6] = ["ed", "At", "_at", "_on", "_ts", "On"];

/// Whole names that times have, in lower case.
const WHOLE_TIME_NAMES: [&str; 4] = ["at", "on", "ts", "when"];

/// The form of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeForm {
    /// A text with a zone or offset, or a date.
    Iso,
    /// A text without a zone.
    LocalIso,
    /// Another notation, which a model states.
    Notation(TimeNotation),
}

impl TimeForm {
    /// The form in words.
    pub(super) fn described(self) -> String {
        match self {
            Self::Iso => "ISO 8601".to_owned(),
            Self::LocalIso => "ISO 8601 without a zone, read as UTC".to_owned(),
            Self::Notation(_) if !self.is_id() => {
                format!("{} since 1970", self.declared().unwrap_or_default())
            }
            Self::Notation(notation) => notation.name().to_uppercase(),
        }
    }

    /// Whether the time is part of an id.
    pub(super) fn is_id(self) -> bool {
        use TimeNotation::{Ksuid, Ulid, UuidV7};
        [Ulid, Ksuid, UuidV7].into_iter().any(|notation| self == Self::Notation(notation))
    }

    /// The value of `times` in a model; `None` if the form is read without it.
    pub(super) fn declared(self) -> Option<&'static str> {
        match self {
            Self::Iso | Self::LocalIso => None,
            Self::Notation(notation) => Some(notation.name()),
        }
    }

    /// The form of a text; `None` if it is not a time.
    pub(super) fn of(text: &str) -> Option<Self> {
        use TimeNotation::{Ksuid, Microseconds, Milliseconds, Nanoseconds, Seconds, Ulid, UuidV7};
        if text.len() >= "2026-02-06".len() && Timestamp::parse(text).is_some() {
            let time = text.get("2026-02-06".len()..)?;
            let has_zone = time.is_empty() || time.ends_with('Z') || time.contains(['+', '-']);
            return Some(if has_zone { Self::Iso } else { Self::LocalIso });
        }
        let candidates: &[TimeNotation] = match text.len() {
            26 => &[Ulid],
            27 => &[Ksuid],
            36 => &[UuidV7],
            10..=20 => &[Seconds, Milliseconds, Microseconds, Nanoseconds],
            _ => &[],
        };
        let is_plausible = |notation: &&TimeNotation| {
            let time = TimeReading::Notation(**notation).of_text(text);
            time.is_some_and(|time| PLAUSIBLE.contains(&time.epoch_seconds()))
        };
        candidates.iter().find(is_plausible).copied().map(Self::Notation)
    }
}

/// The form of the times that an attribute holds; `None` if its values are not times.
pub(super) fn time_form(name: &str, values: &[&AttributeValue<'_>]) -> Option<TimeForm> {
    let has_name = is_time_name(name);
    let forms = values.iter().map(|value| match (value.as_text(), value.as_number()) {
        (Some(text), _) => {
            TimeForm::of(text).filter(|form| has_name || form.declared().is_none() || form.is_id())
        }
        // Account numbers and sizes can look like times as well.
        (None, Some(number)) => TimeForm::of(&number.to_string()).filter(|_| has_name),
        (None, None) => None,
    });
    shared_form(forms)
}

/// Whether an attribute of this name is a time.
pub(super) fn is_time_name(name: &str) -> bool {
    let lower = name.to_lowercase();
    TIME_NAMES.iter().any(|part| lower.contains(part))
        || TIME_ENDINGS.iter().any(|ending| name.ends_with(ending))
        || WHOLE_TIME_NAMES.contains(&lower.as_str())
}

/// The form of these parts of keys; `None` if they are not times.
pub(super) fn key_form<'t>(texts: impl Iterator<Item = &'t str>) -> Option<TimeForm> {
    // Ids with a time of another epoch look like nanoseconds.
    shared_form(texts.map(TimeForm::of)).filter(|form| *form != TimeForm::Notation(TimeNotation::Nanoseconds))
}

/// The form that all have. Texts with and without a zone together are of the form without.
fn shared_form(mut forms: impl Iterator<Item = Option<TimeForm>>) -> Option<TimeForm> {
    let first = forms.next()??;
    forms.try_fold(first, |shared, form| match (shared, form?) {
        (known, form) if known == form => Some(form),
        (TimeForm::Iso, TimeForm::LocalIso) | (TimeForm::LocalIso, TimeForm::Iso) => Some(TimeForm::LocalIso),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_time_is_recognized() {
        for (text, form) in [
            ("2026-02-06T14:30:00Z", Some("ISO 8601")),
            ("2026-02-06T14:30:00+01:00", Some("ISO 8601")),
            ("2026-02-06", Some("ISO 8601")),
            ("2026-02-06 14:30:00", Some("ISO 8601 without a zone, read as UTC")),
            ("1770388200", Some("seconds since 1970")),
            ("1770388200123", Some("milliseconds since 1970")),
            ("1770388200123456", Some("microseconds since 1970")),
            ("01KGRPB8K0ABCDEFGHJKMNPQRS", Some("ULID")),
            ("1VrEOxq4FLyPMjsL7EDLfmLlYLz", Some("KSUID")),
            ("019c3167-3a00-7abc-8def-0123456789ab", Some("UUIDV7")),
            ("7c9e6679-7425-40de-944b-e07fc1f90ae7", None),
            ("42", None),
            ("yesterday", None),
            ("abcdefghijklmnopqrstuvwxyz", None),
        ] {
            assert_eq!(TimeForm::of(text).map(TimeForm::described).as_deref(), form, "{text}");
        }
    }

    #[test]
    fn a_number_is_a_time_only_if_its_name_is_one_of_a_time() {
        let number = AttributeValue::N("1770388200".parse().unwrap());
        let seconds = Some(TimeForm::Notation(TimeNotation::Seconds));
        assert_eq!(time_form("createdAt", &[&number]), seconds);
        assert_eq!(time_form("placed", &[&number]), seconds);
        assert_eq!(time_form("balance", &[&number]), None);
        let other = AttributeValue::text("never");
        assert_eq!(time_form("createdAt", &[&number, &other]), None);
    }
}
