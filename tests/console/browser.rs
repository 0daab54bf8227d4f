//! Pages in Chromium: `browser.mjs` opens and judges them.

use std::process::Command;

use afterwrite_tests::size::is_full;
use afterwrite_tests::tools::setting;
use serde_json::{Map, Value, json};

/// The browser, and the folder with the packages that drive it; `tests/run` sets both.
const CHROMIUM: &str = "AFTERWRITE_TEST_CHROMIUM";
const PACKAGES: &str = "AFTERWRITE_TEST_BROWSER_NODE";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/console/browser.mjs");
/// The widths of a telephone, a tablet and a desktop.
const WIDTHS: [u32; 3] = [360, 1024, 1600];
const SCHEMES: [&str; 2] = ["light", "dark"];

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

/// Opens pages in windows: nothing is wider than the window, contrast and structure meet WCAG AA, nothing moves after it was drawn, and no
/// script fails.
pub(super) fn look(url: &str, pages: &[(&str, String)]) {
    let pages = named(pages);
    // AFTERWRITE_CONSOLE_IMAGES names a folder that keeps the images.
    let images = std::env::var("AFTERWRITE_CONSOLE_IMAGES").ok();
    let windows = windows(is_full() || images.is_some());
    let looked = json!({ "pages": pages, "windows": windows, "images": images });
    carry_out(url, json!({ "look": looked }));
}

/// The windows in which pages are judged: each width with a colour scheme in turn, or with both.
fn windows(has_both: bool) -> Vec<Value> {
    let schemes = |number: usize| {
        let of_width = SCHEMES.iter().enumerate().filter(move |(turn, _)| has_both || number % 2 == *turn);
        of_width.map(|(_, scheme)| scheme)
    };
    let of_width =
        |(number, width)| schemes(number).map(move |scheme| json!({ "width": width, "scheme": scheme }));
    WIDTHS.iter().enumerate().flat_map(of_width).collect()
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
