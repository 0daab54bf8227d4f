//! The manifests of the repository's packages, as far as the rules need them: names, dependencies and target roots.
//!
//! Reads the TOML that these manifests use: section headers, and one `key = value` a line. A comment on the line of a value, or a
//! value of several lines, is not understood.

use super::sources::SourceFile;

/// A package of the repository.
#[derive(Debug)]
pub(crate) struct CargoPackage<'s> {
    pub(crate) name: &'s str,
    /// The path of its manifest.
    pub(crate) path: &'s str,
    /// The folder of its manifest.
    pub(crate) folder: &'s str,
    /// The packages that `[dependencies]` links into the product, each with its line.
    pub(crate) dependencies: Vec<(&'s str, usize)>,
    /// Root files that the manifest names.
    named_roots: Vec<String>,
}

/// All packages, by manifest.
pub(crate) fn packages(files: &[SourceFile]) -> Vec<CargoPackage<'_>> {
    files.iter().filter_map(CargoPackage::read).collect()
}

impl<'s> CargoPackage<'s> {
    fn read(file: &'s SourceFile) -> Option<Self> {
        let folder = file.path.strip_suffix("/Cargo.toml")?;
        let mut package =
            Self { name: "", path: &file.path, folder, dependencies: Vec::new(), named_roots: Vec::new() };
        let mut section = "";
        for (line, number) in file.text.lines().zip(1..) {
            if line.starts_with('[') {
                section = line.trim_matches(['[', ']']);
            } else if let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
                package.read_value(section, key.trim(), value.trim().trim_matches('"'), number);
            }
        }
        (!package.name.is_empty()).then_some(package)
    }

    fn read_value(&mut self, section: &str, key: &'s str, value: &'s str, line: usize) {
        match (section, key) {
            ("package", "name") => self.name = value,
            ("dependencies", _) => {
                let name = key.split('.').next().unwrap_or(key);
                self.dependencies.push((name, line));
            }
            ("lib" | "bin" | "test" | "bench" | "example", "path") => {
                self.named_roots.push(format!("{}/{value}", self.folder));
            }
            _ => {}
        }
    }

    /// Whether a file is the root module of a target: the manifest names it, or Cargo finds it by its place.
    pub(crate) fn is_root(&self, path: &str) -> bool {
        let Some(inside) = path.strip_prefix(self.folder).and_then(|rest| rest.strip_prefix('/')) else {
            return false;
        };
        let parts: Vec<&str> = inside.split('/').collect();
        self.named_roots.iter().any(|root| root == path)
            || match parts.as_slice() {
                ["build.rs"] | ["src", "lib.rs" | "main.rs"] => true,
                ["src", "bin", file] | ["tests" | "benches" | "examples", file] => file.ends_with(".rs"),
                ["src", "bin", _, file] | ["tests" | "benches" | "examples", _, file] => *file == "main.rs",
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"a\"\n\n[lib]\npath = \"lib.rs\"\n\n[[test]]\nname = \"b\"\npath = \"b/main.rs\"\n\n\
        [dependencies]\n# one = \"1\"\ntwo.workspace = true\nthree = { path = \"../x\" }\n";

    #[test]
    fn a_manifest_gives_name_dependencies_and_roots() {
        let files =
            [SourceFile::new("x/a/Cargo.toml", MANIFEST), SourceFile::new("Cargo.toml", "[workspace]")];
        let packages = packages(&files);
        let [package] = packages.as_slice() else { panic!("{packages:?}") };
        assert_eq!((package.name, package.folder), ("a", "x/a"));
        assert_eq!(package.dependencies, [("two", 13), ("three", 14)]);
        let inside = [
            "lib.rs",
            "b/main.rs",
            "src/main.rs",
            "src/bin/c.rs",
            "tests/d.rs",
            "tests/e/main.rs",
            "build.rs",
        ];
        assert!(inside.iter().all(|file| package.is_root(&format!("x/a/{file}"))));
        assert!(
            ["b/c.rs", "src/a.rs", "tests/e/f.rs"]
                .iter()
                .all(|file| !package.is_root(&format!("x/a/{file}")))
        );
        assert!(!package.is_root("x/ab/lib.rs"));
    }
}
