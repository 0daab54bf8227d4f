//! The inferred model as TOML, with comments.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use afterwrite_model::harmless::{harmless, harmless_toml};
use afterwrite_model::record::written_name;
use afterwrite_model::table::{KeyType, Model};
use serde_json::json;

use super::attributes::AttributeProfile;
use super::entities::{InferredEntity, entities};
use super::evidence::SampleEvidence;
use super::groups::groups;
use super::keys::USUAL_SEPARATORS;
use super::proposals::proposals;
use super::sample::{InferenceHints, TableSample};
use super::texts::is_plain_name;

/// Proposals of one model.
const MOST_PROPOSALS: usize = 80;

const PROPOSALS_HEADING: &str = "
# Proposals. Delete the `#` at the beginning of the lines that you want; lines that begin with `# ` are explanations.
# Rollups that every item counts into are hot: give them `shards`.
";

/// A model that was inferred from a sample.
#[derive(Clone, Debug, Default)]
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
        let evidence = SampleEvidence::of(sample, hints);
        let groups = groups(&evidence, hints.separator);
        let entities = entities(&evidence, &groups);
        // Keys that begin with a variable may load if no variable contains the separator.
        let separators = groups.iter().flat_map(|group| &group.shapes).filter_map(|shape| shape.separator);
        let separators: BTreeSet<char> = separators.chain(USUAL_SEPARATORS).collect();
        let is_free = |separator: &char| {
            let mut variables = entities.iter().flat_map(|entity| &entity.variables);
            !variables.any(|variable| variable.values.iter().any(|value| value.contains(*separator)))
        };
        let (mut best, mut accepted) = Self::of_entities(sample, &entities, None);
        for separator in separators.into_iter().filter(is_free) {
            if !best.left_out.is_empty() {
                let (model, entities) = Self::of_entities(sample, &entities, Some(separator));
                if model.left_out.len() < best.left_out.len() {
                    (best, accepted) = (model, entities);
                }
            }
        }
        best.append_proposals(&accepted);
        best
    }

    /// The model of the entities with which it loads, in a table with this separator.
    fn of_entities<'e>(
        sample: &TableSample,
        entities: &'e [InferredEntity],
        separator: Option<char>,
    ) -> (Self, Vec<&'e InferredEntity>) {
        let mut model = Self { toml: heading(sample, separator), ..Self::default() };
        let mut accepted = Vec::new();
        for entity in entities {
            let with = |has_times| loaded(format!("{}\n{}", model.toml, section(entity, has_times)));
            // Times that the loader does not take are read by their forms.
            match entity.refusal.clone().map_or_else(|| with(true), Err) {
                Ok(toml) => {
                    model.toml = toml;
                    accepted.push(entity);
                }
                Err(problem) => {
                    model.undescribed += entity.items;
                    model.left_out.push(left_out_sentence(entity, &problem));
                }
            }
        }
        model.entities = accepted.len();
        for sentence in &model.left_out {
            let _ = write!(model.toml, "\n# {}\n", harmless(sentence));
        }
        (model, accepted)
    }

    /// Appends the proposals with which the model loads, as comments.
    fn append_proposals(&mut self, entities: &[&InferredEntity]) {
        let mut text = self.toml.clone();
        for proposal in entities.iter().flat_map(|entity| proposals(entity, entities)) {
            let with = |part: String| loaded(format!("{text}\n{part}")).ok();
            let Some(mut with) = proposal.versions().into_iter().find_map(with) else { continue };
            for mirror in entities.iter().filter_map(|other| proposal.mirror(other)) {
                with = loaded(format!("{with}{mirror}")).unwrap_or(with);
            }
            if self.proposals == MOST_PROPOSALS {
                break;
            }
            let heading = if self.proposals == 0 { PROPOSALS_HEADING } else { "" };
            let own = with.get(text.len() + 1..).unwrap_or_default();
            let lines: String = own.lines().map(|line| format!("#{line}\n")).collect();
            let _ = write!(self.toml, "{heading}\n# {}.\n{lines}", proposal.about);
            self.proposals += 1;
            text = with;
        }
    }
}

/// A model that loads.
///
/// # Errors
/// The first problem of the model.
fn loaded(toml: String) -> Result<String, String> {
    let problems = Model::parse(&toml, "model.toml").err().map(|errors| errors.problems).unwrap_or_default();
    problems.into_iter().next().map_or(Ok(toml), |problem| Err(problem.message))
}

fn heading(sample: &TableSample, separator: Option<char>) -> String {
    let model_name = sample.table.replace(|one: char| !is_plain_name(one.encode_utf8(&mut [0; 4])), "-");
    let names: Vec<String> = sample.key_names().map(|name| toml_text(&written_name(name))).collect();
    let mut toml = format!(
        "# Proposed by `afterwrite model init` from {} items. Check the names, the types and the templates; docs/MODEL.md\n# explains each key. Then run `afterwrite model check` and `afterwrite model explain` with this file.\n\nname = {}\ngeneration = 1\n\n[tables.{}]\nkey = [{}]\n",
        sample.items.len(),
        json!(model_name),
        key_name(&sample.table),
        names.join(", ")
    );
    if sample.has_guessed_key {
        let _ = writeln!(toml, "# {}", harmless(&sample.key_guess()));
    }
    let types = sample.key.iter().filter(|key| key.key_type != KeyType::Text);
    toml.push_str(&inline_table("types", types.map(|key| (key.name.as_str(), key.key_type.name()))));
    if let Some(separator) = separator {
        let _ = writeln!(toml, "separator = \"{separator}\"");
    }
    for index in &sample.indexes {
        let _ = writeln!(toml, "# Index {}: {}", harmless(&index.name), harmless(&index.keys.join(", ")));
    }
    toml
}

/// A line with an inline table of attributes; nothing if it has no members.
fn inline_table<'m>(name: &str, members: impl Iterator<Item = (&'m str, &'m str)>) -> String {
    let members = members.map(|(name, value)| format!("{} = {}", attribute_key(name), toml_text(value)));
    let members: Vec<String> = members.collect();
    if members.is_empty() { String::new() } else { format!("{name} = {{ {} }}\n", members.join(", ")) }
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

/// A sentence about items that are left out. It names them by the constants of their keys.
fn left_out_sentence(entity: &InferredEntity, problem: &str) -> String {
    let words: Vec<String> = entity.constants.iter().map(|word| format!("`{word}`")).collect();
    let kind =
        if words.is_empty() { String::new() } else { format!(" with {} in the key", words.join(", ")) };
    match entity.items {
        1 => format!("1 item{kind} is left out: {problem}"),
        several => format!("{several} items{kind} are left out: {problem}"),
    }
}

fn section(entity: &InferredEntity, has_times: bool) -> String {
    let mut toml = format!("# {} items.\n[entities.{}]\n", entity.items, entity.name);
    for doubt in &entity.doubts {
        let _ = writeln!(toml, "# {}", harmless(doubt));
    }
    let templates = entity.key.iter().map(|(name, template)| (name.as_str(), template.as_str()));
    toml.push_str(&inline_table("key", templates));
    if let Some((name, value)) = &entity.when {
        let _ = writeln!(toml, "when.{} = [{}]", attribute_key(name), toml_text(value));
    }
    let variables =
        entity.variables.iter().filter_map(|one| Some((one.name.as_str(), one.time?.declared()?)));
    let attributes =
        entity.attributes.iter().filter_map(|one| Some((one.name.as_str(), one.time?.declared()?)));
    toml.push_str(&inline_table("times", variables.chain(attributes).filter(|_| has_times)));
    if !entity.attributes.is_empty() {
        let _ = writeln!(toml, "[entities.{}.attributes]", entity.name);
    }
    for attribute in &entity.attributes {
        let (name, comment) = (attribute_key(&attribute.name), attribute_comment(entity, attribute));
        let _ = writeln!(toml, "{name} = \"{}\"{comment}", attribute.value_type);
    }
    toml
}

/// The comment on an attribute: how a time is read, and how a measure reads numbers in texts.
fn attribute_comment(entity: &InferredEntity, attribute: &AttributeProfile) -> String {
    let AttributeProfile { name, value_type, time, is_amount, .. } = attribute;
    let number = format!("{name}_number");
    let is_free = is_plain_name(name) && !entity.attribute_names.contains(&number);
    match (*value_type, time) {
        (_, Some(time)) => format!("  # {}", time.described()),
        ("any", None) => "  # values of several types".to_owned(),
        ("S", None) if *is_amount && is_free => format!(
            "  # numbers in texts: `derive.{number} = {{ number = \"{name}\" }}` above reads them, `{{ sum = \"{number}\" }}` adds them up"
        ),
        (_, None) => String::new(),
    }
}
