//! The names of a dataset: its partition and the values of its columns.

use super::load::compiler::EntityContext;
use super::load::problem::ProblemCode;
use super::load::reader::Located;
use super::load::scope::{ResolvedName, base_name, interned_path, not_a_path, position};
use super::template::split_format;
use super::value_type::ValueType;
use super::{Term, TimeBucket, TimeFormat, TimeReading, ValueFormat};

impl EntityContext<'_, '_, '_> {
    /// Where the day of a row's partition comes from.
    pub(super) fn partition(&mut self, name: Located<&str>) -> Option<(Term, ValueFormat)> {
        let owner = format!("{}: `partition`", self.owner);
        let Ok((base, written)) = split_format(name.value) else {
            return self.resolve_or_attribute(&owner, name).map(|resolved| (resolved.term, resolved.format));
        };
        let day = written.time().filter(|format| format.bucket == TimeBucket::Day);
        let Some(day) = day else {
            let message = format!(
                "{owner}: rows are kept by day; write `{}:day`, of an attribute that never changes",
                base_name(name.value)
            );
            self.report(ProblemCode::InvalidDataset, name.at, message);
            return None;
        };
        if let Some(first) = self.first_day(&owner, name, base, day) {
            return Some(first);
        }
        let ResolvedName { term, format, value_type, .. } = self.resolve_or_attribute(&owner, name)?;
        if !value_type.is_ordered() {
            let message = format!("{owner}: `{}` is {}, not a time", name.value, value_type.described());
            self.report(ProblemCode::InvalidDataset, name.at, message);
        } else if format.zone_term().is_some_and(|zone| zone.output_lookup().is_some()) {
            let message = format!(
                "{owner}: the zone of `{}` is an output of a lookup, and the partition of a row does not depend on lookups; name a value of the item itself",
                name.value
            );
            self.report(ProblemCode::UnfitZone, name.at, message);
        }
        Some((term, format))
    }

    /// The first day of a bucket of time in the item's key, such as that of the month in a rollup's key; `None` if the key has no such bucket, or
    /// has this very text.
    fn first_day(
        &mut self,
        owner: &str,
        name: Located<&str>,
        base: &str,
        day: &TimeFormat,
    ) -> Option<(Term, ValueFormat)> {
        let variables = &self.scope.variables;
        let variable = variables.iter().position(|variable| base_name(variable) == base)?;
        let below = self.scope.bucket_of(variable).filter(|_| position(variables, name.value).is_none())?;
        let reading = below.reading_of_bucket();
        let format = day.clone().within(below);
        if let Some(problem) = format.in_other_zone_than(reading) {
            self.report(ProblemCode::FormatTooFine, name.at, format!("{owner}: `{}`: {problem}", name.value));
        }
        Some((Term::Key(variable), ValueFormat::Time(format)))
    }

    /// The meaning of a name. A name without another meaning is an attribute, which a dataset need not declare: its column
    /// states the type.
    pub(super) fn resolve_or_attribute(&mut self, owner: &str, name: Located<&str>) -> Option<ResolvedName> {
        let (scope, interner) = self.names();
        let problem = match scope.resolve(name.value, interner) {
            Ok(resolved) => return Some(resolved),
            Err(problem) => problem,
        };
        let is_undefined = problem.as_ref().is_none_or(|(code, _)| *code == ProblemCode::UndefinedName);
        let attribute = split_format(name.value).ok().filter(|_| is_undefined);
        let (code, problem) = match attribute {
            None => problem?,
            Some((base, format)) => match base.parse() {
                Err(problem) => not_a_path(name.value, problem),
                Ok(path) => match scope.bind_zone(name.value, format, interner) {
                    Err(problem) => problem?,
                    Ok(format) => {
                        let term = Term::Attribute(interned_path(&path, interner));
                        let reading = TimeReading::Detected;
                        return Some(ResolvedName { term, format, value_type: ValueType::Any, reading });
                    }
                },
            },
        };
        self.report(code, name.at, format!("{owner}: {problem}"));
        None
    }
}
