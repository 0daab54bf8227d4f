//! Aggregates that the entities suggest: counts and sums per partition, by day, by reference, and in total.

use std::collections::BTreeSet;

use super::attributes::AttributeProfile;
use super::entities::InferredEntity;
use super::texts::{is_plain_name, snake};
use super::times::TimeForm;

/// Sums of one rollup.
const MOST_SUMS: usize = 6;

/// Variables of two keys agree if so many of their values are equal, each of this length at least.
const LEAST_AGREEING: usize = 3;
const SHORTEST_AGREEING: usize = 3;

/// Names of times at which an item is created, the best first, in lower case.
const CREATION_NAMES: [&str; 8] =
    ["created", "placed", "ordered", "started", "timestamp", "date", "time", "at"];

/// Names of times that change, in lower case.
const CHANGING_NAMES: [&str; 8] =
    ["updated", "modified", "expires", "ttl", "deleted", "last", "completed", "ended"];

/// Names of an item's own id, in lower case.
const OWN_ID_NAMES: [&str; 4] = ["id", "ulid", "ksuid", "uuid"];

/// Endings of names of variables that number items, in lower case.
const NUMBERING_NAMES: [&str; 6] = ["number", "sequence", "seq", "index", "version", "position"];

/// An aggregate with its rollup, and mirrors on the items that can show it.
pub(super) struct ProposedAggregate {
    /// A sentence.
    pub(super) about: String,
    /// The part of the model, with the preferred key of the rollup and with another. The first that loads is proposed: the preferred key may
    /// be that of an item, or begin with a variable.
    pub(super) versions: [String; 2],
    /// Mirrors, each a part of the model that may be left out.
    pub(super) mirrors: Vec<String>,
}

/// The rollup of a proposal.
struct RollupPlan<'e> {
    entity: &'e InferredEntity,
    name: String,
    about: String,
    partition: String,
    sort: String,
    /// The variables of its key, without the day.
    variables: Vec<&'e str>,
    /// The attribute that shows its count on other items; `None` for totals and days.
    shown: Option<String>,
}

/// The proposals for an entity.
pub(super) fn proposals(entity: &InferredEntity, all: &[&InferredEntity]) -> Vec<ProposedAggregate> {
    let (name, upper) = (&entity.name, entity.name.to_uppercase());
    let mut plans = Vec::new();
    let day = day_of(entity, all);
    let by_day = |sort: &str| day.as_ref().map(|day| format!("{sort}#DAY#{{{day}:day}}"));
    let sort = format!("ROLLUP#{upper}");
    let mut grouped = None;
    if let Some((partition, variables)) = partition_key(entity).or_else(|| partition_prefix(entity)) {
        let by = format!("{name}_by_{}", variables.join("_"));
        let about = format!("The {name} items of each {}", variables.join(" and "));
        let plan = |name: String, about: String, sort: String, shown: Option<String>| RollupPlan {
            entity,
            name,
            about,
            partition: partition.clone(),
            sort,
            variables: variables.clone(),
            shown,
        };
        plans.push(plan(by.clone(), about.clone(), sort.clone(), Some(format!("{name}_count"))));
        // A group of one time has one day.
        let has_days = day.as_ref().is_some_and(|day| !variables.contains(&day.as_str()));
        let daily = by_day(&sort).filter(|_| has_days);
        plans.extend(daily.map(|sort| plan(format!("{by}_and_day"), format!("{about}, by day"), sort, None)));
        if let [one] = variables.as_slice() {
            grouped = Some(*one);
        }
    }
    for variable in grouping_names(entity, all).into_iter().filter(|one| Some(*one) != grouped) {
        plans.push(RollupPlan {
            entity,
            name: format!("{name}_by_{variable}"),
            about: format!("The {name} items of each {variable}"),
            partition: format!("{}#{{{variable}}}", variable.to_uppercase()),
            sort: sort.clone(),
            variables: vec![variable],
            shown: Some(format!("{name}_by_{variable}_count")),
        });
    }
    let total = |suffix: &str, about: String, sort: String| {
        let partition = format!("ALL#{upper}");
        let name = format!("{name}_{suffix}");
        RollupPlan { entity, name, about, partition, sort, variables: Vec::new(), shown: None }
    };
    plans.push(total("total", format!("All {name} items"), "ROLLUP#TOTAL".to_owned()));
    plans.extend(by_day("ROLLUP").map(|sort| total("by_day", format!("All {name} items, by day"), sort)));
    plans.iter().map(|plan| plan.proposal(all)).collect()
}

/// The variables and references that group items of an entity, each once.
fn grouping_names<'e>(entity: &'e InferredEntity, all: &[&InferredEntity]) -> Vec<&'e str> {
    let mut names = grouping_variables(entity);
    names.retain(|one| entity.partition.0 != [*one]);
    for reference in references(entity, all) {
        if !names.contains(&reference) {
            names.push(reference);
        }
    }
    names
}

/// The partition key of a rollup for each partition, and its variables; `None` if partitions are not groups of these items.
fn partition_key(entity: &InferredEntity) -> Option<(String, Vec<&str>)> {
    let (variables, has_text) = &entity.partition;
    let has_others = entity.variables.len() > variables.len();
    if variables.is_empty() || (entity.is_single && !has_others) {
        return None;
    }
    let template = match (has_text, variables.as_slice()) {
        (false, [one]) => format!("{}#{{{one}}}", one.to_uppercase()),
        _ => entity.key.first()?.1.clone(),
    };
    Some((template, variables.iter().map(String::as_str).collect()))
}

/// The partition key without its last variable, and the variables of this prefix; `None` if prefixes are not groups of these items.
fn partition_prefix(entity: &InferredEntity) -> Option<(String, Vec<&str>)> {
    let (_, variables) = entity.partition.0.split_last()?;
    let (prefix, _) = entity.key.first()?.1.rsplit_once('{')?;
    let prefix = prefix.trim_end_matches(|character: char| character != '}' && !character.is_alphanumeric());
    let is_group = are_groups(entity.prefixes, entity.items) && prefix.ends_with('}');
    (is_group && !variables.is_empty())
        .then(|| (prefix.to_owned(), variables.iter().map(String::as_str).collect()))
}

/// The variables of the key of which several items have the same value; times left out.
fn grouping_variables(entity: &InferredEntity) -> Vec<&str> {
    let is_time = |name: &str| entity.key_times.iter().any(|(time, form)| time == name && !form.is_id());
    let variables = entity.variables.iter().zip(&entity.values);
    let groups = variables.enumerate().filter(|(place, (name, values))| {
        let is_number = *place > 0 && numbers_items(entity, name, values);
        are_groups(values.len(), entity.items) && !is_time(name) && !is_number
    });
    groups.map(|(_, (name, _))| name.as_str()).collect()
}

/// Whether this many different values are groups of items: some of them have several items.
fn are_groups(different: usize, items: usize) -> bool {
    different * 10 <= items * 9
}

/// Whether a variable that follows others only numbers the items of its prefix, as `{issue}` in `ISSUE#{owner}#{repo}#{issue}`.
fn numbers_items(entity: &InferredEntity, name: &str, values: &BTreeSet<String>) -> bool {
    let is_number = |value: &String| value.bytes().all(|byte| byte.is_ascii_digit());
    let is_numbering = NUMBERING_NAMES.iter().any(|ending| name.to_lowercase().ends_with(ending));
    (is_named_after(entity, name) || is_numbering) && values.iter().all(is_number)
}

/// The attributes after which parts of a model can be named.
fn plain_attributes(entity: &InferredEntity) -> impl Iterator<Item = &AttributeProfile> {
    entity.attributes.iter().filter(|attribute| is_plain_name(&attribute.name))
}

/// The attributes that are variables of other entities' keys.
fn references<'e>(entity: &'e InferredEntity, all: &[&InferredEntity]) -> Vec<&'e str> {
    let is_variable =
        |name: &str| all.iter().any(|other| other.partition.0.iter().any(|variable| variable == name));
    let references = plain_attributes(entity).filter(|attribute| {
        attribute.is_complete && attribute.value_type == "S" && is_variable(&attribute.name)
    });
    references.map(|attribute| attribute.name.as_str()).take(3).collect()
}

/// The time that decides the day of an item: a time of its own before an id of its own. An id in the key of another item, or in the
/// key of the partition, has the time of the other item.
fn day_of(entity: &InferredEntity, all: &[&InferredEntity]) -> Option<String> {
    let is_changing = |name: &str| CHANGING_NAMES.iter().any(|part| name.to_lowercase().contains(part));
    let attributes = plain_attributes(entity).filter(|attribute| attribute.is_complete);
    let attributes = attributes.filter_map(|attribute| Some((attribute.name.as_str(), attribute.time?)));
    let keys = entity.key_times.iter().map(|(name, form)| (name.as_str(), *form));
    let times = keys.chain(attributes).filter(|(name, _)| !is_changing(name));
    let own = times.filter(|(name, form)| match form.is_id() {
        true => is_own_id(entity, name, all),
        false => !entity.partition.0.iter().any(|variable| variable == name),
    });
    let rank = |name: &str, form: TimeForm| {
        let lower = name.to_lowercase();
        let named = CREATION_NAMES.iter().position(|part| lower.contains(part));
        (form.is_id(), !is_named_after(entity, name), named.unwrap_or(CREATION_NAMES.len()))
    };
    own.min_by_key(|(name, form)| rank(name, *form)).map(|(name, _)| name.to_owned())
}

/// Whether a name begins with the entity's name: `likeId` of `like`.
fn is_named_after(entity: &InferredEntity, name: &str) -> bool {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    plain(name).starts_with(&plain(&entity.name))
}

/// Whether an id with a time is the item's own: it has the entity's name, or it is part of the key, in no other entity's key, and not in
/// that of the partition. Other attributes have ids of other items, except one that is named `id`.
fn is_own_id(entity: &InferredEntity, name: &str, all: &[&InferredEntity]) -> bool {
    let in_partition = entity.partition.0.iter().any(|variable| variable == name);
    let is_of_others = all.iter().filter(|other| other.name != entity.name).any(|other| {
        other.variables.iter().any(|variable| variable == name)
            || other.attributes.iter().any(|attribute| attribute.name == name)
    });
    let is_alone = entity.variables.len() == 1;
    let is_in_key = entity.variables.iter().any(|variable| variable == name);
    if !is_in_key && !is_named_after(entity, name) && !OWN_ID_NAMES.contains(&name.to_lowercase().as_str()) {
        return false;
    }
    (is_alone || !in_partition) && (is_named_after(entity, name) || !is_of_others)
}

impl RollupPlan<'_> {
    fn proposal(&self, all: &[&InferredEntity]) -> ProposedAggregate {
        let Self { entity, name, about, partition, sort, .. } = self;
        let measures: String =
            measures(entity).into_iter().map(|(measure, value)| format!("{measure} = {value}\n")).collect();
        let versions = ["", "ROLLUP#"].map(|beginning| {
            format!(
                "[rollups.{name}]\nkey = {{ PK = \"{beginning}{partition}\", SK = \"{sort}\" }}\n\n[[aggregates]]\nname = \"{name}\"\nof = \"{}\"\ninto = [\"{name}\"]\n[aggregates.measures]\n{measures}",
                entity.name
            )
        });
        let others = all.iter().filter(|other| other.name != entity.name);
        let mirrors = others.filter_map(|other| self.mirror(other)).collect();
        ProposedAggregate { about: format!("{about}."), versions, mirrors }
    }

    /// A mirror on the items of another entity, if their key follows from the key of the rollup.
    fn mirror(&self, other: &InferredEntity) -> Option<String> {
        let shown = self.shown.as_ref()?;
        let is_taken = other.attribute_names.contains(shown);
        let bound = self.bound(other).filter(|_| !is_taken)?;
        let different: Vec<String> = bound
            .iter()
            .filter(|(own, variable)| own != variable)
            .map(|(own, variable)| format!("{own} = \"{variable}\""))
            .collect();
        let bind = match different.as_slice() {
            [] => String::new(),
            some => format!("bind = {{ {} }}\n", some.join(", ")),
        };
        Some(format!(
            "\n[[mirrors]]\nonto = \"{}\"\nfrom = \"{}\"\n{bind}attributes = {{ {shown} = \"{}_count\" }}\n",
            other.name, self.name, self.entity.name
        ))
    }

    /// For each variable of another entity's key, the variable of the rollup's key that has its values; `None` if they do not
    /// correspond.
    fn bound<'o>(&self, other: &'o InferredEntity) -> Option<Vec<(&'o str, &str)>> {
        if other.variables.len() != self.variables.len() {
            return None;
        }
        let has_same_partition = self.entity.key.first().zip(other.key.first()).is_some_and(|(own, key)| {
            own.1 == self.partition && skeleton(&own.1) == skeleton(&key.1) && key.1.contains('{')
        });
        let pairs: Vec<(&str, &str)> = if has_same_partition {
            let variables = other.partition.0.iter().map(String::as_str);
            variables.zip(self.variables.iter().copied()).collect()
        } else {
            let pair = |(variable, values): (&'o String, &BTreeSet<String>)| {
                let same = self.variables.iter().find(|own| *own == variable);
                let agreeing = || self.variables.iter().find(|own| self.agrees(own, values));
                same.or_else(agreeing).map(|own| (variable.as_str(), *own))
            };
            other.variables.iter().zip(&other.values).map(pair).collect::<Option<_>>()?
        };
        let used: BTreeSet<&str> = pairs.iter().map(|(_, own)| *own).collect();
        (used.len() == self.variables.len() && pairs.len() == other.variables.len()).then_some(pairs)
    }

    /// Whether values of a variable of the rollup's key are among these. Numbers agree by chance.
    fn agrees(&self, variable: &str, values: &BTreeSet<String>) -> bool {
        let place = self.entity.variables.iter().position(|own| own == variable);
        let Some(own) = place.and_then(|place| self.entity.values.get(place)) else { return false };
        let is_text = |value: &&String| {
            value.len() >= SHORTEST_AGREEING && value.contains(|one: char| one.is_ascii_alphabetic())
        };
        let shared = own.intersection(values).filter(is_text).count();
        shared >= LEAST_AGREEING && shared * 10 >= own.len().min(values.len())
    }
}

/// A template without the names of its variables.
fn skeleton(template: &str) -> String {
    let parts = template.split('{').map(|part| part.split_once('}').map_or(part, |(_, text)| text));
    parts.collect::<Vec<_>>().join("{}")
}

/// The measures of an entity: their number, a count of each status, sums.
fn measures(entity: &InferredEntity) -> Vec<(String, String)> {
    let mut measures = vec![(format!("{}_count", entity.name), "\"count\"".to_owned())];
    for attribute in plain_attributes(entity) {
        measures.extend(attribute.statuses.iter().filter_map(|status| status_measure(attribute, status)));
    }
    let amounts = plain_attributes(entity).filter(|attribute| attribute.is_amount).take(MOST_SUMS);
    measures.extend(
        amounts.map(|amount| (format!("{}_sum", amount.name), format!("{{ sum = \"{}\" }}", amount.name))),
    );
    let mut seen: Vec<String> = Vec::new();
    measures.retain(|(name, _)| {
        !seen.contains(name) && {
            seen.push(name.clone());
            true
        }
    });
    measures
}

fn status_measure(attribute: &AttributeProfile, status: &str) -> Option<(String, String)> {
    let name = &attribute.name;
    let condition = format!("{{ count = true, when.{name} = [{status}] }}");
    match status {
        // The other items are those that are not counted here.
        "false" => None,
        "true" => Some((format!("{name}_count"), condition)),
        _ => Some((format!("{name}_{}", snake(status.trim_matches('"'))?), condition)),
    }
}
