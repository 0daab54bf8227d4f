//! Rollups, the items of the state table that hold measures: `[rollups.<name>]`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::computed_measure::ComputedMeasure;
use super::duration::{duration, parse};
use super::load::compiler::ModelCompiler;
use super::load::problem::ProblemCode;
use super::load::reader::{self, SettingsTable, place};
use super::load::scope::{base_name, position};
use super::load::suggestion::suggestion;
use super::named::read_named;
use super::named_list::NamedList;
use super::rank::{self, Rank, RankDescription, RankGroup};
use super::state_key::STATE_KEY;
use super::template::{known_name, split_format};
use super::{OnExpiry, RollupKeys, Template, TemplatePiece, ValueFormat};

/// More shards than this cost more reads than they save writes.
pub(super) const MAX_SHARDS: i64 = 1000;

/// An item of the state table that holds measures.
#[derive(Debug, Default)]
pub struct Rollup {
    /// Its name in the model.
    pub name: Arc<str>,
    /// Its `PK`. The variables of both keys together are [`Rollup::variables`].
    pub partition: Template,
    /// Its `SK`.
    pub sort: Template,
    /// The names of the keys' variables, formats included (`bought_at:day`).
    pub variables: Vec<Arc<str>>,
    /// How values are written into its keys.
    pub keys: RollupKeys,
    /// Whether an item whose values cannot be read from its key is refused: the rollup is a source or ranked, and the key has several readings.
    pub is_read_back: bool,
    /// Over how many items it is spread (1: not at all). A sharded rollup has neither extremes nor computed measures.
    pub shards: u32,
    /// The effect on the contributions of its items, where the rollup is a source, when TTL deletes them.
    pub on_expiry: OnExpiry,
    /// When its items expire, if they do.
    pub lifetime: Option<RollupLifetime>,
    /// The orders of its items. A sharded rollup has none.
    pub ranks: Vec<Rank>,
    /// Measures that are computed from other measures. The rollup must be read before such a measure is written.
    pub computed: Vec<ComputedMeasure>,
    /// The attributes of `max`, `min` and `latest` that are compared; these too need the rollup to be read.
    pub extremes: Vec<Arc<str>>,
    /// The mirrors of it: indexes into [`super::Model::mirrors`].
    pub mirrors: Vec<usize>,
    /// The measures whose change changes a mirror: the mirrored measures, and the measures that these are computed from.
    pub shown: Vec<Arc<str>>,
    /// The other rollups that may be the same item, holding other measures: indexes into [`super::Model::rollups`].
    pub overlaps: Vec<usize>,
}

/// How long after a time in its key a rollup expires. All items that are counted into it agree on that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollupLifetime {
    /// How long after.
    pub after: Duration,
    /// The variable that holds the time: an index into [`Rollup::variables`].
    pub variable: usize,
}

impl Rollup {
    /// Whether it must be read, computed and written on its `rev`, because `ADD` cannot do it.
    #[must_use]
    pub fn is_computed(&self) -> bool {
        !self.computed.is_empty() || !self.extremes.is_empty()
    }

    /// Whether items show it.
    #[must_use]
    pub fn is_mirrored(&self) -> bool {
        !self.mirrors.is_empty()
    }

    /// Whether a measure is `max` or `min`: it moves in one direction only.
    #[must_use]
    pub fn has_extreme(&self, measure: &str) -> bool {
        self.extremes.iter().any(|extreme| **extreme == *measure)
    }

    /// Whether a measure is not a sum of contributions: an extreme, or computed from other measures.
    #[must_use]
    pub fn has_computed(&self, measure: &str) -> bool {
        self.computed.iter().any(|computed| *computed.name == *measure) || self.has_extreme(measure)
    }

    /// The format in which its key has an output of a lookup of the item that shows it. `problems` of a mirror get the reason why the item
    /// cannot find the rollup.
    pub(super) fn output_format(&self, variable: &str, problems: &mut Vec<String>) -> ValueFormat {
        let format = split_format(variable).map_or(ValueFormat::Plain, |(_, format)| format);
        if let Some(zone) = format.item_zone() {
            problems.push(format!(
                "rollup `{}` cannot be found from the item: `{{{variable}}}` is in the zone `{}` of each counted item; write a zone such as `Europe/Berlin`",
                self.name, zone.name
            ));
        }
        format
    }

    /// Registers a mirror, an index into [`super::Model::mirrors`], and the measures that it shows.
    pub(super) fn show<'m>(&mut self, mirror: usize, measures: impl Iterator<Item = &'m Arc<str>>) {
        self.mirrors.push(mirror);
        for measure in measures {
            self.shown.push(Arc::clone(measure));
            let computed = self.computed.iter().filter(|computed| computed.name == *measure);
            let parts: Vec<Arc<str>> = computed.flat_map(ComputedMeasure::parts).collect();
            self.shown.extend(parts);
        }
    }

    /// Whether a change of this measure changes a mirror.
    #[must_use]
    pub fn shows(&self, measure: &str) -> bool {
        self.shown.iter().any(|shown| **shown == *measure)
    }

    /// Separates the partition key of a sharded rollup from the number of the shard.
    pub const SHARD: &'static str = "#SHARD#";

    /// Whether an item with this key (without the shard) can be of this rollup.
    #[must_use]
    pub fn has_key(&self, partition: &str, sort: &str) -> bool {
        self.parse(partition, sort).is_some()
    }

    /// Whether an item that is stored with this key can be of this rollup.
    #[must_use]
    pub fn has_stored_key(&self, partition: &str, sort: &str) -> bool {
        self.has_key(self.unsharded(partition), sort)
    }

    /// The partition key of a stored item without the shard, if this rollup is sharded.
    #[must_use]
    pub fn unsharded<'k>(&self, partition: &'k str) -> &'k str {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match partition.rsplit_once(Self::SHARD) {
            Some((unsharded, shard)) if self.shards > 1 && is_number(shard) => unsharded,
            Some(_) | None => partition,
        }
    }

    /// Whether an item that is stored with this key can be of this rollup, with this value of a variable. Every division of the key among
    /// the variables counts: of a key such as `OF#{shop}#{day}`, a value may contain `#`.
    #[must_use]
    pub fn may_have(&self, (variable, value): (&str, &str), (partition, sort): (&str, &str)) -> bool {
        let Some(index) = self.variables.iter().position(|name| **name == *variable) else { return false };
        let written = self.keys.written(value);
        let may_be = |template: &Template, text: &str| {
            template.begins(text) && template.with_value(index, &written).overlaps(&Template::literal(text))
        };
        may_be(&self.partition, self.unsharded(partition)) && may_be(&self.sort, sort)
    }

    /// The values of its variables in a key without the shard; `None` if the key is not of this rollup.
    #[must_use]
    pub fn values<'k>(&self, partition: &'k str, sort: &'k str) -> Option<Vec<Cow<'k, str>>> {
        let bindings = self.parse(partition, sort)?;
        bindings.into_iter().map(|value| value.map(|value| self.keys.value(value))).collect()
    }

    /// The partition key, without a shard, and the sort key of these values, which are aligned with its variables.
    #[must_use]
    pub fn key(&self, values: &[impl AsRef<str>]) -> (String, String) {
        let written: Vec<_> = values.iter().map(|value| self.keys.written(value.as_ref())).collect();
        (self.partition.render(&written), self.sort.render(&written))
    }

    /// The groups in which the item with this key is ranked.
    #[must_use]
    pub fn rank_groups(&self, partition: &str, sort: &str) -> Vec<RankGroup> {
        if self.ranks.is_empty() {
            return Vec::new();
        }
        let values = self.parse(partition, sort);
        let group = |rank: &Rank| rank.group(&self.name, (partition, sort), values.as_deref());
        self.ranks.iter().filter_map(group).collect()
    }

    /// The partitions of a rank's index that hold a group: one, or one for each shard. `values` are aligned with the rollup's variables; a value
    /// that the group does not have does not matter.
    #[must_use]
    pub fn rank_partitions(&self, rank: &Rank, values: &[impl AsRef<str>]) -> Vec<String> {
        let written: Vec<_> = values.iter().map(|value| self.keys.written(value.as_ref())).collect();
        rank.partitions((&self.name, &self.partition), &written)
    }

    fn parse<'k>(&self, partition: &'k str, sort: &'k str) -> Option<Vec<Option<&'k str>>> {
        let mut bindings = vec![None; self.variables.len()];
        let is_parsed =
            self.partition.parse(partition, &mut bindings) && self.sort.parse(sort, &mut bindings);
        is_parsed.then_some(bindings)
    }

    /// The partition key of its items. The items of a sharded rollup append their shard's number.
    pub(super) fn stored_partition(&self) -> Template {
        let mut partition = self.partition.clone();
        if self.shards > 1 {
            partition.pieces.push(TemplatePiece::Literal(Arc::from(Self::SHARD)));
            partition.pieces.push(TemplatePiece::Variable(self.variables.len(), ValueFormat::Plain));
        }
        partition
    }

    /// The rollup in words.
    #[must_use]
    pub fn describe(&self) -> RollupDescription {
        let [partition, sort] = [&self.partition, &self.sort].map(|key| key.written(&self.variables));
        let expires = self.lifetime.map(|lifetime| {
            let variable = self.variables.get(lifetime.variable).map_or("", |name| name);
            format!("{} after {variable}", duration(lifetime.after))
        });
        let ranks = self.ranks.iter();
        let describe = |rank: &Rank| rank.describe(&self.partition, &self.variables);
        RollupDescription {
            key: format!("{partition} / {sort}"),
            shards: self.shards,
            expires,
            rank: ranks.map(|rank| (&rank.measure, describe(rank))).collect(),
        }
    }
}

/// A rollup in words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RollupDescription {
    /// The templates of its key.
    pub key: String,
    /// Over how many items it is spread.
    pub shards: u32,
    /// How long after which time of its key it expires.
    pub expires: Option<String>,
    /// The orders of its items, by measure.
    #[serde(skip_serializing_if = "NamedList::is_empty")]
    pub rank: NamedList<RankDescription>,
}

/// The keys of a rollup.
pub(super) const KEYS: [&str; 5] = ["key", "shards", "expires", "on_expiry", "rank"];

/// The keys of a rollup's `expires`.
pub(super) const EXPIRY_KEYS: [&str; 2] = ["after", "of"];

/// Compiles a rollup.
pub(super) fn compile(compiler: &mut ModelCompiler<'_, '_>, settings: &SettingsTable<'_>) -> Option<()> {
    let SettingsTable { owner, at, .. } = settings;
    let problems = &mut *compiler.problems;
    let key = settings.required_pairs("key", problems);
    let shards = settings.integer("shards", 1..=MAX_SHARDS, problems).unwrap_or(1);
    let on_expiry = read_named(settings, "on_expiry", problems).unwrap_or_default();
    compiler.check_name("rollup", settings.located_name());
    let mut variables = Vec::new();
    let templates = compiler.key(owner, &key, ("the state table", &STATE_KEY), *at, &mut variables);
    let lifetime = lifetime(compiler, settings, templates.is_some().then_some(&variables));
    let keys = compiler.model.rollup_keys;
    let named = if templates.is_some() { &*variables } else { &[] };
    let ranks = rank::compile(compiler, settings, named, keys);
    let (ranks, rank_places) = ranks.into_iter().unzip();
    let templates = templates.into_iter().flatten();
    let mut templates =
        templates.map(|template| Template { separator: keys.separator(), may_be_empty: true, ..template });
    compiler.places.rollups.push(*at);
    compiler.places.ranks.push(rank_places);
    compiler.places.lifetimes.push(lifetime.map_or(*at, |(_, at)| at));
    compiler.model.rollups.push(Rollup {
        name: Arc::from(settings.name),
        partition: templates.next().unwrap_or_default(),
        sort: templates.next().unwrap_or_default(),
        variables,
        keys,
        shards: u32::try_from(shards).unwrap_or(1),
        on_expiry,
        lifetime: lifetime.map(|(lifetime, _)| lifetime),
        ranks,
        ..Rollup::default()
    });
    Some(())
}

/// When the rollup expires, and where the model file names the variable; nothing is known of the variables of a wrong key.
fn lifetime(
    compiler: &mut ModelCompiler<'_, '_>,
    rollup: &SettingsTable<'_>,
    variables: Option<&Vec<Arc<str>>>,
) -> Option<(RollupLifetime, usize)> {
    let problems = &mut *compiler.problems;
    let value = rollup.get("expires")?;
    let owner = rollup.called("expires");
    let table = reader::table(&owner, value, problems)?;
    let settings = SettingsTable::new(owner.clone(), place(value), table, &EXPIRY_KEYS, problems);
    let (after, of) = (settings.required_text("after", problems), settings.required_text("of", problems));
    let (after, of) = (after?, of?);
    let length = parse(after.value);
    if length.is_none() {
        let message = format!(
            "{owner}: `after` must be a length of time like \"90 days\" (seconds, minutes, hours, days or weeks)"
        );
        problems.report(ProblemCode::InvalidTime, after.at, message);
    }
    let variables = variables?;
    let named = &*known_name(of.value);
    let variable = position(variables, named)
        .or_else(|| variables.iter().position(|variable| base_name(variable) == named));
    if variable.is_none() {
        let message = format!(
            "{owner}: `{}` is not a variable of the rollup's key, so the items that are counted into it would not agree on when it expires; name a variable of the key{}",
            of.value,
            suggestion(of.value, variables.iter().map(|variable| base_name(variable)))
        );
        compiler.report(ProblemCode::UnfitExpiry, of.at, message);
    }
    // A variable that does not exist is not reported again where items are counted.
    let lifetime = RollupLifetime { after: length?, variable: variable.unwrap_or(variables.len()) };
    Some((lifetime, of.at))
}

#[cfg(test)]
mod tests {
    use crate::table::Model;

    #[test]
    fn a_rollup_may_have_a_value_by_any_division_of_its_key() {
        let rollup = |key: &str| {
            format!(
                "name = \"m\"\ngeneration = 1\ntables.t.key = [\"pk\"]\n[rollups.r]\nkey = {{ PK = \"{key}\", SK = \"ALL\" }}\n"
            )
        };
        let model = Model::parse(&rollup("X#{a}#{b}"), "m.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let may_have = |variable, value, key| model.rollups[0].may_have((variable, value), (key, "ALL"));
        for (variable, value) in [("a", "1"), ("a", "1#2"), ("b", "3"), ("b", "2#3")] {
            assert!(may_have(variable, value, "X#1#2#3"), "{variable} = {value}");
        }
        for (variable, value) in [("a", "2"), ("a", "1#2#3"), ("a", "1#"), ("b", "1"), ("c", "1")] {
            assert!(!may_have(variable, value, "X#1#2#3"), "{variable} = {value}");
        }
        assert!(!may_have("a", "1", "Y#1#2") && !model.rollups[0].may_have(("a", "1"), ("X#1#2", "DAY")));
    }

    #[test]
    fn a_rollup_expires_by_the_bucket_in_its_key() {
        let rollup = |key: &str, of: &str| {
            let source = format!(
                "name = \"m\"\ngeneration = 1\ntables.t.key = [\"pk\"]\n[rollups.r]\nkey = {{ PK = \"R\", SK = \"{key}\" }}\nexpires = {{ after = \"2 hours\", of = \"{of}\" }}\n"
            );
            Model::parse(&source, "m.toml").unwrap_or_else(|errors| panic!("{errors}"))
        };
        let expiry = |key: &str, of: &str, values: &[&str]| {
            rollup(key, of).expiry_of(0, values).map(|time| time.to_string())
        };
        let days = expiry("{shop}#{at:day@Europe/Berlin}", "at", &["s", "2026-11-28"]);
        assert_eq!(days.as_deref(), Some("2026-11-28T01:00:00Z"));
        let days = expiry("{shop}#{at:day@zone}", "at", &["s", "2026-11-28"]);
        assert_eq!(days.as_deref(), Some("2026-11-28T02:00:00Z"), "when UTC shows the day");
        assert_eq!(expiry("{at:month}", "at", &["2026-11"]).as_deref(), Some("2026-11-01T02:00:00Z"));
        assert_eq!(expiry("{at:month}", "at", &["none"]), None);
        assert_eq!(expiry("{at}", "at", &["2026-11-28T01:02:03Z"]), None, "not a bucket");
    }
}
