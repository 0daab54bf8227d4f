//! Aggregates that the entities suggest: counts and sums for each parent that a key names, by day, and in total.

use std::collections::BTreeSet;

use super::attributes::AttributeProfile;
use super::entities::{EntityVariable, InferredEntity};
use super::texts::{folded, is_plain_name, snake};

/// Sums of one rollup, and references of one entity.
const MOST_SUMS: usize = 6;
const MOST_REFERENCES: usize = 3;

/// Variables of two keys agree if so many of their values are equal, each of this length at least.
const LEAST_AGREEING: usize = 3;
const SHORTEST_AGREEING: usize = 3;

/// Parts of names of times that change, in lower case.
const CHANGING_NAMES: [&str; 8] = ["updat", "modif", "expir", "ttl", "delet", "last", "complet", "ended"];

/// Names of an item's own id, in lower case.
const OWN_ID_NAMES: [&str; 4] = ["id", "ulid", "ksuid", "uuid"];

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
    let name = &entity.name;
    let mut plans = Vec::new();
    let day = day_of(entity, all);
    let by_day = |sort: &str| day.as_ref().map(|day| format!("{sort}#DAY#{{{day}:day}}"));
    let sort = format!("ROLLUP#{}", name.to_uppercase());
    let mut grouped = None;
    if let Some((partition, variables)) = partition_key(entity).or_else(|| partition_prefix(entity)) {
        let by = format!("{name}_by_{}", variables.join("_"));
        let about = format!("The {name} items of each {}", variables.join(" and "));
        // A group of one time has one day.
        let has_days = day.as_ref().is_some_and(|day| !variables.contains(&day.as_str()));
        let daily = by_day(&sort).filter(|_| has_days);
        let plan = |suffix: &str, words: &str, sort: String, shown: Option<String>| RollupPlan {
            entity,
            name: format!("{by}{suffix}"),
            about: format!("{about}{words}"),
            partition: partition.clone(),
            sort,
            variables: variables.clone(),
            shown,
        };
        plans.push(plan("", "", sort.clone(), Some(format!("{name}_count"))));
        plans.extend(daily.map(|sort| plan("_and_day", ", by day", sort, None)));
        if let [one] = variables.as_slice() {
            grouped = Some(*one);
        }
    }
    let others = grouping_names(entity, all).into_iter().filter(|one| Some(*one) != grouped);
    plans.extend(others.map(|variable| RollupPlan::of_variable(entity, variable, sort.clone())));
    plans.push(RollupPlan::of_all(entity, "total", "", "ROLLUP#TOTAL".to_owned()));
    plans.extend(by_day("ROLLUP").map(|sort| RollupPlan::of_all(entity, "by_day", ", by day", sort)));
    plans.iter().map(|plan| plan.proposal(all)).collect()
}

/// The variables and references that group items of an entity, each once.
fn grouping_names<'e>(entity: &'e InferredEntity, all: &[&InferredEntity]) -> Vec<&'e str> {
    let mut names = grouping_variables(entity);
    names.retain(|one| entity.partition != [*one]);
    for reference in references(entity, all) {
        if !names.contains(&reference) {
            names.push(reference);
        }
    }
    names
}

/// The partition key of a rollup for each partition, and its variables; `None` if partitions are not groups of these items.
fn partition_key(entity: &InferredEntity) -> Option<(String, Vec<&str>)> {
    let variables = &entity.partition;
    let has_others = entity.variables.len() > variables.len();
    if variables.is_empty() || (entity.is_single && !has_others) {
        return None;
    }
    let own = &entity.key.first()?.1;
    let template = match variables.as_slice() {
        [one] if *own == format!("{{{one}}}") => format!("{}#{{{one}}}", one.to_uppercase()),
        _ => own.clone(),
    };
    Some((template, variables.iter().map(String::as_str).collect()))
}

/// The partition key without its last variable, and the variables of this prefix; `None` if prefixes are not groups of these items.
fn partition_prefix(entity: &InferredEntity) -> Option<(String, Vec<&str>)> {
    let (_, variables) = entity.partition.split_last()?;
    let (prefix, _) = entity.key.first()?.1.rsplit_once('{')?;
    let prefix = prefix.trim_end_matches(|character: char| character != '}' && !character.is_alphanumeric());
    let is_group = are_groups(entity.prefixes, entity.items) && prefix.ends_with('}');
    (is_group && !variables.is_empty())
        .then(|| (prefix.to_owned(), variables.iter().map(String::as_str).collect()))
}

/// The variables of the key of which several items have the same value. Times are left out, and numbers of an item within its prefix, as
/// `{issue}` in `ISSUE#{owner}#{repo}#{issue}`.
fn grouping_variables(entity: &InferredEntity) -> Vec<&str> {
    let groups = entity.variables.iter().enumerate().filter(|(place, variable)| {
        let EntityVariable { name, values, time } = variable;
        let are_numbers = || values.iter().all(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
        let numbers_items = *place > 0 && is_named_after(entity, name) && are_numbers();
        let is_time = time.is_some_and(|form| !form.is_id());
        are_groups(values.len(), entity.items) && !is_time && !numbers_items
    });
    groups.map(|(_, variable)| variable.name.as_str()).collect()
}

/// Whether this many different values are groups of items: some of them have several items.
fn are_groups(different: usize, items: usize) -> bool {
    different * 10 <= items * 9
}

/// The attributes after which parts of a model can be named.
fn plain_attributes(entity: &InferredEntity) -> impl Iterator<Item = &AttributeProfile> {
    entity.attributes.iter().filter(|attribute| is_plain_name(&attribute.name))
}

/// The attributes that are variables of other entities' keys.
fn references<'e>(entity: &'e InferredEntity, all: &[&InferredEntity]) -> Vec<&'e str> {
    let is_variable =
        |name: &str| all.iter().any(|other| other.partition.iter().any(|variable| variable == name));
    let references = plain_attributes(entity).filter(|attribute| {
        attribute.is_complete && attribute.value_type == "S" && is_variable(&attribute.name)
    });
    references.map(|attribute| attribute.name.as_str()).take(MOST_REFERENCES).collect()
}

/// The time that decides the day of an item. The item's own time attribute is preferred to a time in its id. An id in the key of another item, or in the
/// key of the partition, has the time of the other item. Of several times, the creation is the earliest.
fn day_of(entity: &InferredEntity, all: &[&InferredEntity]) -> Option<String> {
    let is_changing = |name: &str| CHANGING_NAMES.iter().any(|part| name.to_lowercase().contains(part));
    let attributes = plain_attributes(entity).filter(|attribute| attribute.is_complete);
    let attributes = attributes.filter_map(|one| Some((one.name.as_str(), one.time?, one.middle.as_str())));
    let keys = entity.variables.iter().filter_map(|one| Some((one.name.as_str(), one.time?, "")));
    let times = keys.chain(attributes).filter(|(name, ..)| !is_changing(name));
    let own = times.filter(|(name, form, _)| match form.is_id() {
        true => is_own_id(entity, name, all),
        false => !entity.partition.iter().any(|variable| variable == name),
    });
    let rank = |(name, form, middle): &(&str, _, &str)| {
        let form: &super::times::TimeForm = form;
        let is_created = name.to_lowercase().contains("creat");
        (form.is_id(), !is_named_after(entity, name), !is_created, (*middle).to_owned())
    };
    own.min_by_key(rank).map(|(name, ..)| name.to_owned())
}

/// Whether a name begins with the entity's name: `likeId` of `like`.
fn is_named_after(entity: &InferredEntity, name: &str) -> bool {
    folded(name).starts_with(&folded(&entity.name))
}

/// Whether an id with a time is the item's own: it has the entity's name, or it is part of the key, in no other entity's key, and not in
/// that of the partition. Other attributes have ids of other items, except one that is named `id`.
fn is_own_id(entity: &InferredEntity, name: &str, all: &[&InferredEntity]) -> bool {
    let in_partition = entity.partition.iter().any(|variable| variable == name);
    let is_in_key = |entity: &InferredEntity| entity.variables.iter().any(|variable| variable.name == name);
    let is_of_others = all
        .iter()
        .filter(|other| other.name != entity.name)
        .any(|other| is_in_key(other) || other.attributes.iter().any(|attribute| attribute.name == name));
    let is_named = is_named_after(entity, name);
    let may_be = is_in_key(entity) || is_named || OWN_ID_NAMES.contains(&name.to_lowercase().as_str());
    may_be && (entity.variables.len() == 1 || !in_partition) && (is_named || !is_of_others)
}

impl<'e> RollupPlan<'e> {
    /// The items of each value of a variable or a reference.
    fn of_variable(entity: &'e InferredEntity, variable: &'e str, sort: String) -> Self {
        let name = format!("{}_by_{variable}", entity.name);
        Self {
            entity,
            about: format!("The {} items of each {variable}", entity.name),
            partition: format!("{}#{{{variable}}}", variable.to_uppercase()),
            sort,
            variables: vec![variable],
            shown: Some(format!("{name}_count")),
            name,
        }
    }

    /// All items, or all items of a day.
    fn of_all(entity: &'e InferredEntity, suffix: &str, words: &str, sort: String) -> Self {
        Self {
            entity,
            name: format!("{}_{suffix}", entity.name),
            about: format!("All {} items{words}", entity.name),
            partition: format!("ALL#{}", entity.name.to_uppercase()),
            sort,
            variables: Vec::new(),
            shown: None,
        }
    }

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
        let shown = self.shown.as_ref().filter(|shown| !other.attribute_names.contains(*shown))?;
        let bound = self.bound(other)?;
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
            other.partition.iter().map(String::as_str).zip(self.variables.iter().copied()).collect()
        } else {
            let pair = |variable: &'o EntityVariable| {
                let same = self.variables.iter().find(|own| **own == variable.name);
                let agreeing = || self.variables.iter().find(|own| self.agrees(own, &variable.values));
                same.or_else(agreeing).map(|own| (variable.name.as_str(), *own))
            };
            other.variables.iter().map(pair).collect::<Option<_>>()?
        };
        let used: BTreeSet<&str> = pairs.iter().map(|(_, own)| *own).collect();
        (used.len() == self.variables.len() && pairs.len() == other.variables.len()).then_some(pairs)
    }

    /// Whether values of a variable of the rollup's key are among these. Numbers agree by chance.
    fn agrees(&self, variable: &str, values: &BTreeSet<String>) -> bool {
        let Some(own) = self.entity.variables.iter().find(|own| own.name == variable) else { return false };
        let is_text = |value: &&String| {
            value.len() >= SHORTEST_AGREEING && value.contains(|one: char| one.is_ascii_alphabetic())
        };
        let shared = own.values.intersection(values).filter(is_text).count();
        shared >= LEAST_AGREEING && shared * 10 >= own.values.len().min(values.len())
    }
}

/// A template without the names of its variables.
fn skeleton(template: &str) -> String {
    let parts = template.split('{').map(|part| part.split_once('}').map_or(part, |(_, text)| text));
    parts.collect::<Vec<_>>().join("{}")
}

/// The measures of an entity, each once: their number, a count of each state, sums.
fn measures(entity: &InferredEntity) -> Vec<(String, String)> {
    let mut measures = vec![(format!("{}_count", entity.name), "\"count\"".to_owned())];
    for attribute in plain_attributes(entity) {
        measures.extend(attribute.states.iter().filter_map(|state| state_measure(attribute, state)));
    }
    let amounts = plain_attributes(entity).filter(|attribute| attribute.is_amount).take(MOST_SUMS);
    measures.extend(
        amounts
            .map(|AttributeProfile { name, .. }| (format!("{name}_sum"), format!("{{ sum = \"{name}\" }}"))),
    );
    let mut seen = BTreeSet::new();
    measures.retain(|(name, _)| seen.insert(name.clone()));
    measures
}

fn state_measure(attribute: &AttributeProfile, state: &str) -> Option<(String, String)> {
    let name = &attribute.name;
    let condition = format!("{{ count = true, when.{name} = [{state}] }}");
    match state {
        // The other items are those that are not counted here.
        "false" => None,
        "true" => Some((format!("{name}_count"), condition)),
        _ => Some((format!("{name}_{}", snake(state.trim_matches('"'))?), condition)),
    }
}
