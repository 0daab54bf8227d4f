use afterwrite::table::Model;

use super::*;

const MODEL: &str = r##"
name = "library"
generation = 1
[tables.library]
key = ["pk", "sk"]
[entities.book]
key = { pk = "SHELF#{shelf_id}", sk = "BOOK#{book_id}" }
[entities.loan]
key = { pk = "LOAN#{loan_id}", sk = "LOAN" }
on_expiry = "subtract"
[datasets.books]
of = "book"
partition = "bought_at:day"
days = ["2020-01-01", "2030-12-31"]
[datasets.books.columns]
book_id = "string"
order = "int64"
price = "decimal(10,2)"
weight = "double"
sold = "boolean"
bought_at = "timestamp"
printed_on = "date"
cover = "binary"
notes = "json"
languages = "list<string>"
prices = "map<decimal(10,2)>"
size = "struct<outerWidth:double,Order:int64,parts:list<struct<name:string>>>"
[datasets.loans]
of = "loan"
partition = "lent_at:day"
columns = { loan_id = "string" }
[queries.books_by_day]
about = """
How many books were bought,
by day"""
sql = "SELECT dt, count(*) AS books FROM books GROUP BY dt ORDER BY dt"
"##;

fn model() -> Model {
    Model::parse(MODEL, "library.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn the_table_declares_every_column_with_its_hive_type_and_projects_the_days() {
    let model = model();
    let expected = "CREATE EXTERNAL TABLE IF NOT EXISTS `books_log` (
  `book_id` string,
  `order` bigint,
  `price` decimal(10,2),
  `weight` double,
  `sold` boolean,
  `bought_at` timestamp,
  `printed_on` date,
  `cover` binary,
  `notes` string,
  `languages` array<string>,
  `prices` map<string,decimal(10,2)>,
  `size` struct<outerwidth:double,`order`:bigint,parts:array<struct<name:string>>>,
  `_key_shelf_id` string,
  `_position` string,
  `_operation` string,
  `_changed_at` timestamp,
  `_rescued` string,
  `_generation` bigint
)
PARTITIONED BY (`dt` string)
ROW FORMAT SERDE 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe'
STORED AS INPUTFORMAT 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat'
OUTPUTFORMAT 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat'
LOCATION 's3://${bucket}/datasets/books/'
TBLPROPERTIES (
  'projection.enabled' = 'true',
  'projection.dt.type' = 'date',
  'projection.dt.format' = 'yyyy-MM-dd',
  'projection.dt.range' = '0001-01-01,2030-12-31',
  'projection.dt.interval' = '1',
  'projection.dt.interval.unit' = 'DAYS',
  'storage.location.template' = 's3://${bucket}/datasets/books/dt=${dt}/'
)";
    assert_eq!(create_table(&model.datasets[0]), expected);
}

#[test]
fn the_view_identifies_items_by_their_whole_key_and_shows_the_models_columns() {
    let model = model();
    let view = create_view(&model, &model.datasets[0]);
    assert!(
        view.starts_with("CREATE OR REPLACE VIEW \"books\" AS\nSELECT\n  \"book_id\",\n  \"order\",\n"),
        "{view}"
    );
    assert!(
        view.contains("  \"size\",\n  \"dt\",\n  \"_operation\",\n  \"_changed_at\",\n  \"_rescued\"\nFROM"),
        "{view}"
    );
    assert_eq!(view.matches("PARTITION BY \"dt\", \"_key_shelf_id\", \"book_id\"").count(), 2, "{view}");
    assert!(view.contains("\"dt\" = '0001-01-01' OR \"dt\" BETWEEN '2020-01-01' AND '2030-12-31'"), "{view}");
}

#[test]
fn the_model_decides_whether_the_view_shows_expired_items() {
    let model = model();
    let condition =
        |dataset: usize| create_view(&model, &model.datasets[dataset]).lines().last().map(str::to_owned);
    assert_eq!(condition(0).unwrap(), r#"WHERE "_newest" = 1 AND "_operation" NOT IN ('REMOVE')"#);
    assert_eq!(condition(1).unwrap(), r#"WHERE "_newest" = 1 AND "_operation" NOT IN ('REMOVE', 'EXPIRE')"#);
}

#[test]
fn tables_come_before_views_and_views_before_queries() {
    let statements = statements(&model());
    let paths: Vec<String> = statements.iter().map(|statement| statement.path.clone()).collect();
    let expected = [
        "tables/books_log.sql",
        "tables/loans_log.sql",
        "views/books.sql",
        "views/loans.sql",
        "queries/books_by_day.sql",
    ];
    assert_eq!(paths, expected);
    let query = statements.last().map(CatalogueStatement::file).unwrap();
    assert!(query.starts_with("/* How many books were bought,\nby day */\nSELECT dt, "), "{query}");
    assert!(statements.iter().all(|statement| !statement.sql.contains(';')));
}
