//! `FilterCriteria`: which records of a stream are delivered.
//!
//! A record is delivered if it matches any of the patterns. A pattern is an object in the shape of the record, with lists of
//! conditions in place of values:
//!
//! ```
//! use afterwrite_mapping::FilterCriteria;
//!
//! let filters = FilterCriteria::from_patterns([
//!     r#"{"eventName": ["INSERT"], "dynamodb": {"Keys": {"PK": {"S": [{"prefix": "ORDER#"}]}}}}"#,
//! ]);
//! let record = r#"{"eventName": "INSERT", "dynamodb": {"Keys": {"PK": {"S": "ORDER#7"}}}}"#;
//! assert!(filters.unwrap().accepts(record));
//! ```
//!
//! If an object of a pattern names a key twice, the last one counts, as on AWS: conditions on both images belong under one `dynamodb`.

mod condition;

use afterwrite_model::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

use self::condition::LeafCondition;

/// Lambda's limit without a quota increase.
const MAX_PATTERNS: usize = 5;

/// The filters of an event source mapping; without one, every record is delivered.
#[derive(Clone, Debug, Default)]
pub struct FilterCriteria {
    patterns: Vec<PatternNode>,
}

/// An object of a pattern.
#[derive(Clone, Debug, Default)]
struct PatternNode {
    /// All of these must match.
    fields: Vec<(String, FieldPattern)>,
    /// `$or`: any of these must match. Empty if there is no `$or`.
    alternatives: Vec<PatternNode>,
}

#[derive(Clone, Debug)]
enum FieldPattern {
    Object(PatternNode),
    /// Any of these must match.
    AnyOf(Vec<LeafCondition>),
}

impl FilterCriteria {
    /// Reads `{"Filters": [{"Pattern": "{…}"}]}`, the value of `FilterCriteria`.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] for criteria that AWS refuses.
    pub fn from_value(criteria: &Value) -> Result<Self> {
        let malformed = || invalid("FilterCriteria must be {\"Filters\": [{\"Pattern\": \"{…}\"}]}");
        let filters = match criteria.get("Filters") {
            None | Some(Value::Null) if criteria.is_object() => return Ok(Self::default()),
            Some(Value::Array(filters)) => filters,
            _ => return Err(malformed()),
        };
        let pattern = |filter: &'_ Value| filter.get("Pattern").and_then(Value::as_str).map(str::to_owned);
        let patterns: Option<Vec<String>> = filters.iter().map(pattern).collect();
        Self::from_patterns(patterns.ok_or_else(malformed)?.iter().map(String::as_str))
    }

    /// Reads patterns; each is JSON.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] for more than five patterns, or one that AWS refuses.
    pub fn from_patterns<'p>(patterns: impl IntoIterator<Item = &'p str>) -> Result<Self> {
        let patterns: Vec<PatternNode> =
            patterns.into_iter().enumerate().map(read_pattern).collect::<Result<_>>()?;
        if patterns.len() > MAX_PATTERNS {
            return Err(invalid(format!("FilterCriteria has {} filters", patterns.len()))
                .hint(format!("Lambda takes up to {MAX_PATTERNS}; combine some of them with \"$or\"")));
        }
        Ok(Self { patterns })
    }

    /// Whether a record, in the JSON that Lambda delivers, is delivered. A record that is not JSON is: the function reports it.
    #[must_use]
    pub fn accepts(&self, record: &str) -> bool {
        if self.patterns.is_empty() {
            return true;
        }
        let Ok(record) = serde_json::from_str::<Value>(record) else { return true };
        self.patterns.iter().any(|pattern| pattern.matches(&record))
    }
}

fn read_pattern((index, pattern): (usize, &str)) -> Result<PatternNode> {
    let place = |error: Error| error.with("filter", (index + 1).to_string());
    let value: Value = serde_json::from_str(pattern)
        .map_err(|error| place(invalid("the pattern of a filter is not JSON").caused_by(error)))?;
    let object =
        value.as_object().ok_or_else(|| place(invalid("the pattern of a filter is not an object")))?;
    PatternNode::read(object).map_err(place)
}

impl PatternNode {
    fn read(object: &Map<String, Value>) -> Result<Self> {
        let mut node = Self::default();
        for (name, value) in object {
            match value {
                Value::Array(alternatives) if name == "$or" => {
                    node.alternatives = read_alternatives(alternatives)?;
                }
                Value::Object(inner) => {
                    node.fields.push((name.clone(), FieldPattern::Object(Self::read(inner)?)));
                }
                Value::Array(conditions) if !conditions.is_empty() => {
                    let conditions = conditions.iter().map(|condition| LeafCondition::read(name, condition));
                    node.fields.push((name.clone(), FieldPattern::AnyOf(conditions.collect::<Result<_>>()?)));
                }
                Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                    return Err(invalid(format!(
                        "`{name}` of a filter must be an object or a list of conditions"
                    ))
                    .hint(format!("Write {{\"{name}\": [\"value\"]}}")));
                }
            }
        }
        Ok(node)
    }

    fn matches(&self, record: &Value) -> bool {
        let has_alternative =
            self.alternatives.is_empty() || self.alternatives.iter().any(|node| node.matches(record));
        has_alternative && self.fields.iter().all(|(name, pattern)| pattern.matches(record.get(name)))
    }
}

fn read_alternatives(alternatives: &[Value]) -> Result<Vec<PatternNode>> {
    if alternatives.len() < 2 {
        return Err(invalid("`$or` of a filter must have at least two alternatives"));
    }
    let read = |alternative: &Value| {
        let object = alternative.as_object();
        PatternNode::read(object.ok_or_else(|| invalid("each alternative of `$or` must be an object"))?)
    };
    alternatives.iter().map(read).collect()
}

impl FieldPattern {
    fn matches(&self, value: Option<&Value>) -> bool {
        match (self, value) {
            // A field of a list matches if one of its elements does.
            (Self::Object(_), Some(Value::Array(elements))) => {
                elements.iter().any(|element| self.matches(Some(element)))
            }
            (Self::Object(node), Some(value)) => node.matches(value),
            (Self::Object(node), None) => node.matches(&Value::Null),
            (Self::AnyOf(conditions), value) => conditions.iter().any(|condition| condition.matches(value)),
        }
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Configuration, message)
}
