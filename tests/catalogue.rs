//! The SQL of `infra/athena` is what the built-in models make.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use afterwrite::table::Model;
use afterwrite_datasets::catalogue::{Statement, statements};

fn checked_in() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/athena")
}

/// The files under a folder, by their paths within it; none if there is no such folder.
fn files(folder: &Path) -> std::io::Result<BTreeMap<String, String>> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![folder.to_path_buf()]);
    while let Some(next) = folders.pop().filter(|next| next.is_dir()) {
        for entry in next.read_dir()? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(name) = path.strip_prefix(folder) {
                files.insert(name.to_string_lossy().replace('\\', "/"), fs::read_to_string(&path)?);
            }
        }
    }
    Ok(files)
}

#[test]
fn the_sql_that_is_checked_in_is_what_the_models_make() {
    let mut problems = Vec::new();
    for name in Model::built_in_names() {
        let made = statements(&Model::load(name).unwrap());
        let made: BTreeMap<String, String> = made.iter().map(|it| (it.path(), it.file())).collect();
        let found = files(&checked_in().join(name)).unwrap();
        for file in made.keys().chain(found.keys()) {
            match (made.get(file), found.get(file)) {
                (Some(made), Some(found)) if made == found => {}
                (None, Some(_)) => {
                    problems.push(format!("infra/athena/{name}/{file} is of no use: delete it"))
                }
                (Some(_) | None, _) => {
                    problems.push(format!("infra/athena/{name}/{file} is missing or differs"))
                }
            }
        }
    }
    problems.sort();
    problems.dedup();
    assert!(
        problems.is_empty(),
        "{}\nfor each model: cargo run --bin afterwrite -- model ddl <model> --out infra/athena/<model>",
        problems.join("\n")
    );
}

#[test]
fn no_statement_holds_a_bucket_or_ends_in_a_semicolon() {
    for name in Model::built_in_names() {
        for Statement { name, sql, .. } in statements(&Model::load(name).unwrap()) {
            assert!(!sql.trim_end().ends_with(';'), "{name}");
            assert_eq!(
                sql.matches("s3://").count(),
                sql.matches("s3://${bucket}/datasets/").count(),
                "{name}"
            );
        }
    }
}
