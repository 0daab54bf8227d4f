//! The JSON Schema of model files, held to the loader.
//!
//! The keys of the schema are those that the loader lists in its messages. A
//! validator of its own (`jsonschema-rs` of PyPI) reads the models that load, and models that are wrong in one place: the schema
//! refuses no model that the loader accepts, and refuses what is wrong with a key, a type or a word.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use afterwrite_model::table::{Model, ModelProblem, ProblemCode};
use afterwrite_tests::{page, python};
use serde_json::{Value, json};

use super::broken_model::{self, NONSENSE};

const PAGE: &str = include_str!("../../docs/MODEL.md");

fn from_toml(source: &str) -> Value {
    toml::from_str(source).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_list_of_keys_of_the_loader_is_in_the_schema_and_the_other_way_round() {
    let mut of_schema = BTreeSet::new();
    collect_keys(&Model::json_schema(), &mut of_schema);
    let of_loader: BTreeSet<BTreeSet<String>> = broken_model::lists_of_keys(&model())
        .into_iter()
        .map(|keys| keys.into_iter().collect())
        // Functions of derived values and matchers: a table has one of them, and the schema has an object for each.
        .flat_map(|keys: BTreeSet<String>| {
            if of_schema.contains(&keys) {
                vec![keys]
            } else {
                keys.into_iter().map(|key| [key].into()).collect()
            }
        })
        .collect();
    let missing: Vec<_> =
        of_loader.difference(&of_schema).filter(|keys| !is_within(keys, &of_schema)).collect();
    assert!(missing.is_empty(), "keys of the loader that the schema does not have: {missing:?}");
    let all: BTreeSet<&String> = of_loader.iter().flatten().collect();
    let unknown: Vec<_> =
        of_schema.iter().flatten().filter(|key| !all.contains(key) && *key != "$or").collect();
    assert!(unknown.is_empty(), "keys of the schema that the loader does not list: {unknown:?}");
}

/// Whether one key is the beginning of an object that has more: `count` of a measure has a `when`.
fn is_within(keys: &BTreeSet<String>, lists: &BTreeSet<BTreeSet<String>>) -> bool {
    keys.len() == 1 && lists.iter().any(|list| keys.is_subset(list))
}

fn collect_keys(schema: &Value, lists: &mut BTreeSet<BTreeSet<String>>) {
    match schema {
        Value::Object(members) => {
            let properties = members.get("properties").and_then(Value::as_object);
            lists.extend(properties.map(|properties| properties.keys().cloned().collect()));
            members.values().for_each(|value| collect_keys(value, lists));
        }
        Value::Array(all) => all.iter().for_each(|value| collect_keys(value, lists)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The model of the page's examples.
fn model() -> Value {
    from_toml(&page::model(PAGE))
}

#[test]
#[ignore = "needs jsonschema-rs: run tests/run"]
fn every_model_that_loads_satisfies_the_schema() {
    let mut models: Vec<(String, Value)> = vec![("docs/MODEL.md".to_owned(), model())];
    for name in Model::built_in_names() {
        models.push((name.to_owned(), from_toml(Model::built_in(name).expect("a built-in model"))));
    }
    for path in files("fixtures/models", "toml").into_iter().chain(files("fixtures/simulation", "toml")) {
        let source = std::fs::read_to_string(&path).expect("a model");
        if Model::parse(&source, "model.toml").is_ok() {
            models.push((path.display().to_string(), from_toml(&source)));
        }
    }
    assert!(models.len() >= 10, "{} models", models.len());
    let instances: Vec<&Value> = models.iter().map(|(_, model)| model).collect();
    for ((name, _), problem) in models.iter().zip(validate(&instances)) {
        assert_eq!(problem, None, "{name}");
    }
}

#[test]
#[ignore = "needs jsonschema-rs: run tests/run"]
fn the_schema_refuses_what_the_loader_refuses_about_keys_and_types() {
    let whole = model();
    let broken = broken_model::variants(&whole);
    assert!(broken.len() > 2000, "{} variants", broken.len());
    let instances: Vec<&Value> = broken.iter().map(|(_, model)| model).collect();
    let (mut wrong, mut refused) = (Vec::new(), 0);
    for ((change, model), problem) in broken.iter().zip(validate(&instances)) {
        let problems = broken_model::problems(model);
        refused += usize::from(problem.is_some());
        match (&problem, problems.is_empty()) {
            (Some(problem), true) => {
                wrong.push(format!("{change}: it loads, but the schema refuses it: {problem}"))
            }
            (None, false) if problems.iter().any(is_of_form) => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                wrong.push(format!("{change}: the schema accepts it, but not the loader: {problems:?}"));
            }
            (Some(_) | None, _) => {}
        }
    }
    assert!(refused > 1000, "the schema refuses {refused}");
    let count = wrong.len();
    wrong.truncate(40);
    assert!(wrong.is_empty(), "{count} differences:\n{}", wrong.join("\n"));
}

/// Whether a problem is one of a key or a type, which a schema can find. Whether `table` is required depends on the number of tables.
fn is_of_form(problem: &ModelProblem) -> bool {
    !problem.message.contains("the model has several tables")
        && [ProblemCode::UnknownKey, ProblemCode::MissingKey, ProblemCode::WrongType].contains(&problem.code)
}

#[test]
#[ignore = "needs jsonschema-rs: run tests/run"]
fn a_misspelt_key_is_refused_with_its_name() {
    for (place, key, misspelt) in [
        ("", "rollups", "rolups"),
        ("/entities/attempt", "attributes", "atributes"),
        ("/aggregates/0", "measures", "mesures"),
        ("/datasets/attempts", "partition", "partiton"),
        ("/rollups/day/expires", "after", "aftr"),
    ] {
        let mut model = model();
        let object = model.pointer_mut(place).and_then(Value::as_object_mut).expect("an object");
        let value = object.remove(key).expect("the key");
        object.insert(misspelt.to_owned(), value);
        let problem = validate(&[&model]).remove(0).expect("a problem of the schema");
        assert!(problem.contains(misspelt), "{problem}");
        let problems = broken_model::problems(&model);
        assert!(problems.iter().any(|problem| problem.message.contains(misspelt)), "{problems:?}");
    }
}

#[test]
#[ignore = "needs jsonschema-rs: run tests/run"]
fn the_validator_itself_refuses() {
    let wrong = json!({ "name": "x", "generation": 0, "tables": {} });
    assert_eq!(validate(&[&model(), &wrong, &json!({ NONSENSE: 1 })]).iter().flatten().count(), 2);
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(folder).expect("the folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|own| own == extension));
    files.sort();
    files
}

/// For each model, the first problems that the validator finds.
fn validate(models: &[&Value]) -> Vec<Option<String>> {
    let mut validator = python::script("documentation/validate.py")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let input = json!({ "schema": Model::json_schema(), "models": models }).to_string();
    let mut stdin = validator.stdin.take().expect("its input");
    let written = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = validator.wait_with_output().expect("Python ends");
    written.join().expect("the input is written").expect("the validator reads its input");
    assert!(output.status.success(), "the validator fails; is the package jsonschema-rs installed?");
    serde_json::from_slice(&output.stdout).expect("the validator's JSON")
}
