//! How the values of an entity are read as times: `times` of an entity.

use std::sync::Arc;

use super::load::compiler::ModelCompiler;
use super::load::problem::ProblemCode;
use super::load::reader::{LocatedPairs, SettingsTable};
use super::load::scope::{EntityScope, NameScope, base_name};
use super::load::suggestion::did_you_mean;
use super::named::{alternatives, meant};
use super::template::{Template, TemplatePiece, known_name};
use super::template_problem::unknown_zone;
use super::time_reading::{TimeNotation, TimeReading};
use super::value_type::ValueType;
use crate::record::{AttributeInterner, NamedZone};

/// The readings that `times` states. A wrong one is reported, and its name is read as if it were not there.
pub(super) fn compile(
    compiler: &mut ModelCompiler<'_, '_>,
    entity: &SettingsTable<'_>,
    times: &LocatedPairs<'_>,
) -> Vec<(Arc<str>, TimeReading)> {
    let mut readings = Vec::new();
    for (name, written) in times {
        if let Some(reading) = TimeReading::of_name(written.value) {
            readings.push((Arc::from(known_name(name.value)), reading));
            continue;
        }
        let owner = format!("{}: the time `{}`", entity.owner, name.value);
        // Nearly all names of zones have a slash.
        let (code, problem) = if written.value.contains('/') {
            (ProblemCode::UnknownTimeZone, unknown_zone(written.value))
        } else {
            let problem = format!(
                "must be {}, or a time zone such as `Europe/Berlin`{}",
                alternatives::<TimeNotation>(),
                meant::<TimeNotation>(written.value)
            );
            (ProblemCode::UnknownTime, problem)
        };
        compiler.report(code, written.at, format!("{owner}: {problem}"));
    }
    readings
}

/// Reports zones of items in an entity's key, which is read before the item's values.
pub(super) fn check_key_zones(
    compiler: &mut ModelCompiler<'_, '_>,
    owner: &str,
    key: &LocatedPairs<'_>,
    templates: &[Template],
) {
    let formats = templates.iter().flat_map(|template| &template.pieces).filter_map(TemplatePiece::variable);
    for zone in formats.filter_map(|(_, format)| format.item_zone()) {
        let written = key.iter().find(|(_, text)| text.value.contains(&format!("@{}", zone.name)));
        let message = format!(
            "{owner}: `{}` is not a time zone, and the key of an item is read before its values; write a zone of the IANA database, such as `Europe/Berlin`{}",
            zone.name,
            did_you_mean(&zone.name, NamedZone::names())
        );
        compiler.report(ProblemCode::UnfitZone, written.map_or(0, |(_, text)| text.at), message);
    }
}

/// Reports names that are not defined, and values that do not have such times. `scope` has all names of the entity.
pub(super) fn check(
    compiler: &mut ModelCompiler<'_, '_>,
    entity: &SettingsTable<'_>,
    times: &LocatedPairs<'_>,
    scope: &EntityScope,
) {
    for (name, written) in times {
        let owner = format!("{}: the time `{}`", entity.owner, name.value);
        let names = NameScope { entity: scope, outputs: &[], element: None };
        // An attribute that only `times` names need not be decoded.
        let problem = match names.resolve(name.value, &mut AttributeInterner::default()) {
            Err(problem) => problem,
            Ok(_) if base_name(name.value) != name.value => Some((
                ProblemCode::UnusableFormat,
                format!("a name of `times` has no format; write `{}`", base_name(name.value)),
            )),
            Ok(resolved) => TimeReading::of_name(written.value)
                .and_then(|reading| unfit(reading, resolved.reading, resolved.value_type))
                .map(|problem| (ProblemCode::UnfitTime, problem)),
        };
        if let Some((code, problem)) = problem {
            compiler.report(code, name.at, format!("{owner}: {problem}"));
        }
    }
}

/// Why a value of this type cannot be read in this way; `of_key` is how a variable of the key is read.
fn unfit(reading: TimeReading, of_key: TimeReading, value_type: ValueType) -> Option<String> {
    if of_key.is_bucket() {
        return Some(format!("the key has its `{of_key}` and nothing more; remove it from `times`"));
    }
    let fits = match reading {
        TimeReading::Notation(notation) if notation.is_numeric() => value_type.is_ordered(),
        TimeReading::Notation(_) | TimeReading::Zone(_) => value_type.may_be_text(),
        TimeReading::Detected | TimeReading::Digits | TimeReading::Bucket(..) => true,
    };
    let described = value_type.described();
    if fits {
        return None;
    }
    Some(match reading {
        TimeReading::Zone(zone) if value_type.is_numeric() => format!(
            "it is {described}, which states a moment in any zone; write the zone into the format, as in `:day@{}`",
            zone.name()
        ),
        TimeReading::Zone(_)
        | TimeReading::Notation(_)
        | TimeReading::Detected
        | TimeReading::Digits
        | TimeReading::Bucket(..) => {
            format!("it is {described}, and `{reading}` cannot be read from that")
        }
    })
}
