//! Rollups that the entities suggest: counts and sums for each parent that a key names, by day, and in total.

use std::collections::BTreeSet;

use super::attributes::AttributeProfile;
use super::entities::InferredEntity;
use super::texts::{folded, is_plain_name, snake};

/// Sums of one rollup, and references of one entity.
const MOST_SUMS: usize = 6;
const MOST_REFERENCES: usize = 3;

/// Values agree if so many of those that are compared are equal, each of this length at least.
const MOST_COMPARED: usize = 1000;
const LEAST_AGREEING: usize = 3;
const SHORTEST_AGREEING: usize = 3;

/// Parts of names of times that change, in lower case.
const CHANGING_NAMES: [&str; 8] = ["updat", "modif", "expir", "ttl", "delet", "last", "complet", "ended"];

/// Names of an item's own id, in lower case.
const OWN_ID_NAMES: [&str; 4] = ["id", "ulid", "ksuid", "uuid"];

/// A rollup of the items of an entity.
#[derive(Clone)]
pub(super) struct ProposedRollup<'e> {
    entity: &'e InferredEntity,
    name: String,
    /// A sentence.
    pub(super) about: String,
    partition: String,
    sort: String,
    /// The variables of its key, without the day.
    variables: Vec<&'e str>,
    /// The attribute that shows its count on other items; `None` for totals and days.
    shown: Option<String>,
}

/// The rollups that an entity suggests.
pub(super) fn proposals<'e>(entity: &'e InferredEntity, all: &[&InferredEntity]) -> Vec<ProposedRollup<'e>> {
    let (name, upper) = (&entity.name, entity.name.to_uppercase());
    let day = day_of(entity, all);
    let total = ProposedRollup {
        entity,
        name: format!("{name}_total"),
        about: format!("All {name} items"),
        partition: format!("ALL#{upper}"),
        sort: "ROLLUP#TOTAL".to_owned(),
        variables: Vec::new(),
        shown: None,
    };
    let of_each = |partition: String, variables: Vec<&'e str>| ProposedRollup {
        entity,
        name: format!("{name}_by_{}", variables.join("_")),
        about: format!("The {name} items of each {}", variables.join(" and ")),
        partition,
        sort: format!("ROLLUP#{upper}"),
        shown: Some(format!("{name}_by_{}_count", variables.join("_"))),
        variables,
    };
    let mut rollups = Vec::new();
    let groups = partition_group(entity);
    let others = grouping_names(entity, all).into_iter();
    let others = others.filter(|name| groups.as_ref().is_none_or(|(_, grouped)| *grouped != [*name]));
    let others: Vec<&str> = others.collect();
    if let Some((partition, variables)) = groups {
        let rollup = ProposedRollup { shown: Some(format!("{name}_count")), ..of_each(partition, variables) };
        let daily = rollup.by_day(day.as_deref(), format!("{}_and_day", rollup.name), &rollup.sort);
        rollups.extend([rollup].into_iter().chain(daily));
    }
    let partition = |name: &str| format!("{}#{{{name}}}", name.to_uppercase());
    rollups.extend(others.into_iter().map(|name| of_each(partition(name), vec![name])));
    let daily = total.by_day(day.as_deref(), format!("{name}_by_day"), "ROLLUP");
    rollups.extend([total].into_iter().chain(daily));
    rollups
}

/// The partition key of a rollup for each partition, or for each prefix of partitions, and its variables; `None` if neither groups these items.
fn partition_group(entity: &InferredEntity) -> Option<(String, Vec<&str>)> {
    let own = &entity.key.first()?.1;
    let mut variables = entity.partition();
    let last = variables.pop()?;
    if !entity.is_single || entity.variables.len() > variables.len() + 1 {
        let is_bare = *own == format!("{{{last}}}");
        variables.push(last);
        return Some((
            if is_bare { format!("{}#{own}", last.to_uppercase()) } else { own.clone() },
            variables,
        ));
    }
    let prefix = |item: usize| {
        let values = entity.variables.iter().take(variables.len()).map(|variable| variable.values.get(item));
        values.collect::<Vec<_>>()
    };
    let prefixes: BTreeSet<Vec<_>> = (0..entity.items).map(prefix).collect();
    let template = own.rsplit_once('{')?.0;
    let template = template.trim_end_matches(|last: char| last != '}' && !last.is_alphanumeric());
    let is_group = are_groups(prefixes.len(), entity.items) && template.ends_with('}');
    (is_group && !variables.is_empty()).then(|| (template.to_owned(), variables))
}

/// Whether this many different values are groups of items: some of them have several items.
fn are_groups(different: usize, items: usize) -> bool {
    different * 10 <= items * 9
}

/// The variables of the key of which several items have the same value, and the attributes with the name or the values of a variable of another
/// entity's partition key. Times are left out, and numbers of an item within its prefix, as `{issue}` in `ISSUE#{owner}#{repo}#{issue}`.
fn grouping_names<'e>(entity: &'e InferredEntity, all: &[&InferredEntity]) -> Vec<&'e str> {
    let variables = entity.variables.iter().enumerate().filter(|(place, variable)| {
        let are_numbers =
            || variable.values.iter().all(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
        let numbers_items = *place > 0 && is_named_after(entity, &variable.name) && are_numbers();
        let is_time = variable.time.is_some_and(|time| !time.is_id());
        are_groups(variable.distinct.len(), entity.items) && !is_time && !numbers_items
    });
    let variables = variables.map(|(_, variable)| variable.name.as_str());
    let is_reference = |attribute: &&AttributeProfile| {
        let AttributeProfile { name, value_type, values, is_complete, .. } = attribute;
        let others = all.iter().filter(|other| other.name != entity.name).flat_map(|other| &other.variables);
        let mut others = others.filter(|variable| variable.key == 0);
        *is_complete
            && *value_type == "S"
            && are_groups(values.len(), entity.items)
            && others.any(|other| other.name == *name || agree(values, &other.distinct))
    };
    let references = plain_attributes(entity).filter(is_reference).take(MOST_REFERENCES);
    let references = references.map(|attribute| attribute.name.as_str());
    variables.filter(|name| entity.partition() != [*name]).chain(references).collect()
}

/// The attributes after which parts of a model can be named.
fn plain_attributes(entity: &InferredEntity) -> impl Iterator<Item = &AttributeProfile> {
    entity.attributes.iter().filter(|attribute| is_plain_name(&attribute.name))
}

/// The time that decides the day of an item. The item's own time attribute is preferred to a time in its id, and a time in the key of its
/// partition is that of another item. Of several times, the creation is the earliest.
fn day_of(entity: &InferredEntity, all: &[&InferredEntity]) -> Option<String> {
    let middle =
        |one: &AttributeProfile| one.values.iter().nth(one.values.len() / 2).cloned().unwrap_or_default();
    let attributes = plain_attributes(entity).filter(|attribute| attribute.is_complete);
    let attributes = attributes.filter_map(|one| Some((&one.name, one.time?, middle(one))));
    let keys = entity.variables.iter().filter_map(|one| Some((&one.name, one.time?, String::new())));
    let own = keys.chain(attributes).filter(|(name, time, _)| {
        let is_changing = CHANGING_NAMES.iter().any(|part| name.to_lowercase().contains(part));
        let is_own = if time.is_id() {
            is_own_id(entity, name, all)
        } else {
            !entity.partition().contains(&name.as_str())
        };
        is_own && !is_changing
    });
    let ranked = own.min_by_key(|(name, time, middle)| {
        let is_created = name.to_lowercase().contains("creat");
        (time.is_id(), !is_named_after(entity, name), !is_created, middle.clone())
    });
    ranked.map(|(name, ..)| name.clone())
}

/// Whether a name begins with the entity's name: `likeId` of `like`.
fn is_named_after(entity: &InferredEntity, name: &str) -> bool {
    folded(name).starts_with(&folded(&entity.name))
}

/// Whether an id with a time is the item's own: it has the entity's name, or it is part of the key, in no other entity's key, and not in
/// that of the partition. Other attributes have ids of other items, except one that is named `id`.
fn is_own_id(entity: &InferredEntity, name: &str, all: &[&InferredEntity]) -> bool {
    let is_in_key = |entity: &InferredEntity| entity.variables.iter().any(|variable| variable.name == name);
    let mut others = all.iter().filter(|other| other.name != entity.name);
    let is_of_others = others.any(|other| is_in_key(other) || other.attribute_names.contains(name));
    let is_of_partition = entity.variables.len() > 1 && entity.partition().contains(&name);
    let may_be = is_in_key(entity) || OWN_ID_NAMES.contains(&name.to_lowercase().as_str());
    !is_of_partition && (is_named_after(entity, name) || (may_be && !is_of_others))
}

impl<'e> ProposedRollup<'e> {
    /// The same items by day; `None` without a day, or if the key has it.
    fn by_day(&self, day: Option<&str>, name: String, sort: &str) -> Option<ProposedRollup<'e>> {
        day.filter(|day| !self.variables.contains(day)).map(|day| ProposedRollup {
            name,
            about: format!("{}, by day", self.about),
            sort: format!("{sort}#DAY#{{{day}:day}}"),
            shown: None,
            ..self.clone()
        })
    }

    /// The rollup and its aggregate, with the preferred key and with another. The preferred key may be that of an item, or begin with a variable.
    pub(super) fn versions(&self) -> [String; 2] {
        let Self { entity, name, partition, sort, .. } = self;
        ["", "ROLLUP#"].map(|beginning| {
            format!(
                "[rollups.{name}]\nkey = {{ PK = \"{beginning}{partition}\", SK = \"{sort}\" }}\n\n[[aggregates]]\nname = \"{name}\"\nof = \"{}\"\ninto = [\"{name}\"]\n[aggregates.measures]\n{}",
                entity.name,
                measures(entity)
            )
        })
    }

    /// A mirror on the items of another entity, if their key follows from the key of the rollup: each variable of the one has the name or the
    /// values of a variable of the other.
    pub(super) fn mirror(&self, other: &InferredEntity) -> Option<String> {
        let shown = self.shown.as_ref().filter(|shown| !other.attribute_names.contains(*shown))?;
        let bound = other.variables.iter().map(|variable| {
            let same = self.variables.iter().find(|own| **own == variable.name);
            let agrees =
                |own: &&&str| self.entity.values(own).is_some_and(|values| agree(values, &variable.distinct));
            same.or_else(|| self.variables.iter().find(agrees)).map(|own| (variable.name.as_str(), *own))
        });
        let bound: Vec<(&str, &str)> = bound.collect::<Option<_>>()?;
        let used: BTreeSet<&str> = bound.iter().map(|(_, own)| *own).collect();
        if bound.len() != self.variables.len() || used.len() != bound.len() || other.name == self.entity.name
        {
            return None;
        }
        let different = bound.iter().filter(|(own, variable)| own != variable);
        let different: Vec<String> =
            different.map(|(own, variable)| format!("{own} = \"{variable}\"")).collect();
        let bind = match different.as_slice() {
            [] => String::new(),
            some => format!("bind = {{ {} }}\n", some.join(", ")),
        };
        Some(format!(
            "\n[[mirrors]]\nonto = \"{}\"\nfrom = \"{}\"\n{bind}attributes = {{ {shown} = \"{}_count\" }}\n",
            other.name, self.name, self.entity.name
        ))
    }
}

/// Whether some of these values are equal, and not by chance, as numbers are.
fn agree(values: &BTreeSet<String>, others: &BTreeSet<String>) -> bool {
    let (few, many) = if values.len() < others.len() { (values, others) } else { (others, values) };
    let compared = few.iter().take(MOST_COMPARED);
    let is_text = |value: &str| {
        value.len() >= SHORTEST_AGREEING && value.contains(|one: char| one.is_ascii_alphabetic())
    };
    let shared = compared.clone().filter(|value| is_text(value) && many.contains(*value)).count();
    shared >= LEAST_AGREEING && shared * 10 >= compared.len()
}

/// The measures of an entity, each once: their number, a count of each state, sums.
fn measures(entity: &InferredEntity) -> String {
    let mut measures = vec![(format!("{}_count", entity.name), "\"count\"".to_owned())];
    for AttributeProfile { name, states, .. } in plain_attributes(entity) {
        // The items that are not counted as `true` are the others.
        let states = states.iter().filter(|state| *state != "false");
        measures.extend(states.filter_map(|state| {
            let suffix = if state == "true" { "count".to_owned() } else { snake(state.trim_matches('"'))? };
            Some((format!("{name}_{suffix}"), format!("{{ count = true, when.{name} = [{state}] }}")))
        }));
    }
    let amounts =
        plain_attributes(entity).filter(|own| own.is_amount && own.value_type == "N").take(MOST_SUMS);
    measures
        .extend(amounts.map(|own| (format!("{}_sum", own.name), format!("{{ sum = \"{}\" }}", own.name))));
    let mut seen = BTreeSet::new();
    measures.retain(|(name, _)| seen.insert(name.clone()));
    measures.into_iter().map(|(measure, value)| format!("{measure} = {value}\n")).collect()
}
