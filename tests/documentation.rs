//! What the documentation shows is what the product does.

use afterwrite::table::Model;

/// The TOML examples of a page, put together; every other line is blank, so that problems name the page's own lines.
fn examples(page: &str) -> String {
    let mut is_example = false;
    let mut shown = |line: &'_ str| -> String {
        let is_fence = line.starts_with("```");
        is_example = if is_fence { line == "```toml" } else { is_example };
        if is_example && !is_fence { format!("{line}\n") } else { "\n".to_owned() }
    };
    page.lines().map(&mut shown).collect()
}

#[test]
fn the_examples_of_the_table_model_page_are_one_model_that_loads() {
    let model = examples(include_str!("../docs/TABLE_MODEL.md"));
    let model = Model::parse(&model, "docs/TABLE_MODEL.md").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(&*model.name, "exams");
    assert_eq!((model.entities.len(), model.aggregates.len(), model.mirrors.len()), (2, 2, 1));
}
