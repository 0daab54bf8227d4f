//! The inferred model as TOML, with comments.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use afterwrite::table::{KeyType, Model};
use serde_json::json;

use super::entities::{InferredEntity, entities};
use super::groups::{ItemGroup, groups};
use super::proposals::proposals;
use super::sample::{KeyAttribute, TableSample};
use super::shapes::KeyShape;
use super::texts::text_of;

/// Beginning of a line that is part of a proposal.
const PROPOSED: &str = "#";

/// Proposals of one model.
const MOST_PROPOSALS: usize = 80;

/// A model that was inferred from a sample.
#[derive(Clone, Debug)]
pub struct InferredModel {
    /// The model file: entities, and proposals as comments.
    pub toml: String,
    /// The number of entities.
    pub entities: usize,
    /// The number of proposals.
    pub proposals: usize,
    /// The number of items that match no entity of the model.
    pub undescribed: usize,
}

impl InferredModel {
    /// Infers the model of a table.
    #[must_use]
    pub fn of(sample: &TableSample) -> Self {
        let groups = groups(sample);
        let entities = entities(sample, &groups);
        let mut toml = heading(sample, None);
        let (mut accepted, mut refused) = accepted_entities(&mut toml, &entities);
        if let Some(separator) = table_separator(sample, &groups).filter(|_| !refused.is_empty()) {
            let mut separated = heading(sample, Some(separator));
            let found = accepted_entities(&mut separated, &entities);
            if found.1.len() < refused.len() {
                (toml, (accepted, refused)) = (separated, found);
            }
        }
        for (entity, problem) in &refused {
            let (name, items) = (&entity.name, entity.items);
            let _ = write!(toml, "\n# {items} items of the kind `{name}` are left out: {problem}\n");
        }
        let mut text = toml.clone();
        let mut count = 0;
        for entity in &accepted {
            for proposal in proposals(entity, &accepted) {
                let with = format!("{text}\n{}", proposal.toml);
                if count < MOST_PROPOSALS && problem(&with).is_none() {
                    text = with;
                    if count == 0 {
                        toml.push_str(PROPOSALS_HEADING);
                    }
                    let _ = write!(toml, "\n# {}\n{}", proposal.about, commented(&proposal.toml));
                    count += 1;
                }
            }
        }
        let undescribed = refused.iter().map(|(entity, _)| entity.items).sum();
        Self { toml, entities: accepted.len(), proposals: count, undescribed }
    }

    /// The model with all proposals in effect.
    #[must_use]
    pub fn with_proposals(&self) -> String {
        let uncommented = self.toml.lines().map(|line| match line.strip_prefix(PROPOSED) {
            Some(proposed) if !proposed.starts_with(' ') => proposed,
            Some(_) | None => line,
        });
        uncommented.map(|line| format!("{line}\n")).collect()
    }
}

const PROPOSALS_HEADING: &str = "
# Proposals. Delete the `#` at the beginning of the lines that you want; lines that begin with `# ` are explanations.
# Rollups that every item counts into are hot: give them `shards`.
";

/// The character that separates the segments of all keys, if no variable contains it.
fn table_separator(sample: &TableSample, groups: &[ItemGroup]) -> Option<char> {
    let shapes = || {
        groups.iter().flat_map(|group| {
            group.shapes.iter().zip(&sample.key).map(move |(shape, key)| (group, shape, key))
        })
    };
    let separators: BTreeSet<char> = shapes().filter_map(|(_, shape, _)| shape.separator).collect();
    let separator = separators.first().copied().filter(|_| separators.len() == 1)?;
    let is_free = |(group, shape, key): (&ItemGroup, &KeyShape, &KeyAttribute)| {
        let items = group.members.iter().filter_map(|index| sample.items.get(*index));
        let mut texts = items.filter_map(|item| item.get(&*key.name).and_then(text_of));
        texts.all(|text| shape.values(&text).iter().all(|value| !value.contains(separator)))
    };
    shapes().all(is_free).then_some(separator)
}

fn heading(sample: &TableSample, separator: Option<char>) -> String {
    let mut toml = format!(
        "# Proposed by `afterwrite model init` from {} items. Check the names, the types and the templates; docs/MODEL.md\n# explains each key. Then run `afterwrite model check` and `afterwrite model explain` with this file.\n\nname = {}\ngeneration = 1\n\n",
        sample.items.len(),
        json!(model_name(&sample.table))
    );
    let names: Vec<String> = sample.key.iter().map(|key| json!(key.name).to_string()).collect();
    let _ = write!(toml, "[tables.{}]\nkey = [{}]\n", key_name(&sample.table), names.join(", "));
    let types = sample.key.iter().filter(|key| key.key_type != KeyType::Text);
    let types: Vec<String> =
        types.map(|key| format!("{} = \"{}\"", key_name(&key.name), key.key_type.name())).collect();
    if !types.is_empty() {
        let _ = writeln!(toml, "types = {{ {} }}", types.join(", "));
    }
    if let Some(separator) = separator {
        let _ = writeln!(toml, "separator = \"{separator}\"");
    }
    for index in &sample.indexes {
        let _ = writeln!(toml, "# Index {}: {}", index.name, index.keys.join(", "));
    }
    toml
}

/// A model's name from a table's.
fn model_name(table: &str) -> String {
    let plain = |character: char| match character.is_ascii_alphanumeric() || "_-".contains(character) {
        true => character,
        false => '-',
    };
    table.chars().map(plain).collect()
}

/// A key of TOML, in quotation marks where it needs them.
fn key_name(name: &str) -> String {
    let is_bare = !name.is_empty() && model_name(name) == name;
    if is_bare { name.to_owned() } else { json!(name).to_string() }
}

/// An entity that the loader refuses, and why.
type RefusedEntity = (InferredEntity, String);

/// Appends the entities with which the model loads. Those with most items come first.
fn accepted_entities(
    toml: &mut String,
    entities: &[InferredEntity],
) -> (Vec<InferredEntity>, Vec<RefusedEntity>) {
    let (mut accepted, mut refused) = (Vec::new(), Vec::new());
    for entity in entities {
        // Times that the loader does not take are read by their forms.
        let loaded = with_section(toml, entity, true).or_else(|_| with_section(toml, entity, false));
        match loaded {
            Ok(with) => {
                *toml = with;
                accepted.push(entity.clone());
            }
            Err(problem) => refused.push((entity.clone(), problem)),
        }
    }
    (accepted, refused)
}

/// The model with one more entity.
///
/// # Errors
/// The first error of the model.
fn with_section(toml: &str, entity: &InferredEntity, has_times: bool) -> Result<String, String> {
    let with = format!("{toml}\n{}", section(entity, has_times));
    problem(&with).map_or(Ok(with), Err)
}

/// The first error of a model.
fn problem(toml: &str) -> Option<String> {
    let problems = Model::parse(toml, "model.toml").err()?.problems;
    problems.into_iter().next().map(|problem| problem.message)
}

fn section(entity: &InferredEntity, has_times: bool) -> String {
    let mut toml = format!("# {} items.\n[entities.{}]\n", entity.items, entity.name);
    let templates = entity.key.iter();
    let templates: Vec<String> =
        templates.map(|(name, template)| format!("{} = {}", key_name(name), json!(template))).collect();
    let _ = writeln!(toml, "key = {{ {} }}", templates.join(", "));
    if let Some((name, value)) = &entity.when {
        let _ = writeln!(toml, "when.{} = [{}]", key_name(name), json!(value));
    }
    let attributes = entity.attributes.iter().filter_map(|one| Some((one.name.clone(), one.time?)));
    let times = entity.key_times.iter().cloned().chain(attributes);
    let times: Vec<String> = times
        .filter_map(|(name, form)| Some(format!("{} = \"{}\"", key_name(&name), form.declared()?)))
        .collect();
    if has_times && !times.is_empty() {
        let _ = writeln!(toml, "times = {{ {} }}", times.join(", "));
    }
    if !entity.attributes.is_empty() {
        let _ = writeln!(toml, "[entities.{}.attributes]", entity.name);
    }
    for attribute in &entity.attributes {
        let time = attribute.time.map(|form| format!("  # {}", form.described())).unwrap_or_default();
        let _ = writeln!(toml, "{} = \"{}\"{time}", key_name(&attribute.name), attribute.value_type);
    }
    toml
}

/// The lines of a proposal as comments.
fn commented(toml: &str) -> String {
    toml.lines().map(|line| format!("{PROPOSED}{line}\n")).collect()
}
