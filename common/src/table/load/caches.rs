//! Caches: whose keys and paths go stale when an item changes.

use super::document::CacheSettings;
use super::part::EntityContext;
use super::reader::Located;
use super::resolve::ModelCompiler;
use super::scope::EntityScope;
use crate::table::{BoundTemplate, CacheRule, InternedPath, Template, Term, ValueFormat};

/// Compiles a cache, for each of the entities that it is of.
pub(super) fn cache(compiler: &mut ModelCompiler<'_, '_, '_>, settings: &CacheSettings<'_>) {
    for (position, name) in settings.of.iter().enumerate() {
        let owner = format!("cache of `{}`", name.value);
        let Some(of) = compiler.entity_named(&owner, *name) else { continue };
        if settings.of.iter().take(position).any(|other| other.value == name.value) {
            compiler.report(name.at, format!("{owner}: the entity is named twice"));
            continue;
        }
        let entity = std::mem::take(compiler.scopes.get_mut(of).unwrap_or(&mut EntityScope::default()));
        let mut part =
            EntityContext { compiler, owner, entity_name: name.value, entity: &entity, outputs: Vec::new() };
        let rule = part.rule(of, settings);
        if let Some(scope) = compiler.scopes.get_mut(of) {
            *scope = entity;
        }
        let index = compiler.model.caches.len();
        if let Some(entity) = compiler.model.entities.get_mut(of) {
            entity.caches.push(index);
        }
        compiler.model.caches.push(rule);
    }
}

impl EntityContext<'_, '_, '_, '_> {
    fn rule(&mut self, of: usize, settings: &CacheSettings<'_>) -> CacheRule {
        let keys = settings.keys.iter().filter_map(|key| self.template(*key)).collect();
        for path in &settings.paths {
            self.refuse_unfit_path(*path);
        }
        let paths = settings.paths.iter().filter_map(|path| self.template(*path)).collect();
        let depends_on = settings.depends_on.iter().filter_map(|name| self.attribute(*name)).collect();
        let owner = self.owner.clone();
        let when = settings.when.and_then(|when| self.pattern(&owner, when));
        CacheRule { of, keys, paths, when, depends_on, remedy: settings.remedy }
    }

    fn template(&mut self, text: Located<&str>) -> Option<BoundTemplate> {
        let mut variables = Vec::new();
        match Template::compile(text.value, &mut variables) {
            Ok(template) => Some(self.bind(&self.owner.clone(), text.at, &template, &variables)),
            Err(problem) => {
                self.compiler.report(text.at, format!("{}: {problem}", self.owner));
                None
            }
        }
    }

    /// CloudFront takes paths as URLs have them, with a wildcard at their end alone.
    fn refuse_unfit_path(&mut self, path: Located<&str>) {
        let owner = &self.owner;
        let problem = if !path.value.starts_with('/') {
            Some("a path begins with `/`".to_owned())
        } else if path.value.strip_suffix('*').unwrap_or(path.value).contains('*') {
            Some("CloudFront knows `*` only at the end of a path".to_owned())
        } else {
            let is_fit = |character: &char| character.is_ascii_graphic() && !"\"<>\\^`|".contains(*character);
            let unfit = path.value.chars().find(|character| !is_fit(character));
            unfit.map(|unfit| format!("a path is written as URLs have it: percent-encode {unfit:?}"))
        };
        if let Some(problem) = problem {
            self.compiler.problems.report(path.at, format!("{owner}: path: {problem}"));
        }
    }

    /// An attribute that the rule depends on.
    fn attribute(&mut self, name: Located<&str>) -> Option<InternedPath> {
        let resolved = self.resolve(&self.owner.clone(), name)?;
        let problem = match resolved.term {
            Term::Attribute(path) if resolved.format == ValueFormat::Plain => return Some(path),
            Term::Attribute(_) => "takes no format; name the attribute itself",
            Term::Key(_) => "is part of the item's key, which never changes",
            Term::Derived(_) | Term::LookupOutput { .. } => {
                "is derived; name the attributes it is derived from"
            }
        };
        let message = format!("{}: `depends_on`: `{}` {problem}", self.owner, name.value);
        self.compiler.report(name.at, message);
        None
    }
}
