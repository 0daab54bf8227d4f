//! Indexes whose keys have several attributes, which the embedded database does not know.
//!
//! The database has such an index on the first attribute of each key. The server in front corrects the rest:
//!
//! | request | correction |
//! |---|---|
//! | `Query` | the conditions on the other key attributes become filters; an item that lacks one of them is not in the index |
//! | `DescribeTable`, `CreateTable`, `UpdateTable` | the description has all key attributes |
//!
//! Only indexes of a [`TableDefinition`] are known: a program cannot create one over HTTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::table::{KeyDefinition, TableDefinition};

/// The beginning of the names that corrections add to expressions.
const ADDED_NAME: &str = "#afterwriteKey";

/// The indexes with such keys, by table and index.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexKeys(Arc<Mutex<BTreeMap<(String, String), KeyDefinition>>>);

impl IndexKeys {
    /// Remembers the indexes of a table.
    pub(crate) fn note(&self, table: &TableDefinition) {
        let several = table.indexes.iter().filter(|(_, key)| key.has_several());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(several.map(|(index, key)| ((table.name.clone(), index.clone()), key.clone())));
    }

    /// Whether there is any.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn of(&self, table: &str, index: &str) -> Option<KeyDefinition> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(table.to_owned(), index.to_owned())).cloned()
    }

    /// Corrects a `Query`; `Err` is the message of DynamoDB's refusal.
    pub(crate) fn correct_query(&self, query: &mut Value) -> Result<(), String> {
        let text = |name: &str| text_of(query, name).unwrap_or_default();
        let Some(key) = self.of(text("TableName"), text("IndexName")) else { return Ok(()) };
        let conditions = stated_conditions(query);
        let is_stated = |attribute: &String| conditions.iter().any(|(stated, _)| stated == attribute);
        if let Some(missing) = key.whole_partition().find(|attribute| !is_stated(attribute)) {
            return Err(format!("Query condition missed key schema element: {missing}"));
        }
        let (mut kept, mut filters) = (Vec::new(), Vec::new());
        filters.extend(text_of(query, "FilterExpression").map(|filter| format!("({filter})")));
        for (attribute, condition) in &conditions {
            let is_known = key.attributes().any(|known| known == attribute);
            if is_known { kept.push(condition.clone()) } else { filters.push(condition.clone()) }
        }
        let mut names =
            query.get("ExpressionAttributeNames").and_then(Value::as_object).cloned().unwrap_or_default();
        // The database's own index has no item that lacks an attribute which it knows.
        let unknown = key.more_partition.iter().chain(&key.more_sort);
        for (place, absent) in unknown.filter(|attribute| !is_stated(attribute)).enumerate() {
            let name = format!("{ADDED_NAME}{place}");
            filters.push(format!("attribute_exists({name})"));
            names.insert(name, json!(absent));
        }
        if let Some(query) = query.as_object_mut() {
            query.insert("KeyConditionExpression".to_owned(), json!(kept.join(" AND ")));
            query.insert("FilterExpression".to_owned(), json!(filters.join(" AND ")));
            if !names.is_empty() {
                query.insert("ExpressionAttributeNames".to_owned(), names.into());
            }
        }
        Ok(())
    }

    /// Corrects the description of a table in a response.
    pub(crate) fn correct_description(&self, response: &mut Value) {
        for member in ["Table", "TableDescription"] {
            let Some(table) = response.get_mut(member) else { continue };
            let name = text_of(table, "TableName").unwrap_or_default().to_owned();
            let mut attributes = Vec::new();
            let indexes = table.get_mut("GlobalSecondaryIndexes").and_then(Value::as_array_mut);
            for index in indexes.into_iter().flatten() {
                let key = self.of(&name, text_of(index, "IndexName").unwrap_or_default());
                let (Some(key), Some(index)) = (key, index.as_object_mut()) else { continue };
                index.insert("KeySchema".to_owned(), schema(&key));
                let all = key.whole_partition().chain(key.whole_sort());
                attributes.extend(all.map(|name| (name.clone(), key.type_of(name).to_owned())));
            }
            let known = table.get_mut("AttributeDefinitions").and_then(Value::as_array_mut);
            let Some(known) = known else { continue };
            for (name, kind) in attributes {
                if !known.iter().any(|known| text_of(known, "AttributeName") == Some(&name)) {
                    known.push(json!({ "AttributeName": name, "AttributeType": kind }));
                }
            }
        }
    }
}

/// The conditions of a query's key condition expression, each with its attribute.
fn stated_conditions(query: &Value) -> Vec<(String, String)> {
    let names = query.get("ExpressionAttributeNames");
    let attribute = |condition: &str| {
        let name = condition.split(|end: char| end.is_whitespace() || "=<>".contains(end)).next();
        let name = name.unwrap_or_default();
        names.and_then(|names| text_of(names, name)).unwrap_or(name).to_owned()
    };
    let conditions = conditions(text_of(query, "KeyConditionExpression").unwrap_or_default());
    conditions.into_iter().map(|condition| (attribute(&condition), condition)).collect()
}

fn text_of<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name).and_then(Value::as_str)
}

fn schema(key: &KeyDefinition) -> Value {
    let partition = key.whole_partition().map(|name| (name, "HASH"));
    let all = partition.chain(key.whole_sort().map(|name| (name, "RANGE")));
    all.map(|(name, role)| json!({ "AttributeName": name, "KeyType": role })).collect()
}

/// The conditions of a key condition expression; the `AND` of a `BETWEEN` is within one.
fn conditions(expression: &str) -> Vec<String> {
    let mut conditions: Vec<String> = Vec::new();
    let mut is_between = false;
    for (place, word) in expression.split_whitespace().enumerate() {
        let is_and = word.eq_ignore_ascii_case("AND");
        if is_and && !is_between || place == 0 {
            conditions.push(String::new());
        }
        if let Some(condition) = conditions.last_mut().filter(|_| !is_and || is_between) {
            if !condition.is_empty() {
                condition.push(' ');
            }
            condition.push_str(word);
        }
        is_between = word.eq_ignore_ascii_case("BETWEEN") || (is_between && !is_and);
    }
    conditions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> IndexKeys {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyDefinition::of_several(names(&["tenant", "region"]), names(&["day", "id"]));
        let indexes = vec![("ByTenant".to_owned(), key)];
        let keys = IndexKeys::default();
        keys.note(&TableDefinition { name: "orders".to_owned(), indexes, ..TableDefinition::default() });
        keys
    }

    fn query(condition: &str) -> Value {
        json!({
            "TableName": "orders",
            "IndexName": "ByTenant",
            "KeyConditionExpression": condition,
            "ExpressionAttributeNames": { "#t": "tenant", "#r": "region", "#d": "day" },
            "FilterExpression": "x = :x OR y = :y",
        })
    }

    #[test]
    fn conditions_that_the_database_does_not_know_become_filters() {
        let mut corrected = query("#t=:t AND #r = :r and #d BETWEEN :a AND :b");
        keys().correct_query(&mut corrected).unwrap();
        assert_eq!(corrected["KeyConditionExpression"], "#t=:t AND #d BETWEEN :a AND :b");
        assert_eq!(
            corrected["FilterExpression"],
            "(x = :x OR y = :y) AND #r = :r AND attribute_exists(#afterwriteKey0)"
        );
        assert_eq!(corrected["ExpressionAttributeNames"]["#afterwriteKey0"], "id");
    }

    #[test]
    fn a_query_states_the_whole_partition_key() {
        let refused = keys().correct_query(&mut query("#t = :t"));
        assert_eq!(refused, Err("Query condition missed key schema element: region".to_owned()));
        let other = json!({ "TableName": "orders", "KeyConditionExpression": "#t = :t" });
        let mut same = other.clone();
        assert_eq!(keys().correct_query(&mut same), Ok(()));
        assert_eq!(same, other);
    }

    #[test]
    fn a_description_has_all_key_attributes() {
        let mut described = json!({ "Table": {
            "TableName": "orders",
            "AttributeDefinitions": [{ "AttributeName": "tenant", "AttributeType": "S" }],
            "GlobalSecondaryIndexes": [{ "IndexName": "ByTenant", "KeySchema": [] }],
        } });
        keys().correct_description(&mut described);
        let schema = &described["Table"]["GlobalSecondaryIndexes"][0]["KeySchema"];
        let roles: Vec<(&str, &str)> = schema
            .as_array()
            .unwrap()
            .iter()
            .map(|key| (key["AttributeName"].as_str().unwrap(), key["KeyType"].as_str().unwrap()))
            .collect();
        assert_eq!(roles, [("tenant", "HASH"), ("region", "HASH"), ("day", "RANGE"), ("id", "RANGE")]);
        assert_eq!(described["Table"]["AttributeDefinitions"].as_array().unwrap().len(), 4);
    }
}
