//! Times of every form, and names of every style.

use serde_json::{Value, json};

use super::generated::{expect_lines, model_of};

/// Items with an attribute, which some have with another value.
fn with(name: &str, values: &[Value]) -> Vec<Value> {
    let item = |index: usize| {
        let mut item = json!({ "PK": format!("THING#{index}"), "SK": "THING" });
        item[name] = values[index % values.len()].clone();
        item
    };
    (0..20).map(item).collect()
}

#[test]
fn every_form_of_time_is_recognized() {
    for (text, comment) in [
        ("2026-02-06T14:30:00Z", "  # ISO 8601"),
        ("2026-02-06T14:30:00+01:00", "  # ISO 8601"),
        ("2026-02-06", "  # ISO 8601"),
        ("2026-02-06 14:30:00", "  # ISO 8601 without a zone, read as UTC"),
        ("1770388200", "  # seconds since 1970"),
        ("1770388200123", "  # milliseconds since 1970"),
        ("1770388200123456", "  # microseconds since 1970"),
        ("01KGRPB8K0ABCDEFGHJKMNPQRS", "  # ULID"),
        ("1VrEOxq4FLyPMjsL7EDLfmLlYLz", "  # KSUID"),
        ("019c3167-3a00-7abc-8def-0123456789ab", "  # UUIDV7"),
        ("7c9e6679-7425-40de-944b-e07fc1f90ae7", ""),
        ("42", ""),
        ("yesterday", ""),
        ("abcdefghijklmnopqrstuvwxyz", ""),
    ] {
        expect_lines(
            &model_of(&with("createdAt", &[json!(text)])),
            &[&format!("createdAt = \"S\"{comment}")],
        );
    }
    let mixed = [json!("2026-02-06T14:30:00Z"), json!("2026-02-06T14:30:00")];
    let line = "createdAt = \"S\"  # ISO 8601 without a zone, read as UTC";
    expect_lines(&model_of(&with("createdAt", &mixed)), &[line]);
}

#[test]
fn a_number_is_a_time_only_if_its_name_is_one_of_a_time() {
    let (seconds, comment) = (json!(1_770_388_200), "  # seconds since 1970");
    for (name, comment) in [("createdAt", comment), ("placed", comment), ("balance", "")] {
        let toml = model_of(&with(name, std::slice::from_ref(&seconds)));
        expect_lines(&toml, &[&format!("{name} = \"N\"{comment}")]);
    }
    let toml = model_of(&with("createdAt", &[seconds, json!("never")]));
    expect_lines(&toml, &["createdAt = \"any\"  # values of several types"]);
}

#[test]
fn names_are_written_in_lower_case() {
    for (written, name) in [("OrderItem", "order_item"), ("ORDER-ITEM", "order_item"), ("Größe", "gr_e")] {
        let toml = model_of(&with("EntityType", &[json!(written)]));
        expect_lines(&toml, &[&format!("[entities.{name}]")]);
    }
}
