//! Lists the built-in table models: every `src/table/models/*.toml`, and the default's name from `src/table/models/default`.
//! A new model needs only its file: no Rust code names one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("src/table/models");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut models: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            models.push(path);
        }
    }
    models.sort();
    let default = fs::read_to_string(folder.join("default"))?;
    let default = default.trim();
    if !models.iter().any(|path| path.file_stem().is_some_and(|stem| stem == default)) {
        return Err(format!(
            "{}/default names the model `{default}`, which does not exist",
            folder.display()
        )
        .into());
    }
    let mut code = format!(
        "pub(super) const DEFAULT: &str = {default:?};\npub(super) const BUILT_IN: &[(&str, &str)] = &[\n"
    );
    for path in &models {
        println!("cargo::rerun-if-changed={}", path.display());
        let name =
            path.file_stem().and_then(|stem| stem.to_str()).ok_or("a model's file name is not UTF-8")?;
        let path = path.to_str().ok_or("the path of the models is not UTF-8")?;
        writeln!(code, "    ({name:?}, include_str!({path:?})),")?;
    }
    code.push_str("];\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("models.rs"), code)?;
    Ok(())
}
