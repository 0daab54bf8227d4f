//! The promises of `docs/ARCHITECTURE.md` about the layers, as far as sources show them.

use std::collections::BTreeSet;

use super::lexer::RustToken;
use super::manifests::{CargoPackage, packages};
use super::sources::{RuleBreach, SourceFile};

/// Code that some files must not contain.
struct ForbiddenCode {
    /// Beginnings of paths, of files or folders.
    within: &'static [&'static str],
    /// Beginnings of paths within these that may write it.
    except: &'static [&'static str],
    /// Sequences of tokens.
    code: &'static [&'static [&'static str]],
    reason: &'static str,
    instead: &'static str,
}

const PRODUCT: &[&str] =
    &["common/model/src/", "common/ledger/src/", "common/services/src/", "common/relay/src/", "processors/"];
/// The stages that compute: they get time and attributes from their callers.
const PURE_STAGES: &[&str] = &[
    "common/model/src/record/",
    "common/model/src/table/",
    "common/model/src/entity.rs",
    "common/model/src/projection/",
];

const FORBIDDEN: &[ForbiddenCode] = &[
    ForbiddenCode {
        within: PRODUCT,
        except: &["common/services/src/config/"],
        code: &[
            &["env", "::", "var"],
            &["env", "::", "var_os"],
            &["env", "::", "vars"],
            &["env", "::", "vars_os"],
        ],
        reason: "only `config` reads the environment, so that every setting is known, checked and documented in one place",
        instead: "take the setting from `config`",
    },
    ForbiddenCode {
        within: PURE_STAGES,
        except: &[],
        code: &[&["SystemTime"], &["Instant"], &["SystemClock"]],
        reason: "the stages up to `projection` read no clock, so that the same record always gives the same result",
        instead: "take the time as an argument",
    },
    ForbiddenCode {
        within: PURE_STAGES,
        except: &[],
        code: &[&[".", "await"], &["async"]],
        reason: "the stages up to `projection` do no I/O",
        instead: "read before the stage, and pass in what was read",
    },
    ForbiddenCode {
        within: &["common/model/src/table/"],
        except: &[],
        code: &[&["crate", "::", "effect"]],
        reason: "`table` is the model and stands below `effect`, which describes writes",
        instead: "move the shared type down to `table` or `record`",
    },
    ForbiddenCode {
        within: PRODUCT,
        except: &[],
        code: &[&[".", "unwrap", "(", ")"]],
        reason: "a panic ends an invocation without a message for its operator",
        instead: "return an error, or `expect` with the reason why it cannot fail",
    },
];

pub(crate) const LAYER_RULE: &str = "A layer does what another one is for";
pub(crate) const LAYER_REASON: &str = "docs/ARCHITECTURE.md, \"Invariants\".";

/// Forbidden code of the product's files, tests aside.
pub(crate) fn layer_breaches(files: &[SourceFile]) -> Vec<RuleBreach> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        let starts_with = |beginnings: &[&str]| beginnings.iter().any(|begin| file.path.starts_with(begin));
        let rules: Vec<&ForbiddenCode> =
            FORBIDDEN.iter().filter(|rule| starts_with(rule.within) && !starts_with(rule.except)).collect();
        if rules.is_empty() {
            continue;
        }
        let tokens = file.code();
        for (rule, code) in rules.into_iter().flat_map(|rule| rule.code.iter().map(move |code| (rule, code)))
        {
            for line in lines_with(tokens, code) {
                let problem = format!("`{}`: {}; {}", code.concat(), rule.reason, rule.instead);
                breaches.push(RuleBreach::new(&file.path, line, problem));
            }
        }
    }
    breaches
}

fn lines_with(tokens: &[RustToken<'_>], code: &[&str]) -> Vec<usize> {
    let matches = |window: &&[RustToken<'_>]| {
        !window[0].is_test && window.iter().zip(code).all(|(token, expected)| token.text == *expected)
    };
    tokens.windows(code.len()).filter(matches).map(|window| window[0].line).collect()
}

pub(crate) const DEPENDENCY_RULE: &str = "A Lambda function links what runs on a developer's machine";
pub(crate) const DEPENDENCY_REASON: &str =
    "A deployed binary stays small and starts fast, and what wraps a test or a terminal cannot run in it.";

/// Packages that no deployed function may link.
const LOCAL_PACKAGES: [&str; 7] = [
    "afterwrite-cli",
    "afterwrite-console",
    "afterwrite-demo",
    "afterwrite-local",
    "afterwrite-mapping",
    "afterwrite-simulation",
    "afterwrite-tests",
];

/// Dependencies through which a function links a local package. A function is a package that links Lambda's runtime, directly or
/// through others, and is not a local package itself.
pub(crate) fn dependency_breaches(files: &[SourceFile]) -> Vec<RuleBreach> {
    let packages = packages(files);
    let mut breaches = Vec::new();
    for package in &packages {
        let is_local = LOCAL_PACKAGES.contains(&package.name);
        if is_local || !packages_linked_through(package.name, &packages).contains("lambda_runtime") {
            continue;
        }
        for (dependency, line) in &package.dependencies {
            let linked = packages_linked_through(dependency, &packages);
            for local in LOCAL_PACKAGES.iter().filter(|local| linked.contains(**local)) {
                let problem = format!(
                    "`{dependency}` links {local}: move what is needed of it into a package that functions may link"
                );
                breaches.push(RuleBreach::new(package.path, *line, problem));
            }
        }
    }
    breaches
}

fn packages_linked_through<'s>(name: &'s str, packages: &[CargoPackage<'s>]) -> BTreeSet<&'s str> {
    let (mut linked, mut open) = (BTreeSet::new(), vec![name]);
    while let Some(name) = open.pop() {
        if linked.insert(name) {
            let package = packages.iter().filter(|package| package.name == name);
            open.extend(package.flat_map(|package| package.dependencies.iter().map(|(other, _)| *other)));
        }
    }
    linked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden(path: &str, code: &str) -> Vec<String> {
        let breaches = layer_breaches(&[SourceFile::new(path, code)]);
        breaches
            .into_iter()
            .map(|breach| breach.problem.split(':').next().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn each_layer_is_held_to_its_promises() {
        assert_eq!(forbidden("processors/functions/src/a.rs", "fn f() { std::env::var(\"X\") }").len(), 1);
        assert_eq!(forbidden("common/model/src/record/a.rs", "fn f() { Instant::now() }"), ["`Instant`"]);
        assert_eq!(forbidden("common/model/src/projection/a.rs", "async fn f() { g().await }").len(), 2);
        assert_eq!(forbidden("common/model/src/table/a.rs", "use crate::effect::Path;").len(), 1);
        assert_eq!(forbidden("processors/cli/src/a.rs", "fn f() { g().unwrap() }"), ["`.unwrap()`"]);
    }

    #[test]
    fn other_layers_and_tests_may() {
        assert_eq!(
            forbidden("common/services/src/config/mod.rs", "fn f() { std::env::var(\"X\") }"),
            [""; 0]
        );
        assert_eq!(forbidden("common/ledger/src/clock.rs", "fn f() { SystemTime::now() }"), [""; 0]);
        assert_eq!(
            forbidden("common/model/src/record/a.rs", "#[cfg(test)] mod tests { fn f() { g().unwrap() } }"),
            [""; 0]
        );
        assert_eq!(forbidden("common/model/src/record/tests.rs", "fn f() { g().unwrap() }"), [""; 0]);
    }

    #[test]
    fn a_function_that_links_a_local_package_through_another_one_is_found() {
        let manifest = |folder: &str, dependencies: &str| {
            let text = format!("[package]\nname = \"afterwrite-{folder}\"\n\n[dependencies]\n{dependencies}");
            SourceFile::new(&format!("processors/{folder}/Cargo.toml"), &text)
        };
        let files = [
            manifest("functions", "afterwrite-lambda.workspace = true\nafterwrite-helper.workspace = true\n"),
            manifest("lambda", "lambda_runtime.workspace = true\n"),
            manifest("helper", "afterwrite-local = { path = \"../local\" }\n"),
            manifest("local", "tokio.workspace = true\n"),
            manifest("cli", "afterwrite-functions.workspace = true\nafterwrite-local.workspace = true\n"),
        ];
        let breaches = dependency_breaches(&files);
        assert_eq!(breaches.len(), 1);
        assert_eq!((&*breaches[0].path, breaches[0].line), ("processors/functions/Cargo.toml", 6));
    }
}
