//! Reading tables, entities, lookups and rollups.

use toml::de::DeTable;

use super::{
    DeriveSettings, EntitySettings, LookupSettings, RollupSettings, TableSettings, ValueType, collect,
};
use crate::table::load::duration;
use crate::table::load::problem::{ProblemCollector, suggestion};
use crate::table::load::reader::{self, Located, RawValue, SettingsTable, entries, place};
use crate::table::{KeyType, OnExpiry};

/// More shards than this cost more reads than they spare writes.
const MAX_SHARDS: i64 = 1000;

pub(super) fn table<'d>(
    name: Located<&'d str>,
    value: &'d DeTable<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Option<TableSettings<'d>> {
    let settings =
        SettingsTable::new(format!("table `{}`", name.value), name.at, value, &["key", "types"], problems);
    let key = settings.required_texts("key", problems);
    let problem = match key.as_slice() {
        [partition, sort] if partition.value == sort.value => {
            Some("the partition key and the sort key have one name; a key attribute is named once")
        }
        [_] | [_, _] => None,
        _ => Some("`key` names the partition key and, if there is one, the sort key"),
    };
    if let (Some(problem), Some(value)) = (problem, settings.get("key")) {
        problems.report(place(value), format!("{}: {problem}", settings.owner));
        problems.mark_incomplete();
    }
    let mut types = Vec::new();
    for (attribute, written) in settings.pairs("types", problems) {
        if !key.iter().any(|known| known.value == attribute.value) {
            let nearest = suggestion(attribute.value, key.iter().map(|known| known.value));
            let message =
                format!("{}: `{}` is no attribute of its key{nearest}", settings.owner, attribute.value);
            problems.report(attribute.at, message);
        }
        match KeyType::parse(written.value) {
            Some(key_type) => types.push((attribute, key_type)),
            None => problems.report(
                written.at,
                format!(
                    "{}: a key attribute is of type `S`, `N` or `B`, not `{}`",
                    settings.owner, written.value
                ),
            ),
        }
    }
    Some(TableSettings { name, key, types })
}

pub(super) fn entity<'d>(
    name: Located<&'d str>,
    value: &'d DeTable<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Option<EntitySettings<'d>> {
    let known = ["table", "key", "attributes", "derive", "secret", "on_expiry"];
    let settings = SettingsTable::new(format!("entity `{}`", name.value), name.at, value, &known, problems);
    let key = settings.required_pairs("key", problems);
    let mut attributes = Vec::new();
    if let Some(value) = settings.get("attributes") {
        for (attribute, declared) in reader::pairs(&settings.called("attributes"), value, problems) {
            let value_type = ValueType::parse(declared.value);
            if value_type.is_none() {
                let known = ValueType::NAMES.map(|name| format!("`{name}`")).join(", ");
                problems.report(
                    declared.at,
                    format!(
                        "{}: attribute `{}`: unknown type `{}`; known types are {known} and `any`",
                        settings.owner, attribute.value, declared.value,
                    ),
                );
            }
            attributes.push((attribute, value_type.unwrap_or(ValueType::Any)));
        }
    }
    let derive =
        settings.get("derive").and_then(|value| reader::table(&settings.called("derive"), value, problems));
    let derive = collect(derive.map(entries).unwrap_or_default(), problems, |name, value, problems| {
        Some((name, derived(&settings, name, value, problems)?))
    });
    let on_expiry = match settings.text("on_expiry", problems) {
        None => OnExpiry::Keep,
        Some(Located { value: "keep", .. }) => OnExpiry::Keep,
        Some(Located { value: "subtract", .. }) => OnExpiry::Subtract,
        Some(other) => {
            problems.report(
                other.at,
                format!(
                    "{}: `on_expiry` must be \"keep\" (what TTL deletes stays counted) or \"subtract\"",
                    settings.owner
                ),
            );
            OnExpiry::Keep
        }
    };
    let (table, secrets) = (settings.text("table", problems), settings.texts("secret", problems));
    Some(EntitySettings { name, table, key, attributes, derive, on_expiry, secrets })
}

fn derived<'d>(
    entity: &SettingsTable<'d>,
    name: Located<&'d str>,
    value: RawValue<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Option<DeriveSettings<'d>> {
    let owner = format!("{}: derived value `{}`", entity.owner, name.value);
    let table = reader::table(&owner, value, problems)?;
    let settings = SettingsTable::new(owner, name.at, table, &["percent", "first", "part"], problems);
    match (settings.get("percent"), settings.get("first"), settings.get("part")) {
        (Some(_), None, None) => match settings.texts("percent", problems).as_slice() {
            [part, whole] => Some(DeriveSettings::Percent { part: *part, whole: *whole }),
            _ => {
                let message = format!("{}: `percent` takes two attributes: [part, whole]", settings.owner);
                problems.report(name.at, message);
                None
            }
        },
        (None, Some(_), None) => {
            let attributes = settings.texts("first", problems);
            if attributes.is_empty() {
                problems.report(name.at, format!("{}: `first` takes one attribute or more", settings.owner));
                return None;
            }
            Some(DeriveSettings::First(attributes))
        }
        (None, None, Some(_)) => match settings.texts("part", problems).as_slice() {
            [of, key] => Some(DeriveSettings::Part { of: *of, key: *key }),
            _ => {
                let message = format!(
                    "{}: `part` takes an attribute and the key that it is: [attribute, \"ORDER#{{{}}}\"]",
                    settings.owner, name.value
                );
                problems.report(name.at, message);
                None
            }
        },
        _ => {
            let message = format!(
                "{}: say either `percent = [part, whole]` or `first = [attribute, …]` or `part = [attribute, key]`",
                settings.owner
            );
            problems.report(name.at, message);
            None
        }
    }
}

pub(super) fn lookup<'d>(
    name: Located<&'d str>,
    value: &'d DeTable<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Option<LookupSettings<'d>> {
    let known = ["of", "index", "key", "gives"];
    let settings = SettingsTable::new(format!("lookup `{}`", name.value), name.at, value, &known, problems);
    let of = settings.required_text("of", problems);
    let index = settings.required_text("index", problems);
    let key = settings.required_pairs("key", problems);
    let gives = settings.required_texts("gives", problems);
    if settings.get("key").is_some() && !(1..=2).contains(&key.len()) {
        let message = format!(
            "{}: `key` gives the index's partition key and, if the query names one, its sort key",
            settings.owner
        );
        problems.report(name.at, message);
    }
    if settings.is_empty_list("gives") {
        problems
            .report(name.at, format!("{}: `gives` names nothing; name what is looked up", settings.owner));
        problems.mark_incomplete();
    }
    Some(LookupSettings { name, of: of?, index: index?.value, key, gives })
}

pub(super) fn rollup<'d>(
    name: Located<&'d str>,
    value: &'d DeTable<'d>,
    problems: &mut ProblemCollector<'_>,
) -> Option<RollupSettings<'d>> {
    let known = ["key", "shards", "expires"];
    let settings = SettingsTable::new(format!("rollup `{}`", name.value), name.at, value, &known, problems);
    let key = settings.required_pairs("key", problems);
    let shards = settings.integer("shards", 1..=MAX_SHARDS, problems).unwrap_or(1);
    let expires = settings.get("expires").and_then(|value| {
        let owner = format!("{}: `expires`", settings.owner);
        let table = reader::table(&owner, value, problems)?;
        let expires = SettingsTable::new(owner, place(value), table, &["after", "of"], problems);
        let (after, of) = (expires.required_text("after", problems), expires.required_text("of", problems));
        let after = after?;
        let length = duration::parse(after.value);
        if length.is_none() {
            let message = format!(
                "{}: `after` must be a length of time like \"90 days\" (seconds, minutes, hours, days or weeks)",
                expires.owner
            );
            problems.report(after.at, message);
        }
        Some((length?, of?))
    });
    Some(RollupSettings { name, key, shards: u32::try_from(shards).unwrap_or(1), expires })
}
