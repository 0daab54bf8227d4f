use super::*;
use crate::entity::SourceKey;
use crate::record::{AttributeValue, Item, RecordDecoder};
use crate::table::Model;

const MODEL: &str = r##"
name = "library"
generation = 1
[tables.library]
key = ["pk", "sk"]
[entities.book]
key = { pk = "SHELF#{shelf_id}", sk = "BOOK#{book_id}" }
attributes = { price = "N" }
[datasets.books]
of = "book"
partition = "bought_at:day"
columns = { book_id = "string", price = "int64" }
"##;

/// `day OPERATION price`, for each row of each dataset.
fn rows_of(change: &str) -> Vec<String> {
    try_rows_of(MODEL, change).unwrap()
}

fn try_rows_of(model: &str, change: &str) -> Result<Vec<String>> {
    let model = Model::parse(model, "library.toml").unwrap();
    let line = format!(
        r#"{{"eventID":"1","eventSourceARN":"arn:aws:dynamodb:eu-west-1:1:table/library/stream/2026-01-01T00:00:00.000",{change}}}"#
    );
    let record = RecordDecoder::new(&model.row_attributes).record(line.as_bytes()).unwrap();
    let source = SourceKey::of_keys(&model, 0, &record.keys).unwrap();
    let candidates = source.candidates(&model);
    let old = decode_old_image(&candidates, &record)?;
    let images = RecordImages { new: record.new.as_ref(), old: old.as_ref() };
    let mut all = Vec::new();
    for dataset in &model.datasets {
        let price = dataset.columns.iter().find(|column| &*column.name == "price").unwrap();
        for row in rows(dataset, &candidates, &record, images) {
            let price = match row.value(&price.from) {
                Some(Operand::Value(value)) => format!("{value:?}"),
                other => format!("{other:?}"),
            };
            all.push(format!("{} {} {price}", row.day, row.operation.name()));
        }
    }
    Ok(all)
}

fn change(event: &str, images: &str) -> String {
    format!(
        r#""eventName":"{event}","dynamodb":{{"Keys":{{"pk":{{"S":"SHELF#1"}},"sk":{{"S":"BOOK#1"}}}},{images}"SequenceNumber":"100"}}"#
    )
}

fn image(bought_at: &str, price: &str) -> String {
    format!(r#"{{"bought_at":{bought_at},"price":{price}}}"#)
}

#[test]
fn a_row_has_the_values_of_its_image() {
    let (first, second) = (
        image(r#"{"S":"2026-02-06T23:00:00Z"}"#, r#"{"N":"5"}"#),
        image(r#"{"S":"2026-02-06"}"#, r#"{"S":"?"}"#),
    );
    assert_eq!(
        rows_of(&change("INSERT", &format!(r#""NewImage":{first},"#))),
        ["2026-02-06 INSERT N(Decimal(Integer(5)))"]
    );
    assert_eq!(
        rows_of(&change("MODIFY", &format!(r#""NewImage":{second},"OldImage":{first},"#))),
        [r#"2026-02-06 MODIFY S("?")"#],
        "the column decides whether a value of another type fits"
    );
    assert_eq!(
        rows_of(&change("REMOVE", &format!(r#""OldImage":{first},"#))),
        ["2026-02-06 REMOVE N(Decimal(Integer(5)))"]
    );
    let expired = r#""userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"},"#;
    assert_eq!(
        rows_of(&format!("{expired}{}", change("REMOVE", &format!(r#""OldImage":{first},"#)))),
        ["2026-02-06 EXPIRE N(Decimal(Integer(5)))"]
    );
}

#[test]
fn an_item_whose_day_changes_is_removed_from_its_old_day() {
    let old = image(r#"{"N":"1770388200.5"}"#, r#"{"N":"5"}"#);
    let new = image(r#"{"S":"2026-03-01"}"#, r#"{"N":"6"}"#);
    assert_eq!(
        rows_of(&change("MODIFY", &format!(r#""NewImage":{new},"OldImage":{old},"#))),
        ["2026-03-01 MODIFY N(Decimal(Integer(6)))", "2026-02-06 REMOVE N(Decimal(Integer(5)))"]
    );
}

#[test]
fn an_old_image_is_decoded_only_if_a_row_is_made_of_it() {
    let (same, other) = (r#"{"S":"2026-02-06"}"#, r#"{"S":"2026-02-07"}"#);
    let change = |old: &str| {
        let (new, old) = (image(same, r#"{"N":"6"}"#), image(old, r#"{"N":"no number"}"#));
        change("MODIFY", &format!(r#""NewImage":{new},"OldImage":{old},"#))
    };
    assert_eq!(rows_of(&change(same)), ["2026-02-06 MODIFY N(Decimal(Integer(6)))"]);
    assert_eq!(try_rows_of(MODEL, &change(other)).unwrap_err().kind(), crate::ErrorKind::Record);
}

#[test]
fn an_item_that_does_not_meet_the_condition_of_a_dataset_has_no_row_there() {
    let model = MODEL.replace("partition =", "when.price = [5]\npartition =");
    let of = |price: &str| image(r#"{"S":"2026-02-06"}"#, &format!(r#"{{"N":"{price}"}}"#));
    let inserted = |price: &str| change("INSERT", &format!(r#""NewImage":{},"#, of(price)));
    let modified = |old: &str, new: &str| {
        change("MODIFY", &format!(r#""NewImage":{},"OldImage":{},"#, of(new), of(old)))
    };
    for (change, row) in [
        (inserted("5"), Some("2026-02-06 INSERT N(Decimal(Integer(5)))")),
        (inserted("6"), None),
        (modified("5", "6"), Some("2026-02-06 REMOVE N(Decimal(Integer(5)))")),
        (modified("6", "5"), Some("2026-02-06 MODIFY N(Decimal(Integer(5)))")),
    ] {
        assert_eq!(try_rows_of(&model, &change).unwrap(), row.into_iter().collect::<Vec<_>>());
    }

    let model = Model::parse(&model, "library.toml").unwrap();
    let source = SourceKey { table: 0, partition: "SHELF#1".into(), sort: Some("BOOK#1".into()) };
    let candidates = source.candidates(&model);
    for (price, has_row) in [(5, true), (6, false)] {
        let item = Item::from([("price".into(), AttributeValue::N(price.into()))]);
        let image = Image::from_item(&item, &model.row_attributes);
        let row = snapshot_row(&model.datasets[0], &candidates, &image);
        assert_eq!(row.map(|row| row.operation.name()), has_row.then_some("SNAPSHOT"));
    }
}

#[test]
fn only_the_dataset_whose_day_changes_has_a_removal() {
    let second = r#"attributes = { price = "N" }
[datasets.outputs]
of = "book"
partition = "given_at:day"
columns = { book_id = "string", price = "int64" }"#;
    let model = MODEL.replace(r#"attributes = { price = "N" }"#, second);
    let image_given_at = |given_at: &str| {
        image(r#"{"S":"2026-02-06"},"given_at":{"S":"GIVEN"}"#, r#"{"N":"5"}"#).replace("GIVEN", given_at)
    };
    let images = format!(
        r#""NewImage":{},"OldImage":{},"#,
        image_given_at("2026-03-01"),
        image_given_at("2026-03-02")
    );
    let mut rows = try_rows_of(&model, &change("MODIFY", &images)).unwrap();
    rows.sort();
    let expected = ["2026-02-06 MODIFY", "2026-03-01 MODIFY", "2026-03-02 REMOVE"];
    assert_eq!(rows, expected.map(|row| format!("{row} N(Decimal(Integer(5)))")));
}

#[test]
fn a_day_may_be_derived_from_several_attributes() {
    let derived = r#"attributes = { price = "N", bought_at = "S", given_at = "S" }
derive.begun = { first = ["bought_at", "given_at"] }"#;
    let model =
        MODEL.replace("bought_at:day", "begun:day").replace(r#"attributes = { price = "N" }"#, derived);
    for absent in ["", r#""bought_at":{"NULL":true},"#] {
        let images = format!(
            r#""NewImage":{{"bought_at":{{"S":"2026-02-06"}},"price":{{"N":"5"}}}},"OldImage":{{{absent}"given_at":{{"S":"2026-02-07"}},"price":{{"N":"6"}}}},"#
        );
        assert_eq!(
            try_rows_of(&model, &change("MODIFY", &images)).unwrap(),
            ["2026-02-06 MODIFY N(Decimal(Integer(5)))", "2026-02-07 REMOVE N(Decimal(Integer(6)))"]
        );
    }
}

#[test]
fn items_without_a_valid_day_have_their_own_partition() {
    for no_day in [
        r#"{"S":"../2026"}"#,
        r#"{"S":"yesterday"}"#,
        r#"{"BOOL":true}"#,
        r#"{"NULL":true}"#,
        r#"{"N":"99999999999999999999"}"#,
    ] {
        let new = image(no_day, r#"{"N":"5"}"#);
        assert_eq!(
            rows_of(&change("INSERT", &format!(r#""NewImage":{new},"#))),
            ["0001-01-01 INSERT N(Decimal(Integer(5)))"],
            "{no_day}"
        );
    }
    assert_eq!(rows_of(&change("REMOVE", "")), ["0001-01-01 REMOVE None"], "there is no old image");
}

#[test]
fn a_day_in_a_key_must_be_a_day_of_the_calendar() {
    let model = MODEL.replace("BOOK#{book_id}", "BOOK#{bought_at:day}#{book_id}");
    for (day, lies_in) in [
        ("2026-02-06", "2026-02-06"),
        ("2026-02-30", "0001-01-01"),
        ("2026-99-99", "0001-01-01"),
        ("2031-01-01", "2031-01-01"),
        ("0001-01-01", "0001-01-01"),
    ] {
        let images = r#""NewImage":{"price":{"N":"5"}},"#;
        let change = change("INSERT", images).replace("BOOK#1", &format!("BOOK#{day}#1"));
        let rows = try_rows_of(&model, &change).unwrap();
        assert_eq!(rows, [format!("{lies_in} INSERT N(Decimal(Integer(5)))")], "{day}");
    }
}
