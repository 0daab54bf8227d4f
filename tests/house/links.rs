//! Links to files and headings of the repository: in pages, and in Terraform files, texts and comments that point to a page.
//!
//! A page's link is `](target)`; one into the web, or to an address that code completes (`#{kind}`), is not followed. Code names a
//! page by its path from the root (`docs/MODEL.md#times`). An anchor is a heading by GitHub's rule: lower case, without punctuation,
//! hyphens for spaces, and `-1`, `-2` after the second and third heading of the same text; or the `id` of an `<a>`.

use std::collections::BTreeSet;

use super::lexer::{RustToken, TokenKind};
use super::module_trees::joined;
use super::sources::{RuleBreach, SourceFile};

pub(crate) const RULE: &str = "A link leads nowhere";
pub(crate) const REASON: &str =
    "A reader who follows a link needs the page at once, often during an incident.";

/// The pages that code names.
const PAGE_FOLDERS: [&str; 2] = ["docs/", "infra/"];

/// All links that lead nowhere. `other_paths` are files that are no text.
pub(crate) fn breaches(files: &[SourceFile], other_paths: &[String]) -> Vec<RuleBreach> {
    let targets = LinkTargets::read(files, other_paths);
    let mut breaches = Vec::new();
    for file in files {
        let (folder, links) = if file.path.ends_with(".md") {
            (file.path.rsplit_once('/').map_or("", |(folder, _)| folder), links_of_page(file.text))
        } else if file.is_rust() {
            ("", pages_named_in_code(file))
        } else if file.path.ends_with(".tf") {
            ("", pages_named_in(file.text, 1))
        } else {
            continue;
        };
        for (line, link) in links {
            if let Some(problem) = targets.problem(file, folder, link) {
                breaches.push(RuleBreach::new(&file.path, line, format!("`{link}`: {problem}")));
            }
        }
    }
    breaches
}

/// Everything that a link can lead to.
struct LinkTargets<'s> {
    /// Files, and the folders that contain them.
    paths: BTreeSet<&'s str>,
    /// `page#anchor`.
    anchors: BTreeSet<String>,
}

impl<'s> LinkTargets<'s> {
    fn read(files: &'s [SourceFile], other_paths: &'s [String]) -> Self {
        let mut targets = Self { paths: BTreeSet::new(), anchors: BTreeSet::new() };
        for path in files.iter().map(|file| &file.path).chain(other_paths) {
            targets.paths.extend(path.match_indices('/').map(|(end, _)| &path[..end]));
            targets.paths.insert(path);
        }
        for page in files.iter().filter(|file| file.path.ends_with(".md")) {
            add_anchors(page, &mut targets.anchors);
        }
        targets
    }

    fn problem(&self, file: &SourceFile, folder: &str, link: &str) -> Option<String> {
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = if path.is_empty() { file.path.clone() } else { joined(folder, path) };
        if !self.paths.contains(&*target) {
            return Some(format!("the repository has no {target}"));
        }
        let is_found = anchor.is_empty() || self.anchors.contains(&format!("{target}#{anchor}"));
        (!is_found).then(|| format!("{target} has no heading `#{anchor}`"))
    }
}

/// The links of a page into the repository, with their lines.
fn links_of_page(page: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    for (line, number) in prose_lines(page) {
        for (start, _) in line.match_indices("](") {
            let link = line[start + 2..].split([')', ' ']).next().unwrap_or_default();
            if !link.contains("://") && !link.starts_with("mailto:") {
                links.push((number, link));
            }
        }
    }
    links
}

/// The lines of a page outside its examples.
fn prose_lines(page: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut is_example = false;
    page.lines().zip(1..).filter(move |(line, _)| {
        let is_fence = line.trim_start().starts_with("```");
        is_example ^= is_fence;
        !is_example && !is_fence
    })
}

/// Paths of pages in the texts and comments of Rust code, unit tests aside.
fn pages_named_in_code(file: &SourceFile) -> Vec<(usize, &str)> {
    let is_prose = |token: &&RustToken<'_>| [TokenKind::Text, TokenKind::Comment].contains(&token.kind);
    let prose = file.tokens().iter().filter(is_prose).filter(|token| !token.is_test);
    prose.flat_map(|token| pages_named_in(token.text, token.line)).collect()
}

fn pages_named_in(text: &str, first_line: usize) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    for (end, extension) in text.match_indices(".md") {
        let end = end + extension.len();
        let start = text[..end].trim_end_matches(is_path_character).len();
        let link = &text[start..end + anchor_length(&text[end..])];
        if PAGE_FOLDERS.iter().any(|folder| link.starts_with(folder)) {
            links.push((first_line + text[..start].matches('\n').count(), link));
        }
    }
    links
}

/// The length of `#anchor`; 0 if there is none, or if code completes it.
fn anchor_length(text: &str) -> usize {
    let Some(anchor) = text.strip_prefix('#') else { return 0 };
    let is_anchor = |character: char| character.is_alphanumeric() || "-_".contains(character);
    let length = anchor.find(|character| !is_anchor(character)).unwrap_or(anchor.len());
    if anchor[length..].starts_with(['{', '$']) || length == 0 { 0 } else { length + 1 }
}

fn is_path_character(character: char) -> bool {
    character.is_alphanumeric() || "/._-".contains(character)
}

fn add_anchors(page: &SourceFile, anchors: &mut BTreeSet<String>) {
    for (line, _) in prose_lines(page.text) {
        for named in line.split("<a id=\"").skip(1) {
            anchors.extend(named.split_once('"').map(|(name, _)| format!("{}#{name}", page.path)));
        }
        if line.starts_with('#') {
            let anchor = format!("{}#{}", page.path, slug(line.trim_start_matches('#').trim()));
            let mut numbered = anchor.clone();
            let mut count = 0;
            while !anchors.insert(numbered) {
                count += 1;
                numbered = format!("{anchor}-{count}");
            }
        }
    }
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|character| character.is_alphanumeric() || " -_".contains(*character));
    kept.flat_map(char::to_lowercase)
        .map(|character| if character == ' ' { '-' } else { character })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        let page = "# A `Page`\n\n## Times, and more\n\n## Times\n\n### Times\n\n```sh\n# no heading\n```\n<a id=\"key\"></a>\n";
        let files = [SourceFile::new("docs/PAGE.md", page), SourceFile::new(path, text)];
        let breaches = breaches(&files, &["docs/images/a.svg".to_owned()]);
        breaches.into_iter().map(|breach| format!("{}: {}", breach.line, breach.problem)).collect()
    }

    #[test]
    fn links_of_pages_lead_to_files_folders_and_headings() {
        let right = "[a](docs/PAGE.md) [b](docs/PAGE.md#a-page) ![c](docs/images/a.svg) [d](docs) [e](#here)\n# Here\n\
            [f](docs/PAGE.md#times-and-more) [g](docs/PAGE.md#times-1) [h](docs/PAGE.md#key) [i](https://a.b/c.md)\n\
            ```\n[j](nowhere)\n```\n";
        assert_eq!(problems("README.md", right), [""; 0]);
        assert_eq!(problems("infra/README.md", "[a](../docs/PAGE.md#times \"T\")"), [""; 0]);
    }

    #[test]
    fn links_of_pages_that_lead_nowhere_are_found() {
        let expected = [
            "1: `#deploying`: README.md has no heading `#deploying`",
            "2: `docs/OTHER.md`: the repository has no docs/OTHER.md",
            "2: `docs/PAGE.md#no-heading`: docs/PAGE.md has no heading `#no-heading`",
        ];
        let wrong = "[a](#deploying)\n[b](docs/OTHER.md) [c](docs/PAGE.md#no-heading)";
        assert_eq!(problems("README.md", wrong), expected);
        assert_eq!(problems("infra/README.md", "[a](docs/PAGE.md)").len(), 1);
    }

    #[test]
    fn pages_that_code_names_are_found() {
        let right = "/// See docs/PAGE.md#times. fn f() { g(\"x (docs/PAGE.md#a-page)\", \"docs/PAGE.md#{kind}\", \"../docs/A.md\") }";
        assert_eq!(problems("common/model/src/a.rs", right), [""; 0]);
        let wrong = "\nfn f() { g(\"a\\nb: see docs/PAGE.md#nowhere.\") } // docs/OTHER.md";
        let expected = [
            "2: `docs/PAGE.md#nowhere`: docs/PAGE.md has no heading `#nowhere`",
            "2: `docs/OTHER.md`: the repository has no docs/OTHER.md",
        ];
        assert_eq!(problems("common/model/src/a.rs", wrong), expected);
    }
}
