//! Pages in Chromium: `browser.mjs` opens and judges them.

use std::process::Command;

use afterwrite_tests::size::size;
use afterwrite_tests::tools::setting;
use serde_json::{Map, Value, json};

/// The browser, and the folder with the packages that drive it; `tests/run` sets both.
const CHROMIUM: &str = "AFTERWRITE_TEST_CHROMIUM";
const PACKAGES: &str = "AFTERWRITE_TEST_BROWSER_NODE";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/console/browser.mjs");
/// The widths of a telephone, a tablet and a desktop.
const WIDTHS: [u32; 3] = [360, 1024, 1600];
/// Each width and each colour scheme once.
const USUAL_WINDOWS: [(u32, &str); 3] = [(360, "light"), (1024, "dark"), (1600, "light")];
/// Each colour scheme in each width.
const ALL_WINDOWS: [(u32, &str); 6] =
    [(360, "light"), (1024, "light"), (1600, "light"), (360, "dark"), (1024, "dark"), (1600, "dark")];

/// Carries out a task; returns the texts that it has read.
///
/// # Panics
/// If a page has a problem.
fn carry_out(url: &str, task: Value) -> Map<String, Value> {
    let mut all = json!({ "url": url, "chromium": setting(CHROMIUM), "packages": setting(PACKAGES) });
    all.as_object_mut().unwrap().extend(task.as_object().unwrap().clone());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("task.json");
    std::fs::write(&file, all.to_string()).unwrap();
    let mut node = Command::new(setting(PACKAGES).join("run"));
    // The browser's profile and caches end with the task.
    node.arg(SCRIPT).arg(&file).env("HOME", folder.path()).env("TMPDIR", folder.path());
    let done = tokio::task::block_in_place(|| node.output().unwrap());
    let errors = String::from_utf8_lossy(&done.stderr);
    let result: Value =
        serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    let problems: Vec<&str> =
        result["problems"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    result["texts"].as_object().unwrap().clone()
}

/// Opens pages in three windows, in `--full` or with images in six: nothing is wider than the window, contrast and structure are those of
/// WCAG AA, nothing moves after it was drawn, and no script fails.
pub(super) fn look(url: &str, pages: &[(&str, String)]) {
    let pages = named(pages);
    // AFTERWRITE_CONSOLE_IMAGES names a folder that keeps the images.
    let images = std::env::var("AFTERWRITE_CONSOLE_IMAGES").ok();
    let usual = if images.is_some() { &ALL_WINDOWS[..] } else { &USUAL_WINDOWS };
    let windows: Vec<Value> = size(usual, &ALL_WINDOWS)
        .iter()
        .map(|(width, scheme)| json!({ "width": width, "scheme": scheme }))
        .collect();
    let looked = json!({ "pages": pages, "windows": windows, "images": images });
    carry_out(url, json!({ "look": looked }));
}

/// Prints how long each page takes to its first paint, twice in each width, opened from the page without an item.
pub(super) fn print_paints(url: &str, pages: &[(&str, String)]) {
    let pages = named(pages);
    let timed = json!({ "pages": pages, "from": "/item", "widths": WIDTHS, "rounds": 2 });
    let paints = carry_out(url, json!({ "paints": timed }));
    println!("first paint, in ms, median and longest: {}", Value::Object(paints));
}

fn named(pages: &[(&str, String)]) -> Vec<Value> {
    pages.iter().map(|(name, path)| json!({ "name": name, "path": path })).collect()
}

/// Clicks and inputs, one after the other; returns the texts that were read.
pub(super) fn walk(url: &str, steps: &Value) -> Map<String, Value> {
    carry_out(url, json!({ "steps": { "list": steps } }))
}
