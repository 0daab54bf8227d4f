//! The examples of `docs/COOKBOOK.md` in JavaScript, Go and Java read rollups: each is a file as the page shows it, beside a program that
//! calls it and prints the results.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use afterwrite_tests::page;
use afterwrite_tests::tools::{node_folder, output, setting};
use tempfile::TempDir;

use super::cookbook::{PAGE, assert_reads_all};

/// `go`, with AWS's SDK in its GOPATH.
const GO: &str = "AFTERWRITE_TEST_GO";
/// The folder with `javac` and `java`, and the one with the jars of AWS's SDK.
const JAVA: &str = "AFTERWRITE_TEST_JAVA";
const JAVA_SDK: &str = "AFTERWRITE_TEST_JAVA_SDK";

/// A folder with the page's example, which gets this name, and the program beside it.
fn example_folder(language: &str, example: &str, program: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let code = page::examples(PAGE).into_iter().find(|example| example.kind == language);
    let file = folder.path().join(example);
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    fs::write(file, code.expect("an example").text).expect("the example");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("documentation").join(program);
    fs::copy(source, folder.path().join(program)).expect("the program");
    folder
}

#[tokio::test]
#[ignore = "needs Node.js and AWS's SDK: run tests/run"]
async fn the_javascript_example_reads_sharded_bucketed_and_ranked_rollups() {
    let folder = example_folder("js", "rollups.mjs", "read_rollups.mjs");
    let modules = folder.path().join("node_modules");
    std::os::unix::fs::symlink(node_folder().join("node_modules"), modules).expect("a link");
    let mut node = Command::new(node_folder().join("run"));
    node.arg(folder.path().join("read_rollups.mjs"));
    assert_reads_all(node).await;
}

#[tokio::test]
#[ignore = "needs Go and AWS's SDK: run tests/run"]
async fn the_go_example_reads_sharded_bucketed_and_ranked_rollups() {
    let folder = example_folder("go", "rollups/rollups.go", "read_rollups.go");
    let mut go = Command::new(setting(GO));
    // The page names this version of the language.
    go.current_dir(folder.path()).args([
        "build",
        "-gcflags=./...=-lang=go1.22",
        "-o",
        "read_rollups",
        "read_rollups.go",
    ]);
    output(go);
    assert_reads_all(Command::new(folder.path().join("read_rollups"))).await;
}

#[tokio::test]
#[ignore = "needs a JDK and AWS's SDK: run tests/run"]
async fn the_java_example_reads_sharded_bucketed_and_ranked_rollups() {
    let folder = example_folder("java", "Rollups.java", "ReadRollups.java");
    let mut compiler = java_tool("javac", folder.path());
    // The page names this version of the language.
    compiler.args(["--release", "17", "Rollups.java", "ReadRollups.java"]);
    output(compiler);
    let mut java = java_tool("java", folder.path());
    java.arg("ReadRollups");
    assert_reads_all(java).await;
}

/// A program of the JDK in this folder, for classes of the folder and of AWS's SDK.
fn java_tool(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(setting(JAVA).join(name));
    let classes = [PathBuf::from("."), setting(JAVA_SDK).join("*")];
    command
        .current_dir(folder)
        .arg("-cp")
        .arg(env::join_paths(classes).expect("folders without a separator"));
    command
}
