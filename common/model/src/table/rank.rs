//! Ranks, the order of a rollup's items by one of their measures, within groups: `rank.<measure>` of a rollup.
//!
//! ```text
//! [rollups.score]                 key = { PK = "PLAYER#{player}", SK = "GAME#{game}" }
//!                                 rank.points = { within = "GAME#{game}", shards = 4 }
//!
//! an item of the rollup           PK = PLAYER#ann, SK = GAME#chess, points = 12, rank_points = score#GAME#chess#3
//! the state table's index         rank_points: partition key `rank_points`, sort key `points`
//! ```
//!
//! A group follows from the item's key alone, so that every write of the item, a repair and a verification compute the same text, and an
//! attribute that is missing can be added without reading anything else. All decisions about ranks are in this file.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use super::load::compiler::{ModelCompiler, RollupMeasure};
use super::load::problem::ProblemCode;
use super::load::reader::{self, Located, SettingsTable, entries};
use super::load::suggestion::{listed, suggestion};
use super::rollup_keys::RollupKeys;
use super::state_key::STATE_ATTRIBUTES;
use super::{Model, Template, TemplatePiece};
use crate::record::AttributeValue;
use crate::stable_hash::stable_hash;

/// The most shards of a group: a reader of the top queries all of them.
pub(super) const MAX_RANK_SHARDS: i64 = 100;

/// DynamoDB's limit on the partition key of an index, in bytes.
const MAX_GROUP_BYTES: usize = 2048;

/// The global secondary indexes that a table can have: DynamoDB's default quota.
const MAX_INDEXES: usize = 20;

/// The number of indexes of the state table that are no rank's: `parked`.
const OWN_INDEXES: usize = 1;

/// The longest name of an index, and of an attribute in its key, in bytes.
const MAX_INDEX_NAME: usize = 255;

/// The order of a rollup's items by a measure.
#[derive(Clone, Debug)]
pub struct Rank {
    /// The measure that items are ordered by.
    pub measure: Arc<str>,
    /// The attribute that names the group of an item, and the index: `rank_<measure>`.
    pub attribute: Arc<str>,
    /// The group, made of values of the rollup's key; `None` if it is the `PK`.
    pub within: Option<Template>,
    /// Over how many partitions of the index a group is spread (1: not at all).
    pub shards: u32,
}

/// The group in which a rank orders an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankGroup {
    /// The attribute that names it.
    pub attribute: Arc<str>,
    /// Its name, with the shard.
    pub name: String,
}

impl RankGroup {
    /// Whether DynamoDB accepts the name as the partition key of an index.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.name.len() <= MAX_GROUP_BYTES
    }
}

/// An index of the state table that orders items. Its name is the partition key's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankIndex {
    /// The partition key, a text.
    pub attribute: Arc<str>,
    /// The sort key, a number.
    pub measure: Arc<str>,
}

impl Rank {
    /// The beginning of the names of attributes and indexes.
    const PREFIX: &'static str = "rank_";

    /// Whether an attribute of a rollup's item names a group, and not a measure. Groups are texts.
    #[must_use]
    pub fn names_group(attribute: &str, value: &AttributeValue<'_>) -> bool {
        attribute.starts_with(Self::PREFIX) && value.as_text().is_some()
    }

    /// The group of the item with this key. `values` are the variables of the key, if it could be read.
    pub(super) fn group(
        &self,
        rollup: &str,
        (partition, sort): (&str, &str),
        values: Option<&[Option<&str>]>,
    ) -> Option<RankGroup> {
        let mut name = match &self.within {
            None => [rollup, "#", partition].concat(),
            Some(within) => {
                let values: Vec<&str> = values?.iter().map(|value| value.unwrap_or_default()).collect();
                [rollup, "#", &within.render(&values)].concat()
            }
        };
        if self.shards > 1 {
            let shard = stable_hash(partition, sort) % u64::from(self.shards);
            name.push_str(&format!("#{shard}"));
        }
        Some(RankGroup { attribute: Arc::clone(&self.attribute), name })
    }

    /// The partitions of the index that hold a group: one, or one for each shard. `partition` is the rollup's `PK`, and the values are written
    /// as in its key.
    pub(super) fn partitions(
        &self,
        (rollup, partition): (&str, &Template),
        written: &[impl AsRef<str>],
    ) -> Vec<String> {
        let within = self.within.as_ref().unwrap_or(partition);
        let name = [rollup, "#", &within.render(written)].concat();
        match self.shards {
            0 | 1 => vec![name],
            shards => (0..shards).map(|shard| format!("{name}#{shard}")).collect(),
        }
    }

    /// The rank in words, for a rollup with this partition key and these variables.
    pub(super) fn describe(&self, partition: &Template, variables: &[Arc<str>]) -> RankDescription {
        let within = self.within.as_ref().unwrap_or(partition);
        RankDescription { within: within.written(variables), shards: self.shards }
    }
}

/// A rank in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RankDescription {
    /// The template of the group.
    pub within: String,
    /// Over how many partitions of the index a group is spread.
    pub shards: u32,
}

impl Model {
    /// The indexes of the state table that order items, each once, in the order of the model file.
    #[must_use]
    pub fn rank_indexes(&self) -> Vec<RankIndex> {
        let mut known = BTreeSet::new();
        let ranks = self.rollups.iter().flat_map(|rollup| &rollup.ranks);
        let new = ranks.filter(|rank| known.insert(&rank.measure));
        new.map(|rank| RankIndex {
            attribute: Arc::clone(&rank.attribute),
            measure: Arc::clone(&rank.measure),
        })
        .collect()
    }

    /// Whether a rollup of the model is ranked.
    #[must_use]
    pub fn has_ranks(&self) -> bool {
        self.rollups.iter().any(|rollup| !rollup.ranks.is_empty())
    }

    /// The groups in which the item of the state table with this key is ranked. Rollups whose keys overlap can be one item.
    #[must_use]
    pub fn rank_groups(&self, partition: &str, sort: &str) -> Vec<RankGroup> {
        let ranked = self.rollups.iter().filter(|rollup| !rollup.ranks.is_empty());
        let of_key = ranked.filter(|rollup| rollup.has_stored_key(partition, sort));
        of_key.flat_map(|rollup| rollup.rank_groups(partition, sort)).collect()
    }
}

/// The keys of a rank.
pub(super) const KEYS: [&str; 2] = ["within", "shards"];

/// Compiles the ranks of a rollup with these variables; also returns where each is declared.
pub(super) fn compile(
    compiler: &mut ModelCompiler<'_, '_>,
    rollup: &SettingsTable<'_>,
    variables: &[Arc<str>],
    keys: RollupKeys,
) -> Vec<(Rank, usize)> {
    let owner = rollup.called("rank");
    let problems = &mut *compiler.problems;
    let table = rollup.get("rank").and_then(|value| reader::table(&owner, value, problems));
    let ranks = table.map(entries).unwrap_or_default().into_iter().filter_map(|(measure, value)| {
        let owner = format!("{owner}: `{}`", measure.value);
        let table = reader::table(&owner, value, compiler.problems)?;
        let settings = SettingsTable::new(owner, measure.at, table, &KEYS, compiler.problems);
        Some((compile_rank(compiler, &settings, measure.value, (variables, keys)), measure.at))
    });
    ranks.collect()
}

fn compile_rank(
    compiler: &mut ModelCompiler<'_, '_>,
    settings: &SettingsTable<'_>,
    measure: &str,
    (variables, keys): (&[Arc<str>], RollupKeys),
) -> Rank {
    let shards = settings.integer("shards", 1..=MAX_RANK_SHARDS, compiler.problems).unwrap_or(1);
    let within = settings.text("within", compiler.problems);
    let within = within.and_then(|text| group_template(compiler, &settings.owner, text, variables));
    Rank {
        measure: Arc::from(measure),
        attribute: Arc::from(attribute_of(measure)),
        within: within.map(|within| Template { separator: keys.separator(), may_be_empty: true, ..within }),
        shards: u32::try_from(shards).unwrap_or(1),
    }
}

/// The attribute and the index that belong to a measure.
fn attribute_of(measure: &str) -> String {
    [Rank::PREFIX, measure].concat()
}

/// The template of a group, which may have variables of the rollup's key only.
fn group_template(
    compiler: &mut ModelCompiler<'_, '_>,
    owner: &str,
    text: Located<&str>,
    variables: &[Arc<str>],
) -> Option<Template> {
    let mut named = variables.to_vec();
    let template = compiler.template(owner, text, &mut named)?;
    let unknown = named.get(variables.len()..).unwrap_or_default();
    for name in unknown {
        let known: Vec<&str> = variables.iter().map(|name| &**name).collect();
        let nearest = suggestion(name, known.iter().copied());
        let known = if known.is_empty() { "none".to_owned() } else { listed(&known) };
        let message = format!(
            "{owner}: `{{{name}}}` is not a variable of the rollup's key{nearest}. A group follows from the key of the item that is ranked; its variables: {known}"
        );
        compiler.report(ProblemCode::UnfitRankGroup, text.at, message);
    }
    unknown.is_empty().then_some(template)
}

/// Checks the ranks of all rollups, once their measures are known.
pub(super) fn check(compiler: &mut ModelCompiler<'_, '_>) {
    let ranks: Vec<RankPlace> = places(compiler);
    for place in &ranks {
        check_rollup(compiler, place);
        check_measure(compiler, place);
        check_names(compiler, place);
        check_length(compiler, place);
    }
    check_index_count(compiler, &ranks);
}

/// A rank and where it is declared.
struct RankPlace {
    /// An index into [`Model::rollups`].
    rollup: usize,
    rank: Rank,
    at: usize,
    /// How messages call it.
    owner: String,
}

fn places(compiler: &ModelCompiler<'_, '_>) -> Vec<RankPlace> {
    let ModelCompiler { model, places, .. } = compiler;
    let rollups = model.rollups.iter().enumerate().zip(&places.ranks);
    let ranks = rollups.flat_map(|((index, rollup), at)| {
        let ranks = rollup.ranks.iter().zip(at);
        ranks.map(move |(rank, at)| RankPlace {
            rollup: index,
            rank: rank.clone(),
            at: *at,
            owner: format!("rollup `{}`: rank of `{}`", rollup.name, rank.measure),
        })
    });
    ranks.collect()
}

fn check_rollup(compiler: &mut ModelCompiler<'_, '_>, RankPlace { rollup, at, owner, .. }: &RankPlace) {
    if compiler.model.rollups.get(*rollup).is_some_and(|rollup| rollup.shards > 1) {
        let message = format!(
            "{owner}: the rollup is sharded, and no item of it has the whole measure; rank a rollup without `shards`, or give `shards` to the rank alone"
        );
        compiler.report(ProblemCode::ShardedRank, *at, message);
    }
}

/// The measure is a number of the rollup, and no other rollup has a text of this name: an attribute in the key of an index has one type.
fn check_measure(compiler: &mut ModelCompiler<'_, '_>, place: &RankPlace) {
    let RankPlace { rollup, rank, at, owner } = place;
    let ModelCompiler { model, findings, measures, .. } = compiler;
    let of_rollup = || measures.iter().filter(|measure| measure.rollup == *rollup);
    let is_ranked = |measure: &&RollupMeasure| measure.attribute == rank.measure;
    let Some(known) = of_rollup().find(is_ranked) else {
        let numbers = of_rollup().filter(|measure| measure.is_number);
        let names: Vec<&str> = numbers.map(|measure| &*measure.attribute).collect();
        let nearest = suggestion(&rank.measure, names.iter().copied());
        let message = format!("{owner}: it is not a measure of this rollup{nearest}");
        findings.report(ProblemCode::UnfitRank, *at, message);
        return;
    };
    let other = measures.iter().filter(is_ranked).find(|measure| !measure.is_number);
    let Some(text) = (if known.is_number { other } else { Some(known) }) else { return };
    let holder = model.rollups.get(text.rollup).map_or("", |rollup| &*rollup.name);
    let message = if text.rollup == *rollup {
        format!("{owner}: it is or can be text, and ranks order numbers; rank a number")
    } else {
        format!(
            "{owner}: rollup `{holder}` has a measure of this name that is or can be text, and DynamoDB would refuse its items: the sort key of the index `{}` is a number; rename one of the measures",
            rank.attribute
        )
    };
    findings.report(ProblemCode::UnfitRank, *at, message).related(text.at, "the measure");
}

/// The attributes of the index are no other attributes of the state table's items.
fn check_names(compiler: &mut ModelCompiler<'_, '_>, RankPlace { rank, at, owner, .. }: &RankPlace) {
    let ModelCompiler { findings, measures, .. } = compiler;
    if let Some(measure) = measures.iter().find(|measure| measure.attribute == rank.attribute) {
        let message = format!(
            "{owner}: `{}` is the attribute that names the group, and also a measure; rename the measure",
            rank.attribute
        );
        findings.report(ProblemCode::ReservedName, *at, message).related(measure.at, "the measure");
    }
    if STATE_ATTRIBUTES.contains(&&*rank.measure) {
        let message = format!(
            "{owner}: other items of the state table have an attribute of this name, and DynamoDB would refuse them: the sort key of the index `{}` is a number; rename the measure",
            rank.attribute
        );
        findings.report(ProblemCode::ReservedName, *at, message);
    }
    if rank.attribute.len() > MAX_INDEX_NAME {
        let message = format!(
            "{owner}: the name of the index, `rank_` and the measure, has {} bytes; DynamoDB allows {MAX_INDEX_NAME}: give the measure a shorter name",
            rank.attribute.len()
        );
        findings.report(ProblemCode::InvalidName, *at, message);
    }
}

/// The name of a group has a chance to be short enough.
fn check_length(compiler: &mut ModelCompiler<'_, '_>, RankPlace { rollup, rank, at, owner }: &RankPlace) {
    let Some(rollup) = compiler.model.rollups.get(*rollup) else { return };
    let within = rank.within.as_ref().unwrap_or(&rollup.partition);
    let least = |piece: &TemplatePiece| piece.literal().map_or(1, str::len);
    let shard = if rank.shards > 1 { 2 } else { 0 };
    let bytes = rollup.name.len() + 1 + within.pieces.iter().map(least).sum::<usize>() + shard;
    if bytes > MAX_GROUP_BYTES {
        let message = format!(
            "{owner}: the name of a group has {bytes} bytes or more; the partition key of an index has at most {MAX_GROUP_BYTES}: shorten `within`"
        );
        compiler.report(ProblemCode::UnfitRankGroup, *at, message);
    }
}

fn check_index_count(compiler: &mut ModelCompiler<'_, '_>, ranks: &[RankPlace]) {
    let mut known = BTreeSet::new();
    let first = ranks.iter().filter(|place| known.insert(Arc::clone(&place.rank.measure)));
    let places: Vec<usize> = first.map(|place| place.at).collect();
    let indexes = places.len() + OWN_INDEXES;
    if let Some(at) = places.get(MAX_INDEXES - OWN_INDEXES) {
        let message = format!(
            "model: the state table would have {indexes} indexes, {} of ranks and `parked`; DynamoDB allows {MAX_INDEXES}: rank fewer measures, or give measures of several rollups one name, because they share its index",
            places.len()
        );
        compiler.report(ProblemCode::TooManyIndexes, *at, message);
    }
}

#[cfg(test)]
mod tests;
