//! Folders of the old layout.

use afterwrite::record::Timestamp;
use afterwrite::sink::ObjectStore as _;
use afterwrite_memory::MemoryObjects;
use arrow_array::cast::AsArray as _;
use arrow_array::{Int64Array, StringArray, TimestampMillisecondArray};

use super::*;
use crate::fixed_clock::FixedClock;

const NOW: Timestamp = Timestamp::from_epoch_ms(0);
const MODEL: &str = "name = \"library\"\ngeneration = 1\n[tables.library]\nkey = [\"pk\", \"sk\"]\n[entities.book]\n\
     key = { pk = \"SHELF#{shelf_id}\", sk = \"BOOK#{book_id}\" }\n[datasets.books]\nof = \"book\"\n\
     partition = \"bought_at:day\"\n[datasets.books.columns]\nbook_id = \"string\"\nprice = \"int64\"\nbought_at = \"timestamp\"\n";

fn model() -> Model {
    Model::parse(MODEL, "library.toml").unwrap()
}

/// A file as the old exporter wrote it: without a key column for a variable that another column shows.
fn old_file(books: &[(&str, i64)], names: [&str; 2]) -> Vec<u8> {
    let texts = |text: fn(&(&str, i64)) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(books.iter().map(text)))
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        (names[0], texts(|(book, _)| (*book).to_owned())),
        ("price", Arc::new(Int64Array::from_iter_values(books.iter().map(|(_, price)| *price)))),
        (names[1], texts(|_| "shelf".to_owned())),
        ("_position", texts(|(_, price)| format!("label#{price:040}"))),
        ("_operation", texts(|_| "INSERT".to_owned())),
        (
            "_changed_at",
            Arc::new(TimestampMillisecondArray::from_value(5, books.len()).with_timezone("+00:00")),
        ),
        ("_rescued", Arc::new(StringArray::new_null(books.len()))),
        ("_generation", Arc::new(Int64Array::from_value(1, books.len()))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn put(bucket: &MemoryObjects, key: &str, body: Vec<u8>) {
    block_on(bucket.put(key, body)).unwrap();
}

fn migrate(bucket: &Arc<MemoryObjects>) -> Result<MigrationTotals> {
    block_on(migrate_datasets(Arc::clone(bucket), &model(), &FixedClock(NOW)))
}

/// The key and the price of every row of the log.
fn rows(bucket: &Arc<MemoryObjects>) -> BTreeSet<(String, String, i64)> {
    let log = DeltaTable::new(Arc::clone(bucket), "datasets/books_log/");
    let snapshot = block_on(log.snapshot()).unwrap();
    let mut rows = BTreeSet::new();
    for file in snapshot.files() {
        let content = bucket.objects()[&format!("datasets/books_log/{}", file.path)].clone();
        let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(content)).unwrap().build().unwrap();
        for batch in reader.map(std::result::Result::unwrap) {
            for at in 0..batch.num_rows() {
                let text = |name: &str| batch[name].as_string::<i32>().value(at).to_owned();
                let price = batch["price"].as_primitive::<arrow_array::types::Int64Type>().value(at);
                rows.insert((file.day.clone(), text("_key_shelf_id") + "/" + &text("_key_book_id"), price));
            }
        }
    }
    rows
}

fn row(day: &str, book: &str, price: i64) -> (String, String, i64) {
    (day.to_owned(), format!("shelf/{book}"), price)
}

#[test]
fn old_files_become_files_of_the_log_and_superseded_ones_do_not() {
    let bucket = Arc::new(MemoryObjects::default());
    let old = |day: &str, name: &str| format!("datasets/books/dt={day}/{name}.parquet");
    let names = ["book_id", "_key_shelf_id"];
    put(&bucket, &old("2026-02-06", "a"), old_file(&[("x", 1)], names));
    put(&bucket, &old("2026-02-06", "compacted-1-0"), old_file(&[("x", 1), ("y", 2)], names));
    put(&bucket, &old("0001-01-01", "b"), old_file(&[("z", 3)], names));
    let manifest = format!(
        "{{\"inputs\":[\"{}\"],\"outputs\":[\"{}\"],\"fingerprint\":\"f\"}}",
        old("2026-02-06", "a"),
        old("2026-02-06", "compacted-1-0")
    );
    put(&bucket, "compactions/books/dt=2026-02-06/m.json", manifest.into_bytes());
    let totals = migrate(&bucket).unwrap();
    assert_eq!((totals.files, totals.rows, totals.superseded_files), (2, 3, 1));
    let expected = [row("2026-02-06", "x", 1), row("2026-02-06", "y", 2), row("0001-01-01", "z", 3)];
    assert_eq!(rows(&bucket), expected.into_iter().collect());
    let before = bucket.objects();
    let again = migrate(&bucket).unwrap();
    assert_eq!((again.files, again.existing_files), (0, 2));
    assert_eq!(bucket.objects(), before, "a second migration changes nothing");
}

#[test]
fn a_folder_without_a_day_becomes_the_partition_of_rows_without_a_time() {
    let bucket = Arc::new(MemoryObjects::default());
    for folder in ["..", "__HIVE_DEFAULT_PARTITION__", "2026-2-6"] {
        let key = format!("datasets/books/dt={folder}/a.parquet");
        put(&bucket, &key, old_file(&[("x", 1)], ["book_id", "_key_shelf_id"]));
    }
    assert_eq!(migrate(&bucket).unwrap().files, 3);
    assert_eq!(rows(&bucket), [row("0001-01-01", "x", 1)].into());
}

#[test]
fn a_key_is_found_under_either_name_and_a_file_without_it_is_refused() {
    let bucket = Arc::new(MemoryObjects::default());
    put(
        &bucket,
        "datasets/books/dt=2026-02-06/a.parquet",
        old_file(&[("x", 1)], ["_key_book_id", "_key_shelf_id"]),
    );
    assert_eq!(migrate(&bucket).unwrap().files, 1);
    assert_eq!(rows(&bucket), [row("2026-02-06", "x", 1)].into());
    put(&bucket, "datasets/books/dt=2026-02-06/b.parquet", old_file(&[("x", 1)], ["other", "_key_shelf_id"]));
    let error = migrate(&bucket).unwrap_err();
    assert!(error.to_string().contains("_key_book_id") && error.to_string().contains("b.parquet"), "{error}");
}
