//! The inferred model as TOML, with comments.

use std::fmt::Write as _;

use afterwrite_model::harmless::{harmless, harmless_toml};
use afterwrite_model::record::written_name;
use afterwrite_model::table::{KeyType, Model};
use serde_json::json;

use super::attributes::AttributeProfile;
use super::entities::{InferredEntity, entities};
use super::groups::{ItemGroup, groups};
use super::key_search::{KeyEvidence, USUAL_SEPARATORS};
use super::key_shapes::KeyShape;
use super::proposals::proposals;
use super::sample::{InferenceHints, TableSample};
use super::texts::{is_plain_character, is_plain_name};

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
    /// Why they do not: a sentence for each kind of them.
    pub left_out: Vec<String>,
}

impl InferredModel {
    /// Infers the model of a table.
    #[must_use]
    pub fn of(sample: &TableSample) -> Self {
        Self::with(sample, &InferenceHints::default())
    }

    /// Infers the model of a table of which something is known.
    #[must_use]
    pub fn with(sample: &TableSample, hints: &InferenceHints) -> Self {
        let evidence = KeyEvidence::of(sample, hints);
        let groups = groups(&evidence, hints);
        let entities = entities(&evidence, &groups);
        let mut sections = EntitySections::of(sample, &entities, None);
        for separator in free_separators(sample, &groups) {
            if sections.refused.is_empty() {
                break;
            }
            let separated = EntitySections::of(sample, &entities, Some(separator));
            if separated.refused.len() < sections.refused.len() {
                sections = separated;
            }
        }
        let EntitySections { mut toml, accepted, refused } = sections;
        let left_out: Vec<String> = refused.iter().map(left_out_sentence).collect();
        for sentence in &left_out {
            let _ = write!(toml, "\n# {}\n", harmless(sentence));
        }
        let proposals = append_proposals(&mut toml, &accepted);
        let undescribed = refused.iter().map(|(entity, _)| entity.items).sum();
        Self { toml, entities: accepted.len(), proposals, undescribed, left_out }
    }
}

const PROPOSALS_HEADING: &str = "
# Proposals. Delete the `#` at the beginning of the lines that you want; lines that begin with `# ` are explanations.
# Rollups that every item counts into are hot: give them `shards`.
";

/// Appends the proposals with which the model loads, as comments. Returns their number.
fn append_proposals(toml: &mut String, accepted: &[&InferredEntity]) -> usize {
    let (mut text, mut count) = (toml.clone(), 0);
    for proposal in accepted.iter().flat_map(|entity| proposals(entity, accepted)) {
        if count >= MOST_PROPOSALS {
            break;
        }
        let loads = |part: &String| problem(&format!("{text}\n{part}")).is_none();
        let Some(mut own) = proposal.versions.into_iter().find(loads) else { continue };
        text = format!("{text}\n{own}");
        for mirror in proposal.mirrors {
            let with = format!("{text}{mirror}");
            if problem(&with).is_none() {
                text = with;
                own.push_str(&mirror);
            }
        }
        if count == 0 {
            toml.push_str(PROPOSALS_HEADING);
        }
        let _ = write!(toml, "\n# {}\n{}", proposal.about, commented(&own));
        count += 1;
    }
    count
}

/// The characters that no variable contains: separators of segments of keys, and usual ones.
fn free_separators(sample: &TableSample, groups: &[ItemGroup]) -> Vec<char> {
    let shapes = || {
        groups.iter().flat_map(|group| {
            group.shapes.iter().zip(&sample.key).map(move |(shape, key)| (group, shape, key))
        })
    };
    let mut separators: Vec<char> = Vec::new();
    for separator in shapes().filter_map(|(_, shape, _)| shape.separator).chain(USUAL_SEPARATORS) {
        if !separators.contains(&separator) {
            separators.push(separator);
        }
    }
    for (group, shape, key) in shapes() {
        let values = |text: &String| KeyShape::values(shape, text);
        for value in sample.key_texts(&key.name, &group.members).iter().flat_map(values) {
            separators.retain(|separator| !value.contains(*separator));
        }
    }
    separators
}

fn heading(sample: &TableSample, separator: Option<char>) -> String {
    let mut toml = format!(
        "# Proposed by `afterwrite model init` from {} items. Check the names, the types and the templates; docs/MODEL.md\n# explains each key. Then run `afterwrite model check` and `afterwrite model explain` with this file.\n\nname = {}\ngeneration = 1\n\n",
        sample.items.len(),
        json!(model_name(&sample.table))
    );
    let names: Vec<String> = sample.key_names().map(|name| toml_text(&written_name(name))).collect();
    let _ = write!(toml, "[tables.{}]\nkey = [{}]\n", key_name(&sample.table), names.join(", "));
    if sample.has_guessed_key {
        let _ = writeln!(toml, "# {}", harmless(&sample.key_guess()));
    }
    let types = sample.key.iter().filter(|key| key.key_type != KeyType::Text);
    let types: Vec<String> =
        types.map(|key| format!("{} = \"{}\"", attribute_key(&key.name), key.key_type.name())).collect();
    if !types.is_empty() {
        let _ = writeln!(toml, "types = {{ {} }}", types.join(", "));
    }
    if let Some(separator) = separator {
        let _ = writeln!(toml, "separator = \"{separator}\"");
    }
    for index in &sample.indexes {
        let keys = index.keys.join(", ");
        let _ = writeln!(toml, "# Index {}: {}", harmless(&index.name), harmless(&keys));
    }
    toml
}

/// A model's name from a table's.
fn model_name(table: &str) -> String {
    table.replace(|character: char| !is_plain_character(character), "-")
}

/// A key of TOML, in quotation marks where it needs them.
fn key_name(name: &str) -> String {
    if is_plain_name(name) { name.to_owned() } else { toml_text(name) }
}

/// The name of an attribute as a key of TOML.
fn attribute_key(name: &str) -> String {
    key_name(&written_name(name))
}

/// A string of TOML. Its escapes are those of JSON, and characters that JSON leaves as they are but TOML or a terminal does not.
fn toml_text(text: &str) -> String {
    harmless_toml(&json!(text).to_string()).into_owned()
}

/// An entity that is left out, and why.
type RefusedEntity<'e> = (&'e InferredEntity, String);

/// The model of the entities with which it loads.
struct EntitySections<'e> {
    toml: String,
    accepted: Vec<&'e InferredEntity>,
    refused: Vec<RefusedEntity<'e>>,
}

impl<'e> EntitySections<'e> {
    /// The sections of these entities, in a table with this separator.
    fn of(sample: &TableSample, entities: &'e [InferredEntity], separator: Option<char>) -> Self {
        let (mut toml, mut accepted, mut refused) = (heading(sample, separator), Vec::new(), Vec::new());
        for entity in entities {
            // Times that the loader does not take are read by their forms.
            let loaded = entity.refusal.clone().map_or_else(
                || with_section(&toml, entity, true).or_else(|_| with_section(&toml, entity, false)),
                Err,
            );
            match loaded {
                Ok(with) => {
                    toml = with;
                    accepted.push(entity);
                }
                Err(problem) => refused.push((entity, problem)),
            }
        }
        Self { toml, accepted, refused }
    }
}

/// A sentence about items that are left out. It names them by the constants of their keys.
fn left_out_sentence((entity, problem): &RefusedEntity<'_>) -> String {
    let words: Vec<String> = entity.constants.iter().map(|word| format!("`{word}`")).collect();
    let kind =
        if words.is_empty() { String::new() } else { format!(" with {} in the key", words.join(", ")) };
    match entity.items {
        1 => format!("1 item{kind} is left out: {problem}"),
        several => format!("{several} items{kind} are left out: {problem}"),
    }
}

/// The model with the section of an entity.
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
    let templates: Vec<String> = templates
        .map(|(name, template)| format!("{} = {}", attribute_key(name), toml_text(template)))
        .collect();
    for doubt in &entity.doubts {
        let _ = writeln!(toml, "# {}", harmless(doubt));
    }
    let _ = writeln!(toml, "key = {{ {} }}", templates.join(", "));
    if let Some((name, value)) = &entity.when {
        let _ = writeln!(toml, "when.{} = [{}]", attribute_key(name), toml_text(value));
    }
    let attributes = entity.attributes.iter().filter_map(|one| Some((one.name.clone(), one.time?)));
    let variables = entity.variables.iter().filter_map(|one| Some((one.name.clone(), one.time?)));
    let times = variables.chain(attributes);
    let times: Vec<String> = times
        .filter_map(|(name, form)| Some(format!("{} = \"{}\"", attribute_key(&name), form.declared()?)))
        .collect();
    if has_times && !times.is_empty() {
        let _ = writeln!(toml, "times = {{ {} }}", times.join(", "));
    }
    if !entity.attributes.is_empty() {
        let _ = writeln!(toml, "[entities.{}.attributes]", entity.name);
    }
    for sentence in entity.left_out.sentences() {
        let _ = writeln!(toml, "# {sentence}");
    }
    for attribute in &entity.attributes {
        let time = attribute.time.map(|form| format!("  # {}", form.described())).unwrap_or_default();
        let several = if attribute.value_type == "any" { "  # values of several types" } else { "" };
        let number = number_in_text(entity, attribute).unwrap_or_default();
        let (name, value_type) = (attribute_key(&attribute.name), attribute.value_type);
        let _ = writeln!(toml, "{name} = \"{value_type}\"{time}{several}{number}");
    }
    toml
}

/// The comment on an attribute whose values are numbers in texts: how a measure reads them.
fn number_in_text(entity: &InferredEntity, attribute: &AttributeProfile) -> Option<String> {
    let name = &attribute.name;
    let derived = format!("{name}_number");
    let is_free = is_plain_name(name) && !entity.attribute_names.contains(&derived);
    (attribute.is_text_amount && is_free).then(|| {
        format!("  # numbers in texts: `derive.{derived} = {{ number = \"{name}\" }}` above reads them, `{{ sum = \"{derived}\" }}` adds them up")
    })
}

/// The lines of a proposal as comments.
fn commented(toml: &str) -> String {
    toml.lines().map(|line| format!("{PROPOSED}{line}\n")).collect()
}
