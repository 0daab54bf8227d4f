//! Keys of rollups that two groups could have: the first of two adjacent values may contain the text between the values.
//!
//! `PROVIDER#{provider}#{certificate}` is the key of `aws#sysops` and `x` as well as of `aws` and `sysops#x`. A value that is read from an
//! entity's key before a literal text never contains that text, so it ends where it ends.
//!
//! The values of a source, and of a ranked rollup, are read from the keys of its items. Where that gives other values, the item is a misfit.

use super::compiler::ModelCompiler;
use super::problem::ProblemCode;
use crate::table::{
    BoundPiece, BoundTemplate, Entity, Model, Rollup, RollupDestination, RollupKeys, Template, TemplatePiece,
    Term,
};

/// Two variables of any length in one part of a key.
struct NeighbouringValues<'r> {
    /// Their names.
    names: [&'r str; 2],
    /// The position of the first in its template.
    piece: usize,
    /// The text behind the first.
    following: &'r str,
    /// Whether literal text between them has this character.
    has_separator: bool,
}

/// Which part of a rollup's key.
type PartOf = fn(&RollupDestination) -> &BoundTemplate;

/// Reports rollups whose keys have several readings, each once.
pub(super) fn check_readings(compiler: &mut ModelCompiler<'_, '_>) {
    mark_read_back(&mut compiler.model);
    let ModelCompiler { model, findings, places, .. } = compiler;
    for (index, (rollup, at)) in model.rollups.iter().zip(&places.rollups).enumerate() {
        let parts: [(&Template, PartOf); 2] =
            [(&rollup.partition, |to| &to.partition), (&rollup.sort, |to| &to.sort)];
        let neighbours = parts.iter().flat_map(|(template, part)| {
            neighbouring_values(template, rollup).into_iter().map(move |values| (values, template, part))
        });
        for (values, template, part) in neighbours {
            let [first, second] = values.names;
            let problem = match rollup.keys {
                RollupKeys::Escaped if !values.has_separator => Some((
                    ProblemCode::InseparableValues,
                    format!(
                        "rollup `{}`: escaped values contain no `#`, but there is none between `{{{first}}}` and `{{{second}}}`; put one there",
                        rollup.name
                    ),
                )),
                RollupKeys::Plain if may_merge(model, index, (template, *part), &values) => Some((
                    ProblemCode::MergeableGroups,
                    format!(
                        "rollup `{}`: if a value of `{{{first}}}` contains `{}`, {}; {}put `{{{first}}}` and `{{{second}}}` into different parts of the key",
                        rollup.name,
                        values.following,
                        effect_of_merging(rollup),
                        escaping(model, rollup, &values)
                    ),
                )),
                RollupKeys::Escaped | RollupKeys::Plain => None,
            };
            if let Some((code, message)) = problem {
                findings.report(code, *at, message);
                break;
            }
        }
    }
}

/// Marks the rollups whose keys are read and have several readings.
fn mark_read_back(model: &mut Model) {
    let is_read_back = |(index, rollup): (usize, &Rollup)| {
        let mut parts = [&rollup.partition, &rollup.sort].into_iter();
        rollup.keys.is_plain()
            && (model.is_source(index) || !rollup.ranks.is_empty())
            && parts.any(|part| !neighbouring_values(part, rollup).is_empty())
    };
    let marks: Vec<bool> = model.rollups.iter().enumerate().map(is_read_back).collect();
    for (rollup, is_read_back) in model.rollups.iter_mut().zip(marks) {
        rollup.is_read_back = is_read_back;
    }
}

/// The effect of a value that contains the text behind it.
fn effect_of_merging(rollup: &Rollup) -> &'static str {
    if rollup.is_read_back {
        "the item is a misfit, because the rollup's values are read from its key"
    } else {
        "two groups can have one key and are counted together"
    }
}

/// The advice to escape values, with everything that it needs: a `#` between two values of each key.
fn escaping(model: &Model, rollup: &Rollup, values: &NeighbouringValues<'_>) -> String {
    if !values.has_separator {
        return "with `#` between these values, `rollup_keys = \"escaped\"` in a new generation divides them; or ".to_owned();
    }
    let is_undivided = |other: &&Rollup| {
        let parts = [&other.partition, &other.sort];
        let mut all = parts.into_iter().flat_map(|template| neighbouring_values(template, other));
        other.name != rollup.name && all.any(|values| !values.has_separator)
    };
    match model.rollups.iter().find(is_undivided) {
        None => "set `rollup_keys = \"escaped\"` in a new generation, or ".to_owned(),
        Some(other) => format!(
            "set `rollup_keys = \"escaped\"` in a new generation, with `#` between the values of rollup `{}`, too, or ",
            other.name
        ),
    }
}

/// The variables of any length in a template that are followed by another variable.
fn neighbouring_values<'r>(template: &'r Template, rollup: &'r Rollup) -> Vec<NeighbouringValues<'r>> {
    let open: Vec<(usize, usize)> = open_variables(template).collect();
    let pairs = open.iter().zip(open.iter().skip(1));
    let values = pairs.filter_map(|((piece, first), (next, second))| {
        let between = template.pieces.get(piece + 1..*next)?;
        let name = |index: usize| rollup.variables.get(index).map_or("", |name| &**name);
        let mut literals = between.iter().filter_map(TemplatePiece::literal);
        Some(NeighbouringValues {
            names: [name(*first), name(*second)],
            piece: *piece,
            following: between.first()?.literal()?,
            has_separator: literals.any(|text| text.contains('#')),
        })
    });
    values.collect()
}

/// The variables of any length, each with its position in the template and its index.
fn open_variables(template: &Template) -> impl Iterator<Item = (usize, usize)> {
    template.pieces.iter().enumerate().filter_map(|(piece, part)| {
        let (index, format) = part.variable()?;
        format.shape().is_none().then_some((piece, index))
    })
}

/// Whether an aggregate may count into a rollup a first value that contains the text behind it.
fn may_merge(
    model: &Model,
    rollup: usize,
    (template, part): (&Template, PartOf),
    values: &NeighbouringValues<'_>,
) -> bool {
    model.aggregates.iter().any(|aggregate| {
        let destinations = aggregate.into.iter().filter(|to| to.rollup == rollup);
        let mut bound = destinations.map(part).filter(|bound| bound.pieces.len() == template.pieces.len());
        bound.any(|bound| match bound.pieces.get(values.piece) {
            Some(BoundPiece::Value(term, format)) => {
                format.shape().is_none()
                    && !is_closed(model, (aggregate.of, term), &aggregate.lookups, values.following)
            }
            Some(BoundPiece::Literal(_)) | None => false,
        })
    })
}

/// Whether a value never contains the text that follows it, from its first character on.
fn is_closed(
    model: &Model,
    (entity, term): (usize, &Term),
    lookups: &[crate::table::LookupUse],
    following: &str,
) -> bool {
    match term {
        Term::Key(variable) => {
            let entity = model.entities.get(entity);
            entity.is_some_and(|entity| never_contains(entity, *variable, unrepeated(following)))
        }
        Term::LookupOutput { lookup, output } => {
            let used = lookups.get(*lookup).map(|used| used.lookup);
            let of = used.and_then(|used| Some((used, model.lookups.get(used)?.of)));
            let term = of.and_then(|(used, of)| {
                let offer = model.entities.get(of)?.offers.iter().find(|offer| offer.lookup == used)?;
                Some((of, offer.outputs.get(*output)?))
            });
            // The outputs of a looked-up item are its own: they come from no other lookup.
            term.is_some_and(|(of, term)| is_closed(model, (of, term), &[], following))
        }
        Term::Attribute(_) | Term::Derived(_) | Term::Element(_) => false,
    }
}

/// Whether a variable of an entity's key never contains a text: a part of it follows the variable in the key, or is the separator.
fn never_contains(entity: &Entity, variable: usize, text: &str) -> bool {
    entity.key.templates().any(|template| {
        let open: Vec<(usize, usize)> = open_variables(template).collect();
        let is_last = |piece: usize| open.last().is_some_and(|(last, _)| *last == piece);
        let mut places = open.iter().filter(|(_, index)| *index == variable);
        let has_shape = template.pieces.iter().any(|piece| {
            piece.variable().is_some_and(|(index, format)| index == variable && format.shape().is_some())
        });
        let is_separated = template.separator.is_some_and(|separator| text.contains(separator));
        has_shape
            || places.any(|(piece, _)| {
                let following = template.pieces.get(piece + 1).and_then(TemplatePiece::literal);
                is_separated
                    || (!is_last(*piece) && following.is_some_and(|following| text.contains(following)))
            })
    })
}

/// The beginning of a text that repeats to make the whole text: `#A` of `#A#`. Two readings of a key differ by at least that much.
fn unrepeated(text: &str) -> &str {
    let ends = text.char_indices().map(|(index, _)| index).skip(1);
    let period = ends.into_iter().find(|end| text.get(*end..).is_some_and(|rest| text.starts_with(rest)));
    period.and_then(|end| text.get(..end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ProblemCode;

    /// The codes of a model whose items have this key and count into a rollup with this one.
    fn codes(keys: &str, item: &str, rollup: &str) -> Vec<ProblemCode> {
        let source = format!(
            r##"
            name = "groups"
            generation = 1
            rollup_keys = "{keys}"
            tables.t.key = ["pk"]
            [entities.thing]
            key = {{ pk = "{item}" }}
            attributes = {{ x = "S", y = "S", at = "S" }}
            [rollups.group]
            key = {{ PK = "{rollup}", SK = "ROLLUP" }}
            [[aggregates]]
            name = "things"
            of = "thing"
            into = "group"
            measures.things = "count"
            "##
        );
        Model::check(&source, "groups.toml").problems.iter().map(|problem| problem.code).collect()
    }

    #[test]
    fn two_values_that_can_be_split_in_two_ways_are_reported() {
        let may_merge = [ProblemCode::MergeableGroups];
        for (item, rollup, expected) in [
            ("T#{id}", "G#{x}#{y}", may_merge.as_slice()),
            ("T#{id}", "G#{x}", &[]),
            ("T#{id}", "G#{x}#{at:day}", &[]),
            ("T#{id}", "G#{id}#{x}", &may_merge),
            // The key of the item ends `a` at the first `#`.
            ("T#{a}#{id}", "G#{a}#{x}", &[]),
            ("T#{a}#{id}", "G#{a}#DAY#{x}", &[]),
            ("T#{a}#DAY#{id}", "G#{a}#{x}", &may_merge),
            // `1#DAY` and `DAY#2` make the same key as `1` and `DAY#DAY#2`.
            ("T#{a}#DAY#{id}", "G#{a}#DAY#{x}", &may_merge),
        ] {
            assert_eq!(codes("plain", item, rollup), expected, "{item} into {rollup}");
        }
    }

    #[test]
    fn escaped_values_need_a_separator_between_them() {
        for (rollup, expected) in [
            ("G#{x}#{y}", [].as_slice()),
            ("G#{x}-#-{y}", &[]),
            ("G#{x}", &[]),
            ("G#{x}-{y}", &[ProblemCode::InseparableValues]),
            ("G#{x}-{at:day}#{y}", &[]),
        ] {
            assert_eq!(codes("escaped", "T#{id}", rollup), expected, "{rollup}");
        }
    }
}
