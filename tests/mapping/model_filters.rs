//! The filters of the built-in models, judged by the filter engine: no record that has an effect is lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_demo::{records, workloads};
use afterwrite_deployment::stream_filters::{MAX_PATTERN_LENGTH, MAX_PATTERNS, StreamFilter};
use afterwrite_mapping::FilterCriteria;
use afterwrite_memory::MemoryTables;
use afterwrite_model::entity::{HEARTBEAT_KEY, SourceKey};
use afterwrite_model::record::RecordDecoder;
use afterwrite_model::table::{Entity, KeyType, Model};
use afterwrite_preview::trace::{RecordTracer, TraceLookups};
use afterwrite_services::config::ProjectionKind;
use afterwrite_tests::recording::StreamRecording;
use serde_json::{Map, Value, json};

const NOW: i64 = 1_770_467_696;

/// A model, the records of its tables, and the filters of the streams.
struct FilteredModel {
    model: Arc<Model>,
    names: Vec<Arc<str>>,
    records: Vec<String>,
}

impl FilteredModel {
    /// The demo's workload, and for exambuddy also its recording.
    fn new(name: &str) -> Self {
        let model = Arc::new(Model::load(name).unwrap());
        let mut records = records::records(workloads::of(name).unwrap(), 7, 60, NOW);
        if name == Model::DEFAULT_NAME {
            let recording = StreamRecording::load("exam-42");
            records.extend(recording.records().map(|record| record.get().to_owned()));
        }
        let names = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
        Self { model, names, records }
    }

    /// The filter of each table for a function with these projections.
    fn criteria(&self, projections: &[ProjectionKind]) -> Vec<FilterCriteria> {
        let projections: BTreeSet<ProjectionKind> = projections.iter().copied().collect();
        let tables = 0..self.model.tables.len();
        let filters = tables.map(|table| StreamFilter::new(&self.model, table, &projections, MAX_PATTERNS));
        filters
            .map(|filter| {
                assert!(filter.patterns.iter().all(|pattern| pattern.len() <= MAX_PATTERN_LENGTH));
                FilterCriteria::from_patterns(filter.patterns.iter().map(String::as_str)).unwrap()
            })
            .collect()
    }

    /// Traces with placeholders for the outputs of lookups.
    fn tracer(&self) -> RecordTracer<MemoryTables> {
        let lookups = TraceLookups::new(&self.model, None);
        RecordTracer::new(Arc::clone(&self.model), self.names.clone(), lookups)
    }

    /// The table and the entity of a record.
    fn entity_of(&self, record: &str) -> (usize, Option<&Entity>) {
        let record = RecordDecoder::new(&self.model.attributes).record(record.as_bytes()).unwrap();
        let table = self.names.iter().position(|name| **name == *record.table).unwrap();
        let source = SourceKey::of_keys(&self.model, table, &record.keys).unwrap();
        (table, source.candidates(&self.model).by_key().map(|identity| identity.entity))
    }

    /// A record of a table with a new item whose key attributes have this text, or 0 where the key is a number.
    fn foreign_record(&self, table: usize, text: &str) -> String {
        let keys: Map<String, Value> = self.model.tables[table]
            .key()
            .map(|key| {
                let value = match key.key_type {
                    KeyType::Text => json!({ "S": text }),
                    KeyType::Number => json!({ "N": "0" }),
                    KeyType::Binary => panic!("no built-in model has binary keys"),
                };
                (key.name.to_string(), value)
            })
            .collect();
        json!({ "eventName": "INSERT", "dynamodb": { "Keys": keys, "NewImage": keys } }).to_string()
    }
}

#[tokio::test]
async fn no_record_with_an_effect_is_filtered_out() {
    use ProjectionKind::{Aggregate, Archive, Invalidate};
    for name in Model::built_in_names() {
        let filtered = FilteredModel::new(name);
        let (counting, caching) = (filtered.criteria(&[Aggregate]), filtered.criteria(&[Invalidate]));
        let archiving = filtered.criteria(&[Invalidate, Archive]);
        let tracer = filtered.tracer();
        let mut effects = 0;
        for record in &filtered.records {
            let (table, entity) = filtered.entity_of(record);
            let trace = tracer.trace(record).await.unwrap();
            let is_shown =
                entity.is_some_and(|entity| !entity.offers.is_empty() || !entity.mirrors.is_empty());
            let is_counted = !trace.rollups.is_empty() || is_shown;
            let is_cached = !trace.keys.is_empty() || !trace.paths.is_empty();
            effects += usize::from(is_counted) + usize::from(is_cached);
            assert!(!is_counted || counting[table].accepts(record), "{name}: {record}");
            assert!(!is_cached || caching[table].accepts(record), "{name}: {record}");
            assert!(archiving[table].accepts(record), "{name}: {record}");
        }
        assert!(effects > filtered.records.len() / 2, "{name}: {effects} effects");
    }
}

#[test]
fn keys_of_no_entity_invoke_no_function_and_the_heartbeat_does() {
    for name in Model::built_in_names() {
        let filtered = FilteredModel::new(name);
        let counting = filtered.criteria(&[ProjectionKind::Aggregate]);
        let everything = filtered.criteria(&[ProjectionKind::Archive]);
        for (table, criteria) in counting.iter().enumerate() {
            assert!(criteria.accepts(&filtered.foreign_record(table, HEARTBEAT_KEY)), "{name}");
            // Every key of these tables may be an item's.
            let is_open = name == "quiz";
            for foreign in ["LEDGER#T#A", "LOOKUP#a#b", "AFTERWRITE#JOB#1", "SESSION#1"] {
                let record = filtered.foreign_record(table, foreign);
                assert_eq!(criteria.accepts(&record), is_open, "{name}: {foreign}");
                // The archive has every change of the application's tables. Of the state table it has rollups that datasets export.
                let is_archived = !filtered.model.tables[table].is_state();
                assert_eq!(everything[table].accepts(&record), is_archived, "{name}: {foreign}");
            }
        }
    }
}

#[test]
fn a_table_with_another_key_is_delivered_so_that_the_function_reports_it() {
    let filtered = FilteredModel::new("shop");
    let record = json!({ "eventName": "INSERT", "dynamodb": { "Keys": { "id": { "S": "7" } } } }).to_string();
    assert!(filtered.criteria(&[ProjectionKind::Aggregate])[0].accepts(&record));
}

#[test]
fn items_from_which_nothing_is_derived_do_not_invoke_the_aggregator() {
    let filtered = FilteredModel::new("algoitny");
    let counting = filtered.criteria(&[ProjectionKind::Aggregate]);
    let rejected = filtered.records.iter().filter(|record| {
        let (table, _) = filtered.entity_of(record);
        !counting[table].accepts(record)
    });
    let entities: BTreeSet<String> =
        rejected.filter_map(|record| Some(filtered.entity_of(record).1?.name.to_string())).collect();
    assert_eq!(entities, BTreeSet::from(["plan", "task_result"].map(str::to_owned)));
}
