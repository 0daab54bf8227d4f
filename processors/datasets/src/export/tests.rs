//! Objects of the archive, and the rows that they become.

mod buckets;
mod log;
mod rejected;
mod rewritten;

use std::io::Write as _;

use afterwrite_memory::{MemoryObjects, MemoryTables, TableDefinition};
use afterwrite_model::record::AttributeValue;
use afterwrite_services::ObjectStore;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::*;
use crate::fixed_clock::FixedClock;
use crate::schema::arrow_schema;

const MODEL: &str = r##"
name = "library"
generation = 1
[tables.library]
key = ["pk", "sk"]
[entities.shelf]
key = { pk = "OWNER#{owner_id}", sk = "SHELF#{shelf_id}" }
[entities.book]
key = { pk = "SHELF#{shelf_id}", sk = "BOOK#{book_id}" }
attributes = { bought_at = "S", price = "N" }
[datasets.books]
of = "book"
partition = "bought_at:day"
[datasets.books.columns]
book_id = "string"
price = "decimal(6,2)"
pages = { type = "int64", required = true }
rating = "double"
read = "boolean"
bought_at = "timestamp"
printed = "date"
cover = "binary"
tags = "list<string>"
stock = "map<int64>"
author = "struct<name:string,bornIn:int64>"
extra = "json"
"##;

const SOURCE: &str = "arn:aws:dynamodb:eu-west-1:1:table/library/stream/2026-01-01T00:00:00.000";

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

type MemoryExporter = ArchiveExporter<Arc<MemoryObjects>, MemoryTables, FixedClock>;

/// The clock of new buckets.
const NOW: Timestamp = Timestamp::from_epoch_ms(0);

fn exporter(bucket: &Arc<MemoryObjects>) -> MemoryExporter {
    let model = Model::parse(MODEL, "library.toml").unwrap();
    ArchiveExporter::new(
        Arc::new(model),
        vec![Arc::from("library")],
        Arc::clone(bucket),
        None,
        FixedClock(NOW),
    )
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn line(number: u64, event: &str, images: &str) -> String {
    format!(
        r#"{{"eventID":"{number}","eventName":"{event}","eventSourceARN":"{SOURCE}","dynamodb":{{"ApproximateCreationDateTime":1770388200.25,"Keys":{{"pk":{{"S":"SHELF#1"}},"sk":{{"S":"BOOK#1"}}}},{images},"SequenceNumber":"{number}"}}}}"#
    ) + "\n"
}

/// Exports one object.
async fn export_one(exporter: &MemoryExporter, key: &str) -> Result<ExportTotals> {
    exporter.export(&[key.to_owned()], NOW.plus(std::time::Duration::from_secs(60))).await.remove(0)
}

/// Exports the text as one object.
fn exported(bucket: &Arc<MemoryObjects>, key: &str, text: &str) -> Result<ExportTotals> {
    block_on(async {
        bucket.put(key, gzip(text)).await.unwrap();
        export_one(&exporter(bucket), key).await
    })
}

fn batches(file: Vec<u8>) -> Vec<RecordBatch> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(file)).unwrap().build().unwrap();
    reader.map(|batch| batch.unwrap()).collect()
}

/// Every row of a file as `column=value`, without nulls.
fn rows_of(file: Vec<u8>) -> Vec<String> {
    let options = FormatOptions::default().with_null("∅");
    let mut rows = Vec::new();
    for batch in batches(file) {
        let schema = batch.schema();
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .zip(schema.fields())
            .filter(|(_, field)| field.name() != "_position")
            .map(|(column, field)| (field.name().clone(), ArrayFormatter::try_new(column, &options).unwrap()))
            .collect();
        for row in 0..batch.num_rows() {
            let values = columns.iter().map(|(name, column)| format!("{name}={}", column.value(row)));
            rows.push(values.filter(|value| !value.ends_with("=∅")).collect::<Vec<_>>().join(" "));
        }
    }
    rows
}

/// A line of a book, on a day of February, with values of many column types.
fn book(number: u64, day: u64) -> String {
    let tags = (0..number % 4).map(|tag| format!(r#"{{"S":"tag {tag}"}}"#)).collect::<Vec<_>>().join(",");
    let image = format!(
        r#""NewImage":{{"bought_at":{{"S":"2026-02-{day:02}T14:30:00Z"}},"price":{{"N":"{number}.25"}},"pages":{{"N":"{number}"}},"tags":{{"L":[{tags}]}},"stock":{{"M":{{"home":{{"N":"{number}"}}}}}},"author":{{"M":{{"bornIn":{{"N":"19{:02}"}}}}}},"cover":{{"B":"AAEC"}},"extra":{{"L":[{tags}]}}}}"#,
        number % 100
    );
    line(number, "INSERT", &image).replace("BOOK#1", &format!("BOOK#{number}"))
}

fn parquet_of(bucket: &MemoryObjects, prefix: &str) -> Vec<(String, Vec<u8>)> {
    let objects = bucket.objects().into_iter();
    objects.filter(|(key, _)| key.starts_with(prefix) && key.ends_with(".parquet")).collect()
}

/// The files of an object that is exported with this many bytes staged: their keys, rows and numbers of row groups.
fn staged(object: &[u8], bytes: usize) -> Vec<(String, Vec<String>, usize)> {
    let bucket = Arc::new(MemoryObjects::default());
    let key = "archive/dt=2026-02-06/hh=14/a.gz";
    block_on(bucket.put(key, object.to_vec())).unwrap();
    let exporter = ArchiveExporter { staged_bytes: bytes, ..exporter(&bucket) };
    block_on(export_one(&exporter, key)).unwrap();
    let groups = |file: &Vec<u8>| {
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(file.clone())).unwrap();
        reader.metadata().num_row_groups()
    };
    let files = parquet_of(&bucket, "datasets/").into_iter();
    files.map(|(key, file)| (key, rows_of(file.clone()), groups(&file))).collect()
}

#[test]
fn rows_do_not_depend_on_the_number_of_row_groups() {
    let lines: String = (1..=6_000).map(|number| book(number, number % 3 + 1)).collect();
    let object = gzip(&lines);
    let whole = staged(&object, usize::MAX);
    assert_eq!(
        whole.iter().map(|(_, rows, groups)| (rows.len(), *groups)).collect::<Vec<_>>(),
        [(2_000, 1); 3]
    );
    // A row takes about 300 bytes, and a block has about a thousand lines.
    for (bytes, expected) in [(0, 5..20), (600_000, 2..5)] {
        let parts = staged(&object, bytes);
        assert_eq!(parts.len(), whole.len());
        for ((key, rows, _), (other, others, groups)) in whole.iter().zip(&parts) {
            assert_eq!((key, rows), (other, others));
            assert!(expected.contains(groups), "{groups} row groups of {bytes} bytes");
        }
    }
}

#[test]
fn every_type_of_value_fits_its_column() {
    let image = r#""NewImage":{"bought_at":{"S":"2026-02-06T14:30:00.5Z"},"price":{"N":"12.50"},"pages":{"N":"300"},
        "rating":{"N":"4.5"},"read":{"BOOL":true},"printed":{"S":"1999-12-31"},"cover":{"B":"AAEC"},
        "tags":{"SS":["a","b"]},"stock":{"M":{"home":{"N":"1"},"lent":{"NULL":true}}},
        "author":{"M":{"name":{"S":"É. \"X\""},"bornIn":{"N":"1970"},"died":{"NULL":true}}},
        "extra":{"M":{"n":{"N":"12345678901234567890123456789012345678"},"l":{"L":[{"NULL":true},{"NS":["1"]}]}}}}"#
        .replace('\n', "");
    let bucket = Arc::new(MemoryObjects::default());
    let totals = exported(&bucket, "archive/dt=2026-02-06/hh=14/a.gz", &line(100, "INSERT", &image)).unwrap();
    assert_eq!((totals.rows, totals.rescued, totals.files), (1, 0, 1));
    let [(key, file)] = &parquet_of(&bucket, "datasets/")[..] else { panic!("one file") };
    assert!(key.starts_with("datasets/books_log/dt=2026-02-06/") && key.ends_with(".parquet"), "{key}");
    assert_eq!(
        rows_of(file.clone()),
        [concat!(
            "book_id=1 price=12.50 pages=300 rating=4.5 read=true bought_at=2026-02-06T14:30:00.500Z ",
            "printed=1999-12-31 cover=000102 tags=[a, b] stock={home: 1, lent: ∅} ",
            "author={name: É. \"X\", bornin: 1970} ",
            "extra={\"l\":[null,[1]],\"n\":12345678901234567890123456789012345678} ",
            "_key_shelf_id=1 _key_book_id=1 _operation=INSERT _changed_at=2026-02-06T14:30:00.250Z _generation=1"
        )]
    );
    let batch = batches(file.clone()).remove(0);
    let position = batch.column_by_name("_position").unwrap().as_string::<i32>();
    assert_eq!(position.value(0), format!("2026-01-01T00:00:00.000#{:0>40}", 100));
}

#[test]
fn a_value_that_does_not_fit_is_rescued_and_its_row_is_written() {
    let cases = [
        (r#""price":{"N":"0.001"},"pages":{"N":"1"}"#, r#"{"price":{"N":"0.001"}}"#),
        (r#""price":{"N":"12345.67"},"pages":{"N":"1"}"#, r#"{"price":{"N":"12345.67"}}"#),
        (r#""price":{"S":"12"},"pages":{"N":"1"}"#, r#"{"price":{"S":"12"}}"#),
        (r#""pages":{"N":"1.5"}"#, r#"{"pages":{"N":"1.5"}}"#),
        (r#""price":{"N":"1"}"#, r#"{"pages":null}"#),
        (
            r#""pages":{"N":"1"},"tags":{"L":[{"S":"a"},{"N":"1"}]}"#,
            r#"{"tags":{"L":[{"S":"a"},{"N":"1"}]}}"#,
        ),
        (r#""pages":{"N":"1"},"stock":{"L":[]}"#, r#"{"stock":{"L":[]}}"#),
        (r#""pages":{"N":"1"},"author":{"M":{"name":{"N":"1"}}}"#, r#"{"author":{"M":{"name":{"N":"1"}}}}"#),
        (r#""pages":{"N":"1"},"printed":{"S":"soon"}"#, r#"{"printed":{"S":"soon"}}"#),
        (r#""pages":{"N":"1"},"cover":{"S":"AAEC"}"#, r#"{"cover":{"S":"AAEC"}}"#),
    ];
    for (attributes, rescued) in cases {
        let bucket = Arc::new(MemoryObjects::default());
        let image = format!(r#""NewImage":{{"bought_at":{{"S":"2026-02-06"}},{attributes}}}"#);
        let totals = exported(&bucket, "archive/a.gz", &line(100, "INSERT", &image)).unwrap();
        assert_eq!((totals.rows, totals.rescued), (1, 1), "{attributes}");
        let (_, file) = parquet_of(&bucket, "datasets/").remove(0);
        let row = rows_of(file).remove(0);
        assert!(row.ends_with(&format!("_rescued={rescued} _generation=1")), "{row}");
    }
}

#[test]
fn every_form_of_a_time_has_its_day() {
    let times = [
        r#"{"S":"2026-02-06T14:30:00Z"}"#,
        r#"{"S":"2026-02-06T14:30:00"}"#,
        r#"{"S":"2026-02-06 14:30:00"}"#,
        r#"{"S":"2026-02-06T14:30:00.000000"}"#,
        r#"{"N":"1770388200"}"#,
        r#"{"N":"1770388200000"}"#,
        r#"{"N":"1770388200000000"}"#,
    ];
    for time in times {
        let bucket = Arc::new(MemoryObjects::default());
        let image = format!(r#""NewImage":{{"bought_at":{time},"pages":{{"N":"1"}}}}"#);
        exported(&bucket, "archive/a.gz", &line(100, "INSERT", &image)).unwrap();
        let (key, file) = parquet_of(&bucket, "datasets/books").remove(0);
        assert!(key.contains("/dt=2026-02-06/"), "{time}: {key}");
        let row = rows_of(file).remove(0);
        assert!(row.contains("bought_at=2026-02-06T14:30:00Z"), "{row}");
    }
}

#[test]
fn a_row_without_a_usable_time_is_counted_and_has_a_partition_of_its_own() {
    for time in [r#""bought_at":{"S":"yesterday"},"#, r#""bought_at":{"NULL":true},"#, ""] {
        let bucket = Arc::new(MemoryObjects::default());
        let image = format!(r#""NewImage":{{{time}"pages":{{"N":"1"}}}}"#);
        let totals = exported(&bucket, "archive/a.gz", &line(100, "INSERT", &image)).unwrap();
        assert_eq!((totals.rows, totals.undated), (1, 1), "{time}");
        let (key, _) = parquet_of(&bucket, "datasets/books").remove(0);
        assert!(key.contains("/dt=0001-01-01/"), "{time}: {key}");
    }
    let bucket = Arc::new(MemoryObjects::default());
    let totals = exported(&bucket, "archive/a.gz", &book(1, 1)).unwrap();
    assert_eq!((totals.rows, totals.undated), (1, 0));
}

#[test]
fn a_second_export_changes_nothing_and_duplicates_are_exported_once() {
    let bucket = Arc::new(MemoryObjects::default());
    let insert = line(100, "INSERT", r#""NewImage":{"bought_at":{"S":"2026-02-06"},"pages":{"N":"1"}}"#);
    let moved = line(
        101,
        "MODIFY",
        r#""NewImage":{"bought_at":{"S":"2026-02-07"},"pages":{"N":"1"}},"OldImage":{"bought_at":{"S":"2026-02-06"}}"#,
    );
    let text = [&*insert, &insert, &moved, &insert].concat();
    let totals = exported(&bucket, "archive/a.gz", &text).unwrap();
    assert_eq!((totals.lines, totals.rows, totals.duplicates, totals.files), (4, 3, 2, 2));
    let before = bucket.objects();
    let totals = exported(&bucket, "archive/a.gz", &text).unwrap();
    assert_eq!((totals.files, totals.existing_files), (0, 2));
    assert_eq!(bucket.objects(), before);
    let operations = |day: &str| -> Vec<String> {
        let (_, file) = parquet_of(&bucket, &format!("datasets/books_log/dt={day}/")).remove(0);
        let batch = batches(file).remove(0);
        let operations = batch.column_by_name("_operation").unwrap().as_string::<i32>().clone();
        operations.iter().flatten().map(str::to_owned).collect()
    };
    assert_eq!(
        (operations("2026-02-06"), operations("2026-02-07")),
        (vec!["INSERT".into(), "REMOVE".into()], vec!["MODIFY".to_owned()])
    );
}

#[test]
fn large_items_and_invalid_days_become_rows() {
    let bucket = Arc::new(MemoryObjects::default());
    let text: String = ["../../etc", "a=b", "'; DROP TABLE books", "2026-02-06\\n", "9999-99-99"]
        .iter()
        .enumerate()
        .map(|(number, day)| {
            let long = "x".repeat(390 * 1024);
            let image = format!(
                r#""NewImage":{{"bought_at":{{"S":"{day}"}},"pages":{{"N":"1"}},"extra":{{"S":"{long}"}}}}"#
            );
            line(u64::try_from(number).unwrap() + 1, "INSERT", &image)
        })
        .collect();
    let totals = exported(&bucket, "archive/a.gz", &text).unwrap();
    assert_eq!((totals.rows, totals.files), (5, 1));
    let (key, _) = parquet_of(&bucket, "datasets/").remove(0);
    assert!(key.starts_with("datasets/books_log/dt=0001-01-01/"), "{key}");
}

#[test]
fn the_schema_has_only_types_that_all_readers_support() {
    let model = Model::parse(MODEL, "library.toml").unwrap();
    let descriptor =
        parquet::arrow::ArrowSchemaConverter::new().convert(&arrow_schema(&model.datasets[0])).unwrap();
    for column in descriptor.columns() {
        let types = format!("{:?} {:?}", column.physical_type(), column.logical_type_ref());
        assert!(
            !types.contains("INT96") && !types.contains("NANOS") && !types.contains("is_signed: false"),
            "{types}"
        );
    }
}

#[test]
fn the_outputs_of_remembered_lookups_are_columns() {
    let source = MODEL.replace(
        "[datasets.books]",
        "[lookups.owner]\nof = \"shelf\"\nindex = \"GSI1\"\nkey = { GSI1PK = \"SHELF#{shelf_id}\" }\ngives = [\"owner_id\"]\n[datasets.books]\nlookup = \"owner\"",
    );
    let source = source.replace("book_id = \"string\"", "book_id = \"string\"\nowner_id = \"string\"");
    let model = Arc::new(Model::parse(&source, "library.toml").unwrap());
    let state = MemoryTables::new();
    state.create_table(TableDefinition::new("state", "PK").sort("SK"));
    let gives = AttributeValue::M([("owner_id".into(), AttributeValue::from("o1"))].into());
    let item = [("PK", "LOOKUP#owner#1".into()), ("SK", "-".into()), ("gives", gives)];
    state.put("state", item.map(|(name, value)| (name.into(), value)).into()).unwrap();
    let bucket = Arc::new(MemoryObjects::default());
    let remembered = RememberedLookups::new(Arc::clone(&model), Arc::from("state"), state);
    let exporter = ArchiveExporter::new(
        model,
        vec![Arc::from("library")],
        Arc::clone(&bucket),
        Some(remembered),
        FixedClock(NOW),
    );
    let export = |key: &'static str, text: String| {
        block_on(async {
            bucket.put(key, gzip(&text)).await.unwrap();
            export_one(&exporter, key).await.unwrap().rows
        })
    };
    let good = line(100, "INSERT", r#""NewImage":{"bought_at":{"S":"2026-02-06"},"pages":{"N":"1"}}"#);
    assert_eq!(export("archive/a.gz", good), 1);
    let (_, file) = parquet_of(&bucket, "datasets/").remove(0);
    assert!(rows_of(file)[0].starts_with("book_id=1 owner_id=o1 "));
    // A stream without new images: the lookup's key is in the item's key.
    let keys_only = line(101, "MODIFY", r#""StreamViewType":"KEYS_ONLY""#);
    assert_eq!(export("archive/b.gz", keys_only), 1);
    let (_, file) = parquet_of(&bucket, "datasets/books_log/dt=0001-01-01").remove(0);
    assert!(rows_of(file)[0].starts_with("book_id=1 owner_id=o1 "));
}
