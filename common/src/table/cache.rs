//! Cache rules, the cache keys and paths that hold a copy of an item: `[[caches]]`; and what is archived.

use std::time::Duration;

use serde::Serialize;

use super::duration::{duration, parse_short};
use super::load::compiler::{EntityContext, ModelCompiler};
use super::load::problem::{ProblemCode, ProblemCollector};
use super::load::reader::{Located, RawValue, SettingsTable, place};
use super::named::{NamedValue as _, alternatives, meant, named_values};
use super::{BoundTemplate, InternedPath, Model, ModelNotation, Pattern, Term, ValueFormat};

/// Readers find nothing cached while a tombstone stands: for longer than an hour the cache would be of no use.
const LONGEST_TOMBSTONE: Duration = Duration::from_secs(60 * 60);

/// The cache keys and paths that are stale once an item of one entity has changed. A rule that is `of` several
/// entities is one of these for each.
#[derive(Debug)]
pub struct CacheRule {
    /// The entity: an index into [`Model::entities`].
    pub of: usize,
    /// Cache keys.
    pub keys: Vec<BoundTemplate>,
    /// CloudFront paths. Each begins with `/`; a `*` at its end is a wildcard.
    pub paths: Vec<BoundTemplate>,
    /// The condition on an image for keys and paths to be rendered from it.
    pub when: Option<Pattern>,
    /// If any are named: a change of an item that touches none of these makes nothing stale.
    pub depends_on: Vec<InternedPath>,
    /// The action on the keys.
    pub remedy: CacheRemedy,
}

/// The action on a stale cache key. Each is carried out by the cache itself in one step, so that it holds even if the function
/// stops the instant the cache has replied; [`crate::sink::Cache`] documents which races each closes and what readers must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheRemedy {
    /// The key is removed. A reader that read the item before the change may still store what it read afterwards.
    Delete,
    /// The key holds a tombstone for this long; readers that store only if the key is absent cannot store meanwhile.
    Tombstone(Duration),
    /// The key's generation grows, and what is stored under an earlier one is never read again.
    Generation,
}

named_values! {
    /// The name of a remedy in model files.
    pub(super) enum RemedyName {
        Delete = "delete",
        Tombstone = "tombstone",
        Generation = "generation",
    }
}

impl CacheRemedy {
    fn remedy_name(self) -> RemedyName {
        match self {
            Self::Delete => RemedyName::Delete,
            Self::Tombstone(_) => RemedyName::Tombstone,
            Self::Generation => RemedyName::Generation,
        }
    }

    /// The remedy in words: `tombstone for 5 seconds`.
    #[must_use]
    pub fn describe(self) -> String {
        let name = self.remedy_name().name();
        match self {
            Self::Delete | Self::Generation => name.to_owned(),
            Self::Tombstone(time) => format!("{name} for {}", duration(time)),
        }
    }
}

named_values! {
    /// Which change records are archived.
    #[derive(Default)]
    pub enum ArchiveScope {
        /// Every one, those of items that match no entity too.
        #[default]
        All = "all",
        /// Those of items that match an entity.
        Matched = "matched",
    }
}

impl CacheRule {
    /// Calls `visit` with every term of its templates and its condition.
    pub(super) fn each_term(&self, visit: &mut impl FnMut(&Term)) {
        self.keys.iter().chain(&self.paths).flat_map(BoundTemplate::terms).for_each(&mut *visit);
        self.when.iter().for_each(|condition| condition.each_term(visit));
    }

    /// Calls `visit` with every attribute that it reads.
    pub(super) fn each_attribute(&self, visit: &mut impl FnMut(&InternedPath)) {
        self.each_term(&mut |term| term.attribute().into_iter().for_each(&mut *visit));
        self.depends_on.iter().for_each(visit);
    }

    /// The rule in words.
    #[must_use]
    pub fn describe(&self, model: &Model) -> CacheDescription {
        let notation = ModelNotation::of(model, self.of, &[]);
        CacheDescription {
            of: model.entity_name(self.of),
            keys: self.keys.iter().map(|key| notation.template(key)).collect(),
            paths: self.paths.iter().map(|path| notation.template(path)).collect(),
            when: self.when.as_ref().map(|when| notation.condition(when)),
            depends_on: self.depends_on.iter().map(|path| notation.attribute(path)).collect(),
            remedy: self.remedy.describe(),
        }
    }
}

/// A cache rule in words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CacheDescription {
    /// The entity.
    pub of: String,
    /// The templates of cache keys.
    pub keys: Vec<String>,
    /// The templates of CloudFront paths.
    pub paths: Vec<String>,
    /// The condition on an image.
    pub when: Option<String>,
    /// The attributes whose changes make the keys stale; none for all.
    pub depends_on: Vec<String>,
    /// The action on the keys.
    pub remedy: String,
}

/// The keys of a cache rule.
pub(super) const KEYS: [&str; 6] = ["of", "keys", "paths", "when", "depends_on", "remedy"];

/// Compiles a cache rule, for each of its entities.
pub(super) fn compile(compiler: &mut ModelCompiler<'_, '_>, settings: &SettingsTable<'_>) -> Option<()> {
    let SettingsTable { owner, at, .. } = settings;
    let problems = &mut *compiler.problems;
    let of = settings.required_texts("of", problems);
    if settings.is_empty_list("of") {
        problems.report(ProblemCode::EmptySetting, *at, format!("{owner}: `of` is empty; name an entity"));
    }
    let (keys, paths) = (settings.texts("keys", problems), settings.texts("paths", problems));
    let names_any = |name| settings.get(name).is_some() && !settings.is_empty_list(name);
    if !names_any("keys") && !names_any("paths") {
        let message = format!("{owner}: it names neither `keys` nor `paths`; name one");
        problems.report(ProblemCode::EmptySetting, *at, message);
    }
    let remedy = settings.get("remedy").map_or(CacheRemedy::Delete, |value| {
        if !names_any("keys") {
            let message = format!("{owner}: `remedy` applies to `keys`, and there are none; leave it out");
            problems.report(ProblemCode::InvalidCacheRule, place(value), message);
        }
        read_remedy(&settings.called("remedy"), value, problems)
    });
    let depends_on = settings.texts("depends_on", problems);
    if settings.is_empty_list("depends_on")
        && let Some(value) = settings.get("depends_on")
    {
        let message =
            format!("{owner}: `depends_on` is empty; name an attribute, or leave it out for any change");
        problems.report(ProblemCode::EmptySetting, place(value), message);
    }
    for (position, name) in of.iter().enumerate() {
        let owner = format!("cache of `{}`", name.value);
        let Some(entity) = compiler.entity_named(&owner, *name) else { continue };
        if let Some(first) = of.iter().take(position).find(|other| other.value == name.value) {
            let message = format!("{owner}: the entity is named twice; name it once");
            compiler
                .report(ProblemCode::DuplicateName, name.at, message)
                .related(first.at, "first named here");
            continue;
        }
        let mut context = compiler.context(&owner, Some(entity));
        let keys = keys.iter().filter_map(|key| context.cache_template(*key)).collect();
        paths.iter().for_each(|path| context.check_path(*path));
        let paths = paths.iter().filter_map(|path| context.cache_template(*path)).collect();
        let depends_on = depends_on.iter().filter_map(|name| context.depended_attribute(*name)).collect();
        let when = context.pattern(&owner, settings.get("when"));
        let index = compiler.model.caches.len();
        if let Some(entity) = compiler.model.entities.get_mut(entity) {
            entity.caches.push(index);
        }
        compiler.places.caches.push(*at);
        compiler.model.caches.push(CacheRule { of: entity, keys, paths, when, depends_on, remedy });
    }
    Some(())
}

fn read_remedy(called: &str, value: RawValue<'_>, problems: &mut ProblemCollector<'_>) -> CacheRemedy {
    let tombstone = RemedyName::Tombstone.name();
    if let Some(table) = value.get_ref().as_table().filter(|table| table.contains_key(tombstone)) {
        let settings = SettingsTable::new(called.to_owned(), place(value), table, &[tombstone], problems);
        let Some(written) = settings.text(tombstone, problems) else { return CacheRemedy::Delete };
        let time = parse_short(written.value).filter(|time| *time <= LONGEST_TOMBSTONE);
        if time.is_none() {
            let message =
                format!("{called}: `tombstone` must be a time like \"5s\" (ms, s or m), at most \"60m\"");
            problems.report(ProblemCode::InvalidTime, written.at, message);
        }
        return time.map_or(CacheRemedy::Delete, CacheRemedy::Tombstone);
    }
    let written = value.get_ref().as_str().unwrap_or_default();
    match RemedyName::of_name(written) {
        Some(RemedyName::Delete) => CacheRemedy::Delete,
        Some(RemedyName::Generation) => CacheRemedy::Generation,
        Some(RemedyName::Tombstone) | None => {
            let message = format!(
                "{called} must be {}; a tombstone has a time: {{ tombstone = \"5s\" }}{}",
                alternatives::<RemedyName>(),
                meant::<RemedyName>(written)
            );
            problems.report(ProblemCode::UnknownWord, place(value), message);
            CacheRemedy::Delete
        }
    }
}

impl EntityContext<'_, '_, '_> {
    fn cache_template(&mut self, text: Located<&str>) -> Option<BoundTemplate> {
        let (owner, mut variables) = (self.owner.clone(), Vec::new());
        let template = self.compiler.template(&owner, text, &mut variables)?;
        let names: Vec<_> = variables.into_iter().map(|value| Located { value, at: text.at }).collect();
        Some(self.bind(&owner, &template, &names))
    }

    /// CloudFront takes paths in the form that URLs have, with a wildcard only at the end.
    fn check_path(&mut self, path: Located<&str>) {
        let problem = if !path.value.starts_with('/') {
            Some("a path begins with `/`".to_owned())
        } else if path.value.strip_suffix('*').unwrap_or(path.value).contains('*') {
            Some("CloudFront takes `*` only at the end of a path".to_owned())
        } else {
            let is_fit = |character: &char| character.is_ascii_graphic() && !"\"<>\\^`|".contains(*character);
            let unfit = path.value.chars().find(|character| !is_fit(character));
            unfit.map(|unfit| format!("a path is written as in a URL: percent-encode {unfit:?}"))
        };
        if let Some(problem) = problem {
            let message = format!("{}: path: {problem}", self.owner);
            self.report(ProblemCode::InvalidCacheRule, path.at, message);
        }
    }

    /// An attribute that the rule depends on.
    fn depended_attribute(&mut self, name: Located<&str>) -> Option<InternedPath> {
        let resolved = self.resolve(&self.owner.clone(), name)?;
        let problem = match resolved.term {
            Term::Attribute(path) if resolved.format == ValueFormat::Plain => return Some(path),
            Term::Attribute(_) => "takes no format; name the attribute itself",
            Term::Key(_) => "is part of the item's key, which never changes",
            Term::Derived(_) | Term::LookupOutput { .. } | Term::Element(_) => {
                "is derived; name the attributes it is derived from"
            }
        };
        let message = format!("{}: `depends_on`: `{}` {problem}", self.owner, name.value);
        self.report(ProblemCode::InvalidCacheRule, name.at, message);
        None
    }
}
