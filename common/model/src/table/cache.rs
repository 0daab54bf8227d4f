//! Cache rules: the cache keys and paths that hold a copy of an item (`[[caches]]`); and the scope of the archive.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use super::duration::{duration, parse_short};
use super::load::compiler::{EntityContext, ModelCompiler};
use super::load::problem::{ProblemCode, ProblemCollector};
use super::load::reader::{Located, RawValue, SettingsTable, place};
use super::named::{NamedValue as _, alternatives, meant, named_values};
use super::template::split_at_brace;
use super::{BoundPiece, BoundTemplate, Entity, InternedPath, Model, ModelNotation, Pattern, Term};

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
    pub paths: Vec<PathTemplate>,
    /// The condition on an image for keys and paths to be rendered from it.
    pub when: Option<Pattern>,
    /// If any are named: a change of an item that touches none of these makes nothing stale.
    pub depends_on: Vec<InternedPath>,
    /// The action on the keys.
    pub remedy: CacheRemedy,
}

/// The template of a CloudFront path.
#[derive(Debug)]
pub struct PathTemplate {
    /// The template.
    pub template: BoundTemplate,
    /// The values, by their places among the template's values, that are paths themselves: `{page:path}`. Their slashes stay.
    path_values: BTreeSet<usize>,
}

impl PathTemplate {
    /// Whether the value at this place among the template's values is a path: its slashes separate segments.
    #[must_use]
    pub fn is_path(&self, value: usize) -> bool {
        self.path_values.contains(&value)
    }

    /// As the model writes it.
    fn written(&self, notation: &ModelNotation<'_>) -> String {
        let (mut text, mut value) = (String::new(), 0);
        for piece in &self.template.pieces {
            match piece {
                BoundPiece::Literal(literal) => text.push_str(literal),
                BoundPiece::Value(term, format) => {
                    let suffix = if self.is_path(value) { PATH_FORMAT } else { "" };
                    text.push_str(&format!("{{{}{suffix}}}", notation.formatted(term, format)));
                    value += 1;
                }
            }
        }
        text
    }
}

/// The end of a variable whose value is a path.
const PATH_FORMAT: &str = ":path";

/// The action on a stale cache key. Each is carried out by the cache itself in one step, so that it holds even if the function
/// stops the instant the cache has replied; the trait `Cache` (`afterwrite-services`) documents which races each closes and what readers must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheRemedy {
    /// The key is removed. A reader that read the item before the change may still store the old value afterwards.
    Delete,
    /// The key holds a tombstone for this long; readers that store only if the key is absent cannot store meanwhile.
    Tombstone(Duration),
    /// The key's generation grows, and values under an earlier generation are never read again.
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
        /// Every record, also of items that match no entity.
        #[default]
        All = "all",
        /// Records of items that match an entity.
        Matched = "matched",
    }
}

impl CacheRule {
    /// Calls `visit` with every term of its templates and its condition.
    pub(super) fn each_term(&self, visit: &mut impl FnMut(&Term)) {
        let paths = self.paths.iter().map(|path| &path.template);
        self.keys.iter().chain(paths).flat_map(BoundTemplate::terms).for_each(&mut *visit);
        self.when.iter().for_each(|condition| condition.each_term(visit));
    }

    /// Calls `visit` with every attribute that its values are read or derived from; `entity` has the items.
    pub(super) fn each_attribute(&self, entity: &Entity, visit: &mut impl FnMut(&InternedPath)) {
        self.each_term(&mut |term| entity.attributes_of(term).for_each(&mut *visit));
        self.depends_on.iter().for_each(visit);
    }

    /// The rule in words.
    #[must_use]
    pub fn describe(&self, model: &Model) -> CacheDescription {
        let notation = ModelNotation::of(model, self.of, &[]);
        CacheDescription {
            of: model.entity_name(self.of),
            keys: self.keys.iter().map(|key| notation.template(key)).collect(),
            paths: self.paths.iter().map(|path| path.written(&notation)).collect(),
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
        let Some(entity) = compiler.source_named(&owner, *name) else { continue };
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
        let paths = paths.iter().filter_map(|path| context.path_template(*path)).collect();
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

/// A template of a path without its variables, whatever their formats. A template that cannot be read is reported as such.
fn literals(template: &str) -> String {
    let (mut literals, mut rest) = (String::new(), template);
    while let Some((literal, inside)) = rest.split_once('{') {
        literals.push_str(literal);
        let after = split_at_brace(inside).map_or("", |(_, after)| after);
        rest = after.strip_prefix('}').unwrap_or(after);
    }
    literals + rest
}

/// Words in the names of values that are usually paths.
const PATH_WORDS: [&str; 9] = ["path", "page", "url", "uri", "route", "file", "filename", "href", "pathname"];

fn literal(piece: &BoundPiece) -> Option<&str> {
    match piece {
        BoundPiece::Literal(text) => Some(text),
        BoundPiece::Value(..) => None,
    }
}

impl EntityContext<'_, '_, '_> {
    fn cache_template(&mut self, text: Located<&str>) -> Option<BoundTemplate> {
        let (owner, mut variables) = (self.owner.clone(), Vec::new());
        let template = self.compiler.template(&owner, text, &mut variables)?;
        let names: Vec<_> = variables.into_iter().map(|value| Located { value, at: text.at }).collect();
        Some(self.bind(&owner, &template, &names))
    }

    /// A path: a template in which `{name:path}` is a value whose slashes stay.
    fn path_template(&mut self, text: Located<&str>) -> Option<PathTemplate> {
        let (mut plain, mut path_values, mut names) = (String::new(), BTreeSet::new(), Vec::new());
        let mut rest = text.value;
        while let Some((literal, inside)) = rest.split_once('{') {
            let (written, after) = split_at_brace(inside).unwrap_or((inside, ""));
            let name = written.strip_suffix(PATH_FORMAT);
            path_values.extend(name.map(|_| names.len()));
            let name = name.unwrap_or(written);
            names.push(name);
            plain.extend([literal, "{", name]);
            rest = after;
        }
        plain.push_str(rest);
        let template = self.cache_template(Located { value: &plain, at: text.at })?;
        let path = PathTemplate { template, path_values };
        self.warn_of_slashes(&path, &names, text);
        Some(path)
    }

    /// A value that is a path but is not declared with `:path` makes a path that nobody requests.
    fn warn_of_slashes(&mut self, path: &PathTemplate, names: &[&str], text: Located<&str>) {
        let is_value = |piece: &&BoundPiece| literal(piece).is_none();
        let values = path.template.pieces.iter().enumerate().filter(|(_, piece)| is_value(piece));
        let mut unfit = Vec::new();
        for ((value, (place, piece)), name) in values.enumerate().zip(names) {
            let is_plain = match piece {
                BoundPiece::Value(_, format) => format.is_plain(),
                BoundPiece::Literal(_) => false,
            };
            // The whole path, without a wildcard.
            let is_whole = place == 1
                && path.template.pieces.first().and_then(literal).is_some_and(|begin| begin == "/")
                && path
                    .template
                    .pieces
                    .get(2)
                    .is_none_or(|end| literal(end).is_some_and(|end| end == "*" || end == "/*"));
            let words = name.rsplit('.').next().unwrap_or_default().to_lowercase();
            let is_called_path = words.split(['_', '-']).any(|word| PATH_WORDS.contains(&word));
            if is_plain && !path.is_path(value) && (is_whole || is_called_path) {
                unfit.push(*name);
            }
        }
        for name in unfit {
            let message = format!(
                "{}: path `{}`: a `/` in the value of `{name}` is written as %2F, and no reader requests such a path; write `{{{name}:path}}` if the value may have slashes",
                self.owner, text.value
            );
            self.report(ProblemCode::SlashesInPath, text.at, message);
        }
    }

    /// CloudFront takes paths in the form that URLs have, with a wildcard only at the end.
    fn check_path(&mut self, path: Located<&str>) {
        let problem = if !path.value.starts_with('/') {
            Some("a path begins with `/`".to_owned())
        } else if literals(path.value.strip_suffix('*').unwrap_or(path.value)).contains('*') {
            Some("CloudFront takes `*` only at the end of a path".to_owned())
        } else {
            let is_fit = |character: &char| character.is_ascii_graphic() && !"\"<>\\^`|".contains(*character);
            let unfit = literals(path.value).chars().find(|character| !is_fit(character));
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
            Term::Attribute(path) if resolved.format.is_plain() => return Some(path),
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
