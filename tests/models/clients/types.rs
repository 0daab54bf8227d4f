//! The clients of all built-in models: equal models give equal files, and the tools of both languages accept them.

use std::fs;

use afterwrite_cli::client::ClientCommand;
use afterwrite_client::{ClientLanguage, client};
use afterwrite_model::ErrorKind;
use afterwrite_model::table::Model;
use afterwrite_tests::page;
use clap::Parser;

use super::toolchain::ClientFolder;

const PAGE: &str = include_str!("../../../docs/COOKBOOK.md");

/// A model whose texts and names are hard to write in both languages.
const HOSTILE: &str = r##"
name = "hostile"
generation = 1
tables.t.key = ["pk", "sk"]
[entities.thing]
key = { pk = "THING#{'First Name'}", sk = "{class}" }
attributes = { a = "S", price = "N", at = "S" }
[rollups.date]
key = { PK = "A\"B*/'C\\{'First Name'}", SK = "X${class}`" }
[rollups.a-very-long-name-of-a-rollup-that-fills-nearly-the-whole-of-a-line-of-code]
key = { PK = "LONG#{at:day}", SK = "AT#{at:month}#{class}" }
rank.a-very-long-name-of-a-measure-that-fills-a-line = { within = "LONG#{at:day}", shards = 2 }
[rollups.Measure]
key = { PK = "ALL", SK = "ROLLUP" }
[[aggregates]]
name = "things"
of = "thing"
into = ["date", "a-very-long-name-of-a-rollup-that-fills-nearly-the-whole-of-a-line-of-code"]
when.a = [{ anything-but = ["*/", "\"\"\"", "\\", "\u001b", "${a}"] }]
[aggregates.measures]
class = "count"
a-very-long-name-of-a-measure-that-fills-a-line = { sum = "price" }
average = { avg = "a-very-long-name-of-a-measure-that-fills-a-line", over = "class" }
[[aggregates]]
name = "all"
of = "thing"
into = "Measure"
[aggregates.measures]
things = "count"
"first-one" = { percentiles = "price", relative_error = 0.5, from = 1, to = 3, when.price = [{ exists = true }] }
another_measure_with_bins_of_percentiles = { percentiles = "price", relative_error = 0.5, from = 1, to = 3, when.price = [{ exists = true }] }
distinct = { distinct = "a" }
last = { max = "a" }
"##;

fn models() -> Vec<Model> {
    let built_in = Model::built_in_names().map(|name| Model::load(name).expect("a model"));
    let hostile = Model::parse(HOSTILE, "hostile.toml").unwrap_or_else(|errors| panic!("{errors}"));
    built_in.chain([hostile]).collect()
}

#[test]
fn equal_models_give_equal_clients_that_name_them() {
    for model in models() {
        for language in ClientLanguage::ALL {
            let text = client(&model, language);
            assert_eq!(text, client(&model, language));
            let head: Vec<&str> = text.lines().take(2).collect();
            let named = format!(
                "Model \"{}\", generation {}, fingerprint {}.",
                model.name,
                model.generation,
                model.fingerprint()
            );
            assert!(head[0].contains(&format!("`afterwrite client {}`", language.name())), "{head:?}");
            assert!(head[1].contains(&named), "{head:?}");
        }
    }
}

/// The command line of a client.
#[derive(Debug, Parser)]
struct ClientLine {
    #[command(subcommand)]
    command: ClientCommand,
}

#[test]
fn a_file_that_is_not_the_models_client_is_out_of_date() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rollups.py");
    let run = |model: &str, check: &[&str]| {
        let file = file.to_str().expect("a path");
        let line = [&["client", "python", model, "--out", file], check].concat();
        ClientLine::try_parse_from(line).expect("a command").command.run()
    };
    let check = |model: &str| run(model, &["--check"]).expect("a readable file");
    assert!(!check("shop"), "the file is missing");
    assert!(run("shop", &[]).expect("a written file"));
    assert_eq!([check("shop"), check("quiz")], [true, false]);
    let shop = fs::read_to_string(&file).expect("a client");
    fs::write(&file, format!("{shop}# edited\n")).expect("a file");
    assert!(!check("shop"));
    assert_eq!(run("no-such-model", &[]).expect_err("no model").kind(), ErrorKind::Configuration);
    ClientLine::try_parse_from(["client", "python", "shop", "--check"]).expect_err("no file to check");
}

#[test]
#[ignore = "needs TypeScript, mypy, prettier and black: run tests/run"]
fn the_tools_of_both_languages_accept_the_clients_of_all_models() {
    let models = models();
    let folder = ClientFolder::of(&models);
    // The examples of the page use the client of `metering`.
    let metering = Model::load("metering").expect("a model");
    for (language, kind) in ClientLanguage::ALL.into_iter().zip(["ts", "py"]) {
        let examples = page::examples(PAGE).into_iter().filter(|example| example.kind == kind);
        let example: String = examples.map(|example| example.text).collect();
        assert!(example.contains("rollups.day.range("), "{example}");
        folder.write(&format!("page.{kind}"), &example);
        folder.write(&format!("rollups.{kind}"), &client(&metering, language));
    }
    folder.compile();
    folder.check_prettier();
    folder.check_python();
}
