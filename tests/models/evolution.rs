//! The predictions of `model diff` hold. After every item is reconciled under the new model, the rollups equal those of a table that
//! never had another model, except for the values that the diff reports as orphaned. The write units do not exceed the diff's figures.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_cli::model::diff::Differences;
use afterwrite_functions::StreamAggregator;
use afterwrite_ledger::{ItemRecords, Ledger, SourceItem as LedgerItem};
use afterwrite_memory::{MemoryTables, TableDefinition};
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{Decimal, Timestamp, decode};
use afterwrite_model::table::Model;
use afterwrite_tests::change_record::stream_record;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::sdk_items::item_of_json;
use serde_json::{Value, json};

const LIBRARY: &str = include_str!("../fixtures/evolution/library.toml");
const TABLE: &str = "library";
const STATE: &str = "state";
const MADE_AT: &str = "2026-02-07T00:00:00Z";

/// Rollups by key, with their nonzero measures.
type MeasuresByRollup = BTreeMap<String, BTreeMap<String, Decimal>>;

fn library() -> Arc<Model> {
    load(LIBRARY)
}

fn load(source: &str) -> Arc<Model> {
    Arc::new(Model::parse(source, "library.toml").unwrap_or_else(|errors| panic!("{errors}")))
}

/// The library's next generation, with some texts replaced.
fn changed(changes: &[(&str, &str)]) -> Arc<Model> {
    let mut new = LIBRARY.replace("generation = 1", "generation = 2");
    for (from, to) in changes {
        assert!(new.contains(from), "the library has no {from}");
        new = new.replacen(from, to, 1);
    }
    load(&new)
}

/// The text of the library between two texts.
fn part(from: &str, to: &str) -> &'static str {
    let begin = LIBRARY.find(from).expect("a beginning");
    let length = LIBRARY[begin..].find(to).expect("an end");
    &LIBRARY[begin..begin + length]
}

/// Three shelves with 40 books, bought on seven days. Every fourth book has no price; the pages read differ.
fn items() -> Vec<Value> {
    let shelves =
        (0..3).map(|shelf| json!({ "pk": { "S": format!("SHELF#s{shelf}") }, "sk": { "S": "SHELF" } }));
    let books = (0..40).map(|book| {
        let mut item = json!({
            "pk": { "S": format!("SHELF#s{}", book % 3) }, "sk": { "S": format!("BOOK#b{book}") },
            "bought_at": { "S": format!("2026-01-{:02}T10:00:00Z", 1 + book % 7) },
            "pages": { "N": "200" }, "read": { "N": (book % 5 * 50).to_string() },
        });
        if book % 4 > 0 {
            item["price"] = json!({ "N": format!("{}.{:02}", 5 + book, book) });
        }
        item
    });
    shelves.chain(books).collect()
}

fn record(item: &Value, index: usize) -> Value {
    let stream =
        format!("arn:aws:dynamodb:eu-west-1:000000000000:table/{TABLE}/stream/2026-01-01T00:00:00.000");
    let at = Timestamp::parse(MADE_AT).expect("a time").epoch_seconds();
    stream_record(&stream, &["pk", "sk"], (&format!("{index:025}"), at), (None, Some(item)))
}

/// The library's tables.
struct LibraryTables(Arc<MemoryTables>);

impl LibraryTables {
    /// Tables with all items, none of them counted.
    fn new() -> Self {
        let tables = MemoryTables::new();
        tables.create_table(TableDefinition::new(STATE, "PK").sort("SK"));
        tables.create_table(TableDefinition::new(TABLE, "pk").sort("sk"));
        for item in items() {
            tables.put(TABLE, item_of_json(&item)).expect("an item");
        }
        Self(Arc::new(tables))
    }

    fn ledger(&self, model: &Arc<Model>) -> Ledger<Arc<MemoryTables>, StillClock> {
        let clock = StillClock::at(Timestamp::parse("2026-02-07T00:01:00Z").expect("a time"));
        let names = vec![Arc::from(TABLE)];
        Ledger::new(Arc::clone(model), names, Arc::from(STATE), Arc::clone(&self.0), clock)
    }

    /// Counts every item from its record.
    async fn count(&self, model: &Arc<Model>) {
        let records: Vec<Value> = items().iter().zip(1..).map(|(item, index)| record(item, index)).collect();
        let event = json!({ "Records": records }).to_string();
        let aggregator = StreamAggregator::new(self.ledger(model));
        let handled = aggregator.handle(event.as_bytes(), Timestamp::from_epoch_ms(i64::MAX)).await;
        assert!(handled.expect("a handled event").failures.is_empty());
    }

    /// Reconciles every item on its own, and returns the most write units that an item of each entity took.
    async fn reconcile(&self, model: &Arc<Model>) -> BTreeMap<String, u64> {
        let ledger = self.ledger(model);
        let mut most: BTreeMap<String, u64> = BTreeMap::new();
        for (item, index) in items().iter().zip(1..) {
            let event = json!({ "Records": [record(item, index)] }).to_string();
            let batch = decode(event.as_bytes(), &model.attributes).expect("an event");
            let record = batch.records[0].as_ref().expect("a record");
            let source = SourceKey::of_keys(model, 0, &record.keys).expect("a key");
            let candidates = source.candidates(model);
            let Some(identity) = candidates.by_key() else { continue };
            let entity = identity.entity.name.to_string();
            let item = LedgerItem { source: &source, candidates: &candidates, records: ItemRecords::new() };
            let deadline = Timestamp::from_epoch_ms(i64::MAX);
            let outcome =
                ledger.reconcile(vec![item], record.position.label(), deadline).await.expect("an outcome");
            assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
            let units = most.entry(entity).or_default();
            *units = (*units).max(outcome.totals.write_units);
        }
        most
    }

    /// Every rollup. The shards of a rollup are summed.
    fn rollups(&self) -> MeasuresByRollup {
        let mut rollups = MeasuresByRollup::new();
        for item in self.0.scan(STATE) {
            if item["EntityType"].as_text() != Some("ROLLUP") {
                continue;
            }
            let [partition, sort] = ["PK", "SK"].map(|name| item[name].as_text().expect("a key"));
            let partition = partition.split_once("#SHARD#").map_or(partition, |(whole, _)| whole);
            let rollup = rollups.entry(format!("{partition} / {sort}")).or_default();
            for (name, value) in item.iter().filter(|(name, _)| &***name != "rev") {
                let Some(number) = value.as_number().filter(|number| !number.is_zero()) else { continue };
                let sum = rollup.entry(name.to_string()).or_insert(Decimal::ZERO);
                *sum = sum.plus(number).expect("a sum");
            }
        }
        rollups.retain(|_, measures| !measures.is_empty());
        rollups
    }
}

/// Checks the diff to a new model against reconciled tables, and returns it. Only the measures in `orphaned` may be left of the old model.
async fn verified_diff(new: &Arc<Model>, orphaned: &[&str]) -> Differences {
    let differences = priced_diff(new, orphaned).await;
    assert!(differences.problems.is_empty(), "{:?}", differences.problems);
    differences
}

/// Checks the costs and leftovers in a diff, even if the models cannot replace one another in place.
async fn priced_diff(new: &Arc<Model>, orphaned: &[&str]) -> Differences {
    let differences = Differences::between(&library(), new);
    for measure in orphaned {
        let names_measure = |line: &String| line.contains(measure);
        assert!(differences.orphaned.iter().any(names_measure), "{measure}: {:?}", differences.orphaned);
    }

    let (reconciled, fresh) = (LibraryTables::new(), LibraryTables::new());
    reconciled.count(&library()).await;
    let most = reconciled.reconcile(new).await;
    fresh.count(new).await;

    let mut actual = reconciled.rollups();
    let expected = fresh.rollups();
    for (key, measures) in &mut actual {
        let expected = expected.get(key);
        measures.retain(|name, _| {
            !orphaned.contains(&name.as_str()) || expected.is_some_and(|known| known.contains_key(name))
        });
    }
    actual.retain(|_, measures| !measures.is_empty());
    assert_eq!(actual, expected);
    for (entity, units) in most {
        if let Some(predicted) = differences.reconcile.iter().find(|known| known.entity == entity) {
            let predicted = predicted.write_units_an_item;
            assert!(units <= predicted, "{entity}: {units} units, more than the predicted {predicted}");
        }
    }
    differences
}

fn parts(differences: &Differences) -> Vec<String> {
    differences.changes.iter().map(|change| format!("{}: {}", change.part, change.change)).collect()
}

fn units(differences: &Differences) -> Vec<(&str, u64)> {
    differences.reconcile.iter().map(|known| (&*known.entity, known.write_units_an_item)).collect()
}

const FINISHED: &str = "[[aggregates]]\nname = \"finished\"\nof = \"book\"\ninto = \"shelf\"\nmeasures.finished = { count = true, when.read = [200] }\n\n[[mirrors]]";

#[tokio::test]
async fn an_added_aggregate_is_counted() {
    let diff = verified_diff(&changed(&[("[[mirrors]]", FINISHED)]), &[]).await;
    assert_eq!(parts(&diff), ["aggregate finished: added"]);
    // The entry, the shelf's rollup, and the rollup of prices, whose `max` reads every price again.
    assert_eq!(units(&diff), [("book", 6)]);
}

#[tokio::test]
async fn a_removed_aggregate_leaves_its_measures_and_writes_nothing() {
    let removed = part("[[aggregates]]\nname = \"books\"", "[rollups.prices]");
    let mirrors = part("[[mirrors]]", "[[caches]]");
    let diff = verified_diff(&changed(&[(removed, ""), (mirrors, "")]), &["books", "spent"]).await;
    assert!(units(&diff).is_empty());
    assert!(
        diff.orphaned.iter().any(|line| line.starts_with("attribute shelf.books")),
        "{:?}",
        diff.orphaned
    );
}

#[tokio::test]
async fn a_renamed_measure_moves() {
    let diff = verified_diff(&changed(&[("spent = { sum", "paid = { sum")]), &[]).await;
    assert_eq!(parts(&diff), ["aggregate books: measure paid added: sum of price; measure spent removed"]);
    // The entry, three rollups, and the shelf's item, which mirrors the number of its books.
    assert_eq!(units(&diff), [("book", 9)]);
    assert!(
        diff.orphaned[0].starts_with("attribute spent of shelf, day: reconciling brings it to 0"),
        "{diff:?}"
    );
}

#[tokio::test]
async fn a_changed_condition_counts_every_item_again() {
    let when = "into = [\"shelf\", \"day\"]\nwhen.price = [{ exists = true }]";
    let diff = verified_diff(&changed(&[("into = [\"shelf\", \"day\"]", when)]), &[]).await;
    assert_eq!(parts(&diff), ["aggregate books: when was always, is price = [{ exists = true }]"]);
    assert_eq!(units(&diff), [("book", 9)]);
}

#[tokio::test]
async fn a_changed_rollup_key_moves_the_counts() {
    let diff = verified_diff(&changed(&[("DAY#{bought_at:day}", "BOUGHT#{bought_at:day}")]), &[]).await;
    let key = "rollup day: its key was DAY#{bought_at:day} / ROLLUP#BOUGHT, is BOUGHT#{bought_at:day} / ROLLUP#BOUGHT";
    assert_eq!(parts(&diff)[0], key);
    // One rollup more: the day's old one and its new one.
    assert_eq!(units(&diff), [("book", 11)]);
}

#[tokio::test]
async fn a_removed_target_rollup_is_subtracted_from() {
    let diff = verified_diff(&changed(&[("into = [\"shelf\", \"day\"]", "into = \"shelf\"")]), &[]).await;
    assert_eq!(units(&diff), [("book", 9)]);
}

#[tokio::test]
async fn added_shards_spread_the_counts() {
    let sharded = ("SK = \"ROLLUP#BOUGHT\" }", "SK = \"ROLLUP#BOUGHT\" }\nshards = 4");
    let new = changed(&[sharded]);
    let diff = priced_diff(&new, &[]).await;
    assert_eq!(units(&diff), [("book", 13)]);
    assert!(diff.problems.iter().any(|problem| problem.contains("too little until")), "{diff:?}");
    let shrunk = Differences::between(&new, &library());
    assert!(shrunk.problems.iter().any(|problem| problem.contains("Leave it at 4")), "{shrunk:?}");
}

#[tokio::test]
async fn a_changed_derived_value_is_computed_again() {
    let half = "half = { count = true, when.progress = [{ numeric = [\">=\", 50] }] }";
    let before = load(&LIBRARY.replace("books = \"count\"", &format!("books = \"count\"\n{half}")));
    let after = LIBRARY.replace("books = \"count\"", &format!("books = \"count\"\n{half}"));
    let after = after
        .replace("generation = 1", "generation = 2")
        .replace("[\"read\", \"pages\"]", "[\"pages\", \"read\"]");
    let after = load(&after);
    let (reconciled, fresh) = (LibraryTables::new(), LibraryTables::new());
    reconciled.count(&before).await;
    reconciled.reconcile(&after).await;
    fresh.count(&after).await;
    assert_eq!(reconciled.rollups(), fresh.rollups());
    let diff = Differences::between(&before, &after);
    assert_eq!(
        parts(&diff),
        ["entity book: derived value progress was percent of read, pages, is percent of pages, read"]
    );
    assert_eq!(diff.reconcile.len(), 1);
}

#[tokio::test]
async fn a_removed_max_keeps_its_value() {
    let diff = verified_diff(
        &changed(&[("dearest = { max = \"price\" }", "cheapest = { min = \"price\" }")]),
        &["dearest"],
    )
    .await;
    assert!(
        diff.orphaned.iter().any(|line| line == "attribute dearest of prices: it keeps its value"),
        "{diff:?}"
    );
}

#[tokio::test]
async fn a_renamed_aggregate_is_reported_because_it_counts_twice() {
    let new = changed(&[("name = \"books\"", "name = \"volumes\"")]);
    let diff = Differences::between(&library(), &new);
    let [problem] = diff.problems.as_slice() else { panic!("{diff:?}") };
    assert!(problem.contains("removed aggregate books") && problem.contains("spent of day"), "{problem}");
    let tables = LibraryTables::new();
    tables.count(&library()).await;
    let once = tables.rollups();
    tables.reconcile(&new).await;
    let (once, twice) =
        (&once["SHELF#s0 / ROLLUP#BOOKS"]["books"], &tables.rollups()["SHELF#s0 / ROLLUP#BOOKS"]["books"]);
    assert_eq!(once.plus(once).expect("a sum"), *twice);
}

#[test]
fn a_model_does_not_differ_from_itself() {
    let same = Differences::between(&library(), &changed(&[]));
    assert!(same.changes.is_empty() && same.problems.is_empty() && same.reconcile.is_empty(), "{same:?}");
}

#[test]
fn a_column_may_be_added_and_its_type_may_not_change() {
    let price = "price = \"decimal(10,2)\"";
    let added = Differences::between(
        &library(),
        &changed(&[(price, "price = \"decimal(10,2)\"\npages = \"int64\"")]),
    );
    assert_eq!(parts(&added), ["dataset books: column pages added: int64"]);
    assert!(added.problems.is_empty(), "{added:?}");
    let retyped = Differences::between(&library(), &changed(&[(price, "price = \"double\"")]));
    assert_eq!(retyped.problems.len(), 1, "{retyped:?}");
    let renamed = Differences::between(&library(), &changed(&[("name = \"library\"", "name = \"books\"")]));
    assert!(renamed.changes.is_empty(), "{renamed:?}");
}

#[test]
fn the_generation_must_grow() {
    let new = load(&LIBRARY.replace("book:{book_id}", "volume:{book_id}"));
    let diff = Differences::between(&library(), &new);
    assert_eq!(parts(&diff).len(), 2);
    assert!(diff.problems[0].contains("generation = 2"), "{diff:?}");
}
