//! The clients in TypeScript and Python, on an embedded DynamoDB, read what the demo's recount of each workload has.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_demo::exact::ExactNumber;
use afterwrite_demo::item::ItemValue;
use afterwrite_demo::recount::Recount;
use afterwrite_demo::rollups::{MeasureValues, RollupKey, number};
use afterwrite_demo::workload::Workload;
use afterwrite_demo::workloads;
use afterwrite_model::record::Item;
use afterwrite_model::table::{MeasureKind, Model, Rollup};
use afterwrite_tests::size::size;
use serde_json::{Map, Value, json};

use super::consumers::WorkloadRun;
use crate::models::clients::toolchain::{ClientFolder, serving};
use crate::operations::world::{OperationWorld, STATE};

/// Enough for several items of every rollup.
fn size_of_world() -> u64 {
    size(24, 40)
}

/// The rollups of a recount that a reader reads.
type RollupsByKey<'r> = BTreeMap<&'r RollupKey, &'r MeasureValues>;

/// Requests to a client, and the answers that follow from a recount.
struct ExpectedAnswers<'m> {
    model: &'m Model,
    requests: Vec<Value>,
    /// For each request: the place, and the expected answer.
    expected: Vec<(String, ExpectedAnswer)>,
}

/// An answer.
#[derive(Debug, PartialEq)]
enum ExpectedAnswer {
    /// The measures of one rollup, or of several together.
    Measures(Value),
    /// The rollups in which something was counted: their keys and measures, in this order.
    Rollups(Vec<Value>),
}

#[tokio::test]
#[ignore = "needs TypeScript and boto3: run tests/run"]
async fn the_clients_answers_equal_the_recount() {
    let models = workloads::ALL.map(|workload| Model::load(workload.model).expect("a model"));
    let folder = ClientFolder::of(&models);
    folder.compile();
    let mut totals = [0; 3];
    for (workload, model) in workloads::ALL.into_iter().zip(&models) {
        let (recount, state) = counted(workload);
        let server = serving(model, &state).await;
        let mut answers = ExpectedAnswers { model, requests: Vec::new(), expected: Vec::new() };
        for (index, rollup) in model.rollups.iter().enumerate() {
            answers.ask(index, rollup, &recount, &mut totals);
        }
        let read = folder.answers(model, &server.endpoint(), &json!(answers.requests)).await;
        for answered in read {
            answers.compare(&answered);
        }
        server.stop().await.expect("the server stops");
    }
    let [sharded, ranges, percentiles] = totals;
    assert!(sharded > 5 && ranges > 5 && percentiles > 2, "{totals:?}");
}

/// The recount of a workload, and the state table.
fn counted(workload: &Workload) -> (Recount, Vec<Item>) {
    if workload.model == Model::DEFAULT_NAME {
        // A looked-up item that is deleted is only found in a batch that has its record: the stream is delivered in order.
        let world = OperationWorld::new(workload.model, 5, size_of_world(), 0);
        world.finish();
        return (world.recount(), world.rows(STATE));
    }
    let mut run = WorkloadRun::new(workload, 5, size_of_world());
    run.run_to_end();
    (workload.recount(&run.outcome()), run.state())
}

impl ExpectedAnswers<'_> {
    /// Asks for every rollup by key, each partition with its total, and each series of buckets.
    fn ask(&mut self, index: usize, rollup: &Rollup, recount: &Recount, totals: &mut [usize; 3]) {
        let own: RollupsByKey<'_> =
            recount.rollups.iter().filter(|(key, _)| self.is_of(index, key)).collect();
        let reader = rollup.name.replace('.', "_");
        totals[0] += if rollup.shards > 1 { own.len() } else { 0 };
        for (key, values) in &own {
            let measures = self.measures(index, values);
            let fields = fields(rollup, key);
            self.push(&reader, "get", json!([fields]), json!({}), ExpectedAnswer::Measures(measures));
        }
        let partitions: BTreeSet<&String> = own.keys().map(|key| &key.0).collect();
        for partition in partitions {
            let within: RollupsByKey<'_> = own
                .iter()
                .filter(|(key, _)| key.0 == *partition)
                .map(|(key, values)| (*key, *values))
                .collect();
            self.ask_partition(index, rollup, &within, totals);
        }
    }

    fn ask_partition(
        &mut self,
        index: usize,
        rollup: &Rollup,
        within: &RollupsByKey<'_>,
        totals: &mut [usize; 3],
    ) {
        let reader = rollup.name.replace('.', "_");
        let Some(first) = within.keys().next() else { return };
        let prefix = partition_fields(rollup, first);
        let rollups: Vec<Value> = within
            .iter()
            .map(|(key, values)| json!({ "key": fields(rollup, key), "measures": self.measures(index, values) }))
            .collect();
        let counted = ExpectedAnswer::Rollups(rollups.into_iter().filter(is_counted).collect());
        self.push(&reader, "all", json!([prefix]), json!({ "limit": 3 }), counted);
        let (total, has_percentiles) = self.total(index, within);
        totals[2] += usize::from(has_percentiles);
        self.push(&reader, "total", json!([prefix]), json!({}), ExpectedAnswer::Measures(total));
        let bucket = bucket_field(rollup).filter(|_| rollup.sort.pieces.len() > 1);
        let Some(bucket) = bucket.filter(|bucket| prefix.get(bucket).is_none()) else { return };
        self.ask_ranges(index, rollup, within, &bucket, totals);
    }

    /// Asks for the series of a partition, from its first to its last bucket.
    fn ask_ranges(
        &mut self,
        index: usize,
        rollup: &Rollup,
        within: &RollupsByKey<'_>,
        bucket: &str,
        totals: &mut [usize; 3],
    ) {
        let mut series = BTreeMap::<String, BTreeMap<String, Value>>::new();
        for (key, values) in within {
            let mut fields = fields(rollup, key);
            let time = fields.remove(bucket).and_then(|time| time.as_str().map(str::to_owned));
            let measures = self.measures(index, values);
            let mut whole = fields.clone();
            whole.insert(bucket.to_owned(), json!(time));
            let rollup = json!({ "key": whole, "measures": measures });
            series.entry(json!(fields).to_string()).or_default().insert(time.expect("a bucket"), rollup);
        }
        for (fields, buckets) in series {
            let fields: Value = serde_json::from_str(&fields).expect("fields");
            let ends = [buckets.keys().next(), buckets.keys().last()];
            let rollups: Vec<Value> = buckets.values().filter(|rollup| is_counted(rollup)).cloned().collect();
            for options in [json!({}), json!({ "zeros": true, "consistent": true })] {
                totals[1] += 1;
                let answer = ExpectedAnswer::Rollups(rollups.clone());
                let reader = rollup.name.replace('.', "_");
                self.push(&reader, "range", json!([fields, ends[0], ends[1]]), options, answer);
            }
        }
    }

    fn push(&mut self, reader: &str, call: &str, arguments: Value, options: Value, answer: ExpectedAnswer) {
        let place = format!("{} {reader} {call} {arguments}", self.model.name);
        self.requests.push(json!({ "reader": reader, "call": call, "args": arguments, "options": options }));
        self.expected.push((place, answer));
    }

    fn compare(&self, answers: &[Value]) {
        assert_eq!(answers.len(), self.expected.len());
        for ((place, expected), answer) in self.expected.iter().zip(answers) {
            let read = match expected {
                ExpectedAnswer::Measures(_) => {
                    ExpectedAnswer::Measures(answer.get("measures").unwrap_or(answer).clone())
                }
                ExpectedAnswer::Rollups(_) => {
                    let rollups = answer.as_array().unwrap_or_else(|| panic!("{place}: {answer}"));
                    let counted = rollups.iter().filter(|rollup| is_counted(rollup));
                    let plain =
                        counted.map(|rollup| json!({ "key": rollup["key"], "measures": rollup["measures"] }));
                    ExpectedAnswer::Rollups(plain.collect())
                }
            };
            assert_eq!(read, *expected, "{place}");
        }
    }

    /// Whether a key is of a rollup. If it has the form of several, the one with the most literal text has it.
    fn is_of(&self, index: usize, key: &RollupKey) -> bool {
        let literal = |rollup: &Rollup| {
            let values: Vec<String> = rollup.variables.iter().map(|_| String::new()).collect();
            let (partition, sort) = rollup.key(&values);
            partition.len() + sort.len()
        };
        let of_key =
            self.model.rollups.iter().enumerate().filter(|(_, rollup)| rollup.has_key(&key.0, &key.1));
        let most = of_key.clone().map(|(_, rollup)| literal(rollup)).max();
        let mut closest = of_key.filter(|(_, rollup)| Some(literal(rollup)) == most);
        closest.any(|(other, _)| other == index)
    }

    /// The measures of a rollup, as the clients show them.
    fn measures(&self, rollup: usize, values: &MeasureValues) -> Value {
        let aggregates = self.model.aggregates.iter();
        let aggregates = aggregates
            .filter(|aggregate| aggregate.into.iter().any(|destination| destination.rollup == rollup));
        let mut measures = Map::new();
        for measure in aggregates.flat_map(|aggregate| &aggregate.measures) {
            let text = |value: Option<&ItemValue>| json!(value.map(ToString::to_string));
            let value = match &measure.kind {
                MeasureKind::Count | MeasureKind::Sum { .. } => {
                    json!(number(values, &measure.name).to_string())
                }
                MeasureKind::Histogram { .. } | MeasureKind::Percentiles { .. } => {
                    let counts = measure.attributes().iter().map(|bin| number(values, bin).to_string());
                    counts.collect()
                }
                MeasureKind::Max(..)
                | MeasureKind::Min(..)
                | MeasureKind::Latest(_)
                | MeasureKind::Average { .. }
                | MeasureKind::Percentile { .. } => text(values.get(&*measure.name)),
            };
            measures.insert(measure.name.to_string(), value);
        }
        Value::Object(measures)
    }

    /// The measures of several rollups together, and whether percentiles are among them.
    fn total(&self, index: usize, rollups: &RollupsByKey<'_>) -> (Value, bool) {
        let mut sums = MeasureValues::new();
        for (name, value) in rollups.values().flat_map(|values| values.iter()) {
            let sum = number(&sums, name).plus(&value.number());
            sums.insert(name.clone(), ItemValue::Number(sum));
        }
        let aggregates = self.model.aggregates.iter();
        let aggregates = aggregates
            .filter(|aggregate| aggregate.into.iter().any(|destination| destination.rollup == index));
        let mut has_percentiles = false;
        for aggregate in aggregates {
            for measure in &aggregate.measures {
                let all = || rollups.values().filter_map(|values| values.get(&*measure.name)).cloned();
                let value = match &measure.kind {
                    MeasureKind::Max(..) => all().max(),
                    MeasureKind::Min(..) => all().min(),
                    MeasureKind::Average { sum, count } => {
                        number(&sums, sum).divided_by(&number(&sums, count), 6).map(ItemValue::Number)
                    }
                    // Latest values do not add up.
                    MeasureKind::Latest(_) => None,
                    MeasureKind::Percentile { of, percent } => {
                        has_percentiles = true;
                        let bins = aggregate.measures.iter().find(|bins| bins.name == *of).expect("bins");
                        percentile(&bins.kind, &sums, &percent.to_string())
                    }
                    MeasureKind::Count
                    | MeasureKind::Sum { .. }
                    | MeasureKind::Histogram { .. }
                    | MeasureKind::Percentiles { .. } => continue,
                };
                match value {
                    Some(value) => sums.insert(measure.name.to_string(), value),
                    None => sums.remove(&*measure.name),
                };
            }
        }
        (self.measures_with_totals(index, &sums), has_percentiles)
    }

    /// The measures of several rollups, as the clients show them.
    fn measures_with_totals(&self, rollup: usize, values: &MeasureValues) -> Value {
        let mut totals = self.measures(rollup, values);
        if let Value::Object(totals) = &mut totals {
            totals.retain(|name, _| !self.is_single(rollup, name));
        }
        totals
    }

    /// Whether a measure of several rollups has no total: a latest value, or a number of different values.
    fn is_single(&self, rollup: usize, name: &str) -> bool {
        self.model.aggregates.iter().any(|aggregate| {
            let source = self.model.entities[aggregate.of].rollup;
            let counts_members = source.is_some_and(|source| self.model.rollups[source].has_members());
            let counts_here = aggregate.into.iter().any(|destination| destination.rollup == rollup);
            let mut measures = aggregate.measures.iter();
            counts_here
                && measures.any(|measure| {
                    *measure.name == *name
                        && (counts_members || matches!(measure.kind, MeasureKind::Latest(_)))
                })
        })
    }
}

/// The estimate of the nearest rank: the first bin up to which there are enough values.
fn percentile(kind: &MeasureKind, sums: &MeasureValues, percent: &str) -> Option<ItemValue> {
    let MeasureKind::Percentiles { bins, .. } = kind else { panic!("no bins") };
    let bins = bins.describe();
    let percent = ExactNumber::parse(percent).expect("a percentile");
    let total = bins.iter().fold(ExactNumber::ZERO, |sum, bin| sum.plus(&number(sums, &bin.attribute)));
    let mut so_far = ExactNumber::ZERO;
    let reached = bins.iter().find(|bin| {
        so_far = so_far.plus(&number(sums, &bin.attribute));
        so_far > ExactNumber::ZERO && so_far.times(&ExactNumber::from(100)) >= percent.times(&total)
    });
    reached.map(|bin| ItemValue::Number(ExactNumber::parse(&bin.estimate).expect("an estimate")))
}

/// Whether a rollup has any value but zeros.
fn is_counted(rollup: &Value) -> bool {
    let is_zero = |value: &Value| match value.as_array() {
        Some(bins) => bins.iter().all(|bin| bin == "0"),
        None => value.is_null() || value == "0",
    };
    !rollup["measures"].as_object().expect("measures").values().all(is_zero)
}

/// The values of a key, by the names that the clients give to them.
fn fields(rollup: &Rollup, key: &RollupKey) -> Map<String, Value> {
    let values = rollup.values(&key.0, &key.1).expect("a key");
    let names = rollup.variables.iter().map(|variable| field(variable));
    names.zip(values.into_iter().map(|value| json!(value))).collect()
}

fn field(variable: &str) -> String {
    variable.split(':').next().expect("a name").replace('.', "_")
}

/// The values that the partition key has.
fn partition_fields(rollup: &Rollup, key: &RollupKey) -> Map<String, Value> {
    let mut fields = fields(rollup, key);
    let written = rollup.partition.written(&rollup.variables);
    for variable in rollup.variables.iter().filter(|name| !written.contains(&format!("{{{name}}}"))) {
        fields.remove(&field(variable));
    }
    fields
}

/// The name of the bucket of a key, if it has one.
fn bucket_field(rollup: &Rollup) -> Option<String> {
    let formatted = rollup.variables.iter().rfind(|variable| variable.contains(':'))?;
    Some(field(formatted))
}
