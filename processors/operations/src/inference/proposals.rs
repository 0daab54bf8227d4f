//! Aggregates that the entities suggest: counts and sums per partition, by day, by reference, and in total.

use super::attributes::AttributeProfile;
use super::entities::InferredEntity;
use super::texts::snake;

/// Sums of one rollup.
const MOST_SUMS: usize = 6;

/// Names of times at which an item is created, the best first, in lower case.
const CREATION_NAMES: [&str; 8] =
    ["created", "placed", "ordered", "started", "timestamp", "date", "time", "at"];

/// Names of times that change, in lower case.
const CHANGING_NAMES: [&str; 8] =
    ["updated", "modified", "expires", "ttl", "deleted", "last", "completed", "ended"];

/// An aggregate with its rollup, and a mirror if an item can show it.
pub(super) struct ProposedAggregate {
    /// A sentence.
    pub(super) about: String,
    /// The part of the model.
    pub(super) toml: String,
}

/// The rollup of a proposal.
struct RollupPlan<'e> {
    entity: &'e InferredEntity,
    name: String,
    about: String,
    partition: String,
    sort: String,
}

/// The proposals for an entity.
pub(super) fn proposals(entity: &InferredEntity, all: &[InferredEntity]) -> Vec<ProposedAggregate> {
    let (name, upper) = (&entity.name, entity.name.to_uppercase());
    let mut plans = Vec::new();
    let day = day_of(entity);
    let by_day = |sort: &str| day.as_ref().map(|day| format!("{sort}#DAY#{{{day}:day}}"));
    if let Some(partition) = partition_key(entity) {
        let of = entity.partition.0.join("_");
        let sort = format!("ROLLUP#{upper}");
        let by = format!("{name}_by_{of}");
        let about = format!("The {name} items of each {}", entity.partition.0.join(" and "));
        plans.extend(by_day(&sort).map(|sort| RollupPlan {
            entity,
            name: format!("{by}_and_day"),
            about: format!("{about}, by day"),
            partition: partition.clone(),
            sort,
        }));
        plans.insert(0, RollupPlan { entity, name: by, about, partition, sort });
    }
    for reference in references(entity, all) {
        plans.push(RollupPlan {
            entity,
            name: format!("{name}_by_{reference}"),
            about: format!("The {name} items of each {reference}"),
            partition: format!("{}#{{{reference}}}", reference.to_uppercase()),
            sort: format!("ROLLUP#{upper}"),
        });
    }
    let total = |suffix: &str, about: String, sort: String| {
        let partition = format!("ALL#{upper}");
        RollupPlan { entity, name: format!("{name}_{suffix}"), about, partition, sort }
    };
    plans.push(total("total", format!("All {name} items"), "ROLLUP#TOTAL".to_owned()));
    plans.extend(by_day("ROLLUP").map(|sort| total("by_day", format!("All {name} items, by day"), sort)));
    plans.iter().map(|plan| plan.proposal(all)).collect()
}

/// The partition key of a rollup for each partition; `None` if partitions are not groups of these items.
fn partition_key(entity: &InferredEntity) -> Option<String> {
    let (variables, has_text) = &entity.partition;
    let has_others = entity.variables.len() > variables.len();
    if variables.is_empty() || (entity.is_single && !has_others) {
        return None;
    }
    match (has_text, variables.as_slice()) {
        (false, [one]) => Some(format!("{}#{{{one}}}", one.to_uppercase())),
        _ => entity.key.first().map(|(_, template)| template.clone()),
    }
}

/// The attributes that are variables of other entities' keys.
fn references<'e>(entity: &'e InferredEntity, all: &[InferredEntity]) -> Vec<&'e str> {
    let is_variable =
        |name: &str| all.iter().any(|other| other.partition.0.iter().any(|variable| variable == name));
    let attributes = entity.attributes.iter();
    let references = attributes.filter(|attribute| {
        attribute.is_complete && attribute.value_type == "S" && is_variable(&attribute.name)
    });
    references.map(|attribute| attribute.name.as_str()).take(3).collect()
}

/// The time that decides the day of an item.
fn day_of(entity: &InferredEntity) -> Option<String> {
    let is_changing = |name: &str| CHANGING_NAMES.iter().any(|part| name.to_lowercase().contains(part));
    let attributes = entity.attributes.iter().filter(|attribute| attribute.is_complete);
    let attributes = attributes.filter_map(|attribute| Some((attribute.name.as_str(), attribute.time?)));
    let keys = entity.key_times.iter().map(|(name, form)| (name.as_str(), *form));
    let times = keys.chain(attributes).filter(|(name, _)| !is_changing(name));
    let rank = |name: &str| {
        let lower = name.to_lowercase();
        CREATION_NAMES.iter().position(|part| lower.contains(part)).unwrap_or(CREATION_NAMES.len())
    };
    times.min_by_key(|(name, _)| rank(name)).map(|(name, _)| name.to_owned())
}

impl RollupPlan<'_> {
    fn proposal(&self, all: &[InferredEntity]) -> ProposedAggregate {
        let Self { entity, name, about, partition, sort } = self;
        let mut toml = format!(
            "[rollups.{name}]\nkey = {{ PK = \"{partition}\", SK = \"{sort}\" }}\n\n[[aggregates]]\nname = \"{name}\"\nof = \"{}\"\ninto = [\"{name}\"]\n[aggregates.measures]\n",
            entity.name
        );
        for (measure, value) in measures(entity) {
            toml.push_str(&format!("{measure} = {value}\n"));
        }
        if let Some(onto) = self.shown_on(all) {
            let shown = format!("{}_count", entity.name);
            toml.push_str(&format!(
                "\n[[mirrors]]\nonto = \"{onto}\"\nfrom = \"{name}\"\nattributes = {{ {shown} = \"{shown}\" }}\n"
            ));
        }
        ProposedAggregate { about: format!("{about}."), toml }
    }

    /// The entity whose items can show the count: the key of the rollup follows from their keys.
    fn shown_on<'a>(&self, all: &'a [InferredEntity]) -> Option<&'a str> {
        let is_of_partition = self.entity.key.first().map(|(_, template)| template) == Some(&self.partition);
        let (variables, count) = (&self.entity.partition.0, format!("{}_count", self.entity.name));
        let has_room =
            |other: &InferredEntity| !other.attributes.iter().any(|attribute| attribute.name == count);
        let is_day = self.sort.contains('{');
        let mut others = all.iter().filter(|other| other.name != self.entity.name && has_room(other));
        let other = others.find(|other| other.is_single && other.variables.iter().eq(variables));
        other.filter(|_| is_of_partition && !is_day).map(|other| other.name.as_str())
    }
}

/// The measures of an entity: their number, a count of each status, sums.
fn measures(entity: &InferredEntity) -> Vec<(String, String)> {
    let mut measures = vec![(format!("{}_count", entity.name), "\"count\"".to_owned())];
    for attribute in &entity.attributes {
        measures.extend(attribute.statuses.iter().filter_map(|status| status_measure(attribute, status)));
    }
    let amounts = entity.attributes.iter().filter(|attribute| attribute.is_amount).take(MOST_SUMS);
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
