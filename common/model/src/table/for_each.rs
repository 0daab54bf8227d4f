//! The elements of a list, set or map, each of which counts as an item does: `for_each` and `at_most` of an aggregate.

use std::sync::Arc;

use super::load::compiler::EntityContext;
use super::load::problem::{ProblemCode, ProblemCollector};
use super::load::reader::{Located, SettingsTable};
use super::load::scope::ScopeElement;
use super::value_type::ElementType;
use super::{ModelNotation, Term};

/// The elements that an aggregate counts: of a list, set or map.
#[derive(Clone, Debug)]
pub struct ForEach {
    /// How the model calls an element; [`Term::Element`] is a value of it.
    pub element: Arc<str>,
    /// The list, set or map.
    pub of: Term,
    /// How many elements an item may have.
    pub at_most: usize,
}

impl ForEach {
    /// The name of a map's member, as a value of the element.
    pub const KEY: &str = "key";
    /// The value of a map's member.
    pub const VALUE: &str = "value";

    /// The elements in words: `line of lines, at most 20`.
    pub(super) fn describe(&self, notation: &ModelNotation<'_>) -> String {
        format!("{} of {}, at most {}", self.element, notation.term(&self.of), self.at_most)
    }
}

/// The largest `at_most`: a limit on the work for one item.
pub(super) const MAX_ELEMENTS: i64 = 10_000;

/// How many elements an item may have, which `for_each` needs.
pub(super) fn written_at_most(
    settings: &SettingsTable<'_>,
    problems: &mut ProblemCollector<'_>,
) -> Option<usize> {
    if settings.get("for_each").is_some() {
        settings.require("at_most", problems);
    }
    let at_most = settings.integer("at_most", 1..=MAX_ELEMENTS, problems)?;
    if settings.get("for_each").is_none() {
        let message =
            format!("{}: `at_most` limits the elements of `for_each`, which is missing", settings.owner);
        problems.report(ProblemCode::UnfitElements, settings.at, message);
    }
    usize::try_from(at_most).ok()
}

impl EntityContext<'_, '_, '_> {
    /// The elements that the aggregate counts; their name joins the scope.
    pub(super) fn for_each(
        &mut self,
        written: &[(Located<&str>, Located<&str>)],
        at_most: Option<usize>,
    ) -> Option<ForEach> {
        let owner = format!("{}: `for_each`", self.owner);
        let [(name, of)] = written else {
            if let Some((second, _)) = written.get(1) {
                let message = format!(
                    "{owner}: an aggregate counts the elements of one attribute; declare another aggregate for `{}`",
                    second.value
                );
                self.report(ProblemCode::UnfitElements, second.at, message);
            }
            return None;
        };
        self.compiler.check_name(&owner, *name);
        let (scope, interner) = self.names();
        if scope.resolve(name.value, interner).is_ok() {
            let message = format!(
                "{owner}: `{}` means something else already; give the element another name",
                name.value
            );
            self.report(ProblemCode::UnfitElements, name.at, message);
        }
        let resolved = self.resolve(&owner, *of);
        let element: Arc<str> = Arc::from(name.value);
        let known_type = resolved.as_ref().and_then(|resolved| resolved.value_type.elements());
        // Uses of an element of unknown type are not reported as well.
        let element_type = known_type.unwrap_or(ElementType::Unknown);
        self.element = Some(ScopeElement { name: Arc::clone(&element), element_type });
        let resolved = resolved?;
        if resolved.term.output_lookup().is_some() {
            let message = format!(
                "{owner}: `{}` is an output of a lookup; name a list, a set or a map of the item itself",
                of.value
            );
            self.report(ProblemCode::UnfitElements, of.at, message);
        } else if !resolved.format.is_plain() {
            let message = format!("{owner}: `{}`: elements take no formats; leave it out", of.value);
            self.report(ProblemCode::UnusableFormat, of.at, message);
        } else if known_type.is_none() {
            let described = resolved.value_type.described();
            let message = format!("{owner}: `{}` is {described}; name a list, a set or a map", of.value);
            self.report(ProblemCode::UnfitElements, of.at, message);
        }
        Some(ForEach { element, of: resolved.term, at_most: at_most? })
    }
}
