//! The command line is consistent, explains itself, and refuses wrong usage.

use clap::CommandFactory as _;

use super::*;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn the_exit_code_distinguishes_a_wrong_number_from_a_failure() {
    let failed = |kind| exit_code(&Err(Error::new(kind, "x")));
    assert_eq!([exit_code(&Ok(true)), exit_code(&Ok(false))], [0, 1]);
    assert_eq!([failed(ErrorKind::Configuration), failed(ErrorKind::Unavailable)], [2, 3]);
}

#[test]
fn every_help_text_has_exit_codes_and_examples_that_fit_a_terminal() {
    let mut open = vec![Cli::command()];
    while let Some(command) = open.pop() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let has_subcommands = command.get_subcommands().next().is_some();
        assert!(has_subcommands || help.contains("Exit codes: 0 "), "{}", command.get_name());
        for example in help.lines().filter(|line| line.starts_with("  ")) {
            assert!(example.chars().count() <= 80, "{example}");
        }
        open.extend(command.get_subcommands().cloned());
    }
}

#[test]
fn the_help_lists_every_command_under_a_heading_on_one_line() {
    let help = Cli::command().render_help().to_string();
    let mut lines = help.lines();
    for command in Cli::command().get_subcommands() {
        let name = format!("  {} ", command.get_name());
        let line = lines.find(|line| line.starts_with(&name)).expect("a line in the order of the commands");
        assert!(line.chars().count() <= 80, "{line}");
    }
    for (first, heading) in COMMAND_HEADINGS {
        assert!(help.contains(&format!("\n\n{heading}:\n  {first} ")), "{help}");
    }
}

#[test]
fn long_lists_of_options_are_divided_by_headings() {
    let mut open = vec![Cli::command()];
    while let Some(command) = open.pop() {
        let mut sizes = std::collections::BTreeMap::<_, usize>::new();
        for option in command.get_arguments() {
            *sizes.entry(option.get_help_heading()).or_default() += 1;
        }
        assert!(sizes.values().all(|size| *size <= 8), "{}: {sizes:?}", command.get_name());
        // The headings of shared options end with these options.
        let mut own = command
            .get_arguments()
            .filter(|option| ["report", "dry_run"].contains(&option.get_id().as_str()));
        assert!(own.all(|option| option.get_help_heading().is_none()), "{}", command.get_name());
        open.extend(command.get_subcommands().cloned());
    }
}

#[test]
fn a_wrong_value_is_rejected_in_our_own_words() {
    for (line, message) in [
        ("demo --seed x", "write a whole number"),
        ("demo --attempts 0", "write a whole number from 1 to 1000000"),
        ("compact --dt 2026-2-6", "write the day as yyyy-mm-dd"),
        ("dev --inject crash=2", "`crash=2` is not a fault that can be injected"),
        ("dev --function relay", "write a name, `=` and a value"),
        ("model diff a b --items e=x", "write a whole number"),
        ("model diff a b --items e", "write a name, `=` and a value"),
        ("record a --from yesterday", "write a time, such as"),
        ("jobs set x rate=0", "write rate=ITEMS"),
        ("jobs set x speed=1", "write rate=ITEMS"),
        ("verify --sample 0", "write a number above 0"),
        ("backfill --only a", "write a name"),
        ("verify --only a..b=1", "is not the name of a value; write names with single dots between them"),
        ("cost shop --rate order=20", "write ENTITY=NUMBER/s"),
    ] {
        let line = ["afterwrite"].into_iter().chain(line.split_whitespace());
        let error = Cli::try_parse_from(line).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn wrong_usage_is_rejected() {
    for line in [
        "",
        "dance",
        "demo --attempts 0",
        "model",
        "run",
        "run --name x --on-expired never",
        "query",
        "query --list --saved x",
        "query x --csv --json",
        "model explain m",
        "model diff a",
        "model diff a b --items e=x",
        "backfill --export x",
        "verify --recheck f --only a=b",
        "repair",
        "model test",
        "model init",
        "model init --table t --key a",
        "model init --from f --sample 0",
        "model init --from f --separator ab",
        "invoke",
        "invoke --event e --dry-run",
        "invoke --event e --deployed --items i",
        "tail --file a --from-start",
        "record a --stream",
        "replay a --dry-run --into t",
        "replay a --only everything",
        "state diff a",
        "cost shop",
        "template",
        "template sam",
        "doctor --report",
        "cost --rate order=1/s",
    ] {
        let line = ["afterwrite"].into_iter().chain(line.split_whitespace());
        assert!(Cli::try_parse_from(line).unwrap_err().use_stderr());
    }
}

#[test]
fn the_options_in_the_help_are_accepted() {
    for line in [
        "demo --model shop --seed 7 --attempts 500 --json",
        "dev --model shop --port 0 --data d --function relay=./r --inject crash=0.1 --json",
        "run --name blue --on-expired stop --table t --start latest --reset",
        "query --list --json",
        "query --saved x --datasets d --model m --csv",
        "query x --bucket b",
        "model ddl m --out d",
        "model check m --json",
        "model show",
        "model schema --out f",
        "model init --table t --sample 10 --out f",
        "model init --from f --table t --key a,b --separator ~ --type-attribute _model_name",
        "model explain m --item - --given a=b --table t",
        "model diff a b --items e=5",
        "model test d --model m --json",
        "model filters m --function relay --without-archive --max-patterns 10 --json",
        "cost m --rate a=1/s --sample f --index T=PK,SK --shards 2 --month 3 --queries 9 --cloudfront --json",
        "invoke --event - --function relay --items a --items b --json",
        "invoke --event e --deployed --dry-run",
        "tail --table t --endpoint-url http://127.0.0.1:1 --limit 5 --show-items --json",
        "record s3://b/archive/ a - --from 2026-02-06 --to 2026-02-07 --out f --limit 3",
        "heartbeat --repeat --json",
        "replay s3://b/archive/ --from 2026-02-06 --only aggregate,invalidate,archive,export --yes --rate 100",
        "replay a b --into t --state-table s --without-recovery --yes",
        "redrive s3://b/aws/lambda/ --parked --only aggregate,archive --delete --dry-run --json",
        "state diff a b --json",
        "state promote b --accept-differences",
        "jobs list --state-table s --json",
        "jobs set x rate=none",
        "jobs resume x --workers 4",
        "console --listen 127.0.0.1:0 --bucket b --allow-host h --allow-writes --show-items",
        "backfill --only a=b --yes --without-recovery",
        "verify --sample 0.5 --only a=b",
        "repair f --dry-run",
        "doctor --model m --state-table s --tables a=b --bucket b --report f --json",
        "template sam m --code d --single-reader --out f",
    ] {
        let line = ["afterwrite"].into_iter().chain(line.split_whitespace());
        assert!(Cli::try_parse_from(line.clone()).is_ok(), "{:?}", line.collect::<Vec<_>>());
    }
}

#[test]
fn redrive_takes_the_targets_that_its_help_lists() {
    let mut command = Cli::command();
    let help = command.find_subcommand_mut("redrive").expect("a command").render_long_help().to_string();
    assert!(help.contains("- notify:") && !help.contains("- export:"), "{help}");
    let parsed = |target: &str| Cli::try_parse_from(["afterwrite", "redrive", "--only", target]);
    assert!(parsed("aggregate,notify").is_ok());
    let refused = parsed("export").expect_err("an object of the archive").to_string();
    assert!(refused.contains("aggregate, invalidate, archive, notify"), "{refused}");
}
