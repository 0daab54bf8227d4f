//! Conditions and changes → DynamoDB's expressions.
//!
//! An expression contains placeholders instead of names and values: names may be reserved words or contain dots, and values would
//! have to be quoted. Placeholders are `#0`, `#1`, … and `:0`, `:1`, …, short because DynamoDB limits an expression to 4 KB; equal
//! names and equal values share a placeholder.

use std::collections::HashMap;
use std::fmt::Write as _;

use afterwrite_model::effect::{AttributeChange, Write, WriteAction, WriteCondition};
use afterwrite_model::record::{AttributePath, AttributeValue};
use aws_sdk_dynamodb::types::AttributeValue as Sdk;

use super::value::to_sdk;

/// The expressions of one write and the values of their placeholders.
#[derive(Debug, Default, PartialEq)]
pub struct WriteExpressions {
    /// The condition; `None` if it is always true.
    pub condition: Option<String>,
    /// The changes of an update.
    pub update: Option<String>,
    /// The names by placeholder; `None` without placeholders: DynamoDB refuses an empty map.
    pub names: Option<HashMap<String, String>>,
    /// The values by placeholder; `None` without placeholders.
    pub values: Option<HashMap<String, Sdk>>,
}

impl WriteExpressions {
    /// The expressions of a write.
    #[must_use]
    pub fn of(write: &Write) -> Self {
        let mut placeholders = ExpressionPlaceholders::default();
        let partition_key = &*write.key.partition.name;
        let condition = match constant(&write.condition) {
            Some(true) => None,
            Some(false) => {
                let key = placeholders.name(partition_key);
                Some(format!("attribute_exists({key}) AND attribute_not_exists({key})"))
            }
            None => Some(placeholders.condition(&write.condition, partition_key)),
        };
        let update = match &write.action {
            WriteAction::Update(changes) => Some(placeholders.update(changes)),
            WriteAction::Put(_) | WriteAction::Delete => None,
        };
        placeholders.finish(condition, update)
    }

    /// The condition of a query for exact values of key attributes.
    #[must_use]
    pub fn of_keys(keys: &[(&str, &AttributeValue<'static>)]) -> Self {
        let mut placeholders = ExpressionPlaceholders::default();
        let parts = keys.iter().map(|(name, value)| {
            let (name, value) = (placeholders.name(name), placeholders.value(value));
            format!("{name}={value}")
        });
        let condition = parts.collect::<Vec<_>>().join(" AND ");
        placeholders.finish(Some(condition), None)
    }
}

/// The truth value of a condition that does not depend on the item.
///
/// Constant conditions are left out first: DynamoDB has no constants, and refuses placeholders that no expression uses.
fn constant(condition: &WriteCondition) -> Option<bool> {
    match condition {
        WriteCondition::Always => Some(true),
        WriteCondition::All(parts) => constant_junction(parts, false),
        WriteCondition::Any(parts) => constant_junction(parts, true),
        WriteCondition::ItemExists
        | WriteCondition::ItemAbsent
        | WriteCondition::Absent(_)
        | WriteCondition::Equals(..)
        | WriteCondition::Differs(..)
        | WriteCondition::Less(..) => None,
    }
}

/// The truth value of a junction, for which one part with the value `decisive` decides.
fn constant_junction(parts: &[WriteCondition], decisive: bool) -> Option<bool> {
    let constants: Vec<Option<bool>> = parts.iter().map(constant).collect();
    if constants.contains(&Some(decisive)) {
        Some(decisive)
    } else {
        (!constants.contains(&None)).then_some(!decisive)
    }
}

#[derive(Default)]
struct ExpressionPlaceholders<'w> {
    names: Vec<&'w str>,
    values: Vec<Sdk>,
}

impl<'w> ExpressionPlaceholders<'w> {
    fn finish(self, condition: Option<String>, update: Option<String>) -> WriteExpressions {
        let names = self.names.iter().enumerate();
        let names: HashMap<_, _> =
            names.map(|(number, name)| (format!("#{number}"), (*name).to_owned())).collect();
        let values = self.values.into_iter().enumerate();
        let values: HashMap<_, _> = values.map(|(number, value)| (format!(":{number}"), value)).collect();
        WriteExpressions {
            condition,
            update,
            names: (!names.is_empty()).then_some(names),
            values: (!values.is_empty()).then_some(values),
        }
    }

    fn name(&mut self, name: &'w str) -> String {
        let number = self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        format!("#{number}")
    }

    fn value(&mut self, value: &AttributeValue<'_>) -> String {
        let value = to_sdk(value);
        let number = self.values.iter().position(|known| *known == value).unwrap_or_else(|| {
            self.values.push(value);
            self.values.len() - 1
        });
        format!(":{number}")
    }

    fn path(&mut self, path: &'w AttributePath) -> String {
        path.names().iter().map(|name| self.name(name)).collect::<Vec<_>>().join(".")
    }

    /// The text of a condition that is not constant.
    fn condition(&mut self, condition: &'w WriteCondition, partition_key: &'w str) -> String {
        match condition {
            WriteCondition::Always => String::new(),
            WriteCondition::All(parts) => self.junction(parts, " AND ", partition_key),
            WriteCondition::Any(parts) => self.junction(parts, " OR ", partition_key),
            WriteCondition::ItemExists => format!("attribute_exists({})", self.name(partition_key)),
            WriteCondition::ItemAbsent => format!("attribute_not_exists({})", self.name(partition_key)),
            WriteCondition::Absent(path) => format!("attribute_not_exists({})", self.path(path)),
            WriteCondition::Equals(path, value) => format!("{}={}", self.path(path), self.value(value)),
            WriteCondition::Differs(path, value) => {
                // For DynamoDB, an absent attribute differs from every value.
                let (path, value) = (self.path(path), self.value(value));
                format!("(attribute_exists({path}) AND {path}<>{value})")
            }
            WriteCondition::Less(path, value) => format!("{}<{}", self.path(path), self.value(value)),
        }
    }

    /// The parts joined, without constant parts.
    fn junction(&mut self, parts: &'w [WriteCondition], joint: &str, partition_key: &'w str) -> String {
        let parts = parts.iter().filter(|part| constant(part).is_none());
        let texts: Vec<String> = parts.map(|part| self.condition(part, partition_key)).collect();
        if texts.len() == 1 { texts.concat() } else { format!("({})", texts.join(joint)) }
    }

    /// The update expression: one clause for each kind of change.
    fn update(&mut self, changes: &'w [AttributeChange]) -> String {
        let (mut set, mut add, mut remove) = (String::new(), String::new(), String::new());
        for change in changes {
            match change {
                AttributeChange::Set(path, value) => {
                    let (path, value) = (self.path(path), self.value(value));
                    append(&mut set, "SET ", format_args!("{path}={value}"));
                }
                AttributeChange::Add(path, addend) => {
                    let (path, value) = (self.path(path), self.value(&AttributeValue::N(addend.clone())));
                    append(&mut add, "ADD ", format_args!("{path} {value}"));
                }
                AttributeChange::Remove(path) => {
                    let path = self.path(path);
                    append(&mut remove, "REMOVE ", format_args!("{path}"));
                }
            }
        }
        [set, add, remove].into_iter().filter(|clause| !clause.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

fn append(clause: &mut String, keyword: &str, part: std::fmt::Arguments<'_>) {
    let opening = if clause.is_empty() { keyword } else { "," };
    // Writing to a string cannot fail.
    let _ = write!(clause, "{opening}{part}");
}

#[cfg(test)]
mod tests {
    use afterwrite_model::effect::{ItemKey, KeyAttribute};
    use afterwrite_model::record::Decimal;

    use super::*;

    fn write(condition: WriteCondition, action: WriteAction) -> Write {
        let partition = KeyAttribute { name: "PK".into(), value: "p".into() };
        Write { key: ItemKey { table: "t".into(), partition, sort: None }, condition, action }
    }

    #[test]
    fn equal_names_and_values_share_a_placeholder() {
        let condition = WriteCondition::Any(vec![
            WriteCondition::ItemAbsent,
            WriteCondition::Equals("rev".into(), Decimal::from(7).into()),
            WriteCondition::All(vec![
                WriteCondition::Always,
                WriteCondition::Less("rev".into(), Decimal::from(9).into()),
            ]),
        ]);
        let changes = vec![
            AttributeChange::Set("note.worthy".into(), "x".into()),
            AttributeChange::Add("rev".into(), Decimal::from(7)),
            AttributeChange::Set("map.rev".parse().unwrap(), "x".into()),
            AttributeChange::Remove("gone".into()),
        ];
        let expressions = WriteExpressions::of(&write(condition, WriteAction::Update(changes)));
        assert_eq!(expressions.condition.as_deref(), Some("(attribute_not_exists(#0) OR #1=:0 OR #1<:1)"));
        assert_eq!(expressions.update.as_deref(), Some("SET #2=:2,#3.#1=:2 ADD #1 :0 REMOVE #4"));
        let names = expressions.names.unwrap();
        assert_eq!(names["#2"], "note.worthy");
        assert_eq!(names.len(), 5);
        assert_eq!(expressions.values.unwrap().len(), 3);
    }

    #[test]
    fn a_condition_that_is_always_true_is_left_out() {
        for condition in [
            WriteCondition::Always,
            WriteCondition::All(Vec::new()),
            WriteCondition::Any(vec![
                WriteCondition::Absent("unused".into()),
                WriteCondition::All(Vec::new()),
            ]),
        ] {
            assert_eq!(
                WriteExpressions::of(&write(condition, WriteAction::Delete)),
                WriteExpressions::default()
            );
        }
    }

    #[test]
    fn a_condition_that_is_never_true_is_kept() {
        let expressions = WriteExpressions::of(&write(WriteCondition::Any(Vec::new()), WriteAction::Delete));
        assert_eq!(
            expressions.condition.as_deref(),
            Some("attribute_exists(#0) AND attribute_not_exists(#0)")
        );
    }

    #[test]
    fn an_update_of_two_hundred_counters_is_shorter_than_4_kb() {
        let changes = (0..200).map(|number| {
            AttributeChange::Add(
                AttributePath::from(format!("a_rather_long_name_of_a_measure_{number}").as_str()),
                number.into(),
            )
        });
        let expressions =
            WriteExpressions::of(&write(WriteCondition::Always, WriteAction::Update(changes.collect())));
        assert!(expressions.update.unwrap().len() < 4096);
    }
}
