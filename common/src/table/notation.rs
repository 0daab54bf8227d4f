//! How the parts of a compiled model read: as its file writes them, with names back in the place of indexes.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use super::pattern::{Comparison, Matcher, PatternCondition};
use super::{
    AttributePath, BoundPiece, BoundTemplate, DerivationKind, Entity, LookupUse, MeasureKind, Model, Pattern,
    Template, TemplatePiece, Term, ValueFormat,
};

/// The scope of one entity, in which terms have names.
///
/// ```
/// use afterwrite::table::{Model, Notation};
/// let model = Model::load("exambuddy")?;
/// let aggregate = model.aggregates.iter().find(|aggregate| &*aggregate.name == "attempts").unwrap();
/// let notation = Notation::of(&model, aggregate.of, &aggregate.lookups);
/// assert_eq!(notation.template(&aggregate.into[0].partition), "ADMIN#{admin_id}");
/// # Ok::<(), afterwrite::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ModelNotation<'m> {
    model: &'m Model,
    entity: Option<&'m Entity>,
    lookups: &'m [LookupUse],
}

impl<'m> ModelNotation<'m> {
    /// The scope of the entity with this index into [`Model::entities`], and of these lookups.
    #[must_use]
    pub fn of(model: &'m Model, entity: usize, lookups: &'m [LookupUse]) -> Self {
        Self { model, entity: model.entities.get(entity), lookups }
    }

    /// A value's name: `score`, `details.score`.
    #[must_use]
    pub fn term(&self, term: &Term) -> String {
        let name = |name: Option<&Arc<str>>| name.map(ToString::to_string).unwrap_or_default();
        match term {
            Term::Key(index) => name(self.entity.and_then(|entity| entity.variables.get(*index))),
            Term::Attribute(path) => self.attribute(path),
            Term::Derived(index) => {
                let derivation = self.entity.and_then(|entity| entity.derivations.get(*index));
                name(derivation.map(|derivation| &derivation.name))
            }
            Term::LookupOutput { lookup, output } => {
                let lookup = self.lookups.get(*lookup).and_then(|key| self.model.lookups.get(key.lookup));
                name(lookup.and_then(|lookup| lookup.outputs.get(*output)))
            }
        }
    }

    /// An attribute's name, with dots between the names of nested maps.
    #[must_use]
    pub fn attribute(&self, path: &AttributePath) -> String {
        let root = self.model.row_attributes.name(path.root);
        std::iter::once(root).chain(&path.within).map(|name| &**name).collect::<Vec<_>>().join(".")
    }

    /// A value's name with the format it is written in: `started_at:day`.
    #[must_use]
    pub fn formatted(&self, term: &Term, format: ValueFormat) -> String {
        let suffix = ValueFormat::NAMED.iter().find(|(_, named)| *named == format);
        format!("{}{}", self.term(term), suffix.map_or_else(String::new, |(name, _)| format!(":{name}")))
    }

    /// A template: `book:{book_id}`.
    #[must_use]
    pub fn template(&self, template: &BoundTemplate) -> String {
        let piece = |piece: &BoundPiece| match piece {
            BoundPiece::Literal(text) => text.to_string(),
            BoundPiece::Value(term, format) => format!("{{{}}}", self.formatted(term, *format)),
        };
        template.pieces.iter().map(piece).collect()
    }

    /// A condition on one line: `status = ["completed"] and score = [{ numeric = [">", 0] }]`.
    #[must_use]
    pub fn condition(&self, pattern: &Pattern) -> String {
        self.condition_within(&pattern.condition, false)
    }

    fn condition_within(&self, condition: &PatternCondition, is_within: bool) -> String {
        let joined = |conditions: &[PatternCondition], by: &str| {
            let parts: Vec<String> =
                conditions.iter().map(|part| self.condition_within(part, conditions.len() > 1)).collect();
            let joined = parts.join(by);
            if is_within && parts.len() > 1 { format!("({joined})") } else { joined }
        };
        match condition {
            PatternCondition::All(conditions) => joined(conditions, " and "),
            PatternCondition::Any(conditions) => joined(conditions, " or "),
            PatternCondition::Field { term, matchers } => format!("{} = {}", self.term(term), list(matchers)),
        }
    }

    /// How much a measure counts: `count`, `sum of quantity · price`, `max of started_at:day`.
    #[must_use]
    pub fn measure(&self, kind: &MeasureKind) -> String {
        match kind {
            MeasureKind::Count => "count".to_owned(),
            MeasureKind::Sum(factors) => {
                let factors: Vec<String> = factors.iter().map(|factor| self.term(factor)).collect();
                format!("sum of {}", factors.join(" · "))
            }
            MeasureKind::Max(term, format) => format!("max of {}", self.formatted(term, *format)),
            MeasureKind::Min(term, format) => format!("min of {}", self.formatted(term, *format)),
            MeasureKind::Histogram { of, width, labels } => {
                format!("histogram of {}, {} bins of {width}", self.term(of), labels.len())
            }
        }
    }

    /// How a derived value is computed: `percent of score, total_questions`.
    #[must_use]
    pub fn derivation(&self, kind: &DerivationKind) -> String {
        match kind {
            DerivationKind::Percent { part, whole } => {
                format!("percent of {}, {}", self.term(part), self.term(whole))
            }
            DerivationKind::First(terms) => {
                let names: Vec<String> = terms.iter().map(|term| self.term(term)).collect();
                format!("first of {}", names.join(", "))
            }
            DerivationKind::Part { of, key, variables, variable } => {
                // Only the place of the variable that is meant is known.
                let mark = |index: usize| Arc::from(if index == *variable { "this" } else { "_" });
                let names: Vec<Arc<str>> = (0..*variables).map(mark).collect();
                format!("part of {}, which is {}", self.term(of), key.written(&names))
            }
        }
    }
}

impl Template {
    /// The template as a model writes it, with these names of its variables, formats included.
    #[must_use]
    pub fn written(&self, variables: &[Arc<str>]) -> String {
        let piece = |piece: &TemplatePiece| match piece {
            TemplatePiece::Literal(text) => text.to_string(),
            TemplatePiece::Variable(index, _) => {
                format!("{{{}}}", variables.get(*index).map_or("", |name| name))
            }
        };
        self.pieces.iter().map(piece).collect()
    }
}

/// A duration as a model writes it, in the largest unit that makes it whole: `90 days`, `5 seconds`.
#[must_use]
pub fn duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    let units = [(86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second")];
    let (length, unit) =
        units.into_iter().find(|(length, _)| ms.is_multiple_of(*length)).unwrap_or((1, "millisecond"));
    let number = ms / length;
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

fn list(matchers: &[Matcher]) -> String {
    let written: Vec<String> = matchers.iter().map(matcher).collect();
    format!("[{}]", written.join(", "))
}

fn matcher(written: &Matcher) -> String {
    match written {
        Matcher::Text(text) => format!("{text:?}"),
        Matcher::Number(number) => number.to_string(),
        Matcher::Bool(value) => value.to_string(),
        Matcher::Null => "{ null = true }".to_owned(),
        Matcher::Prefix(_) | Matcher::Suffix(_) | Matcher::IgnoreCase(_) => {
            part(written).map_or_else(String::new, |(name, text)| format!("{{ {name} = {text:?} }}"))
        }
        Matcher::Exists(wanted) => format!("{{ exists = {wanted} }}"),
        Matcher::Numeric(bounds) => {
            let bounds: Vec<String> =
                bounds.iter().map(|(comparison, bound)| bounded(*comparison, bound)).collect();
            format!("{{ numeric = [{}] }}", bounds.join(", "))
        }
        Matcher::AnythingBut(excluded) => format!("{{ anything-but = {} }}", exclusion(excluded)),
    }
}

/// A matcher of a part of a text: its name, and that part.
fn part(matcher: &Matcher) -> Option<(&'static str, &str)> {
    match matcher {
        Matcher::Prefix(text) => Some(("prefix", text)),
        Matcher::Suffix(text) => Some(("suffix", text)),
        Matcher::IgnoreCase(text) => Some(("equals-ignore-case", text)),
        Matcher::Text(_)
        | Matcher::Number(_)
        | Matcher::Bool(_)
        | Matcher::Null
        | Matcher::Exists(_)
        | Matcher::Numeric(_)
        | Matcher::AnythingBut(_) => None,
    }
}

/// Values are listed; parts of texts are all of one kind, which is named once.
fn exclusion(excluded: &[Matcher]) -> String {
    match excluded.iter().map(part).collect::<Option<Vec<_>>>().as_deref() {
        Some([(name, text)]) => format!("{{ {name} = {text:?} }}"),
        Some(parts @ [(name, _), ..]) => {
            let texts: Vec<&str> = parts.iter().map(|(_, text)| *text).collect();
            format!("{{ {name} = {texts:?} }}")
        }
        Some([]) | None => list(excluded),
    }
}

fn bounded(comparison: Comparison, bound: &impl Display) -> String {
    let operator = match comparison {
        Comparison::Equal => "=",
        Comparison::Less => "<",
        Comparison::AtMost => "<=",
        Comparison::Greater => ">",
        Comparison::AtLeast => ">=",
    };
    format!("\"{operator}\", {bound}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model whose one aggregate counts items of which this holds, with this measure.
    fn model(when: &str, measure: &str) -> Model {
        let source = format!(
            r##"
            name = "test"
            generation = 1
            tables.t.key = ["pk"]
            [entities.thing]
            key = {{ pk = "THING#{{id}}" }}
            attributes = {{ x = "any", m = "M", part = "N", whole = "N", at = "S", owner = "S" }}
            derive.percent = {{ percent = ["part", "whole"] }}
            derive.either = {{ first = ["x", "at"] }}
            derive.owner_id = {{ part = ["owner", "HOUSE#{{house}}#OWNER#{{owner_id}}"] }}
            [rollups.all]
            key = {{ PK = "ALL#{{at:day}}", SK = "ROLLUP" }}
            [[aggregates]]
            name = "things"
            of = "thing"
            into = "all"
            measures.things = {measure}
            {when}
            "##
        );
        Model::parse(&source, "test.toml").unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn conditions_read_as_they_are_written() {
        for condition in [
            r#"x = ["a", 1.5, true, { null = true }]"#,
            r#"x = [{ prefix = "a" }, { suffix = "b" }, { equals-ignore-case = "c" }, { exists = false }]"#,
            r#"x = [{ numeric = [">=", 1, "<", 5] }]"#,
            r#"m.inner = [{ anything-but = ["a", "b"] }]"#,
            r#"x = [{ anything-but = { prefix = "a" } }, { anything-but = { suffix = ["b", "c"] } }]"#,
        ] {
            let model = model(&format!("when.{condition}"), "\"count\"");
            let aggregate = &model.aggregates[0];
            let notation = ModelNotation::of(&model, aggregate.of, &aggregate.lookups);
            assert_eq!(notation.condition(aggregate.when.as_ref().unwrap()), condition);
        }
    }

    #[test]
    fn groups_have_parentheses_where_they_need_them() {
        let when = r#"when = { "$or" = [{ x = [1], at = ["b"] }, { x = [2] }], id = ["i"] }"#;
        let model = model(when, "\"count\"");
        let notation = ModelNotation::of(&model, 0, &[]);
        assert_eq!(
            notation.condition(model.aggregates[0].when.as_ref().unwrap()),
            r#"((x = [1] and at = ["b"]) or x = [2]) and id = ["i"]"#
        );
    }

    #[test]
    fn measures_and_derived_values_are_told_in_words() {
        for (written, told) in [
            ("\"count\"", "count"),
            ("{ sum = [\"part\", \"whole\"] }", "sum of part · whole"),
            ("{ max = \"at:day\" }", "max of at:day"),
            ("{ min = \"part\" }", "min of part"),
            ("{ histogram = \"percent\", width = 10, bins = 10 }", "histogram of percent, 10 bins of 10"),
        ] {
            let model = model("", written);
            let kind = &model.aggregates[0].measures[0].kind;
            assert_eq!(ModelNotation::of(&model, 0, &[]).measure(kind), told);
        }
        let model = model("", "\"count\"");
        let entity = &model.entities[0];
        let told: Vec<String> = entity
            .derivations
            .iter()
            .map(|derived| ModelNotation::of(&model, 0, &[]).derivation(&derived.kind))
            .collect();
        assert_eq!(
            told,
            ["percent of part, whole", "first of x, at", "part of owner, which is HOUSE#{_}#OWNER#{this}"]
        );
        assert_eq!(entity.key.partition.written(&entity.variables), "THING#{id}");
        let rollup = &model.rollups[0];
        assert_eq!(rollup.partition.written(&rollup.variables), "ALL#{at:day}");
    }

    #[test]
    fn durations_have_the_largest_unit_that_makes_them_whole() {
        for (seconds, written) in [
            (5, "5 seconds"),
            (1, "1 second"),
            (60, "1 minute"),
            (5_400, "90 minutes"),
            (86_400, "1 day"),
            (7_776_000, "90 days"),
        ] {
            assert_eq!(duration(Duration::from_secs(seconds)), written);
        }
    }
}
