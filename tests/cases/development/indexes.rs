//! Indexes that the application needs, as the model declares them.

use afterwrite_model::table::{KeyType, Model};

use afterwrite_tests::development::SHOP;

fn with(declared: &str) -> String {
    SHOP.replacen("[entities.order]", &format!("{declared}\n[entities.order]"), 1)
}

fn problem(declared: &str) -> String {
    Model::parse(&with(declared), "model.toml").expect_err("a problem").to_string()
}

#[test]
fn i2_an_index_is_declared_with_types_and_does_not_decide_how_items_are_counted() {
    let plain = Model::parse(SHOP, "model.toml").unwrap();
    let declared = "[tables.Corner.indexes.ByPrice]\nkey = [\"SK\", \"price\"]\ntypes = { price = \"N\" }";
    let model = Model::parse(&with(declared), "model.toml").unwrap();
    let index = &model.tables[0].indexes[0];
    assert_eq!((&*index.name, index.key_text().as_str()), ("ByPrice", "SK (S), price (N)"));
    assert_eq!(index.sort.first().map(|key| key.key_type), Some(KeyType::Number));
    assert_eq!(model.fingerprint(), plain.fingerprint());
    let described = model.describe();
    assert_eq!(described.indexes.get("Corner.ByPrice").map(String::as_str), Some("SK (S), price (N)"));
    assert_eq!(described.tables, plain.describe().tables);
}

#[test]
fn i2_a_wrong_index_is_reported_where_it_is_declared() {
    for (declared, wanted) in [
        ("tables.Corner.indexes.A.key = [\"a\", \"b\", \"c\"]", "index `A`"),
        (
            "tables.Corner.indexes.A = { key = [\"a\"], types = { b = \"N\" } }",
            "not a key attribute of this index",
        ),
        ("tables.Corner.indexes.A = { key = [\"PK\"], types = { PK = \"N\" } }", "an attribute has one type"),
        ("tables.Corner.indexes.A = { keys = [\"PK\"] }", "`keys`"),
        ("tables.Corner.indexes.A = 7", "index `A`"),
    ] {
        // Inline keys of a table that has its own section.
        let section =
            format!("[tables.Corner.indexes]\n{}", declared.replacen("tables.Corner.indexes.", "", 1));
        let found = problem(&section);
        assert!(found.contains(wanted), "{declared}\n{found}");
    }
}

#[test]
fn i2_a_lookup_uses_a_declared_index_with_its_attributes() {
    let lookup = |attribute: &str| {
        format!(
            "[tables.Corner.indexes.GSI1]\nkey = [\"owner\"]\n[lookups.owner]\nof = \"order\"\nindex = \"GSI1\"\nkey = {{ {attribute} = \"ORDER#{{order_id}}\" }}\ngives = [\"customer_id\"]"
        )
    };
    assert!(problem(&lookup("GSI1PK")).contains("is declared on owner (S)"));
    Model::parse(&with(&lookup("owner")), "model.toml").unwrap();
}
