//! Conditions, written as Lambda event filter patterns.
//!
//! The meaning is AWS's, on attribute values instead of JSON: fields are ANDed, a field's matchers ORed; a list or set
//! matches if one of its elements does; a field that is missing satisfies `exists = false` and nothing else, not even
//! `anything-but`. Numbers compare as exact decimals, and a number never equals a text.

mod notation;
pub(super) mod settings;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use super::Term;
use super::named::named_values;
use crate::record::{AttributeValue, Decimal, Timestamp};

/// A value as a condition or a measure sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'v> {
    /// An attribute, or an output of a lookup.
    Value(&'v AttributeValue<'v>),
    /// A variable of the key.
    Text(Cow<'v, str>),
    /// A derived ratio.
    Ratio {
        /// The dividend.
        numerator: Decimal,
        /// The divisor: above 0.
        denominator: Decimal,
    },
}

impl Operand<'_> {
    /// Whether it is DynamoDB's `NULL`, which stands for no value.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Value(value) if value.is_null())
    }

    /// The point in time that a value names: text in RFC 3339, a date, an hour, or a number of epoch seconds.
    #[must_use]
    pub fn time(&self) -> Option<Timestamp> {
        match self {
            Self::Text(text) => Timestamp::parse(text),
            Self::Value(AttributeValue::S(text)) => Timestamp::parse(text),
            Self::Value(AttributeValue::N(seconds)) => match seconds.to_i64() {
                Some(seconds) => Some(Timestamp::from_epoch_seconds(seconds)),
                None => {
                    let ms = seconds.times(&Decimal::from(1000)).ok()?.floor_divided_by(&Decimal::ONE)?;
                    Some(Timestamp::from_epoch_ms(ms))
                }
            },
            Self::Value(_) | Self::Ratio { .. } => None,
        }
    }
}

/// A condition on the values of one entity's scope.
///
/// | matcher | holds of |
/// |---|---|
/// | `"text"`, `7`, `0.10`, `true`, `{ null = true }` | an equal value of that type |
/// | `{ prefix = "a" }`, `{ suffix = "a" }` | a text that begins or ends so |
/// | `{ equals-ignore-case = "a" }` | a text that is equal in lower case |
/// | `{ numeric = [">", 0, "<=", 5] }` | a number within the bounds; or one bound, or `["=", 5]` |
/// | `{ anything-but = "a" }`, `{ anything-but = ["a", "b"] }` | a value, present and none of these |
/// | `{ anything-but = { prefix = "a" } }` | likewise with `prefix`, `suffix` or `equals-ignore-case` |
/// | `{ exists = true }`, `{ exists = false }` | any value, `NULL` included; none |
///
/// Two things differ from AWS: numbers are exact decimals of 38 digits, and `exists` also tests a map.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub(super) condition: PatternCondition,
}

#[derive(Clone, Debug)]
pub(super) enum PatternCondition {
    All(Vec<PatternCondition>),
    Any(Vec<PatternCondition>),
    Field { term: Term, matchers: Vec<Matcher> },
}

#[derive(Clone, Debug)]
pub(super) enum Matcher {
    Text(Arc<str>),
    Number(Decimal),
    Bool(bool),
    Null,
    /// A test of a text; the operand is [`TextTest::operand`].
    Part(TextTest, Arc<str>),
    Exists(bool),
    /// All comparisons hold.
    Numeric(Vec<(Comparison, Decimal)>),
    /// A value is present, and is not one of these.
    AnythingBut(Vec<Matcher>),
}

named_values! {
    /// A test of a text against another.
    pub(super) enum TextTest {
        IgnoreCase = "equals-ignore-case",
        Prefix = "prefix",
        Suffix = "suffix",
    }
}

impl TextTest {
    /// The text that is compared with, which the model file has as `text`.
    fn operand(self, text: &str) -> Arc<str> {
        match self {
            Self::Prefix | Self::Suffix => Arc::from(text),
            Self::IgnoreCase => Arc::from(text.to_lowercase()),
        }
    }

    fn holds(self, text: &str, operand: &str) -> bool {
        match self {
            Self::Prefix => text.starts_with(operand),
            Self::Suffix => text.ends_with(operand),
            Self::IgnoreCase => text.to_lowercase() == operand,
        }
    }
}

named_values! {
    /// The matchers that are tables, next to the [`TextTest`]s.
    pub(super) enum MatcherName {
        AnythingBut = "anything-but",
        Exists = "exists",
        Null = "null",
        Numeric = "numeric",
    }
}

named_values! {
    /// An operator of `numeric`.
    pub(super) enum Comparison {
        Equal = "=",
        Less = "<",
        AtMost = "<=",
        Greater = ">",
        AtLeast = ">=",
    }
}

impl Comparison {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::Less => ordering.is_lt(),
            Self::AtMost => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::AtLeast => ordering.is_ge(),
        }
    }
}

impl Pattern {
    /// Whether the condition holds. `read` returns the value of a term, `None` if it is absent; values are read when they
    /// are needed, fields in the order of the model file, until the result is certain.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn matches<'v, E>(
        &self,
        read: &mut impl FnMut(&Term) -> Result<Option<Operand<'v>>, E>,
    ) -> Result<bool, E> {
        self.condition.matches(read)
    }

    /// Calls `visit` with every term that the condition reads.
    pub(super) fn each_term(&self, visit: &mut impl FnMut(&Term)) {
        self.condition.each_term(visit);
    }
}

impl PatternCondition {
    fn matches<'v, E>(
        &self,
        read: &mut impl FnMut(&Term) -> Result<Option<Operand<'v>>, E>,
    ) -> Result<bool, E> {
        match self {
            Self::All(conditions) => {
                for condition in conditions {
                    if !condition.matches(read)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(conditions) => {
                for condition in conditions {
                    if condition.matches(read)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Field { term, matchers } => {
                let operand = read(term)?;
                Ok(matchers.iter().any(|matcher| matcher.matches(operand.as_ref())))
            }
        }
    }

    fn each_term(&self, visit: &mut impl FnMut(&Term)) {
        match self {
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().for_each(|condition| condition.each_term(visit));
            }
            Self::Field { term, .. } => visit(term),
        }
    }
}

/// A single value, not a list, set or map.
enum ScalarValue<'v> {
    Text(&'v str),
    Number(&'v Decimal),
    Ratio(&'v Decimal, &'v Decimal),
    Bool(bool),
    Null,
    /// A value that no pattern can express: binary.
    Other,
}

impl Matcher {
    fn matches(&self, operand: Option<&Operand<'_>>) -> bool {
        match (self, operand) {
            (Self::Exists(wanted), operand) => *wanted == operand.is_some(),
            (_, None) => false,
            (_, Some(Operand::Value(value))) => self.matches_value(value),
            (_, Some(Operand::Text(text))) => self.matches_scalar(&ScalarValue::Text(text)),
            (_, Some(Operand::Ratio { numerator, denominator })) => {
                self.matches_scalar(&ScalarValue::Ratio(numerator, denominator))
            }
        }
    }

    fn matches_value(&self, value: &AttributeValue<'_>) -> bool {
        match value {
            AttributeValue::S(text) => self.matches_scalar(&ScalarValue::Text(text)),
            AttributeValue::N(number) => self.matches_scalar(&ScalarValue::Number(number)),
            AttributeValue::Bool(value) => self.matches_scalar(&ScalarValue::Bool(*value)),
            AttributeValue::Null => self.matches_scalar(&ScalarValue::Null),
            AttributeValue::B(_) => self.matches_scalar(&ScalarValue::Other),
            AttributeValue::L(list) => list.iter().any(|element| self.matches_value(element)),
            AttributeValue::Ss(set) => set.iter().any(|text| self.matches_scalar(&ScalarValue::Text(text))),
            AttributeValue::Ns(set) => {
                set.iter().any(|number| self.matches_scalar(&ScalarValue::Number(number)))
            }
            AttributeValue::Bs(set) => set.iter().any(|_| self.matches_scalar(&ScalarValue::Other)),
            AttributeValue::M(_) => false,
        }
    }

    fn matches_scalar(&self, value: &ScalarValue<'_>) -> bool {
        match (self, value) {
            (Self::Text(wanted), ScalarValue::Text(text)) => **wanted == **text,
            (Self::Part(test, operand), ScalarValue::Text(text)) => test.holds(text, operand),
            (Self::Bool(wanted), ScalarValue::Bool(value)) => wanted == value,
            (Self::Null, ScalarValue::Null) => true,
            (Self::Number(wanted), value) => compare(value, wanted).is_some_and(Ordering::is_eq),
            (Self::Numeric(bounds), value) => bounds.iter().all(|(comparison, bound)| {
                compare(value, bound).is_some_and(|ordering| comparison.holds(ordering))
            }),
            (Self::AnythingBut(excluded), value) => {
                !excluded.iter().any(|matcher| matcher.matches_scalar(value))
            }
            (Self::Exists(wanted), _) => *wanted,
            (Self::Text(_) | Self::Part(..) | Self::Bool(_) | Self::Null, _) => false,
        }
    }
}

/// How a number compares with a bound; `None` if it is not a number.
fn compare(value: &ScalarValue<'_>, bound: &Decimal) -> Option<Ordering> {
    match value {
        ScalarValue::Number(number) => Some((*number).cmp(bound)),
        ScalarValue::Ratio(numerator, denominator) => Some(numerator.compare_quotient(denominator, bound)),
        ScalarValue::Text(_) | ScalarValue::Bool(_) | ScalarValue::Null | ScalarValue::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;
    use crate::record::Item;
    use crate::table::{Model, Term};

    /// A model whose one aggregate counts items of which this holds.
    fn model(when: &str) -> Model {
        let source = format!(
            r#"
            name = "test"
            generation = 1
            tables.t.key = ["pk"]
            [entities.thing]
            key = {{ pk = "{{id}}" }}
            attributes = {{ x = "any", y = "any", m = "M", part = "N", whole = "N" }}
            derive.percent = {{ percent = ["part", "whole"] }}
            [rollups.all]
            key = {{ PK = "ALL", SK = "ROLLUP" }}
            [[aggregates]]
            name = "things"
            of = "thing"
            into = "all"
            measures.things = "count"
            [aggregates.when]
            {when}
            "#
        );
        Model::parse(&source, "test.toml").unwrap_or_else(|errors| panic!("{when}\n{errors}"))
    }

    /// Whether the condition holds of an item, whose key's variable `id` is "i-1".
    fn holds(when: &str, item: &[(&'static str, AttributeValue<'static>)]) -> bool {
        let model = model(when);
        let item: Item = item.iter().map(|(name, value)| (Cow::Borrowed(*name), value.clone())).collect();
        let pattern = model.aggregates[0].when.as_ref().unwrap();
        let read = |term: &Term| -> Result<Option<Operand<'_>>, Infallible> {
            Ok(match term {
                Term::Key(0) => Some(Operand::Text(Cow::Borrowed("i-1"))),
                Term::Derived(0) => ratio(&item),
                Term::Attribute(path) => {
                    let mut value = item.get(&**model.attributes.name(path.root));
                    for name in &path.within {
                        value = match value {
                            Some(AttributeValue::M(map)) => map.get(&**name),
                            _ => None,
                        };
                    }
                    value.map(Operand::Value)
                }
                Term::Key(_) | Term::Derived(_) | Term::LookupOutput { .. } => panic!("{term:?}"),
            })
        };
        pattern.matches(&mut { read }).unwrap()
    }

    fn ratio(item: &Item) -> Option<Operand<'static>> {
        let numerator = item.get("part")?.as_number()?.times(&Decimal::from(100)).unwrap();
        let denominator = item.get("whole")?.as_number()?.clone();
        denominator.sign().is_gt().then_some(Operand::Ratio { numerator, denominator })
    }

    fn text(text: &str) -> AttributeValue<'static> {
        AttributeValue::text(text)
    }

    fn number(digits: &str) -> AttributeValue<'static> {
        AttributeValue::N(digits.parse().unwrap())
    }

    /// The condition holds of some values of `x`, and not of others, nor of an item without `x`.
    fn check(when: &str, holding: &[AttributeValue<'static>], failing: &[AttributeValue<'static>]) {
        for value in holding {
            assert!(holds(when, &[("x", value.clone())]), "{when} must hold of {value:?}");
        }
        for value in failing {
            assert!(!holds(when, &[("x", value.clone())]), "{when} must not hold of {value:?}");
        }
        assert!(!holds(when, &[]), "{when} must not hold of a missing attribute");
    }

    #[test]
    fn exact_values() {
        let (yes, no, null) = (AttributeValue::Bool(true), AttributeValue::Bool(false), AttributeValue::Null);
        check(
            "x = ['a', 'b']",
            &[text("a"), text("b")],
            &[text("ab"), text(""), text("A"), number("1"), null.clone()],
        );
        check("x = ['']", &[text("")], &[text(" "), null.clone()]);
        check("x = [true]", std::slice::from_ref(&yes), &[no.clone(), text("true"), number("1")]);
        check("x = [{ null = true }]", std::slice::from_ref(&null), &[text(""), no.clone()]);
        check("x = [{ null = false }]", &[text(""), no], &[null]);
        check("x = ['1', 2]", &[text("1"), number("2")], &[number("1"), text("2")]);
    }

    #[test]
    fn numbers_are_compared_as_exact_decimals() {
        check(
            "x = [0.1]",
            &[number("0.1"), number("1E-1"), number("0.10")],
            &[number("0.1000000000000000055511151231257827")],
        );
        check("x = [1_000, 0x10, +7]", &[number("1000.0"), number("16"), number("7")], &[number("-7")]);
        let digits = "12345678901234567890123456789012345678";
        check(
            &format!("x = [{digits}]"),
            &[number(digits)],
            &[number("12345678901234567890123456789012345679")],
        );
        check(
            "x = [0.12345678901234567890123456789012345678]",
            &[number("0.12345678901234567890123456789012345678")],
            &[number("0.12345678901234567890123456789012345677")],
        );
    }

    #[test]
    fn beginnings_and_endings() {
        check(
            "x = [{ prefix = 'ab' }]",
            &[text("ab"), text("abc")],
            &[text("a"), text("cab"), text("AB"), number("1")],
        );
        check("x = [{ suffix = 'é' }]", &[text("é"), text("caffé")], &[text("e"), text("éa")]);
        check(
            "x = [{ equals-ignore-case = 'Straße' }]",
            &[text("STRAßE"), text("straße")],
            &[text("strasse"), text("xstraße")],
        );
    }

    #[test]
    fn anything_but() {
        check("x = [{ anything-but = 'a' }]", &[text("b"), number("1"), AttributeValue::Null], &[text("a")]);
        check(
            "x = [{ anything-but = ['a', 1] }]",
            &[text("b"), text("1"), number("2")],
            &[text("a"), number("1.0")],
        );
        check("x = [{ anything-but = { prefix = 'a' } }]", &[text("ba")], &[text("ab")]);
        check("x = [{ anything-but = { suffix = ['a', 'b'] } }]", &[text("ac")], &[text("ca"), text("cb")]);
        check("x = [{ anything-but = { equals-ignore-case = 'a' } }]", &[text("b")], &[text("a"), text("A")]);
    }

    #[test]
    fn existence() {
        check(
            "x = [{ exists = true }]",
            &[text(""), AttributeValue::Null, AttributeValue::M(BTreeMap::new())],
            &[],
        );
        assert!(holds("x = [{ exists = false }]", &[]));
        assert!(!holds("x = [{ exists = false }]", &[("x", AttributeValue::Null)]));
        assert!(holds("x = [{ exists = false }, 'a']", &[("x", text("a"))]));
        assert!(holds("m.inner = [{ exists = false }]", &[]));
    }

    #[test]
    fn numeric() {
        check("x = [{ numeric = ['=', 5] }]", &[number("5.0")], &[number("5.1"), text("5")]);
        check(
            "x = [{ numeric = ['<', 5] }]",
            &[number("4.999999999999999999999999999999999999")],
            &[number("5")],
        );
        check("x = [{ numeric = ['<=', -0.5] }]", &[number("-0.5"), number("-1E+20")], &[number("-0.4")]);
        check(
            "x = [{ numeric = ['>', 0, '<=', 5] }]",
            &[number("0.1"), number("5")],
            &[number("0"), number("5.1")],
        );
        check("x = [{ numeric = ['>=', 0, '<', 5] }]", &[number("0")], &[number("-1"), number("5")]);
        check(
            "x = [{ numeric = ['<', 0] }, { numeric = ['>', 9] }]",
            &[number("-1"), number("10")],
            &[number("5")],
        );
    }

    #[test]
    fn a_list_or_set_matches_by_one_of_its_elements() {
        let list = |elements: Vec<AttributeValue<'static>>| AttributeValue::L(elements);
        let set = AttributeValue::Ss(vec!["a".into(), "b".into()]);
        check(
            "x = ['a']",
            &[list(vec![number("1"), text("a")]), set.clone()],
            &[list(vec![]), list(vec![text("b")])],
        );
        check(
            "x = [{ numeric = ['>', 1] }]",
            &[AttributeValue::Ns(vec![1.into(), 2.into()])],
            std::slice::from_ref(&set),
        );
        check("x = [{ anything-but = 'a' }]", &[set], &[list(vec![text("a")]), list(vec![])]);
    }

    #[test]
    fn fields_are_anded_and_or_groups_ored() {
        let items = |x: &'static str, y: &'static str| [("x", text(x)), ("y", text(y))];
        assert!(holds("x = ['a']\ny = ['b']", &items("a", "b")));
        assert!(!holds("x = ['a']\ny = ['b']", &items("a", "c")));
        let either = "'$or' = [{ x = ['a'] }, { y = ['b'] }]";
        for (x, y, expected) in [("a", "c", true), ("c", "b", true), ("c", "c", false)] {
            assert_eq!(holds(either, &items(x, y)), expected, "{x} {y}");
        }
        let both = format!("{either}\nid = [{{ prefix = 'i-' }}]");
        assert!(holds(&both, &items("a", "c")));
        assert!(!holds(&format!("{either}\nid = ['other']"), &items("a", "c")));
    }

    #[test]
    fn inner_attributes() {
        let map = |inner: AttributeValue<'static>| {
            let inner = AttributeValue::M(BTreeMap::from([("deep".into(), inner)]));
            [("m", AttributeValue::M(BTreeMap::from([("exists".into(), inner)])))]
        };
        assert!(holds("m.exists.deep = [1]", &map(number("1"))));
        assert!(!holds("m.exists.deep = [1]", &map(number("2"))));
        assert!(holds("m = { '$or' = [{ exists.deep = [2] }, { other = [1] }] }", &map(number("2"))));
        assert!(!holds("m.exists.deep = [1]", &[("m", text("not a map"))]));
    }

    #[test]
    fn a_percentage_is_exact() {
        let item = |part: &str, whole: &str| [("part", number(part)), ("whole", number(whole))];
        let passed = "percent = [{ numeric = ['>=', 70] }]";
        for (part, whole, expected) in
            [("7", "10", true), ("69", "100", false), ("2", "3", false), ("0.7", "1", true)]
        {
            assert_eq!(holds(passed, &item(part, whole)), expected, "{part} of {whole}");
        }
        // 100·x/y differs from 70 in the 39th digit.
        let whole = "10000000000000000000000000000000000001";
        assert!(!holds(passed, &item("7000000000000000000000000000000000000", whole)));
        assert!(!holds(passed, &item("1", "0")));
        assert!(holds("percent = [{ exists = false }]", &item("1", "0")));
        assert!(holds("percent = [50]", &item("1", "2")));
        assert!(!holds("percent = [{ anything-but = 50 }]", &item("1", "2")));
    }

    proptest! {
        #[test]
        fn a_ratio_compares_as_fractions_do(a in -2000i64..2000, b in 1i64..2000, tenths in -2000i64..2000) {
            let bound: Decimal = format!("{}e-1", tenths).parse().unwrap();
            let (numerator, denominator) = (Decimal::from(a), Decimal::from(b));
            let value = ScalarValue::Ratio(&numerator, &denominator);
            prop_assert_eq!(compare(&value, &bound), Some((10 * a).cmp(&(tenths * b))));
        }
    }
}
