//! How conditions read: as a model file has them.

use super::{Matcher, MatcherName, Pattern, PatternCondition, TextTest};
use crate::table::ModelNotation;

impl ModelNotation<'_> {
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
}

fn list(matchers: &[Matcher]) -> String {
    let matchers: Vec<String> = matchers.iter().map(matcher).collect();
    format!("[{}]", matchers.join(", "))
}

fn matcher(matcher: &Matcher) -> String {
    let (name, argument) = match matcher {
        Matcher::Text(text) => return format!("{text:?}"),
        Matcher::Number(number) => return number.to_string(),
        Matcher::Bool(value) => return value.to_string(),
        Matcher::Null => (MatcherName::Null.name(), "true".to_owned()),
        Matcher::Part(test, text) => (test.name(), format!("{text:?}")),
        Matcher::Exists(wanted) => (MatcherName::Exists.name(), wanted.to_string()),
        Matcher::Numeric(bounds) => {
            let bounds = bounds.iter();
            let bounds = bounds.map(|(comparison, bound)| format!("\"{}\", {bound}", comparison.name()));
            (MatcherName::Numeric.name(), format!("[{}]", bounds.collect::<Vec<_>>().join(", ")))
        }
        Matcher::AnythingBut(excluded) => (MatcherName::AnythingBut.name(), exclusion(excluded)),
    };
    format!("{{ {name} = {argument} }}")
}

/// Values are listed; tests of texts are all of one kind, which is named once.
fn exclusion(excluded: &[Matcher]) -> String {
    let tests = excluded.iter().map(text_test).collect::<Option<Vec<_>>>();
    match tests.as_deref() {
        Some([(test, text)]) => format!("{{ {} = {text:?} }}", test.name()),
        Some(tests @ [(test, _), ..]) => {
            let texts: Vec<&str> = tests.iter().map(|(_, text)| *text).collect();
            format!("{{ {} = {texts:?} }}", test.name())
        }
        Some([]) | None => list(excluded),
    }
}

fn text_test(matcher: &Matcher) -> Option<(TextTest, &str)> {
    if let Matcher::Part(test, text) = matcher { Some((*test, text)) } else { None }
}
