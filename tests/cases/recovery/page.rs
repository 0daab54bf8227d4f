//! The command lines of a page, so that a page that changes is tested.

use std::fs;
use std::path::Path;

/// The lines of a code block that a shell runs: settings (`export`) and commands of `afterwrite`.
pub(crate) type CommandBlock = Vec<String>;

/// The text of `docs/<page>`.
pub(crate) fn page_text(page: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    fs::read_to_string(&path).expect("a page")
}

/// The code blocks with a command of `afterwrite` below a heading of `docs/<page>`.
pub(crate) fn command_blocks(page: &str, heading: &str) -> Vec<CommandBlock> {
    let text = page_text(page);
    let title = format!("\n## {heading}\n");
    let start = text.find(&title).unwrap_or_else(|| panic!("{page} has no heading {heading}")) + title.len();
    let section = &text[start..];
    let end = ["\n## ", "\n# "].iter().filter_map(|next| section.find(next)).min().unwrap_or(section.len());
    let blocks = section[..end].split("```").skip(1).step_by(2);
    let blocks = blocks.map(|block| {
        let lines = block.lines().map(str::trim);
        lines.filter(|line| line.starts_with("afterwrite ") || line.starts_with("export ")).map(str::to_owned)
    });
    let blocks = blocks.map(Iterator::collect).filter(|block: &CommandBlock| !block.is_empty());
    blocks.collect()
}

/// The only code block with commands below a heading.
pub(crate) fn command_block(page: &str, heading: &str) -> CommandBlock {
    let mut blocks = command_blocks(page, heading);
    assert_eq!(blocks.len(), 1, "{page}, {heading}: {blocks:?}");
    blocks.remove(0)
}
