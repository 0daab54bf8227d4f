//! The SAM template beyond CloudFormation's limits, and the patterns of large models.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::time::Duration;

use afterwrite_deployment::stream_filters::DeploymentDescription;
use afterwrite_model::table::Model;
use afterwrite_tests::processor_time::processor_time;

use super::{afterwrite, text};

/// A model with this many datasets.
fn with_datasets(count: usize) -> String {
    let mut model = "name = \"wide\"\ngeneration = 1\n[tables.Tab]\nkey = [\"PK\", \"SK\"]\n".to_owned();
    for index in 0..count {
        let _ = write!(
            model,
            "[entities.e{index}]\nkey = {{ PK = \"E{index}#{{id}}\", SK = \"ITEM\" }}\nattributes = {{ at = \"S\" }}\n\
             [datasets.d{index}]\nof = \"e{index}\"\npartition = \"at:day\"\ncolumns = {{ id = \"string\", at = \"timestamp\" }}\n"
        );
    }
    model
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn h3_a_template_beyond_the_limits_is_refused_and_nested_stacks_are_the_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("wide.toml");
    std::fs::write(&model, with_datasets(150)).expect("a file");
    let (model, out) = (model.to_str().expect("UTF-8"), folder.path().join("template.yaml"));
    let out = out.to_str().expect("UTF-8");
    let settings = HashMap::new();
    let refused = afterwrite(&["template", "sam", model, "--out", out], &settings);
    let errors = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{errors}");
    assert!(errors.contains("CloudFormation allows 500") && errors.contains("--nested-datasets"), "{errors}");
    assert!(!std::path::Path::new(out).exists(), "a refused template is not written");

    let written = afterwrite(&["template", "sam", model, "--nested-datasets", "--out", out], &settings);
    assert_eq!(written.status.code(), Some(0), "{}", text(&written.stderr));
    let parent = std::fs::read_to_string(out).expect("the template");
    let nested: Vec<String> = std::fs::read_dir(folder.path())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("wide-datasets-"))
        .collect();
    assert!(!nested.is_empty() && nested.iter().all(|name| parent.contains(name)), "{nested:?}");
    let tables: usize = nested
        .iter()
        .map(|name| std::fs::read_to_string(folder.path().join(name)).expect("a nested template"))
        .map(|template| template.matches("AWS::Glue::Table").count())
        .sum();
    assert_eq!(tables, 300);
    assert_eq!(parent.matches("AWS::Glue::Table").count(), 0);
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn h3_the_state_table_has_the_indexes_of_ranks() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("game.toml");
    let model = "name = \"game\"\ngeneration = 1\ntables.Scores.key = [\"PK\", \"SK\"]\n\
        [entities.score]\nkey = { PK = \"PLAYER#{player}\", SK = \"SCORE#{score_id}\" }\nattributes = { points = \"N\" }\n\
        [rollups.total]\nkey = { PK = \"PLAYER#{player}\", SK = \"ALL\" }\nrank.points = { within = \"ALL\" }\n\
        [[aggregates]]\nname = \"totals\"\nof = \"score\"\ninto = \"total\"\nmeasures.points = { sum = \"points\" }\n";
    std::fs::write(&file, model).expect("a file");
    let written = afterwrite(&["template", "sam", file.to_str().expect("UTF-8")], &HashMap::new());
    assert_eq!(written.status.code(), Some(0), "{}", text(&written.stderr));
    let template = text(&written.stdout);
    let words: String = template.split_whitespace().collect::<Vec<_>>().join(" ");
    let index = "- IndexName: rank_points KeySchema: - AttributeName: rank_points KeyType: HASH - AttributeName: points KeyType: RANGE";
    assert!(words.contains(index), "{template}");
    assert!(words.contains("AttributeName: rank_points AttributeType: S"), "{template}");
    assert!(words.contains("AttributeName: points AttributeType: \"N\""), "{template}");
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn h3_nested_templates_of_wide_datasets_are_within_the_length_of_a_template() {
    let column = |index: usize| format!("{}_{index}", "measurement_of_a_sensor_with_a_long_name".repeat(2));
    let columns: String = (0..120).map(|index| format!("{} = \"string\", ", column(index))).collect();
    let attributes: String = (0..120).map(|index| format!("{} = \"S\", ", column(index))).collect();
    let mut model = "name = \"wide\"\ngeneration = 1\n[tables.Tab]\nkey = [\"PK\"]\n".to_owned();
    for index in 0..100 {
        let _ = write!(
            model,
            "[entities.e{index}]\nkey = {{ PK = \"P{index}#{{a}}\" }}\nattributes = {{ {attributes} at = \"S\" }}\n\
             [datasets.d{index}]\nof = \"e{index}\"\npartition = \"at:day\"\ncolumns = {{ {columns} at = \"timestamp\" }}\n"
        );
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (file, out) = (folder.path().join("wide.toml"), folder.path().join("template.yaml"));
    std::fs::write(&file, model).expect("a file");
    let (file, out) = (file.to_str().expect("UTF-8"), out.to_str().expect("UTF-8"));
    let written = afterwrite(&["template", "sam", file, "--nested-datasets", "--out", out], &HashMap::new());
    assert_eq!(written.status.code(), Some(0), "{}", text(&written.stderr));
    let entries = std::fs::read_dir(folder.path()).expect("the folder").map(|entry| entry.expect("an entry"));
    let nested = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("wide-datasets-"));
    let nested: Vec<String> =
        nested.map(|entry| std::fs::read_to_string(entry.path()).expect("a nested template")).collect();
    assert!(
        nested.len() > 1 && nested.iter().all(|template| template.len() <= 1_000_000),
        "{}",
        nested.len()
    );
    let tables: usize = nested.iter().map(|template| template.matches("AWS::Glue::Table").count()).sum();
    assert_eq!(tables, 200);
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn h3_each_source_table_has_a_parameter_for_its_key() {
    let written = afterwrite(&["template", "sam", "quiz"], &HashMap::new());
    let template = text(&written.stdout);
    let model = Model::load("quiz").expect("a built-in model");
    let keys =
        template.lines().filter(|line| line.starts_with("  ") && line.trim().ends_with("SourceKeyArn:"));
    assert_eq!(keys.filter(|line| !line.starts_with("   ")).count(), model.tables.len(), "{template}");
    assert!(!template.contains("SourceTableKeyArn"));
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn h9_the_template_has_the_outputs_of_the_module() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
    let module = std::fs::read_to_string(format!("{root}infra/outputs.tf")).expect("outputs.tf");
    let template = text(&afterwrite(&["template", "sam", "exambuddy"], &HashMap::new()).stdout);
    let outputs = template.split_once("\nOutputs:\n").expect("outputs").1;
    for line in module.lines().filter_map(|line| line.strip_prefix("output \"")) {
        let name = line.split('"').next().expect("a name");
        let capital: String = name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
        // The template has no bulk backfill, and no rollup of this model is a source.
        let is_here = !name.starts_with("bulk") && name != "state_stream_arn";
        assert_eq!(outputs.contains(&format!("  {capital}:\n")), is_here, "{capital}");
    }
    // As the functions, the command line reads the records of former names.
    for output in ["  CliEnvironment:\n", "  CliExports:\n"] {
        let value = outputs.split_once(output).expect("the output").1;
        let value = value.split_once("\n  Cli").map_or(value, |(value, _)| value);
        assert!(value.contains("FormerTableNames"), "{output}");
    }
}

#[test]
fn h9_the_terraform_block_of_the_deploy_page_is_complete() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
    let read = |path: &str| std::fs::read_to_string(format!("{root}{path}")).expect("a file");
    let page = read("docs/DEPLOY.md");
    let section = page.split_once("\n## Terraform\n").expect("the section").1;
    let block = section.split("```").nth(1).expect("a block");
    let positions =
        ["infra/build ", " init", " apply ", "cli_exports", "afterwrite doctor"].map(|part| block.find(part));
    assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{block}");
    let example = block.split("-chdir=").nth(1).and_then(|rest| rest.split(' ').next()).expect("an example");
    let source = read(&format!("{example}/main.tf"));
    // Each variable without a default is given.
    let variables = source.split("\nvariable \"").skip(1).filter(|variable| !variable.contains("default"));
    let required: Vec<&str> = variables.filter_map(|variable| variable.split('"').next()).collect();
    assert!(required.iter().all(|name| block.contains(&format!("-var {name}="))), "{required:?}");
    for example in ["new-table", "existing-table", "global-table"] {
        let source = read(&format!("infra/examples/{example}/main.tf"));
        for part in ["variable \"architecture\"", "= var.architecture", "output \"cli_exports\""] {
            assert!(source.contains(part), "{example} lacks {part}");
        }
    }
}

/// A model with this many entities, each with keys and a rollup of its own.
fn with_entities(count: usize) -> String {
    let mut model =
        "name = \"many\"\ngeneration = 1\narchive = \"matched\"\n[tables.Tab]\nkey = [\"PK\", \"SK\"]\n"
            .to_owned();
    for index in 0..count {
        let _ = write!(
            model,
            "[rollups.r{index}]\nkey = {{ PK = \"R{index}\", SK = \"ROLLUP\" }}\n\
             [entities.e{index}]\nkey = {{ PK = \"P{index}#{{a}}\", SK = \"S{index}#{{b}}\" }}\n\
             [[aggregates]]\nname = \"a{index}\"\nof = \"e{index}\"\ninto = \"r{index}\"\nmeasures.n = \"count\"\n"
        );
    }
    model
}

#[test]
fn h5_the_patterns_of_six_hundred_entities_take_less_than_two_seconds() {
    let model = Model::parse(&with_entities(600), "many.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let (took, description) = processor_time(|| DeploymentDescription::of(&model));
    assert!(took < Duration::from_secs(2), "{took:?}");
    let filters: BTreeMap<String, BTreeMap<String, Vec<String>>> =
        serde_json::from_value(serde_json::to_value(&description.filters).expect("JSON")).expect("filters");
    let patterns = &filters["Tab"]["aggregate"];
    assert!(!patterns.is_empty() && patterns.len() <= 5, "{patterns:?}");
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn h5_the_command_prints_the_patterns_of_six_hundred_entities() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("many.toml");
    std::fs::write(&model, with_entities(600)).expect("a file");
    let arguments = ["model", "filters", model.to_str().expect("UTF-8")];
    let output = afterwrite(&arguments, &HashMap::new());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("Tab"), "{}", text(&output.stdout));
}
