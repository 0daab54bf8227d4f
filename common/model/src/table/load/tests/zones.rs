//! Formats whose zone each item states.

use crate::table::{Model, ModelNotation, ProblemCode};

/// A model with these lines in its aggregate, and behind it.
fn source(aggregate: &str, rest: &str) -> String {
    format!(
        r##"
        name = "test"
        generation = 1
        tables.t.key = ["pk"]
        [entities.order]
        key = {{ pk = "ORDER#{{id}}" }}
        attributes = {{ at = "S", tz = "S", city = "S", total = "N", lines = "L" }}
        [entities.city]
        key = {{ pk = "CITY#{{city}}" }}
        attributes = {{ zone = "S" }}
        [lookups.city]
        of = "city"
        gives = ["zone"]
        [rollups.day]
        key = {{ PK = "DAY#{{at:day@zone}}", SK = "ROLLUP" }}
        [[aggregates]]
        name = "orders"
        of = "order"
        into = "day"
        measures.orders = "count"
        {aggregate}
        {rest}
        "##
    )
}

/// The terms of the aggregate, its rollup's key and the model's fingerprint.
fn used(aggregate: &str) -> (Vec<String>, String, String) {
    let model = Model::parse(&source(aggregate, ""), "t.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let aggregate = &model.aggregates[0];
    let notation = ModelNotation::of(&model, aggregate.of, &aggregate.lookups);
    let mut names = Vec::new();
    aggregate.each_term(&mut |term| names.push(notation.term(term)));
    (names, notation.template(&aggregate.into[0].partition), model.fingerprint().to_string())
}

#[test]
fn the_zone_of_an_item_is_a_value_like_any_other() {
    let (names, key, looked_up) = used("lookup = \"city\"");
    assert_eq!((names, &*key), (["city", "at", "zone"].map(String::from).to_vec(), "DAY#{at:day@zone}"));
    let (names, key, of_item) = used("bind.zone = \"tz\"");
    assert_eq!((names, &*key), (["at", "tz"].map(String::from).to_vec(), "DAY#{at:day@tz}"));
    assert_ne!(of_item, looked_up);
    let (_, _, optional) = used("bind.zone = \"tz\"\noptional = \"tz\"");
    assert_ne!(optional, of_item);
    let elements =
        "for_each.line = \"lines\"\nat_most = 9\nbind = { at = \"line.at\", zone = \"line.zone\" }";
    assert_eq!(used(elements).0, ["lines", "line.at", "line.zone"]);
}

/// Whether the model has this problem, and the message contains this text.
#[track_caller]
fn assert_problem((aggregate, rest): (&str, &str), code: ProblemCode, problem: &str) {
    let report = Model::check(&source(aggregate, rest), "t.toml");
    let mut problems = report.problems.iter();
    let is_found = problems.any(|found| found.code == code && found.message.contains(problem));
    assert!(is_found, "{problem}: {:?}", report.problems);
}

#[test]
fn a_zone_that_cannot_be_read_is_refused() {
    let neither = "`at:day@zone`: `zone` is neither a time zone nor a name of `order`";
    assert_problem(("", ""), ProblemCode::UnknownTimeZone, neither);
    let number = "`total` is a number, and the zone of a format is text";
    assert_problem(("bind.zone = \"total\"", ""), ProblemCode::UnfitZone, number);
    let variable = "`zones` is not a variable of the key";
    assert_problem(("bind.zones = \"tz\"", ""), ProblemCode::UnfitBinding, variable);
    let visit = "[entities.visit]\nkey = { pk = \"VISIT#{at:day@tz}\" }";
    let key = "`tz` is not a time zone, and the key of an item is read before its values";
    assert_problem(("bind.zone = \"tz\"", visit), ProblemCode::UnfitZone, key);
}

#[test]
fn the_partition_of_a_dataset_has_a_zone_of_the_item_itself() {
    let dataset = |lookup: &str, partition: &str| {
        format!(
            "[datasets.orders]\nof = \"order\"\n{lookup}\npartition = \"{partition}\"\ncolumns.tz = \"string\""
        )
    };
    let of_item = source("bind.zone = \"tz\"", &dataset("", "at:day@tz"));
    let model = Model::parse(&of_item, "t.toml").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(model.datasets[0].partition_terms().count(), 2);
    let looked_up = dataset("lookup = \"city\"", "at:day@zone");
    let problem = "the partition of a row does not depend on lookups";
    assert_problem(("bind.zone = \"tz\"", &looked_up), ProblemCode::UnfitZone, problem);
    let unknown = dataset("", "at:day@zome");
    let problem = "`zome` is neither a time zone nor a name of `order`";
    assert_problem(("bind.zone = \"tz\"", &unknown), ProblemCode::UnknownTimeZone, problem);
}

/// The months that two aggregates fill: one counts the days, whose zone each item states, and one the orders.
fn months(key: &str, of_days: &str, of_orders: &str) -> Vec<String> {
    let rest = format!(
        r##"
        [rollups.month]
        key = {{ PK = "MONTH#{{{key}}}", SK = "ROLLUP" }}
        [[aggregates]]
        name = "months"
        of = "day"
        into = "month"
        measures.orders = {{ sum = "orders" }}
        {of_days}
        [[aggregates]]
        name = "cities"
        of = "order"
        into = "month"
        measures.cities = {{ distinct = "city" }}
        {of_orders}
        "##
    );
    let report = Model::check(&source("lookup = \"city\"", &rest), "t.toml");
    let errors: Vec<_> = report.problems.iter().filter(|found| found.code.code() < "AW100").collect();
    assert!(errors.is_empty(), "{errors:?}");
    let mixed = report.problems.iter().filter(|found| found.code == ProblemCode::MixedZones);
    mixed.map(|found| found.message.clone()).collect()
}

#[test]
fn one_part_of_a_key_in_two_zones_is_reported_through_rollups_of_rollups() {
    let mixed = months("at:month", "", "");
    let [problem] = mixed.as_slice() else { panic!("{mixed:?}") };
    let zones = "`{at:month}` is in the zone of each item where aggregate `months` counts, and in UTC where";
    assert!(problem.contains("rollup `month`") && problem.contains(zones), "{problem}");
    let named = months("month", "bind.month = \"at:month\"", "bind.month = \"at:month@Asia/Tokyo\"");
    assert!(named[0].contains("and in `Asia/Tokyo` where"), "{named:?}");
    let recipe =
        months("month", "bind.month = \"at:month\"", "lookup = \"city\"\nbind.month = \"at:month@zone\"");
    assert_eq!(recipe, [""; 0]);
}

#[test]
fn a_format_in_the_zone_of_each_item_names_the_way_for_a_rollup() {
    let rest = r##"
        [rollups.month]
        key = { PK = "MONTH#{at:month@zone}", SK = "ROLLUP" }
        [[aggregates]]
        name = "months"
        of = "day"
        into = "month"
        measures.orders = { sum = "orders" }
        "##;
    let problem = "write a variable without a format in the key, and fill it with `bind` from its `month`";
    assert_problem(("lookup = \"city\"", rest), ProblemCode::FormatTooFine, problem);
}
