//! Rules of this code base that a compiler does not know, checked on the repository's own files: its language, its names, and the
//! ways that its modules may depend on each other.
//!
//! Each rule is a module with the reason for it, and with a small bad example that proves that the rule can fail. A breach is
//! listed with its file, its line and a fix. A rule that cannot be kept everywhere yet lists its exceptions exactly: an exception
//! that is no longer needed fails the rule too.
//!
//! `cargo test -p afterwrite-house` compiles this package alone: seconds, before anything else is built.

#![cfg(test)]

mod circles;
mod crate_layers;
mod idiom;
mod imports;
mod invariants;
mod kinds;
mod lexer;
mod links;
mod manifests;
mod module_trees;
mod page_numbers;
mod prose;
mod sources;
mod type_names;
mod type_places;

use self::sources::{assert_kept, other_paths, repository};

#[test]
fn prose_and_names_are_free_of_retired_idiom() {
    assert_kept(idiom::RULE, idiom::REASON, idiom::breaches(repository()));
}

#[test]
fn no_public_type_name_is_defined_twice_in_a_crate() {
    assert_kept(type_names::UNIQUE_RULE, type_names::UNIQUE_REASON, type_names::duplicates(repository()));
}

#[test]
fn few_type_names_are_a_single_word() {
    let files = repository();
    let (count, one_word) = type_names::one_word_names(files);
    let limit = page_numbers::limit(files, type_names::ONE_WORD_LIMIT);
    let share =
        format!("{} of {count} type names are one word: {} %", one_word.len(), 100 * one_word.len() / count);
    println!("{share}");
    if 100 * one_word.len() > limit * count {
        let rule = format!("{} ({share}; at most {limit} %)", type_names::WORDS_RULE);
        assert_kept(&rule, type_names::WORDS_REASON, one_word);
    }
}

#[test]
fn files_do_not_import_each_other_in_circles() {
    assert_kept(circles::RULE, circles::REASON, circles::breaches(repository(), circles::KNOWN));
}

#[test]
fn every_source_file_belongs_to_a_target() {
    assert_kept(module_trees::RULE, module_trees::REASON, module_trees::orphans(repository()));
}

#[test]
fn files_and_functions_are_as_small_as_contributing_says() {
    let breaches = page_numbers::size_breaches(repository());
    assert_kept(page_numbers::SIZE_RULE, page_numbers::SIZE_REASON, breaches);
}

#[test]
fn pages_name_the_versions_that_the_build_needs() {
    let breaches = page_numbers::version_breaches(repository());
    assert_kept(page_numbers::VERSION_RULE, page_numbers::VERSION_REASON, breaches);
}

#[test]
fn links_lead_somewhere() {
    assert_kept(links::RULE, links::REASON, links::breaches(repository(), &other_paths()));
}

#[test]
fn kinds_of_model_parts_are_matched_exhaustively() {
    assert_kept(kinds::RULE, kinds::REASON, kinds::breaches(repository()));
}

#[test]
fn layers_keep_to_their_tasks() {
    assert_kept(invariants::LAYER_RULE, invariants::LAYER_REASON, invariants::layer_breaches(repository()));
}

#[test]
fn deployed_functions_link_nothing_of_a_developers_machine() {
    let breaches = invariants::dependency_breaches(repository());
    assert_kept(invariants::DEPENDENCY_RULE, invariants::DEPENDENCY_REASON, breaches);
}

#[test]
fn crates_import_as_the_picture_shows() {
    assert_kept(crate_layers::RULE, crate_layers::REASON, crate_layers::breaches(repository()));
}
