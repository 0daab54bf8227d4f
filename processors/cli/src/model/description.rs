//! A model in words: every part under its name, with names in the place of indexes. What `show` prints, and what `diff` compares.

use std::collections::BTreeMap;

use afterwrite::record::AttributePath;
use afterwrite::table::{
    Aggregate, ArchiveScope, CacheRemedy, CacheRule, Dataset, Entity, Lookup, Mirror, Model, ModelNotation,
    OnExpiry, Rollup, RollupDestination, RowHistory, Table, duration,
};
use serde::Serialize;

/// A model in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Description {
    pub(super) name: String,
    pub(super) generation: u64,
    /// Which change records are archived.
    pub(super) archive: &'static str,
    pub(super) tables: BTreeMap<String, Vec<String>>,
    pub(super) entities: BTreeMap<String, DescribedEntity>,
    pub(super) lookups: BTreeMap<String, DescribedLookup>,
    pub(super) rollups: BTreeMap<String, DescribedRollup>,
    pub(super) aggregates: BTreeMap<String, DescribedAggregate>,
    /// By `<entity>.<attribute>`.
    pub(super) mirrors: BTreeMap<String, DescribedMirror>,
    pub(super) caches: Vec<DescribedCache>,
    pub(super) datasets: BTreeMap<String, DescribedDataset>,
    pub(super) queries: BTreeMap<String, String>,
}

/// A kind of item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DescribedEntity {
    pub(super) table: String,
    pub(super) key: String,
    /// What becomes of its contributions when TTL takes it.
    pub(super) on_expiry: &'static str,
    pub(super) derived: BTreeMap<String, String>,
    pub(super) secret: Vec<String>,
}

/// Something that items do not know themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DescribedLookup {
    /// The entity whose item is asked.
    pub(super) of: String,
    pub(super) index: String,
    pub(super) key: String,
    pub(super) gives: Vec<String>,
}

/// An item of the state table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DescribedRollup {
    pub(super) key: String,
    pub(super) shards: u32,
    /// How long after which moment of its key.
    pub(super) expires: Option<String>,
}

/// What is counted of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DescribedAggregate {
    pub(super) of: String,
    pub(super) when: Option<String>,
    /// By rollup: its key, as this entity's values make it.
    pub(super) into: BTreeMap<String, String>,
    pub(super) measures: BTreeMap<String, String>,
}

impl DescribedAggregate {
    /// Where its numbers go: rollup and measure.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&String, &String)> {
        self.into.keys().flat_map(|rollup| self.measures.keys().map(move |measure| (rollup, measure)))
    }

    /// Whether it has a max or a min.
    pub(super) fn has_extremes(&self) -> bool {
        self.measures.values().any(|how| is_extreme(how))
    }
}

/// Whether a measure, as it is described, is a max or a min.
pub(super) fn is_extreme(how: &str) -> bool {
    how.starts_with("max of ") || how.starts_with("min of ")
}

/// An attribute that an application's item shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DescribedMirror {
    pub(super) rollup: String,
    pub(super) measure: String,
}

/// What is stale once an item has changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct DescribedCache {
    pub(super) of: String,
    pub(super) keys: Vec<String>,
    pub(super) paths: Vec<String>,
    pub(super) when: Option<String>,
    pub(super) depends_on: Vec<String>,
    pub(super) remedy: String,
}

/// The rows of an entity's changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DescribedDataset {
    pub(super) of: String,
    pub(super) partition: String,
    pub(super) days: (String, String),
    pub(super) sort: Vec<String>,
    pub(super) history: &'static str,
    /// Types by column.
    pub(super) columns: BTreeMap<String, String>,
    /// What columns hold that are not named as the attribute is.
    pub(super) sources: BTreeMap<String, String>,
}

impl Description {
    /// Describes a model.
    pub(super) fn of(model: &Model) -> Self {
        let describe = Describing(model);
        Self {
            name: model.name.to_string(),
            generation: model.generation,
            archive: match model.archive {
                ArchiveScope::All => "all",
                ArchiveScope::Matched => "matched",
            },
            tables: model.tables.iter().map(|table| (table.name.to_string(), key(table))).collect(),
            entities: named(&model.entities, |entity| (&entity.name, describe.entity(entity))),
            lookups: named(&model.lookups, |lookup| (&lookup.name, describe.lookup(lookup))),
            rollups: named(&model.rollups, |rollup| (&rollup.name, describe.rollup(rollup))),
            aggregates: named(&model.aggregates, |counted| (&counted.name, describe.aggregate(counted))),
            mirrors: model.mirrors.iter().flat_map(|mirror| describe.mirror(mirror)).collect(),
            caches: model.caches.iter().map(|rule| describe.cache(rule)).collect(),
            datasets: named(&model.datasets, |dataset| (&dataset.name, describe.dataset(dataset))),
            queries: named(&model.queries, |query| (&query.name, query.sql.to_string())),
        }
    }
}

fn named<P, D>(parts: &[P], describe: impl Fn(&P) -> (&std::sync::Arc<str>, D)) -> BTreeMap<String, D> {
    let described = parts.iter().map(|part| {
        let (name, description) = describe(part);
        (name.to_string(), description)
    });
    described.collect()
}

/// A table's key attributes; those that are not text with their type.
fn key(table: &Table) -> Vec<String> {
    let attributes = table.key().map(|key| match key.key_type.name() {
        "S" => key.name.to_string(),
        other => format!("{} ({other})", key.name),
    });
    attributes.collect()
}

/// Describes the parts of one model.
struct Describing<'m>(&'m Model);

impl Describing<'_> {
    fn name_of(&self, entity: usize) -> String {
        self.0.entities.get(entity).map(|entity| entity.name.to_string()).unwrap_or_default()
    }

    fn entity(&self, entity: &Entity) -> DescribedEntity {
        let index = self.0.entities.iter().position(|known| known.name == entity.name).unwrap_or_default();
        let notation = ModelNotation::of(self.0, index, &[]);
        let key = [Some(&entity.key.partition), entity.key.sort.as_ref()].into_iter().flatten();
        let key: Vec<String> = key.map(|key| key.written(&entity.variables)).collect();
        let derived = entity.derivations.iter();
        DescribedEntity {
            table: self.0.tables.get(entity.table).map(|table| table.name.to_string()).unwrap_or_default(),
            key: key.join(" / "),
            on_expiry: match entity.on_expiry {
                OnExpiry::Keep => "keep",
                OnExpiry::Subtract => "subtract",
            },
            derived: derived
                .map(|value| (value.name.to_string(), notation.derivation(&value.kind)))
                .collect(),
            secret: entity.secrets.iter().map(dotted).collect(),
        }
    }

    fn lookup(&self, lookup: &Lookup) -> DescribedLookup {
        let part = |(name, template): &(std::sync::Arc<str>, afterwrite::table::Template)| {
            format!("{name} = {}", template.written(&lookup.inputs))
        };
        let key: Vec<String> = std::iter::once(&lookup.partition).chain(&lookup.sort).map(part).collect();
        DescribedLookup {
            of: self.name_of(lookup.of),
            index: lookup.index.to_string(),
            key: key.join(", "),
            gives: lookup.outputs.iter().map(ToString::to_string).collect(),
        }
    }

    fn rollup(&self, rollup: &Rollup) -> DescribedRollup {
        let [partition, sort] = [&rollup.partition, &rollup.sort].map(|key| key.written(&rollup.variables));
        // Whoever counts into it agrees on when it expires.
        let expires = self.0.aggregates.iter().find_map(|aggregate| {
            let mut into = aggregate.into.iter();
            let of_it = |to: &&RollupDestination| {
                self.0.rollups.get(to.rollup).is_some_and(|known| known.name == rollup.name)
            };
            self.expiry(aggregate, into.find(of_it)?)
        });
        DescribedRollup { key: format!("{partition} / {sort}"), shards: rollup.shards, expires }
    }

    fn expiry(&self, aggregate: &Aggregate, destination: &RollupDestination) -> Option<String> {
        let notation = ModelNotation::of(self.0, aggregate.of, &aggregate.lookups);
        let expiry = destination.expires.as_ref()?;
        Some(format!("{} after {}", duration(expiry.after), notation.formatted(&expiry.of, expiry.format)))
    }

    fn aggregate(&self, aggregate: &Aggregate) -> DescribedAggregate {
        let notation = ModelNotation::of(self.0, aggregate.of, &aggregate.lookups);
        let into = aggregate.into.iter().filter_map(|destination| {
            let rollup = self.0.rollups.get(destination.rollup)?;
            let [partition, sort] =
                [&destination.partition, &destination.sort].map(|key| notation.template(key));
            Some((rollup.name.to_string(), format!("{partition} / {sort}")))
        });
        let measures = aggregate.measures.iter().map(|measure| {
            let when = measure.when.as_ref().map(|when| format!(" when {}", notation.condition(when)));
            let how = format!("{}{}", notation.measure(&measure.kind), when.unwrap_or_default());
            (measure.name.to_string(), how)
        });
        let averages = aggregate.into.iter().filter_map(|destination| self.0.rollups.get(destination.rollup));
        let averages = averages
            .flat_map(|rollup| &rollup.averages)
            .filter(|average| aggregate.measures.iter().any(|measure| measure.name == average.sum));
        let averages = averages
            .map(|average| (average.name.to_string(), format!("{} ÷ {}", average.sum, average.count)));
        DescribedAggregate {
            of: self.name_of(aggregate.of),
            when: aggregate.when.as_ref().map(|when| notation.condition(when)),
            into: into.collect(),
            measures: measures.chain(averages).collect(),
        }
    }

    fn mirror(&self, mirror: &Mirror) -> Vec<(String, DescribedMirror)> {
        let rollup =
            self.0.rollups.get(mirror.from).map(|rollup| rollup.name.to_string()).unwrap_or_default();
        let onto = self.name_of(mirror.onto);
        let attributes = mirror.attributes.iter().map(|attribute| {
            let shown = DescribedMirror { rollup: rollup.clone(), measure: attribute.measure.to_string() };
            (format!("{onto}.{}", dotted(&attribute.path)), shown)
        });
        attributes.collect()
    }

    fn cache(&self, rule: &CacheRule) -> DescribedCache {
        let notation = ModelNotation::of(self.0, rule.of, &[]);
        DescribedCache {
            of: self.name_of(rule.of),
            keys: rule.keys.iter().map(|key| notation.template(key)).collect(),
            paths: rule.paths.iter().map(|path| notation.template(path)).collect(),
            when: rule.when.as_ref().map(|when| notation.condition(when)),
            depends_on: rule.depends_on.iter().map(|path| notation.attribute(path)).collect(),
            remedy: remedy(rule.remedy),
        }
    }

    fn dataset(&self, dataset: &Dataset) -> DescribedDataset {
        let columns = &dataset.columns;
        let name = |index: &usize| columns.get(*index).map(|column| column.name.to_string());
        let renamed = columns.iter().filter(|column| column.source != column.name);
        DescribedDataset {
            of: self.name_of(dataset.of),
            partition: dataset.partition_source.to_string(),
            days: (dataset.days.0.to_string(), dataset.days.1.to_string()),
            sort: dataset.sort.iter().filter_map(name).collect(),
            history: match dataset.history {
                RowHistory::All => "all",
                RowHistory::Newest => "newest",
            },
            columns: columns
                .iter()
                .map(|column| (column.name.to_string(), column.column_type.to_string()))
                .collect(),
            sources: renamed.map(|column| (column.name.to_string(), column.source.to_string())).collect(),
        }
    }
}

/// A path as a model writes it.
pub(super) fn dotted(path: &AttributePath) -> String {
    path.to_string()
}

/// What is done to a stale key.
pub(super) fn remedy(remedy: CacheRemedy) -> String {
    match remedy {
        CacheRemedy::Delete => "delete".to_owned(),
        CacheRemedy::Tombstone(life) => format!("tombstone for {}", duration(life)),
        CacheRemedy::Generation => "generation".to_owned(),
    }
}
