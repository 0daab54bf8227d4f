//! Mirrors, copies of a rollup's measures on an application's item: `[[mirrors]]`.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;

use super::binding::{BindingSettings, KeyBinding};
use super::load::compiler::{MirroredPath, ModelCompiler};
use super::load::problem::{ProblemCode, ReportedProblem};
use super::load::reader::{Located, SettingsTable};
use super::load::scope::{interned_path, position};
use super::load::suggestion::suggestion;
use super::named_list::NamedList;
use super::{InternedPath, LookupUse, Model, Rollup, Term, TimeReading, ValueFormat};
use crate::record::AttributePath;

/// The names of a path: DynamoDB's limit. A copy at such a path still fits into the expressions of one write.
const MAX_PATH_NAMES: usize = 32;

/// Endings of the two attributes that a mirror writes next to each of its attributes: `likes_rev` and `likes_of`.
pub const COMPANION_ENDINGS: [&str; 2] = ["_rev", "_of"];

/// A copy of a rollup's measures on an application's item.
#[derive(Debug)]
pub struct Mirror {
    /// The entity that shows it: an index into [`Model::entities`].
    pub onto: usize,
    /// The rollup it is copied from: an index into [`Model::rollups`].
    pub from: usize,
    /// The attributes that are copied.
    pub attributes: Vec<MirroredAttribute>,
    /// The variables of the item's key that are another variable of the rollup's key.
    pub bindings: Vec<KeyBinding>,
    /// For each of [`super::Entity::variables`] of `onto`: the index of the rollup's variable of that name, or of the variable that it is bound to.
    pub item_variables: Vec<usize>,
    /// For each of [`Rollup::variables`] of `from`: where it comes from in `onto`'s scope ([`Term::LookupOutput`] then means
    /// the one lookup below), and its format.
    pub rollup_variables: Vec<(Term, ValueFormat)>,
    /// The lookup of items of `onto` itself that the rollup's key depends on: then the item may have moved (another
    /// owner) since the lookup was remembered.
    pub lookup: Option<LookupUse>,
}

/// One mirrored attribute.
#[derive(Debug)]
pub struct MirroredAttribute {
    /// Where the item shows it, nested if the path has several names.
    pub path: AttributePath,
    /// Where the item keeps the rollup's `rev` that it was copied at: `<attribute>_rev` next to it.
    pub revision_path: AttributePath,
    /// Where the item keeps a short hash of the rollup that the `rev` belongs to: `<attribute>_of` next to it. An item that
    /// is copied with all its attributes names the original's rollup there.
    pub of_path: AttributePath,
    /// The same place in an image of the item, to compare with.
    pub image: InternedPath,
    /// The measure.
    pub measure: Arc<str>,
}

/// A mirrored attribute in words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MirrorDescription {
    /// The rollup it is copied from.
    pub rollup: String,
    /// The measure.
    pub measure: String,
    /// The variables of the item's key that are another variable of the rollup's key.
    #[serde(skip_serializing_if = "NamedList::is_empty")]
    pub bind: NamedList<String>,
}

impl MirrorDescription {
    /// The rollup and the bindings: `user_counts (username = followed)`.
    #[must_use]
    pub fn source(&self) -> String {
        let bound: Vec<String> =
            self.bind.iter().map(|(variable, name)| format!("{variable} = {name}")).collect();
        if bound.is_empty() { self.rollup.clone() } else { format!("{} ({})", self.rollup, bound.join(", ")) }
    }
}

impl Mirror {
    /// The values of the variables of the item's key, from the key of the rollup that it shows; `None` if that is not the rollup's key.
    #[must_use]
    pub fn item_values<'k>(
        &self,
        rollup: &Rollup,
        partition: &'k str,
        sort: &'k str,
    ) -> Option<Vec<Cow<'k, str>>> {
        let values = rollup.values(partition, sort)?;
        self.item_variables.iter().map(|index| values.get(*index).cloned()).collect()
    }

    /// The mirrored attributes in words, by `<entity>.<attribute>`.
    pub fn describe(&self, model: &Model) -> impl Iterator<Item = (String, MirrorDescription)> {
        let rollup = model.rollups.get(self.from).map(|rollup| rollup.name.to_string()).unwrap_or_default();
        let onto = model.entity_name(self.onto);
        self.attributes.iter().map(move |attribute| {
            let measure = attribute.measure.to_string();
            let bind = self.bindings.iter().map(|(variable, name)| (variable, name.to_string())).collect();
            let described = MirrorDescription { rollup: rollup.clone(), measure, bind };
            (format!("{onto}.{}", attribute.path), described)
        })
    }
}

/// A mirror whose two ends are known.
struct MirrorCompiler<'p, 'c, 's, 'd> {
    compiler: &'p mut ModelCompiler<'c, 's>,
    owner: String,
    onto: usize,
    from: usize,
    /// The names of entity and rollup in the model file.
    names: [Located<&'d str>; 2],
    /// Path and measure.
    attributes: Vec<(Located<&'d str>, Located<&'d str>)>,
    bindings: BindingSettings<'d>,
    /// Whether a binding was reported.
    has_wrong_bindings: bool,
}

/// A variable of the rollup's key that is an output of a lookup.
#[derive(PartialEq)]
struct LookupVariable {
    lookup: usize,
    output: usize,
    variable: usize,
}

/// The keys of a mirror.
pub(super) const KEYS: [&str; 4] = ["onto", "from", "bind", "attributes"];

/// Compiles a mirror.
pub(super) fn compile(compiler: &mut ModelCompiler<'_, '_>, settings: &SettingsTable<'_>) -> Option<()> {
    let SettingsTable { owner, at, .. } = settings;
    let problems = &mut *compiler.problems;
    let names = [settings.required_text("onto", problems), settings.required_text("from", problems)];
    let attributes = settings.required_pairs("attributes", problems);
    let bindings = BindingSettings::read(settings, problems);
    let [Some(onto), Some(from)] = names else { return None };
    let names = [onto, from];
    let entity = compiler.entity_named(owner, onto);
    let rollup = compiler.rollup_named(owner, from);
    let (Some(onto), Some(from)) = (entity, rollup) else { return Some(()) };
    MirrorCompiler {
        compiler,
        owner: owner.clone(),
        onto,
        from,
        names,
        attributes,
        bindings,
        has_wrong_bindings: false,
    }
    .compile(*at);
    Some(())
}

impl MirrorCompiler<'_, '_, '_, '_> {
    fn compile(mut self, at: usize) {
        self.check_rollup();
        self.check_bindings();
        let pairs = self.attributes.clone();
        let attributes: Vec<MirroredAttribute> =
            pairs.into_iter().filter_map(|(path, measure)| self.attribute(path, measure)).collect();
        if self.attributes.is_empty() {
            self.report(
                ProblemCode::EmptySetting,
                at,
                "`attributes` is empty; name an attribute and a measure",
            );
        }
        let (lookup, rollup_variables) = self.rollup_variables();
        let item_variables = self.item_variables();
        let Self { compiler, onto, from, bindings, .. } = self;
        let bindings = bindings.bindings();
        let index = compiler.model.mirrors.len();
        if let Some(entity) = compiler.model.entities.get_mut(onto) {
            entity.mirrors.push(index);
        }
        if let Some(rollup) = compiler.model.rollups.get_mut(from) {
            rollup.show(index, attributes.iter().map(|attribute| &attribute.measure));
        }
        let mirror = Mirror { onto, from, attributes, bindings, item_variables, rollup_variables, lookup };
        compiler.model.mirrors.push(mirror);
    }

    fn report(&mut self, code: ProblemCode, at: usize, problem: impl AsRef<str>) -> &mut ReportedProblem {
        self.compiler.findings.report(code, at, format!("{}: {}", self.owner, problem.as_ref()))
    }

    fn rollup(&self) -> Option<&Rollup> {
        self.compiler.model.rollups.get(self.from)
    }

    fn check_rollup(&mut self) {
        let Some(rollup) = self.rollup() else { return };
        let (name, is_sharded, expires) =
            (Arc::clone(&rollup.name), rollup.shards > 1, rollup.lifetime.is_some());
        let at = self.names[1].at;
        if is_sharded {
            self.report(ProblemCode::UnfitMirrorRollup, at, format!("rollup `{name}` is sharded, and no single item holds what is to be shown; count it into a rollup of its own"));
        }
        if expires {
            self.report(ProblemCode::UnfitMirrorRollup, at, format!("rollup `{name}` expires, but what items show of it would stay; count it into a rollup that does not"));
        }
    }

    /// Every binding is of a variable of the item's key, to a variable of the rollup's key.
    fn check_bindings(&mut self) {
        if !self.has_both_keys() {
            return;
        }
        let model = &self.compiler.model;
        let (Some(entity), Some(rollup)) = (model.entities.get(self.onto), self.rollup()) else { return };
        let (variables, known, name) =
            (entity.variables.clone(), rollup.variables.clone(), Arc::clone(&rollup.name));
        let are_known =
            self.bindings.check_variables(self.compiler, &self.owner, ("the item's key", &variables));
        let bound = variables.iter().filter_map(|variable| self.bindings.source(variable));
        let missing = bound.filter(|source| position(&known, source.value).is_none());
        let missing: Vec<_> = missing.map(|source| (source.value.to_owned(), source.at)).collect();
        self.has_wrong_bindings = !are_known || !missing.is_empty();
        for (source, at) in missing {
            let nearest = suggestion(&source, known.iter().map(|variable| &**variable));
            let message = format!("`bind`: the key of rollup `{name}` has no variable `{source}`{nearest}");
            self.report(ProblemCode::UnfitBinding, at, message);
        }
    }

    /// The variable of the rollup's key that a variable of the item's key is.
    fn source<'v>(&'v self, variable: &'v str) -> &'v str {
        self.bindings.source(variable).map_or(variable, |source| source.value)
    }

    fn attribute(&mut self, path: Located<&str>, measure: Located<&str>) -> Option<MirroredAttribute> {
        let measures = self.compiler.measures.iter().filter(|held| held.rollup == self.from);
        let measures: Vec<Arc<str>> = measures.map(|held| Arc::clone(&held.attribute)).collect();
        if position(&measures, measure.value).is_none() {
            let nearest = suggestion(measure.value, measures.iter().map(|name| &**name));
            let message = format!("its rollup has no measure `{}`{nearest}", measure.value);
            self.report(ProblemCode::UndeclaredPart, measure.at, message);
        }
        let place = match path.value.parse::<AttributePath>() {
            Ok(place) => place,
            Err(problem) => {
                let problem = format!("`{}` is not an attribute path; {problem}", path.value);
                self.report(ProblemCode::InvalidPath, path.at, problem);
                return None;
            }
        };
        if place.names().len() > MAX_PATH_NAMES {
            let problem = format!(
                "the path of `{}` has {} names, and DynamoDB nests maps at most {MAX_PATH_NAMES} deep; choose a shorter path",
                measure.value,
                place.names().len()
            );
            self.report(ProblemCode::InvalidPath, path.at, problem);
        }
        let companions = COMPANION_ENDINGS.map(|suffix| place.with_suffix(suffix));
        let [revision_path, of_path] = companions.clone();
        let mirrored = MirroredPath { onto: self.onto, path: place.clone(), companions, at: path.at };
        self.check_companions(&mirrored);
        self.check_indexes(&mirrored);
        self.compiler.mirrored.push(mirrored);
        Some(MirroredAttribute {
            image: interned_path(&place, &mut self.compiler.model.attributes),
            path: place,
            revision_path,
            of_path,
            measure: Arc::from(measure.value),
        })
    }

    /// The attributes next to a mirrored one are Afterwrite's own: the application has no attribute of such a name.
    fn check_companions(&mut self, mirrored: &MirroredPath) {
        let ModelCompiler { scopes, secrets, .. } = &*self.compiler;
        let declared = scopes.get(self.onto).into_iter().flat_map(|scope| &scope.attributes);
        let declared = declared.filter_map(|(name, _)| name.parse::<AttributePath>().ok());
        let secrets = secrets.iter().filter(|(entity, ..)| *entity == self.onto);
        let mut names = declared.chain(secrets.map(|(_, path, _)| path.clone()));
        // A map that holds the mirrored attribute may be declared.
        let taken = names.find(|name| mirrored.companions.iter().any(|companion| name.is_within(companion)));
        let Some(taken) = taken else { return };
        let problem = format!(
            "`{}` is written together with its `_rev` and `_of`, and the entity has an attribute `{taken}`; choose another path",
            mirrored.path
        );
        let entity = self.compiler.places.entities.get(self.onto).copied();
        let problem = self.report(ProblemCode::UnfitMirrorPath, mirrored.at, problem);
        if let Some(entity) = entity {
            problem.related(entity, "the entity");
        }
    }

    /// The indexes through which lookups find such items do not depend on mirrored attributes.
    fn check_indexes(&mut self, mirrored: &MirroredPath) {
        let ModelCompiler { model, places, .. } = &*self.compiler;
        let lookups = model.lookups.iter().zip(&places.lookups);
        let lookups = lookups.filter(|(lookup, _)| lookup.of == self.onto && lookup.index().is_some());
        let mut keys = lookups.flat_map(|(lookup, at)| {
            lookup.key.iter().map(|(attribute, _)| (AttributePath::from(attribute), &lookup.name, *at))
        });
        let Some((attribute, lookup, place)) = keys.find(|(attribute, ..)| mirrored.writes(attribute)) else {
            return;
        };
        let problem = format!(
            "`{}`: lookup `{lookup}` finds items by `{attribute}`, and an item's contributions must not depend on what is mirrored; mirror onto another attribute",
            mirrored.path
        );
        self.report(ProblemCode::MirrorFeedback, mirrored.at, problem).related(place, "the lookup");
    }

    /// From the rollup to the item: every variable of the item's key is one of the rollup's.
    fn item_variables(&mut self) -> Vec<usize> {
        let model = &self.compiler.model;
        let (Some(entity), Some(rollup)) = (model.entities.get(self.onto), self.rollup()) else {
            return Vec::new();
        };
        let place = |variable: &Arc<str>| position(&rollup.variables, self.source(variable));
        let missing = entity.variables.iter().find(|variable| place(variable).is_none());
        if let Some(missing) = missing
            && self.has_both_keys()
        {
            let problem = format!(
                "the item cannot be found from rollup `{}`: its key lacks `{{{missing}}}`, which the item's key needs; add it to the rollup's key (if the counted items lack it, from a lookup), or name the variable that it is in `bind`",
                rollup.name
            );
            self.report(ProblemCode::UnreachableMirror, self.names[1].at, problem);
            return Vec::new();
        }
        entity.variables.iter().filter_map(place).collect()
    }

    /// From the item to the rollup: every variable of the rollup's key is one of the item's, or an output of the one lookup of
    /// such items that the aggregates use.
    fn rollup_variables(&mut self) -> (Option<LookupUse>, Vec<(Term, ValueFormat)>) {
        let outputs = self.lookup_variables();
        let (at, onto) = (self.names[1].at, self.names[0].value);
        let lookup = outputs.first().map(|output| output.lookup);
        if outputs.iter().any(|other| Some(other.lookup) != lookup) {
            let message = format!("its rollup's key comes from several lookups of `{onto}`; use one");
            self.report(ProblemCode::UnreachableMirror, at, message);
        }
        let model = &self.compiler.model;
        let (Some(entity), Some(rollup)) = (model.entities.get(self.onto), self.rollup()) else {
            return (None, Vec::new());
        };
        let mut terms = Vec::new();
        let mut problems = Vec::new();
        for (index, variable) in rollup.variables.iter().enumerate() {
            if let Some(LookupVariable { output, .. }) =
                outputs.iter().find(|output| output.variable == index)
            {
                let reading = self.reading_of(lookup, *output);
                let format = rollup.output_format(variable, &mut problems).read_as(reading);
                terms.push((Term::LookupOutput { lookup: 0, output: *output }, format));
            } else if let Some(key) = entity.variables.iter().position(|own| *self.source(own) == **variable)
            {
                terms.push((Term::Key(key), ValueFormat::Plain));
            } else {
                problems.push(format!(
                    "rollup `{}` cannot be found from the item: `{{{variable}}}` is neither a variable of the item's key nor an output of a lookup of `{onto}`; remove it from the rollup's key, define it there, or name it in `bind`",
                    rollup.name
                ));
            }
        }
        let lookup = lookup.filter(|lookup| !self.compiler.broken_lookups.contains(lookup));
        let offer = lookup.and_then(|lookup| entity.offers.iter().find(|offer| offer.lookup == lookup));
        if let Some(lookup) = lookup.and_then(|lookup| model.lookups.get(lookup))
            && let Some(missing) =
                lookup.inputs.iter().find(|input| position(&rollup.variables, self.source(input)).is_none())
            && problems.is_empty()
        {
            problems.push(format!(
                "lookup `{}` cannot be used from rollup `{}`: the rollup's key lacks `{{{missing}}}`; add it to the rollup's key",
                lookup.name, rollup.name
            ));
        }
        let key = offer.map(|offer| LookupUse {
            lookup: offer.lookup,
            inputs: offer.inputs.clone(),
            outputs: offer.outputs.clone(),
        });
        if self.has_both_keys() {
            for problem in problems {
                self.report(ProblemCode::UnreachableMirror, at, problem);
            }
        }
        (key, terms)
    }

    /// How an output of a lookup is read as a time.
    fn reading_of(&self, lookup: Option<usize>, output: usize) -> TimeReading {
        let types = lookup.and_then(|lookup| self.compiler.output_types.get(lookup));
        types.and_then(|types| types.get(output)).map(|(_, reading)| *reading).unwrap_or_default()
    }

    /// Whether both keys and the bindings are known; otherwise the cause was reported before.
    fn has_both_keys(&self) -> bool {
        !self.has_wrong_bindings
            && self
                .rollup()
                .is_some_and(|rollup| !rollup.partition.pieces.is_empty() && !rollup.sort.pieces.is_empty())
            && !self.compiler.scopes.get(self.onto).is_some_and(|scope| scope.is_incomplete)
    }

    /// The variables of the rollup's key that come from lookups of `onto`, in the aggregates whose measures are shown.
    fn lookup_variables(&self) -> Vec<LookupVariable> {
        let model = &self.compiler.model;
        let Some(rollup) = self.rollup() else { return Vec::new() };
        let is_shown =
            |attribute: &str| self.attributes.iter().any(|(_, measure)| measure.value == attribute);
        let measures = self.compiler.measures.iter();
        let measures = measures.filter(|held| held.rollup == self.from && is_shown(&held.attribute));
        let aggregates = measures.filter_map(|held| model.aggregates.get(held.aggregate));
        let mut found = Vec::new();
        for aggregate in aggregates {
            for destination in aggregate.into.iter().filter(|destination| destination.rollup == self.from) {
                let partition = rollup.partition.pieces.iter().zip(&destination.partition.pieces);
                let sort = rollup.sort.pieces.iter().zip(&destination.sort.pieces);
                for (piece, bound) in partition.chain(sort) {
                    let Some((variable, _)) = piece.variable() else { continue };
                    let Some((lookup, output)) = bound.term().and_then(Term::lookup_output) else { continue };
                    let Some(lookup) = aggregate.lookups.get(lookup).map(|key| key.lookup) else { continue };
                    let is_of_onto = model.lookups.get(lookup).is_some_and(|lookup| lookup.of == self.onto);
                    let variable = LookupVariable { lookup, output, variable };
                    if is_of_onto && !found.contains(&variable) {
                        found.push(variable);
                    }
                }
            }
        }
        found
    }
}
