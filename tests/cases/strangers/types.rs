//! F3. Types of columns as Athena writes them.

use afterwrite_model::table::{ColumnType, Model};

/// The problem of a column of this type; `None` if there is none.
fn problem(column_type: &str) -> Option<String> {
    let model = format!(
        "name = \"m\"\ngeneration = 1\ntables.t.key = [\"pk\"]\n[entities.e]\nkey = {{ pk = \"E#{{id}}\" }}\n\
         attributes = {{ at = \"S\", x = \"any\" }}\n[datasets.d]\nof = \"e\"\npartition = \"at:day\"\n\
         columns = {{ x = \"{column_type}\" }}\n"
    );
    Model::parse(&model, "m.toml").err().map(|errors| errors.to_string())
}

#[test]
fn f3_types_in_the_form_of_athena_are_accepted() {
    for (written, column_type) in [
        ("map<string,string>", "map<string>"),
        ("map<string, list<int64>>", "map<list<int64>>"),
        ("map<string,map<string,decimal(10)>>", "map<map<decimal(10,0)>>"),
        ("decimal(10)", "decimal(10,0)"),
        ("decimal( 38 )", "decimal(38,0)"),
        ("struct<_id:string>", "struct<_id:string>"),
        ("struct<`_id`:string,n:int64>", "struct<_id:string,n:int64>"),
        ("list<struct<_id:string,m:map<string,double>>>", "list<struct<_id:string,m:map<double>>>"),
    ] {
        assert_eq!(ColumnType::parse(written), ColumnType::parse(column_type), "{written}");
        assert!(ColumnType::parse(written).is_some(), "{written}");
        assert_eq!(problem(written), None, "{written}");
    }
}

#[test]
fn f3_another_form_is_answered_with_the_one_that_is_accepted() {
    for (written, expected) in [
        ("array<string>", "did you mean `list<string>`?"),
        ("map<varchar,bigint>", "did you mean `map<int64>`?"),
        ("BIGINT", "did you mean `int64`?"),
        ("smallint", "did you mean `int64`?"),
        ("array<struct<code:TINYINT,share:real>>", "did you mean `list<struct<code:int64,share:double>>`?"),
        ("char(3)", "did you mean `string`?"),
        ("varchar(20)", "did you mean `string`?"),
        ("row(sku varchar)", "did you mean `struct`?"),
        ("struct<sku:varchar,price:DECIMAL(10,2)>", "did you mean `struct<sku:string,price:decimal(10,2)>`?"),
        ("map<int64,string>", "write `map<type>` or `map<string,type>`: the keys of a map are texts"),
        ("map<string>>", "write `map<type>`"),
        ("decimal(39)", "p is from 1 to 38 digits"),
        ("decimal", "write `decimal(p,s)`"),
        ("decimal(2,3)", "s of them after the point"),
        ("struct<1st:string>", "begins with no digit"),
        ("struct<a-b:string>", "write `struct<name:type,…>`"),
        ("string(20)", "this type has no arguments"),
        ("list", "write `list<type>`"),
    ] {
        let problem = problem(written).unwrap_or_default();
        assert!(problem.contains(expected), "{written}: {problem}");
    }
}
