use afterwrite_model::table::Model;

use super::*;

const MODEL: &str = r##"
name = "library"
generation = 1
[tables.library]
key = ["pk", "sk"]
[entities.book]
key = { pk = "SHELF#{shelf_id}", sk = "BOOK#{book_id}" }
attributes = { bought_at = "S" }
[entities.loan]
key = { pk = "LOAN#{loan_id}", sk = "LOAN" }
on_expiry = "subtract"
[datasets.books]
of = "book"
partition = "bought_at:day"
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
[rollups.shelf_day]
key = { PK = "SHELF#{shelf_id}", SK = "DAY#{bought_at:day}" }
expires = { after = "30 days", of = "bought_at" }
[[aggregates]]
name = "shelf_days"
of = "book"
into = "shelf_day"
optional = ["bought_at"]
measures.books = "count"
[datasets.shelf_days]
of = "shelf_day"
partition = "bought_at:day"
columns = { books = "int64" }
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
fn both_tables_are_delta_tables_whose_log_has_the_columns() {
    let model = model();
    let statements = statements(&model);
    let sql = |path: &str| &statements.iter().find(|statement| statement.path == path).unwrap().sql;
    for (name, folder) in [("books", "books"), ("books_log", "books_log")] {
        let expected = format!(
            "CREATE EXTERNAL TABLE IF NOT EXISTS `{name}`
LOCATION 's3://${{bucket}}/datasets/{folder}/'
TBLPROPERTIES ('table_type' = 'DELTA')"
        );
        assert_eq!(sql(&format!("tables/{name}.sql")), &expected);
    }
}

#[test]
fn the_view_identifies_items_by_their_whole_key_and_has_the_columns_of_the_table() {
    let model = model();
    let view = create_view(&model, &model.datasets[0]);
    assert!(
        view.starts_with("CREATE OR REPLACE VIEW \"books_now\" AS\nSELECT\n  \"book_id\",\n  \"order\",\n"),
        "{view}"
    );
    assert!(
        view.contains(
            "  \"_key_book_id\",\n  \"dt\",\n  \"_position\",\n  \"_operation\",\n  \"_changed_at\",\n  \"_rescued\",\n  \"_generation\"\nFROM"
        ),
        "{view}"
    );
    assert_eq!(view.matches("PARTITION BY \"dt\", \"_key_shelf_id\", \"_key_book_id\"").count(), 3, "{view}");
}

#[test]
fn the_model_decides_whether_the_view_shows_expired_items() {
    let model = model();
    let condition =
        |dataset: usize| create_view(&model, &model.datasets[dataset]).lines().last().map(str::to_owned);
    assert_eq!(
        condition(0).unwrap(),
        r#"WHERE "_newest" = 1 AND "_operation" NOT IN ('REMOVE', 'EXPIRE') OR "_copy" = 1 AND "_operation" = 'EXPIRE'"#
    );
    assert_eq!(condition(1).unwrap(), r#"WHERE "_newest" = 1 AND "_operation" NOT IN ('REMOVE', 'EXPIRE')"#);
    assert_eq!(condition(2).unwrap(), r#"WHERE "_newest" = 1 AND "_operation" <> 'REMOVE'"#);
}

#[test]
fn tables_come_before_views_and_views_before_queries() {
    let statements = statements(&model());
    let paths: Vec<String> = statements.iter().map(|statement| statement.path.clone()).collect();
    let expected = [
        "tables/books.sql",
        "tables/books_log.sql",
        "tables/loans.sql",
        "tables/loans_log.sql",
        "tables/shelf_days.sql",
        "tables/shelf_days_log.sql",
        "views/books_now.sql",
        "views/loans_now.sql",
        "views/shelf_days_now.sql",
        "queries/books_by_day.sql",
    ];
    assert_eq!(paths, expected);
    let query = statements.last().map(CatalogueStatement::file).unwrap();
    assert!(query.starts_with("/* How many books were bought,\nby day */\nSELECT dt, "), "{query}");
    assert!(statements.iter().all(|statement| !statement.sql.contains(';')));
}
