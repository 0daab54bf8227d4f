//! The fingerprint of a model: a short hash of everything that decides contributions.
//!
//! It is made of facts, each a short list of texts: a rollup with its key, a measure with its condition, the declared type
//! of an attribute that is read. Facts start at the aggregates and follow what these use. Parts that contribute nothing
//! (caches, datasets, mirrors) have none, and neither the order of a model file nor its comments matter, because facts are
//! sorted.

use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::{Aggregate, Entity, LookupUse, Model, ModelNotation, OnMisfit, Term};
use crate::hex;

/// How much of the hash is kept, in bytes.
const LENGTH: usize = 8;

/// The fingerprint of a model: 16 hexadecimal digits.
pub(super) fn fingerprint(model: &Model) -> Arc<str> {
    let mut facts = ModelFacts { model, facts: BTreeSet::new() };
    model.aggregates.iter().for_each(|aggregate| facts.add_aggregate(aggregate));
    let mut hash = Sha256::new();
    for fact in &facts.facts {
        // Lengths keep apart what would be the same text when joined.
        hash.update(format!("{}:", fact.len()));
        for text in fact {
            hash.update(format!("{}:{text}", text.len()));
        }
    }
    hex(&hash.finalize(), LENGTH).into()
}

/// Everything that decides the contributions of a model's items.
struct ModelFacts<'m> {
    model: &'m Model,
    facts: BTreeSet<Vec<String>>,
}

impl ModelFacts<'_> {
    fn add(&mut self, fact: &[&str]) {
        self.facts.insert(fact.iter().map(ToString::to_string).collect());
    }

    fn add_aggregate(&mut self, aggregate: &Aggregate) {
        let model = self.model;
        let notation = ModelNotation::of(model, aggregate.of, &aggregate.lookups);
        let when = aggregate.when.as_ref().map(|when| notation.condition(when)).unwrap_or_default();
        self.add(&["aggregate", &aggregate.name, &model.entity_name(aggregate.of), &when]);
        let described = aggregate.describe(model);
        if let Some(elements) = &described.for_each {
            self.add(&["for each", &aggregate.name, elements]);
        }
        for optional in &described.optional {
            self.add(&["optional", &aggregate.name, optional]);
        }
        if aggregate.on_misfit == OnMisfit::Skip {
            self.add(&["skips misfits", &aggregate.name]);
        }
        for measure in &aggregate.measures {
            let described = measure.describe(&notation).text;
            self.add(&["measure", &aggregate.name, &measure.name, &described]);
        }
        if !model.rollup_keys.is_plain() {
            self.add(&["rollup keys", model.rollup_keys.name()]);
        }
        for (variable, name) in &aggregate.bindings {
            self.add(&["bind", &aggregate.name, variable, name]);
        }
        for rollup in aggregate.into.iter().filter_map(|into| model.rollups.get(into.rollup)) {
            let described = rollup.describe();
            let (shards, expires) = (described.shards.to_string(), described.expires.unwrap_or_default());
            self.add(&["into", &aggregate.name, &rollup.name]);
            self.add(&["rollup", &rollup.name, &described.key, &shards, &expires]);
        }
        self.add_times(aggregate, &notation);
        self.add_entity(aggregate.of);
        aggregate.each_term(&mut |term| self.add_term(aggregate.of, term));
        aggregate.lookups.iter().for_each(|lookup| self.add_lookup(&aggregate.name, lookup));
    }

    /// How values are read as times, where an aggregate reads them as such and the model states it.
    fn add_times(&mut self, aggregate: &Aggregate, notation: &ModelNotation<'_>) {
        let entity = self.model.entity_name(aggregate.of);
        // The buckets of a key are part of its template.
        aggregate.each_time(&mut |term, reading| {
            if reading.is_declared() {
                self.add(&["time", &entity, &notation.term(term), &reading.to_string()]);
            }
        });
    }

    fn add_entity(&mut self, entity: usize) {
        let model = self.model;
        let Some(known) = model.entities.get(entity) else { return };
        let described = known.describe(model, entity);
        self.add(&["entity", &known.name, &described.table, &described.key, described.on_expiry.name()]);
        if let Some(ttl) = &described.ttl {
            self.add(&["ttl", &known.name, ttl]);
        }
        if let Some(table) = model.tables.get(known.table) {
            self.add(&["table", &table.name, &table.counting_facts().join(", ")]);
        }
        if let Some(when) = described.when {
            self.add(&["entity when", &known.name, &when]);
            self.add_condition(entity, known);
        }
        self.add_preferred(known);
    }

    /// The values that the condition of an entity reads.
    fn add_condition(&mut self, entity: usize, known: &Entity) {
        if let Some(when) = &known.when {
            when.each_term(&mut |term| self.add_term(entity, term));
        }
    }

    /// The entities that a key belongs to although it matches this one too.
    fn add_preferred(&mut self, entity: &Entity) {
        let model = self.model;
        for index in &entity.yields_to {
            let Some(preferred) = model.entities.get(*index) else { continue };
            let described = preferred.describe(model, *index);
            self.add(&["yields", &entity.name, &described.key]);
            if let Some(when) = described.when {
                self.add(&["yields when", &entity.name, &described.key, &when]);
                self.add_condition(*index, preferred);
            }
        }
    }

    /// A lookup that an aggregate uses, and the values of the looked-up item.
    fn add_lookup(&mut self, aggregate: &str, used: &LookupUse) {
        let model = self.model;
        let Some(lookup) = model.lookups.get(used.lookup) else { return };
        let described = lookup.describe(model);
        self.add(&["uses", aggregate, &lookup.name]);
        self.add(&[
            "lookup",
            &lookup.name,
            &described.of,
            described.index.as_deref().unwrap_or("primary key"),
            &described.key,
        ]);
        for output in &lookup.outputs {
            self.add(&["output", &lookup.name, output]);
        }
        self.add_entity(lookup.of);
        let offers = model.entities.get(lookup.of).into_iter().flat_map(|entity| &entity.offers);
        for offer in offers.filter(|offer| offer.lookup == used.lookup) {
            offer.terms().for_each(|term| self.add_term(lookup.of, term));
        }
    }

    /// The derivation of a value and the types of the attributes that it is read from.
    fn add_term(&mut self, entity: usize, term: &Term) {
        let model = self.model;
        let Some(known) = model.entities.get(entity) else { return };
        let notation = ModelNotation::of(model, entity, &[]);
        if let Some(derivation) = term.derivation().and_then(|index| known.derivations.get(index)) {
            let described = derivation.kind.describe(&notation);
            self.add(&["derived", &known.name, &derivation.name, &described]);
        }
        for path in known.attributes_of(term) {
            let declared = path.declared.unwrap_or("any");
            self.add(&["attribute", &known.name, &notation.attribute(path), declared]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::table::Model;

    const LIBRARY: &str = include_str!("../../../../tests/fixtures/evolution/library.toml");

    fn fingerprint(source: &str) -> String {
        let model = Model::parse(source, "library.toml").unwrap_or_else(|errors| panic!("{errors}"));
        model.fingerprint().to_string()
    }

    /// The fingerprint of the library with some text replaced.
    fn changed(from: &str, to: &str) -> String {
        assert!(LIBRARY.contains(from), "the library has no {from}");
        fingerprint(&LIBRARY.replacen(from, to, 1))
    }

    #[test]
    fn what_contributes_nothing_does_not_change_it() {
        let same = fingerprint(LIBRARY);
        for (from, to) in [
            ("# The first generation", "# Another comment"),
            ("generation = 1", "generation = 7"),
            ("name = \"library\"", "name = \"archive\""),
            ("keys = [\"book:{book_id}\"]", "keys = [\"books:{book_id}\"]\nwhen.price = [5]"),
            ("price = \"decimal(10,2)\"", "price = \"decimal(12,2)\"\nlanguage = \"string\""),
            ("attributes = { books = \"books\" }", "attributes = { spent = \"spent\" }"),
            ("[entities.book]", "[entities.book]\ntimes = { read = \"seconds\" }"),
            ("read = \"N\" }", "read = \"N\", unused = \"S\" }\nsecret = [\"notes\"]"),
            ("[\"read\", \"pages\"]", "[\"pages\", \"read\"]"),
            ("[\"shelf\", \"day\"]", "[\"day\", \"shelf\"]"),
            (
                "books = \"count\"\nspent = { sum = \"price\" }",
                "spent = { sum = \"price\" }\nbooks = \"count\"",
            ),
        ] {
            assert_eq!(changed(from, to), same, "{to}");
        }
    }

    #[test]
    fn the_order_of_the_file_does_not_change_it() {
        let (head, rest) = LIBRARY.split_once("[rollups.shelf]").expect("a rollup");
        let (counted, rest) = rest.split_once("[rollups.prices]").expect("another rollup");
        let (prices, rest) = rest.split_once("[[mirrors]]").expect("a mirror");
        let reordered = format!("{head}[rollups.prices]{prices}[rollups.shelf]{counted}[[mirrors]]{rest}");
        assert_eq!(fingerprint(&reordered), fingerprint(LIBRARY));
    }

    #[test]
    fn what_decides_contributions_changes_it() {
        let progress = "books = { count = true, when.progress = [50] }";
        let changes = [
            ("name = \"books\"", "name = \"volumes\""),
            ("books = \"count\"", "books = { count = true, when.price = [5] }"),
            ("books = \"count\"", "books = { count = true, when.price = [6] }"),
            ("books = \"count\"", progress),
            ("spent = { sum = \"price\" }", "spent = { sum = \"pages\" }"),
            ("spent = { sum = \"price\" }", "spent = { sum = [\"price\", \"pages\"] }"),
            ("of = \"book\"\ninto", "of = \"book\"\nwhen.price = [{ exists = true }]\ninto"),
            ("dearest = { max", "dearest = { min"),
            ("into = [\"shelf\", \"day\"]", "into = \"shelf\""),
            ("SK = \"ROLLUP#BOUGHT\"", "SK = \"ROLLUP#DAY\""),
            ("SK = \"ROLLUP#BOUGHT\" }", "SK = \"ROLLUP#BOUGHT\" }\nshards = 2"),
            (
                "SK = \"ROLLUP#BOUGHT\" }",
                "SK = \"ROLLUP#BOUGHT\" }\nexpires = { after = \"9 days\", of = \"bought_at\" }",
            ),
            ("sk = \"BOOK#{book_id}\"", "sk = \"VOLUME#{book_id}\""),
            ("price = \"N\"", "price = \"any\""),
            ("[entities.book]", "[entities.book]\non_expiry = \"subtract\""),
            ("[entities.book]", "[entities.book]\nttl = \"price\""),
            ("[entities.book]", "[entities.book]\ntimes = { bought_at = \"Europe/Berlin\" }"),
            ("[entities.book]", "[entities.book]\ntimes = { bought_at = \"milliseconds\" }"),
            ("{bought_at:day}", "{bought_at:day@Europe/Berlin}"),
            ("{bought_at:day}", "{bought_at:week}"),
        ];
        let mut fingerprints: Vec<String> = changes.iter().map(|(from, to)| changed(from, to)).collect();
        let half = changed("books = \"count\"", progress);
        let other_half =
            LIBRARY.replace("books = \"count\"", progress).replace("[\"read\", ", "[\"price\", ");
        assert_ne!(fingerprint(&other_half), half, "the derived value that a condition reads");
        fingerprints.push(fingerprint(LIBRARY));
        let count = fingerprints.len();
        fingerprints.sort();
        fingerprints.dedup();
        assert_eq!(fingerprints.len(), count, "two changes have one fingerprint");
    }

    #[test]
    fn a_lookup_is_part_of_it() {
        const WITH_LOOKUP: &str = include_str!("../../../../tests/fixtures/models/library.toml");
        let index = WITH_LOOKUP.replace("GSI1PK", "GSI2PK");
        let changed_input = WITH_LOOKUP.replace("\"SHELF#{shelf_id}\" }\ngives", "\"S#{shelf_id}\" }\ngives");
        let shelf_key = WITH_LOOKUP.replace("SK = \"SHELF#{shelf_id}\"", "SK = \"S#{shelf_id}\"");
        for changed in [index, changed_input, shelf_key] {
            assert_ne!(changed, WITH_LOOKUP);
            assert_ne!(fingerprint(&changed), fingerprint(WITH_LOOKUP), "{changed}");
        }
    }

    /// Ledger entries carry it. A release that computes another fingerprint for the same model would take its own earlier entries for another model's.
    #[test]
    fn it_is_the_same_in_every_release() {
        assert_eq!(fingerprint(LIBRARY), "c7df1c20da3e3bc6");
    }
}
