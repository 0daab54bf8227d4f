//! The state with which the parts of a model are compiled: the model so far, the scopes of its entities, and where problems go.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::problem::{ProblemCode, ProblemCollector, ReportedProblem};
use super::reader::{Located, RawValue};
use super::scope::{EntityScope, NameScope, ResolvedName, ScopeElement, ScopeOutput};
use super::suggestion::{listed, suggestion};
use crate::record::{AttributeInterner, AttributePath};
use crate::table::key_attribute::key_attribute;
use crate::table::pattern::settings::PatternCompiler;
use crate::table::value_type::ValueType;
use crate::table::{LookupUse, Model, Pattern, Template, Term, TimeReading, ValueFormat};

/// A model that is being compiled, part by part in the order of [`Model`]'s fields.
pub(crate) struct ModelCompiler<'c, 's> {
    /// Settings that cannot be read. If anything was missing, nothing else is reported: most of it would be a consequence.
    pub(crate) problems: &'c mut ProblemCollector<'s>,
    /// Settings that were read and are wrong.
    pub(crate) findings: ProblemCollector<'s>,
    pub(crate) model: Model,
    /// For each entity.
    pub(crate) scopes: Vec<Arc<EntityScope>>,
    pub(crate) places: PartPlaces,
    /// The measures of each rollup, averages and the bins of histograms included.
    pub(crate) measures: Vec<RollupMeasure>,
    /// The variables of rollups' keys that an aggregate fills with numbers, each with its rollup.
    pub(crate) number_keys: Vec<(usize, usize)>,
    /// Lookups whose inputs are wrong: uses of one are not reported as well.
    pub(crate) broken_lookups: Vec<usize>,
    /// For each lookup, the types of its outputs, and how they are read as times; empty if one of them is not defined.
    pub(crate) output_types: Vec<Vec<(ValueType, TimeReading)>>,
    /// The attributes that mirrors write onto items.
    pub(crate) mirrored: Vec<MirroredPath>,
    /// The secrets of entities: entity, path, where it is named.
    pub(crate) secrets: Vec<(usize, AttributePath, usize)>,
}

/// Where the parts of a model are declared, in the order of the model's lists.
#[derive(Default)]
pub(crate) struct PartPlaces {
    /// For each table, where its separator is declared.
    pub(crate) separators: Vec<usize>,
    pub(crate) entities: Vec<usize>,
    /// For each entity, its derived values.
    pub(crate) derivations: Vec<Vec<usize>>,
    pub(crate) lookups: Vec<usize>,
    pub(crate) rollups: Vec<usize>,
    /// For each rollup, where the variable of its expiry is named.
    pub(crate) lifetimes: Vec<usize>,
    /// For each rollup, its ranks.
    pub(crate) ranks: Vec<Vec<usize>>,
    pub(crate) aggregates: Vec<usize>,
    pub(crate) caches: Vec<usize>,
    pub(crate) events: Vec<usize>,
    pub(crate) datasets: Vec<usize>,
}

/// An attribute that a mirror writes.
pub(crate) struct MirroredPath {
    pub(crate) onto: usize,
    pub(crate) path: AttributePath,
    /// Where the item keeps the rollup's `rev`, and which rollup that is.
    pub(crate) companions: [AttributePath; 2],
    /// Where the mirror names it.
    pub(crate) at: usize,
}

impl MirroredPath {
    /// Every place that the mirror writes.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &AttributePath> {
        std::iter::once(&self.path).chain(&self.companions)
    }

    /// Whether the mirror writes this place, a part of it or a map around it.
    pub(crate) fn writes(&self, place: &AttributePath) -> bool {
        self.paths().any(|path| path.overlaps(place))
    }
}

/// A measure as an attribute of one rollup.
pub(crate) struct RollupMeasure {
    pub(crate) rollup: usize,
    pub(crate) attribute: Arc<str>,
    /// An index into the model's aggregates.
    pub(crate) aggregate: usize,
    /// Whether it is always a number.
    pub(crate) is_number: bool,
    /// Where the measure is declared.
    pub(crate) at: usize,
}

impl<'c, 's> ModelCompiler<'c, 's> {
    pub(super) fn new(problems: &'c mut ProblemCollector<'s>, source: &'s str, model: Model) -> Self {
        Self {
            problems,
            findings: ProblemCollector::of(source),
            model,
            scopes: Vec::new(),
            places: PartPlaces::default(),
            measures: Vec::new(),
            number_keys: Vec::new(),
            broken_lookups: Vec::new(),
            output_types: Vec::new(),
            mirrored: Vec::new(),
            secrets: Vec::new(),
        }
    }

    pub(crate) fn report(&mut self, code: ProblemCode, at: usize, message: String) -> &mut ReportedProblem {
        self.findings.report(code, at, message)
    }

    /// Reports a name that is not made of letters, digits, `_` and `-`.
    pub(crate) fn check_name(&mut self, kind: &str, name: Located<&str>) {
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
        if name.value.is_empty() || !name.value.chars().all(is_plain) {
            let message = format!("{kind} `{}`: a name is made of letters, digits, `_` and `-`", name.value);
            self.report(ProblemCode::InvalidName, name.at, message);
        }
    }

    /// Reports the lookups of a part whose outputs it does not use; `used` are positions among them.
    pub(crate) fn check_outputs(&mut self, owner: &str, lookups: &[Located<&str>], used: &BTreeSet<usize>) {
        let unused = lookups.iter().enumerate().filter(|(position, _)| !used.contains(position));
        for (_, lookup) in unused {
            let message = format!(
                "{owner}: it uses no output of lookup `{}`, which costs a read for every item; remove it from `lookup`",
                lookup.value
            );
            self.report(ProblemCode::UnusedOutputs, lookup.at, message);
        }
    }

    /// The index of a name among the parts of one kind; an unknown name is reported.
    fn index_of<'n>(
        &mut self,
        owner: &str,
        kind: &str,
        name: Located<&str>,
        known: impl Fn(&Model) -> Vec<&Arc<str>> + 'n,
    ) -> Option<usize> {
        let known = known(&self.model);
        let index = known.iter().position(|known| ***known == *name.value);
        if index.is_none() {
            let nearest = suggestion(name.value, known.into_iter().map(|known| &**known));
            let message = format!("{owner}: unknown {kind} `{}`{nearest}", name.value);
            self.findings.report(ProblemCode::UndeclaredPart, name.at, message);
        }
        index
    }

    pub(crate) fn table_named(&mut self, owner: &str, name: Located<&str>) -> Option<usize> {
        self.index_of(owner, "table", name, |model| model.tables.iter().map(|table| &table.name).collect())
    }

    pub(crate) fn entity_named(&mut self, owner: &str, name: Located<&str>) -> Option<usize> {
        self.index_of(owner, "entity", name, |model| {
            model.entities.iter().map(|entity| &entity.name).collect()
        })
    }

    pub(crate) fn lookup_named(&mut self, owner: &str, name: Located<&str>) -> Option<usize> {
        self.index_of(owner, "lookup", name, |model| {
            model.lookups.iter().map(|lookup| &lookup.name).collect()
        })
    }

    pub(crate) fn rollup_named(&mut self, owner: &str, name: Located<&str>) -> Option<usize> {
        self.index_of(owner, "rollup", name, |model| {
            model.rollups.iter().map(|rollup| &rollup.name).collect()
        })
    }

    /// Compiles a template and reports its problems.
    pub(crate) fn template(
        &mut self,
        owner: &str,
        text: Located<&str>,
        variables: &mut Vec<Arc<str>>,
    ) -> Option<Template> {
        let template = Template::compile(text.value, variables);
        template.map_err(|problem| self.report(problem.code(), text.at, format!("{owner}: {problem}"))).ok()
    }

    /// The templates of a primary key, in the order of the attributes that it must have; `None` if one is missing or wrong. Parts
    /// that are wrong in the same way are one problem: the key of their table may be.
    pub(crate) fn key(
        &mut self,
        owner: &str,
        key: &[(Located<&str>, Located<&str>)],
        (table, attributes): (&str, &[&str]),
        at: usize,
        variables: &mut Vec<Arc<str>>,
    ) -> Option<Vec<Template>> {
        let templates = attributes
            .iter()
            .map(|attribute| key.iter().find(|(name, _)| key_attribute(name.value) == *attribute));
        let templates = templates.collect::<Option<Vec<_>>>().filter(|found| found.len() == key.len());
        let Some(templates) = templates else {
            let unknown = key.iter().find(|(name, _)| !attributes.contains(&&*key_attribute(name.value)));
            let at = unknown.map_or(at, |(name, _)| name.at);
            let names: Vec<&str> = key.iter().map(|(name, _)| name.value).collect();
            let names = if names.is_empty() { "nothing".to_owned() } else { listed(&names) };
            let message =
                format!("{owner}: its key is {names}; the key of {table} is {}", listed(attributes));
            self.report(ProblemCode::KeyMismatch, at, message).caused_by(format!("{table}: {names}"));
            return None;
        };
        let templates = templates.into_iter().map(|(_, text)| self.template(owner, *text, variables));
        // Every wrong one is reported.
        templates.collect::<Vec<_>>().into_iter().collect()
    }

    /// The context for a part that is compiled in the scope of one entity. For an unknown entity no name is defined, and no name is
    /// reported as undefined.
    pub(crate) fn context(&mut self, owner: &str, entity: Option<usize>) -> EntityContext<'_, 'c, 's> {
        let scope = entity.and_then(|entity| self.scopes.get(entity)).cloned();
        let unknown = || Arc::new(EntityScope { is_incomplete: true, ..EntityScope::default() });
        self.context_of(owner, scope.unwrap_or_else(unknown))
    }

    pub(crate) fn context_of(&mut self, owner: &str, scope: Arc<EntityScope>) -> EntityContext<'_, 'c, 's> {
        EntityContext {
            compiler: self,
            owner: owner.to_owned(),
            scope,
            outputs: Vec::new(),
            element: None,
            rollup: None,
            numbers: Vec::new(),
        }
    }
}

/// The scope of one entity while an aggregate, a cache rule or a dataset is compiled in it.
pub(crate) struct EntityContext<'p, 'c, 's> {
    pub(crate) compiler: &'p mut ModelCompiler<'c, 's>,
    /// How messages call the part: "aggregate `books`".
    pub(crate) owner: String,
    pub(crate) scope: Arc<EntityScope>,
    /// The outputs of its lookups.
    outputs: Vec<ScopeOutput>,
    /// The element that an aggregate counts.
    pub(crate) element: Option<ScopeElement>,
    /// Where the rollup is declared whose key is being bound: a name that several aggregates lack for it is reported once.
    pub(crate) rollup: Option<usize>,
    /// The variables of templates that were bound to numbers.
    pub(crate) numbers: Vec<usize>,
}

impl EntityContext<'_, '_, '_> {
    pub(crate) fn report(&mut self, code: ProblemCode, at: usize, message: String) -> &mut ReportedProblem {
        self.compiler.report(code, at, message)
    }

    /// The scope, and the interner that it resolves names with.
    pub(crate) fn names(&mut self) -> (NameScope<'_>, &mut AttributeInterner) {
        let scope = NameScope { entity: &self.scope, outputs: &self.outputs, element: self.element.as_ref() };
        (scope, &mut self.compiler.model.attributes)
    }

    /// Resolves a name; an undefined one is reported.
    pub(crate) fn resolve(&mut self, owner: &str, name: Located<&str>) -> Option<ResolvedName> {
        self.resolve_advised(owner, name, "")
    }

    /// As [`EntityContext::resolve`], with advice behind the problem.
    fn resolve_advised(&mut self, owner: &str, name: Located<&str>, advice: &str) -> Option<ResolvedName> {
        let (scope, interner) = self.names();
        let problem = match scope.resolve(name.value, interner) {
            Ok(resolved) => return Some(resolved),
            Err(problem) => problem,
        };
        if let Some((code, problem)) = problem {
            self.report_name(name, code, format!("{owner}: {problem}{advice}"));
        }
        None
    }

    /// Reports the problem of a name.
    pub(crate) fn report_name(&mut self, name: Located<&str>, code: ProblemCode, message: String) {
        let rollup = self.rollup;
        let cause = format!("{}: {}", self.owner, name.value);
        let problem = self.report(code, name.at, message).caused_by(cause);
        if let Some(at) = rollup {
            problem.caused_by(format!("rollup at {at}: {}", name.value)).related(at, "the rollup");
        }
    }

    pub(crate) fn pattern(&mut self, owner: &str, when: Option<RawValue<'_>>) -> Option<Pattern> {
        let scope = NameScope { entity: &self.scope, outputs: &self.outputs, element: self.element.as_ref() };
        let ModelCompiler { findings, model, .. } = &mut *self.compiler;
        PatternCompiler { owner, scope, interner: &mut model.attributes, problems: findings }.compile(when?)
    }

    /// The lookups that the part names, with inputs of its entity's own; their outputs join the scope.
    pub(crate) fn lookups(&mut self, names: &[Located<&str>]) -> Vec<LookupUse> {
        let mut uses = Vec::new();
        let mut places = Vec::new();
        let mut outputs: Vec<ScopeOutput> = Vec::new();
        for name in names {
            let owner = self.owner.clone();
            let Some(index) = self.compiler.lookup_named(&owner, *name) else {
                // The outputs of an unknown lookup are not reported as undefined.
                Arc::make_mut(&mut self.scope).is_incomplete = true;
                continue;
            };
            let Some(lookup) = self.compiler.model.lookups.get(index) else { continue };
            let (inputs, output_names) = (lookup.inputs.clone(), lookup.outputs.clone());
            let is_indexed = lookup.index().is_some();
            let owner = format!("{owner}: lookup `{}`", name.value);
            let is_broken = self.compiler.broken_lookups.contains(&index);
            let inputs = if is_broken {
                Vec::new()
            } else {
                self.lookup_inputs(&owner, (&inputs, name.at), is_indexed)
            };
            let types = self.compiler.output_types.get(index).cloned().unwrap_or_default();
            for (output, output_name) in output_names.into_iter().enumerate() {
                let earlier = outputs.iter().find(|other| other.name == output_name);
                if let Some(lookup) = earlier.and_then(|other| other.term.output_lookup()) {
                    let first = places.get(lookup).copied().unwrap_or(name.at);
                    self.report_second_output(&output_name, name.at, first);
                }
                let unknown = (ValueType::Any, TimeReading::Detected);
                let (value_type, reading) = types.get(output).copied().unwrap_or(unknown);
                let term = Term::LookupOutput { lookup: uses.len(), output };
                outputs.push(ScopeOutput { name: output_name, term, value_type, reading });
            }
            places.push(name.at);
            uses.push(LookupUse { lookup: index, inputs, outputs: Vec::new() });
        }
        self.outputs = outputs;
        uses
    }

    fn report_second_output(&mut self, output: &str, at: usize, first: usize) {
        let message = format!("{}: two of its lookups give `{output}`; remove one of them", self.owner);
        self.report(ProblemCode::DuplicateName, at, message).related(first, "the other lookup");
    }

    /// The values of a lookup's inputs in this scope.
    pub(crate) fn lookup_inputs(
        &mut self,
        owner: &str,
        (inputs, at): (&[Arc<str>], usize),
        is_indexed: bool,
    ) -> Vec<Term> {
        let mut terms = Vec::new();
        for input in inputs {
            let advice = format!(
                "; the looked-up item and each item that uses a lookup by an index have this name for the value: `derive.{input} = {{ first = [\"…\"] }}` gives it to a value with another name"
            );
            let advice = if is_indexed { &*advice } else { "" };
            let name = Located { value: &**input, at };
            let Some(resolved) = self.resolve_advised(owner, name, advice) else { continue };
            if resolved.value_type.fits_key(&ValueFormat::Plain) {
                terms.push(resolved.term);
            } else {
                let described = resolved.value_type.described();
                let message = format!(
                    "{owner}: `{{{input}}}` is {described}, which cannot be part of a key; use text, a number or a boolean"
                );
                self.report(ProblemCode::UnfitKeyValue, at, message);
            }
        }
        terms
    }
}
