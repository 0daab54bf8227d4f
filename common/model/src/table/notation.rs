//! How terms, templates and conditions of a compiled model read: as its file has them, with names in the place of indexes.

use std::sync::Arc;

use super::{
    BoundPiece, BoundTemplate, Entity, InternedPath, LookupUse, Model, Template, TemplatePiece, Term,
    ValueFormat,
};

/// The scope of one entity, in which terms have names.
///
/// ```
/// use afterwrite_model::table::{Model, ModelNotation};
/// let model = Model::load("exambuddy")?;
/// let aggregate = model.aggregates.iter().find(|aggregate| &*aggregate.name == "attempts").unwrap();
/// let notation = ModelNotation::of(&model, aggregate.of, &aggregate.lookups);
/// assert_eq!(notation.template(&aggregate.into[0].partition), "ADMIN#{admin_id}");
/// # Ok::<(), afterwrite_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ModelNotation<'m> {
    model: &'m Model,
    entity: Option<&'m Entity>,
    lookups: &'m [LookupUse],
}

impl<'m> ModelNotation<'m> {
    /// The scope of the entity with this index into [`Model::entities`] and of these lookups.
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
            Term::Element(path) => path.to_string(),
            Term::LookupOutput { lookup, output } => {
                let lookup = self.lookups.get(*lookup).and_then(|key| self.model.lookups.get(key.lookup));
                name(lookup.and_then(|lookup| lookup.outputs.get(*output)))
            }
        }
    }

    /// An attribute's path as model files write it.
    #[must_use]
    pub fn attribute(&self, path: &InternedPath) -> String {
        path.named(&self.model.row_attributes).to_string()
    }

    /// A value's name with its format: `started_at:day`.
    #[must_use]
    pub fn formatted(&self, term: &Term, format: &ValueFormat) -> String {
        let suffix = format.time().map_or_else(String::new, |format| format!(":{format}"));
        format!("{}{suffix}", self.term(term))
    }

    /// A template: `book:{book_id}`.
    #[must_use]
    pub fn template(&self, template: &BoundTemplate) -> String {
        let piece = |piece: &BoundPiece| match piece {
            BoundPiece::Literal(text) => text.to_string(),
            BoundPiece::Value(term, format) => format!("{{{}}}", self.formatted(term, format)),
        };
        template.pieces.iter().map(piece).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A model with one aggregate that has this condition and this measure.
    fn model(when: &str, measure: &str) -> Model {
        let source = format!(
            r##"
            name = "test"
            generation = 1
            tables.t.key = ["pk"]
            [entities.thing]
            key = {{ pk = "THING#{{id}}" }}
            attributes = {{ x = "any", m = "M", part = "N", whole = "N", at = "S", owner = "S", tags = "SS" }}
            derive.percent = {{ percent = ["part", "whole"] }}
            derive.either = {{ first = ["x", "at"] }}
            derive.owner_id = {{ part = ["owner", "HOUSE#{{house}}#OWNER#{{owner_id}}"] }}
            derive.count = {{ size = "tags" }}
            derive.rest = {{ minus = ["whole", "part"] }}
            derive.less = {{ minus = [10, "part"] }}
            derive.age = {{ duration = ["at", "x"] }}
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
    fn conditions_are_described_verbatim() {
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
    fn measures_and_derived_values_in_words() {
        for (written, expected) in [
            ("\"count\"", "count"),
            ("{ sum = [\"part\", \"whole\"] }", "sum of part · whole"),
            ("{ sum = [2, \"part\", 2.5] }", "sum of part · 5"),
            ("{ sum = 5 }", "sum of 5"),
            ("{ max = \"at:day\" }", "max of at:day"),
            ("{ min = \"part\" }", "min of part"),
            ("{ histogram = \"percent\", width = 10, bins = 10 }", "histogram of percent, 10 bins of 10"),
        ] {
            let model = model("", written);
            let kind = &model.aggregates[0].measures[0].kind;
            assert_eq!(kind.describe(&ModelNotation::of(&model, 0, &[])), expected);
        }
        let model = model("", "\"count\"");
        let entity = &model.entities[0];
        let described: Vec<String> = entity
            .derivations
            .iter()
            .map(|derived| derived.kind.describe(&ModelNotation::of(&model, 0, &[])))
            .collect();
        assert_eq!(
            described,
            [
                "percent of part, whole",
                "first of x, at",
                "part of owner, which is HOUSE#{_}#OWNER#{this}",
                "size of tags",
                "minus of whole, part",
                "minus of 10, part",
                "duration of at, x"
            ]
        );
        assert_eq!(entity.key.partition.written(&entity.variables), "THING#{id}");
        let rollup = &model.rollups[0];
        assert_eq!(rollup.partition.written(&rollup.variables), "ALL#{at:day}");
    }
}
