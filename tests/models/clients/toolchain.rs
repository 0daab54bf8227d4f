//! The tools of the languages of clients: `tests/run` provides them.

use std::fs;
use std::path::Path;
use std::process::Command;

use afterwrite_client::{ClientLanguage, client};
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, TableDefinition};
use afterwrite_model::record::Item;
use afterwrite_model::table::Model;
use afterwrite_tests::sdk_items::sdk_item;
use afterwrite_tests::tools::{node_folder, output, setting};
use serde_json::Value;
use tempfile::TempDir;

/// Names the interpreter of Python with black, mypy and boto3.
const PYTHON: &str = "AFTERWRITE_TEST_CLIENT_PYTHON";

const STATE: &str = "state";
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/clients");

/// The strictest settings that a project can have.
const TYPESCRIPT_SETTINGS: &str = r#"{
  "compilerOptions": {
    "strict": true, "noUncheckedIndexedAccess": true, "exactOptionalPropertyTypes": true, "noImplicitOverride": true,
    "noPropertyAccessFromIndexSignature": true, "noImplicitReturns": true, "noFallthroughCasesInSwitch": true, "noUnusedParameters": true,
    "verbatimModuleSyntax": true, "erasableSyntaxOnly": true, "isolatedModules": true, "target": "ES2022", "module": "NodeNext",
    "moduleResolution": "NodeNext", "lib": ["ES2022", "DOM"], "types": [], "skipLibCheck": true, "rootDir": ".", "outDir": "compiled"
  },
  "include": ["*.ts"]
}"#;
const MYPY_SETTINGS: &str = "[mypy]\nstrict = True\n[mypy-boto3.*]\nignore_missing_imports = True\n";

fn node_tool(name: &str) -> Command {
    let mut command = Command::new(node_folder().join("run"));
    command.arg(node_folder().join("node_modules").join(name));
    command
}

fn python() -> Command {
    let mut command = Command::new(setting(PYTHON));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// A folder with the clients of some models, in which the tools run.
pub(crate) struct ClientFolder(TempDir);

impl ClientFolder {
    /// The clients of these models, in both languages.
    pub(crate) fn of<'m>(models: impl IntoIterator<Item = &'m Model>) -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        for model in models {
            for (language, extension) in [(ClientLanguage::TypeScript, "ts"), (ClientLanguage::Python, "py")]
            {
                folder.write(&format!("{}.{extension}", model.name), &client(model, language));
            }
        }
        folder.write("tsconfig.json", TYPESCRIPT_SETTINGS);
        folder.write("package.json", r#"{ "type": "module" }"#);
        folder.write("mypy.ini", MYPY_SETTINGS);
        folder
    }

    /// Writes a file in the folder.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).expect("a file");
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Compiles the clients in TypeScript, which must have no error.
    pub(crate) fn compile(&self) {
        let modules = self.path().join("node_modules");
        if !modules.exists() {
            std::os::unix::fs::symlink(node_folder().join("node_modules"), modules).expect("a link");
        }
        let mut compiler = node_tool("typescript/bin/tsc");
        compiler.current_dir(self.path());
        output(compiler);
    }

    /// Checks that the clients in TypeScript are as prettier writes them.
    pub(crate) fn check_prettier(&self) {
        let mut prettier = node_tool("prettier/bin/prettier.cjs");
        prettier.current_dir(self.path()).args(["--check", "*.ts"]);
        output(prettier);
    }

    /// Checks the types and the format of the clients in Python.
    pub(crate) fn check_python(&self) {
        for tool in
            [&["mypy", "--config-file", "mypy.ini", "."][..], &["black", "--check", "--quiet", "--diff", "."]]
        {
            let mut python = python();
            python.current_dir(self.path()).arg("-m").args(tool);
            output(python);
        }
    }

    /// The answers that a model's client in each language gives to these requests.
    pub(crate) async fn answers(&self, model: &Model, endpoint: &str, requests: &Value) -> [Vec<Value>; 2] {
        let file = self.path().join("requests.json");
        fs::write(&file, requests.to_string()).expect("requests");
        let compiled = self.path().join("compiled").join(format!("{}.js", model.name));
        let mut node = Command::new(node_folder().join("run"));
        node.arg(format!("{SOURCES}/read.mjs")).arg(compiled);
        let mut python = python();
        python.arg(format!("{SOURCES}/read.py")).arg(self.path().join(format!("{}.py", model.name)));
        let commands = [node, python].map(|mut command| {
            command.arg(STATE).arg(endpoint).arg(&file);
            tokio::task::spawn_blocking(move || output(command))
        });
        let [typescript, python] = commands;
        let answers = [typescript.await, python.await];
        answers.map(|answers| serde_json::from_slice(&answers.expect("answers")).expect("JSON"))
    }
}

/// A server with these items of the state table.
pub(crate) async fn serving(model: &Model, items: &[Item]) -> EmbeddedDynamoDb {
    let server = EmbeddedDynamoDb::start().await.expect("a server");
    server.create_table(&TableDefinition::state(STATE).ranked(model)).await.expect("a table");
    let client = server.client();
    for item in items {
        let put = client.put_item().table_name(STATE).set_item(Some(sdk_item(item)));
        put.send().await.expect("an item");
    }
    server
}
