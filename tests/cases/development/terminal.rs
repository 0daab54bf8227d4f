//! Results on a terminal and in a pipe.

use std::process::{Command, Stdio};

use afterwrite_tests::programs::program;
use afterwrite_tests::python;

use afterwrite_tests::development::{SHOP, model_file};

const SORT_KEY: &str = "ORDER#01KAZ3NDEKTSV4RRFFQ69G5FAV-01KAZ3NDEKTSV4RRFFQ69G5FAV";

/// An event whose keys are long.
fn event_file(folder: &tempfile::TempDir) -> String {
    let key = format!(r#""PK":{{"S":"CUSTOMER#c1"}},"SK":{{"S":"{SORT_KEY}"}}"#);
    let arn = "arn:aws:dynamodb:us-east-1:123456789012:table/Corner/stream/2026-02-06T10:00:00.000";
    let change = format!(
        r#"{{"Keys":{{{key}}},"NewImage":{{{key},"price":{{"N":"7"}}}},"SequenceNumber":"100000000000000000001","SizeBytes":1,"StreamViewType":"NEW_AND_OLD_IMAGES"}}"#
    );
    let event = format!(
        r#"{{"Records":[{{"eventID":"1","eventName":"INSERT","eventSource":"aws:dynamodb","awsRegion":"us-east-1","eventSourceARN":"{arn}","dynamodb":{change}}}]}}"#
    );
    let file = folder.path().join("event.json");
    std::fs::write(&file, event).unwrap();
    file.to_str().unwrap().to_owned()
}

/// A command's output on a terminal of this width.
fn on_terminal(width: usize, arguments: &[&str]) -> String {
    let mut command = python::script("cases/development/terminal.py");
    command.arg(width.to_string()).arg(program("afterwrite")).args(arguments);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.replace("\r\n", "\n")
}

fn in_pipe(arguments: &[&str]) -> String {
    let output = Command::new(program("afterwrite")).args(arguments).env_clear().output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn i9_keys_are_unbroken_and_tables_fit_the_terminal() {
    let show = ["model", "show", "exambuddy"];
    let in_pipe_text = in_pipe(&show);
    assert!(in_pipe_text.lines().any(|line| line.chars().count() > 100), "{in_pipe_text}");
    for width in [100, 140] {
        let text = on_terminal(width, &show);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}\n{text}");
    }
    // Every key is in one piece, however narrow the terminal is.
    let narrow = on_terminal(40, &show);
    let words: Vec<&str> = narrow.split_whitespace().collect();
    for key in in_pipe_text.split_whitespace().filter(|word| word.contains('#')) {
        assert!(words.contains(&key), "{key}\n{narrow}");
    }
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn i9_invoke_shows_whole_keys() {
    let (folder, model) = model_file(SHOP);
    let file = event_file(&folder);
    let arguments = ["invoke", "--event", &file, "--model", model.to_str().unwrap()];
    let piped = in_pipe(&arguments);
    for text in [piped.clone(), on_terminal(80, &arguments), on_terminal(30, &arguments)] {
        assert!(text.contains(&format!("LEDGER#Corner#CUSTOMER#c1 {SORT_KEY}\n")), "{text}");
        assert!(text.contains("AfterwriteState ROLLUP CUSTOMER#c1 TOTAL\n"), "{text}");
    }
    let rollup = piped.lines().skip_while(|line| !line.contains("ROLLUP")).collect::<Vec<_>>();
    assert!(rollup.iter().any(|line| line.split_whitespace().eq(["spent", "-", "7"])), "{piped}");
}
