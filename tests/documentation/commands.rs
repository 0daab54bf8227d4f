//! Every command of `afterwrite` that a page or `--help` shows is accepted by the command line's own parser.

use std::fs;
use std::path::{Path, PathBuf};

use afterwrite_cli::command::Cli;
use clap::{CommandFactory as _, Parser as _};

const PROGRAM: &str = "afterwrite";

#[test]
fn the_commands_of_every_page_parse() {
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for (line, number) in text.lines().zip(1..) {
            for command in line_commands(line) {
                assert_parses(&command, &format!("{}:{number}", page.display()));
                count += 1;
            }
        }
    }
    assert!(count >= 10, "the pages show {count} commands");
}

#[test]
fn the_examples_of_every_help_text_parse() {
    let mut open = vec![Cli::command()];
    let mut count = 0;
    while let Some(command) = open.pop() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for example in help.lines().filter_map(command_words) {
            assert_parses(&example, &format!("the help of `{}`", command.get_name()));
            count += 1;
        }
        open.extend(command.get_subcommands().filter(|command| command.get_name() != "help").cloned());
    }
    assert!(count >= 15, "the help texts show {count} commands");
}

#[test]
fn commands_are_found_in_lines_of_shells_and_of_text() {
    let words = |line| line_commands(line).into_iter().map(|words| words.join("|")).collect::<Vec<_>>();
    assert_eq!(words("$ afterwrite demo --seed 7   # a comment"), ["demo|--seed|7"]);
    assert_eq!(words("cargo run --release -- query \"SELECT 1\" | jq ."), ["query|SELECT 1"]);
    assert_eq!(
        words("first `time target/release/afterwrite demo` (2 s), then `afterwrite model`"),
        ["demo", "model"]
    );
    assert_eq!(words("The command `afterwrite` and cargo run"), [""; 0]);
}

#[test]
#[should_panic(expected = "unexpected argument '--sed'")]
fn a_command_with_an_unknown_option_fails() {
    assert_parses(&["demo".to_owned(), "--sed".to_owned()], "a page");
}

#[test]
#[should_panic(expected = "a dry run shows items only")]
fn a_command_whose_options_exclude_each_other_fails() {
    let words = ["replay", "archive/", "--only", "notify", "--dry-run"];
    assert_parses(&words.map(str::to_owned), "a page");
}

fn assert_parses(arguments: &[String], place: &str) {
    let words = [PROGRAM].into_iter().chain(arguments.iter().map(String::as_str));
    let command = format!("{place}: `{PROGRAM} {}`", arguments.join(" "));
    let parsed = Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{command}: {error}"));
    if let Err(error) = parsed.check() {
        panic!("{command}: {}", error.report());
    }
}

/// The pages of the repository.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["", "docs", "docs/decisions", "infra", "infra/athena"].map(|folder| root.join(folder));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let paths = files.map(|file| file.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The commands in a line of a page: those between backticks, or else the line itself.
fn line_commands(line: &str) -> Vec<Vec<String>> {
    if line.contains('`') {
        line.split('`').skip(1).step_by(2).filter_map(command_words).collect()
    } else {
        command_words(line).into_iter().collect()
    }
}

/// The arguments of the `afterwrite` command that a shell's line runs, directly or through `cargo run`.
fn command_words(line: &str) -> Option<Vec<String>> {
    let line = line.trim().trim_start_matches("$ ").trim_start_matches("time ");
    let pipeline = shell_words(line);
    let commands = pipeline.split(|word| word == "|");
    let mut own = commands.filter_map(|words| {
        let (program, arguments) = words.split_first()?;
        if program == "cargo" && arguments.first()? == "run" {
            let separator = arguments.iter().position(|word| word == "--")?;
            return Some(arguments.get(separator + 1..)?.to_vec());
        }
        (Path::new(program).file_name()? == PROGRAM && !arguments.is_empty()).then(|| arguments.to_vec())
    });
    own.next()
}

/// The words of a shell's line without quotation marks, up to a comment.
fn shell_words(line: &str) -> Vec<String> {
    let (mut words, mut quote, mut continues) = (Vec::<String>::new(), None, false);
    for character in line.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                if !continues {
                    words.push(String::new());
                    continues = true;
                }
            }
            (None, '#') if !continues => break,
            (None, _) if character.is_whitespace() => continues = false,
            (_, _) if continues => words.last_mut().expect("a word that continues").push(character),
            (_, _) => {
                words.push(character.to_string());
                continues = true;
            }
        }
    }
    words
}
