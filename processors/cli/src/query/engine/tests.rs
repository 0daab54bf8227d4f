//! The exact view, over Parquet files that were written one by one.

use std::fs::{File, create_dir_all, metadata, read, write};
use std::path::Path;

use afterwrite_datasets::schema::arrow_schema;
use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMillisecondArray};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::parquet::arrow::ArrowWriter;

use super::*;
use afterwrite_local::s3::EmbeddedS3;

const MODEL: &str = r##"
name = "library"
generation = 1
[tables.library]
key = ["pk", "sk"]
[entities.book]
key = { pk = "SHELF#{shelf_id}", sk = "BOOK#{book_id}" }
[entities.loan]
key = { pk = "LOAN#{shelf_id}", sk = "BOOK#{book_id}" }
on_expiry = "subtract"
[datasets.books]
of = "book"
partition = "bought_at:day"
columns = { book_id = "string", price = "int64", order = "int64" }
[datasets.loans]
of = "loan"
partition = "lent_at:day"
columns = { book_id = "string", price = "int64", order = "int64" }
"##;

/// The book, what was done, its position, the minute it was done in, and the price that the row holds.
type Row = (&'static str, &'static str, u32, Option<i64>, i64);

/// A folder like the bucket.
struct Written {
    folder: tempfile::TempDir,
    model: Model,
}

impl Written {
    fn nothing() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), model: Model::parse(MODEL, "library.toml").unwrap() }
    }

    /// Writes a file of a partition of a log: `books/dt=2026-02-06/1`.
    fn file(self, place: &str, rows: &[Row]) -> Self {
        self.file_without(place, &[], rows)
    }

    /// The same as an older exporter would, which did not know some columns.
    fn file_without(self, place: &str, unknown: &[&str], rows: &[Row]) -> Self {
        let dataset = place.split('/').next().unwrap();
        let dataset = self.model.datasets.iter().find(|known| &*known.name == dataset).unwrap();
        let fields = arrow_schema(dataset);
        let known = fields.fields().iter().filter(|field| !unknown.contains(&field.name().as_str()));
        let columns =
            known.map(|field| (field.name().clone(), column(field.name(), rows), field.is_nullable()));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let path = self.path(place);
        let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        self.commit(place);
        self
    }

    /// Adds a file to its table, as any writer of Delta tables would.
    fn commit(&self, place: &str) {
        let (dataset, path) = place.split_once('/').unwrap();
        let folder = self.folder.path().join(DATASETS).join(format!("{dataset}_log/_delta_log"));
        create_dir_all(&folder).unwrap();
        let version = folder.read_dir().unwrap().count();
        let (day, _) = path.strip_prefix("dt=").unwrap().split_once('/').unwrap();
        let size = metadata(self.path(place)).unwrap().len();
        let protocol = r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}
{"metaData":{"id":"1","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[]}","partitionColumns":["dt"],"configuration":{}}}
"#;
        let begin = if version == 0 { protocol } else { "" };
        let add = format!(
            r#"{begin}{{"add":{{"path":"{path}.parquet","partitionValues":{{"dt":"{day}"}},"size":{size},"modificationTime":0,"dataChange":true}}}}"#
        );
        write(folder.join(format!("{version:020}.json")), add).unwrap();
    }

    fn path(&self, place: &str) -> std::path::PathBuf {
        let (dataset, path) = place.split_once('/').unwrap();
        let path = self.folder.path().join(DATASETS).join(format!("{dataset}_log/{path}.parquet"));
        create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    /// The rows of the result, with fields joined by a blank.
    async fn queried(&self, sql: &str) -> Vec<String> {
        let engine =
            Engine::open(&self.model, &Place::Folder(self.folder.path().to_path_buf())).await.unwrap();
        rows(&engine.query(sql).await.unwrap_or_else(|error| panic!("{error}")))
    }

    async fn books(&self) -> Vec<String> {
        self.queried(r#"SELECT book_id, price FROM books_now ORDER BY book_id, price"#).await
    }
}

fn column(name: &str, rows: &[Row]) -> ArrayRef {
    let text =
        |of: fn(&Row) -> String| Arc::new(StringArray::from_iter_values(rows.iter().map(of))) as ArrayRef;
    match name {
        "book_id" => text(|row| row.0.to_owned()),
        "_key_book_id" => text(|row| row.0.to_owned()),
        "_key_shelf_id" => text(|_| "shelf".to_owned()),
        "_operation" => text(|row| row.1.to_owned()),
        "_position" => text(|row| format!("2026-02-01T00:00:00.000#{:040}", row.2)),
        "_changed_at" => {
            let times = rows.iter().map(|row| row.3.map(|minute| minute * 60_000));
            Arc::new(times.collect::<TimestampMillisecondArray>().with_timezone("UTC"))
        }
        "_rescued" => Arc::new(StringArray::new_null(rows.len())),
        "_generation" => Arc::new(Int64Array::from_value(1, rows.len())),
        _ => Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.4))),
    }
}

const BUCKET: &str = "lake";

/// An S3 with the folder's files in a bucket.
async fn served(folder: &Path) -> EmbeddedS3 {
    let server = EmbeddedS3::start().await.unwrap();
    server.create_bucket(BUCKET).await.unwrap();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in next.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            let key = entry.strip_prefix(folder).unwrap().to_str().unwrap();
            let body = aws_sdk_s3::primitives::ByteStream::from(read(&entry).unwrap());
            Box::pin(server.client().put_object().bucket(BUCKET).key(key).body(body).send()).await.unwrap();
        }
    }
    server
}

fn rows(result: &QueryResult) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in &result.batches {
        for row in 0..batch.num_rows() {
            let fields = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            rows.push(fields.collect::<Vec<_>>().join(" "));
        }
    }
    rows
}

#[tokio::test]
async fn an_item_is_there_once_as_its_greatest_position_left_it() {
    let first = ("a", "INSERT", 1, Some(1), 10);
    let second = ("a", "MODIFY", 2, Some(1), 20);
    let written = Written::nothing()
        .file("books/dt=2026-02-06/1", &[second, first, first])
        .file("books/dt=2026-02-06/2", &[first, ("b", "INSERT", 3, Some(2), 30)])
        .file("books/dt=2026-02-07/1", &[("c", "INSERT", 4, None, 40)]);
    assert_eq!(written.books().await, ["a 20", "b 30", "c 40"]);
    assert_eq!(written.queried("SELECT count(*) FROM books_log").await, ["6"]);
}

#[tokio::test]
async fn what_is_removed_stays_removed_whatever_comes_late() {
    let inserted = ("a", "INSERT", 1, Some(1), 10);
    let written = Written::nothing()
        .file("books/dt=2026-02-06/1", &[inserted, ("a", "REMOVE", 2, Some(2), 10)])
        .file("books/dt=2026-02-06/2", &[inserted]);
    assert!(written.books().await.is_empty());
    let written = written.file("books/dt=2026-02-06/3", &[("a", "INSERT", 3, Some(3), 11)]);
    assert_eq!(written.books().await, ["a 11"], "a later life of the key");
}

#[tokio::test]
async fn an_item_that_changed_its_day_is_where_it_went() {
    let written = Written::nothing()
        .file("books/dt=2026-02-06/1", &[("a", "INSERT", 1, Some(1), 10), ("a", "REMOVE", 2, Some(2), 10)])
        .file("books/dt=0001-01-01/1", &[("a", "MODIFY", 2, Some(2), 20)]);
    assert_eq!(written.queried("SELECT dt, price FROM books_now").await, ["0001-01-01 20"]);
}

#[tokio::test]
async fn a_reading_wins_over_what_is_more_than_fifteen_minutes_older() {
    let read = ("a", "SNAPSHOT", 0, Some(100), 1);
    for (row, newest) in [
        (("a", "MODIFY", 7, Some(85), 2), "a 1"),
        (("a", "MODIFY", 7, Some(86), 2), "a 2"),
        (("a", "MODIFY", 7, Some(200), 2), "a 2"),
        (("a", "MODIFY", 7, None, 2), "a 2"),
        (("a", "SNAPSHOT", 0, Some(99), 2), "a 1"),
        (("a", "SNAPSHOT", 0, Some(101), 2), "a 2"),
    ] {
        let written = Written::nothing().file("books/dt=2026-02-06/1", &[read, row]);
        assert_eq!(written.books().await, [newest], "{row:?}");
    }
}

#[tokio::test]
async fn the_newest_reading_decides_and_among_what_beats_it_the_position() {
    let rows = [
        ("a", "SNAPSHOT", 0, Some(10), 1),
        ("a", "MODIFY", 8, Some(20), 2),
        ("a", "SNAPSHOT", 0, Some(100), 3),
        ("a", "MODIFY", 9, Some(90), 4),
        ("a", "MODIFY", 10, Some(88), 5),
        ("b", "INSERT", 1, Some(50), 6),
        ("b", "REMOVE", 2, Some(51), 6),
        ("b", "SNAPSHOT", 0, Some(100), 7),
        ("c", "SNAPSHOT", 0, Some(100), 8),
        ("c", "REMOVE", 3, Some(99), 8),
    ];
    let written = Written::nothing().file("books/dt=2026-02-06/1", &rows);
    assert_eq!(written.books().await, ["a 5", "b 7"]);
}

#[tokio::test]
async fn an_expired_life_stays_when_the_key_lives_again_and_is_removed() {
    let rows = [
        ("a", "INSERT", 1, Some(1), 10),
        ("a", "EXPIRE", 2, Some(2), 10),
        ("a", "EXPIRE", 2, Some(2), 10),
        ("a", "INSERT", 3, Some(3), 20),
    ];
    let written =
        Written::nothing().file("books/dt=2026-02-06/1", &rows).file("loans/dt=2026-02-06/1", &rows);
    assert_eq!(written.books().await, ["a 10", "a 20"]);
    let removed = [("a", "REMOVE", 4, Some(4), 20)];
    let written = written.file("books/dt=2026-02-06/2", &removed).file("loans/dt=2026-02-06/2", &removed);
    assert_eq!(written.books().await, ["a 10"]);
    assert_eq!(written.queried("SELECT count(*) FROM loans_now").await, ["0"]);
}

#[tokio::test]
async fn files_that_left_the_table_are_not_read() {
    let written = Written::nothing()
        .file("books/dt=2026-02-06/1", &[("a", "INSERT", 1, Some(1), 10)])
        .file("books/dt=2026-02-06/2", &[("b", "INSERT", 2, Some(1), 20)]);
    let commit = written.folder.path().join(DATASETS).join("books_log/_delta_log/00000000000000000002.json");
    write(commit, r#"{"remove":{"path":"dt=2026-02-06/1.parquet","deletionTimestamp":0,"dataChange":true}}"#)
        .unwrap();
    assert_eq!(written.books().await, ["b 20"]);
}

#[tokio::test]
async fn an_expired_item_stays_or_is_removed_as_the_model_declares() {
    let rows = [("a", "INSERT", 1, Some(1), 10), ("a", "EXPIRE", 2, Some(2), 10)];
    let written =
        Written::nothing().file("books/dt=2026-02-06/1", &rows).file("loans/dt=2026-02-06/1", &rows);
    assert_eq!(written.books().await, ["a 10"]);
    assert_eq!(written.queried("SELECT count(*) FROM loans_now").await, ["0"]);
}

#[tokio::test]
async fn a_file_from_before_a_column_was_added_has_nulls_there() {
    let written = Written::nothing()
        .file_without("books/dt=2026-02-06/1", &["order"], &[("a", "INSERT", 1, Some(1), 10)])
        .file("books/dt=2026-02-06/2", &[("b", "INSERT", 2, Some(1), 20)]);
    let orders =
        written.queried(r#"SELECT book_id, coalesce("order", -1) FROM books_now ORDER BY book_id"#).await;
    assert_eq!(orders, ["a -1", "b 20"]);
}

#[tokio::test]
async fn of_a_change_exported_twice_the_row_of_the_latest_generation_counts() {
    for (before, after) in [("1", "2"), ("2", "1")] {
        let (before, after) =
            (format!("books/dt=2026-02-06/{before}"), format!("books/dt=2026-02-06/{after}"));
        let row = |price| [("b1", "INSERT", 1, Some(0), price)];
        let written = Written::nothing().file_without(&before, &["_generation"], &row(10));
        assert_eq!(written.file(&after, &row(5)).books().await, ["b1 5"]);
    }
}

#[tokio::test]
async fn a_condition_on_the_day_spares_reading_other_days() {
    let written = Written::nothing().file("books/dt=2026-02-06/1", &[("a", "INSERT", 1, Some(1), 10)]);
    write(written.path("books/dt=2026-02-07/1"), "not Parquet").unwrap();
    written.commit("books/dt=2026-02-07/1");
    for condition in ["dt = '2026-02-06'", "dt < '2026-02-07'", "dt BETWEEN '2026-02-01' AND '2026-02-06'"] {
        let sql = format!("SELECT price FROM books_now WHERE {condition}");
        assert_eq!(written.queried(&sql).await, ["10"], "{condition}");
    }
    let place = Place::Folder(written.folder.path().to_path_buf());
    let engine = Engine::open(&written.model, &place);
    let error = engine.await.unwrap().query("SELECT price FROM books_now").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::State, "{error}");
}

#[tokio::test]
async fn a_wrong_query_is_rejected_with_the_cause_or_the_available_names() {
    let written = Written::nothing();
    let engine =
        Engine::open(&written.model, &Place::Folder(written.folder.path().to_path_buf())).await.unwrap();
    for (sql, expected) in [
        ("SELECT * FROM bocks", "bocks"),
        ("SELECT * FROM bocks", "books, loans, books_log, loans_log, books_now, loans_now"),
        ("SELECT prize FROM books_now", "prize"),
        ("SELEKT 1", "the query is not valid SQL: Expected: an SQL statement, found: SELEKT"),
        ("SELECT price FROM books WHERE", "the query is not valid SQL: "),
        ("CREATE TABLE other AS SELECT 1", "only queries"),
        ("DROP VIEW books", "only queries"),
        ("SELECT 1; SELECT 2", "statement"),
    ] {
        let error = engine.query(sql).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains(expected), "{sql}: {error}");
        assert!(!error.to_string().contains("ParserError"), "{sql}: {error}");
    }
    let ours = engine.query("WITH mine AS (SELECT 1 AS one) SELECT one FROM mine").await.unwrap();
    assert_eq!(rows(&ours), ["1"], "a name that the query brings itself");
}

#[tokio::test]
async fn every_saved_query_of_every_built_in_model_runs() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::Folder(folder.path().to_path_buf());
    for name in Model::built_in_names() {
        let model = Model::load(name).unwrap();
        let engine = Engine::open(&model, &place).await.unwrap();
        for query in &model.queries {
            let answer = engine.query(&query.sql).await;
            let answer = answer.unwrap_or_else(|error| panic!("{name}, {}: {error}", query.name));
            assert!(rows(&answer).is_empty(), "{name}, {}", query.name);
        }
    }
}

#[tokio::test]
async fn a_bucket_is_queried_like_a_folder() {
    let written = Written::nothing()
        .file("books/dt=2026-02-06/1", &[("a", "INSERT", 1, Some(1), 10)])
        .file("books/dt=2026-02-07/1", &[("a", "INSERT", 2, Some(1), 20), ("b", "INSERT", 3, None, 30)]);
    let server = served(written.folder.path()).await;
    let store = Arc::new(ReadOnlyBucket::over(server.client(), BUCKET));
    let engine = Engine::over(&written.model, store).await.unwrap();
    let answer = engine.query("SELECT dt, book_id, price FROM books_now ORDER BY dt, book_id").await.unwrap();
    assert_eq!(rows(&answer), ["2026-02-06 a 10", "2026-02-07 a 20", "2026-02-07 b 30"]);
    let missing = Arc::new(ReadOnlyBucket::over(server.client(), "nowhere"));
    let Err(error) = Engine::over(&written.model, missing).await else { panic!("there is no such bucket") };
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("AFTERWRITE_BUCKET"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_cut_off_is_an_error_and_not_a_panic() {
    let written = Written::nothing().file("books/dt=2026-02-06/1", &[("a", "INSERT", 1, Some(0), 5)]);
    let path = written.path("books/dt=2026-02-06/1");
    let content = read(&path).unwrap();
    for length in [0, 4, content.len() / 2, content.len() - 1] {
        write(&path, &content[..length]).unwrap();
        let place = Place::Folder(written.folder.path().to_path_buf());
        let sql = "SELECT * FROM books_log";
        let result =
            Box::pin(crate::query::run_query(&written.model, &place, sql, crate::query::Layout::Json));
        let error = result.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::State, "{length} bytes: {error}");
    }
}
